"""The final: what the search found against the baselines, in rounds whose order turns, so that drift affects all alike; and
what is recommended.

Baselines are what one serves with without tuning: `vllm serve` with its defaults, vLLM's defaults for embedded engines, the
story's settings. All servers are up together where memory allows (one that idles slows no other); else they are started one
after another, round by round. A candidate that does not start or crashes is out, with its reason. What meets the SLO comes
first, then the best, and of equals the simplest is recommended. Only the final decides, where all were measured in turn:
trials of the search were measured minutes apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import floor

import psutil

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Machine
from dragoman_bench.tune.compare import Attempt, Best, Context, Objective, meets
from dragoman_bench.tune.memory import Sizer, check_memory
from dragoman_bench.tune.outcome import (
    FINALIST,
    Candidate,
    Final,
    FinalEntry,
    Hardware,
    Knobs,
    LoadLevel,
    Measure,
    Memory,
    Metric,
    Recommendation,
    Search,
    SearchResult,
    Setup,
    Trial,
    choices_of,
    with_choices,
)
from dragoman_bench.tune.trial import BY_HAND, Servers, TrialRunner, lacks_memory

BASELINES = ("vllm-serve", "embedder", "story")
SIMPLEST_FIRST = ("vllm-serve", "embedder", FINALIST, "story")
"""Defaults decide nothing, so they are the simplest; another's tuned values are no simpler than one's own."""
_VLLM_UTILIZATION = 0.92  # vLLM's default of gpu_memory_utilization
_SHARED = 0.96  # of a GPU's memory: the rest is of drivers and contexts
_IDLE_WARMUP = 0.5  # of a measurement's length: a server that idled beside others has cold caches
_HEADROOM = 1.25  # of free memory over what the largest server takes, before one more is started
_GIB = 2**30


def parse_baselines(text: str) -> tuple[str, ...]:
    """`vllm-serve,story`, or `none`. Raises ConfigError naming what is unknown."""
    words = [word.strip() for word in text.split(",") if word.strip() and word.strip() != "none"]
    if unknown := [word for word in words if word not in BASELINES]:
        known = ", ".join(BASELINES)
        raise ConfigError(f"unknown baseline {unknown[0]!r}: use none, or some of {known}", param="baselines")
    return tuple(name for name in BASELINES if name in words)


def candidates(
    finalist: Knobs, baselines: Sequence[str], hardware: Hardware, machine: Machine, kv_cache_bytes: int | None
) -> tuple[Candidate, ...]:
    """The finalist, then the baselines. `kv_cache_bytes`: for each where there is no GPU, since defaults would take the
    memory that the others need."""
    made = [Candidate(FINALIST, "what the search found", Setup(finalist), finalist, SIMPLEST_FIRST.index(FINALIST))]
    titles = {
        "vllm-serve": "`vllm serve` with its defaults",
        "embedder": "vLLM's embedder defaults",
        "story": "the story's 16/8192/0.3" if hardware.on_gpu else "the story's 16/8192",
    }
    sizes = {"vllm-serve": serve_defaults(hardware, machine), "embedder": (128, 2048), "story": (16, 8192)}
    for name in baselines:
        knobs = Knobs(*sizes[name])
        if hardware.on_gpu:  # vLLM's own ceiling of CUDA graphs, as dragoman's default would be another
            memory = 0.3 if name == "story" else _VLLM_UTILIZATION
            knobs = Knobs(*sizes[name], min(2 * sizes[name][0], 512), memory)
        setup = Setup(Knobs(), "vllm") if name == "vllm-serve" else Setup(knobs)
        made.append(Candidate(name, titles[name], setup, knobs, SIMPLEST_FIRST.index(name)))
    if not hardware.on_gpu and kv_cache_bytes is not None:
        made = [_with_memory(one, kv_cache_memory_bytes=kv_cache_bytes) for one in made]
    return tuple(made)


def serve_defaults(hardware: Hardware, machine: Machine) -> tuple[int, int]:
    """max_num_seqs and max_num_batched_tokens that `vllm serve` chooses (vLLM 0.32, EngineArgs.get_batch_defaults)."""
    if not hardware.on_gpu:
        return 128, 2048
    a100 = any("a100" in gpu.name.lower() for gpu in machine.gpus)
    if hardware.memory_bytes >= 160 * _GIB:
        return 1024, 16384
    return (1024, 8192) if hardware.memory_bytes >= 70 * _GIB and not a100 else (256, 2048)


def _with_memory(candidate: Candidate, **memory: int | float) -> Candidate:
    return replace(candidate, setup=replace(candidate.setup, knobs=replace(candidate.setup.knobs, **memory)))


@dataclass(frozen=True, slots=True)
class FinalPlan:
    """Every round measures `busy`, the first one `low` as well (None: it is the busy level). `needed_bytes`: of a GPU, for one
    server with the cache that the demand needs; None: not known."""

    candidates: tuple[Candidate, ...]
    busy: LoadLevel
    low: LoadLevel | None
    rounds: int
    metric: Metric
    hardware: Hardware
    needed_bytes: float | None = None

    def turn(self, candidate: Candidate, turn: int) -> list[Measure]:
        """What a candidate's turn measures."""
        name, note = f"final-{candidate.name}", f"round {turn + 1} of {self.rounds}"
        levels = (self.busy, self.low) if turn == 0 and self.low is not None else (self.busy,)
        return [Measure(name, "final", candidate.setup, level, candidate.title, turn, note) for level in levels]

    def round(self, turn: int) -> Search[None]:
        """A round over the candidates that are still in: each is first, second, last equally often."""
        start = turn % len(self.candidates)
        for candidate in (*self.candidates[start:], *self.candidates[:start]):
            for wanted in self.turn(candidate, turn):
                if (yield wanted).outcome != "measured":
                    break


