"""`dragoman serve` in a terminal, with a real engine of its own: the engine is killed and suspended under load, then Ctrl-C
is typed."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from sacrebleu.metrics.chrf import CHRF

from dragoman.engine.spec import device
from tests import sentences
from tests.sentences import Message
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.engine, pytest.mark.timeout(600)]

START_S = 300.0  # of an engine, on a machine that does other things too
CTRL_C = b"\x03"
# It starts sooner, and generates equal texts each for itself.
FLAGS = {"hang-timeout-s": 10, "max-model-len": 1024, "enforce-eager": True, "cache-max-bytes": 0}
BINDS = device() == "cpu" and hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1
"""Whether vLLM binds workers to cores here, with one left for the server."""
Call = asyncio.Task[list[dict[str, Any]]]


class Terminal:
    """A pseudo-terminal with `dragoman serve` in it."""

    def __init__(self, folder: Path) -> None:
        self.output = ""
        self._folder = folder
        self._ours, self._theirs = pty.openpty()

    async def __aenter__(self) -> Terminal:
        flags = {"port": 0, "engine-log": self._folder / "engine.log", "traffic-folder": self._folder, **FLAGS}
        command = [sys.executable, "-m", "dragoman.cli.main", "serve"]
        command += [f"--{name}={value}" for name, value in flags.items()]
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.acceptance.terminal", os.ttyname(self._theirs), *command),
            start_new_session=True,
        )
        asyncio.get_running_loop().add_reader(self._ours, self._read)
        return self

    def _read(self) -> None:
        self.output += os.read(self._ours, 65536).decode(errors="replace")

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    @property
    def url(self) -> str | None:
        found = re.search(r"listens on (http://\S+)", self.output)
        return found.group(1) if found else None

    async def listening(self) -> str:
        await until(lambda: self.url is not None or self.process.returncode is not None, "a server", deadline_s=START_S)
        assert self.url, self.output
        return self.url

    def engine(self) -> psutil.Process:
        """vLLM's engine core."""
        [core] = self._titled("VLLM::EngineCore")
        return core

    def fork_server(self) -> psutil.Process:
        """The process that it was forked from."""
        parent = self.engine().parent()
        assert parent is not None and parent.parent() == self._server
        return parent

    def workers(self) -> list[psutil.Process]:
        return self._titled("VLLM::Worker")

    def _titled(self, title: str) -> list[psutil.Process]:
        below = self._server.children(recursive=True)
        return [process for process in below if process.cmdline()[:1] and title in process.cmdline()[0]]

    @property
    def _server(self) -> psutil.Process:
        return psutil.Process(self.process.pid)

    def cores(self) -> tuple[set[int], set[int]]:
        """Those that any thread of the server may run on, and those that vLLM bound its worker to."""
        server = {core for one in self._server.threads() for core in os.sched_getaffinity(one.id)}
        return server, {core for one in self.workers() for core in os.sched_getaffinity(one.pid)}

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            await self.process.wait()
        asyncio.get_running_loop().remove_reader(self._ours)
        os.close(self._ours)
        os.close(self._theirs)


@pytest.fixture(scope="module")
async def terminal(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Terminal]:
    async with Terminal(tmp_path_factory.mktemp("serve")) as terminal:
        await terminal.listening()
        yield terminal


@pytest.fixture
async def client(terminal: Terminal) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=terminal.url or "", timeout=START_S) as client:
        yield client


def messages(count: int, seed: int) -> list[Message]:
    """Long ones: their calls are in flight for a while."""
    return sentences.messages(count, 8, seed=seed)


