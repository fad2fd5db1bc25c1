"""A benchmark from start to end: check the server, record the conditions, run the plan, collect the points."""

from __future__ import annotations

import asyncio
import json
import platform
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from dragoman.errors import ConfigError, DragomanError
from dragoman_bench.bench.client import Clock, open_session
from dragoman_bench.bench.gpu import Gpus, find_gpus
from dragoman_bench.bench.load import Job, Stop, Tally, Watchman, schedule
from dragoman_bench.bench.processes import LEAD_S, Sent, assemble
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.results import (
    ClientUse,
    Conditions,
    Load,
    Measurement,
    Point,
    RequestRecord,
    Results,
    describe_machine,
    git_commit,
    installed_packages,
    members,
)
from dragoman_bench.bench.server_stats import Sampler, Samples, ServerStats, find_stats
from dragoman_bench.bench.summary import Observed, Slo, nearest_rank, spreads, summarise
from dragoman_bench.bench.targets import STREAMING, BadReplyError, Target, TargetOptions, make_target, part
from dragoman_bench.bench.workload import Item, Workload


@dataclass(frozen=True, slots=True)
class Warmup:
    """Sent before each measurement and not counted. Neither: none."""

    requests: int | None = None
    duration_s: float | None = None

    @property
    def wanted(self) -> bool:
        return bool(self.requests or self.duration_s)


@dataclass(frozen=True, slots=True)
class Plan:
    url: str
    target: TargetOptions
    workload: Workload
    loads: tuple[Load, ...]
    requests: int | None = None  # of each measurement
    duration_s: float | None = None
    warmup: Warmup = Warmup(requests=10)
    repeats: int = 1
    timeout_s: float = 60.0
    slo: Slo | None = None
    seed: int = 0
    texts: int = 1000  # made up for a closed loop over a duration, whose number of requests nobody knows before
    processes: int = 1
    connections: int | None = None
    stats: str | None = "auto"  # None: the server is not asked; else where to ask
    gpus: frozenset[int] | None = None  # None: those in use, if the server is on this machine; empty: none
    sample_every_s: float = 0.1
    saturation_after_s: float | None = 20.0  # None: an open loop runs to its end whatever happens
    client_maximum_rps: float | None = None

    def __post_init__(self) -> None:
        if not self.loads:
            raise ConfigError("no load level: say for example --concurrency 8 or --rate 5")
        if self.requests is None and self.duration_s is None and any(load.kind != "replay" for load in self.loads):
            raise ConfigError("how long? say --requests or --duration", param="duration")
        if self.slo and self.slo.needs_stream and not (self.target.stream and self.target.kind in STREAMING):
            raise ConfigError("an SLO on ttft, itl or tpot needs --stream", param="slo")
        for load in self.loads:
            _check_clients(load, self.processes)

    def schedule(self, load: Load, variation: int) -> tuple[float, ...] | None:
        """Intended send times of an open loop; None of a closed one."""
        if not load.open:
            return None
        recorded = [item.at_s for item in self._all_recorded() if item.at_s is not None]
        if load.kind == "replay" and len(recorded) < (self.workload.size or 0):
            recorded = []
        return schedule(
            load,
            requests=self.requests,
            duration_s=self.duration_s,
            recorded_s=recorded,
            seed=self.seed * 1009 + variation,
        )

    def items(self, times: tuple[float, ...] | None, variation: int) -> tuple[Item, ...]:
        """The texts of one measurement."""
        count = len(times) if times is not None else self.requests or self.texts
        return self.workload.items(count, variation)

    def window_s(self, load: Load, last_done_s: float, stopped_s: float | None) -> float:
        """What rates are over: until the stop, the end of sending or, where only a count ends it, the last answer."""
        if stopped_s is not None:
            return stopped_s
        if self.requests is not None or self.duration_s is None or load.kind == "replay":
            return last_done_s
        return self.duration_s

    def _all_recorded(self) -> tuple[Item, ...]:
        return self.workload.items(self.workload.size, 0) if self.workload.size else ()


def _check_clients(load: Load, processes: int) -> None:
    if load.kind == "closed" and (load.clients or 0) < 1:
        raise ConfigError("a closed loop needs at least one client", param="concurrency")
    if load.kind == "closed" and (load.clients or 0) < processes:
        raise ConfigError(f"{processes} client processes cannot share {load.label}", param="client_processes")


LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


