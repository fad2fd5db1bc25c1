"""`dragoman serve --engine-url` in front of a real `vllm serve`: the same translations as with an engine of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from dragoman import phrasebook
from dragoman_bench.bench.servers import serving, vllm_serve
from tests.processes import START_S, ServerProcess
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.engine, pytest.mark.timeout(900)]

TEXTS = ["Where is the station?", "I would like a cup of tea, please.", "The train to the airport leaves at nine."]
TRANSLATED = "駅はどこですか？"


async def _translated(http: httpx.AsyncClient, text: str) -> dict[str, object]:
    answer = await http.post("/v1/translate", json={"text": text, "source": "en", "target": "ja"})
    assert answer.status_code == 200, answer.text
    return answer.json()["translations"][0]


async def test_a_server_without_an_engine_translates_with_vllm_serve(tmp_path: Path) -> None:
    flags = {
        "max-model-len": 1024,
        "enforce-eager": True,
        "gpu-memory-utilization": 0.3,
        "kv-cache-memory-bytes": 1 << 30,
    }
    command = vllm_serve("theirs", str(phrasebook.model_dir()), flags)
    (tmp_path / "own").mkdir()
    async with serving(command, tmp_path / "theirs" / "log", asyncio.Event(), deadline_s=START_S):
        with ServerProcess(tmp_path / "own", f"--engine-url={command.url}", "--cache-max-bytes=0") as server:
            url = await server.listening()
            async with httpx.AsyncClient(base_url=url, timeout=START_S) as http:
                found = await asyncio.gather(*(_translated(http, text) for text in TEXTS * 8))
                assert found[0]["text"] == TRANSLATED
                assert [one["text"] for one in found] == [one["text"] for one in found[: len(TEXTS)]] * 8
                assert all(one["warnings"] == [] for one in found)
                assert found[0]["confidence"] is not None  # their tokens' probabilities came back
                stats = (await http.get("/v1/stats")).json()
                assert stats["pipeline"] == "remote"
                assert stats["engine"]["completion_tokens"] > 0
                below = [one.name() for one in server.below()]
                assert not any("VLLM" in name for name in below)

                async with http.stream(
                    "POST", "/v1/translate", json={"text": TEXTS[0], "source": "en", "target": "ja", "stream": True}
                ) as answer:
                    assert TRANSLATED in "".join([line async for line in answer.aiter_lines()])
            assert await server.end() == 0


async def test_it_says_in_one_line_that_no_engine_answers(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--engine-url=http://127.0.0.1:1") as server:
        await until(lambda: server.has_ended, "its end", deadline_s=START_S)
        assert "http://127.0.0.1:1" in server.output.strip().splitlines()[-1]
        assert "Traceback" not in server.output
