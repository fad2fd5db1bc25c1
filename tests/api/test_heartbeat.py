"""Responses with a heartbeat, through the HTTP server: what a client reads, and what goes on when it disconnects."""

from __future__ import annotations

import asyncio
import json
import logging

import httpx
import pytest
from fastapi import APIRouter, Request
from fastapi.responses import Response

from dragoman.api import answers
from dragoman.api.access import Service
from dragoman.api.answers import translate_with_heartbeat
from dragoman.api.middleware import current_id
from dragoman.errors import EngineFailed
from dragoman.prompts.profile import Profile
from dragoman.service.service import TranslationService
from dragoman.settings import AdmissionSettings, CacheSettings, EngineSettings, Settings
from dragoman.types import Translation, TranslationRequest
from tests.serving import HeldPipeline, served, service_over
from tests.waiting import until

TEXT = "Where is the train station?"
ANSWER = {"texts": ["駅はどこですか？"]}
router = APIRouter()


@router.post("/slow")
async def slow(http: Request, service: Service) -> Response:
    """The body's lines are the texts; `?to=` the target, `?from=` the source (empty: detected), `?grace=` seconds."""
    query = http.query_params
    texts = tuple((await http.body()).decode().splitlines())
    source = query.get("from", "en") or None
    request = TranslationRequest(texts, query.get("to", "ja"), source, request_id=current_id())
    return await translate_with_heartbeat(
        http, service, request, _render, grace_s=float(query.get("grace", "0")), headers={"X-Trace-ID": "a"}
    )


async def _render(translations: list[Translation]) -> bytes:
    return json.dumps({"texts": [one.text for one in translations]}).encode()


