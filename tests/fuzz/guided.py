"""Fuzzing that is guided by coverage: libFuzzer, through atheris, over the parsers of `targets.py`.

    pip install atheris
    python -m tests.fuzz.guided --seconds 20 --only file

A process runs each target for so many seconds. It begins with the seeds and the corpus that earlier runs have kept
(`corpus/`, a package for each target), changes what has reached new code, by the table's own changes or libFuzzer's, and keeps
the smallest files that did. What a finding is says `findings.py`; none ends a run.
"""

from __future__ import annotations

import argparse
import gc
import re
import subprocess
import sys
import tempfile
import zipfile
from importlib import import_module
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.findings import COLLECTS_EVERY, file_name, finding, place_of

CORPUS = Path(__file__).parent / "corpus"
LONGEST_BYTES = 16_384
MOST_KEPT_BYTES = 200_000
"""Of a target's corpus, its smallest files."""
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


def kept(target: str) -> list[bytes]:
    """The corpus of a target."""
    path = CORPUS / f"{file_name(target)}.zip"
    if not path.is_file():
        return []
    with zipfile.ZipFile(path) as found:
        return [found.read(name) for name in found.namelist()]


def keep(target: str, folder: Path) -> None:
    """Replace the corpus of a target by the smallest files of a folder, in an order that is always the same."""
    files, size = sorted({one.read_bytes() for one in folder.iterdir()}, key=lambda one: (len(one), one)), 0
    CORPUS.mkdir(exist_ok=True)
    with zipfile.ZipFile(CORPUS / f"{file_name(target)}.zip", "w", zipfile.ZIP_DEFLATED) as written:
        for number, data in enumerate(files):
            size += len(data)
            if size > MOST_KEPT_BYTES:
                break
            written.writestr(zipfile.ZipInfo(f"{number:04}"), data, zipfile.ZIP_DEFLATED)


# ---- one target, in a process of its own


def run_target(name: str, found: Path, arguments: list[str]) -> None:
    """Never returns. `found`: a folder for the bytes of findings."""
    atheris: Any = import_module("atheris")

    with atheris.instrument_imports(include=["wholetext", "dragoman"]):
        from tests.fuzz.targets import targets

    with targets() as table:
        target, known, numbers = table[name], set[str](), count(1)

        def run(data: bytes) -> None:
            if next(numbers) % COLLECTS_EVERY == 0:
                gc.collect()
            error = finding(target, data)
            if error is None:
                return
            kind = f"{type(error).__name__} at {place_of(error)}"
            if kind not in known:
                known.add(kind)
                path = found / f"{file_name(name)}.{len(known)}"
                path.write_bytes(data)
                print(f"{name}: {kind}: {str(error)[:200]}: {path}", flush=True)

        def change(data: bytes, longest: int, seed: int) -> bytes:
            random = Random(seed)
            changed = target.mutate(random, data) if random.random() < 0.7 else atheris.Mutate(data, longest)
            return changed[:longest]

        atheris.Setup([sys.argv[0], *arguments], run, custom_mutator=change)
        atheris.Fuzz()


# ---- all of them


def _run_process(name: str, found: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "tests.fuzz.guided", "--target", name, "--found", str(found), "--", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode:  # killed by libFuzzer for its memory or time, or by a signal
        print(f"{name}: exit code {done.returncode}: {done.stdout[-2000:]}", flush=True)
    return done.stdout


def fuzz_target(name: str, seeds: list[bytes], seconds: int, found: Path) -> int:
    """Run one target, and keep its corpus. Return the number of cases."""
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate([*seeds, *kept(name)]):
            (Path(folder) / str(number)).write_bytes(data)
        limits = (f"-max_len={LONGEST_BYTES}", "-rss_limit_mb=4096", "-timeout=120", f"-artifact_prefix={found}/")
        said = _run_process(name, found, f"-max_total_time={seconds}", "-print_final_stats=1", *limits, folder)
        for line in said.splitlines():
            if line.startswith(f"{name}: "):
                print(line, flush=True)
        keep(name, Path(folder))
    cases = _EXECUTED.search(said)
    return int(cases[1]) if cases else 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided", description=__doc__)
    parser.add_argument("--seconds", type=int, default=20, help="for each target")
    parser.add_argument("--only", default="", help="a part of the names of targets")
    parser.add_argument(
        "--found", type=Path, default=Path(".dragoman/fuzz"), help="a folder for the bytes of what is found"
    )
    parser.add_argument("--target", help="run this one in this process; libFuzzer's arguments follow")
    parser.add_argument("arguments", nargs="*")
    options: Any = parser.parse_args()
    found = options.found.resolve()
    found.mkdir(parents=True, exist_ok=True)
    if options.target:
        run_target(options.target, found, options.arguments)
        return
    from tests.fuzz.targets import targets

    with targets() as table:
        seeds = {name: list(one.seeds) for name, one in table.items() if options.only in name}
    before, cases = set(found.iterdir()), 0
    for name, of_target in seeds.items():
        made = fuzz_target(name, of_target, options.seconds, found)
        cases += made
        print(f"{name}: {made:,} cases, {len(kept(name))} files kept", flush=True)
    new = set(found.iterdir()) - before
    print(f"{cases:,} cases, {len(new)} kinds of findings")
    sys.exit(bool(new))


if __name__ == "__main__":
    main()
