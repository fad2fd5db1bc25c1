"""How large the tree's packages are, before and now, and where it is cut too fine.

    python scripts/structure.py --before 9384b23          files and lines of each package, as a Markdown table
    python scripts/structure.py --findings                what to read again: names and sizes, a list in Markdown

Counts Python files that git knows, with their blank lines and comments.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST_FILES = 14
MOST_LINES = 500
MOST_FUNCTION_LINES = 50
SHORT_FUNCTION_LINES = 4
TREES = {
    "src/dragoman": "server",
    "src/dragoman_bench": "bench",
    "tools": "tools",
    "benchmarks": "benchmarks",
    "scripts": "scripts",
    "tests": "tests",
}
_MOVED = {f"src/dragoman/{name}": f"src/dragoman_bench/{name}" for name in ("bench", "report", "journey", "tune")} | {
    "src/dragoman/phrasebook": "tools/phrasebook"
}
"""Packages of the one tree that there was before, and where they went."""


@dataclass(slots=True)
class Size:
    """Python files and their lines."""

    files: int = 0
    lines: int = 0

    def add(self, other: Size) -> None:
        self.files += other.files
        self.lines += other.lines

    def __str__(self) -> str:
        return f"{self.files} / {self.lines:,}" if self.files else ""


def git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True).stdout


def files_now() -> dict[str, str]:
    """The text of each Python file of the working tree."""
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", "*.py").splitlines()
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in sorted(set(listed)) if (ROOT / name).is_file()}


def files_of(revision: str) -> dict[str, str]:
    """The text of each Python file of a revision."""
    listed = [name for name in git("ls-tree", "-r", "--name-only", revision).splitlines() if name.endswith(".py")]
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
    """The package of a file: the tree's root, or one folder below it (`src/dragoman/api`, `tests/tune`)."""
    tree = tree_of(file)
    assert tree is not None
    folder, *rest = file.removeprefix(f"{tree}/").split("/")
    return f"{tree}/{folder}" if rest else tree


def sizes(texts: Mapping[str, str], moved: Mapping[str, str] | None = None) -> dict[str, Size]:
    """Files and lines per package. `moved` renames packages."""
    found: dict[str, Size] = defaultdict(Size)
    for file, text in texts.items():
        if tree_of(file) is None:
            continue
        package = package_of(file)
        found[(moved or {}).get(package, package)].add(Size(1, len(text.splitlines())))
    return found


def bold(size: Size) -> str:
    return f"**{size}**" if size.files else ""


def table(before: Mapping[str, Size], now: Mapping[str, Size]) -> Iterator[str]:
    """Lines of a Markdown table: one for each package, with the sum of each tree in bold."""
    yield "| package | before: files / lines | now: files / lines |"
    yield "|---|--:|--:|"
    packages = sorted(set(before) | set(now))
    for tree, title in TREES.items():
        inside = [package for package in packages if package == tree or package.startswith(f"{tree}/")]
        if not inside:
            continue
        totals = Size(), Size()
        for package in inside:
            for total, found in zip(totals, (before, now), strict=True):
                total.add(found.get(package, Size()))
        yield f"| **{title}: `{tree}`** | {bold(totals[0])} | {bold(totals[1])} |"
        for package in inside if len(inside) > 1 else ():
            name = "(top level)" if package == tree else f"`{package.removeprefix(f'{tree}/')}`"
            yield f"| {name} | {before.get(package, Size())} | {now.get(package, Size())} |"


class Names(ast.NodeVisitor):
    """Functions, classes and uses of names of one file."""

    def __init__(self, file: str, text: str) -> None:
        self.functions: list[tuple[str, int, str]] = []
        self.classes: list[str] = []
        self.uses: Counter[str] = Counter()
        self._file = file
        self.visit(ast.parse(text))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        self.functions.append((node.name, lines, f"{self._file}:{node.lineno}"))
        self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.classes.append(node.name)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self.uses[node.id] += 1

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.uses[node.attr] += 1
        self.generic_visit(node)


@dataclass(slots=True)
class Findings:
    """What to read again, each as lines of `what: where`."""

    short_private: list[str]
    long_functions: list[str]
    repeated_classes: list[str]
    large_packages: list[str]
    long_files: list[str]


def findings(texts: Mapping[str, str]) -> Findings:
    """Of the files below `src`."""
    source = {file: text for file, text in texts.items() if file.startswith("src/")}
    names = {file: Names(file, text) for file, text in source.items()}
    functions = [(name, lines, where, names[file]) for file in names for name, lines, where in names[file].functions]
    places: dict[str, list[str]] = defaultdict(list)
    for file, found in names.items():
        for name in found.classes:
            places[name].append(file)
    folders = Counter(file.rpartition("/")[0] for file in source)
    return Findings(
        short_private=[
            f"{name} ({lines} lines): {where}"
            for name, lines, where, found in functions
            if name.startswith("_")
            and not name.endswith("__")
            and lines <= SHORT_FUNCTION_LINES
            and found.uses[name] == 1
        ],
        long_functions=[f"{name} ({n} lines): {where}" for name, n, where, _ in functions if n > MOST_FUNCTION_LINES],
        repeated_classes=[f"{name}: {', '.join(at)}" for name, at in sorted(places.items()) if len(at) > 1],
        large_packages=[f"{folder} ({n} files)" for folder, n in sorted(folders.items()) if n > MOST_FILES],
        long_files=[
            f"{file} ({len(text.splitlines())} lines)"
            for file, text in source.items()
            if len(text.splitlines()) > MOST_LINES
        ],
    )


def report(now: Findings, before: Findings | None) -> Iterator[str]:
    """Findings as Markdown: how many of each, and which."""
    titles = {
        "short_private": f"private functions of at most {SHORT_FUNCTION_LINES} lines that are used once",
        "long_functions": f"functions over {MOST_FUNCTION_LINES} lines",
        "repeated_classes": "class names that occur more than once",
        "large_packages": f"packages of more than {MOST_FILES} files",
        "long_files": f"files over {MOST_LINES} lines",
    }
    for field, title in titles.items():
        found: list[str] = getattr(now, field)
        past = f", before {len(getattr(before, field))}" if before else ""
        yield f"**{title}: {len(found)}{past}**"
        yield ""
        yield from (f"- {line}" for line in found)
        if found:
            yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="REVISION", help="a git revision to compare the working tree with")
    parser.add_argument("--findings", action="store_true", help="names and sizes to read again, below src")
    options = parser.parse_args()
    now, before = files_now(), files_of(options.before) if options.before else None
    if options.findings:
        lines = report(findings(now), findings(before) if before is not None else None)
    else:
        lines = table(sizes(before or {}, _MOVED), sizes(now))
    sys.stdout.write("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
