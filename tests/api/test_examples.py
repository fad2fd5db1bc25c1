"""Examples through the native API, and what the answer says of them."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.pipelines.fake import FakePipeline
from dragoman.types import MAX_EXAMPLE_CHARACTERS, MAX_EXAMPLES, EngineSequence
from tests.serving import encoder_of_turns, fake_service, served, service_over, turns_of

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


def learning(sequence: EngineSequence) -> str:
    """An answer that says how many examples there were; with `Copy` it is the last one's translation."""
    turns = turns_of(sequence)
    examples = len(turns) // 2
    return turns[-2] if "Copy" in turns[-1] and examples else f"おはよう{'ね' * examples}。"


async def test_the_answer_says_which_examples_the_model_was_shown() -> None:
    other = {"source": "Good night to all of you.", "translation": "みなさん、おやすみなさい。"}
    async with served(service_over(FakePipeline(learning), encoder=encoder_of_turns())) as client:
        [shown] = (await client.post("/v1/translate", json=body(PAIR, other))).json()["translations"]
        assert shown["text"] == "おはようねね。"
        assert shown["examples"] == {"count": 2, "best_similarity": None, "best": other}
        [none] = (await client.post("/v1/translate", json=body())).json()["translations"]
        assert (none["text"], none["examples"]) == ("おはよう。", None)
        [copied] = (await client.post("/v1/translate", json={**body(PAIR), "text": "Copy my words."})).json()[
            "translations"
        ]
        assert (copied["text"], copied["retries"], copied["examples"]) == ("おはよう。", ["copied_example"], None)
        metrics = (await client.get("/metrics")).text.splitlines()
        assert "dragoman_examples_total 2.0" in metrics
        assert 'dragoman_retries_total{code="copied_example"} 1.0' in metrics
        assert (await client.get("/v1/models")).json()["data"][0]["takes_examples"] is True


async def test_a_tool_takes_examples() -> None:
    async with served(service_over(FakePipeline(learning), encoder=encoder_of_turns())) as client:
        accept = {"accept": "application/json, text/event-stream"}

        async def call(method: str, **params: Any) -> str:
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return (await client.post("/mcp", json=message, headers=accept)).text

        assert "おはようね。" in await call("tools/call", name="translate", arguments=body(PAIR))
        listed = await call("tools/list")
        assert '"$ref": "#/$defs/ExampleIn"' in listed or '"$ref":"#/$defs/ExampleIn"' in listed
        assert "ExampleIn" in listed.partition("$defs")[2]
