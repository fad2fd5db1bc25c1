"""What the tests run of each package, and the modules with the most branches that they do not, as Markdown tables.

    coverage json -o FILE; python scripts/coverage_table.py FILE

`make coverage` calls it. A branch is a way from one line to another: both of an `if` are to be taken.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODULES = 10
"""Those listed by their own."""


@dataclass(slots=True)
class Covered:
    """How many statements and branches there are, and how many of them tests run."""

    statements: int = 0
    run: int = 0
    branches: int = 0
    taken: int = 0

    def add(self, summary: Mapping[str, Any]) -> None:
        """Add a file, as coverage.py summarises it."""
        self.statements += summary["num_statements"]
        self.run += summary["covered_lines"]
        self.branches += summary["num_branches"]
        self.taken += summary["covered_branches"]

    def cells(self) -> str:
        """Its cells of a row."""
        pairs = ((self.run, self.statements), (self.taken, self.branches))
        return " | ".join(f"{some:,} of {all:,} | {100 * some / max(all, 1):.1f} %" for some, all in pairs)


def package_of(path: str) -> str:
    """`dragoman/api` for any file below it; `dragoman` for one that lies in no package of it."""
    parts = (path.partition("src/")[2] or path).split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def tables(files: Mapping[str, Mapping[str, Any]]) -> str:
    """The tables of coverage.py's files."""
    packages: dict[str, Covered] = {}
    for path, file in files.items():
        for name in ("**all**", package_of(path)):
            packages.setdefault(name, Covered()).add(file["summary"])
    lines = ["| package | statements | | branches | |", "|---|--:|--:|--:|--:|"]
    lines += [f"| {name} | {covered.cells()} |" for name, covered in sorted(packages.items())]
    missing = {path: file["summary"]["missing_branches"] for path, file in files.items()}
    worst = sorted(missing, key=lambda path: -missing[path])[:MODULES]
    lines += ["", "| module | branches not taken | of |", "|---|--:|--:|"]
    lines += [f"| `{path}` | {missing[path]} | {files[path]['summary']['num_branches']} |" for path in worst]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path)
    document = json.loads(parser.parse_args().file.read_text(encoding="utf-8"))
    print(tables(document["files"]))


if __name__ == "__main__":
    main()
