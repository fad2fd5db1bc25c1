"""docs/clients.md has what the results files have."""

from __future__ import annotations

import json

from tests.api.compat.chat_texts import texts
from tests.api.compat.test_chat_requests import BLOCKS
from tests.clients import chat_prompts, page
from tests.clients.__main__ import HERE, clients


def test_the_page_is_current() -> None:
    text = page.PAGE.read_text()
    assert page.rendered(text) == text


def test_every_client_has_a_script_a_section_and_results() -> None:
    sections = {line.removeprefix("## ").lower() for line in page.PAGE.read_text().splitlines()}
    run = {one["id"]: one for one in json.loads((page.ROOT / "results/clients.json").read_text())["clients"]}
    for client in clients():
        assert (HERE / "cells" / client.script).exists()
        assert client.title.lower() in sections
        assert run[client.id]["packages"] == client.packages


def test_the_results_of_chat_prompts_are_current() -> None:
    results = json.loads(chat_prompts.RESULTS.read_text())
    assert results["programs"] == chat_prompts.programs()
    assert results["texts"] == chat_prompts.precision(texts())
    assert [one["program"] for one in results["batches"]] == list(BLOCKS)
    for one in results["batches"]:
        assert {count for name, count in one.items() if name.startswith("in place")} == {one["lines"]} == {1_000}
    requests = ("instructions of people", "Markdown")  # of which some ask for the target of the request
    counted = [one for one in (*results["texts"], *results["catalogues"]) if one["kind"] not in requests]
    assert {one["taken, none"] for one in counted} == {0}


def test_failed_cells_are_shown() -> None:
    cells = [
        {"column": "text", "title": "one", "reason": None},
        {"column": "text", "title": "two", "reason": "a < b | c"},
    ]
    client = {"id": "x", "title": "X", "packages": [], "cells": cells, "refusals": []}
    results = {"python": "3", "node": "v20", "java": "17", "clients": [client]}
    assert "1 of 2 cells passed" in page.matrix(results)
    assert "**✗ 1 of 2**" in page.matrix(results)
    assert "a &lt; b \\| c" in page.cells(results)
