"""Admission: a permit, or a refusal with a reason, before anything is accepted.

The bound is on texts in the house, running or queued. What is admitted is owed exactly one answer; what is not was never
accepted. Retry-After is the time that the excess needs at the rate that texts were really leaving.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Literal

from dragoman.errors import Draining, QueueFull, Starting

State = Literal["starting", "serving", "draining"]

CHARACTERS_PER_COST = 2000  # a book chapter holds as many sequences as many short texts do
SHORTEST_RETRY_S, LONGEST_RETRY_S = 1.0, 60.0


def cost(texts: tuple[str, ...]) -> int:
    """How many places a call takes: one a text, more for long ones."""
    return sum(1 + len(text) // CHARACTERS_PER_COST for text in texts)


class Admission:
    """Counts what is in the house. `texts_per_s` is asked only when a call is refused."""

    def __init__(self, limit: int, texts_per_s: Callable[[], float]) -> None:
        self.limit = limit
        self.state: State = "starting"
        self.held = 0  # places taken by admitted calls
        self.calls = 0
        self.refused = 0
        self._texts_per_s = texts_per_s
        self._empty = asyncio.Event()
        self._empty.set()

    def open(self) -> None:
        """The engine answers: admit."""
        if self.state == "starting":
            self.state = "serving"

    def drain(self) -> None:
        """Admit nothing more."""
        self.state = "draining"

    async def drained(self) -> None:
        """Return once nothing admitted is left."""
        await self._empty.wait()

    @contextmanager
    def permit(self, places: int) -> Generator[None]:
        """Hold `places` while within. Raises `Starting`, `Draining` or `QueueFull`.

        A call larger than the whole limit is let in when the house is empty: else it could never be served.
        """
        self._refuse_unless_open()
        if self.held and self.held + places > self.limit:
            self.refused += 1
            raise QueueFull(
                f"the queue is full: {self.held} texts in flight or waiting, {self.limit} allowed",
                retry_after_s=self._retry_after_s(places),
            )
        self.held += places
        self.calls += 1
        self._empty.clear()
        try:
            yield
        finally:
            self.held -= places
            self.calls -= 1
            if not self.calls:
                self._empty.set()

    def _refuse_unless_open(self) -> None:
        if self.state == "starting":
            raise Starting("the engine is starting; see /readyz")
        if self.state == "draining":
            raise Draining("the server is shutting down; send the request elsewhere")

    def _retry_after_s(self, places: int) -> float:
        rate = self._texts_per_s()
        excess = self.held + places - self.limit
        wait_s = excess / rate if rate > 0 else LONGEST_RETRY_S
        return math.ceil(min(max(wait_s, SHORTEST_RETRY_S), LONGEST_RETRY_S))
