"""Trials: starts a server, measures it at the levels that a search asks for, and reports a crash as a result.

`Servers` starts and measures; `TrialRunner` answers a search's measurements with it, one server at a time: it stays up while
the search asks for the same trial. After an interrupt, or where the time limit leaves too little, nothing is begun.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self, TypeVar
from zlib import crc32

import aiohttp
from pydantic import ValidationError

from dragoman.errors import ConfigError
from dragoman.wire import Stats
from dragoman_bench.bench.benchmark import WARMUP_VARIATION, Plan, PreparedBenchmark, Warmup, prepared
from dragoman_bench.bench.client import TargetOptions
from dragoman_bench.bench.results import Distribution, Load, Measurement, Point, members, number
from dragoman_bench.bench.results import Results as ResultsFile
from dragoman_bench.bench.servers import (
    Interrupted,
    RunningServer,
    ServerCommand,
    ServerFault,
    dragoman_serve,
    serving,
    vllm_serve,
)
from dragoman_bench.bench.summary import Observed, Slo, spreads, summarise
from dragoman_bench.journey.steps import Pace, Subject
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.outcome import KvCache, LevelResult, LoadLevel, Measure, Outcome, Phase, Search, Setup, Trial
from dragoman_bench.tune.progress import TuneProgress
from dragoman_bench.tune.store import ServerFacts, TrialStore

BY_HAND = "stopped by hand"
_TIMEOUT_S = 10.0  # for a server's state
_REPEATS_APART = 20  # variations between two levels: more repeats than anybody measures
_R = TypeVar("_R")

StartCommand = Callable[[str, Setup, Path], ServerCommand]
"""How a server is started: its name, its setup, and a file for its engine's log."""


def server_command(subject: Subject) -> StartCommand:
    """Servers of the subject's model."""

    def command(name: str, setup: Setup, engine_log: Path) -> ServerCommand:
        if setup.kind == "dragoman":
            return dragoman_serve(name, {**subject.dragoman, **setup.flags}, engine_log)
        return vllm_serve(name, subject.path, {**subject.vllm, **subject.limits, **setup.flags})

    return command


class CannotTranslate(Exception):
    """A server that started and does not answer a text. The message is for people."""


@dataclass(frozen=True, slots=True)
class TrialServer:
    """A server that is up and has answered a text of each language pair."""

    server: RunningServer
    bench: PreparedBenchmark
    facts: ServerFacts

    async def check(self) -> None:
        """Raises ServerFault where it crashed or is not ready any more: an engine can crash behind a server."""
        self.server.check_alive()
        status = await _status(self.server.url + self.server.command.ready_path)
        self.server.check_alive()
        if status != 200:
            answered = f"answers {status}" if status else "does not answer"
            raise ServerFault(f"{self.server.command.name} {answered} when asked whether it is ready")


