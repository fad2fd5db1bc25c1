"""`dragoman traffic`: shows the recorded traffic as distributions (`show`), or writes it as a workload (`export`)."""

from __future__ import annotations

import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from dragoman import settings
from dragoman.cli.console import console, error_console
from dragoman.errors import ConfigError
from dragoman.telemetry.traffic.entry import TrafficEntry, TrafficReader
from dragoman.telemetry.traffic.export import trace_of
from dragoman.telemetry.traffic.summary import Quantiles, summarise, with_in_flight_counted

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_MOST_PAIRS = 12

_FOLDERS = click.option(
    "--folder", "folders", type=click.Path(path_type=Path), multiple=True, metavar="DIR",
    help="The recorder's folder; more than once for those of several hosts, which are merged by time.  "
         "[default: the setting traffic.folder]",
)  # fmt: skip
_PER_REPLICA = click.option(
    "--per-replica", is_flag=True,
    help="Keep the texts in flight as each replica counted its own, also where several ran at the same time.",
)  # fmt: skip
_KIND = click.option(
    "--kind", type=click.Choice(["calls", "interactive", "bulk", "documents", "all"]),
    help="Which texts: of calls, of those of one priority, or segments of documents.",
)  # fmt: skip
_CONFIG = click.option("--config", type=click.Path(path_type=Path), help="Settings file; else ./dragoman.toml.")


@click.group("traffic")
def command() -> None:
    """Show the traffic that a server recorded, or export it as a workload."""


@command.command("show")
@_FOLDERS
@_CONFIG
@click.option("--since", default="24h", show_default=True, metavar="30m|24h|7d|all", help="How far to look back.")
@_PER_REPLICA
@_KIND
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def show_command(
    folders: tuple[Path, ...], config: Path | None, since: str, per_replica: bool, kind: str | None, as_json: bool
) -> None:
    """Print how many texts were in flight, how long they were, how long they took and how they ended.

    By default for texts of calls, and separately for segments of documents, which wait for their turn in large numbers. If
    several replicas recorded at the same time, the texts in flight are counted again over all of them.
    """
    reading = TrafficReader(_folders(folders, config), _since(since))
    entries, counted_anew = _read(reading, kind or "all", per_replica=per_replica)
    groups = {"summary": entries, "documents": list[TrafficEntry]()}
    if kind is None:
        groups = {
            "summary": [entry for entry in entries if not entry.is_document],
            "documents": [entry for entry in entries if entry.is_document],
        }
    if as_json:
        _print_document(reading, groups, counted_anew)
    else:
        for name, group in groups.items():
            if group:
                _print_tables(reading, group, counted_anew, "segments of documents" if name == "documents" else "texts")
    _print_faults(reading)


