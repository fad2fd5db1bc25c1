"""Texts as rows of numbers: what distributions are computed from, be it of files or of the last hour.

What is not known of a text is NaN. Knows columns; what they are asked is `summary`'s.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Column(IntEnum):
    ARRIVED_UNIX_S = 0
    E2E_S = 1
    IN_FLIGHT = 2
    SOURCE_TOKENS = 3
    PROMPT_TOKENS = 4
    OUTPUT_TOKENS = 5
    QUEUE_S = 6
    TTFT_S = 7
    OUTCOME = 8  # its place in `Outcomes.names`


class Text(Protocol):
    """A `TextRecord`, or an `Entry` read from a file."""

    @property
    def arrived_unix_s(self) -> float: ...
    @property
    def e2e_s(self) -> float: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def source_tokens(self) -> int: ...
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def queue_s(self) -> float | None: ...
    @property
    def ttft_s(self) -> float | None: ...
    @property
    def outcome(self) -> str: ...


@dataclass(slots=True)
class Outcomes:
    """Outcomes as numbers, in the order in which they first came. There are few: error codes are."""

    numbers: dict[str, int] = field(default_factory=dict[str, int])

    def number(self, outcome: str) -> int:
        return self.numbers.setdefault(outcome, len(self.numbers))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.numbers)


@dataclass(frozen=True, slots=True)
class Table:
    """`rows`: one a text, columns as in `Column`."""

    rows: Floats
    outcomes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, column: Column) -> Floats:
        return self.rows[:, column]

    def where(self, chosen: NDArray[np.bool_]) -> Table:
        return Table(self.rows[chosen], self.outcomes)

    @property
    def ok(self) -> NDArray[np.bool_]:
        """Which texts were translated."""
        number = self.outcomes.index("ok") if "ok" in self.outcomes else -1
        return self.column(Column.OUTCOME) == number


def row_of(text: Text, outcomes: Outcomes) -> tuple[float | None, ...]:
    """A text's row; None becomes NaN in the table."""
    return (
        text.arrived_unix_s,
        text.e2e_s,
        text.in_flight,
        text.source_tokens,
        text.prompt_tokens,
        text.output_tokens,
        text.queue_s,
        text.ttft_s,
        outcomes.number(text.outcome),
    )


def table_of(texts: Iterable[Text]) -> Table:
    outcomes = Outcomes()
    rows = [row_of(text, outcomes) for text in texts]
    return Table(np.array(rows, dtype=np.float64).reshape(len(rows), len(Column)), outcomes.names)
