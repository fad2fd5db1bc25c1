"""The training mixture: deterministic, aligned, with marks that source and reference share."""

import re
from collections import Counter
from dataclasses import replace

import pytest
from tools.phrasebook.corpus import packaged
from tools.phrasebook.mixture import SHORT, Mixture, Shares

from dragoman.phrasebook import LANGUAGES
from tools.phrasebook import lines

pytestmark = pytest.mark.acceptance

MARK = re.compile(r"</?[gx]\d+/?>")


@pytest.fixture(scope="module")
def mixture() -> Mixture:
    return Mixture(3, packaged(), lines.packaged())


def test_sources_and_references_have_the_same_marks_and_a_seed_repeats_them(mixture: Mixture) -> None:
    marked = 0
    for _ in range(1_500):
        message = mixture.message()
        marks = [
            Counter(MARK.findall(texts[language]))
            for texts in (message.texts, message.sources)
            for language in LANGUAGES
            if language in texts
        ]
        assert all(found == marks[0] for found in marks), message
        marked += bool(marks[0])
    assert marked > 50
    first, second = (Mixture(5, packaged(), lines.packaged()) for _ in range(2))
    assert [first.message() for _ in range(50)] == [second.message() for _ in range(50)]


def test_a_share_of_the_messages_is_a_line_that_people_type_first() -> None:
    rows = lines.packaged()
    first = {row.standard[0] for row in rows.lines if row.is_typed_first}
    drawn = {
        share: sum(mixture.message().texts["en"] in first for _ in range(400))
        for share in (0.0, 0.9)
        for mixture in [Mixture(5, packaged(), rows, typed_first=share)]
    }
    assert drawn[0.0] < 100
    assert drawn[0.9] > 250


def test_a_source_has_one_translation_however_it_is_typed() -> None:
    """Above all a bare one: "ok" is "OK." and not "OK?"."""
    rows = lines.packaged()
    typed = Shares(patterns=0, clauses=0, lines=0, typed=0.7, substituted=0, words=0.3)
    noise = replace(SHORT, slip=0.0, spaces=0.0)
    mixture = Mixture(7, packaged(), rows, alone=typed, noise=noise, short=noise)
    meanings: dict[tuple[str, str], dict[str, str]] = {}
    bare = 0
    for _ in range(8_000):
        message = mixture.message()
        if message.sentences > 1 or message.copied or any("<" in text for text in message.sources.values()):
            continue
        for language, source in message.sources.items():
            others = {other: text for other, text in message.texts.items() if other != language}
            assert meanings.setdefault((language, source.casefold()), others) == others, source
            bare += source.casefold() in ("ok", "okay")
    assert bare
