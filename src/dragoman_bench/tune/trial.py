"""Makes the trials that a search asks for: starts a server, measures it, survives its death.

One server at a time: it stays up while the search asks for the same trial. A server that does not start or dies is an
outcome, told to the search like any other; so are an interrupt and a time limit, after which nothing is begun. Decides
nothing.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self, TypeVar

from dragoman_bench.bench.servers import Interrupted, ServerFault
from dragoman_bench.tune.points import Ask, Seen, Steps, Trial
from dragoman_bench.tune.running import Facts, Running, Unfit
from dragoman_bench.tune.store import Failure
from dragoman_bench.tune.workshop import BY_HAND, Workshop

_R = TypeVar("_R")


@dataclass(slots=True)
class Driver:
    """Use within `async with`: it may hold a server. `trials`: as they stand, in the order in which they came."""

    shop: Workshop
    trials: dict[str, Trial] = field(default_factory=dict[str, Trial])
    stopped: str = ""  # why something that was asked for was not begun; empty: nothing was
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _server: Running | None = None
    _where: str = ""  # the trial whose server it is, or would be

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the server, if one is up."""
        self._server = None
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    async def drive(self, steps: Steps[_R]) -> _R:
        """The search to its end; what it returns. Raises ConfigError where results cannot be written."""
        try:
            step = next(steps)
            while True:
                step = steps.send(await self._answered(step))
        except StopIteration as end:
            return end.value

    async def _answered(self, step: Ask | Trial) -> Trial:
        if isinstance(step, Trial):
            trial = step if step.outcome == "skipped" else self._told(step)
            if step.outcome == "skipped":
                self.shop.display.skipped(step)
        else:
            trial = await self._made(step, self.trials.get(step.trial) or _new(step))
        self.trials[trial.name] = trial
        return trial

    async def _made(self, ask: Ask, trial: Trial) -> Trial:
        """The trial with one more measurement, or with how it ended."""
        if self._where != ask.trial:
            await self.close()
            self._where = ask.trial
            self.shop.estimate.reached(ask.phase)
        if trial.outcome in ("did_not_start", "failed_under_load"):
            return trial
        kept = self.shop.recall(ask.trial, ask.setup, ask.level, ask.repeat)
        if kept is not None:
            seen, facts = kept
            self.shop.display.seen(seen, kept=True)
            self.shop.estimate.measured(ask.phase)
            return _with(trial, seen, facts)
        failure = self.shop.store.failure(ask.trial, ask.setup)
        if failure is not None:
            return self._told(replace(trial, outcome=failure.outcome, reason=failure.reason))
        why = self.shop.stopped(starts=self._server is None)
        return self._not_begun(trial, why) if why else await self._measured(ask, trial)

    async def _measured(self, ask: Ask, trial: Trial) -> Trial:
        try:
            server = self._server or await self._start(ask)
        except ServerFault as fault:
            return await self._failed(ask, trial, Failure("did_not_start", self.shop.reason(ask.trial, fault)))
        except Unfit as unfit:
            return await self._failed(ask, trial, Failure("failed_under_load", str(unfit)))
        except Interrupted:
            return self._not_begun(trial, BY_HAND)
        try:
            seen = await self.shop.measure(ask.trial, ask.setup, ask.phase, server, ask.level, ask.repeat, ask.note)
        except ServerFault as fault:
            trial = _told_by(trial, server.facts)
            return await self._failed(ask, trial, Failure("failed_under_load", self.shop.reason(ask.trial, fault)))
        if seen is None:
            return self._not_begun(trial, BY_HAND)
        self.shop.display.seen(seen, kept=False)
        return _with(trial, seen, server.facts)

    async def _start(self, ask: Ask) -> Running:
        shop = self.shop
        shop.display.left(shop.estimate.left_s)
        shop.display.starting(ask.trial, ask.why, shop.estimate.start_s)
        self._server = await self._stack.enter_async_context(shop.up(ask.trial, ask.setup))
        shop.estimate.started(ask.phase, self._server.facts.start_s)
        return self._server

    async def _failed(self, ask: Ask, trial: Trial, failure: Failure) -> Trial:
        """The ladder's failure is not kept: nothing goes on without it, and its cause may be mended before the next run."""
        await self.close()
        if ask.phase != "ladder":
            self.shop.store.save_failure(ask.trial, ask.setup, failure)
        return self._told(replace(trial, outcome=failure.outcome, reason=failure.reason))

    def _told(self, trial: Trial) -> Trial:
        self.shop.display.out(trial.name, trial.outcome, trial.reason)
        return trial

    def _not_begun(self, trial: Trial, why: str) -> Trial:
        """Interrupted where something was seen of it, or it was being made; else skipped."""
        first = not self.stopped
        self.stopped = self.stopped or why
        made = bool(trial.seen) or why == BY_HAND
        trial = replace(trial, outcome="interrupted" if made else "skipped", reason=why)
        if first or not made:
            self.shop.display.skipped(trial)
        return trial


def _new(ask: Ask) -> Trial:
    return Trial(ask.trial, ask.phase, ask.setup, ask.why)


def _told_by(trial: Trial, facts: Facts) -> Trial:
    return replace(
        trial,
        start_s=facts.start_s,
        kv_cache=facts.kv_cache,
        gpu_memory_utilization=facts.gpu_memory_utilization,
        engine=facts.engine,
    )


def _with(trial: Trial, seen: Seen, facts: Facts) -> Trial:
    return replace(_told_by(trial, facts), outcome="measured", reason="", seen=(*trial.seen, seen))
