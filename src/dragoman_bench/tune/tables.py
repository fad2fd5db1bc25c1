"""The tables of a tune, for a page and for Markdown alike: what was recommended, the ladder, every trial, memory, the final.

A table knows neither HTML nor Markdown. Columns that no row has anything in are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dragoman_bench.bench.tables import EMPTY, Cell, count, number
from dragoman_bench.tune.columns import BRIEF, FINAL, LADDER, Column
from dragoman_bench.tune.config_file import choices
from dragoman_bench.tune.figures import course, levels, sentence, size, spread
from dragoman_bench.tune.outcome import Final, Ladder, Lengths, Memory, Rung, Standing, Tuning
from dragoman_bench.tune.points import Outcome, Seen, Trial, by_name


@dataclass(frozen=True, slots=True)
class Row:
    """`note`: words instead of the cells (then there are none)."""

    head: str
    cells: tuple[Cell, ...] = ()
    flags: tuple[str, ...] = ()
    note: str = ""
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """`slug` is its id in a page; `columns[0]` heads the rows' heads. `words`: columns that are read, not compared."""

    slug: str
    title: str
    told: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    words: frozenset[str] = frozenset()


_BELOW = "against the one below"
_AGAINST = "the finalist against it"
_OUTCOMES: dict[Outcome, Cell] = {
    "measured": Cell("measured", tone="good"),
    "did_not_start": Cell("did not start", tone="bad"),
    "failed_under_load": Cell("failed under load", tone="bad"),
    "skipped": Cell("skipped"),
    "interrupted": Cell("interrupted", tone="bad"),
}
_RANGES = "Median of the repeats [lowest..highest]."


def recommended(tuning: Tuning) -> Table:
    """What dragoman.toml holds, and why."""
    rows = tuple(Row(one.path, (Cell(str(one.value)), Cell(sentence(one.why)))) for one in choices(tuning))
    columns = ("setting", "value", "why")
    return Table("recommended", "What to serve with", "As in dragoman.toml.", columns, rows, frozenset({"why"}))


def ladder(found: Ladder, columns: Sequence[Column] = LADDER) -> Table:
    """A row a cap; the knee is marked, what was skipped says why."""
    rows = tuple(_rung(rung, found, columns) for rung in found.rungs)
    told = f"{found.clients} clients; the cap is how many of their requests may be at the server. {_RANGES}"
    told = f"{told} Ended: {sentence(found.ended)}" if found.ended else told
    return _pruned(Table("rungs", "The ladder", told, ("cap", *(name for name, _ in columns), _BELOW), rows))


def trials(tuning: Tuning) -> Table | None:
    """Every point of the search, skipped ones too; None where there is none."""
    rows = tuple(_trial(trial, tuning) for trial in by_name(tuning.trials).values())
    if not rows:
        return None
    told = (
        f"In the order in which they were made. Numbers are those at {tuning.demand.levels.busy} clients; the ladder's at its "
        f"knee, a check's at its own load. What was set: in full for the first, then what differs from it. {_RANGES}"
    )
    columns = ("trial", "what was set", "outcome", "why", *(name for name, _ in BRIEF), "start s", "KV tokens")
    return _pruned(
        Table("trials", "Every point of the search", told, columns, rows, frozenset({"what was set", "outcome", "why"}))
    )


def final(tuning: Tuning, found: Final) -> Table:
    """A row a contender, what it serves when it is busy and, of its tail, when it is not; the recommended is marked."""
    busy, low = tuning.demand.levels.busy, tuning.demand.levels.low
    chosen = tuning.recommendation.contender if tuning.recommendation else ""
    rows = tuple(_standing(standing, standing.contender.name == chosen) for standing in found.standings)
    how = "all up at once, measured in turn" if found.together else "one after another"
    told = f"{found.rounds} rounds at {busy} clients, {how}; once at {low}. {sentence(found.memory_told)} {_RANGES}"
    quiet = f"p95 s, {low} clients"
    columns = ("configuration", _AGAINST, *(name for name, _ in FINAL), quiet, "GPU memory", "its settings")
    return _pruned(Table("standings", "The final", told, columns, rows, frozenset({"its settings", _AGAINST})))