@dataclass(frozen=True, slots=True)
class Servers:
    """Starts servers and measures them, or takes what an earlier run measured under the same conditions.

    `deadline_s`: on `clock`; nothing is begun that would not end before it.
    """

    subject: Subject
    demand: Demand
    pace: Pace
    slo: Slo | None
    store: TrialStore
    progress: TuneProgress
    interrupted: asyncio.Event
    command: StartCommand
    deadline_s: float | None = None
    clock: Callable[[], float] = monotonic

    def stopped(self, *, starts: int = 0, measurements: int = 1) -> str:
        """Why nothing more is begun, given what is to be begun; empty where it is."""
        if self.interrupted.is_set():
            return BY_HAND
        needed_s = self.progress.estimate.cost_s(starts, measurements)
        if self.deadline_s is not None and self.clock() + needed_s > self.deadline_s:
            return "the time limit leaves too little time for it"
        return ""

    @asynccontextmanager
    async def running(self, name: str, setup: Setup) -> AsyncGenerator[TrialServer]:
        """Raises ServerFault where it does not start, CannotTranslate where it starts and does not translate, Interrupted."""
        command = self.command(name, setup, self.store.engine_log(name))
        target = self.subject.asked if setup.kind == "vllm" else TargetOptions()
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(serving(command, self.store.server_log(name), self.interrupted))
            before = await _stats(server.url)
            plan = self._plan(server.url, target, LoadLevel(1))
            try:
                bench = await stack.enter_async_context(prepared(plan))
            except ConfigError as error:
                raise CannotTranslate(error.message) from error
            yield TrialServer(server, bench, self._facts(server.start_s, before, await _stats(server.url)))

    def stored(self, name: str, setup: Setup, level: LoadLevel, repeat: int) -> tuple[LevelResult, ServerFacts] | None:
        """What an earlier run measured, judged by the present SLO."""
        stored = self.store.load(name, setup, level, repeat)
        if stored is None:
            return None
        old = stored.measurement
        observed = Observed(old.records, old.window_s, old.stopped, old.itl_histogram, old.server, old.gpu)
        return level_result(replace(old, summary=summarise(observed, self.slo)), level, stored.file), stored.facts

    async def measure(
        self, name: str, setup: Setup, phase: Phase, server: TrialServer, level: LoadLevel, repeat: int, note: str = ""
    ) -> LevelResult | None:
        """Measures and stores; None where it was interrupted. Raises ServerFault where the server crashed or answered
        nothing, ConfigError where results cannot be written.

        Level and repeat decide which texts are sent: two servers get the same ones, and one server no made-up text twice.
        """
        self.progress.measuring(name, level, note)
        if self.interrupted.is_set():
            return None
        began_s = monotonic()
        bench = server.bench
        plan = self._plan(bench.plan.url, bench.plan.target, level)
        measurement = await replace(bench, plan=plan).measure(
            0, variation_of(level, repeat), self.progress, self.interrupted
        )
        if measurement is None or measurement.stopped == "interrupted":
            return None
        measurement = replace(measurement, repeat=repeat)
        await server.check()
        if not measurement.summary.completed:
            requests, timeout_s = measurement.summary.requests, self.pace.timeout_s
            raise ServerFault(f"{name} answered none of {requests} requests within {timeout_s:g} s")
        self.progress.estimate.measured(phase, monotonic() - began_s)
        notes = self.store.notes(name, setup, level, server.facts)
        file = self.store.save(name, level, repeat, self._results_file(bench, plan, level, measurement, notes))
        return level_result(measurement, level, file)

    def reason(self, name: str, fault: ServerFault) -> str:
        """Why a server did not start or crashed, in a line."""
        return fault_reason(fault.message, self.store.engine_log(name), self.store.server_log(name))

    def _plan(self, url: str, target: TargetOptions, level: LoadLevel) -> Plan:
        """The cap is the number of connections: waiting for one counts as latency."""
        stream = self.slo is not None and self.slo.needs_stream
        answered_a_second = min(5 * level.clients, 75 + 2 * level.clients)  # by a fast GPU: texts beyond repeat
        return Plan(
            url=url,
            target=replace(target, stream=stream),
            workload=self.demand.workloads[level.draw],
            loads=(Load("closed", clients=level.clients),),
            duration_s=self.pace.duration_s,
            warmup=Warmup(duration_s=self.pace.warmup_s),
            timeout_s=self.pace.timeout_s,
            slo=self.slo,
            seed=self.subject.seed,
            texts=max(200, round(answered_a_second * self.pace.duration_s)),
            connections=level.cap,
        )

    def _results_file(
        self, bench: PreparedBenchmark, plan: Plan, level: LoadLevel, measurement: Measurement, notes: dict[str, object]
    ) -> ResultsFile:
        point = Point(plan.loads[0], (measurement,), spreads((measurement,)))
        options = bench.conditions.options | {"connections": level.cap, "label": notes["label"], "tune": notes}
        server = {name: value for name, value in bench.conditions.server.items() if value != self.subject.path}
        conditions = replace(
            bench.conditions,
            started_at=measurement.started_at,
            server=server,  # without the folder of this machine
            workload=plan.workload.description,
            loads=plan.loads,
            options=options,
        )
        return ResultsFile(conditions, (point,))

    def _facts(self, start_s: float, before: Stats | None, after: Stats | None) -> ServerFacts:
        """The prompt's overhead is what one text of each language pair took beyond its own tokens."""
        if after is None:
            return ServerFacts(start_s)
        engine = members(after.settings.get("engine"))
        cache = after.kv_cache
        overhead = None
        sequences = after.finished - (before.finished if before else 0)
        if before is not None and sequences > 0:
            samples = sum(item.source_tokens for item in self.demand.workloads["mix"].samples())
            overhead = max(0, round((after.prompt_tokens - before.prompt_tokens - samples) / sequences))
        return ServerFacts(
            start_s,
            KvCache(cache.tokens, cache.bytes_per_token) if cache.tokens else None,
            number(engine.get("gpu_memory_utilization")),
            engine,
            overhead,
        )