def needed_bytes(hardware: Hardware, memory: Memory | None, trial: Trial) -> float | None:
    """What one server takes of a GPU with the cache that the demand needs; None where the trial's server reports too little."""
    cache, used = trial.kv_cache, trial.gpu_memory_utilization
    if memory is None or cache is None or cache.bytes_per_token is None or used is None:
        return None
    return used * hardware.memory_bytes + (memory.wanted_tokens - cache.tokens) * cache.bytes_per_token


class _NotEnoughMemory(Exception):
    """Not all servers can be up together. The message says why."""


async def run_final(servers: Servers, plan: FinalPlan) -> Final:
    """The first round whatever the time; further rounds as the time limit allows. Raises ConfigError where results cannot be
    written."""
    try:
        return await _together(servers, plan)
    except _NotEnoughMemory as fault:
        note = f"one server was up at a time, with the memory that it asks for: {fault}"
        servers.progress.note(note)
        return await _rounds(servers, plan, note, together=False)


async def _together(servers: Servers, plan: FinalPlan) -> Final:
    """On a GPU with an equal share of its memory each. Raises _NotEnoughMemory: on a CPU that is known only while servers
    start."""
    note, count, gpu_bytes = "all servers were up together", len(plan.candidates), plan.hardware.memory_bytes
    if plan.hardware.on_gpu:
        share = floor(_SHARED / count * 100) / 100
        if plan.needed_bytes is not None and plan.needed_bytes > share * gpu_bytes:
            raise _NotEnoughMemory(f"{count} do not fit beside each other ({plan.needed_bytes / _GIB:.1f} GiB each)")
        plan = replace(
            plan, candidates=tuple(_with_memory(one, gpu_memory_utilization=share) for one in plan.candidates)
        )
        note += f", each with {share:.0%} of the GPU's memory; speed does not depend on it while nothing is preempted"
    pace = servers.pace
    longer = replace(pace, warmup_s=max(pace.warmup_s, _IDLE_WARMUP * pace.duration_s))
    return await _rounds(replace(servers, pace=longer), plan, note, together=True)


