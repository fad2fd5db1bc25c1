"""Writes the outcome of a tune: `dragoman.toml` with a reason for each value, `report.html` and `tune.json`.

Columns that are empty in all rows are left out of tables.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from textwrap import wrap

from dragoman.errors import ConfigError
from dragoman_bench.bench.measurement import write_text
from dragoman_bench.bench.servers import Flags
from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.bench.tables import (
    EMPTY,
    Cell,
    Column,
    Row,
    Table,
    about,
    count,
    table,
)
from dragoman_bench.report.page import Section, write_page
from dragoman_bench.tune.charts import Read, ladder_chart, spread
from dragoman_bench.tune.outcome import (
    Final,
    FinalEntry,
    Ladder,
    LevelResult,
    Rung,
    Tuning,
    read_tuning,
    write_tuning,
)

Number = tuple[str, Callable[[Sequence[LevelResult]], Cell]]
"""A column's name, and how its cell is read over the repeats of a level."""
_RANGES = "Median of the repeats [lowest..highest]."
_FOOTER = (
    "Goodput counts the requests that finished within the SLO. Percentiles are nearest-rank: latencies that were observed. "
    "Latency counts from the intended send, with the time that a request waits because of the cap. Results are called equal "
    "where their medians are closer together than their repeats differ; 10 % stands for the spread of what was measured once."
)
_MODEL_SETTINGS = {"model": "path", "profile": "profile", "model-name": "name"}
"""Flags of `dragoman serve` that are settings of the `[model]` table; others are of `[engine]`."""
_COLUMNS = 100


# sentences


def sentence(text: str) -> str:
    """Add a full stop, and a capital if the first word is an ordinary word."""
    text = text.strip()
    if text.split(" ", 1)[0].islower():
        text = text[:1].upper() + text[1:]
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."


def summary(tuning: Tuning) -> str:
    """Summarise the outcome in one line."""
    if tuning.recommendation is not None:
        return sentence(tuning.recommendation.headline)
    knee = tuning.ladder.knee if tuning.ladder is not None else None
    reached = f"the ladder's knee is at {knee} requests at once" if knee is not None else "nothing was measured"
    if tuning.partial:
        return f"Not finished ({tuning.partial_because}); {reached}."
    return sentence(f"nothing can be recommended: {reached}")


def conditions_lines(tuning: Tuning) -> Iterator[str]:
    """Describe model, machine, demand and SLO."""
    machine = tuning.machine
    gpus = ", ".join(gpu.name for gpu in machine.gpus)
    hardware = gpus or f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib:g} GiB"
    versions = ", ".join(f"{name} {version}" for name, version in tuning.packages.items())
    yield f"Model {tuning.model} on {hardware}{'; ' if versions else ''}{versions}."
    levels = tuning.demand.levels
    yield f"Demand: {tuning.demand.description}; {levels.label} ({'as stated' if levels.stated else 'as recorded'})."
    yield f"SLO: {tuning.slo}." if tuning.slo else "No SLO was given: requests a second decide."


def remarks(tuning: Tuning) -> Iterator[str]:
    """Return notes on limits of the result."""
    if tuning.partial:
        yield f"Not finished ({tuning.partial_because}): parts that are missing were not reached."
    if tuning.recommendation is not None:
        yield from map(sentence, tuning.recommendation.caveats)
    if tuning.demand.output_estimated:
        yield "Output lengths were not recorded: a ratio to the source's length stands for them."
    yield from map(sentence, tuning.demand.notes)


# tables


def _ranged(name: str, read: Read, scale: float = 1.0, unit: str = "") -> Number:
    return name, lambda results: Cell.ranged(spread(results, read), scale, unit)


def _summed(name: str, read: Read) -> Number:
    def cell(results: Sequence[LevelResult]) -> Cell:
        values = [value for one in results if (value := read(one)) is not None]
        return Cell(count(sum(values)), tone="bad" if any(values) else "") if values else EMPTY

    return name, cell


def _slo(results: Sequence[LevelResult]) -> Cell:
    met = [one.slo_met for one in results if one.slo_met is not None]
    if not met or all(met):
        return Cell("met", tone="good") if met else EMPTY
    missed = sorted({verdict.limit for one in results for verdict in one.verdicts if not verdict.met})
    text = "missed" if not any(met) else f"met in {sum(met)} of {len(met)}"
    return Cell(text, "; ".join(missed), "bad")


