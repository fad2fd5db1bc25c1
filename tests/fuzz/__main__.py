"""The command: so many cases over all targets in turn; each finding is printed, and its bytes are kept."""

from __future__ import annotations

import argparse
import gc
import hashlib
import resource
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from types import FrameType

from tests.fuzz.targets import Target, targets

LONGEST_S = 20.0
"""Of CPU time that a case may take; a worker has `documents.worker_timeout_s` for a file."""
MEMORY_BYTES = 6 * 2**30


class TooLong(BaseException):
    """A case has used up its CPU time. No parser's `except Exception` may hide it."""


def _too_long(_: int, __: FrameType | None) -> None:
    raise TooLong(f"more than {LONGEST_S:g} s of CPU time")


def finding(target: Target, data: bytes) -> BaseException | None:
    """What a parser must not do with bytes; None: it has read or refused them."""
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    try:
        target.parse(data)
    except target.refusals:
        return None
    except (Exception, TooLong) as error:  # noqa: BLE001 - it is what is looked for
        return error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def fuzz(cases: int, seed: int, only: str = "", kept: Path | None = None) -> list[str]:
    """Run so many cases; return what was found, a line for each kind."""
    with targets() as every:
        table = {name: one for name, one in every.items() if only in name}
        if not table:
            raise SystemExit(f"no target has {only!r} in its name")
        return _run(table, cases, seed, kept)


def _run(table: Mapping[str, Target], cases: int, seed: int, kept: Path | None) -> list[str]:
    names, found = list(table), dict[str, str]()
    for number in range(cases):
        name = names[number % len(names)]
        data = table[name].change(Random(f"{seed} {number}"))
        if (error := finding(table[name], data)) is not None:
            frame = error.__traceback__
            while frame is not None and frame.tb_next is not None:
                frame = frame.tb_next
            place = f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame is not None else ""
            line = f"{name}: case {number} of seed {seed}: {type(error).__name__} at {place}: {str(error)[:200]}"
            if found.setdefault(f"{name} {type(error).__name__} {place}", line) is line:
                print(line, flush=True)
                if kept is not None:
                    kept.mkdir(parents=True, exist_ok=True)
                    file = f"{name.replace(' ', '-').replace('/', '_')}.{hashlib.sha256(data).hexdigest()[:8]}"
                    (kept / file).write_bytes(data)
        if number % 200 == 199:
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
