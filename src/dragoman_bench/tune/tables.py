"""The tables and sentences of a tune's report: what is recommended, the final, the ladder, memory, every trial, conditions.

Columns that are empty in all rows are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from dragoman_bench.bench.results import Spread
from dragoman_bench.bench.summary import spread_of
from dragoman_bench.bench.tables import EMPTY, Cell, Column, Row, Table, about, count, number, percent, size, table
from dragoman_bench.tune.outcome import (
    Final,
    FinalEntry,
    Ladder,
    Lengths,
    LevelResult,
    Memory,
    Outcome,
    Rung,
    Trial,
    Tuning,
    by_name,
)

Read = Callable[[LevelResult], float | None]
Number = tuple[str, Callable[[Sequence[LevelResult]], Cell]]
"""A column's name, and how its cell is read over the repeats of a level."""
_RANGES = "Median of the repeats [lowest..highest]."
_OUTCOMES: dict[Outcome, Cell] = {
    "measured": Cell("measured", tone="good"),
    "did_not_start": Cell("did not start", tone="bad"),
    "failed_under_load": Cell("failed under load", tone="bad"),
    "skipped": Cell("skipped"),
    "interrupted": Cell("interrupted", tone="bad"),
}


def spread(results: Sequence[LevelResult], read: Read) -> Spread | None:
    """Over the repeats; None where one of them lacks the number."""
    values = [value for one in results if (value := read(one)) is not None]
    return spread_of(values) if values and len(values) == len(results) else None


def sentence(text: str) -> str:
    """With a full stop, and a capital where the first word is an ordinary one."""
    text = text.strip()
    if text.split(" ", 1)[0].islower():
        text = text[:1].upper() + text[1:]
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."


def _ranged(name: str, read: Read, scale: float = 1.0, unit: str = "") -> Number:
    return name, lambda results: Cell.ranged(spread(results, read), scale, unit)


def _highest(name: str, read: Read, write: Callable[[float], str]) -> Number:
    """The highest of the repeats: a peak is not averaged away."""

    def cell(results: Sequence[LevelResult]) -> Cell:
        values = [value for one in results if (value := read(one)) is not None]
        return Cell(write(max(values))) if values else EMPTY

    return name, cell


def _should_be_zero(name: str, read: Callable[[LevelResult], int | None]) -> Number:
    def cell(results: Sequence[LevelResult]) -> Cell:
        values = [value for one in results if (value := read(one)) is not None]
        return Cell(count(sum(values)), tone="bad" if any(values) else "") if values else EMPTY

    return name, cell


def _slo(results: Sequence[LevelResult]) -> Cell:
    met = [one.slo_met for one in results if one.slo_met is not None]
    if not met:
        return EMPTY
    if all(met):
        return Cell("met", tone="good")
    missed = sorted({verdict.limit for one in results for verdict in one.verdicts if not verdict.met})
    text = "missed" if not any(met) else f"met in {sum(met)} of {len(met)}"
    return Cell(text, "; ".join(missed), "bad")


_GOODPUT = _ranged("goodput req/s", lambda one: one.goodput_rps)
_RPS = _ranged("req/s", lambda one: one.rps)
_P50 = _ranged("p50 s", lambda one: one.e2e_p50_s)
_P95 = _ranged("p95 s", lambda one: one.e2e_p95_s)
_P99 = _ranged("p99 s", lambda one: one.e2e_p99_s)
_DECODE = _ranged("decode ms per token", lambda one: one.decode_s_per_token, 1000)
_PREEMPTED = _should_be_zero("preempted", lambda one: one.preemptions)
_FAILED = _should_be_zero("failed", lambda one: one.failed)
_SLO: Number = ("SLO", _slo)
LADDER: tuple[Number, ...] = (
    _GOODPUT, _RPS, _P50, _P95, _P99, _DECODE,
    _ranged("ITL p95 ms", lambda one: one.itl_p95_s, 1000),
    _SLO,
    _ranged("running, mean", lambda one: one.mean_running),
    _ranged("waiting in the engine, mean", lambda one: one.mean_waiting),
    _highest("KV cache peak", lambda one: one.peak_kv_cache_usage, lambda share: percent(share)),
    _ranged("GPU mean", lambda one: one.gpu_mean_percent, 1, "%"),
    _PREEMPTED, _FAILED,
)  # fmt: skip
FINAL: tuple[Number, ...] = (_GOODPUT, _RPS, _P95, _P99, _DECODE, _SLO, _PREEMPTED, _FAILED)
TRIAL: tuple[Number, ...] = (_GOODPUT, _RPS, _P95, _SLO, _PREEMPTED, _FAILED)