@command.command("export")
@_FOLDERS
@_CONFIG
@click.option("--since", default="24h", show_default=True, metavar="30m|24h|7d|all", help="How far to look back.")
@_PER_REPLICA
@_KIND
@click.option("--limit", type=click.IntRange(1), metavar="N", help="The last N texts alone.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="A .jsonl file.  [default: stdout]")
def export(
    folders: tuple[Path, ...],
    config: Path | None,
    since: str,
    per_replica: bool,
    kind: str | None,
    limit: int | None,
    out: Path | None,
) -> None:
    """Write the traffic as a trace, one JSON line a text, for `dragoman bench --workload FILE --replay`.

    By default those of calls: a document's segments arrive at once, and wait for their turn. Lengths are in tokens of the
    served model: specify its tokenizer.json to `dragoman bench` with --tokenizer. If several replicas recorded at the same
    time, the texts in flight are counted again over all of them. Use --per-replica for `dragoman tune`, which tunes a single
    replica.
    """
    if out is not None and out.suffix not in (".jsonl", ".ndjson"):
        raise ConfigError(f"{out}: the bench takes a trace from a file that ends in .jsonl", param="out")
    reading = TrafficReader(_folders(folders, config), _since(since))
    entries, _ = _read(reading, kind or "calls", per_replica=per_replica)
    trace = trace_of(entries, limit)
    if not trace.lines:
        raise _nothing(reading)
    if out is None:
        click.echo(trace.jsonl(), nl=False)
    else:
        _write(out, trace.jsonl())
    left_out = "".join(f"; {count} left out ({reason})" for reason, count in trace.left_out.items())
    where = out or "stdout"
    _print(f"wrote {len(trace.lines)} texts over {trace.seconds:.1f} s to {where}{left_out}")
    _print_faults(reading)


def _read(reading: TrafficReader, kind: str, *, per_replica: bool) -> tuple[list[TrafficEntry], bool]:
    """Return the entries of a kind, and whether texts in flight were counted again: where recorders each counted their own,
    or where texts of calls were counted together with those of documents. Raises `ConfigError` if there are no entries."""
    pools = defaultdict[tuple[bool, str], list[TrafficEntry]](list)
    counted_together = False
    for recorder, entry in reading.by_recorder():
        pools[entry.is_document, recorder if per_replica else ""].append(entry)
        counted_together = counted_together or (entry.is_document and entry.kind is None)
    counted_anew = counted_together or (reading.overlapping and not per_replica)
    counted = map(with_in_flight_counted, pools.values()) if counted_anew else pools.values()
    entries = [entry for pool in counted for entry in pool if _is_of(entry, kind)]
    if not entries:
        raise _nothing(reading, kind if pools else "all")
    return entries, counted_anew


def _is_of(entry: TrafficEntry, kind: str) -> bool:
    """Calls of recordings that do not know priorities are interactive ones, as most are."""
    if kind == "calls":
        return not entry.is_document
    own = "documents" if entry.is_document else "bulk" if entry.kind == "bulk" else "interactive"
    return kind in ("all", own)


def _pairs(entries: Sequence[TrafficEntry]) -> list[tuple[str, int]]:
    """Return language pairs with their number of texts, the most frequent first."""
    return Counter(f"{entry.source or '?'}-{entry.target}" for entry in entries).most_common()


def _print_document(reading: TrafficReader, groups: dict[str, list[TrafficEntry]], counted_anew: bool) -> None:
    document: dict[str, Any] = {
        "folder": reading.where,
        "recorders": len(reading.spans_unix_s),
        "in_flight_counted_anew": counted_anew,
        "files": reading.files,
        "torn_lines": reading.torn,
        "alien_lines": reading.alien,
        **{name: asdict(summarise(group)) if group else None for name, group in groups.items()},
        "pairs": dict(_pairs([entry for group in groups.values() for entry in group])),
    }
    click.echo(json.dumps(document, ensure_ascii=False))


def _print_tables(reading: TrafficReader, entries: Sequence[TrafficEntry], counted_anew: bool, noun: str) -> None:
    summary, arrived = summarise(entries), [entry.arrived_unix_s for entry in entries]
    first, last = (f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M:%S}" for at in (min(arrived), max(arrived)))
    outcomes = ", ".join(f"{count} {name}" for name, count in summary.outcomes.items())
    files = "one file" if reading.files == 1 else f"{reading.files} files"
    lines = [
        f"{summary.records} {noun} from {first} to {last} (in {reading.where}, {files}): {outcomes}",
        f"{summary.arrivals_per_s:.3g} texts/s on average, {summary.busiest_minute_per_s:.3g} in the busiest minute",
        ", ".join(f"{count} {pair}" for pair, count in _pairs(entries)[:_MOST_PAIRS]),
    ]
    if summary.peak_tokens is not None:
        lines.append(f"{summary.peak_tokens} tokens in flight at the peak (prompts and outputs)")
    if counted_anew:
        lines.append(f"texts in flight are counted over all {len(reading.spans_unix_s)} recorders together")
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    table = Table("", "texts", "p50", "p90", "p95", "p99", "max", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    rows: list[tuple[str, Quantiles | None, Callable[[float], str]]] = [
        ("texts in flight", summary.in_flight, _whole),
        ("source tokens", summary.source_tokens, _whole),
        ("output tokens", summary.output_tokens, _whole),
        ("engine queue", summary.queue_s, _seconds),
        ("TTFT", summary.ttft_s, _seconds),
        ("end to end", summary.e2e_s, _seconds),
    ]
    for name, found, formatted in rows:
        if found is not None:
            values = (found.p50, found.p90, found.p95, found.p99, found.highest)
            table.add_row(name, str(found.count), *map(formatted, values))
    console.print(table)


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _seconds(value_s: float) -> str:
    return f"{value_s * 1000:.1f} ms" if value_s < 1 else f"{value_s:.2f} s"


def _folders(folders: tuple[Path, ...], config: Path | None) -> tuple[Path, ...]:
    return folders or (Path(settings.load(config).settings.traffic.folder),)


def _since(text: str) -> float:
    """Return the Unix time where the period begins. Raises ConfigError."""
    if text == "all":
        return 0.0
    found = _SPAN.fullmatch(text)
    if found is None:
        raise ConfigError(f"--since {text!r} is not like 30m, 24h, 7d or all", param="since")
    return time.time() - float(found[1]) * _UNITS_S[found[2]]


def _nothing(reading: TrafficReader, kind: str = "all") -> ConfigError:
    faults = f" ({reading.faults})" if reading.faults else ""
    if kind != "all":
        return ConfigError(f"{reading.where} holds no texts of the kind {kind} of that time{faults}", param="kind")
    return ConfigError(f"{reading.where} holds no traffic of that time{faults}: see --since", param="since")


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {out}: {error.strerror}", param="out") from None


def _print_faults(reading: TrafficReader) -> None:
    if reading.faults:
        _print(reading.faults, "yellow")


def _print(line: str, style: str = "") -> None:
    error_console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)
