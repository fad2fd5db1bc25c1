"""Tables of docs/page.md that are measured: between marks, written by the command that measures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/page.md"


def line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def write(name: str, head: Sequence[str], rows: Sequence[str], note: str = "") -> None:
    """Put a table, and a note below it, between `<!-- begin NAME -->` and `<!-- end NAME -->`. All columns but the first are
    numbers."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    before, rest = PAGE.read_text(encoding="utf-8").split(begin)
    table = [line(head), "|---|" + "--:|" * (len(head) - 1), *rows, *(["", note] if note else [])]
    PAGE.write_text("\n".join([before + begin, *table, end + rest.split(end)[1]]), encoding="utf-8")
