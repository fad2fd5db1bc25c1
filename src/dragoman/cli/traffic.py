"""`dragoman traffic`: what the recorder of a server wrote, as distributions (`show`) or as a workload (`export`)."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from dragoman import settings
from dragoman.cli.console import console, error_console
from dragoman.cli.traffic_tables import Shown, document, show
from dragoman.errors import ConfigError
from dragoman.telemetry.traffic.entry import TrafficEntry, TrafficReader
from dragoman.telemetry.traffic.export import trace_of
from dragoman.telemetry.traffic.window import (
    TrafficColumn,
    TrafficTable,
    by_hour,
    summarise,
    table_of,
    with_in_flight_counted,
)

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_HOURS_IN_FULL = 48  # more are shown by the hour of the day

_FOLDERS = click.option(
    "--folder", "folders", type=click.Path(path_type=Path), multiple=True, metavar="DIR",
    help="The recorder's folder; more than once for those of several hosts, which are merged by time.  "
         "[default: the setting traffic.folder]",
)  # fmt: skip
_PER_REPLICA = click.option(
    "--per-replica", is_flag=True,
    help="Keep the texts in flight as each replica counted its own, also where several ran at the same time.",
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
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def show_command(folders: tuple[Path, ...], config: Path | None, since: str, per_replica: bool, as_json: bool) -> None:
    """Print how many texts were in flight, how long they were and how they ended, also by the hour.

    Where several replicas recorded at the same time, the texts in flight are counted anew, over all of them.
    """
    reading = TrafficReader(_folders(folders, config), _since(since))
    shown = _shown(reading, per_replica=per_replica)
    if as_json:
        click.echo(json.dumps(document(shown), ensure_ascii=False))
    else:
        show(shown, console)
    _print_faults(reading)


@command.command("export")
@_FOLDERS
@_CONFIG
@click.option("--since", default="24h", show_default=True, metavar="30m|24h|7d|all", help="How far to look back.")
@_PER_REPLICA
@click.option("--limit", type=click.IntRange(1), metavar="N", help="The last N texts alone.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="A .jsonl file.  [default: stdout]")
def export(
    folders: tuple[Path, ...],
    config: Path | None,
    since: str,
    per_replica: bool,
    limit: int | None,
    out: Path | None,
) -> None:
    """Write the traffic as a trace, one JSON line a text, for `dragoman bench --workload FILE --replay`.

    Lengths are in tokens of the served model: give the bench its tokenizer.json with --tokenizer. Where several replicas
    recorded at the same time, the texts in flight are counted anew, over all of them; `dragoman tune` sets up one replica, so
    for it export with --per-replica.
    """
    if out is not None and out.suffix not in (".jsonl", ".ndjson"):
        raise ConfigError(f"{out}: the bench takes a trace from a file that ends in .jsonl", param="out")
    reading = TrafficReader(_folders(folders, config), _since(since))
    entries = list(reading)
    trace = trace_of(entries, limit, count_in_flight=reading.overlapping and not per_replica)
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


def _shown(reading: TrafficReader, *, per_replica: bool) -> Shown:
    pairs: Counter[str] = Counter()

    def counted() -> Iterator[TrafficEntry]:
        for entry in reading:
            pairs[f"{entry.source or '?'}-{entry.target}"] += 1
            yield entry

    table = table_of(counted())
    if not len(table):
        raise _nothing(reading)
    counted_anew = reading.overlapping and not per_replica
    if counted_anew:
        table = with_in_flight_counted(table)
    hours = by_hour(table)
    of_day = len(hours) > _HOURS_IN_FULL
    summary = summarise(table, _span_s(table))
    return Shown(
        reading=reading,
        table=table,
        summary=summary,
        hours=by_hour(table, of_day=True) if of_day else hours,
        pairs=pairs,
        of_day=of_day,
        counted_anew=counted_anew,
    )


def _span_s(table: TrafficTable) -> float:
    """From the first arrival to the last end."""
    arrived = table.column(TrafficColumn.ARRIVED_UNIX_S)
    return round(float((arrived + table.column(TrafficColumn.E2E_S)).max() - arrived.min()), 3)


def _folders(folders: tuple[Path, ...], config: Path | None) -> tuple[Path, ...]:
    return folders or (Path(settings.load(config).settings.traffic.folder),)


def _since(text: str) -> float:
    """The time (Unix) that many seconds ago. Raises ConfigError."""
    if text == "all":
        return 0.0
    found = _SPAN.fullmatch(text)
    if found is None:
        raise ConfigError(f"--since {text!r} is not like 30m, 24h, 7d or all", param="since")
    return time.time() - float(found[1]) * _UNITS_S[found[2]]


def _nothing(reading: TrafficReader) -> ConfigError:
    faults = f" ({reading.faults})" if reading.faults else ""
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