async def _rounds(servers: Servers, plan: FinalPlan, note: str, *, together: bool) -> Final:
    """Raises _NotEnoughMemory where not all servers can be up together."""
    rounds, count = 0, len(plan.candidates)
    async with TrialRunner(replace(servers, deadline_s=None), together) as runner:
        if together:
            await _start_all(runner, plan)
        for turn in range(plan.rounds):
            stopped = servers.stopped(starts=0 if together else count, measurements=count)
            if stopped and (turn or stopped == BY_HAND):
                servers.progress.note(f"the final ended after {turn} of {plan.rounds} rounds: {stopped}")
                break
            await runner.run(plan.round(turn))
            rounds += not runner.stopped
        entries = tuple(_entry(plan, one, runner.trials.get(f"final-{one.name}")) for one in plan.candidates)
    if preempted := [one.candidate.title for one in entries if any(result.preemptions for result in one.busy)]:
        note += f"; requests were preempted, and so slowed, in {', '.join(preempted)}"
    return Final(entries, rounds, together, note, plan.metric)


async def _start_all(runner: TrialRunner, plan: FinalPlan) -> None:
    """All that have something left to measure, before the first measurement. Raises _NotEnoughMemory where one more server,
    as large as the largest, would leave the machine without memory, or one does not start for lack of it."""
    for candidate in plan.candidates:
        turns = [wanted for turn in range(plan.rounds) for wanted in plan.turn(candidate, turn)]
        if runner.servers.interrupted.is_set() or all(runner.servers.stored(wanted) for wanted in turns):
            continue
        largest = max((server.server.memory_bytes() for server in runner.up.values()), default=0)
        free = psutil.virtual_memory().available
        if largest * _HEADROOM > free:
            raise _NotEnoughMemory(f"{free / _GIB:.1f} GiB are free, and a server takes {largest / _GIB:.1f}")
        trial = await runner.start(turns[0])
        if trial.outcome == "did_not_start" and lacks_memory(trial.reason):
            raise _NotEnoughMemory(f"{candidate.title} did not start beside the others ({trial.reason})")


def _entry(plan: FinalPlan, candidate: Candidate, trial: Trial | None) -> FinalEntry:
    if trial is None:
        return FinalEntry(candidate, "interrupted", BY_HAND, (), ())
    if trial.failed:
        return FinalEntry(candidate, trial.outcome, trial.reason, (), ())
    return FinalEntry(
        candidate=candidate,
        outcome=trial.outcome,
        reason=trial.reason,
        busy=trial.at(plan.busy),
        low=trial.at(plan.low) if plan.low else (),
        kv_cache=trial.kv_cache,
    )


def judge(final: Final, objective: Objective) -> Final:
    """The final with its deciding metric, and how the finalist compares with each."""
    finalist = next((one for one in final.measured if one.candidate.name == FINALIST), None)
    entries: list[FinalEntry] = []
    for entry in final.entries:
        if finalist is not None and entry is not finalist and entry.busy:
            entries.append(replace(entry, verdict=objective.compare_rounds(finalist.busy, entry.busy)))
        else:
            entries.append(replace(entry, verdict="itself" if entry is finalist else "not measured"))
    return replace(final, entries=tuple(entries), metric=objective.metric)


# the recommendation

_OF_VLLM = "measured with `vllm serve` itself; dragoman with the same settings was not measured"
_COMPUTED = "this memory is computed, and was not checked under load"


def recommend(finding: SearchResult, final: Final | None, context: Context) -> Recommendation:
    """From a judged final, whose metric is the context's; without one, or where the finalist was not measured in it, what the
    search found."""
    entries, objective, clients = final.measured if final else [], context.objective, context.busy.clients
    own = Recommendation(FINALIST, finding.choices, "", "", False, tuple(_of_memory(finding.memory)), finding.memory)
    if final is None or all(one.candidate.name != FINALIST for one in entries):
        out = next((one for one in final.entries if one.candidate.name == FINALIST), None) if final else None
        because = f"in the final it was not measured: {out.reason or out.outcome}" if out else "there was no final"
        headline = "The best that the search found; it was not compared with the baselines."
        return replace(own, headline=headline, because=because, caveats=(because, *own.caveats))
    winner, equals = best_entry(entries, objective)
    better = len(entries) > 1 and all(one.verdict in ("itself", "higher") for one in entries)
    numbers = f"{objective.describe(winner.busy)} with {clients} clients"
    if winner.candidate.name != FINALIST:
        equal = any(one.candidate.name == FINALIST for one in equals)
        search = "no better beyond the spread" if equal else "worse"
        own = _of_baseline(winner, context)
        headline = f"Serve as {winner.candidate.title}: {numbers}; what the search found is {search}."
    else:
        than = "better than every baseline" if better else "no simpler setup is as good"
        headline = f"Serve with what the search found: {numbers}; {than}."
    caveats: list[str] = []
    if objective.slo is not None and not any(meets(one.busy) for one in entries):
        caveats.append(
            f"no setup meets the SLO with {clients} clients: it takes fewer texts in flight, or faster hardware"
        )
    if any(len(one.busy) < 2 for one in entries):
        caveats.append("measured once: 10 % stands for the unknown spread")
    because = "; ".join(f"{one.candidate.title}: {objective.describe(one.busy)}" for one in entries)
    return replace(own, headline=headline, because=because, better=better, caveats=(*caveats, *own.caveats))


