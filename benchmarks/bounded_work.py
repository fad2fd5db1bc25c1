"""What does each route cost the server, whatever it is sent?

    python -m benchmarks.bounded_work --out results/bounded-work.json --page docs/bounded-work.md

Every route of the app (`tests/bounded_work.py`) is sent bodies of every shape in three sizes, and asked for all that an account with
a full storage has, by a server over the fake pipeline; `tests/measured_server.py` says what is measured and how. `--only` names
rows by a part of their method and path; a results file that exists keeps its other rows. Ctrl-C ends it and keeps what was measured. The exit code is 1 where something is over a limit. The last line of stdout is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.bounded_work import BODIES, MB, ROWS, USUAL, shapes
from tests.measured_server import (
    LEAST_CPU_S,
    SIZES,
    URL_KEPT,
    Case,
    Figures,
    FullStorage,
    MeasuredServer,
    measured_server,
)

from dragoman_bench.bench.measurement import Measurement


def _cases(server: MeasuredServer, only: str, sizes: Sequence[int]) -> Iterator[Case]:
    for row in ROWS:
        if not any(one in f"{row.method} {row.route}" for one in only.split(",")):
            continue
        for shape in shapes(row) if row in BODIES else (None,):
            yield server.measure(row, shape, sizes if shape is not None else sizes[:1])


async def _measure(options: argparse.Namespace) -> Measurement:
    found = Measurement.begin("bounded-work", sizes=options.sizes)
    cases: list[Case] = []
    with tempfile.TemporaryDirectory() as folder, suppress(asyncio.CancelledError):  # Ctrl-C: what was measured is kept
        full = await FullStorage.made(Path(folder, "full"))
        async with measured_server(Path(folder), full) as server:
            for case in _cases(server, options.only, options.sizes):
                cases.append(case)
                if case.faults or options.verbose:
                    worst = max(case.figures, key=lambda one: one.cpu_s)
                    figures = f"{worst.cpu_s:.2f} s, held {worst.hold_s:.2f} s, read {worst.read_s:.2f} s"
                    print(f"{case.method} {case.url} {case.shape}: {figures} {'; '.join(case.faults)}", flush=True)
                await asyncio.sleep(0)
    found.data["cases"] = [_listed(one) for one in cases]
    return found


def _listed(case: Case) -> dict[str, Any]:
    listed: dict[str, Any] = {name: getattr(case, name) for name in ("method", "route", "url", "shape")}
    return listed | {"figures": [list(asdict(one).values()) for one in case.figures]}


def _cases_of(results: Measurement) -> list[Case]:
    """What a results file has, judged by the limits of today: these are no figures that were measured."""
    limits = {(row.method, row.route, row.url[:URL_KEPT]): row.limits for row in ROWS}
    return [
        Case(
            one["method"],
            one["route"],
            one["url"],
            one["shape"],
            limits.get((one["method"], one["route"], one["url"]), USUAL),
            [Figures(*figures) for figures in one["figures"]],
        )
        for one in results.data["cases"]
    ]


def _merged(before: Measurement, now: Measurement) -> Measurement:
    """An earlier measurement in which these rows are replaced."""
    again = {(case["method"], case["route"]) for case in now.data["cases"]}
    kept = [case for case in before.data["cases"] if (case["method"], case["route"]) not in again]
    order = {(row.method, row.route): number for number, row in enumerate(ROWS)}
    before.data["cases"] = sorted(
        [*kept, *now.data["cases"]], key=lambda case: order.get((case["method"], case["route"]), len(order))
    )
    machine, started_at = now.conditions["machine"], now.conditions["started_at"]
    later = {"started_at": started_at, "machine": machine, "routes": len(again)}
    before.data.setdefault("later", []).append(later)
    return before


# ---- the page

_PAGE = """# Bounded work

<!-- made by benchmarks/bounded_work.py from results/bounded-work.json -->

What one request may cost the server, whatever it is sent, and what it did cost. Every route is sent bodies of every shape (deep, wide,
repeated keys, many small items, one huge string, schemas that refer to themselves, many tools, huge numbers, YAML with aliases, TMX,
TSV, forms of many parts), of {measured} bytes, and asked for all that an account with a full storage has:
199,900 entries of translation memories, 36 MB of them in long texts, a glossary of 100,000 terms, 500 documents.

    python -m benchmarks.bounded_work --out results/bounded-work.json --page docs/bounded-work.md

The server runs over the fake pipeline, with keys and SQLite. The account has little of its quota left, so that what is measured comes
before a translation: translating is bounded by quotas and admission, and gives the event loop back between segments.

| what | at most | most measured |
|---|--:|--:|
| CPU time of the server and its workers for each MB of the body, or of the answer to a request without one | {cpu_s_a_mb:g} s | {most_cpu_s_a_mb:.2f} s |
| the event loop is held, which is how long `/healthz` may wait | {hold_s:g} s | {most_hold_s:.2f} s |
| a read of another key meanwhile | {read_s:g} s | {most_read_s:.2f} s |
| CPU time of four times the body, where the smaller one took over 50 ms | {growth:g} times | |

