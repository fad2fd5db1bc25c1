"""`dragoman tune --watch URL`: whether a running server's configuration still fits its traffic, and why.

It reads `GET /v1/stats` and `GET /v1/traffic` and changes nothing. The rules compare what arrived with what the server holds:
sequences with concurrency, cache with tokens, waiting with the whole time, refusals, preemptions, the SLO. They say what to
look at; what would be better only a measurement can show. Of several replicas each is judged by itself, as its sequences and
its cache are its own, and the worst finding of each rule is reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

import aiohttp
from pydantic import ValidationError

from dragoman.errors import ConfigError
from dragoman.wire import Percentiles, Stats, Traffic, TrafficPercentiles
from dragoman_bench.bench.benchmark import check_url
from dragoman_bench.bench.results import members, whole
from dragoman_bench.bench.summary import Limit, Slo
from dragoman_bench.bench.tables import count, number, percent, seconds, size
from dragoman_bench.tune.memory import MARGIN

Severity = Literal["problem", "warning", "note", "fits"]
WatchVerdict = Literal["fits", "fits, but look", "does not fit", "unknown"]
SIGNS: dict[Severity, str] = {"problem": "✗", "warning": "!", "note": "·", "fits": "✓"}
"""The worst first."""
FEWEST_TEXTS = 100  # below, a 95th percentile is a handful of texts
TOO_LARGE = 4.0  # times what is enough, before a cache is called far too large
WAITING, WAITING_MUCH = 0.2, 0.5  # share of the whole time
UNNOTICED_S = 0.05
RARE = 0.001  # share of texts or sequences
NEARLY_FULL = 0.95
_TIMEOUT_S = 10.0
_WITH_SLOTS = ("continuous", "fake")  # pipelines whose sequences are max_num_seqs
_OUTCOMES = {
    "refusals": (("queue_full",), "refused, as the queue was full"),
    "failures": (("engine_dead", "engine_failed", "internal_error", "unavailable"), "failed inside the server"),
}
_SUMMARIES: dict[WatchVerdict, str] = {
    "fits": "the configuration fits",
    "fits, but look": "the configuration serves, but look at what is marked !",
    "does not fit": "the configuration does not fit",
    "unknown": "whether the configuration fits is not known yet",
}
_TUNE = "export the recorded traffic and run `dragoman tune` on it"


@dataclass(frozen=True, slots=True)
class Remark:
    """`text` has the numbers, `advice` what to do, where there is something."""

    about: str
    severity: Severity
    text: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """What a server reports at one time. `traffic` None: it does not report its traffic."""

    stats: Stats
    traffic: Traffic | None = None

    @property
    def engine(self) -> dict[str, Any]:
        return members(self.stats.settings.get("engine"))

    @property
    def slots(self) -> int | None:
        """Sequences that run at the same time; None where the pipeline has none that can be compared."""
        sequences = whole(self.engine.get("max_num_seqs")) if self.stats.pipeline in _WITH_SLOTS else None
        return None if sequences is None else sequences * (whole(self.engine.get("data_parallel_size")) or 1)

    @property
    def replicas(self) -> dict[str, Observation]:
        """By name; empty where the server is the only one."""
        traffic = {one.replica: one for one in self.traffic.replicas} if self.traffic is not None else {}
        return {one.replica: Observation(one, traffic.get(one.replica)) for one in self.stats.replicas}


@dataclass(frozen=True, slots=True)
class ServerLook:
    """One look at a server and what it found, the worst first. `observation` None: the server did not answer."""

    url: str
    observation: Observation | None
    remarks: tuple[Remark, ...]
    verdict: WatchVerdict
    at: str  # ISO 8601, UTC

    @property
    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "at": self.at,
            "url": self.url,
            "verdict": self.verdict,
            "remarks": [asdict(one) for one in self.remarks],
        }

    @property
    def lines(self) -> str:
        """For a terminal: a line in all, and one a remark."""
        served, now = "", self.observation
        if now is not None:
            served = f", {now.stats.model}"
            if now.traffic is not None:
                served += f", {now.traffic.records:,} texts, {number(now.traffic.arrivals_per_s)} a second"
        lines = [f"{self.at} {self.url}{served}: {_SUMMARIES[self.verdict]}."]
        for one in self.remarks:
            text = f"{one.text}; {one.advice}" if one.advice else one.text
            lines.append(f"  {SIGNS[one.severity]} {one.about}: {text}.")
        return "\n".join(lines)


async def watch(
    url: str,
    slo: Slo | None = None,
    every_s: float | None = None,
    interrupted: asyncio.Event | None = None,
    api_key: str | None = None,
) -> AsyncGenerator[ServerLook]:
    """One look, or with `every_s` until `interrupted`. Raises ConfigError where the first one finds no dragoman; later a
    server that does not answer is a remark, as it may come back."""
    url, ended, before = check_url(url), interrupted or asyncio.Event(), None
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S)) as session:
        while True:
            at = datetime.now(UTC).isoformat(timespec="seconds")
            try:
                now = await _observe(session, url)
                found = remarks(now, before, slo)
                before = now
                yield ServerLook(url, now, found, verdict_of(found, now.traffic), at)
            except ConfigError as error:
                if before is None:
                    raise
                yield ServerLook(url, None, (Remark("server", "problem", error.message),), "unknown", at)
            if every_s is None:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), every_s)
            if ended.is_set():
                return


async def _observe(session: aiohttp.ClientSession, url: str) -> Observation:
    """Raises ConfigError where no dragoman answers."""
    try:
        stats = Stats.model_validate(await _read(session, f"{url}/v1/stats"))
    except ValidationError as error:
        text = f"{url}/v1/stats does not describe an engine: is this a dragoman server?"
        raise ConfigError(text, param="url") from error
    traffic = await _read(session, f"{url}/v1/traffic")
    with suppress(ValidationError):
        return Observation(stats, Traffic.model_validate(traffic))
    return Observation(stats)


async def _read(session: aiohttp.ClientSession, url: str) -> object:
    """The JSON there; None where the server has no such page. Raises ConfigError where no server answers."""
    try:
        async with session.get(url) as response:
            return await response.json(content_type=None) if response.status == 200 else None
    except ValueError:
        return None
    except (aiohttp.ClientError, OSError) as error:  # a timeout is an OSError
        raise ConfigError(f"cannot reach {url}: {error or 'no answer in time'}", param="url") from error


def verdict_of(found: tuple[Remark, ...], traffic: Traffic | None) -> WatchVerdict:
    """A problem is one on little traffic too; that all is well takes enough of it."""
    severities = {remark.severity for remark in found}
    if "problem" in severities:
        return "does not fit"
    if traffic is None or traffic.records < FEWEST_TEXTS or not severities & {"fits", "warning"}:
        return "unknown"
    return "fits, but look" if "warning" in severities else "fits"


def remarks(now: Observation, before: Observation | None = None, slo: Slo | None = None) -> tuple[Remark, ...]:
    """The worst first. `before`: an earlier look at the same server, for what has grown since."""
    found = _of_replicas(now, before, slo) if now.stats.replicas else _of_one(now, before, slo)
    return tuple(sorted(found, key=_rank))


def _rank(remark: Remark) -> int:
    return list(SIGNS).index(remark.severity)


def _of_replicas(now: Observation, before: Observation | None, slo: Slo | None) -> Iterator[Remark]:
    """The worst remark of each rule, with the replica that it is of, and how many others are as bad."""
    earlier = before.replicas if before is not None else {}
    by_rule: dict[tuple[str, str], list[tuple[str, Remark]]] = {}
    for name, replica in now.replicas.items():
        if replica.stats.state == "unreachable":
            found = [Remark("state", "warning", "it does not answer")]
        else:
            found = _of_one(replica, earlier.get(name), slo)
        for one in found:
            limit = one.text.partition(":")[0] if one.about == "SLO" else ""
            by_rule.setdefault((one.about, limit), []).append((name, one))
    for rule in by_rule.values():
        name, worst = min(rule, key=lambda named: _rank(named[1]))
        others = sum(one.severity == worst.severity for _, one in rule) - 1
        where = f"replica {name}" + (f", and {others} more like it" if others else "")
        yield replace(worst, text=f"{where}: {worst.text}")


def _of_one(now: Observation, before: Observation | None, slo: Slo | None) -> list[Remark]:
    restarted = before is not None and now.stats.uptime_s < before.stats.uptime_s
    found = list(_of_server(now, restarted))
    found.append(_of_preemptions(now.stats, None if before is None or restarted else before.stats))
    if now.traffic is not None and now.traffic.records:
        for limit in slo.limits if slo else ():
            severity, text = judge_limit(limit, now.traffic, now.stats)
            found.append(Remark("SLO", severity, f"{limit.label}: {text}"))
        for rule in (_of_slots, _of_queue, _of_cache, _of_outcomes):
            found += rule(now, now.traffic)
    return found


def _of_server(now: Observation, restarted: bool) -> Iterator[Remark]:
    stats, traffic = now.stats, now.traffic
    if stats.state != "serving":
        yield Remark("state", "note", f"the server is {stats.state}")
    if restarted:
        yield Remark("state", "note", "it was restarted since the last look")
    if stats.kv_cache_usage >= NEARLY_FULL:
        yield Remark("KV cache", "warning", f"{percent(stats.kv_cache_usage)} of the cache is in use at this moment")
    if traffic is None:
        text = f"it does not report its traffic: only its counters are judged; {stats.refused:,} calls refused since its start"
        yield Remark("traffic", "note", text)
    elif traffic.records < FEWEST_TEXTS:
        text = f"{traffic.records} texts in the last {_window(traffic)}: too few to say that the configuration fits"
        yield Remark("traffic", "note", text, "look again after busier hours")


def _of_preemptions(now: Stats, before: Stats | None) -> Remark:
    since = "since the last look" if before is not None else "since the server's start"
    grown = now.preemptions - (before.preemptions if before is not None else 0)
    if not grown:
        return Remark("preemptions", "fits", f"none {since}")
    finished = now.finished - (before.finished if before is not None else 0)
    often = not finished or grown / finished > RARE
    text = f"{grown:,} {since}, in {finished:,} sequences: the cache was full, and they were computed again"
    return Remark("preemptions", "problem" if often else "warning", text, f"give the cache more memory, or {_TUNE}")


def judge_limit(limit: Limit, traffic: Traffic, stats: Stats) -> tuple[Severity, str]:
    """Whether a limit was met, from the few percentiles that a server reports: one between two that are reported is met
    where the higher is within the limit, missed where the lower is beyond it."""
    per_metric: dict[str, TrafficPercentiles | Percentiles] = {
        "e2e": traffic.e2e_s,
        "ttft": traffic.ttft_s,
        "itl": stats.inter_token_latency_s,
        "tpot": Percentiles(),  # not reported
    }
    found = per_metric[limit.metric]
    last = (100.0, found.max) if isinstance(found, TrafficPercentiles) else (99.0, found.p99)
    known = [(rank, value_s) for rank, value_s in ((50.0, found.p50), (95.0, found.p95), last) if value_s is not None]
    wanted = 100.0 if limit.percentile is None else limit.percentile
    below = [(rank, value_s) for rank, value_s in known if rank <= wanted][-1:]
    above = [(rank, value_s) for rank, value_s in known if rank >= wanted][:1]
    texts = [
        f"{'the slowest' if rank == 100 else f'the {rank:g}th percentile'} is {seconds(value_s)}"
        for rank, value_s in (*below, *above)
    ]
    if above and above[0][1] <= limit.limit_s:
        return "fits", texts[-1]
    if below and below[0][1] > limit.limit_s:
        return "problem", texts[0]
    return "note", f"not known: {' and '.join(texts) or 'the server does not report it'}"


def _of_slots(now: Observation, traffic: Traffic) -> Iterator[Remark]:
    slots, busy, peak = now.slots, traffic.in_flight.p95, traffic.in_flight.max
    if slots is None or busy is None or peak is None:
        return
    text = f"max_num_seqs is {slots:,}; {count(busy)} in-flight texts at the 95th percentile of arrivals, {count(peak)} at most"
    if peak <= slots:
        yield Remark("slots", "fits", text)
    elif busy <= slots:
        yield Remark("slots", "note", f"{text}: the highest peaks wait")
    else:
        waits = _waiting(traffic)
        severity: Severity = "warning" if waits is None or waits >= WAITING else "note"
        yield Remark("slots", severity, text, f"{_TUNE}: more sequences help where the engine is not the limit")


def _of_queue(now: Observation, traffic: Traffic) -> Iterator[Remark]:
    waits, queue_s, e2e_s = _waiting(traffic), traffic.queue_s.p95, traffic.e2e_s.p95
    if waits is None or queue_s is None:
        return
    text = f"95th percentiles: {seconds(queue_s)} of waiting, {seconds(e2e_s)} in all ({percent(waits)})"
    if queue_s < UNNOTICED_S or waits < WAITING:
        yield Remark("queue", "fits", text)
        return
    few = now.slots is not None and (traffic.in_flight.p95 or 0) > now.slots
    why = "there are fewer sequences than texts" if few else "there are sequences left, so the engine is behind"
    advice = _TUNE if few else f"{_TUNE}; where it finds nothing better, add a replica"
    yield Remark("queue", "problem" if waits >= WAITING_MUCH else "warning", f"{text}: {why}", advice)


def _of_cache(now: Observation, traffic: Traffic) -> Iterator[Remark]:
    holds, took = now.stats.kv_cache.tokens, traffic.peak_tokens
    if not holds or not took:
        return
    text, enough = f"it holds {holds:,} tokens; the texts in flight took {took:,} at most", took * MARGIN
    if holds < took:
        # Where sequences are too few as well, some of these tokens were of texts that waited outside the cache.
        few = now.slots is not None and (traffic.in_flight.max or 0) > now.slots
        advice = f"raise its memory, or {_TUNE}"
        yield Remark("KV cache", "warning" if few else "problem", f"{text}: more than it holds", advice)
    elif holds < enough:
        advice = f"raise its memory: {MARGIN:g} times the peak is {enough:,.0f} tokens"
        yield Remark("KV cache", "warning", f"{text}: little to spare", advice)
    elif holds > enough * TOO_LARGE:
        per_token = now.stats.kv_cache.bytes_per_token
        spare = f"{holds - enough:,.0f} tokens" if per_token is None else f"about {size((holds - enough) * per_token)}"
        yield Remark("KV cache", "note", f"{text}: far too large, by {spare}", f"to give memory back, {_TUNE}")
    else:
        yield Remark("KV cache", "fits", f"{text}: {holds / took:.1f} times as much")


def _of_outcomes(now: Observation, traffic: Traffic) -> Iterator[Remark]:
    total = sum(traffic.outcomes.values())
    for about, (codes, what) in _OUTCOMES.items() if total else ():
        failed = sum(traffic.outcomes.get(code, 0) for code in codes)
        severity: Severity = "fits" if not failed else "problem" if failed / total > RARE else "warning"
        yield Remark(about, severity, f"{failed:,} of {total:,} texts {what} in the last {_window(traffic)}")


def _waiting(traffic: Traffic) -> float | None:
    """The share of waiting in the whole time, at the 95th percentiles of both."""
    queue_s, e2e_s = traffic.queue_s.p95, traffic.e2e_s.p95
    return None if queue_s is None or not e2e_s else min(1.0, queue_s / e2e_s)


def _window(traffic: Traffic) -> str:
    return f"{traffic.window_s / 60:.0f} min" if traffic.window_s >= 60 else seconds(traffic.window_s)
