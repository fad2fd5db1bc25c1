"""Runs a benchmark: checks the server, records the conditions, measures all load levels, and collects the points.

All load levels are measured once before any is repeated (1, 2, 4, 1, 2, 4 and not 1, 1, 2, 2), so that drift of the machine
affects all points. An interrupt keeps all measurements.
"""

from __future__ import annotations

import asyncio
import json
import platform
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from dragoman.errors import ConfigError
from dragoman.gpu import find_gpus
from dragoman_bench.bench.client import (
    STREAMING,
    BadReplyError,
    Clock,
    TargetOptions,
    make_target,
    open_session,
    part,
)
from dragoman_bench.bench.load import LEAD_S, WATCH_EVERY_S, Job, Sent, Tally, load_generator, schedule
from dragoman_bench.bench.measurement import describe_machine, git_commit, installed_packages, members
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.results import ClientUse, Conditions, Load, Observed, Repeat, Results, Stopped
from dragoman_bench.bench.server_stats import DragomanStats, Sampler, Samples, find_stats
from dragoman_bench.bench.summary import Slo, nearest_rank, point_of, summarise
from dragoman_bench.bench.workload import WARMUP_VARIATION, Item, Workload

_WARMUP_TEXTS = 200
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
_CHECK_TIMEOUT_S = 10.0


def texts_needed(clients: int, duration_s: float) -> int:
    """Return how many texts a fast GPU answers in a closed loop; for a faster server the texts repeat."""
    return max(200, round(min(5 * clients, 75 + 2 * clients) * duration_s))


