"""How large the tree's packages are, before and now, as a Markdown table.

    python scripts/structure.py --before REVISION

Counts files that git knows, with their blank lines and comments: Python everywhere, and beside it what code can be moved
into (TOML, JSON, JavaScript) under `src` and `tests`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
TREES = {
    "src/dragoman": "server",
    "src/wholetext": "files",
    "src/dragoman_bench": "bench",
    "tools": "tools",
    "benchmarks": "benchmarks",
    "scripts": "scripts",
    "tests": "tests",
}
OTHERS = (".toml", ".json", ".js")
"""Counted in the trees under `src` and in `tests`."""


@dataclass(slots=True)
class Size:
    """Files and their lines."""

    files: int = 0
    lines: int = 0

    def add(self, other: Size) -> None:
        self.files += other.files
        self.lines += other.lines

    def __str__(self) -> str:
        return f"{self.files} / {self.lines:,}" if self.files else ""


def git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True).stdout


def is_counted(file: str) -> bool:
    return file.endswith(".py") or (file.endswith(OTHERS) and file.startswith(("src/", "tests/")))


def files_now() -> dict[str, str]:
    """The text of each counted file of the working tree."""
    listed = filter(is_counted, git("ls-files", "--cached", "--others", "--exclude-standard").splitlines())
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in sorted(set(listed)) if (ROOT / name).is_file()}


def files_of(revision: str) -> dict[str, str]:
    """The text of each counted file of a revision."""
    listed = list(filter(is_counted, git("ls-tree", "-r", "--name-only", revision).splitlines()))
    wanted = "".join(f"{revision}:{name}\n" for name in listed)
    command = ["git", "-C", str(ROOT), "cat-file", "--batch"]
    output = subprocess.run(command, input=wanted.encode(), capture_output=True, check=True).stdout
    texts: dict[str, str] = {}
    for name in listed:
        header, _, output = output.partition(b"\n")
        size = int(header.rpartition(b" ")[2])
        texts[name], output = output[:size].decode(), output[size + 1 :]
    return texts


def tree_of(file: str) -> str | None:
    return next((tree for tree in TREES if file.startswith(f"{tree}/")), None)


def package_of(file: str) -> str:
    """The package of a file: the tree's root, or one folder below it (`src/dragoman/api`, `tests/tune`); for other files
    than Python's the tree and the suffix."""
    tree = tree_of(file)
    assert tree is not None
    if not file.endswith(".py"):
        return f"{tree}/{Path(file).suffix}"
    folder, *rest = file.removeprefix(f"{tree}/").split("/")
    return f"{tree}/{folder}" if rest else tree


def sizes(texts: Mapping[str, str]) -> dict[str, Size]:
    """Files and lines per package."""
    found: dict[str, Size] = defaultdict(Size)
    for file, text in texts.items():
        if tree_of(file) is not None:
            found[package_of(file)].add(Size(1, len(text.splitlines())))
    return found


def total(found: Mapping[str, Size], packages: Iterable[str]) -> str:
    """The sum over packages of Python, in bold."""
    size = Size()
    for package in packages:
        if not package.endswith(OTHERS):
            size.add(found.get(package, Size()))
    return f"**{size}**" if size.files else ""


def table(before: Mapping[str, Size], now: Mapping[str, Size]) -> Iterator[str]:
    """Lines of a Markdown table: one for each package, with the sum of each tree's Python in bold."""
    yield "| package | before: files / lines | now: files / lines |"
    yield "|---|--:|--:|"
    packages = sorted(set(before) | set(now), key=lambda package: (package.endswith(OTHERS), package))
    for tree, title in TREES.items():
        inside = [package for package in packages if package == tree or package.startswith(f"{tree}/")]
        if not inside:
            continue
        yield f"| **{title}: `{tree}`** | {total(before, inside)} | {total(now, inside)} |"
        for package in inside if len(inside) > 1 else ():
            name = "(top level)" if package == tree else f"`{package.removeprefix(f'{tree}/')}`"
            yield f"| {name} | {before.get(package, Size())} | {now.get(package, Size())} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="REVISION", help="a git revision to compare the working tree with")
    options = parser.parse_args()
    before = sizes(files_of(options.before)) if options.before else {}
    sys.stdout.write("\n".join(table(before, sizes(files_now()))) + "\n")


if __name__ == "__main__":
    main()
