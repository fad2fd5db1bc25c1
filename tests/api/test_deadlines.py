"""Deadlines of calls over the fake pipeline: what has expired is dropped from every queue, and answered with 504."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from dragoman.api.input import DEADLINE_HEADER
from dragoman.pipelines.base import Pipeline
from dragoman.service.dispatcher import FEWEST_GRANTS, RATE_WINDOW_S
from dragoman.service.service import TranslationService
from dragoman.settings import CacheSettings, EngineSettings, Settings
from tests.serving import HeldPipeline, fake_service, served, service_over, wordy
from tests.waiting import scaled, until

TEXT, ANSWER = "Where is the train station?", "駅はどこですか？"
CALL: dict[str, Any] = {"text": TEXT, "source": "en", "target": "ja"}
SOON_S = 0.3
"""A deadline before which a call is in the engine, on a quiet machine."""


def held(*, slots: int = 32, cache_bytes: int = 0) -> tuple[TranslationService, HeldPipeline]:
    pipeline = HeldPipeline(lambda _: ANSWER, slots=slots)
    settings = Settings(engine=EngineSettings(max_num_seqs=slots), cache=CacheSettings(max_bytes=cache_bytes))
    return service_over(pipeline, settings), pipeline


def expired(answer: httpx.Response) -> bool:
    return (answer.status_code, answer.json()["error"]["code"]) == (504, "deadline_exceeded")


def idle(service: TranslationService, pipeline: Pipeline) -> bool:
    engine = pipeline.stats()
    submitted = service.calls.translator._dispatcher.submitted  # pyright: ignore[reportPrivateUsage]
    return (engine.running, engine.waiting, service.admission.calls, submitted["interactive"]) == (0, 0, 0, 0)


@pytest.mark.parametrize("how", ["body", "header"])
async def test_a_running_sequence_is_aborted(how: str) -> None:
    service, pipeline = held()
    async with served(service) as client:
        pipeline.hold()
        deadline_s = scaled(SOON_S)
        body = CALL | ({"deadline_s": deadline_s} if how == "body" else {})
        headers = {DEADLINE_HEADER: str(deadline_s)} if how == "header" else {}
        assert expired(await client.post("/v1/translate", json=body, headers=headers))
        assert pipeline.generations == 1
        assert idle(service, pipeline)
        metrics = (await client.get("/metrics")).text
    assert 'outcome="deadline_exceeded"' in metrics


async def test_what_waits_for_a_slot_is_dropped() -> None:
    """One sequence of the call waits in the engine, the others in the dispatcher."""
    service, pipeline = held(slots=1)
    async with served(service) as client:
        pipeline.hold()
        first = asyncio.create_task(client.post("/v1/translate", json=CALL))
        await until(lambda: pipeline.stats().running == 1, "a running sequence")
        assert expired(
            await client.post("/v1/translate", json=CALL | {"text": [TEXT] * 5, "deadline_s": scaled(SOON_S)})
        )
        assert (pipeline.stats().running, pipeline.stats().waiting, pipeline.generations) == (1, 0, 1)
        pipeline.release.set()
        assert (await first).json()["translations"][0]["text"] == ANSWER
        assert idle(service, pipeline)


async def test_a_stream_ends_with_the_error() -> None:
    deadline_s = scaled(SOON_S)
    service = fake_service(wordy(400), step_s=deadline_s / 20)
    async with served(service) as client:
        answer = await client.post("/v1/translate", json=CALL | {"stream": True, "deadline_s": deadline_s})
        events = [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n\n") if line]
        assert "delta" in events[0]
        assert events[-1]["error"]["code"] == "deadline_exceeded"
        assert idle(service, service.pipeline)


async def test_a_stream_that_has_not_begun_is_answered_with_the_status() -> None:
    service, pipeline = held()
    async with served(service) as client:
        pipeline.hold()
        assert expired(await client.post("/v1/translate", json=CALL | {"stream": True, "deadline_s": scaled(SOON_S)}))
        assert idle(service, pipeline)


async def test_a_generation_that_another_call_waits_for_goes_on() -> None:
    service, pipeline = held(cache_bytes=2**20)
    async with served(service) as client:
        pipeline.hold()
        first = asyncio.create_task(client.post("/v1/translate", json=CALL | {"deadline_s": scaled(1.0)}))
        await until(lambda: pipeline.stats().running == 1, "a running sequence")
        second = asyncio.create_task(client.post("/v1/translate", json=CALL))
        await until(lambda: service.admission.calls == 2, "both calls")
        assert expired(await first)
        pipeline.release.set()
        assert (await second).json()["translations"][0]["text"] == ANSWER
    assert pipeline.generations == 1


@pytest.mark.parametrize("header", ["soon", "0", "-1", "nan", "inf", "1e9"])
async def test_a_header_that_is_no_number_of_seconds_is_refused(header: str) -> None:
    async with served(fake_service()) as client:
        answer = await client.post("/v1/translate", json=CALL, headers={DEADLINE_HEADER: header})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, DEADLINE_HEADER)


# ---- deadlines that cannot be met

CACHED, NEW = "Where is the old bridge?", "Where is the museum?"
CHAT: dict[str, Any] = {"model": "dragoman/ja", "messages": [{"role": "user", "content": "Where is the harbour?"}]}


@asynccontextmanager
async def busy() -> AsyncGenerator[tuple[httpx.AsyncClient, TranslationService, HeldPipeline]]:
    """A server that has CACHED and CHAT in its cache, and a queue that would take longer than any deadline here. TEXT runs."""
    service, pipeline = held(slots=1, cache_bytes=2**20)
    async with served(service) as client:
        assert (await client.post("/v1/translate", json=CALL | {"text": CACHED})).status_code == 200
        assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 200
        pipeline.hold()
        texts = [TEXT, *(f"Where is train {number}?" for number in range(40))]
        waiting = [asyncio.create_task(client.post("/v1/translate", json=CALL | {"text": one})) for one in texts]
        try:
            await until(lambda: service.admission.calls == len(texts), "a queue")
            dispatcher = service.calls.translator._dispatcher  # pyright: ignore[reportPrivateUsage]
            rate = dispatcher._rates["interactive"]  # pyright: ignore[reportPrivateUsage]
            rate.since_s, rate.grants = asyncio.get_running_loop().time() - RATE_WINDOW_S, FEWEST_GRANTS  # one a second
            yield client, service, pipeline
        finally:  # else a test that fails would wait for ever for what is held
            pipeline.release.set()
            answers = await asyncio.gather(*waiting)
        assert all(one.status_code == 200 for one in answers)
        assert idle(service, pipeline)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("texts", [[NEW], [CACHED, NEW], [NEW, CACHED], [NEW, "Where is the tower?"]])
async def test_a_deadline_that_cannot_be_met_is_refused_and_counted(texts: list[str], is_streamed: bool) -> None:
    async with busy() as (client, service, pipeline):
        call = CALL | {"text": texts if len(texts) > 1 else texts[0], "deadline_s": 9.5, "stream": is_streamed}
        generations = pipeline.generations
        if is_streamed and len(texts) > 1:
            call |= {"text": " ".join(texts), "format": "text"}
        answer = await client.post("/v1/translate", json=call)
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "queue_full")
        assert int(answer.headers["Retry-After"]) >= 1
        assert pipeline.generations == generations
        assert service.calls.refused == 1
        stats = (await client.get("/v1/stats")).json()
        assert stats["refused"] == 1


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("text", [CACHED, "12345"])
async def test_what_needs_no_engine_is_answered_whatever_waits(text: str, is_streamed: bool) -> None:
    async with busy() as (client, service, pipeline):
        generations = pipeline.generations
        call = CALL | {"text": text, "deadline_s": 9.5, "stream": is_streamed}
        answer = await client.post("/v1/translate", json=call)
        assert answer.status_code == 200, answer.text
        assert (ANSWER if text == CACHED else text) in answer.text
        assert (pipeline.generations, service.calls.refused) == (generations, 0)


async def test_a_chat_that_is_cached_is_answered_whatever_waits() -> None:
    async with busy() as (client, service, _):
        header = {DEADLINE_HEADER: "9.5"}
        answer = await client.post("/v1/chat/completions", json=CHAT, headers=header)
        assert (answer.status_code, service.calls.refused) == (200, 0)
        other = CHAT | {"messages": [{"role": "user", "content": "Where is the market?"}]}
        for is_streamed in (False, True):
            answer = await client.post("/v1/chat/completions", json=other | {"stream": is_streamed}, headers=header)
            assert answer.status_code == 429
        assert service.calls.refused == 2


async def test_a_text_that_is_in_the_engine_for_another_call_is_joined_whatever_waits() -> None:
    async with busy() as (client, service, pipeline):
        joins = service.cache.stats().in_flight
        joined = asyncio.create_task(client.post("/v1/translate", json=CALL | {"deadline_s": 9.5}))
        await until(lambda: service.cache.stats().in_flight > joins, "the lookup")  # admitted is not yet planned
        pipeline.release.set()
        assert (await joined).json()["translations"][0]["text"] == ANSWER
        assert service.calls.refused == 0
