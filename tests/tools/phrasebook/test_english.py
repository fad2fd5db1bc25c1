"""English articles by sound."""

import pytest
from tools.phrasebook.english import capitalised, indefinite


@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        ("apple", "an apple"),
        ("sandwich", "a sandwich"),
        ("hour", "an hour"),
        ("hotel", "a hotel"),
        ("university", "a university"),
        ("uninteresting book", "an uninteresting book"),
        ("umbrella", "an umbrella"),
        ("USB cable", "a USB cable"),
        ("MRI scan", "an MRI scan"),
        ("one-way ticket", "a one-way ticket"),
        ("8", "an 8"),
        ("11", "an 11"),
        ("180", "a 180"),
        ("112", "a 112"),
    ],
)
def test_article_follows_the_sound(noun: str, expected: str) -> None:
    assert indefinite(noun) == expected


def test_only_the_first_letter_is_capitalised() -> None:
    assert capitalised("train to Seoul") == "Train to Seoul"
