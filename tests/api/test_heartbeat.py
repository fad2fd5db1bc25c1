"""Responses with a heartbeat, which the APIs of others have: what a client reads, and what goes on when it disconnects."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from time import monotonic
from typing import Any, Literal

import httpx
import pytest

from dragoman.api import answers
from dragoman.api.compat.deepl import translate
from dragoman.errors import EngineFailed
from dragoman.prompts.profile import Profile
from dragoman.service.service import TranslationService
from dragoman.settings import AdmissionSettings, CacheSettings, EngineSettings, ServerSettings, Settings
from dragoman.types import Event, Planned
from tests.serving import HeldPipeline, served, service_over
from tests.waiting import HANG_S, scaled, until

TEXT = "Where is the train station?"
ANSWER = "駅はどこですか？"
BODY: dict[str, Any] = {"text": TEXT, "source_lang": "EN", "target_lang": "JA"}
BODY_OF_OURS: dict[str, Any] = {"text": TEXT, "source": "en", "target": "ja"}


def held(cache_bytes: int = 0, limit: int | None = None) -> tuple[TranslationService, HeldPipeline]:
    pipeline = HeldPipeline(lambda _: ANSWER)
    settings = Settings(
        cache=CacheSettings(max_bytes=cache_bytes), admission=AdmissionSettings(max_in_flight_characters=limit)
    )
    return service_over(pipeline, settings), pipeline


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heartbeat begins immediately."""
    monkeypatch.setattr(answers, "FIRST_AFTER_S", 0.0)
    monkeypatch.setattr(answers, "EVERY_S", 0.01)


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of a client that has given up goes on for a second, on a quiet machine."""
    monkeypatch.setattr(translate, "RETRY_GRACE_S", scaled(1.0))


def texts_of(body: bytes) -> list[str]:
    return [one["text"] for one in json.loads(body)["translations"]]


async def exchange(
    client: httpx.AsyncClient, version: str = "1.1"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A request over a socket, so that the response is seen byte by byte."""
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    body = json.dumps(BODY)
    head = f"POST /v2/translate HTTP/{version}\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write((head + body).encode())
    await writer.drain()
    return reader, writer


async def read(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], begun: asyncio.Event
) -> tuple[httpx.Response, bytes]:
    """An answer and its content. `begun` is set when the first of it has come."""
    content = b""
    async with client.stream("POST", path, json=body) as answer:
        async for chunk in answer.aiter_bytes():
            content += chunk
            begun.set()
    return answer, content


async def test_what_fails_before_the_heartbeat_has_its_own_status() -> None:
    service, pipeline = held(limit=10)
    async with served(service) as client:
        pipeline.hold()
        unsupported = await client.post("/v2/translate", json=BODY | {"target_lang": "FR"})
        waiting = asyncio.create_task(client.post("/v2/translate", json=BODY))
        await until(lambda: pipeline.stats().running == 1, "a running sequence")
        full = await client.post("/v2/translate", json=BODY)
        pipeline.failure = EngineFailed("planted")
        pipeline.release.set()
        failed = await waiting
    assert [one.status_code for one in (unsupported, full, failed)] == [400, 429, 500]


@pytest.mark.usefixtures("quick")
async def test_a_slow_translation_is_white_space_and_then_json() -> None:
    service, pipeline = held()
    async with served(service) as client:
        pipeline.hold()
        async with client.stream("POST", "/v2/translate", json=BODY) as answer:
            chunks = answer.aiter_raw()
            assert [await anext(chunks) for _ in range(3)] == [b" "] * 3
            pipeline.release.set()
            body = b"".join([chunk async for chunk in chunks])
    assert texts_of(body) == [ANSWER]
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-transform", "no")
    assert answer.headers["transfer-encoding"] == "chunked"
    assert answer.headers["x-trace-id"] == answer.headers["x-request-id"]
    assert pipeline.generations == 1


OTHERS: dict[str, dict[str, Any]] = {
    "/translate": {"q": TEXT, "source": "en", "target": "ja"},
    "/language/translate/v2": {"q": TEXT, "source": "en", "target": "ja"},
    "/deeplx/translate": {"text": TEXT, "source_lang": "en", "target_lang": "ja"},
    "/immersive/translate": {"text_list": [TEXT], "source_lang": "en", "target_lang": "ja"},
    "/kiss/translate": {"text": TEXT, "from": "en", "to": "ja"},
    "/translate/batch": {"texts": [TEXT], "from": "en", "to": "ja"},
}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("setting", "beating"), [("all", {*OTHERS, "/v2/translate"}), ("deepl", {"/v2/translate"}), ("none", set[str]())]
)
async def test_which_apis_have_a_heartbeat(setting: Literal["all", "deepl", "none"], beating: set[str]) -> None:
    pipeline = HeldPipeline(lambda _: ANSWER)
    settings = Settings(server=ServerSettings(heartbeat=setting), cache=CacheSettings(max_bytes=0))
    async with served(service_over(pipeline, settings)) as client:
        for path, body in {**OTHERS, "/v2/translate": BODY, "/v1/translate": BODY_OF_OURS}.items():
            pipeline.hold()
            begun = asyncio.Event()
            call = asyncio.create_task(read(client, path, body, begun))
            await until(lambda: pipeline.stats().running == 1, "a running sequence")
            if path in beating:
                await until(begun.is_set, f"a heartbeat of {path}")
            else:
                await asyncio.wait({call}, timeout=0.05)  # in which one would come
            pipeline.release.set()
            answer, content = await call
            assert (answer.status_code, ANSWER in json.dumps(json.loads(content), ensure_ascii=False)) == (200, True)
            assert (content[:1] == b" ") == (path in beating), path
            assert answer.headers["content-type"] == "application/json"
            pipeline.hold()
            pipeline.failure = EngineFailed("planted")
            pipeline.release.set()
            if path not in beating:
                assert (await client.post(path, json=body)).status_code == 500
            pipeline.failure = None


