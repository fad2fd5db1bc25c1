"""Where warnings say that something is: offsets of sentences and segments in the translation and in its source."""

from __future__ import annotations

import pytest

from dragoman.types import Translation
from tests.service.test_examples import translated

SOURCES = {
    "We met at the old harbour.": "Wir trafen uns am alten Hafen.",
    "The waiter could not be found anywhere.": "The waiter was nowhere to be seen today.",
    "Nobody wanted to pay for us.": "Niemand wollte für uns bezahlen.",
    "Who has seen the waiter?": "Den Kellner hat keiner gesehen.",
    "🌧️ It rained all day.": "🌧️ Es regnete den ganzen Tag.",
}


def answer(turns: list[str]) -> str:
    """A model that answers in English now and then, and answers questions."""
    text = turns[-1]
    for source, translation in SOURCES.items():
        text = text.replace(source, translation)
    return text.partition("<source>")[2].partition("</source>")[0] if "<source>" in text else text


def places(found: Translation, source: str) -> dict[str, list[tuple[str, str | None]]]:
    """By code, the parts of the translation that a warning names, with those of the source."""
    return {
        one.code: [
            (
                found.text[at.start : at.end],
                None if at.source_start is None else source[at.source_start : at.source_end],
            )
            for at in one.places
        ]
        for one in found.warnings
    }


FIRST, ENGLISH, LAST, QUESTION, RAIN = SOURCES


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (f"{FIRST} {ENGLISH} {LAST}", {"wrong_language": [ENGLISH]}),
        (f"  {RAIN}\n\n{FIRST} {ENGLISH}\n\n{LAST}\n", {"wrong_language": [ENGLISH]}),
        (f"{ENGLISH} {FIRST}\n\n{LAST} {QUESTION}", {"wrong_language": [ENGLISH], "answered": [QUESTION]}),
        (f"{RAIN} {ENGLISH}\n{QUESTION}", {"wrong_language": [ENGLISH], "answered": [QUESTION]}),
        (ENGLISH, {"wrong_language": [ENGLISH]}),
    ],
)
async def test_a_warning_names_the_sentence(source: str, expected: dict[str, list[str]]) -> None:
    found, _ = await translated(answer, source)
    named = {code: [(SOURCES[one], one) for one in sentences] for code, sentences in expected.items()}
    assert places(found, source) == named


async def test_where_sentences_are_joined_the_segment_is_named() -> None:
    source = f"{FIRST} {ENGLISH}"
    joined = "We met each other at the harbour, and the waiter was nowhere to be seen."
    found, _ = await translated(lambda _: joined, source)
    assert places(found, source)["wrong_language"] == [(joined, source)]


async def test_in_a_document_with_markup_the_block_is_named() -> None:
    source = f"<h1>{FIRST}</h1>\n<p>{ENGLISH}</p>"
    found, _ = await translated(answer, source, format="html")
    assert places(found, source)["wrong_language"] == [(SOURCES[ENGLISH], ENGLISH)]
