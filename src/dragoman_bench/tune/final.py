"""The final: compares the settings that the search found with baselines, and recommends one of them.

Baselines are configurations without tuning: `vllm serve` with its defaults, vLLM's defaults for embedded engines, the
story's settings. Servers are started one after another, in rounds whose order changes, so that drift of the machine affects
all of them; each has the memory that it asks for. A candidate that does not start or crashes is excluded, with the reason.
Candidates that meet the SLO come first, then the best, and of equal ones the finalist. Only the final decides, because trials
of the search are measured minutes apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dragoman.errors import ConfigError
from dragoman_bench.bench.measurement import Machine
from dragoman_bench.tune.compare import Context, Objective, meets
from dragoman_bench.tune.outcome import (
    FINALIST,
    Candidate,
    Final,
    FinalEntry,
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
)

BASELINES = ("vllm-serve", "embedder", "story")
_VLLM_UTILIZATION = 0.92  # vLLM's default of gpu_memory_utilization
_GIB = 2**30


def parse_baselines(text: str) -> tuple[str, ...]:
    """Parse `vllm-serve,story`, or `none`. Raises ConfigError for an unknown name."""
    words = [word.strip() for word in text.split(",") if word.strip() and word.strip() != "none"]
    if unknown := [word for word in words if word not in BASELINES]:
        known = ", ".join(BASELINES)
        raise ConfigError(f"unknown baseline {unknown[0]!r}: use none, or some of {known}", param="baselines")
    return tuple(name for name in BASELINES if name in words)


def candidates(
    finalist: Knobs, baselines: Sequence[str], machine: Machine, kv_cache_bytes: int | None
) -> tuple[Candidate, ...]:
    """Return the finalist, then the baselines. `kv_cache_bytes`: the KV cache of each without a GPU, since vLLM's default is
    most of the machine's memory."""
    made = [Candidate(FINALIST, "what the search found", Setup(finalist), finalist)]
    titles = {
        "vllm-serve": "`vllm serve` with its defaults",
        "embedder": "vLLM's embedder defaults",
        "story": "the story's 16/8192/0.3" if machine.gpus else "the story's 16/8192",
    }
    sizes = {"vllm-serve": serve_defaults(machine), "embedder": (128, 2048), "story": (16, 8192)}
    for name in baselines:
        knobs = Knobs(*sizes[name])
        if machine.gpus:  # vLLM's own ceiling of CUDA graphs, as dragoman's default would be another
            memory = 0.3 if name == "story" else _VLLM_UTILIZATION
            knobs = Knobs(*sizes[name], min(2 * sizes[name][0], 512), memory)
        else:
            knobs = replace(knobs, kv_cache_memory_bytes=kv_cache_bytes)
        setup = Setup(knobs)
        if name == "vllm-serve":
            setup = Setup(Knobs(kv_cache_memory_bytes=knobs.kv_cache_memory_bytes), "vllm")
        made.append(Candidate(name, titles[name], setup, knobs))
    return tuple(made)


def serve_defaults(machine: Machine) -> tuple[int, int]:
    """Return `vllm serve`'s default max_num_seqs and max_num_batched_tokens (vLLM 0.32, EngineArgs.get_batch_defaults)."""
    if not machine.gpus:
        return 128, 2048
    memory_bytes, a100 = machine.engine_memory_bytes, any("a100" in gpu.name.lower() for gpu in machine.gpus)
    if memory_bytes >= 160 * _GIB:
        return 1024, 16384
    return (1024, 8192) if memory_bytes >= 70 * _GIB and not a100 else (256, 2048)