@dataclass(frozen=True, slots=True)
class Warmup:
    """The requests, or seconds of load, before each measurement, which are not counted. Neither: no warm-up."""

    requests: int | None = None
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of measurements: server, workload, load levels, repeats. Raises ConfigError if values contradict each other."""

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
    texts: int | None = None  # generated for a closed loop over a duration; None: `texts_needed`
    processes: int = 1
    connections: int | None = None
    sampled: bool = True  # whether the server's own statistics are read
    sample_every_s: float = 0.1

    def __post_init__(self) -> None:
        if not self.loads:
            raise ConfigError("no load level: specify for example --concurrency 8 or --rate 5")
        if self.requests is None and self.duration_s is None and any(load.kind != "replay" for load in self.loads):
            raise ConfigError("specify --requests or --duration", param="duration")
        if self.slo and self.slo.needs_stream and not (self.target.stream and self.target.kind in STREAMING):
            raise ConfigError("an SLO on ttft, itl or tpot needs --stream", param="slo")
        fewest = min((load.clients or 0 for load in self.loads if load.kind == "closed"), default=self.processes)
        if fewest < self.processes:
            raise ConfigError(f"{self.processes} client processes cannot share {fewest} clients", param="concurrency")

    def job(self, load: Load, variation: int) -> Job:
        """Return the work of all processes in a measurement. Raises ConfigError if an open loop has no schedule."""
        times: tuple[float, ...] | None = None
        if load.open:
            recorded_s = [item.at_s for item in self.workload.items(self.workload.size or 0, 0)]
            times = schedule(
                load,
                requests=self.requests,
                duration_s=self.duration_s,
                recorded_s=[] if None in recorded_s else [at_s for at_s in recorded_s if at_s is not None],
                seed=self.seed * 1009 + variation,
            )
        texts = self.texts or texts_needed(load.clients or 0, self.duration_s or 0.0)
        count = len(times) if times is not None else self.requests or texts
        return Job(
            url=self.url,
            target=self.target,
            items=self.workload.items(count, variation),
            timeout_s=self.timeout_s,
            schedule=times,
            clients=load.clients or 0,
            requests=self.requests,
            duration_s=self.duration_s,
            connections=self.connections,
        )

    def window_s(self, load: Load, last_done_s: float, stopped_s: float | None) -> float:
        """Return the window of rates: until the interrupt, the end of sending or, if only a count ends it, the last answer."""
        if stopped_s is not None:
            return stopped_s
        if self.requests is not None or self.duration_s is None or load.kind == "replay":
            return last_done_s
        return self.duration_s


@dataclass(frozen=True, slots=True)
class PreparedBenchmark:
    """A server that passed the checks and can be measured. `replace(..., plan=...)` measures it with another plan."""

    plan: Plan
    sampler: Sampler
    conditions: Conditions

    async def run(self, observer: Observer, interrupted: asyncio.Event) -> Results:
        """Measure all points. If `interrupted` is set before the end, return those so far, marked as partial."""
        measured: dict[int, list[Repeat]] = {}
        for repeat in range(self.plan.repeats):
            for number in range(len(self.plan.loads)):
                if interrupted.is_set():
                    break
                measurement = await self.measure(number, repeat, observer, interrupted)
                if measurement is not None:
                    measured.setdefault(number, []).append(measurement)
        points = [point_of(self.plan.loads[n], repeats) for n, repeats in measured.items()]
        return Results(self.conditions, tuple(points), partial=interrupted.is_set())

    async def measure(self, number: int, repeat: int, observer: Observer, interrupted: asyncio.Event) -> Repeat | None:
        """Measure a repeat of the plan's load level `number` after its warm-up; None if it was interrupted before.

        Texts depend on `number` and `repeat` alone.
        """
        plan, load = self.plan, self.plan.loads[number]
        variation = repeat * len(plan.loads) + number + 1
        if plan.warmup.requests or plan.warmup.duration_s:
            job = _warmup_job(plan, load, variation + WARMUP_VARIATION)
            await _send(job, plan.processes, Sampler(), observer, f"{load.label}, warm-up", interrupted)
        if interrupted.is_set():
            return None
        label = f"{load.label}, repeat {repeat + 1} of {plan.repeats}" if plan.repeats > 1 else load.label
        observer.phase(f"{label}: preparing texts", None)
        job = plan.job(load, variation)
        started_at = datetime.now(UTC).isoformat(timespec="seconds")
        sent, samples, stopped_s = await _send(job, plan.processes, self.sampler, observer, label, interrupted)
        window_s = round(plan.window_s(load, max((r.done_s for r in sent.records), default=0.0), stopped_s), 6)
        lags_s = [record.sent_s - record.intended_s for record in sent.records if record.sent_s is not None]
        gaps = dict(sorted(sent.itl_histogram.items()))
        stopped: Stopped = "finished" if stopped_s is None else "interrupted"
        observed = (sent.records, window_s, stopped, gaps, tuple(samples.server), tuple(samples.gpu))
        return Repeat(
            *observed,
            repeat=repeat,
            started_at=started_at,
            distinct_texts=len(set(job.items)),
            client=ClientUse(plan.processes, sent.cpu_share, round(nearest_rank(lags_s, 99), 6) if lags_s else 0.0),
            summary=summarise(Observed(*observed), plan.slo),
        )


def _warmup_job(plan: Plan, load: Load, variation: int) -> Job:
    """The same load, as long as the warm-up lasts; a replay by one client for each process."""
    if load.kind == "replay":
        load = Load("closed", clients=plan.processes)
    warmup = plan.warmup
    plan = replace(plan, requests=warmup.requests, duration_s=warmup.duration_s, texts=_WARMUP_TEXTS)
    return plan.job(load, variation)


async def _send(
    job: Job,
    processes: int,
    sampler: Sampler,
    observer: Observer,
    label: str,
    interrupted: asyncio.Event,
) -> tuple[Sent, Samples, float | None]:
    """What was sent and sampled, and when an interrupt ended it, if one did."""
    tally = Tally()
    stopped_s: float | None = None
    observer.phase(label, len(job.schedule) if job.schedule else job.requests)
    async with load_generator(job, processes) as send:
        clock = Clock(monotonic() + LEAD_S)

        async def watch() -> None:
            nonlocal stopped_s
            while await clock.reach(clock.now() + WATCH_EVERY_S, interrupted):
                observer.update(tally.done, tally.failed, tally.in_flight)
            stopped_s = max(clock.now(), 0.0)

        watching = asyncio.create_task(watch())
        try:
            async with sampler.running(clock) as samples:
                sent = await send(clock, tally, interrupted)
        finally:
            watching.cancel()
        return sent, samples, stopped_s


@asynccontextmanager
async def prepared(plan: Plan) -> AsyncGenerator[PreparedBenchmark]:
    """Check the server and record the conditions. Raises ConfigError if the server does not support the plan."""
    plan = replace(plan, url=check_url(plan.url))
    local = urlsplit(plan.url).hostname in _LOCAL_HOSTS
    async with open_session() as session:
        plan = replace(plan, target=await resolve(session, plan.url, plan.target))
        await check_server(session, plan.url, plan.target, plan.workload.samples(), plan.timeout_s)
        stats = await find_stats(session, plan.url) if plan.sampled else None
        gpus = find_gpus() if local else None
        server = await stats.settings() if stats else {}
        model = plan.target.model or server.get("model")
        conditions = Conditions(
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            machine=describe_machine(gpus.describe() if gpus else ()),
            server_is_local=local,
            python=platform.python_version(),
            packages=installed_packages(),
            git_commit=git_commit(),
            url=plan.url,
            target=plan.target.kind,
            model=model if isinstance(model, str) else None,
            server=server,
            workload=plan.workload.description,
            loads=plan.loads,
            slo=plan.slo.text if plan.slo else None,
            seed=plan.seed,
            options=_options(plan),
        )
        yield PreparedBenchmark(plan, Sampler(stats, gpus, plan.sample_every_s), conditions)


async def run_benchmark(plan: Plan, observer: Observer, interrupted: asyncio.Event) -> Results:
    """Prepare and run a benchmark. Raises ConfigError before anything is measured."""
    async with prepared(plan) as bench:
        return await bench.run(observer, interrupted)


def _options(plan: Plan) -> dict[str, Any]:
    """What else was chosen, without the key."""
    named = ("requests", "duration_s", "repeats", "timeout_s", "processes", "connections", "sample_every_s")
    chosen: dict[str, Any] = {name: getattr(plan, name) for name in named}
    chosen |= {"warmup_requests": plan.warmup.requests, "warmup_s": plan.warmup.duration_s}
    chosen["stream"] = plan.target.stream
    if plan.target.kind == "dragoman" and plan.target.forced is False:
        chosen["forced_lengths"] = False
    if plan.target.kind.startswith("openai"):
        chosen |= {"system_prompt": plan.target.system, "user_prompt": plan.target.user}
        chosen["max_tokens"] = plan.target.max_tokens
    return chosen


# Checks before the measurement: if all requests would fail for the same reason, raise a ConfigError of one line.


def check_url(url: str) -> str:
    """Return the URL without a slash at its end. Raises ConfigError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{url!r} is not a URL like http://127.0.0.1:8000", param="url")
    return url.rstrip("/")


