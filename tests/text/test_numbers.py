"""Numbers lost in translation, and the many ways in which they are not."""

from __future__ import annotations

import pytest

from dragoman.text.numbers import numbers_lost


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("1,000 people", "1000人"),
        ("1.000 Leute", "1,000 people"),
        ("2 000 000", "200万"),
        ("1.5 million", "150万"),
        ("100万", "1 million"),
        ("$19.99", "19,99 $"),
        ("at 3:30 PM", "3時30分に"),
        ("at 15:30", "at 3:30 PM"),
        ("15.30 Uhr", "3:30 PM"),
        ("2024-03-05", "5 March 2024"),
        ("2024.03.05", "2024年3月5日"),
        ("２０２４年", "2024"),
        ("٣٥ كتابا", "35 books"),
        ("३५ किताबें", "35 books"),
        ("3 people", "three people"),
        ("12月", "December"),
        ("https://a.com/12345 {42}", "x"),
        ("+1 (555) 010-9999", "+1 (555) 010-9999"),
        ("no numbers", "none"),
    ],
)
def test_a_number_written_otherwise_is_not_lost(source: str, output: str) -> None:
    assert numbers_lost(source, output) == ()


@pytest.mark.parametrize(
    ("source", "output", "lost"),
    [
        ("invoice 4711", "Rechnung", ("4711",)),
        ("invoice 4711", "Rechnung 4712", ("4711",)),
        ("1,234 people", "234人", ("1,234",)),
        ("3.5 km", "three kilometres", ("3.5",)),
        ("from 37 to 42", "von 37", ("42",)),
        ("４２", "x", ("42",)),
        ("77 and 77", "x", ("77",)),
    ],
)
def test_a_number_with_no_trace_is_lost(source: str, output: str, lost: tuple[str, ...]) -> None:
    assert numbers_lost(source, output) == lost