def hold_final(entrants: Sequence[Candidate], busy: LoadLevel, rounds: int, metric: Metric) -> Search[Final]:
    """Run all rounds, or those before an interrupt. A candidate that does not start or crashes is excluded."""
    trials: dict[str, Trial] = {}
    held = 0
    for turn in range(rounds):
        start = turn % len(entrants)  # so that each is first, second, last equally often
        for one in (*entrants[start:], *entrants[:start]):
            note = f"round {turn + 1} of {rounds}"
            trials[one.name] = yield Measure(f"final-{one.name}", "final", one.setup, busy, one.title, turn, note)
        if any(trial.not_reached for trial in trials.values()):
            break
        held += 1
    entries: list[FinalEntry] = []
    for one, trial in zip(entrants, trials.values(), strict=True):
        entries.append(FinalEntry(one, trial.outcome, trial.reason, () if trial.failed else trial.at(busy)))
    note = "one server was up at a time, with the memory that it asks for"
    if preempted := [one.candidate.title for one in entries if any(result.preemptions for result in one.busy)]:
        note += f"; requests were preempted, and so slowed, in {', '.join(preempted)}"
    return Final(tuple(entries), held, note, metric)


def judge(final: Final, objective: Objective) -> Final:
    """Set the final's deciding metric, and compare the finalist with each candidate."""
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
_NOT_SIZED = "its memory was not sized for the demand"


def recommend(finding: SearchResult, final: Final | None, context: Context) -> Recommendation:
    """Recommend from a judged final, whose metric is the context's. Without one, or if the finalist was not measured in it,
    recommend the settings that the search found."""
    entries, objective, clients = final.measured if final else [], context.objective, context.busy.clients
    own = Recommendation(FINALIST, finding.choices, "", "", tuple(_of_memory(finding.memory)), finding.memory)
    if final is None or all(one.candidate.name != FINALIST for one in entries):
        out = next((one for one in final.entries if one.candidate.name == FINALIST), None) if final else None
        because = f"in the final it was not measured: {out.reason or out.outcome}" if out else "there was no final"
        headline = "The best that the search found; it was not compared with the baselines."
        return replace(own, headline=headline, because=because, caveats=(because, *own.caveats))
    winner = best_entry(entries, objective)
    numbers = f"{objective.describe(winner.busy)} with {clients} clients"
    better = len(entries) > 1 and all(one.verdict in ("itself", "higher") for one in entries)
    than = "better than every baseline" if better else "no baseline is better"
    headline = f"Serve with what the search found: {numbers}; {than}."
    caveats = list(own.caveats)
    if winner.candidate.name != FINALIST:
        title = winner.candidate.title
        choices = choices_of(winner.candidate.alone, f"as in {title}: {objective.describe(winner.busy)}")
        headline = f"Serve as {title}: {numbers}; what the search found is worse."
        own = replace(own, candidate=winner.candidate.name, choices=choices, memory=None)
        caveats = [_OF_VLLM, _NOT_SIZED] if winner.candidate.setup.kind == "vllm" else [_NOT_SIZED]
    if objective.slo is not None and not any(meets(one.busy) for one in entries):
        caveats.insert(0, f"no setup meets the SLO with {clients} clients: send fewer texts, or use faster hardware")
    if any(len(one.busy) < 2 for one in entries):
        caveats.insert(0, "measured once: 10 % stands for the unknown spread")
    because = "; ".join(f"{one.candidate.title}: {objective.describe(one.busy)}" for one in entries)
    return replace(own, headline=headline, because=because, caveats=tuple(caveats))


def best_entry(entries: Sequence[FinalEntry], objective: Objective) -> FinalEntry:
    """Return the finalist if no other is ahead of it, because its memory is sized and checked; else the best. If any
    candidate meets the SLO, only such candidates count."""
    eligible = [one for one in entries if objective.passes(one.busy)] or list(entries)
    finalist = next((one for one in eligible if one.candidate.name == FINALIST), None)
    if finalist and all(objective.compare_rounds(finalist.busy, other.busy) != "lower" for other in eligible):
        return finalist
    return max(eligible, key=lambda one: objective.rank(one.busy))


def _of_memory(memory: Memory | None) -> Iterator[str]:
    if memory is not None and memory.checked == "did not hold":
        yield "no memory that was tried held under 1.5 times the peak: long texts at the peak may be preempted"
    elif memory is None or memory.value is None:
        yield "the memory that the demand needs could not be computed: the server's own size is kept"
    elif memory.checked == "not checked":
        yield "this memory is computed, and was not checked under load"