@dataclass(slots=True)
class TrialRunner:
    """Answers searches; use it within `async with`, as it may hold a server. `trials`: as they stand, in order."""

    servers: Servers
    trials: dict[str, Trial] = field(default_factory=dict[str, Trial])
    stopped: str = ""  # why something was not begun; empty: everything was
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _server: TrialServer | None = None
    _trial: str = ""  # whose server it is, or would be

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stops the server, if one is up."""
        self._server = None
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    async def run(self, search: Search[_R]) -> _R:
        """The search to its end; what it returns. Raises ConfigError where results cannot be written."""
        try:
            step = next(search)
            while True:
                trial = step if isinstance(step, Trial) else await self._answer(step)
                if isinstance(step, Trial):
                    self.servers.progress.ended(trial)
                self.trials[trial.name] = trial
                step = search.send(trial)
        except StopIteration as end:
            return end.value

    async def _answer(self, wanted: Measure) -> Trial:
        """The trial with one more measurement, or with how it ended."""
        trial = self.trials.get(wanted.trial) or Trial(wanted.trial, wanted.phase, wanted.setup, wanted.why)
        if self._trial != wanted.trial:
            await self.close()
            self._trial = wanted.trial
            self.servers.progress.estimate.reached(wanted.phase)
        if trial.outcome in ("did_not_start", "failed_under_load"):
            return trial
        stored = self.servers.stored(wanted.trial, wanted.setup, wanted.level, wanted.repeat)
        if stored is not None:
            self.servers.progress.measured(stored[0], stored=True)
            self.servers.progress.estimate.measured(wanted.phase)
            return _with_result(trial, *stored)
        failure = self.servers.store.failure(wanted.trial, wanted.setup)
        if failure is not None:
            return self._ended(replace(trial, outcome=failure[0], reason=failure[1]))
        stopped = self.servers.stopped(starts=self._server is None)
        return self._not_begun(trial, stopped) if stopped else await self._measured(wanted, trial)

    async def _measured(self, wanted: Measure, trial: Trial) -> Trial:
        servers = self.servers
        try:
            server = self._server or await self._start(wanted)
        except ServerFault as fault:
            return await self._failed(wanted, trial, "did_not_start", servers.reason(wanted.trial, fault))
        except CannotTranslate as fault:
            return await self._failed(wanted, trial, "failed_under_load", str(fault))
        except Interrupted:
            return self._not_begun(trial, BY_HAND)
        try:
            result = await servers.measure(
                wanted.trial, wanted.setup, wanted.phase, server, wanted.level, wanted.repeat, wanted.note
            )
        except ServerFault as fault:
            trial = _with_facts(trial, server.facts)
            return await self._failed(wanted, trial, "failed_under_load", servers.reason(wanted.trial, fault))
        if result is None:
            return self._not_begun(trial, BY_HAND)
        servers.progress.measured(result)
        return _with_result(trial, result, server.facts)

    async def _start(self, wanted: Measure) -> TrialServer:
        progress = self.servers.progress
        progress.starting(wanted.trial, wanted.why)
        self._server = await self._stack.enter_async_context(self.servers.running(wanted.trial, wanted.setup))
        progress.estimate.started(wanted.phase, self._server.facts.start_s)
        return self._server

    async def _failed(self, wanted: Measure, trial: Trial, outcome: Outcome, reason: str) -> Trial:
        """The ladder's failure is not stored: nothing goes on without it, and its cause may be fixed before the next run."""
        await self.close()
        if wanted.phase != "ladder":
            self.servers.store.save_failure(wanted.trial, wanted.setup, outcome, reason)
        return self._ended(replace(trial, outcome=outcome, reason=reason))

    def _not_begun(self, trial: Trial, reason: str) -> Trial:
        """Interrupted where something of it was measured, or it was running; else skipped."""
        self.stopped = self.stopped or reason
        begun = bool(trial.results) or reason == BY_HAND
        return self._ended(replace(trial, outcome="interrupted" if begun else "skipped", reason=reason))

    def _ended(self, trial: Trial) -> Trial:
        self.servers.progress.ended(trial)
        return trial


