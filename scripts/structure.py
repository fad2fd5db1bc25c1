"""How large the tree's packages are, before and now, as a Markdown table; and which imports which, as a diagram.

    python scripts/structure.py --before REVISION
    python scripts/structure.py --arrows            # writes the diagram into docs/architecture.md

Counts files that git knows, with their blank lines and comments: Python everywhere, and beside it what code can be moved
into (TOML, JSON, JavaScript) under `src` and `tests`.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "architecture.md"
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


# ---- which package imports which


def package_of_module(name: str) -> str:
    """The package that a module belongs to: a folder below the distribution's, or, for its modules, the distribution's own."""
    top, _, rest = name.partition(".")
    folder = rest.partition(".")[0]
    return f"{top}.{folder}" if folder and (SOURCE / top / folder).is_dir() else top


def imported_packages(file: Path) -> set[str]:
    """The packages of `src` that a file imports from, anywhere in it."""
    names = set[str]()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {package_of_module(name) for name in names if (SOURCE / name.partition(".")[0]).is_dir()}


def arrows() -> dict[str, set[str]]:
    """For each package those that it imports, without what follows from the others: if a imports b and b imports c, a's
    import of c is left out."""
    graph: dict[str, set[str]] = defaultdict(set)
    for file in sorted(SOURCE.rglob("*.py")):
        here = package_of_module(".".join(file.relative_to(SOURCE).with_suffix("").parts))
        graph[here] |= imported_packages(file) - {here}
    reached: dict[str, set[str]] = {}
    for package in TopologicalSorter(graph).static_order():  # raises CycleError, which names a circle
        reached[package] = graph[package].union(*(reached[one] for one in graph[package]))
    return {
        package: {one for one in found if not any(one in reached[other] for other in found)}
        for package, found in graph.items()
    }


def diagram(found: Mapping[str, set[str]]) -> Iterator[str]:
    """Lines of a Markdown block with the arrows, for Mermaid."""
    yield from ("```mermaid", "flowchart TD")
    for top in sorted({package.partition(".")[0] for package in found}):
        yield f"    subgraph {top}"
        for package in sorted(found):
            if package.partition(".")[0] == top:
                yield f'        {package.replace(".", "_")}_["{package.partition(".")[2] or "modules of its own"}"]'
        yield "    end"
    for package in sorted(found):
        for other in sorted(found[package]):
            yield f"    {package.replace('.', '_')}_ --> {other.replace('.', '_')}_"
    yield "```"


def with_diagram(page: str) -> str:
    """The page with the diagram of now between its marks. Raises `ValueError` for a page without them."""
    before, rest = page.split("<!-- arrows: begin -->\n")
    _, after = rest.split("<!-- arrows: end -->\n")
    drawn = "\n".join(diagram(arrows()))
    return f"{before}<!-- arrows: begin -->\n{drawn}\n<!-- arrows: end -->\n{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="REVISION", help="a git revision to compare the working tree with")
    parser.add_argument("--arrows", action="store_true", help="write the diagram of imports into docs/architecture.md")
    options = parser.parse_args()
    if options.arrows:
        PAGE.write_text(with_diagram(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return
    before = sizes(files_of(options.before)) if options.before else {}
    sys.stdout.write("\n".join(table(before, sizes(files_now()))) + "\n")


if __name__ == "__main__":
    main()