def all_tables(tuning: Tuning) -> dict[str, Table]:
    """Those that there is data for, by slug, in the order in which they are read."""
    found: list[Table] = []
    if tuning.choices:
        found.append(_recommended(tuning))
    if tuning.final is not None:
        found.append(_final(tuning, tuning.final))
    if tuning.ladder is not None:
        found.append(_ladder(tuning.ladder))
    if tuning.memory is not None:
        found.append(_memory(tuning, tuning.memory))
    if tuning.trials:
        found.append(_trials(tuning))
    found.append(_facts("conditions", "Conditions", _conditions(tuning)))
    return {one.slug: one for one in found}


def _recommended(tuning: Tuning) -> Table:
    columns = ("setting", Column("value", "left"), Column("why", "left"))
    rows = [(f"engine.{one.name}", str(one.value), sentence(one.reason)) for one in tuning.choices]
    return table("What to serve with", columns, rows, note="As in dragoman.toml.", slug="recommended")


def _ladder(found: Ladder) -> Table:
    """A row a cap; the knee is marked, and what was skipped has its reason."""
    note = f"{found.clients} clients; the cap is how many of their requests may be at the server. {_RANGES}"
    note += f" Ended: {sentence(found.ended)}" if found.ended else ""
    columns = (Column("cap", "left"), *(Column(name) for name, _ in LADDER), Column("compared with the cap below"))
    return Table("The ladder", columns, tuple(_rung(rung, found) for rung in found.rungs), note, "rungs").pruned()


def _rung(rung: Rung, found: Ladder) -> Row:
    knee, head = rung.cap == found.knee, Cell(str(rung.cap))
    flags = ("knee",) if knee else ("best median",) if rung.cap == found.best else ()
    if not rung.results:
        return Row((head,), flags, f"skipped: {rung.skipped}")
    below = EMPTY if rung.verdict == "first" else Cell(rung.verdict)
    return Row((head, *(read(rung.results) for _, read in LADDER), below), flags, marked=knee)


def _trials(tuning: Tuning) -> Table:
    """Every point of the search, skipped ones too."""
    note = (
        f"In the order in which they were made. Numbers are those at {tuning.demand.levels.busy} clients; the ladder's at its "
        f"knee, a memory check's at its own load. Settings: all for the first, then what differs from it. {_RANGES}"
    )
    columns = (
        Column("trial", "left"), Column("settings", "left"), Column("outcome", "left"), Column("why", "left"),
        *(Column(name) for name, _ in TRIAL), Column("start s"), Column("KV tokens"),
    )  # fmt: skip
    rows = tuple(_trial(trial, tuning) for trial in by_name(tuning.trials).values())
    return Table("Every point of the search", columns, rows, note, "trials").pruned()


def _trial(trial: Trial, tuning: Tuning) -> Row:
    head, settings = Cell(trial.name), _settings(trial, tuning.trials[0])
    if trial.outcome == "skipped":
        return Row((head,), note=f"skipped: {settings}. {sentence(trial.reason)}")
    best = tuning.finding is not None and trial.name == tuning.finding.best_trial
    why = Cell(sentence(trial.why), sentence(trial.reason))
    results = _shown(trial, tuning)
    start = Cell(number(trial.start_s)) if trial.start_s is not None else EMPTY
    tokens = Cell(count(trial.kv_cache.tokens)) if trial.kv_cache else EMPTY
    numbers = (read(results) if results else EMPTY for _, read in TRIAL)
    cells = (head, Cell(settings), _OUTCOMES[trial.outcome], why, *numbers, start, tokens)
    return Row(cells, ("best",) if best else (), marked=best)


def _settings(trial: Trial, first: Trial) -> str:
    mine, base = trial.setup.knobs.settings, first.setup.knobs.settings
    if trial.name == first.name:
        return trial.setup.knobs.label
    changed = [f"{name} {value}" for name, value in mine.items() if base.get(name) != value]
    changed += [f"{name} left to the server" for name in base if name not in mine]
    return ", ".join(changed) or "the same"


