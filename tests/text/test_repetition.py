"""Loops are told from laughter, emphasis, rulers, and choruses that the source has too."""

from __future__ import annotations

import random

import pytest

from dragoman.text.repetition import repeats


@pytest.mark.parametrize(
    "output",
    [
        "!" * 40,
        "ha" * 20,
        "the same thing " * 6,
        "Well, this began well. " + "and then it did not, " * 5,
        "This is quite a long sentence that says something at some length. " * 4,
        "before " + "哈" * 50 + " after, and on it goes",
        "a\n" * 30,
    ],
)
def test_a_loop_is_told(output: str) -> None:
    assert repeats("An ordinary sentence.", output)


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("いいえええええ", "Nooooooooooooo"),
        ("ㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋ", "ha" * 16),
        ("哈哈哈哈哈哈哈哈", "hahahahahahahahahaha"),
        ("-" * 60, "-" * 60),
        ("let it be, " * 8, "lass es sein, " * 8),
        ("No, no, no!", "Nein, nein, nein!"),
        ("x", ""),
        ("wait", "wait..............."),
    ],
)
def test_legitimate_repetition_is_no_loop(source: str, output: str) -> None:
    assert not repeats(source, output)


def test_ordinary_long_text_is_no_loop() -> None:
    rng = random.Random(1)
    vocabulary = ["the", "of", "and", "house", "river", "walked", "slowly", "a", "to", "light", "again", "never"]
    assert not repeats("x", " ".join(rng.choice(vocabulary) for _ in range(5000)))
    assert not repeats("x", " ".join(str(number) for number in range(3000)))
    assert not repeats("x", "\n".join(f"Item {number}: done, with remarks" for number in range(500)))


@pytest.mark.parametrize("unit", [1, 2, 5, 8, 9, 30, 200])
def test_a_unit_of_any_length_is_told(unit: int) -> None:
    text = "".join(chr(ord("a") + index % 26) + str(index) for index in range(unit))[:unit]
    assert repeats("x", text * max(4, 24 // unit + 1))
    assert not repeats("x", text * 2)
