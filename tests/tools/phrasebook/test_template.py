"""The notation of patterns."""

import pytest
from tools.phrasebook.template import Particle, Slot, TemplateError, parse


def test_pieces_are_text_slots_and_particles() -> None:
    template = parse("{place:1}[은/는] {a:food}.")
    assert template.pieces == (
        Slot("place", "place:1", initial=True),
        Particle("은", "는"),
        " ",
        Slot("food", "food", article=True),
        ".",
    )


def test_a_slot_behind_a_sentence_break_opens_a_sentence() -> None:
    assert [slot.initial for slot in parse("Thanks. {name} saw {place}.").slots] == [True, False]


def test_abstract_keeps_kinds_and_wildcard_drops_them() -> None:
    template = parse("From {place:1} to {place:2}.")
    assert template.abstract() == "From {place} to {place}."
    assert template.wildcard() == "From {} to {}."


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Where is {place?", "unbalanced"),
        ("{place}[은/는 어디에 있나요?", "unbalanced"),
        ("{Place} is here.", "bad slot"),
        ("{place}[는/은] 여기예요.", "unknown particle"),
        ("{place}[은] 여기예요.", "unknown particle"),
    ],
)
def test_broken_notation_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(TemplateError, match=reason):
        parse(text)
