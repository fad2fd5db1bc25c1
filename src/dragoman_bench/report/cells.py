"""One cell of a table: a number as people read it, how far the repeats spread, and whether it is good news.

Knows neither HTML nor Markdown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dragoman_bench.bench.results import Spread
from dragoman_bench.report.charts.numbers import number

Tone = Literal["", "good", "bad"]
NONE = "–"


@dataclass(frozen=True, slots=True)
class Cell:
    """`detail` is said smaller, after the text."""

    text: str
    detail: str = ""
    tone: Tone = ""

    @property
    def empty(self) -> bool:
        return self.text == NONE


EMPTY = Cell(NONE)


def spread(found: Spread | None, times: float = 1.0, unit: str = "") -> Cell:
    """The median, and where there are repeats the lowest and highest of them. `times` converts units."""
    if found is None:
        return EMPTY
    range_ = f"[{number(found.low * times)}..{number(found.high * times)}]" if found.repeats > 1 else ""
    return Cell(number(found.median * times) + unit, range_)


def count(value: float | None) -> Cell:
    return EMPTY if value is None else Cell(f"{value:,.0f}")
