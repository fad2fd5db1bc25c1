"""The final: the finalist against the baselines, in rounds whose order turns, so that drift spreads over all.

All servers are up at once where memory allows (one that idles slows nobody); else they are started one after another, round
by round. A contender that does not start or dies is out, and said to be. Knows neither which contenders there are nor what
the numbers prove.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import ClassVar

import psutil

from dragoman_bench.bench.servers import Interrupted, ServerFault
from dragoman_bench.journey.versus import turn_order
from dragoman_bench.tune.contenders import Sharing, shared
from dragoman_bench.tune.faults import about_memory
from dragoman_bench.tune.outcome import Contender, Final, Metric, Standing
from dragoman_bench.tune.points import Level, Outcome, Seen
from dragoman_bench.tune.running import Facts, Running, Unfit
from dragoman_bench.tune.workshop import BY_HAND, Workshop

ROUSED = 0.5
"""Of a measurement's length, the warm-up before it for a server that idled beside others meanwhile: its caches are cold, and an
operating system may have taken its memory's pages."""
HEADROOM = 1.25  # of free memory over what the largest server so far takes, before one more is started beside it


@dataclass(frozen=True, slots=True)
class Match:
    """`low` None: it is the busy level too. Every round measures `busy`, the first one `low` as well."""

    contenders: tuple[Contender, ...]
    busy: Level
    low: Level | None
    rounds: int
    metric: Metric
    sharing: Sharing

    def levels(self, turn: int) -> tuple[Level, ...]:
        return (self.busy, self.low) if turn == 0 and self.low is not None else (self.busy,)

    @property
    def measurements(self) -> int:
        return sum(len(self.levels(turn)) for turn in range(self.rounds)) * len(self.contenders)


class NoRoom(Exception):
    """Not all can be up at once. The message says why."""


async def hold(shop: Workshop, match: Match) -> Final:
    """All rounds, or those that an interrupt and the time limit leave. Raises ConfigError where results cannot be
    written."""
    if match.sharing.together:
        try:
            fighters = [shared(one, match.sharing) for one in match.contenders]
            return await _Together(_roused(shop), match, fighters).go()
        except NoRoom as why:
            sharing = Sharing(False, f"one server was up at a time, with the memory that it asks for: {why}")
            shop.display.note(sharing.told)
            match = replace(match, sharing=sharing)
    return await _InTurn(shop, match, list(match.contenders)).go()


def _roused(shop: Workshop) -> Workshop:
    """With a longer warm-up before each measurement."""
    pace = shop.meter.pace
    return replace(
        shop, meter=replace(shop.meter, pace=replace(pace, warmup_s=max(pace.warmup_s, ROUSED * pace.duration_s)))
    )


@dataclass(slots=True)
class _Corner:
    """A contender as it is started here, and what is known of it so far."""

    contender: Contender
    outcome: Outcome = "measured"
    reason: str = ""
    busy: list[Seen] = field(default_factory=list[Seen])
    low: list[Seen] = field(default_factory=list[Seen])
    facts: Facts | None = None

    @property
    def name(self) -> str:
        return f"final-{self.contender.name}"

    @property
    def out(self) -> bool:
        return self.outcome != "measured"

    def end(self, outcome: Outcome, reason: str) -> None:
        self.outcome, self.reason = outcome, reason

    def standing(self, memory_told: bool) -> Standing:
        """`memory_told`: whether what the GPU held was this server's alone."""
        facts = self.facts
        held = [seen.gpu_memory_mib for seen in (*self.busy, *self.low) if seen.gpu_memory_mib is not None]
        return Standing(
            contender=self.contender,
            outcome=self.outcome,
            reason=self.reason,
            busy=tuple(self.busy),
            low=tuple(self.low),
            start_s=facts.start_s if facts else None,
            kv_cache=facts.kv_cache if facts else None,
            gpu_memory_mib=max(held, default=None) if memory_told else None,
        )