def check_url(url: str) -> str:
    """The URL without its last slash. Raises ConfigError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{url!r} is not a URL like http://127.0.0.1:8000", param="url")
    return url.rstrip("/")


def is_local(url: str) -> bool:
    return urlsplit(url).hostname in LOCAL


async def resolve(session: aiohttp.ClientSession, url: str, options: TargetOptions) -> TargetOptions:
    """The options with what they leave to the server: the model of an OpenAI-compatible one, whether dragoman takes
    forced lengths."""
    if options.kind == "dragoman" and options.forced is None:
        return replace(options, forced=await _takes_forced_lengths(session, url, _bearer(options)))
    if options.model is not None or not options.kind.startswith("openai"):
        return options
    status, body = await _ask(session, "GET", f"{url}/v1/models", None, _bearer(options), 10.0)
    if status != 200:
        raise ConfigError(f"{url}/v1/models answered {status}: name the model", param="model")
    try:
        model = part(json.loads(body), "data", 0, "id")
    except (ValueError, BadReplyError) as error:
        raise ConfigError(f"{url}/v1/models names no model: name it", param="model") from error
    return replace(options, model=str(model))


def _bearer(options: TargetOptions) -> dict[str, str]:
    return {"Authorization": f"Bearer {options.api_key}"} if options.api_key else {}


async def _takes_forced_lengths(session: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> bool:
    """Whether its weights are dummies; True where it does not tell: then its own refusal is clearer than a guess."""
    try:
        status, body = await _ask(session, "GET", f"{url}/v1/stats", None, headers, 10.0)
        engine = members(members(members(json.loads(body)).get("settings")).get("engine")) if status == 200 else {}
    except (ConfigError, ValueError):  # `check_server` will say what is wrong with it
        return True
    return engine.get("load_format", "dummy") == "dummy"


async def check_server(
    session: aiohttp.ClientSession, url: str, options: TargetOptions, items: Iterable[Item], timeout_s: float
) -> None:
    """Sends each item. Raises ConfigError on the first that the server cannot answer."""
    target = make_target(replace(options, stream=False))
    for item in items:
        headers = {"Content-Type": "application/json", **target.headers}
        body = json.dumps(target.body(item), ensure_ascii=False).encode()
        status, answer = await _ask(session, "POST", url + target.path, body, headers, timeout_s)
        _judge(url + target.path, options, target, item, status, answer)


def _judge(url: str, options: TargetOptions, target: Target, item: Item, status: int, answer: bytes) -> None:
    said = answer[:200].decode("utf-8", "replace")
    if status in (404, 405):
        raise ConfigError(f"{url} is not there ({status}): is this a {options.kind} server?", param="target")
    if status == 429:
        return  # it is there and busy: refusals are counted, not a fault of the plan
    if not 200 <= status < 300:
        pair = f"{item.source or 'auto'}-{item.target}"
        raise ConfigError(f"{url} answered {status} to a text of the pair {pair}: {said}")
    try:
        target.whole(json.loads(answer))
    except (ValueError, BadReplyError) as error:
        raise ConfigError(f"{url} does not answer as a {options.kind} server: {error}", param="target") from error


async def _ask(
    session: aiohttp.ClientSession, method: str, url: str, body: bytes | None, headers: dict[str, str], timeout_s: float
) -> tuple[int, bytes]:
    try:
        async with asyncio.timeout(timeout_s), session.request(method, url, data=body, headers=headers) as response:
            return response.status, await response.read()
    except TimeoutError as error:
        raise ConfigError(f"{url} did not answer within {timeout_s:g} s", param="url") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ConfigError(f"cannot reach {url}: {error}", param="url") from error


_WARMUP_TEXTS = 200
WARMUP_VARIATION = 1_000_000  # texts apart from those measured: a warm-up must not fill the caches with them


@dataclass(frozen=True, slots=True)
class Runner:
    plan: Plan
    sampler: Sampler
    watchman: Watchman  # told of interrupts; looks for saturation as the plan says

    async def measurements(self) -> AsyncIterator[tuple[int, Measurement]]:
        """Each with the number of its load level. Ends early on an interrupt, after what it had begun."""
        for repeat in range(self.plan.repeats):
            for number in range(len(self.plan.loads)):
                if self.watchman.interrupted.is_set():
                    return
                measurement = await self.measure(number, repeat)
                if measurement is not None:
                    yield number, measurement

    async def measure(self, number: int, repeat: int) -> Measurement | None:
        """One repeat of one load level; None where it was interrupted before it began."""
        plan, load = self.plan, self.plan.loads[number]
        variation = repeat * len(plan.loads) + number + 1
        if plan.warmup.wanted:
            await self._warm_up(load, variation + WARMUP_VARIATION)
        if self.watchman.interrupted.is_set():
            return None
        label = f"{load.label}, repeat {repeat + 1} of {plan.repeats}" if plan.repeats > 1 else load.label
        self.watchman.observer.phase(f"{label}: preparing texts", None)
        job = job_of(plan, load, variation)
        started_at = datetime.now(UTC).isoformat(timespec="seconds")
        sent, samples, stop = await self._send(job, label, self.sampler, watched=load.open)
        return conclude(plan, load, repeat, started_at, len(set(job.items)), sent, samples, stop)

    async def _warm_up(self, load: Load, variation: int) -> None:
        """The same load, as long as the warm-up lasts; a ramp at its first rate, a replay by one client."""
        warmup = self.plan.warmup
        if load.kind == "ramp":
            load = Load("constant", rate_rps=load.rate_rps)
        if load.kind == "replay":
            load = Load("closed", clients=self.plan.processes)
        plan = replace(
            self.plan, requests=warmup.requests, duration_s=warmup.duration_s, texts=min(self.plan.texts, _WARMUP_TEXTS)
        )
        unsampled = Sampler(None, None)
        await self._send(job_of(plan, load, variation), f"{load.label}, warm-up", unsampled, watched=False)

    async def _send(self, job: Job, label: str, sampler: Sampler, *, watched: bool) -> tuple[Sent, Samples, Stop]:
        after_s = self.plan.saturation_after_s if watched else None
        watchman, tally = replace(self.watchman, saturation_after_s=after_s), Tally()
        watchman.observer.phase(label, len(job.schedule) if job.schedule else job.requests)
        async with assemble(job, self.plan.processes) as crew:
            clock = Clock(monotonic() + LEAD_S)
            async with sampler.running(clock) as samples, watchman.watching(clock, tally) as stop:
                sent = await crew.run(clock, tally, stop.event)
            return sent, samples, stop


def job_of(plan: Plan, load: Load, variation: int) -> Job:
    """The whole crew's job. Raises ConfigError where the load has no schedule."""
    times = plan.schedule(load, variation)
    return Job(
        url=plan.url,
        target=plan.target,
        items=plan.items(times, variation),
        timeout_s=plan.timeout_s,
        schedule=times,
        clients=load.clients or 0,
        requests=plan.requests,
        duration_s=plan.duration_s,
        connections=plan.connections,
    )


