"""Admission control: a call gets a permit, or an error with a reason, before any work is done for it.

The bound is on the characters of in-flight calls. A call is admitted while they are below the limit, however large it is
itself, so that a large call can be served by a busy server. Beyond it a call is still admitted while its account has less than
an equal share of the limit, so that nobody is refused because of what others have sent. Bulk calls do not count against
interactive ones: a bulk call of the limit's size would otherwise have them refused until it ends. Retry-After is the time that
the excess needs at the rate at which characters were really leaving.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from dragoman.errors import Draining, QueueFull, Starting
from dragoman.types import Priority

AdmissionState = Literal["starting", "serving", "draining"]

BASE_CHARACTERS = 250_000
CHARACTERS_PER_SLOT = 4_000
SHORTEST_RETRY_S, LONGEST_RETRY_S = 1.0, 60.0


def default_limit(slots: int) -> int:
    """Return the limit of characters in flight, for a server whose settings name none.

    Enough that slow pipelines of few slots take a burst, and in proportion to what the engines run at the same time.
    """
    return BASE_CHARACTERS + CHARACTERS_PER_SLOT * slots


@dataclass(slots=True)
class Permit:
    """The characters of one admitted call that are still in flight, also counted in the sums of all calls by priority."""

    characters: int
    priority: Priority
    in_flight: dict[Priority, int]
    account_id: str
    of_accounts: Counter[str]

    def release(self, characters: int) -> None:
        """Count so many of them as translated."""
        self.characters -= characters
        self.in_flight[self.priority] -= characters
        self.of_accounts[self.account_id] -= characters


class Admission:
    """Counts in-flight calls and their characters. `characters_per_s` is called only when a call is refused."""

    def __init__(self, limit: int, characters_per_s: Callable[[], float]) -> None:
        self.limit = limit  # characters
        self.state: AdmissionState = "starting"
        self.calls = 0
        self.refused = 0
        self._in_flight: dict[Priority, int] = {"interactive": 0, "bulk": 0}  # characters
        self._of_accounts: dict[Priority, Counter[str]] = {"interactive": Counter(), "bulk": Counter()}  # likewise
        self._calls_of: dict[Priority, Counter[str]] = {"interactive": Counter(), "bulk": Counter()}  # in flight
        self._characters_per_s = characters_per_s
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def characters(self) -> int:
        """Characters of all in-flight calls."""
        return sum(self._in_flight.values())

    def open(self) -> None:
        """Admit calls, as the engine answers, unless the server drains already."""
        if self.state == "starting":
            self.state = "serving"

    def drain(self) -> None:
        """Admit nothing more."""
        self.state = "draining"

    async def drained(self) -> None:
        """Wait until no call is in flight."""
        await self._empty.wait()

    def check_open(self) -> None:
        """Raise `Starting` or `Draining` unless calls are admitted now. Never `QueueFull`: a full queue is no fault."""
        if self.state == "starting":
            raise Starting("the engine is starting; see /readyz")
        if self.state == "draining":
            raise Draining("the server is shutting down; send the request elsewhere")

    @contextmanager
    def permit(self, characters: int, priority: Priority = "interactive", account_id: str = "") -> Generator[Permit]:
        """Admit a call of so many characters of an account, for the context. Raises `Starting`, `Draining` or `QueueFull`."""
        if self.state != "serving":
            self.check_open()
        ahead = self._in_flight["interactive"] if priority == "interactive" else self.characters
        if ahead >= self.limit and self._has_its_share(account_id, priority):
            self.refused += 1
            raise QueueFull(
                f"the queue is full: {ahead} characters are in flight, the limit is {self.limit}",
                retry_after_s=self._retry_after_s(ahead),
            )
        own, calls_of = self._of_accounts[priority], self._calls_of[priority]
        permit = Permit(characters, priority, self._in_flight, account_id, own)
        self._in_flight[priority] += characters
        own[account_id] += characters
        calls_of[account_id] += 1
        self.calls += 1
        self._empty.clear()
        try:
            yield permit
        finally:
            permit.release(permit.characters)
            self.calls -= 1
            calls_of[account_id] -= 1
            if not calls_of[account_id]:
                del calls_of[account_id], own[account_id]
            if not self.calls:
                self._empty.set()

    def _has_its_share(self, account_id: str, priority: Priority) -> bool:
        """Whether an account has an equal share of the limit in flight, of what counts against its calls of this priority."""
        counted: tuple[Priority, ...] = ("interactive",) if priority == "interactive" else ("interactive", "bulk")
        accounts = {account_id}.union(*(self._calls_of[one] for one in counted))
        return sum(self._of_accounts[one][account_id] for one in counted) * len(accounts) >= self.limit

    def _retry_after_s(self, ahead: int) -> float:
        rate = self._characters_per_s()
        excess = ahead - self.limit + 1
        wait_s = excess / rate if rate > 0 else LONGEST_RETRY_S
        return math.ceil(min(max(wait_s, SHORTEST_RETRY_S), LONGEST_RETRY_S))