def held(cache_bytes: int = 0, limit: int | None = None) -> tuple[TranslationService, HeldPipeline]:
    pipeline = HeldPipeline(lambda _: ANSWER["texts"][0])
    settings = Settings(
        cache=CacheSettings(max_bytes=cache_bytes), admission=AdmissionSettings(max_in_flight_characters=limit)
    )
    return service_over(pipeline, settings), pipeline


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heartbeat begins immediately."""
    monkeypatch.setattr(answers, "FIRST_AFTER_S", 0.0)
    monkeypatch.setattr(answers, "EVERY_S", 0.01)


async def exchange(
    client: httpx.AsyncClient, head: str, body: str = TEXT
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A request over a socket, so that the response is seen byte by byte."""
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    writer.write(f"{head}\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    await writer.drain()
    return reader, writer


async def test_what_fails_before_the_heartbeat_has_its_own_status() -> None:
    service, pipeline = held(limit=10)
    async with served(service, router=router) as client:
        pipeline.hold()
        unsupported = await client.post("/slow", params={"to": "fr"}, content=TEXT)
        waiting = asyncio.create_task(client.post("/slow", content=TEXT))
        await until(lambda: pipeline.stats().running == 1, "a running sequence")
        full = await client.post("/slow", content=TEXT)
        pipeline.failure = EngineFailed("planted")
        pipeline.release.set()
        failed = await waiting
    answers = [(one.status_code, one.json()["error"]["code"]) for one in (unsupported, full, failed)]
    assert answers == [(400, "unsupported_language"), (429, "queue_full"), (500, "engine_failed")]


@pytest.mark.usefixtures("quick")
async def test_a_slow_translation_is_white_space_and_then_json() -> None:
    service, pipeline = held()
    async with served(service, router=router) as client:
        pipeline.hold()
        async with client.stream("POST", "/slow", content=TEXT) as answer:
            chunks = answer.aiter_raw()
            assert [await anext(chunks) for _ in range(3)] == [b" "] * 3
            pipeline.release.set()
            body = b"".join([chunk async for chunk in chunks])
    assert json.loads(body) == ANSWER
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-transform", "no")
    assert (answer.headers["x-trace-id"], answer.headers["transfer-encoding"]) == ("a", "chunked")
    assert pipeline.generations == 1


@pytest.mark.usefixtures("quick")
async def test_a_late_failure_breaks_the_response_off(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman.request")
    service, pipeline = held()
    async with served(service, router=router) as client:
        pipeline.hold()
        async with client.stream("POST", "/slow", content=TEXT) as answer:
            chunks = answer.aiter_raw()
            assert (answer.status_code, await anext(chunks)) == (200, b" ")
            pipeline.failure = EngineFailed("planted")
            pipeline.release.set()
            with pytest.raises(httpx.RemoteProtocolError):
                async for _ in chunks:
                    pass

        pipeline.hold()
        reader, writer = await exchange(client, "POST /slow HTTP/1.1")
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
    pipeline = HeldPipeline(lambda _: ANSWER["texts"][0])
    service = service_over(pipeline, Settings(engine=EngineSettings(max_num_seqs=1)))
    async with served(service, router=router) as client:
        pipeline.hold()
        texts = "\n".join((TEXT, "Is it far from here?", "기차역이 어디에 있나요?"))
        answer = await client.post("/slow", params={"from": ""}, content=texts)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unsupported_language")
    assert pipeline.generations == 0


@pytest.mark.usefixtures("quick")
async def test_http_1_0_has_no_heartbeat() -> None:
    service, pipeline = held()
    async with served(service, router=router) as client:
        pipeline.hold()
        reader, writer = await exchange(client, "POST /slow HTTP/1.0")
        await until(lambda: pipeline.stats().running == 1, "a running sequence")
        pipeline.release.set()
        answer = await reader.read()
        writer.close()
    assert answer.endswith(b"\r\n\r\n" + json.dumps(ANSWER).encode())


@pytest.mark.usefixtures("quick")
async def test_no_heartbeat_before_the_call_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    service, _ = held()
    checking = asyncio.Event()

    async def slow_check(*_: object, **__: object) -> list[Translation]:
        await checking.wait()
        raise EngineFailed("planted")

    async with served(service, router=router) as client:
        monkeypatch.setattr(service, "translate", slow_check)
        call = asyncio.create_task(client.post("/slow", content=TEXT))
        await asyncio.wait({call}, timeout=0.1)
        checking.set()
        assert (await call).status_code == 500


@pytest.mark.parametrize("started", [True, False])
async def test_after_a_disconnect_the_permit_is_held_until_the_grace_period_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, started: bool
) -> None:
    caplog.set_level(logging.INFO, "dragoman.request")
    if started:
        monkeypatch.setattr(answers, "FIRST_AFTER_S", 0.0)
    service, pipeline = held()
    async with served(service, router=router) as client:
        pipeline.hold()
        reader, writer = await exchange(client, "POST /slow?grace=1 HTTP/1.1")
        await until(lambda: pipeline.stats().running == 1, "a running sequence")
        if started:
            await reader.readuntil(b" \r\n")
        writer.close()
        gone = asyncio.create_task(until(lambda: service.admission.calls == 0, "no call in flight"))
        await asyncio.wait({gone}, timeout=0.2)
        assert (service.admission.calls, pipeline.stats().running) == (1, 1)
        await gone
        assert pipeline.stats().running == 0
        await until(lambda: bool(caplog.records), "the request's line")
    [line] = [record.fields for record in caplog.records if record.name == "dragoman.request"]  # type: ignore[attr-defined]
    assert (line["status"], line["outcome"]) == (200 if started else 499, "cancelled")


async def test_a_retry_within_the_grace_period_joins_the_generation() -> None:
    """And keeps it when the grace period of the first request ends before it."""
    service, pipeline = held(cache_bytes=2**20)
    async with served(service, router=router) as client:
        pipeline.hold()
        _, writer = await exchange(client, "POST /slow?grace=1 HTTP/1.1")
        await until(lambda: pipeline.stats().running == 1, "a running sequence")
        writer.close()
        retry = asyncio.create_task(client.post("/slow", content=TEXT))
        await until(lambda: service.admission.calls == 2, "both calls")
        await until(lambda: service.admission.calls == 1, "the end of the grace period")
        pipeline.release.set()
        assert (await retry).json() == ANSWER
    assert pipeline.generations == 1


async def test_a_drain_waits_for_the_grace_period() -> None:
    service, pipeline = held()
    async with served(service, router=router) as client:
        pipeline.hold()
        _, writer = await exchange(client, "POST /slow?grace=1 HTTP/1.1")
        await until(lambda: pipeline.stats().running == 1, "a running sequence")
        writer.close()
        assert await service.drain() is True
        assert pipeline.stats().running == 0