NUMBERS: tuple[Number, ...] = (
    _ranged("goodput req/s", lambda one: one.goodput_rps),
    _ranged("req/s", lambda one: one.rps),
    _ranged("p95 s", lambda one: one.e2e_p95_s),
    _ranged("p99 s", lambda one: one.e2e_p99_s),
    _ranged("decode ms per token", lambda one: one.decode_s_per_token, 1000),
    ("SLO", _slo),
    _summed("preempted", lambda one: one.preemptions),
    _summed("failed", lambda one: one.failed),
)
OF_A_RUNG: tuple[Number, ...] = (
    *NUMBERS,
    _ranged("p50 s", lambda one: one.e2e_p50_s),
    _ranged("ITL p95 ms", lambda one: one.itl_p95_s, 1000),
    _ranged("running, mean", lambda one: one.mean_running),
    _ranged("waiting in the engine, mean", lambda one: one.mean_waiting),
    _ranged("KV cache peak", lambda one: one.peak_kv_cache_usage, 100, " %"),
    _ranged("GPU mean", lambda one: one.gpu_mean_percent, 1, "%"),
)


def all_tables(tuning: Tuning) -> dict[str, Table]:
    """Return the tables that have data, by slug, in the page's order."""
    found: list[Table] = []
    if tuning.choices:
        columns = ("setting", Column("value", "left"), Column("why", "left"))
        rows = [(f"engine.{one.name}", str(one.value), sentence(one.reason)) for one in tuning.choices]
        found.append(table("What to serve with", columns, rows, note="As in dragoman.toml.", slug="recommended"))
    if tuning.final is not None:
        found.append(_final(tuning, tuning.final))
    if tuning.ladder is not None:
        found.append(_ladder(tuning.ladder))
    columns = ("quantity", Column("value", "left"))
    found.append(table("Conditions", columns, _conditions(tuning), slug="conditions"))
    return {one.slug: one for one in found}


def _final(tuning: Tuning, found: Final) -> Table:
    """A row a candidate; the recommended one is marked."""
    chosen = tuning.recommendation.candidate if tuning.recommendation else ""
    rounds = f"{found.rounds} round{'s' if found.rounds != 1 else ''}"
    note = f"{rounds} at {tuning.demand.levels.busy} clients, in turn. {sentence(found.memory_note)} {_RANGES}"
    columns = (
        Column("configuration", "left"), Column("the finalist compared with it", "left"),
        *(Column(name) for name, _ in NUMBERS),
        Column("its settings", "left"),
    )  # fmt: skip
    rows = tuple(_entry(entry, recommended=entry.candidate.name == chosen) for entry in found.entries)
    return Table("The final", columns, rows, note, "final").pruned()


def _entry(entry: FinalEntry, *, recommended: bool) -> Row:
    head, settings = Cell(entry.candidate.title), entry.candidate.alone.label
    if not entry.busy:
        return Row((head,), note=f"{settings}; {entry.outcome.replace('_', ' ')}: {entry.reason or 'not measured'}")
    words = {"higher": Cell("better", tone="good"), "equal": Cell("equal"), "lower": Cell("worse", tone="bad")}
    cells = (head, words.get(entry.verdict, EMPTY), *(read(entry.busy) for _, read in NUMBERS), Cell(settings))
    return Row(cells, ("recommended",) if recommended else (), marked=recommended)


def _ladder(found: Ladder) -> Table:
    """A row a cap; the knee is marked, and what was not climbed to has its reason."""
    note = f"{found.clients} clients; the cap is how many of their requests may be at the server. {_RANGES}"
    note += f" Ended: {sentence(found.ended)}"
    columns = (Column("cap", "left"), *(Column(name) for name, _ in OF_A_RUNG), Column("compared with the cap below"))
    return Table("The ladder", columns, tuple(_rung(rung, found) for rung in found.rungs), note, "rungs").pruned()


def _rung(rung: Rung, found: Ladder) -> Row:
    knee, head = rung.cap == found.knee, Cell(str(rung.cap))
    flags = ("knee",) if knee else ("best median",) if rung.cap == found.best else ()
    if not rung.results:
        return Row((head,), flags, f"skipped: {rung.skipped}")
    below = EMPTY if rung.verdict == "first" else Cell(rung.verdict)
    return Row((head, *(read(rung.results) for _, read in OF_A_RUNG), below), flags, marked=knee)


def _conditions(tuning: Tuning) -> Iterator[tuple[str, str]]:
    machine, demand = tuning.machine, tuning.demand
    yield "started", tuning.started_at.replace("T", " ").replace("+00:00", " UTC")
    yield "demand", f"{demand.description}; lengths of {count(demand.texts)} texts"
    for name, found in (("source tokens", demand.source), ("output tokens", demand.output)):
        if found is not None:
            text = f"median {found.p50}, 95 % up to {found.p95}, 99 % up to {found.p99}, longest {found.longest}"
            yield name, text
    yield "tokens of the prompt around a text", str(demand.prompt_overhead)
    gpus = [f"{gpu.name}, {gpu.memory_mib / 1024:.0f} GiB, driver {gpu.driver or 'unknown'}" for gpu in machine.gpus]
    yield "GPU", "; ".join(gpus) or "none"
    yield "CPU", f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib:g} GiB"
    if tuning.took_s is not None:
        starts = sum(trial.start_s is not None for trial in tuning.trials)
        yield "took", f"{about(tuning.took_s)}, with {starts} engine starts for the search"
    for name, value in tuning.options.items():
        yield name.replace("_", " "), value if isinstance(value, str) else json.dumps(value, default=str)