async def resolve(session: aiohttp.ClientSession, url: str, options: TargetOptions) -> TargetOptions:
    """Complete the options with values from the server: an OpenAI-compatible server's model, whether dragoman accepts forced
    lengths. Raises ConfigError."""
    if options.kind == "dragoman" and options.forced is None:
        stats = await DragomanStats(session, f"{url}/v1/stats").read()
        engine = members(stats.settings.get("engine")) if stats else {}
        # Sent where it reports nothing: then its own refusal is clearer than a guess.
        return replace(options, forced=engine.get("load_format", "dummy") == "dummy")
    if options.model is not None or not options.kind.startswith("openai"):
        return options
    status, body = await _ask(session, "GET", f"{url}/v1/models", None, options.bearer, _CHECK_TIMEOUT_S)
    if status != 200:
        raise ConfigError(f"{url}/v1/models answered {status}: specify --model", param="model")
    try:
        return replace(options, model=str(part(json.loads(body), "data", 0, "id")))
    except (ValueError, BadReplyError) as error:
        raise ConfigError(f"{url}/v1/models lists no model: specify --model", param="model") from error


async def check_server(
    session: aiohttp.ClientSession, url: str, options: TargetOptions, items: Iterable[Item], timeout_s: float
) -> None:
    """Send each item. Raises ConfigError for the first one that the server cannot answer."""
    target = make_target(replace(options, stream=False))
    url += target.path
    for item in items:
        headers = {"Content-Type": "application/json", **target.headers}
        body = json.dumps(target.body(item), ensure_ascii=False).encode()
        status, answer = await _ask(session, "POST", url, body, headers, timeout_s)
        if status == 429:
            continue  # it is there and busy: refusals are counted, not a fault of the plan
        if status in (404, 405):
            raise ConfigError(f"{url} does not exist ({status}): is this a {options.kind} server?", param="target")
        if not 200 <= status < 300:
            pair, text = f"{item.source or 'auto'}-{item.target}", answer[:200].decode("utf-8", "replace")
            raise ConfigError(f"{url} answered {status} to a text of the pair {pair}: {text}")
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