def conclude(
    plan: Plan, load: Load, repeat: int, started_at: str, texts: int, sent: Sent, samples: Samples, stop: Stop
) -> Measurement:
    """What was sent and sampled, as one measurement with its summary."""
    last_done_s = max((record.done_s for record in sent.records), default=0.0)
    window_s = round(plan.window_s(load, last_done_s, stop.at_s), 6)
    observed = Observed(sent.records, window_s, stop.why, sent.itl_histogram, samples.server, samples.gpu)
    return Measurement(
        repeat=repeat,
        started_at=started_at,
        window_s=window_s,
        stopped=stop.why,
        distinct_texts=texts,
        records=sent.records,
        itl_histogram=dict(sorted(sent.itl_histogram.items())),
        server=tuple(samples.server),
        gpu=tuple(samples.gpu),
        client=client_use(plan, sent),
        summary=summarise(observed, plan.slo),
    )


def client_use(plan: Plan, sent: Sent) -> ClientUse:
    lags = sorted(lag for record in sent.records if (lag := _lag_s(record)) is not None)
    return ClientUse(
        processes=plan.processes,
        cpu_share=sent.cpu_share,
        lag_p99_s=round(nearest_rank(lags, 99), 6) if lags else 0.0,
        maximum_rps=plan.client_maximum_rps,
    )


def _lag_s(record: RequestRecord) -> float | None:
    return None if record.sent_s is None else record.sent_s - record.intended_s


@dataclass(frozen=True, slots=True)
class Bench:
    """A server that answered its checks, ready to be measured."""

    plan: Plan
    sampler: Sampler
    conditions: Conditions

    async def run(self, observer: Observer, interrupted: asyncio.Event) -> Results:
        """All points; those measured so far, marked partial, where `interrupted` is set before the end."""
        runner = Runner(self.plan, self.sampler, Watchman(interrupted, observer))
        measured: dict[int, list[Measurement]] = {}
        async for number, measurement in runner.measurements():
            measured.setdefault(number, []).append(measurement)
        points = [Point(self.plan.loads[n], tuple(repeats), spreads(repeats)) for n, repeats in measured.items()]
        return Results(self.conditions, tuple(points), partial=interrupted.is_set())


@asynccontextmanager
async def prepared(plan: Plan) -> AsyncGenerator[Bench]:
    """A checked `Bench`. Raises ConfigError where the server is not there or cannot do what the plan asks."""
    plan = replace(plan, url=check_url(plan.url))
    async with open_session() as session:
        plan = replace(plan, target=await resolve(session, plan.url, plan.target))
        await check_server(session, plan.url, plan.target, plan.workload.samples(), plan.timeout_s)
        stats = await _stats(session, plan)
        look = is_local(plan.url) if plan.gpus is None else bool(plan.gpus)
        gpus = find_gpus() if look else None
        sampler = Sampler(stats, gpus, plan.gpus, plan.sample_every_s)
        yield Bench(plan, sampler, await _conditions(plan, stats, gpus))