def memory(tuning: Tuning, found: Memory) -> Table:
    """How the memory setting was computed, and whether it held."""
    rows = tuple(Row(name, (Cell(value),)) for name, value in _memory_facts(tuning, found))
    return Table("sizing", "Memory", sentence(found.because), ("quantity", "value"), rows, frozenset({"value"}))


def conditions(tuning: Tuning) -> Table:
    """What was tuned for, on what, with what."""
    rows = tuple(Row(name, (Cell(value),)) for name, value in _conditions(tuning))
    return Table("conditions", "Conditions", "", ("condition", "value"), rows, frozenset({"value"}))


def _rung(rung: Rung, found: Ladder, columns: Sequence[Column]) -> Row:
    knee = rung.cap == found.knee
    flags = (("knee",) if knee else ()) + (("best median",) if rung.cap == found.best and not knee else ())
    if not rung.seen:
        return Row(str(rung.cap), flags=flags, note=f"skipped: {rung.skipped}" if rung.skipped else "not measured")
    against = EMPTY if rung.verdict == "first" else Cell(rung.verdict)
    return Row(str(rung.cap), (*(read(rung.seen) for _, read in columns), against), flags, marked=knee)


def _trial(trial: Trial, tuning: Tuning) -> Row:
    best = tuning.finding is not None and trial.name == tuning.finding.best_trial
    knobs, why = Cell(_set(trial, tuning.trials[0])), Cell(sentence(trial.why), sentence(trial.reason))
    if trial.outcome == "skipped":
        return Row(trial.name, note=f"skipped: {knobs.text}. {why.detail}")
    start = EMPTY if trial.start_s is None else Cell(number(trial.start_s))
    tokens = Cell(count(trial.kv_cache.tokens if trial.kv_cache else None))
    brief = [read(_shown(trial, tuning)) for _, read in BRIEF]
    cells = (knobs, _OUTCOMES[trial.outcome], why, *brief, start, tokens)
    return Row(trial.name, cells, ("best",) if best else (), marked=best)


def _set(trial: Trial, first: Trial) -> str:
    """The knobs in full, or how they differ."""
    mine, base = trial.setup.knobs.settings, first.setup.knobs.settings
    if trial.name == first.name:
        return trial.setup.knobs.label
    told = [f"{name} {value}" for name, value in mine.items() if base.get(name) != value]
    told += [f"{name} left to the server" for name in base if name not in mine]
    return ", ".join(told) or "the same"


def _shown(trial: Trial, tuning: Tuning) -> Sequence[Seen]:
    """Measurements at one level: a ladder's at its knee, else the busy level's, else the last (a check's own)."""
    found = tuning.ladder
    if trial.phase == "ladder" and found is not None and found.setup == trial.setup:
        return next((rung.seen for rung in found.rungs if rung.cap == found.knee), ())
    levels = list(dict.fromkeys(seen.level for seen in trial.seen))
    busy = [level for level in levels if level.clients == tuning.demand.levels.busy and level.draw == "mix"]
    chosen = (busy or levels)[-1:]
    return trial.at(chosen[0]) if chosen else ()


def _standing(standing: Standing, recommended: bool) -> Row:
    low = spread(standing.low, lambda seen: seen.e2e_p95_s)
    memory_mib = standing.gpu_memory_mib
    gpu = EMPTY if memory_mib is None else Cell(size(memory_mib * 2**20))
    alone, name = Cell(standing.contender.alone.label), standing.contender.title
    if not standing.busy:
        told = f"{_OUTCOMES[standing.outcome].text}: {standing.reason}" if standing.reason else "not measured"
        return Row(name, note=f"{standing.contender.alone.label}; {told}")
    cells = (_against(standing), *(read(standing.busy) for _, read in FINAL), Cell.ranged(low), gpu, alone)
    return Row(name, cells, ("recommended",) if recommended else (), marked=recommended)


def _against(standing: Standing) -> Cell:
    told = {
        "itself": EMPTY,
        "not measured": EMPTY,
        "higher": Cell("better", sentence(standing.because), "good"),
        "equal": Cell("equal within the spread", sentence(standing.because)),
        "lower": Cell("worse", sentence(standing.because), "bad"),
    }
    return told[standing.verdict]


