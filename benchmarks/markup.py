"""Is reading a document linear in its length, and how long does it hold the event loop? Times of parsing and of restoring.

    python benchmarks/markup.py --out results/markup-cpu.json

Each document is read at 10 KB, 100 KB and 1 MB, by each format that it is written for: common ones, and hostile ones (open
tags, nesting, unclosed comments and quotes, ...). Of `--repeats` runs the fastest CPU time counts, which needs a quiet machine
all the same. Linear work takes 10 times as long a decade; over 12 times is reported as a failure, and the exit code is 1.
Decades that begin below `FLOOR_S` are not judged, because the clock decides them. `pause_s` is the longest work between two
points at which the caller may give control back. The garbage collector is off, because its work follows what the process
holds, and this one holds all pieces of a document. The last line of stdout is the JSON document that `--out` writes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from time import process_time

from dragoman.engine.spec import cpu_instruction_sets
from dragoman.text.document import DocumentOptions, pieces
from dragoman.text.marks import Block, Piece, restore
from dragoman.types import TextFormat

SIZES = (10_000, 100_000, 1_000_000)
MOST_PER_DECADE = 12
FLOOR_S = 0.002

PAGE = (
    '<div class="card"><h2>A title of it</h2>\n<p>Some <b>bold</b> text &amp; more with <a href="/a?b=1&amp;c=2">links</a> '
    "and <code>code</code>, and so on and so forth.</p>\n<ul>\n  <li>One thing</li>\n  <li>Two &copy; things</li>\n</ul></div>\n"
)
ARTICLE = (
    "## A *title* of it\n\nSome **bold** text with `code` and a [link](https://example.com/a) in it.\nA second line of it.\n\n"
    "> A quotation\n> of two lines\n\n- One thing\n- Two things\n\n| a cell | two |\n|---|---|\n| three | 4 |\n\n"
)
MESSAGES = "Hello {name}, see https://example.com/a?b=1 or write to office@example.com.\n- One thing\n- Two things\n\n"
COMMON: dict[TextFormat, str] = {"text": MESSAGES, "html": PAGE, "xml": PAGE, "markdown": ARTICLE}

MARKUP_UNITS = (
    "<", "<b>", "<b>a", "<div>", "</b>", "<b></i>a", "<a ", '<a b="', "<!--", "<!-- -->", "<![CDATA[", "<!DOCTYPE [", "<?",
    "&", "&amp;", "a&nbsp;", "&#39;a", "<code>a", "<title>", "<script>", "<p translate=no>a", '<img alt="a b">', "<g1>", "{", " ",
)  # fmt: skip
MARKDOWN_UNITS = (
    "[", "![", "[a](", "[a](b) ", "*a* ", "*a*b_", "_a ", "~a", "$a ", "`a", "<b>a", "<code>a", "\\*", "&amp;", "> ", "> a\n",
    "- ", "a  \n", "a\r\n", "|a|b|\n|-|-|\n", "[^1]: a\n", "<div>\n", "#\n",
)  # fmt: skip
TEXT_UNITS = ("{", "{n, plural, one {", "<", "a@", "http://", "- ", "1. a\n", "\t", "`", "%", "a\r\n", " \n")
HOSTILE: dict[TextFormat, tuple[str, ...]] = {
    "text": TEXT_UNITS, "html": MARKUP_UNITS, "xml": MARKUP_UNITS, "markdown": MARKDOWN_UNITS,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One document in three sizes: CPU seconds, and how many times as long each decade takes (None: too short to judge)."""

    format: TextFormat
    document: str
    parse_s: tuple[float, ...]
    restore_s: tuple[float, ...]
    pause_s: float
    parse_ratios: tuple[float | None, ...]
    restore_ratios: tuple[float | None, ...]

    @property
    def is_linear(self) -> bool:
        return all(ratio is None or ratio <= MOST_PER_DECADE for ratio in self.parse_ratios + self.restore_ratios)


