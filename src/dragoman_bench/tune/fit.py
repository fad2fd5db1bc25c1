"""Whether a running server's configuration still fits what it got: rules over its vitals, each a remark with its numbers.

The rules compare what came with what the server holds: slots with concurrency, cache with tokens, waiting with the whole,
refusals, preemptions, the SLO. They say what to look at; what would be better only a measurement can say (`dragoman tune`).
Knows nothing of how vitals are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from dragoman_bench.bench.summary import Slo
from dragoman_bench.bench.tables import seconds as duration
from dragoman_bench.tune.objective import State, judge
from dragoman_bench.tune.sizing import MARGIN
from dragoman_bench.tune.vitals import Server, Traffic, Vitals

Severity = Literal["fits", "note", "warning", "problem"]
SEVERITIES: tuple[Severity, ...] = ("problem", "warning", "note", "fits")
"""The worst first."""
Verdict = Literal["fits", "fits, but look", "does not fit", "cannot be told"]

FEWEST_TEXTS = 100  # below, a 95th percentile is a handful of texts
TOO_MUCH = 4.0  # times what would do, before a cache is called far too large
WAITING, WAITING_MUCH = 0.2, 0.5  # share of the whole time
UNFELT_S = 0.05  # nobody notices such a wait
RARE = 0.001  # share of texts or calls
NEARLY_FULL = 0.95
_REFUSED = frozenset({"queue_full"})
_FAILED = frozenset({"engine_dead", "engine_failed", "internal_error", "unavailable"})
_OF_LIMIT: dict[State, Severity] = {"met": "fits", "broken": "problem", "unknown": "note"}
_TUNE = "export the recorded traffic and run `dragoman tune` on it"


@dataclass(frozen=True, slots=True)
class Remark:
    """`told` has the numbers, `advice` what to do where there is something."""

    about: str
    severity: Severity
    told: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """What the rules look at. `before`: an earlier look at the same server, for what has grown since."""

    now: Vitals
    before: Vitals | None = None
    slo: Slo | None = None

    @property
    def since(self) -> Server | None:
        """The server at the earlier look; None where it has been restarted since."""
        if self.before is None:
            return None
        then_s, now_s = self.before.server.uptime_s, self.now.server.uptime_s
        return self.before.server if then_s is not None and now_s is not None and now_s >= then_s else None


def remarks(case: Case) -> tuple[Remark, ...]:
    """The worst first."""
    traffic = case.now.traffic
    found = [*_of_server(case), *_preemptions(case)]
    if traffic is not None and traffic.records:
        found += [remark for rule in _RULES for remark in rule(case, traffic)]
    return tuple(sorted(found, key=lambda remark: SEVERITIES.index(remark.severity)))


def verdict(found: tuple[Remark, ...], traffic: Traffic | None) -> Verdict:
    """What is wrong is wrong on little traffic too; that all is well takes enough of it."""
    worst = {remark.severity for remark in found}
    if "problem" in worst:
        return "does not fit"
    if traffic is None or traffic.records < FEWEST_TEXTS or not worst & {"fits", "warning"}:
        return "cannot be told"
    return "fits, but look" if "warning" in worst else "fits"


def _of_server(case: Case) -> Iterator[Remark]:
    server, traffic = case.now.server, case.now.traffic
    if server.state not in (None, "serving"):
        yield Remark("state", "note", f"the server is {server.state}")
    if case.before is not None and case.since is None:
        yield Remark("state", "note", "it was restarted since the last look")
    if server.kv_cache_usage is not None and server.kv_cache_usage >= NEARLY_FULL:
        yield Remark("KV cache", "warning", f"{server.kv_cache_usage:.0%} of the cache is in use at this moment")
    if traffic is None:
        refused = f"; it has refused {server.refused:,} calls since its start" if server.refused else ""
        yield Remark("traffic", "note", f"it does not tell its traffic: only its counters are judged{refused}")
    elif traffic.records < FEWEST_TEXTS:
        told = f"{traffic.records} texts in the last {_window(traffic)}: too few to say that the configuration fits"
        yield Remark("traffic", "note", told, "look again after busier hours")


def _preemptions(case: Case) -> Iterator[Remark]:
    server, since = case.now.server, case.since
    if server.preemptions is None:
        return
    base = since.preemptions if since is not None and since.preemptions is not None else 0
    when = "since the last look" if since is not None else "since the server's start"
    grown = server.preemptions - base
    if not grown:
        yield Remark("preemptions", "fits", f"none {when}")
        return
    done = (server.finished or 0) - (since.finished or 0 if since is not None else 0)
    often = not done or grown / done > RARE
    told = f"{grown:,} {when}, in {done:,} sequences: the cache was full and work was thrown away to be done again"
    yield Remark("preemptions", "problem" if often else "warning", told, f"give the cache more memory, or {_TUNE}")


def _slots(case: Case, traffic: Traffic) -> Iterator[Remark]:
    slots, busy, peak = case.now.server.slots, traffic.in_flight.p95, traffic.in_flight.highest
    if slots is None or busy is None or peak is None:
        return
    came = f"95 % of texts found {busy:,.0f} or fewer in the house, themselves included; {peak:,.0f} at most"
    if peak <= slots:
        yield Remark("slots", "fits", f"{slots:,} slots for {came}")
    elif busy <= slots:
        yield Remark("slots", "note", f"{slots:,} slots; {came}: the highest peaks wait for a slot")
    else:
        waits = _waiting(traffic)
        felt = waits is None or waits >= WAITING
        told = f"{slots:,} slots, fewer than the concurrency that came: {came}"
        yield Remark(
            "slots", "warning" if felt else "note", told, f"{_TUNE}: more slots help where the engine has room"
        )


def _cache(case: Case, traffic: Traffic) -> Iterator[Remark]:
    holds, took = case.now.server.kv_tokens, traffic.peak_tokens
    if not holds or not took:
        return
    told = f"it holds {holds:,} tokens; the texts in the house came to {took:,} at most"
    enough = took * MARGIN
    if holds < took:
        # Where slots are too few for them too, some of these tokens were of texts that waited outside the cache.
        severity: Severity = "warning" if _too_few_slots(case, traffic) else "problem"
        yield Remark("KV cache", severity, f"{told}: more than it holds", f"raise its memory, or {_TUNE}")
    elif holds < enough:
        advice = f"raise its memory: {MARGIN:g} times the peak would be {enough:,.0f} tokens"
        yield Remark("KV cache", "warning", f"{told}: little to spare", advice)
    elif holds > enough * TOO_MUCH:
        yield Remark(
            "KV cache", "note", f"{told}: {_spared(case.now.server, holds - enough)}", f"to give it back, {_TUNE}"
        )
    else:
        yield Remark("KV cache", "fits", f"{told}: {holds / took:.1f} times as much room")


def _too_few_slots(case: Case, traffic: Traffic) -> bool:
    slots, peak = case.now.server.slots, traffic.in_flight.highest
    return slots is not None and peak is not None and peak > slots


def _spared(server: Server, tokens: float) -> str:
    if server.kv_bytes_per_token is None:
        return f"far too large, by {tokens:,.0f} tokens"
    return f"far too large, by about {tokens * server.kv_bytes_per_token / 2**30:.1f} GiB"


def _queue(case: Case, traffic: Traffic) -> Iterator[Remark]:
    waits, queue_s, e2e_s = _waiting(traffic), traffic.queue_s.p95, traffic.e2e_s.p95
    if waits is None or queue_s is None or e2e_s is None:
        return
    told = f"95th percentiles: {_seconds(queue_s)} of waiting, {_seconds(e2e_s)} in all ({waits:.0%})"
    if queue_s < UNFELT_S or waits < WAITING:
        yield Remark("queue", "fits", told)
        return
    slots, busy = case.now.server.slots, traffic.in_flight.p95
    few = slots is not None and busy is not None and busy > slots
    why = "there are fewer slots than texts" if few else "there are slots, so the engine itself is behind"
    advice = f"{_TUNE}" if few else f"{_TUNE}; where it finds nothing better, add a replica"
    yield Remark("queue", "problem" if waits >= WAITING_MUCH else "warning", f"{told}: {why}", advice)


def _refusals(case: Case, traffic: Traffic) -> Iterator[Remark]:
    total, limit = sum(traffic.outcomes.values()), case.now.server.queue_limit
    if not total:
        return
    at = f" (it holds {limit:,} texts)" if limit is not None else ""
    for about, codes, what in (
        ("refusals", _REFUSED, f"refused, as the queue was full{at}"),
        ("failures", _FAILED, "failed inside the server"),
    ):
        count = sum(traffic.outcomes.get(code, 0) for code in codes)
        severity: Severity = "fits" if not count else "problem" if count / total > RARE else "warning"
        told = f"{count:,} of {total:,} texts" if count else f"none of {total:,} texts"
        yield Remark(about, severity, f"{told} {what} in the last {_window(traffic)}")


def _steps(case: Case, traffic: Traffic) -> Iterator[Remark]:
    room, longest = case.now.server.batched_tokens, traffic.source_tokens.highest
    if room is not None and longest is not None and longest > room:
        told = f"texts of up to {longest:,.0f} tokens, where a step takes {room:,}: their prompts take several steps"
        yield Remark("max_num_batched_tokens", "note", told)


def _objective(case: Case, traffic: Traffic) -> Iterator[Remark]:
    for limit in case.slo.limits if case.slo else ():
        state, measured = judge(limit, traffic, case.now.server)
        yield Remark("SLO", _OF_LIMIT[state], f"{limit.label}: {measured}")


def _waiting(traffic: Traffic) -> float | None:
    """The share of waiting in the whole, at the 95th percentiles of either."""
    queue_s, e2e_s = traffic.queue_s.p95, traffic.e2e_s.p95
    return None if queue_s is None or not e2e_s else min(1.0, queue_s / e2e_s)


def _window(traffic: Traffic) -> str:
    return f"{traffic.window_s / 60:.0f} min" if traffic.window_s >= 60 else duration(traffic.window_s)


def _seconds(value_s: float) -> str:
    return duration(float(f"{value_s:.3g}"))


_RULES: tuple[Callable[[Case, Traffic], Iterator[Remark]], ...] = (
    _objective,
    _slots,
    _queue,
    _cache,
    _refusals,
    _steps,
)