def best_entry(entries: Sequence[FinalEntry], objective: Objective) -> tuple[FinalEntry, list[FinalEntry]]:
    """The simplest of those that no other is ahead of, and all of these; only those that meet the SLO, where any does."""
    eligible = [one for one in entries if objective.passes(one.busy)] or list(entries)
    best = max(eligible, key=lambda one: objective.rank(one.busy))
    equals = [
        one
        for one in eligible
        if one is best or all(objective.compare_rounds(one.busy, other.busy) != "lower" for other in eligible)
    ]
    return min(equals, key=lambda one: one.candidate.simplicity), equals


def confirm_recommended(context: Context, wanted: Recommendation) -> Search[Recommendation]:
    """A baseline that is recommended, by itself with the memory that the demand needs: checked, and measured at the busy
    level. It has not run so before: the final gave it other memory, and `vllm serve` may have been its server."""
    why = "the recommended settings by themselves, with the memory that the demand needs"
    attempt = Attempt("recommended", "recommended", wanted.knobs, why)
    best = Best(wanted.choices, (), context.ladder_trial, wanted.memory)
    after = yield from check_memory(context, best, attempt, "recommended")
    memory = after.memory
    if memory is None or memory.checked == "not checked":
        return wanted
    caveats, because, results = [text for text in wanted.caveats if text != _COMPUTED], wanted.because, ()
    if memory.checked == "held":
        shown = replace(attempt, name=memory.trials[-1], knobs=after.knobs)
        trial = yield shown.measure(context.busy)
        results = (yield from shown.repeated(context, trial)).at(context.busy)
    if results:
        because += f"; dragoman with the recommended settings, by itself: {context.objective.describe(results)}"
        caveats = [text for text in caveats if text != _OF_VLLM]
        if not context.objective.passes(results):
            caveats.append("measured by itself, it missed the SLO")
    return replace(
        wanted,
        choices=after.choices,
        memory=memory,
        results=results,
        because=because,
        caveats=(*caveats, *_of_memory(memory)),
    )


def _of_baseline(winner: FinalEntry, context: Context) -> Recommendation:
    """The baseline's settings, with memory as the demand needs it."""
    candidate, trial = winner.candidate, context.ladder_trial
    numbers = context.objective.describe(winner.busy)
    choices = choices_of(candidate.alone, f"as in {candidate.title}: {numbers}, the simplest of those that are as good")
    if winner.kv_cache is not None:
        share = candidate.setup.knobs.gpu_memory_utilization
        trial = replace(trial, results=winner.busy, kv_cache=winner.kv_cache, gpu_memory_utilization=share)
    memory = Sizer(context.demand, context.hardware, trial).size(candidate.alone.max_num_seqs or 1)
    choices = with_choices(choices, memory.choice) if memory.choice else choices
    caveats = (_OF_VLLM, _COMPUTED) if candidate.setup.kind == "vllm" else (_COMPUTED,)
    return Recommendation(candidate.name, choices, "", "", False, caveats, memory)


def _of_memory(memory: Memory | None) -> Iterator[str]:
    if memory is not None and memory.checked == "did not hold":
        yield "no memory that was tried held under 1.5 times the peak: long texts at the peak may be preempted"
    elif memory is None or memory.value is None:
        yield "the memory that the demand needs could not be computed: the server's own size is kept"
    elif memory.checked == "not checked":
        yield _COMPUTED