async def translate(client: httpx.AsyncClient, asked: list[Message]) -> list[dict[str, Any]]:
    body = {"text": [one["en"] for one in asked], "source": "en", "target": "ja"}
    answer = await client.post("/v1/translate", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["translations"]


async def stream(client: httpx.AsyncClient, asked: list[Message]) -> list[dict[str, Any]]:
    """As `translate`, and the deltas of each text must join to it: nothing twice, nothing lost."""
    body = {"text": [one["en"] for one in asked], "source": "en", "target": "ja", "stream": True}
    deltas = [""] * len(asked)
    whole: dict[int, dict[str, Any]] = {}
    async with client.stream("POST", "/v1/translate", json=body) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                event = json.loads(line.removeprefix("data: "))
                assert "error" not in event, event
                if "delta" in event:
                    deltas[event["index"]] += event["delta"]
                else:
                    whole[event["index"]] = event["translation"]
    translations = [whole[index] for index in range(len(asked))]
    assert deltas == [translation["text"] for translation in translations]
    return translations


def assert_complete(undisturbed: list[list[dict[str, Any]]], answers: list[list[dict[str, Any]]]) -> None:
    """Whether calls got what they get without a crash, but for near ties of tokens, which another batch may decide differently.

    Such a tie changes a sentence of eight; a text that lost a part, or has one twice, is far below the lower limit.
    """
    wanted, found = [one for call in undisturbed for one in call], [one for call in answers for one in call]
    assert len(wanted) == len(found)
    assert [one["finish_reason"] for one in found] == [one["finish_reason"] for one in wanted]
    texts = [(one["text"], other["text"]) for one, other in zip(found, wanted, strict=True)]
    assert [pair for pair in texts if CHRF().sentence_score(pair[0], [pair[1]]).score < 60] == []
    assert CHRF().corpus_score([one for one, _ in texts], [[other for _, other in texts]]).score >= 90


async def stats_when(client: httpx.AsyncClient, **wanted: Any) -> dict[str, Any]:
    """`/v1/stats`, once its numbers are at least these, and its strings exactly."""
    while True:
        stats = (await client.get("/v1/stats")).json()
        held = (stats[key] == value if isinstance(value, str) else stats[key] >= value for key, value in wanted.items())
        if all(held):
            return stats


async def held_midway(
    terminal: Terminal, client: httpx.AsyncClient, ask: Callable[[], list[Call]], running: int
) -> tuple[list[Call], psutil.Process]:
    """The calls that `ask` makes, all in flight, and the engine, suspended while it generates: so they stay in flight.

    The kernel may let this process wait for as long as calls take, behind an engine that spins in a session of its own:
    when they have ended before the engine could be suspended, the calls are made again.
    """

    async def in_flight() -> tuple[int, int]:
        stats = (await client.get("/v1/stats")).json()
        return stats["in_flight"], stats["engine"]["running"]

    while True:
        calls = ask()
        while not any(call.done() for call in calls):
            if await in_flight() >= (len(calls), running):
                engine = terminal.engine()
                engine.suspend()
                if (await in_flight())[0] == len(calls):
                    return calls, engine
                engine.resume()
        await asyncio.gather(*calls)


async def test_calls_in_flight_at_a_crash_of_the_engine_are_completed(
    terminal: Terminal, client: httpx.AsyncClient
) -> None:
    """The server keeps off its workers' cores, gives them to the engine that it restarts, and keeps off them again."""
    cores = terminal.cores() if BINDS else None
    asked, late_call = [messages(6, seed) for seed in range(8)], messages(1, 9)
    undisturbed = await asyncio.gather(*(translate(client, one) for one in [*asked, late_call]))

    def ask() -> list[Call]:
        return [asyncio.create_task((stream if n < 3 else translate)(client, one)) for n, one in enumerate(asked)]

    calls, engine = await held_midway(terminal, client, ask, running=40)
    engine.kill()
    stats = await stats_when(client, state="restarting")
    assert stats["in_flight"] == 8
    readiness = await client.get("/readyz")
    assert (readiness.status_code, readiness.json()["error"]["code"]) == (503, "restarting")
    assert (await client.get("/healthz")).status_code == 200
    answers = await asyncio.gather(*calls, translate(client, late_call))
    assert_complete(undisturbed, answers)
    assert (await client.get("/readyz")).status_code == 200
    stats = (await client.get("/v1/stats")).json()
    assert stats["engine"]["restarts"] == 1
    assert {"load", "KV cache"} <= {phase["name"] for phase in stats["engine"]["startup"]}
    if cores is not None:
        server, worker = cores
        assert worker and not server & worker
        assert terminal.cores() == cores


async def test_an_engine_is_restarted_when_its_fork_server_is_killed(
    terminal: Terminal, client: httpx.AsyncClient
) -> None:
    """The engine that is left without it ends, and another fork server imports vLLM anew."""
    before, engine, fork_server = (await client.get("/v1/stats")).json(), terminal.engine(), terminal.fork_server()
    undisturbed = await translate(client, messages(6, 40))
    fork_server.kill()
    await stats_when(client, state="restarting")
    assert_complete([undisturbed], [await translate(client, messages(6, 40))])
    assert (await client.get("/v1/stats")).json()["engine"]["restarts"] == before["engine"]["restarts"] + 1
    assert not engine.is_running()
    assert terminal.fork_server() != fork_server
    assert {worker.parent() for worker in terminal.workers()} <= {terminal.fork_server()}, "forked like the first"


async def hung(client: httpx.AsyncClient) -> float:
    """How many restarts followed a hang."""
    metrics = (await client.get("/metrics")).text
    found = re.search(r'^dragoman_engine_restarts_total{reason="hang"} (\S+)$', metrics, re.MULTILINE)
    assert found is not None
    return float(found[1])


@pytest.mark.parametrize("clients", [8, 1])
async def test_an_engine_that_hangs_is_restarted_and_all_calls_are_answered(
    terminal: Terminal, client: httpx.AsyncClient, clients: int
) -> None:
    """With calls in flight, and idle when it was suspended, so that the next call finds it so."""
    before = await hung(client)
    asked = [messages(6, seed) for seed in range(30, 30 + clients)]
    undisturbed = await asyncio.gather(*(translate(client, one) for one in asked))

    def ask() -> list[Call]:
        return [asyncio.create_task(translate(client, one)) for one in asked]

    if clients > 1:
        calls, engine = await held_midway(terminal, client, ask, running=40)
    else:
        engine = terminal.engine()
        engine.suspend()
        calls = ask()
    await stats_when(client, state="restarting")
    assert (await client.get("/readyz")).status_code == 503
    assert (await client.get("/healthz")).json() == {"status": "ok", "engine": "restarting"}
    assert_complete(undisturbed, await asyncio.gather(*calls))
    assert await hung(client) == before + 1
    assert not engine.is_running()


async def test_ctrl_c_in_the_terminal_completes_calls_in_flight_and_exits_with_0(
    terminal: Terminal, client: httpx.AsyncClient
) -> None:
    """The terminal sends the signal to the engine's processes too. The last test of this terminal: it ends the server."""
    restarts = (await client.get("/v1/stats")).json()["engine"]["restarts"]
    asked = [messages(6, seed) for seed in range(20, 25)]
    undisturbed = await asyncio.gather(*(translate(client, one) for one in asked))

    def ask() -> list[Call]:
        return [asyncio.create_task(translate(client, one)) for one in asked]

    calls, engine = await held_midway(terminal, client, ask, running=30)
    terminal.type(CTRL_C)
    stats = await stats_when(client, state="draining")
    assert (stats["in_flight"], stats["engine"]["restarts"]) == (5, restarts)
    engine.resume()
    answers = await asyncio.gather(*calls)
    assert_complete(undisturbed, answers)
    assert await terminal.process.wait() == 0
    assert "crashed" not in terminal.output.rpartition("draining")[2]