All of these are CPU times, since other work of the machine makes wall times longer: the loop's hold is what the process used of the CPU
between two of the loop's turns (`tests/watched_server.py`), and of a read of another key only what the server worked meanwhile counts.
{count} cases of {rows} of the {of} routes, {over} over a limit. Measured {created_at} on {machine}{later}.

What stores or searches tens of thousands of entries in one request has limits of its own:

{others}

A new route without a row in `tests/bounded_work.py` fails `make test`; `make acceptance` measures all cases.

## Over a limit

{faults}

## By route

The most of all shapes and sizes; the shape is the one that took the most CPU time.

{routes}
"""


def page(results: Measurement) -> str:
    """The page about a results file."""
    cases, conditions = _cases_of(results), results.conditions
    figures = [one for case in cases for one in case.figures]
    usual = [one for case in cases if case.limits == USUAL for one in case.figures]
    over = [[f"`{one.method} {one.url[:60]}`", _code(one.shape), "; ".join(one.faults)] for one in cases if one.faults]
    return _PAGE.format(
        **asdict(USUAL),
        most_cpu_s_a_mb=max(one.cpu_s / max(one.size / MB, LEAST_CPU_S) for one in usual),
        most_hold_s=max(one.hold_s for one in figures),
        most_read_s=max(one.read_s for one in usual),
        others=_others(cases),
        rows=len({(one.method, one.route) for one in cases}),
        of=len({(row.method, row.route) for row in ROWS}),
        measured=", ".join(f"{size:,}" for size in conditions["sizes"]),
        count=f"{len(cases):,}",
        over=len(over),
        created_at=conditions["started_at"],
        machine=f"{conditions['machine']['cpu']}, {conditions['machine']['cores']} cores",
        later="".join(
            f"; {one['routes']} of the routes {one['started_at']} on {one['machine']['cpu']}, {one['machine']['cores']} cores"
            for one in results.data.get("later", ())
        ),
        faults=_table(["route", "shape", "what"], over) if over else "Nothing.",
        routes=_routes(cases),
    )


def _others(cases: list[Case]) -> str:
    """The rows whose limits are others, with what they took."""
    by_row: dict[str, list[Case]] = {}
    for case in cases:
        if case.limits != USUAL:
            by_row.setdefault(f"{case.method} {case.url.partition('?')[0]}", []).append(case)
    rows: list[list[str]] = []
    for name, found in by_row.items():
        figures, limits = [one for case in found for one in case.figures], found[0].limits
        cpu_s = max(one.cpu_s / max(one.size / MB, LEAST_CPU_S) for one in figures)
        read_s = max(one.read_s for one in figures)
        rows.append([f"`{name}`", f"{limits.cpu_s_a_mb:g}", f"{cpu_s:.2f}", f"{limits.read_s:g}", f"{read_s:.2f}"])
    return _table(["route", "CPU s a MB: at most", "measured", "another's read s: at most", "measured"], rows)


def _routes(cases: list[Case]) -> str:
    by_route: dict[str, list[Case]] = {}
    for case in cases:
        by_route.setdefault(f"{case.method} {case.route}", []).append(case)
    rows: list[list[str]] = []
    for name, found in by_route.items():
        figures = [(one, case.shape) for case in found for one in case.figures]
        worst, shape = max(figures, key=lambda one: one[0].cpu_s)
        hold_s, read_s = max(one.hold_s for one, _ in figures), max(one.read_s for one, _ in figures)
        row = [f"`{name}`", str(len(found)), f"{worst.cpu_s:.2f}", f"{worst.size:,}", _code(shape)]
        rows.append([*row, f"{hold_s:.2f}", f"{read_s:.2f}"])
    return _table(["route", "cases", "CPU s", "bytes", "shape", "loop held s", "another's read s"], rows)


def _table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows))


def _code(shape: str) -> str:
    return f"`{shape}`".replace("|", "\\|").replace("\n", "\\n") if shape else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the results file")
    parser.add_argument("--page", type=Path, help="the page that is made from it")
    parser.add_argument("--render", type=Path, help="a results file: make the page from it, and measure nothing")
    parser.add_argument("--only", default="", help="rows whose method and route have one of these, with commas between")
    parser.add_argument("--sizes", type=lambda text: [int(one) for one in text.split(",")], default=list(SIZES))
    parser.add_argument("--verbose", action="store_true", help="print each case, not only those over a limit")
    options = parser.parse_args()
    results = Measurement.read(options.render) if options.render else asyncio.run(_measure(options))
    if options.only and options.out is not None and options.out.exists():
        results = _merged(Measurement.read(options.out), results)
    results.write(options.out)
    if options.page is not None:
        options.page.write_text(page(results))
    over = sum(bool(one.faults) for one in _cases_of(results))
    print(json.dumps({"cases": len(results.data["cases"]), "over a limit": over}))
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