def documents(kind: TextFormat, size: int) -> dict[str, str]:
    units = {"common": COMMON[kind], **{unit: unit for unit in HOSTILE[kind]}}
    named = {name: (unit * (size // len(unit) + 1))[:size] for name, unit in units.items()}
    deep = {"html": ("<b>a", "</b>"), "xml": ("<b>a", "</b>"), "markdown": (">", "a")}.get(kind)
    if deep:
        named["nested"] = deep[0] * (size // 2 // len(deep[0])) + deep[1] * (size // 2 // len(deep[1]))
    return named


def parsed(document: str, options: DocumentOptions) -> tuple[list[Piece], float, float]:
    """The pieces, CPU seconds, and the longest part of them without a pause."""
    found: list[Piece] = []
    longest_s = 0.0
    began_s = at_s = process_time()
    for piece in pieces(document, options):
        if piece is not None:
            found.append(piece)
            continue
        now_s = process_time()
        longest_s, at_s = max(longest_s, now_s - at_s), now_s
    ended_s = process_time()
    return found, ended_s - began_s, max(longest_s, ended_s - at_s)


def restored(found: list[Piece]) -> tuple[str, float]:
    began_s = process_time()
    text = "".join(
        restore(piece.text, piece.marks, piece.writer) if isinstance(piece, Block) else piece.text for piece in found
    )
    return text, process_time() - began_s


def measured(kind: TextFormat, name: str, texts: list[str], repeats: int) -> Row:
    parse_s, restore_s, pauses_s = list[float](), list[float](), list[float]()
    for text in texts:
        runs: list[tuple[float, float, float]] = []
        for _ in range(repeats):
            gc.collect()
            found, parsing_s, pause_s = parsed(text, DocumentOptions(kind))
            again, restoring_s = restored(found)
            if again != text:
                raise SystemExit(f"{kind}, {name!r}, {len(text)} characters: restored to another text")
            runs.append((parsing_s, restoring_s, pause_s))
        for times, fastest in zip((parse_s, restore_s, pauses_s), map(min, zip(*runs, strict=True)), strict=True):
            times.append(round(fastest, 6))
    return Row(
        format=kind,
        document=name,
        parse_s=tuple(parse_s),
        restore_s=tuple(restore_s),
        pause_s=max(pauses_s),
        parse_ratios=ratios(parse_s),
        restore_ratios=ratios(restore_s),
    )


def ratios(times_s: list[float]) -> tuple[float | None, ...]:
    return tuple(round(after / before, 1) if before >= FLOOR_S else None for before, after in pairwise(times_s))


def main() -> None:
    parser = argparse.ArgumentParser(description="Times of parsing and restoring documents, by format and size.")
    parser.add_argument("--out", type=Path, help="write the JSON document there")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--formats", nargs="+", choices=list(COMMON), default=list(COMMON))
    arguments = parser.parse_args()
    gc.disable()
    rows: list[Row] = []
    for kind in arguments.formats:
        by_size = [documents(kind, size) for size in SIZES]
        for name in by_size[0]:
            row = measured(kind, name, [one[name] for one in by_size], arguments.repeats)
            rows.append(row)
            times = " ".join(f"{time_s * 1000:9.1f}" for time_s in row.parse_s + row.restore_s)
            print(
                f"{kind:8} {name[:20]!r:24} {times}  {row.parse_ratios} {'' if row.is_linear else 'NOT LINEAR'}",
                flush=True,
            )
    result = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "conditions": {
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "cpu_instruction_sets": cpu_instruction_sets(),
            "python": platform.python_version(),
            "pyromark": version("pyromark"),
            "repeats": arguments.repeats,
        },
        "sizes": SIZES,
        "most_per_decade": MOST_PER_DECADE,
        "linear": all(row.is_linear for row in rows),
        "longest_pause_s": max(row.pause_s for row in rows),
        "rows": [asdict(row) for row in rows],
    }
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result))
    sys.exit(0 if result["linear"] else 1)


if __name__ == "__main__":
    main()
