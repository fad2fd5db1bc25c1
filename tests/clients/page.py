"""The generated parts of docs/clients.md, from results/: `python -m tests.clients.page`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/clients.md"
COLUMNS = {
    "text": "text",
    "batch": "several texts",
    "tags": "HTML, XML",
    "detection": "detection",
    "languages": "languages",
    "documents": "documents",
    "structured": "structured output",
    "glossaries": "glossaries",
    "usage": "usage",
    "streaming": "streaming",
    "command line": "command line",
    "errors": "errors",
}
REFUSED = ("wrong", "revoked", "over quota", "rate-limited")


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _escaped(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;")


def matrix(results: dict[str, Any]) -> str:
    """Clients by columns: how many cells passed, of how many."""
    rows: list[list[str]] = []
    for client in results["clients"]:
        packages = f"requests of {client['reproduces']}" if client.get("reproduces") else ", ".join(client["packages"])
        row = [f"[{client['title']}](#{anchor(client['title'])})", packages or "–"]
        for column in COLUMNS:
            cells = [one for one in client["cells"] if one["column"] == column]
            passed = sum(not one["reason"] for one in cells)
            row.append(
                "" if not cells else f"✓ {passed}" if passed == len(cells) else f"**✗ {passed} of {len(cells)}**"
            )
        rows.append(row)
    cells = [one for client in results["clients"] for one in client["cells"]]
    passed = sum(not one["reason"] for one in cells)
    head = f"{passed} of {len(cells)} cells passed; Python {results['python']}, Node {results['node']}, "
    head += f"Java {results['java']}.\n\n"
    return head + _table(["client", "packages", *COLUMNS.values()], rows)


def cells(results: dict[str, Any]) -> str:
    """What each cell shows, and why it failed if it did."""
    rows: list[list[str]] = []
    for client in results["clients"]:
        for one in client["cells"]:
            outcome = f"**✗** {_escaped(one['reason'])}" if one["reason"] else "✓"
            rows.append([client["title"], COLUMNS[one["column"]], _escaped(one["title"]), outcome])
    return _table(["client", "column", "cell", ""], rows)


def refusals(results: dict[str, Any]) -> str:
    """The exception classes."""
    rows: list[list[str]] = []
    for client in results["clients"]:
        found = {one["refused"]: one for one in client["refusals"]}
        alike = len({one["raises"] for one in client["refusals"]}) == 1  # then the message alone says what it is
        row = [client["title"]]
        for name in REFUSED:
            one = found.get(name, {"raises": None, "message": ""})
            message = _escaped(re.split(r"[;,]", one["message"])[0][:50])
            shown = f"`{one['raises']}`" + (f": {message}" if alike else "") if one["raises"] else message
            row.append(shown)
        rows.append(row)
    return _table(["client", *REFUSED], rows)


def anchor(title: str) -> str:
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def cpu(results: dict[str, Any]) -> str:
    """The server's CPU time a request in each API."""
    found = {(row["api"], row["texts"]): row for row in results["rows"] if "texts" in row}
    counts = sorted({count for _, count in found})
    rows: list[list[str]] = []
    for api, beside in dict.fromkeys((row["api"], row["beside"]) for row in found.values()):
        row = [api, beside]
        for count in counts:
            one = found.get((api, count))
            row += ["", ""] if one is None else [f"{one['cpu_ms']:.1f} ms", f"{one['ratio_to_native']:.2f}"]
        rows.append(row)
    head = ["API", "beside", *(cell for count in counts for cell in (f"{count:,} text{'s' * (count > 1)}", "ratio"))]
    conditions = results["conditions"]
    return (
        f"{conditions['clients']} clients, the median of {conditions['rounds']} rounds, {conditions['cpus']} CPUs "
        f"with a load of {conditions['load_before']} before.\n\n" + _table(head, rows)
    )