# files


def write_outcome(tuning: Tuning, folder: Path, flags: Flags) -> tuple[Path, ...]:
    """Write the files, the settings first. `flags`: further flags of the measured `dragoman serve`. Raises ConfigError if a
    file cannot be written, or nothing was measured."""
    config = config_text(tuning, flags)
    settings, page, document = (folder / name for name in ("dragoman.toml", "report.html", "tune.json"))
    write_tuning(tuning, document)
    write_report_page(tuning, page, config)
    write_text(settings, config, "out")
    return settings, page, document


def config_text(tuning: Tuning, flags: Flags) -> str:
    """Return the settings file: the values that were searched, each with its reason, and the servers' other flags.

    Raises ConfigError if nothing was measured.
    """
    if not tuning.choices:
        raise ConfigError("nothing was measured, so there is nothing to recommend")
    found = [summary(tuning), *conditions_lines(tuning)]
    if tuning.recommendation is not None:
        found.append(sentence(tuning.recommendation.because))
    lines = _comment(f"Written by `dragoman tune`, {tuning.started_at}: `dragoman serve --config` reads this file.")
    lines.append("#")
    for text in (*found, *remarks(tuning)):
        lines += _comment(text, "# - ", "#   ")
    chosen = {one.name: (one.value, one.reason) for one in tuning.choices}
    given = {flag: value for flag, value in flags.items() if value != ""}  # empty: the server's default
    model = {
        _MODEL_SETTINGS[flag]: (value, "as in the tune") for flag, value in given.items() if flag in _MODEL_SETTINGS
    }
    kept = {flag.replace("-", "_"): value for flag, value in given.items() if flag not in _MODEL_SETTINGS}
    engine = chosen | {name: (value, "as in the tune") for name, value in kept.items() if name not in chosen}
    for name, values in (("model", model), ("engine", engine)):
        lines += ["", f"[{name}]"] if values else []
        for place, (reason, group) in enumerate(groupby(values.items(), key=lambda one: one[1][1])):
            lines += [*([""] if place else []), *_comment(reason)]
            # JSON's strings and numbers are TOML's too, except for DEL.
            lines += [
                f"{key} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")
                for key, (value, _) in group
            ]
    config = "\n".join(lines) + "\n"
    tomllib.loads(config)
    return config


def _comment(text: str, first: str = "# ", later: str = "# ") -> list[str]:
    return wrap(
        " ".join(text.split()),
        _COLUMNS,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )


def write_report_page(tuning: Tuning, path: Path, config: str = "") -> None:
    """Write a page that needs no network. `config`: the text of dragoman.toml, which it shows. Raises ConfigError if the page
    cannot be written."""
    serve = ["Serve with it: `dragoman serve --config dragoman.toml`."] if config else []
    why = (sentence(tuning.recommendation.because),) if tuning.recommendation is not None else ()
    sections = [Section(paragraphs=(summary(tuning), *why, *serve), frame="answer")]
    if notes := tuple(remarks(tuning)):
        sections.append(Section("Read with care", bullets=notes, frame="care"))
    for slug, found in all_tables(tuning).items():
        ladder = tuning.ladder if slug == "rungs" else None
        text = (sentence(ladder.because),) if ladder is not None else ()
        slo = parse_slo(tuning.slo) if tuning.slo else None
        chart = (ladder_chart(ladder, slo),) if ladder is not None and ladder.knee is not None else ()
        folded = (("dragoman.toml", config),) if slug == "recommended" and config else ()
        sections.append(Section(found.title, text, chart, (replace(found, title=""),), details=folded))
    lead = " ".join(conditions_lines(tuning))
    write_page(path, f"{tuning.model}: what to serve it with", lead, sections, _FOOTER)


if (
    __name__ == "__main__"
):  # python -m dragoman_bench.tune.outputs FOLDER PAGE: the report again, of a folder's tune.json
    results, written = Path(sys.argv[1]), Path(sys.argv[2])
    served_with = results / "dragoman.toml"
    shown = served_with.read_text("utf-8") if served_with.is_file() else ""
    write_report_page(read_tuning(results / "tune.json"), written, shown)
