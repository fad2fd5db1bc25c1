"""Finds which of several suspects crashes an engine, by running halves of them: which may run now, and what a crash says.

Knows no engine and no clock: what happens is reported to it (`end`, `crash`), and `group` says who may run. Of n suspects of
which one is to blame the engine crashes at most ceil(log2(n)) + 1 times: once for each half that has it, and once when it runs
alone, in a run of the engine that has had nothing else. Only then it is convicted, so that neither a neighbour, nor one that
has left, nor the engine's load is taken for it. The rest waits until it is found, and then runs together, since several may be
to blame.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class SuspectSearch(Generic[T]):
    """A search among suspects. `group` may run, beside others unless `is_alone`.

    Its sets are dicts, which keep the order in which suspects came: each waiting sequence asks whether it is one of them.
    """

    def __init__(self, suspects: Iterable[T]) -> None:
        self.group: dict[T, None] = {}
        self.is_alone = False
        self.has_convicted = False
        self._candidates = dict.fromkeys(suspects)  # of which one is to blame
        self._later: dict[T, None] = {}
        self._next_group()

    def __contains__(self, one: T) -> bool:
        return one in self._candidates or one in self._later

    @property
    def is_over(self) -> bool:
        return not self.group

    def add(self, suspects: Iterable[T]) -> None:
        """Take more of them, which run after those that are searched now."""
        self._later |= dict.fromkeys(one for one in suspects if one not in self)
        if not self.group:
            self._next_group()

    def end(self, one: T) -> None:
        """Note that a suspect has ended without a crash. When its group has, the next one may run."""
        self._remove(one)
        if not self.group:
            self._next_group()

    def crash(self, in_flight: Collection[T], *, is_proven: bool) -> T | None:
        """Note a crash with these in the engine, some of the group among them; return the one that is convicted, if any.

        `is_proven`: where one runs alone, the engine works, since it has completed something since its start, and has been
        given nothing else that may be why it crashes. Otherwise the one runs alone once more.
        """
        ran = [one for one in self.group if one in in_flight]
        if self.is_alone:
            if not is_proven:
                return None
            [convicted] = ran
            self.has_convicted = True
            self.end(convicted)
            return convicted
        before, self._candidates = self._candidates, dict.fromkeys(ran)
        self._later |= dict.fromkeys(one for one in before if one not in self._candidates)
        self._next_group()
        return None

    def _remove(self, one: T) -> None:
        for members in (self.group, self._candidates, self._later):
            members.pop(one, None)

    def _next_group(self) -> None:
        if self._candidates:
            self.group = dict.fromkeys(islice(self._candidates, (len(self._candidates) + 1) // 2))
            self.is_alone = len(self._candidates) == 1
        else:  # perhaps none of the rest is to blame
            self._candidates, self._later = self._later, {}
            self.group, self.is_alone = self._candidates.copy(), False