def _memory_facts(tuning: Tuning, found: Memory) -> Iterator[tuple[str, str]]:
    demand = tuning.demand
    yield "most tokens at once, drawn from the demand", f"{demand.peak_tokens_drawn:,} ({demand.levels.peak} texts)"
    yield "with the longest text at every place", f"{demand.peak_tokens_worst:,} ({demand.longest_sequence:,} each)"
    yield "tokens that are needed", f"{found.needed_tokens:,}"
    yield "with the margin", f"{found.wanted_tokens:,} ({number(found.margin)} times)"
    if found.bytes_per_token is not None:
        cache = size(found.wanted_tokens * found.bytes_per_token)
        yield "bytes of that", f"{cache}, {size(found.bytes_per_token)} a token"
    if found.capacity_tokens is not None:
        yield "what the measured server held", f"{found.capacity_tokens:,} tokens"
    if found.value is None:
        yield found.setting, "left as it is: it cannot be computed"
    else:
        yield found.setting, f"{found.value:,}" + (f" ({size(found.value)})" if found.value > 1 else "")
    if found.saved_bytes is not None:
        yield (
            "against the measured server",
            f"{size(abs(found.saved_bytes))} {'less' if found.saved_bytes >= 0 else 'more'}",
        )
    yield "checked under more than the peak load", f"{found.checked}{_checks(found)}"
    trials = by_name(tuning.trials)
    for name in found.trials:
        for seen in trials[name].seen if name in trials else ():
            if seen.level.draw == "long":
                yield f"{name} under that load", _under_load(seen)


def _under_load(seen: Seen) -> str:
    usage = seen.peak_kv_cache_usage
    cache = f", the cache {usage:.0%} full at most" if usage is not None else ""
    preempted = f", {seen.preemptions} preemptions" if seen.preemptions is not None else ""
    return f"{seen.level.label}: {seen.requests:,} requests{cache}{preempted}, {seen.failed} failed"


def _checks(found: Memory) -> str:
    if not found.trials:
        return ""
    *before, last = found.trials
    return f" ({last}; before it {', '.join(before)})" if before else f" ({last})"


def _conditions(tuning: Tuning) -> Iterator[tuple[str, str]]:
    machine, demand = tuning.machine, tuning.demand
    gpus = [f"{gpu.name}, {gpu.memory_mib / 1024:.0f} GiB, driver {gpu.driver or 'unknown'}" for gpu in machine.gpus]
    yield "model", tuning.model
    yield "started", tuning.started_at.replace("T", " ").replace("+00:00", " UTC")
    yield "demand", demand.description
    yield "texts that it was taken from", f"{demand.texts:,}"
    yield "concurrency", levels(tuning)
    yield "source tokens", _lengths(demand.source)
    yield "output tokens", _lengths(demand.output) + (" (estimated)" if demand.output_estimated else "")
    yield "tokens of the prompt around a text", str(demand.prompt_overhead)
    yield "SLO", tuning.slo or "none stated: throughput decides"
    yield "GPU", "; ".join(gpus) or "none"
    yield "CPU", f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib:g} GiB"
    yield "system", f"{machine.system}, {machine.architecture}"
    yield "versions", ", ".join(f"{name} {version}" for name, version in tuning.packages.items()) or "unknown"
    yield "course", course(tuning)
    yield from ((name.replace("_", " "), _plain(value)) for name, value in tuning.options.items())


def _lengths(found: Lengths | None) -> str:
    if found is None:
        return "not known"
    return f"median {found.p50}, 95 % up to {found.p95}, 99 % up to {found.p99}, longest {found.longest}"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _pruned(table: Table) -> Table:
    """Without the columns that are empty in all rows."""
    full = [row for row in table.rows if row.cells]
    kept = [place for place in range(len(table.columns) - 1) if any(not row.cells[place].empty for row in full)]
    rows = tuple(
        replace(row, cells=tuple(row.cells[place] for place in kept)) if row.cells else row for row in table.rows
    )
    return replace(table, columns=(table.columns[0], *(table.columns[place + 1] for place in kept)), rows=rows)