async def benchmark(plan: Plan, observer: Observer, interrupted: asyncio.Event) -> Results:
    """Prepares and runs. Raises ConfigError before anything is measured."""
    async with prepared(plan) as bench:
        return await bench.run(observer, interrupted)


async def _stats(session: aiohttp.ClientSession, plan: Plan) -> ServerStats | None:
    if plan.stats is None:
        return None
    return await find_stats(session, plan.url, None if plan.stats == "auto" else plan.stats)


async def _conditions(plan: Plan, stats: ServerStats | None, gpus: Gpus | None) -> Conditions:
    server = await stats.settings() if stats else {}
    return Conditions(
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=describe_machine(gpus.describe() if gpus else ()),
        server_is_local=is_local(plan.url),
        python=platform.python_version(),
        packages=installed_packages(),
        git_commit=git_commit(),
        url=plan.url,
        target=plan.target.kind,
        model=plan.target.model or _text(server.get("model")),
        server=server,
        workload=plan.workload.description,
        loads=plan.loads,
        slo=plan.slo.text if plan.slo else None,
        seed=plan.seed,
        options=_options(plan),
    )


def _options(plan: Plan) -> dict[str, Any]:
    """What else was chosen; never the key."""
    named = ("requests", "duration_s", "repeats", "timeout_s", "processes", "connections", "sample_every_s")
    chosen: dict[str, Any] = {name: getattr(plan, name) for name in named}
    chosen |= {"warmup_requests": plan.warmup.requests, "warmup_s": plan.warmup.duration_s}
    chosen |= {"saturation_after_s": plan.saturation_after_s, "stream": plan.target.stream}
    if plan.target.kind == "dragoman" and plan.target.forced is False:
        chosen["forced_lengths"] = False  # those that the workload has, if it has any
    if plan.target.kind.startswith("openai"):
        sampling = plan.target.sampling
        chosen |= {"system_prompt": plan.target.system, "user_prompt": plan.target.user}
        chosen |= {"max_tokens": sampling.max_tokens, "temperature": sampling.temperature}
    return chosen


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


GROWTH = 1.05
BUSY_SHARE = 0.8  # of one core
MOST_CLIENTS = 1024
STEP_S = 3.0


@dataclass(frozen=True, slots=True)
class Step:
    clients: int
    rps: float
    cpu_share: float


@dataclass(frozen=True, slots=True)
class ClientMaximum:
    """`rps` is the best step's. `lower_bound`: no step kept the client busy, so that the server was the limit."""

    rps: float
    lower_bound: bool
    clients: int
    processes: int
    cpu_share: float
    steps: tuple[Step, ...]


async def find_client_maximum(plan: Plan, observer: Observer, interrupted: asyncio.Event) -> ClientMaximum:
    """Raises ConfigError as a benchmark does, DragomanError where a step had failures: its rate would mean nothing."""
    steps: list[Step] = []
    clients = plan.processes
    async with prepared(plan) as bench:
        while clients <= MOST_CLIENTS and not interrupted.is_set():
            steps.append(await _step(bench.plan, clients, observer, interrupted))
            if not still_growing([step.rps for step in steps]):
                break
            clients *= 2
    best = max(steps, key=lambda step: step.rps)
    idle = max(step.cpu_share for step in steps) < BUSY_SHARE
    return ClientMaximum(best.rps, idle, best.clients, plan.processes, best.cpu_share, tuple(steps))


def still_growing(rates: Sequence[float]) -> bool:
    """Until two steps in a row bring no more than 5 % over the best before them: one may be a hiccup."""
    if len(rates) < 3:
        return True
    return max(rates[-2:]) > GROWTH * max(rates[:-2])


async def _step(plan: Plan, clients: int, observer: Observer, interrupted: asyncio.Event) -> Step:
    load = Load("closed", clients=clients)
    step_s = plan.duration_s or STEP_S
    at_level = replace(
        plan, loads=(load,), requests=None, duration_s=step_s, repeats=1, warmup=Warmup(requests=clients), slo=None
    )
    runner = Runner(at_level, Sampler(None, None), Watchman(interrupted, observer))
    measurement = await runner.measure(0, 0)
    if measurement is None or measurement.summary.errors:
        errors = measurement.summary.errors if measurement else "interrupted"
        raise DragomanError(f"the client's maximum could not be measured at {load.label}: {errors}")
    return Step(clients, round(measurement.summary.rps, 2), measurement.client.cpu_share)
