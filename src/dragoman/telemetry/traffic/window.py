"""The texts of the last hour, in memory: what `GET /v1/traffic` answers from. Bounded; the oldest go first.

Knows nothing of files: it is there when nothing is recorded on disk too.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from dragoman.telemetry.calls import Observer, TextRecord
from dragoman.telemetry.traffic.summary import Summary, summarise
from dragoman.telemetry.traffic.table import Column, Floats, Outcomes, Table, row_of

WINDOW_S = 3600.0
MOST_TEXTS = 2**18  # an hour at 72 texts a second; 19 MB when full, taken as it fills


class TrafficWindow(Observer):
    """A ring of rows, written on the event loop. Reading copies it without stopping the writer: from any thread."""

    def __init__(
        self, window_s: float = WINDOW_S, most: int = MOST_TEXTS, clock: Callable[[], float] = time.time
    ) -> None:
        self._window_s = window_s
        self._clock = clock
        self._since_unix_s = clock()
        self._rows: Floats = np.zeros((most, len(Column)))  # the system gives memory when a row is written
        self._outcomes = Outcomes()
        self._count = 0

    def text_ended(self, text: TextRecord) -> None:
        self._rows[self._count % len(self._rows)] = row_of(text, self._outcomes)
        self._count += 1

    def summary(self) -> Summary:
        """Of the texts that ended within the window. A full one takes a tenth of a second: not on the event loop."""
        rows, forgotten = self._copied()
        ended = rows[:, Column.ARRIVED_UNIX_S] + rows[:, Column.E2E_S]
        now_unix_s = self._clock()
        since_unix_s = max(self._since_unix_s, now_unix_s - self._window_s)
        if forgotten and len(rows):  # more came than are kept
            since_unix_s = max(since_unix_s, float(ended.min()))
        table = Table(rows[ended >= since_unix_s], self._outcomes.names)
        return summarise(table, round(max(now_unix_s - since_unix_s, 1e-3), 3))

    def _copied(self) -> tuple[Floats, bool]:
        """The rows, less those that were overwritten while they were copied; and whether older ones are gone."""
        most, before = len(self._rows), self._count
        rows = self._rows[: min(before, most)].copy()
        touched = [number % most for number in range(max(before, most), self._count + 1)]
        return np.delete(rows, [place for place in touched if place < len(rows)], axis=0), before >= most
