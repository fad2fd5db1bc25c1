"""Examples through the native API, and what the answer says of them."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.types import MAX_EXAMPLE_CHARACTERS, MAX_EXAMPLES
from tests.serving import fake_service, served

PAIR = {"source": "Open the file.", "translation": "ファイルを開く。"}


def body(*examples: dict[str, Any]) -> dict[str, Any]:
    return {"text": "Good morning.", "source": "en", "target": "ja", "examples": list(examples)}


@pytest.mark.parametrize(
    ("examples", "fault"),
    [
        ([PAIR] * (MAX_EXAMPLES + 1), f"examples: {MAX_EXAMPLES + 1} entries"),
        ([PAIR, {"source": " ", "translation": "x"}], "the source of number 2 is empty"),
        ([{"source": "x", "translation": ""}], "the translation of number 1 is empty"),
        ([{"source": "x" * (MAX_EXAMPLE_CHARACTERS + 1), "translation": "x"}], "number 1 has over"),
        ([{"source": "x", "translation": "\x00"}], "number 1 has U+0000"),
        ([{"source": "x"}], "translation"),
        ([{**PAIR, "similarity": 3}], "similarity"),
        (["x"], ""),
    ],
)
async def test_examples_beyond_the_limits_are_refused(examples: list[Any], fault: str) -> None:
    async with served(fake_service(lambda _: "はい")) as client:
        refused = await client.post("/v1/translate", json={**body(), "examples": examples})
        assert refused.status_code in (400, 422)
        error = refused.json()["error"]
        assert fault in error["message"] or fault in error["param"], error
        assert error["param"].startswith("examples")


async def test_a_model_that_takes_no_examples_says_so_and_answers() -> None:
    async with served(fake_service(lambda _: "おはようございます。")) as client:
        answer = (await client.post("/v1/translate", json=body(PAIR))).json()["translations"][0]
        assert ([one["code"] for one in answer["warnings"]], answer["examples"]) == (["examples_ignored"], None)
        without = (await client.post("/v1/translate", json=body())).json()["translations"][0]
        assert without == {**answer, "warnings": []}
        tool = {"name": "translate", "arguments": body(PAIR)}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}
        accept = {"accept": "application/json, text/event-stream"}
        called = (await client.post("/mcp", json=message, headers=accept)).text
        assert "examples_ignored" in called
