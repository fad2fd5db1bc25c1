"""`dragoman serve --replicas` with Ray Serve and HAProxy: crashes, updates, signals and ports, over two replicas."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from dragoman.deploy import processes
from tests.acceptance.elsewhere import EngineProcess, free_ports
from tests.acceptance.replicated import BODY, SENTENCE, Load, ReplicatedServer, stats_when
from tests.agents import MODES, agent
from tests.processes import START_S, create_key, rotate_key
from tests.waiting import until
from tests.wholetext.office import W, office
from wholetext.files.archive import Archive
from wholetext.markup.spans import pseudolocalized

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

CLIENTS = 25
LIMIT = 20_000  # characters in flight of a replica
FAKE = (
    *("--pipeline=fake", "--fake-step-ms=20", "--replicas=2", "--cache-max-bytes=0"),
    *(f"--max-in-flight-characters={LIMIT}", "--host=0.0.0.0", "--auth=none"),
)


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ReplicatedServer]:
    with ReplicatedServer(tmp_path_factory.mktemp("replicas"), *FAKE) as server:
        await server.listening()
        yield server


@pytest.fixture
async def http(server: ReplicatedServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, timeout=START_S) as client:
        await stats_when(client, serving=2, in_flight=0)
        yield client


async def test_other_machines_reach_the_service_and_nothing_else(server: ReplicatedServer) -> None:
    listening = processes.listeners(server.below())
    assert [(one.host, one.port) for one in listening if not one.is_loopback] == [("0.0.0.0", server.port)]
    assert {8404, 9101} <= {one.port for one in listening}


async def test_operators_see_each_replica(server: ReplicatedServer, http: httpx.AsyncClient) -> None:
    stats = (await http.get("/v1/stats")).json()
    assert [one["replica"] for one in stats["replicas"]] == ["0", "1"]
    targets = (await http.get("/v1/replicas")).json()
    assert json.loads((server.folder / ".dragoman/replicas.json").read_text()) == targets
    for target in targets:
        (address,) = target["targets"]
        metrics = (await http.get(f"http://{address}/metrics")).text
        assert f'replica="{target["labels"]["replica"]}"' in metrics


async def test_an_answer_has_one_request_id_the_clients(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/translate", json=BODY, headers={"X-Request-ID": "mine-1"})
    assert answer.headers.get_list("x-request-id") == ["mine-1"]


async def test_a_full_replica_refuses_with_our_retry_after(http: httpx.AsyncClient) -> None:
    long = {**BODY, "text": f"{SENTENCE} " * (LIMIT // len(SENTENCE))}
    calls = [asyncio.create_task(http.post("/v1/translate", json=long)) for _ in range(4)]
    done, pending = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    answer = done.pop().result()
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "queue_full")
    assert 1 <= float(answer.headers["retry-after"]) <= 60
    for call in pending:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_client_that_leaves_frees_its_sequences(server: ReplicatedServer, http: httpx.AsyncClient) -> None:
    long = {**BODY, "text": [f"{SENTENCE} {n} {SENTENCE * 8}" for n in range(6000)]}
    before = (await http.get("/v1/stats")).json()["engine"]["finished"]
    async with httpx.AsyncClient(base_url=server.url, timeout=START_S) as leaving:
        calls = [asyncio.create_task(leaving.post("/v1/translate", json=long)) for _ in range(2)]
        while (await http.get("/v1/stats")).json()["in_flight"] < len(calls):
            assert not any(call.done() for call in calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    stats = await stats_when(http, in_flight=0, running=0, waiting=0)
    assert stats["engine"]["finished"] - before < len(long["text"])


def _docx(size: int) -> bytes:
    """A docx of some words and a picture of so many bytes that do not get fewer."""
    body = "<w:p><w:r><w:t>Some words</w:t></w:r></w:p>"
    picture = random.Random(1).randbytes(size)
    return office(
        {
            "word/document.xml": (
                "wordprocessingml.document.main",
                f"<w:document {W}><w:body>{body}</w:body></w:document>",
            ),
            "word/media/a.png": ("image/png", picture),
        }
    )


async def test_the_largest_upload_arrives_without_a_length_and_a_larger_one_is_refused(http: httpx.AsyncClient) -> None:
    async def form(file: bytes) -> AsyncIterator[bytes]:
        for name, value in (("target", b"ja"), ("source", b"en"), ('file"; filename="a.docx', file)):
            yield f'--b\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n'.encode()
            for at in range(0, len(value), 1 << 20):
                yield value[at : at + (1 << 20)]
            yield b"\r\n"
        yield b"--b--\r\n"

    data = _docx(29_900_000)
    headers = {"content-type": "multipart/form-data; boundary=b"}
    answer = await http.post("/v1/documents", content=form(data), headers=headers)
    assert answer.status_code == 201, answer.text
    path = f"/v1/documents/{answer.json()['id']}"
    async with asyncio.timeout(60):
        while (await http.get(path)).json()["state"] != "done":  # noqa: ASYNC110 (the server is another process)
            await asyncio.sleep(0.2)
    result = await http.get(f"{path}/result")
    assert Archive(result.content).read("word/media/a.png") == Archive(data).read("word/media/a.png")
    assert (await http.delete(path)).status_code == 204
    larger = {"file": ("a.docx", _docx(30_000_001))}
    answer = await http.post("/v1/documents", data={"target": "ja"}, files=larger)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("mode", MODES)
async def test_agents_are_answered_by_each_replica(http: httpx.AsyncClient, mode: str) -> None:
    async def finished() -> list[int]:
        return [one["engine"]["finished"] for one in (await http.get("/v1/stats")).json()["replicas"]]

    before = await finished()
    async with agent(http, mode=mode) as client:
        texts = [f"{SENTENCE} {number}" for number in range(32)]
        calls = (client.call_tool("translate", {**BODY, "text": text}) for text in texts)
        assert not any(answer.is_error for answer in await asyncio.gather(*calls))
        file = {"file_name": "a.txt", "text": SENTENCE, "source": "en", "target": "ja", "wait_s": 0}
        document = (await client.call_tool("translate_document", file)).structured_content["document"]
        asked = {"document_id": document["id"], "wait_s": 60}
        answers = await asyncio.gather(*(client.call_tool("get_document", asked) for _ in range(8)))
        assert {answer.structured_content["document"]["state"] for answer in answers} == {"done"}
    assert all(now > then for now, then in zip(await finished(), before, strict=True))


async def test_the_crash_of_a_replica_fails_no_call(server: ReplicatedServer, http: httpx.AsyncClient) -> None:
    async with Load(server.url).running(CLIENTS) as load:
        await load.more(2 * CLIENTS)
        killed = server.replicas()[0]
        killed.kill()
        await until(
            lambda: killed not in server.replicas() and len(server.replicas()) == 2, "a new one", deadline_s=120
        )
        await stats_when(http, serving=2)
        await load.more(2 * CLIENTS)
    assert load.failed == []


async def test_an_update_of_all_replicas_fails_no_call(server: ReplicatedServer, http: httpx.AsyncClient) -> None:
    before = set(server.replicas())
    async with Load(server.url).running(CLIENTS) as load:
        await load.more(2 * CLIENTS)
        server.process.send_signal(signal.SIGUSR2)
        await until(lambda: not before & set(server.replicas()), "other replicas", deadline_s=240)
        await stats_when(http, serving=2)
        await load.more(2 * CLIENTS)
    assert load.failed == []


async def test_sigterm_drains_and_leaves_no_process(server: ReplicatedServer, http: httpx.AsyncClient) -> None:
    """Last: it ends the server that the tests above share."""
    calls = [asyncio.create_task(http.post("/v1/translate", json={**BODY, "text": SENTENCE * 4})) for _ in range(8)]
    await stats_when(http, in_flight=len(calls))
    assert await server.end() == 0
    assert [call.result().status_code for call in calls] == [200] * len(calls)


async def test_sighup_has_each_replica_read_keys_and_a_killed_command_leaves_no_process(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/keys.db"
    key = await create_key(storage)
    flags = ("--pipeline=fake", "--replicas=2", "--auth=keys", "--auth-refresh-s=3600", f"--storage-url={storage}")
    with ReplicatedServer(tmp_path, *flags) as server:
        await server.listening()
        async with httpx.AsyncClient(base_url=server.url, timeout=START_S) as http:

            async def statuses(key: str) -> set[int]:
                """Of so many calls at the same time that each replica has some."""
                headers = {"Authorization": f"Bearer {key}"}
                calls = (http.post("/v1/translate", json=BODY, headers=headers) for _ in range(32))
                return {answer.status_code for answer in await asyncio.gather(*calls)}

            assert await statuses(key) == {200}
            replaced = await rotate_key(storage, "one")
            assert await statuses(key) == {200}  # known to each, and not read again yet
            server.process.send_signal(signal.SIGHUP)
            await until(lambda: "are read again" in server.output, "new keys", deadline_s=60)
            assert await statuses(key) == {401}
            assert await statuses(replaced) == {200}
        assert await server.end(signal.SIGKILL) == -signal.SIGKILL


async def test_replicas_before_an_engine_elsewhere(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    engine = EngineProcess(port)
    try:
        await until(lambda: engine.listens, "the engine", deadline_s=START_S)
        flags = (
            f"--engine-url={engine.url}",
            "--replicas=2",
            "--cache-max-bytes=0",
            "--max-model-len=1024",
            "--auth=none",
        )
        with ReplicatedServer(tmp_path, *flags) as server:
            async with httpx.AsyncClient(base_url=await server.listening(), timeout=START_S) as http:
                await stats_when(http, serving=2, pipeline="remote")
                answer = await http.post("/v1/translate", json=BODY)
                assert answer.json()["translations"][0]["text"] == pseudolocalized(SENTENCE)
                async with Load(server.url).running(CLIENTS) as load:
                    await load.more(2 * CLIENTS)
                    server.replicas()[0].kill()
                    await load.more(2 * CLIENTS)
                assert load.failed == []
            assert await server.end() == 0
    finally:
        await engine.kill()


async def test_on_a_network_replicas_need_a_key(tmp_path: Path) -> None:
    with ReplicatedServer(tmp_path, "--pipeline=fake", "--replicas=1", "--host=0.0.0.0") as server:
        with pytest.raises(AssertionError, match="dragoman keys create"):
            await server.listening()
        assert server.process.returncode == 2