def chat_programs(results: dict[str, Any]) -> str:
    """Programs by the outcome of their requests."""
    shown = {
        "served": "✓",
        "not a translation": "refused: `not_a_translation`",
        "refused": "**refused**",
        "wrong": "**✗**",
    }
    rows = [
        [
            _escaped(one["program"]),
            one["version"],
            one["run"] or "",
            str(one["items"]),
            shown[one["dragoman"]],
            shown[one["dragoman/LANGUAGE"]],
        ]
        for one in results["programs"]
    ]
    served = sum(one["dragoman"] == "served" for one in results["programs"])
    head = f"{served} of {len(rows)} requests are served, the others ask for something other than a translation.\n\n"
    return head + _table(["program", "source read", "run", "items", "model `dragoman`", "`dragoman/LANGUAGE`"], rows)


def program_requests(results: dict[str, Any]) -> str:
    """Programs by how many of their requests are answered as they read it, with a model that follows instructions."""
    listed = {one["program"]: one for one in json.loads((ROOT / "tests/chat/programs.json").read_text())}
    outcomes = {name: [row for row in results["requests"] if row["program"] == name] for name in listed}
    rows: list[list[str]] = []
    for name, found in outcomes.items():
        if found:
            one = listed[name]
            counts = [
                sum(row[f"instruct, {model}"] == outcome for row in found)
                for outcome in ("right", "passed")
                for model in ("dragoman", "dragoman/LANG")
            ]
            link = f"[{name}](https://github.com/{name})" if one["commit"] else name.removeprefix("unknown/")
            source = one["commit"][:7] if one["commit"] else "not named"
            rows.append([link, one["kind"], ", ".join(one["api"]), source, str(len(found)), *map(str, counts)])
    shares = [
        [part, one["of"], str(one["requests"]), *(str(one[name]) for name in ("right", "passed", "refused", "garbage"))]
        for part, table in results["tables"].items()
        for one in table
    ]
    head = [
        "program",
        "kind",
        "API",
        "source read",
        "requests",
        "right",
        "right, `dragoman/LANG`",
        "passed",
        "passed, `dragoman/LANG`",
    ]
    return (
        _table(["part", "profile, model", "requests", "right", "passed", "refused", "garbage"], shares)
        + "\n\n"
        + _table(head, rows)
    )


def chat_texts(results: dict[str, Any]) -> str:
    """Texts that were taken for an instruction, by kind."""
    names = ["taken, none", "refused, none", "taken, translator", "refused, translator"]
    rows = [
        [one["kind"], f"{one['texts']:,}", *(str(one[name]) for name in names)]
        for one in [*results["texts"], *results["catalogues"]]
    ]
    columns = ["taken for an instruction", "refused", "with a translator's system message: taken", "refused"]
    return _table(["kind of text", "texts", *columns], rows)


def chat_batches(results: dict[str, Any]) -> str:
    """Lines of batches that came back in their place, by form and size."""
    sizes = [name for name in results["batches"][0] if name.startswith("in place")]
    rows = [
        [_escaped(one["program"]), f"{one['lines']:,}", *(f"{one[name]:,}" for name in sizes)]
        for one in results["batches"]
    ]
    return _table(["form of", "lines", *(f"{name.removeprefix('in place, ')} in a batch" for name in sizes)], rows)


PARTS: Mapping[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "matrix": ("clients.json", matrix),
    "keys": ("clients.json", refusals),
    "cpu": ("apis-cpu.json", cpu),
    "chat": ("chat-prompts.json", chat_programs),
    "program-requests": ("chat-programs.json", program_requests),
    "chat-texts": ("chat-prompts.json", chat_texts),
    "chat-batches": ("chat-prompts.json", chat_batches),
    "cells": ("clients.json", cells),
}
"""Each part's results file, and what is made of it."""


def rendered(text: str) -> str:
    """The page with what is between `<!-- begin NAME -->` and `<!-- end NAME -->` replaced."""
    for name, (file, part) in PARTS.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        if begin not in text or end not in text:
            raise SystemExit(f"{PAGE} has no part {begin} ... {end}")
        before, rest = text.split(begin, 1)
        made = part(json.loads((ROOT / "results" / file).read_text()))
        text = f"{before}{begin}\n{made}\n{end}{rest.split(end, 1)[1]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text()))
