"""Fuzzing that is guided by coverage: libFuzzer, through atheris, over the parsers of `targets.py`.

    pip install atheris
    python -m tests.fuzz.guided --seconds 60 --only file --out results/fuzz.json

Each target runs for so many seconds of CPU time, in a process that is forked from this one, in which all modules are
instrumented: that takes long. It begins with the seeds and the corpus that earlier runs have kept (`corpus/`, a package for
each target), changes what has reached new code, by the table's own changes or libFuzzer's, and keeps the smallest files that
did. What a finding is says `findings.py`; none ends a run. The results file, if there is one, is continued.
"""

from __future__ import annotations

import argparse
import gc
import os
import pkgutil
import re
import resource
import sys
import tempfile
import traceback
import zipfile
from importlib import import_module
from itertools import count
from pathlib import Path
from random import Random
from time import process_time
from typing import TYPE_CHECKING, Any

from dragoman_bench.bench.measurement import Measurement, read_text, with_part, write_text
from dragoman_bench.bench.tables import Cell, Column, Row, Table, markdown
from tests.fuzz.findings import COLLECTS_EVERY, MEMORY_BYTES, file_name, finding, place_of

if TYPE_CHECKING:
    from tests.fuzz.targets import Target

CORPUS = Path(__file__).parent / "corpus"
KIND = "fuzz"
LONGEST_BYTES = 16_384
"""Of a case; or twice the largest seed."""
MOST_KEPT_BYTES = 100_000
"""Of a target's corpus, its smallest files."""
_CASES = re.compile(r"(\d+) cases\s*\Z")
_INSTRUMENTED = ("wholetext", "dragoman")


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


def instrumented_targets(atheris: Any) -> Any:
    """The table, all of whose parsers are instrumented: also those that are imported once a file of theirs is read."""
    with atheris.instrument_imports(include=list(_INSTRUMENTED)):
        targets = import_module("tests.fuzz.targets").targets
        for one in pkgutil.iter_modules(import_module("wholetext.files").__path__, "wholetext.files."):
            import_module(one.name)
    return targets


def run_target(atheris: Any, name: str, target: Target, seconds: float, found: Path, arguments: list[str]) -> None:
    """Never returns, and ends this process with the number of cases. `found`: a folder for the bytes of findings."""
    known, numbers = set[str](), count(1)

    def run(data: bytes) -> None:
        number = next(numbers)
        if process_time() > seconds:
            print(f"{number - 1} cases", flush=True)
            os._exit(0)
        if number % COLLECTS_EVERY == 0:
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
        if random.random() < 0.7:
            changed = target.mutate(random, data)
            if len(changed) <= longest:  # of a package that is cut off only its end is looked at
                return changed
        return atheris.Mutate(data, longest)

    atheris.Setup([sys.argv[0], *arguments], run, custom_mutator=change)
    atheris.Fuzz()


# ---- all of them


def fuzz_target(atheris: Any, name: str, target: Target, seconds: float, found: Path) -> tuple[int, float]:
    """Run one target, and keep its corpus. Return the number of cases, and the seconds of CPU time."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        for number, data in enumerate([*target.seeds, *kept(name)]):
            (Path(folder) / str(number)).write_bytes(data)
        longest = max(LONGEST_BYTES, 2 * max(map(len, target.seeds)))
        limits = (f"-max_len={longest}", "-rss_limit_mb=3072", "-timeout=120", f"-artifact_prefix={found}/")
        sys.stdout.flush()
        process = os.fork()
        if not process:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            try:
                run_target(atheris, name, target, seconds, found, [*limits, folder])
            finally:  # a change has raised: what follows is the other process's
                traceback.print_exc()
                os._exit(1)
        _, status, used = os.wait4(process, 0)
        output.seek(0)
        said = output.read().decode(errors="replace")
        for line in said.splitlines():
            if line.startswith(f"{name}: "):
                print(line, flush=True)
        if status:  # killed by libFuzzer for its memory or time, or by a signal
            print(f"{name}: exit code {os.waitstatus_to_exitcode(status)}: {said[-2000:]}", flush=True)
        keep(name, Path(folder))
    cases = _CASES.search(said)
    return int(cases[1]) if cases else 0, used.ru_utime + used.ru_stime


def count_in(results: Measurement, name: str, cases: int, cpu_s: float, kinds: int) -> None:
    """Add what a target's run has come to."""
    row = results.data.setdefault("targets", {}).setdefault(name, {"cases": 0, "cpu_s": 0.0, "findings": 0, "runs": 0})
    row["cases"] += cases
    row["cpu_s"] = round(row["cpu_s"] + cpu_s, 1)
    row["findings"] += kinds
    row["runs"] += 1
    row["kept"] = len(kept(name))