def _shown(trial: Trial, tuning: Tuning) -> Sequence[LevelResult]:
    """Results at one level: the ladder's at its knee, else the busy level's, else the last."""
    found = tuning.ladder
    if trial.phase == "ladder" and found is not None and found.setup == trial.setup:
        return next((rung.results for rung in found.rungs if rung.cap == found.knee), ())
    levels = list(dict.fromkeys(one.level for one in trial.results))
    busy = [level for level in levels if level.clients == tuning.demand.levels.busy and level.draw == "mix"]
    chosen = (busy or levels)[-1:]
    return trial.at(chosen[0]) if chosen else ()


def _final(tuning: Tuning, found: Final) -> Table:
    """A row a candidate: at the busy level, and its tail at the usual one; the recommended one is marked."""
    busy, low = tuning.demand.levels.busy, tuning.demand.levels.low
    chosen = tuning.recommendation.candidate if tuning.recommendation else ""
    how = "all up together, measured in turn" if found.together else "one after another"
    rounds = f"{found.rounds} round{'s' if found.rounds != 1 else ''}"
    note = f"{rounds} at {busy} clients, {how}; once at {low}. {sentence(found.memory_note)} {_RANGES}"
    columns = (
        Column("configuration", "left"), Column("the finalist compared with it", "left"),
        *(Column(name) for name, _ in FINAL),
        Column(f"p95 s, {low} clients"), Column("GPU memory"), Column("its settings", "left"),
    )  # fmt: skip
    rows = tuple(_entry(entry, recommended=entry.candidate.name == chosen) for entry in found.entries)
    return Table("The final", columns, rows, note, "final").pruned()


def _entry(entry: FinalEntry, *, recommended: bool) -> Row:
    head, settings = Cell(entry.candidate.title), entry.candidate.alone.label
    if not entry.busy:
        return Row((head,), note=f"{settings}; {_OUTCOMES[entry.outcome].text}: {entry.reason or 'not measured'}")
    because = sentence(entry.because)
    compared = {
        "itself": EMPTY,
        "not measured": EMPTY,
        "higher": Cell("better", because, "good"),
        "equal": Cell("equal within the spread", because),
        "lower": Cell("worse", because, "bad"),
    }[entry.verdict]
    gpu = EMPTY if entry.gpu_memory_mib is None else Cell(size(entry.gpu_memory_mib * 2**20))
    low = Cell.ranged(spread(entry.low, lambda one: one.e2e_p95_s))
    cells = (head, compared, *(read(entry.busy) for _, read in FINAL), low, gpu, Cell(settings))
    return Row(cells, ("recommended",) if recommended else (), marked=recommended)


def _memory(tuning: Tuning, found: Memory) -> Table:
    """How the memory setting was computed, and whether it held."""
    demand = tuning.demand
    facts = {
        "most tokens at once, drawn from the demand": f"{count(demand.peak_tokens_drawn)} ({demand.levels.peak} texts)",
        "with the longest text at every place": f"{count(demand.peak_tokens_worst)} ({count(demand.longest_sequence)} each)",
        "tokens that are needed": count(found.needed_tokens),
        "with the margin": f"{count(found.wanted_tokens)} ({number(found.margin)} times)",
    }
    if found.bytes_per_token is not None:
        cache = size(found.wanted_tokens * found.bytes_per_token)
        facts["bytes of that"] = f"{cache}, {size(found.bytes_per_token)} a token"
    if found.capacity_tokens is not None:
        facts["what the measured server held"] = f"{count(found.capacity_tokens)} tokens"
    facts[found.setting] = "left as it is: it cannot be computed"
    if found.value is not None:
        facts[found.setting] = f"{found.value:,}" + (f" ({size(found.value)})" if found.value > 1 else "")
    if found.saved_bytes is not None:
        more = "less" if found.saved_bytes >= 0 else "more"
        facts["compared with the measured server"] = f"{size(abs(found.saved_bytes))} {more}"
    checks = f" ({', '.join(found.trials)})" if found.trials else ""
    facts["checked under more than the peak load"] = f"{found.checked}{checks}"
    trials = by_name(tuning.trials)
    for name in found.trials:
        for result in trials[name].results if name in trials else ():
            if result.level.draw == "long":
                facts[f"{name} under that load"] = _under_load(result)
    return _facts("memory", "Memory", facts.items(), sentence(found.because))


def _under_load(result: LevelResult) -> str:
    usage = result.peak_kv_cache_usage
    cache = f", the cache {percent(usage)} full at most" if usage is not None else ""
    preempted = f", {result.preemptions} preemptions" if result.preemptions is not None else ""
    return f"{result.level.label}: {count(result.requests)} requests{cache}{preempted}, {result.failed} failed"