class _Ring:
    """What both ways share: rounds, turns, measuring."""

    together: ClassVar[bool]

    def __init__(self, shop: Workshop, match: Match, contenders: list[Contender]) -> None:
        self._shop = shop
        self._match = match
        self._corners = [_Corner(contender) for contender in contenders]

    async def _rounds(self, visit: Callable[[_Corner, int], Awaitable[None]], *, starts: bool) -> int:
        """How many were gone through."""
        for turn in range(self._match.rounds):
            standing = [corner for corner in self._corners if not corner.out]
            if not standing:
                return turn
            missing = [corner for corner in standing if not self._known(corner, turn)]
            measurements = len(missing) * len(self._match.levels(turn))
            why = self._shop.stopped(starts=len(missing) if starts else 0, measurements=measurements)
            if missing and why:
                return self._stopped(turn, why)
            for place in turn_order(len(self._corners), turn):
                if not self._corners[place].out:
                    await visit(self._corners[place], turn)
            if self._shop.meter.interrupted.is_set():
                return self._stopped(turn, BY_HAND)
        return self._match.rounds

    def _stopped(self, turn: int, why: str) -> int:
        """Those that nothing was seen of are told to have been skipped; what was seen of others stands."""
        self._shop.display.note(f"the final ended after {turn} of {self._match.rounds} rounds: {why}")
        for corner in self._corners:
            if not corner.out and not corner.busy:
                corner.end("interrupted" if why == BY_HAND else "skipped", why)
        return turn

    def _known(self, corner: _Corner, turn: int) -> bool:
        """Whether an earlier run has all of a contender's turn."""
        setup = corner.contender.setup
        repeats = ((level, turn if level == self._match.busy else 0) for level in self._match.levels(turn))
        return all(self._shop.recall(corner.name, setup, level, repeat) for level, repeat in repeats)

    async def _measure(self, corner: _Corner, server: Running | None, turn: int) -> None:
        for level in self._match.levels(turn):
            seen = await self._seen(corner, server, level, turn if level == self._match.busy else 0)
            if seen is None:
                return
            (corner.busy if level == self._match.busy else corner.low).append(seen)

    async def _seen(self, corner: _Corner, server: Running | None, level: Level, repeat: int) -> Seen | None:
        setup = corner.contender.setup
        kept = self._shop.recall(corner.name, setup, level, repeat)
        if kept is not None:
            seen, corner.facts = kept
            self._shop.display.told(corner.name, seen, kept=True)
            self._shop.estimate.measured("final")
            return seen
        if server is None or corner.out:
            return None
        note = f"round {repeat + 1} of {self._match.rounds}"
        try:
            seen = await self._shop.measure(corner.name, setup, "final", server, level, repeat, note)
        except ServerFault as fault:
            self._fail(corner, "failed_under_load", self._shop.reason(corner.name, fault))
            return None
        if seen is not None:
            corner.facts = server.facts
            self._shop.display.told(corner.name, seen, kept=False)
        return seen

    async def _start(self, corner: _Corner, stack: AsyncExitStack) -> Running | None:
        """None where it is out now. Raises NoRoom where memory is what it lacks beside the others."""
        shop, setup = self._shop, corner.contender.setup
        shop.display.left(shop.estimate.left_s)
        shop.display.starting(corner.name, corner.contender.title, shop.estimate.start_s)
        try:
            server = await stack.enter_async_context(shop.up(corner.name, setup))
        except ServerFault as fault:
            reason = shop.reason(corner.name, fault)
            if self.together and about_memory(reason):
                raise NoRoom(f"{corner.contender.title} did not start beside the others ({reason})") from fault
            self._fail(corner, "did_not_start", reason)
        except Unfit as unfit:
            self._fail(corner, "failed_under_load", str(unfit))
        except Interrupted:
            corner.end("interrupted", BY_HAND)
        else:
            shop.estimate.started("final", server.facts.start_s)
            return server
        return None

    def _fail(self, corner: _Corner, outcome: Outcome, reason: str) -> None:
        corner.end(outcome, reason)
        self._shop.display.out(corner.name, outcome, reason)

    def _final(self, rounds: int) -> Final:
        standings = tuple(corner.standing(memory_told=not self.together) for corner in self._corners)
        told = self._match.sharing.told
        preempted = [one.contender.title for one in standings if any(seen.preemptions for seen in one.busy)]
        if preempted:
            told += f"; requests were preempted, and so slowed, in {', '.join(preempted)}"
        return Final(standings, rounds, self.together, told, self._match.metric)


class _Together(_Ring):
    """All up, then measured in turn."""

    together = True

    async def go(self) -> Final:
        """Raises NoRoom where not all can be up at once."""
        servers: dict[str, Running] = {}

        async def visit(corner: _Corner, turn: int) -> None:
            await self._measure(corner, servers.get(corner.name), turn)

        async with AsyncExitStack() as stack:
            for corner in self._corners:
                if all(self._known(corner, turn) for turn in range(self._match.rounds)):
                    continue
                if why := self._shop.stopped(starts=1):
                    corner.end("interrupted" if why == BY_HAND else "skipped", why)
                    continue
                _check_room(list(servers.values()))
                server = await self._start(corner, stack)
                if server is not None:
                    servers[corner.name] = server
            done = await self._rounds(visit, starts=False)
        return self._final(done)


class _InTurn(_Ring):
    """One at a time: started for each of its turns."""

    together = False

    async def go(self) -> Final:
        return self._final(await self._rounds(self._visit, starts=True))

    async def _visit(self, corner: _Corner, turn: int) -> None:
        async with AsyncExitStack() as stack:
            server = None if self._known(corner, turn) else await self._start(corner, stack)
            await self._measure(corner, server, turn)


def _check_room(servers: list[Running]) -> None:
    """Raises NoRoom where one more server, as large as the largest, would leave the machine without memory."""
    largest = max((server.server.memory_bytes() for server in servers), default=0)
    free = psutil.virtual_memory().available
    if largest * HEADROOM > free:
        raise NoRoom(f"{free / 2**30:.1f} GiB are free, and a server takes {largest / 2**30:.1f}")