_GROUPS = {
    "file": "formats of files",
    "import": "memories that are imported",
    "terms": "lists of terms",
    "markup": "markup of texts",
    "marks": "marks of answers",
    "form": "forms",
    "api": "JSON of the APIs, through the whole app",
}
"""Of targets, by the first word of their names."""


def table(results: Measurement) -> Table:
    """A row for each group of parsers, and one of all."""
    targets: dict[str, Any] = results.data["targets"]
    groups = {group: [one for name, one in targets.items() if name.split()[0] == group] for group in _GROUPS}
    rows = [_row(_GROUPS[group], of_group) for group, of_group in groups.items() if of_group]
    columns = map(Column, ("parsers", "cases", "least of a parser", "a second of CPU time", "of a parser", "findings"))
    return Table("", (Column("", "left"), *columns), (*rows, _row("all", [*targets.values()])), heads=1)


def _row(label: str, found: list[dict[str, Any]]) -> Row:
    cases, cpu_s = sum(one["cases"] for one in found), sum(one["cpu_s"] for one in found)
    rates = sorted(one["cases"] / one["cpu_s"] for one in found)
    range_of_rates = f"{rates[0]:,.0f} to {rates[-1]:,.0f}"
    words = (label, f"{len(found)}", f"{cases:,}", f"{min(one['cases'] for one in found):,}", f"{cases / cpu_s:,.0f}")
    return Row(tuple(map(Cell, (*words, range_of_rates, str(sum(one["findings"] for one in found))))))


def shown_in(page: str, results: Measurement) -> str:
    """Return a page's text with the results between its marks. Raises ConfigError if it has none."""
    runs = max(one["runs"] for one in results.data["targets"].values())
    of_corpus = sum(one["kept"] for one in results.data["targets"].values())
    said = f"Runs: {runs}, begun {results.conditions['started_at'][:10]}, of which {of_corpus:,} files are kept."
    return with_part(page, KIND, f"{said}\n\n{markdown(table(results))}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="of CPU time, for each target")
    parser.add_argument("--only", default="", help="a part of the names of targets")
    parser.add_argument(
        "--found", type=Path, default=Path(".dragoman/fuzz"), help="a folder for the bytes of what is found"
    )
    parser.add_argument("--out", type=Path, help="results file (JSON); one that exists is continued")
    parser.add_argument("--page", type=Path, help="run nothing: write the table of --out into this Markdown page")
    options: Any = parser.parse_args()
    if options.page:
        page = shown_in(read_text(options.page, "page"), Measurement.read(options.out))
        write_text(options.page, page, "page")
        return
    found = options.found.resolve()
    found.mkdir(parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.RLIM_INFINITY))
    exists = options.out is not None and options.out.is_file()
    results = Measurement.read(options.out) if exists else Measurement.begin(KIND)
    atheris: Any = import_module("atheris")
    total, kinds = 0, 0
    with instrumented_targets(atheris)() as table:
        gc.collect()
        gc.freeze()  # a collection looks at what cases have left, not at the modules
        for name, target in table.items():
            if options.only not in name:
                continue
            before = set(found.iterdir())
            cases, cpu_s = fuzz_target(atheris, name, target, options.seconds, found)
            new = len(set(found.iterdir()) - before)
            total, kinds = total + cases, kinds + new
            count_in(results, name, cases, cpu_s, new)
            results.write(options.out)
            print(f"{name}: {cases:,} cases, {cases / cpu_s:.0f} a second, {len(kept(name))} files kept", flush=True)
    print(f"{total:,} cases, {kinds} kinds of findings")
    sys.exit(bool(kinds))


if __name__ == "__main__":
    main()
