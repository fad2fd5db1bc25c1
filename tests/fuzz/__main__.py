"""The command: so many cases over all targets in turn; each finding is printed, and its bytes are kept."""

from __future__ import annotations

import argparse
import gc
import hashlib
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random

from tests.fuzz.findings import COLLECTS_EVERY, MEMORY_BYTES, file_name, finding, place_of
from tests.fuzz.targets import Target, targets


def fuzz(cases: int, seed: int, only: str = "", kept: Path | None = None) -> list[str]:
    """Run so many cases; return what was found, a line for each kind."""
    with targets() as every:
        table = {name: one for name, one in every.items() if only in name}
        if not table:
            raise SystemExit(f"no target has {only!r} in its name")
        return _run(table, cases, seed, kept)


def _run(table: Mapping[str, Target], cases: int, seed: int, kept: Path | None) -> list[str]:
    gc.collect()
    gc.freeze()  # a collection looks at what cases have left, not at the modules
    names, found = list(table), dict[str, str]()
    for number in range(cases):
        name = names[number % len(names)]
        data = table[name].change(Random(f"{seed} {number}"))
        if (error := finding(table[name], data)) is not None:
            place = place_of(error)
            line = f"{name}: case {number} of seed {seed}: {type(error).__name__} at {place}: {str(error)[:200]}"
            if found.setdefault(f"{name} {type(error).__name__} {place}", line) is line:
                print(line, flush=True)
                if kept is not None:
                    kept.mkdir(parents=True, exist_ok=True)
                    file = f"{file_name(name)}.{hashlib.sha256(data).hexdigest()[:8]}"
                    (kept / file).write_bytes(data)
        if number % COLLECTS_EVERY == COLLECTS_EVERY - 1:
            gc.collect()
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="a part of the names of targets")
    parser.add_argument("--kept", type=Path, help="a folder for the bytes of what is found")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.RLIM_INFINITY))
    began_s = time.monotonic()
    found = fuzz(options.cases, options.seed, options.only, options.kept)
    print(f"{options.cases:,} cases, {len(found)} kinds of findings, {time.monotonic() - began_s:.0f} s")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
