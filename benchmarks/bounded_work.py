"""What does each route cost the server, whatever it is sent?

    python -m benchmarks.bounded_work --out results/bounded-work.json --page docs/bounded-work.md

Every route of the app (`tests/bounded_work.py`) is sent bodies of every shape in three sizes, and asked for all that an account with
a full storage has, by a server over the fake pipeline; `tests/measured_server.py` says what is measured and how. `--only` names
rows by a part of their method and path. The exit code is 1 where something is over a limit. The last line of stdout is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from tests.bounded_work import BODIES, ROWS, shapes
from tests.measured_server import (
    MAX_CPU_S_A_MB,
    MAX_GROWTH,
    MAX_HOLD_S,
    MAX_READ_S,
    SIZES,
    Case,
    MeasuredServer,
    measured_server,
)

from dragoman_bench.bench.results import describe_machine, git_commit

# ---- the command


def _cases(server: MeasuredServer, only: str, sizes: Sequence[int]) -> Iterator[Case]:
    for row in ROWS:
        if only not in f"{row.method} {row.route}":
            continue
        for shape in shapes(row) if row in BODIES else (None,):
            yield server.measure(row, shape, sizes if shape is not None else sizes[:1])


async def _main(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder:
        async with measured_server(Path(folder)) as server:
            cases: list[Case] = []
            for case in _cases(server, options.only, options.sizes):
                cases.append(case)
                largest = max(case.figures, key=lambda one: one.cpu_s)
                mark = f"  ** {'; '.join(case.faults)}" if case.faults else ""
                if mark or options.verbose:
                    print(
                        f"{case.method} {case.url} {case.shape}: {largest.cpu_s} s, {largest.hold_s} s{mark}",
                        flush=True,
                    )
    document = {
        "command": "python -m benchmarks.bounded_work",
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "git_commit": git_commit(),
        "limits": {"cpu_s_a_mb": MAX_CPU_S_A_MB, "growth": MAX_GROWTH, "hold_s": MAX_HOLD_S, "read_s": MAX_READ_S},
        "cases": [asdict(one) | {"faults": one.faults} for one in cases],
    }
    if options.out is not None:
        options.out.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps({"cases": len(cases), "over a limit": sum(bool(one.faults) for one in cases)}))
    return 1 if any(one.faults for one in cases) else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the results file")
    parser.add_argument("--only", default="", help="rows whose method and route have this")
    parser.add_argument("--sizes", type=lambda text: [int(one) for one in text.split(",")], default=list(SIZES))
    parser.add_argument("--verbose", action="store_true")
    sys.exit(asyncio.run(_main(parser.parse_args())))
