"""How results are told on the results page: ranges, machines, notes that stand beside results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"


def ranged(values: list[float], digits: int = 3) -> str:
    """Median, and the range of the repeats."""
    low, high = min(values), max(values)
    return f"{median(values):.{digits}g} ({low:.{digits}g}..{high:.{digits}g})"


def where(machine: dict[str, Any]) -> str:
    cores = f"{machine['cpu']}, {machine['cores']} cores"
    return ", ".join([*(gpu["name"] for gpu in machine["gpus"]), cores])


def spread(one: dict[str, float], digits: int = 3) -> str:
    return ranged([one["low"], one["median"], one["high"]], digits)


def noted(folder: Path, file: str) -> str:
    """A report a heading deeper, with the folder's note, if it has one, under its title."""
    told = re.sub(r"^#", "##", (folder / file).read_text(encoding="utf-8"), flags=re.MULTILINE)
    title, rest = told.split("\n", 1)
    return "\n".join((title, *(f"\n{one.strip()}" for one in note(folder / "note.md")), rest))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 1) -> str:
    """Markdown; the first `numbers` columns stand to the right."""
    rule = ["---:"] * numbers + ["---"] * (len(heads) - numbers)
    return "".join(f"| {' | '.join(line)} |\n" for line in (heads, rule, *rows))


def note(path: Path) -> list[str]:
    """What stands beside results for people to know, if anything."""
    return [path.read_text(encoding="utf-8")] if path.is_file() else []