@pytest.mark.usefixtures("quick")
async def test_a_late_failure_breaks_the_response_off(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman.request")
    service, pipeline = held()
    async with served(service) as client:
        pipeline.hold()
        async with client.stream("POST", "/v2/translate", json=BODY) as answer:
            chunks = answer.aiter_raw()
            assert (answer.status_code, await anext(chunks)) == (200, b" ")
            pipeline.failure = EngineFailed("planted")
            pipeline.release.set()
            with pytest.raises(httpx.RemoteProtocolError):
                async for _ in chunks:
                    pass

        pipeline.hold()
        reader, writer = await exchange(client)
        await reader.readuntil(b"1\r\n \r\n")
        pipeline.release.set()
        rest = await reader.read()  # to the end of the connection
        writer.close()
    assert not rest.endswith(b"0\r\n\r\n")
    assert set(rest) <= set(b"1\r\n ")
    lines = [record.fields for record in caplog.records if record.name == "dragoman.request"]  # type: ignore[attr-defined]
    assert [(line["status"], line["outcome"]) for line in lines] == [(200, "engine_failed")] * 2


@pytest.mark.usefixtures("quick")
async def test_directions_of_all_texts_are_checked_before_the_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of texts that wait for a slot, whose language is detected."""

    def serves(_: Profile, source: str | None, target: str) -> bool:
        return (source, target) != ("ko", "ja")

    monkeypatch.setattr(Profile, "serves", serves)
    pipeline = HeldPipeline(lambda _: ANSWER)
    service = service_over(pipeline, Settings(engine=EngineSettings(max_num_seqs=1)))
    async with served(service) as client:
        pipeline.hold()
        texts = [TEXT, "Is it far from here?", "기차역이 어디에 있나요?"]
        answer = await client.post("/v2/translate", json={"text": texts, "target_lang": "JA"})
    assert answer.status_code == 400
    assert pipeline.generations == 0


@pytest.mark.usefixtures("quick")
async def test_http_1_0_has_no_heartbeat() -> None:
    service, pipeline = held()
    async with served(service) as client:
        pipeline.hold()
        reader, writer = await exchange(client, "1.0")
        await until(lambda: pipeline.stats().running == 1, "a running sequence")
        pipeline.release.set()
        answer = await reader.read()
        writer.close()
    assert texts_of(answer.partition(b"\r\n\r\n")[2]) == [ANSWER]


@pytest.mark.usefixtures("quick")
async def test_no_heartbeat_before_the_call_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    service, _ = held()
    checking = asyncio.Event()

    async def slow_check(*_: object, **__: object) -> AsyncGenerator[Event]:
        await checking.wait()
        raise EngineFailed("planted")
        yield Planned()

    async with served(service) as client:
        monkeypatch.setattr(service.calls, "events", slow_check)
        call = asyncio.create_task(client.post("/v2/translate", json=BODY))
        await asyncio.wait({call}, timeout=0.1)
        checking.set()
        assert (await call).status_code == 500


@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize("started", [True, False])
async def test_after_a_disconnect_the_permit_is_held_until_the_grace_period_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, started: bool
) -> None:
    caplog.set_level(logging.INFO, "dragoman.request")
    monkeypatch.setattr(answers, "FIRST_AFTER_S", 0.0 if started else HANG_S)
    service, pipeline = held()
    async with served(service) as client:
        pipeline.hold()
        reader, writer = await exchange(client)
        await until(lambda: pipeline.stats().running == 1, "a running sequence")
        if started:
            await reader.readuntil(b" \r\n")
        closed_s = monotonic()
        writer.close()
        await until(lambda: pipeline.stats().running == 0, "the end of the sequence")
        assert monotonic() - closed_s >= translate.RETRY_GRACE_S
        await until(lambda: service.admission.calls == 0, "no call in flight")
        await until(lambda: bool(caplog.records), "the request's line")
    [line] = [record.fields for record in caplog.records if record.name == "dragoman.request"]  # type: ignore[attr-defined]
    assert (line["status"], line["outcome"]) == (200 if started else 499, "cancelled")


@pytest.mark.usefixtures("short_grace")
async def test_a_retry_within_the_grace_period_joins_the_generation() -> None:
    """And keeps it when the grace period of the first request ends before it."""
    service, pipeline = held(cache_bytes=2**20)
    async with served(service) as client:
        pipeline.hold()
        _, writer = await exchange(client)
        await until(lambda: pipeline.stats().running == 1, "a running sequence")
        writer.close()
        retry = asyncio.create_task(client.post("/v2/translate", json=BODY))
        await until(lambda: service.admission.calls == 2, "both calls")
        await until(lambda: service.admission.calls == 1, "the end of the grace period")
        pipeline.release.set()
        assert texts_of((await retry).content) == [ANSWER]
    assert pipeline.generations == 1


@pytest.mark.usefixtures("short_grace")
async def test_a_drain_waits_for_the_grace_period() -> None:
    service, pipeline = held()
    async with served(service) as client:
        pipeline.hold()
        _, writer = await exchange(client)
        await until(lambda: pipeline.stats().running == 1, "a running sequence")
        writer.close()
        assert await service.drain() is True
        assert pipeline.stats().running == 0
