"""`dragoman serve --engine-url` in front of a real `vllm serve`: the same translations as with an engine of its own. And in
front of two engines of which one is killed."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman import phrasebook
from dragoman_bench.bench.servers import serving, vllm_serve
from tests.acceptance.elsewhere import EngineProcess, free_ports
from tests.processes import START_S, ServerProcess
from tests.waiting import until
from wholetext.markup.spans import pseudolocalized

pytestmark = [pytest.mark.acceptance, pytest.mark.engine, pytest.mark.timeout(900)]

TEXTS = ["Where is the station?", "I would like a cup of tea, please.", "The train to the airport leaves at nine."]
CALLS = 1000
CLIENTS = 37
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


async def _engines_of(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    return (await http.get("/v1/stats")).json()["engine"]["remote"]


async def _all_answer(http: httpx.AsyncClient) -> None:
    while any(one["fault"] for one in await _engines_of(http)):  # noqa: ASYNC110  # it asks each time
        await asyncio.sleep(0.1)


async def test_no_call_is_lost_while_one_of_two_engines_is_killed_twice(tmp_path: Path) -> None:
    engines = [EngineProcess(port) for port in free_ports(2)]
    numbers, answers, is_over = count(), list[tuple[str, str]](), asyncio.Event()

    async def client(http: httpx.AsyncClient) -> None:
        while not is_over.is_set():
            text = f"Call {next(numbers)}: where is the station?"
            answers.append((text, str((await _translated(http, text))["text"])))

    async def more(calls: int) -> None:
        wanted = len(answers) + calls
        await until(lambda: len(answers) >= wanted, "calls", deadline_s=START_S)

    async def killer(http: httpx.AsyncClient) -> None:
        for _ in range(2):
            await more(CALLS // 5)
            await engines[0].kill()
            await more(CALLS // 10)
            engines[0].start()
            await _all_answer(http)
        await more(CALLS // 5)
        is_over.set()

    try:
        flags = (f"--engine-url={','.join(one.url for one in engines)}", "--cache-max-bytes=0", "--max-model-len=1024")
        await until(lambda: all(one.listens for one in engines), "the engines", deadline_s=START_S)
        with ServerProcess(tmp_path, *flags) as server:
            async with httpx.AsyncClient(base_url=await server.listening(), timeout=START_S) as http:
                await _all_answer(http)
                await asyncio.gather(*(client(http) for _ in range(CLIENTS)), killer(http))
                assert len(answers) == next(numbers)
                assert answers == [(text, pseudolocalized(text)) for text, _ in answers]
                losses = (await _engines_of(http))[0]["losses"]
                assert losses >= 2  # under load one may be late once more
                shown = (await http.get("/metrics")).text
                assert f'dragoman_remote_engine_losses_total{{url="{engines[0].url}"}} {losses}.0' in shown
                async with asyncio.timeout(START_S):
                    while (await http.get("/readyz")).json()["engines"] != "2 of 2 answer":  # noqa: ASYNC110  # it asks each time
                        await asyncio.sleep(0.1)
            assert await server.end() == 0
    finally:
        for one in engines:
            await one.kill()


async def test_it_says_in_one_line_that_no_engine_answers(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--engine-url=http://127.0.0.1:1") as server:
        await until(lambda: server.has_ended, "its end", deadline_s=START_S)
        assert "http://127.0.0.1:1" in server.output.strip().splitlines()[-1]
        assert "Traceback" not in server.output