def _conditions(tuning: Tuning) -> Iterator[tuple[str, str]]:
    machine, demand = tuning.machine, tuning.demand
    gpus = [f"{gpu.name}, {gpu.memory_mib / 1024:.0f} GiB, driver {gpu.driver or 'unknown'}" for gpu in machine.gpus]
    yield "model", tuning.model
    yield "started", tuning.started_at.replace("T", " ").replace("+00:00", " UTC")
    yield "demand", demand.description
    yield "texts that it was taken from", count(demand.texts)
    yield "concurrency", concurrency(tuning)
    yield "source tokens", _lengths(demand.source)
    yield "output tokens", _lengths(demand.output) + (" (estimated)" if demand.output_estimated else "")
    yield "tokens of the prompt around a text", str(demand.prompt_overhead)
    yield "SLO", tuning.slo or "none: requests a second decide"
    yield "GPU", "; ".join(gpus) or "none"
    yield "CPU", f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib:g} GiB"
    yield "system", f"{machine.system}, {machine.architecture}"
    yield "versions", ", ".join(f"{name} {version}" for name, version in tuning.packages.items()) or "unknown"
    yield "course", course(tuning)
    for name, value in tuning.options.items():
        yield name.replace("_", " "), value if isinstance(value, str) else json.dumps(value, default=str)


def _lengths(found: Lengths | None) -> str:
    if found is None:
        return "not known"
    return f"median {found.p50}, 95 % up to {found.p95}, 99 % up to {found.p99}, longest {found.longest}"


def _facts(slug: str, title: str, facts: Iterable[tuple[str, str]], note: str = "") -> Table:
    return table(title, ("quantity", Column("value", "left")), facts, note=note, slug=slug)


# sentences


def concurrency(tuning: Tuning) -> str:
    found = tuning.demand.levels
    how = "as stated" if found.stated else "as recorded"
    return f"{found.low} texts at once usually, {found.busy} when busy, {found.peak} at most ({how})"


def conditions_lines(tuning: Tuning) -> Iterator[str]:
    """Model and machine, demand, SLO."""
    machine = tuning.machine
    hardware = ", ".join(gpu.name for gpu in machine.gpus)
    hardware = hardware or f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib:g} GiB"
    versions = ", ".join(f"{name} {version}" for name, version in tuning.packages.items())
    yield f"Model {tuning.model} on {hardware}{'; ' if versions else ''}{versions}."
    yield f"Demand: {tuning.demand.description}; {concurrency(tuning)}."
    yield f"SLO: {tuning.slo}." if tuning.slo else "No SLO was given: requests a second decide."


def course(tuning: Tuning) -> str:
    """What the tune cost, in a sentence."""
    skipped = sum(trial.outcome == "skipped" for trial in tuning.trials)
    parts = [f"{tuning.starts} engine start{'s' if tuning.starts != 1 else ''} for the search"]
    if skipped:
        parts.append(f"{skipped} point{'s' if skipped != 1 else ''} skipped with a reason")
    if tuning.took_s is not None:
        parts.append(f"it took {about(tuning.took_s)}")
    if tuning.estimate_s is not None:
        parts.append(f"the estimate was {about(tuning.estimate_s)}")
    return sentence(", ".join(parts))


def summary(tuning: Tuning) -> str:
    """One line."""
    if tuning.recommendation is not None:
        return sentence(tuning.recommendation.headline)
    knee = tuning.ladder.knee if tuning.ladder is not None else None
    reached = f"the ladder's knee is at {knee} requests at once" if knee is not None else "nothing was measured"
    if tuning.partial:
        return f"Not finished ({tuning.partial_because or 'interrupted'}); {reached}."
    failed = next((trial for trial in reversed(tuning.trials) if trial.outcome != "measured"), None)
    return sentence(f"nothing can be recommended: {reached}" + (f"; {failed.name} {failed.ending}" if failed else ""))


def remarks(tuning: Tuning) -> Iterator[str]:
    """What would mislead without a note."""
    if tuning.partial:
        yield f"Not finished ({tuning.partial_because or 'interrupted'}): parts that are missing were not reached."
    if tuning.recommendation is not None:
        yield from map(sentence, tuning.recommendation.caveats)
    if tuning.demand.output_estimated:
        yield "Output lengths were not recorded: a ratio to the source's length stands for them."
    yield from map(sentence, tuning.demand.notes)