def level_result(measurement: Measurement, level: LoadLevel, file: str = "") -> LevelResult:
    """The numbers of a measurement at the level."""
    summary = measurement.summary
    return LevelResult(
        level=level,
        repeat=measurement.repeat,
        window_s=measurement.window_s,
        requests=summary.requests,
        completed=summary.completed,
        failed=sum(count for error, count in summary.errors.items() if error != "unfinished"),
        rps=summary.rps,
        output_tokens_s=summary.output_tokens_s,
        goodput_rps=summary.goodput_rps,
        attained_share=summary.attained_share,
        slo_met=summary.slo_met,
        verdicts=summary.verdicts,
        e2e_p50_s=_percentile(summary.e2e, "p50_s"),
        e2e_p95_s=_percentile(summary.e2e, "p95_s"),
        e2e_p99_s=_percentile(summary.e2e, "p99_s"),
        ttft_p95_s=_percentile(summary.ttft, "p95_s"),
        itl_p95_s=_percentile(summary.itl, "p95_s"),
        decode_s_per_token=summary.decode_s_per_token,
        mean_running=summary.mean_running,
        mean_waiting=summary.mean_waiting,
        peak_waiting=summary.peak_waiting,
        peak_kv_cache_usage=summary.peak_kv_cache_usage,
        preemptions=summary.preemptions,
        gpu_mean_percent=summary.gpu_mean_percent,
        gpu_memory_mib=max((sample.memory_mib for sample in measurement.gpu), default=None),
        file=file,
    )


def variation_of(level: LoadLevel, repeat: int) -> int:
    """A number for each level and repeat, the same on every server and below the warm-ups'."""
    places = WARMUP_VARIATION // _REPEATS_APART - 1
    return crc32(level.label.encode()) % places * _REPEATS_APART + repeat


def _percentile(distribution: Distribution | None, name: str) -> float | None:
    return None if distribution is None else getattr(distribution, name)


def _with_facts(trial: Trial, facts: ServerFacts) -> Trial:
    return replace(
        trial,
        start_s=facts.start_s,
        kv_cache=facts.kv_cache,
        gpu_memory_utilization=facts.gpu_memory_utilization,
        engine=facts.engine,
        prompt_overhead=facts.prompt_overhead,
    )


def _with_result(trial: Trial, result: LevelResult, facts: ServerFacts) -> Trial:
    return replace(_with_facts(trial, facts), outcome="measured", reason="", results=(*trial.results, result))


async def _stats(url: str) -> Stats | None:
    """dragoman's `/v1/stats`; None of another server."""
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(f"{url}/v1/stats") as response:
            return Stats.model_validate(await response.json()) if response.status == 200 else None
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError, ValidationError):
        return None


async def _status(url: str) -> int | None:
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
            return response.status
    except (aiohttp.ClientError, OSError, TimeoutError):
        return None


# why a server failed

_LONGEST_REASON = 300  # characters
_RAISED = re.compile(r"\b((?:\w+\.)*\w*(?:Error|Exception|Interrupt): \S.*)$")
_MEMORY = re.compile(
    r"out of memory|no available memory|memory runs out|cannot allocate|free memory on device|KV cache .*(?:needed|larger)|"
    r"\bOOM\b",
    re.IGNORECASE,
)
_INDIRECT = re.compile(r"initialization failed|root cause|engine did not start", re.I)
_KILLED = re.compile(r"exit code -9\b")


def fault_reason(message: str, *logs: Path) -> str:
    """A `ServerFault`'s message in one line: what happened, and the line of its logs that says why.

    Engines end with pages of tracebacks, whose last line often only says that something failed before it.
    """
    happened, *rest = message.splitlines()
    texts = [log.read_text(encoding="utf-8", errors="replace") for log in logs if log.is_file()]
    cause = next((found for text in (*texts, message) if (found := root_cause(text))), None)
    if cause is None and _KILLED.search(happened):
        cause = "killed by the system, which it does when memory runs out"
    cause = cause or (rest[-1].strip() if rest else "")
    line = f"{happened}: {cause}" if cause and cause not in happened else happened
    return line if len(line) <= _LONGEST_REASON else f"{line[: _LONGEST_REASON - 1]}…"


def root_cause(log: str) -> str | None:
    """The last exception about memory, else the last one that does not refer to another; None where there is none."""
    raised = [found[1].strip() for line in log.splitlines() if (found := _RAISED.search(line))]
    memory = [line for line in raised if lacks_memory(line)]
    direct = [line for line in raised if not _INDIRECT.search(line)]
    return next((lines[-1] for lines in (memory, direct, raised) if lines), None)


def lacks_memory(reason: str) -> bool:
    """Whether what failed lacked memory."""
    return _MEMORY.search(reason) is not None
