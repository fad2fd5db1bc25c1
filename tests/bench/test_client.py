"""What is sent to each API, how its answers and streams are read, and how a request is timed and counted."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import pytest
from aiohttp import web

from dragoman.errors import ConfigError
from dragoman_bench.bench.client import (
    BadReplyError,
    Client,
    Clock,
    Native,
    StreamedError,
    TargetOptions,
    TargetReply,
    event_data,
    filled,
    make_target,
    open_session,
)
from dragoman_bench.bench.results import RequestRecord
from dragoman_bench.bench.summary import bucket_values
from dragoman_bench.bench.workload import Item
from tests.bench.making import HELLO
from tests.bench.serving import Handler, deltas, hang, serving, streamed, translate, translation
from tests.waiting import scaled, until


@asynccontextmanager
async def _client(
    handler: Handler, *, stream: bool = False, timeout_s: float = 30.0, connections: int | None = None
) -> AsyncIterator[Client]:
    async with serving({"/v1/translate": handler}) as url, open_session() as session:
        target = make_target(TargetOptions(stream=stream))
        yield Client(session, url, target, Clock(monotonic()), timeout_s=timeout_s, connections=connections)


async def _send(client: Client, intended_s: float = 0.0) -> RequestRecord:
    return await client.request(HELLO, index=3, text=1, intended_s=intended_s)


async def _exchange(handler: Handler, **options: object) -> RequestRecord:
    async with _client(handler, **options) as client:  # type: ignore[arg-type]
        return await _send(client)


async def test_a_whole_answer_is_recorded_with_what_it_reported() -> None:
    record = await _exchange(translate)

    assert (record.index, record.text, record.status, record.error) == (3, 1, 200, None)
    assert (record.output_tokens, record.finish_reason) == (5, "stop")
    assert (record.source_tokens, record.band) == (4, "short")
    assert record.first_token_s is None
    assert record.sent_s is not None and record.intended_s <= record.sent_s <= record.done_s


async def test_a_stream_is_timed_by_its_events() -> None:
    seen: list[float] = []
    began = monotonic()

    async def between(number: int) -> None:
        await asyncio.sleep(0.02)
        seen.append(monotonic() - began)

    async def handler(request: web.Request) -> web.StreamResponse:
        return await streamed(
            request, [*deltas("a", "", "b", "c"), '{"usage":{"completion_tokens":3}}', "[DONE]"], between
        )

    async with _client(handler, stream=True) as client:
        record = await _send(client)

    assert (record.error, record.output_tokens) == (None, 3)
    assert record.itl_count == 2  # three events with text; an empty delta is no token
    assert record.first_token_s is not None
    assert record.first_token_s >= 0.02
    assert record.itl_mean_s is not None and record.itl_mean_s > 0
    assert record.itl_max_s is not None and record.itl_max_s >= record.itl_mean_s
    assert bucket_values(client.itl_histogram).mean() == pytest.approx(record.itl_mean_s, rel=0.011)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (429, "refused"),
        (503, "unavailable"),
        (400, "rejected"),
        (413, "rejected"),
        (500, "server_error"),
        (502, "server_error"),
    ],
)
async def test_a_status_is_counted_by_its_kind(status: int, kind: str) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {}}, status=status)

    record = await _exchange(handler)

    assert (record.status, record.error, record.output_tokens) == (status, kind, None)


async def test_a_refusal_keeps_when_to_come_back() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response({}, status=429, headers={"Retry-After": "2.5"})

    record = await _exchange(handler)

    assert (record.error, record.retry_after_s) == ("refused", 2.5)


async def test_a_refusal_until_a_date_is_one_without_a_time() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response({}, status=429, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})

    assert (await _exchange(handler)).retry_after_s is None


async def test_no_answer_in_time_is_a_time_out_counted_from_the_intended_send() -> None:
    timeout_s = scaled(0.5)
    async with _client(hang, timeout_s=timeout_s) as client:
        record = await _send(client, intended_s=-timeout_s / 2)  # due before it could be sent

    assert record.error == "timeout"
    assert record.status is None
    assert record.e2e_s >= timeout_s
    assert record.sent_s is not None
    assert record.done_s - record.sent_s < record.e2e_s


async def test_a_request_that_never_got_a_connection_times_out_unsent() -> None:
    async with _client(hang, timeout_s=scaled(0.3), connections=1) as client:
        records = await asyncio.gather(_send(client), _send(client))

    assert [record.error for record in records] == ["timeout", "timeout"]
    assert [record.sent_s is None for record in records] == [False, True]


async def test_a_port_without_a_server_is_a_failed_connection() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        async with open_session() as session:
            client = Client(session, url, make_target(TargetOptions()), Clock(monotonic()), timeout_s=30)
            record = await _send(client)

    assert record.error == "connect"


async def test_a_connection_dropped_before_the_answer_is_a_disconnect() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    assert (await _exchange(handler)).error == "disconnect"


async def test_a_stream_dropped_midway_is_a_disconnect_whose_tokens_are_kept() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        await streamed(request, deltas("a", "b"))
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    record = await _exchange(handler, stream=True)

    assert (record.error, record.status) == ("disconnect", 200)
    assert record.first_token_s is not None


async def test_a_stream_that_ends_without_its_end_is_no_answer() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return await streamed(request, deltas("a"))

    assert (await _exchange(handler, stream=True)).error == "disconnect"


async def test_an_error_event_inside_a_stream_is_the_servers() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return await streamed(request, [*deltas("a"), '{"error":{"code":"engine_dead"}}'])

    assert (await _exchange(handler, stream=True)).error == "server_error"


@pytest.mark.parametrize("body", ["<html>", "{}", '{"translations":[]}', "[]"])
async def test_a_body_of_another_shape_is_recorded_as_a_bad_reply(body: str) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(text=body, content_type="application/json")

    record = await _exchange(handler)

    assert (record.error, record.status) == ("bad_reply", 200)


async def test_a_cancelled_request_is_recorded_as_unfinished() -> None:
    async with _client(hang) as client:
        task = asyncio.create_task(_send(client))
        await asyncio.sleep(0)
        task.cancel()
        record = await task

    assert record.error == "unfinished"


async def test_more_requests_than_a_connection_pool_go_out_at_once() -> None:
    arrived, everybody = 0, asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal arrived
        arrived += 1
        await everybody.wait()
        return web.json_response(translation())

    async with _client(handler) as client:
        tasks = [asyncio.create_task(_send(client)) for _ in range(150)]
        await until(lambda: arrived == 150, "all requests at the server")
        everybody.set()
        records = await asyncio.gather(*tasks)

    assert {record.error for record in records} == {None}


async def test_a_fault_of_the_bench_itself_is_not_counted_as_the_servers() -> None:
    class Broken(Native):
        def body(self, item: object) -> dict[str, object]:
            raise LookupError("a fault of ours")

    async with serving({}) as url, open_session() as session:
        client = Client(session, url, Broken(TargetOptions()), Clock(monotonic()), timeout_s=5)
        with pytest.raises(LookupError):
            await _send(client)


ITEM = Item("Hello, {target}!", "en", "ja", 4)
DETECTED = Item("Hello", None, "ja", 1)
FORCED = Item("Hello", "en", "ja", 1, output_tokens=12)


def _options(kind: str, **other: Any) -> TargetOptions:
    return TargetOptions(kind=kind, **other)  # type: ignore[arg-type]


def test_native_requests() -> None:
    target = make_target(_options("dragoman", api_key="k"))

    assert target.path == "/v1/translate"
    assert target.headers == {"Authorization": "Bearer k"}
    assert target.body(ITEM) == {"text": ITEM.text, "source": "en", "target": "ja", "stream": False}
    assert "source" not in target.body(DETECTED)
    assert target.body(FORCED)["force_output_tokens"] == 12
    assert "force_output_tokens" not in make_target(_options("dragoman", forced=False)).body(FORCED)


def test_native_answers() -> None:
    one = {"text": "こんにちは", "source": "en", "detected": False, "finish_reason": "length", "warnings": []}
    answer = {
        "translations": [one],
        "model": "m",
        "usage": {"characters": 5, "prompt_tokens": 9, "completion_tokens": 4},
    }

    assert make_target(_options("dragoman")).whole(answer) == TargetReply("こんにちは", 4, "length")


def test_native_streams() -> None:
    target = make_target(_options("dragoman", stream=True))
    translation = {"text": "駅は", "source": "en", "detected": False, "finish_reason": "stop", "warnings": []}

    assert target.body(ITEM)["stream"] is True
    assert target.event('{"index": 0, "delta": "駅"}') == TargetReply("駅")
    assert target.event(json.dumps({"index": 0, "translation": translation})) == TargetReply("", None, "stop")
    assert target.event('{"usage": {"completion_tokens": 4}}') == TargetReply("", 4)
    assert target.event("[DONE]") == TargetReply(end=True)
    with pytest.raises(StreamedError, match="engine_failed"):
        target.event('{"error": {"code": "engine_failed", "message": "no"}}')


def test_chat_requests() -> None:
    options = _options("openai-chat", model="m", stream=True, api_key="k", system="To {target_name}.")
    target = make_target(options)

    body = target.body(ITEM)

    assert target.path == "/v1/chat/completions"
    assert target.headers == {"Authorization": "Bearer k"}
    assert body["messages"][0] == {"role": "system", "content": "To Japanese."}
    assert body["messages"][1]["content"].endswith(ITEM.text)
    assert "from English to Japanese" in body["messages"][1]["content"]
    assert (body["model"], body["stream"], body["stream_options"]) == ("m", True, {"include_usage": True})
    assert (body["max_tokens"], body["temperature"]) == (1024, 0.0)
    assert "min_tokens" not in body


def test_forced_lengths_override_the_limit() -> None:
    body = make_target(_options("openai-completions", model="m", max_tokens=5)).body(FORCED)

    assert (body["max_tokens"], body["min_tokens"], body["ignore_eos"]) == (12, 12, True)


def test_completions_send_the_filled_template() -> None:
    target = make_target(_options("openai-completions", model="m", user="{source}>{target}: {text}\n"))

    assert target.path == "/v1/completions"
    assert target.body(ITEM)["prompt"] == "en>ja: Hello, {target}!\n"  # the text's own braces stay
    assert "messages" not in target.body(ITEM)


def test_a_template_names_a_source_that_is_not_given() -> None:
    assert filled("{source} {source_name}", DETECTED) == "auto the language it is in"


def test_chat_answers_and_streams() -> None:
    target = make_target(_options("openai-chat", model="m", stream=True))
    answer = {
        "choices": [{"message": {"content": "こんにちは"}, "finish_reason": "stop"}],
        "usage": {"completion_tokens": 3},
    }

    assert target.whole(answer) == TargetReply("こんにちは", 3, "stop")
    assert target.event('{"choices":[{"delta":{"role":"assistant","content":""}}]}') == TargetReply("")
    assert target.event('{"choices":[{"delta":{"content":"こ"}}],"usage":null}') == TargetReply("こ")
    assert target.event('{"choices":[{"delta":{},"finish_reason":"length"}]}') == TargetReply("", None, "length")
    assert target.event('{"choices":[],"usage":{"completion_tokens":3}}') == TargetReply("", 3)
    assert target.event("[DONE]").end
    with pytest.raises(StreamedError):
        target.event('{"error":{"message":"no"}}')


def test_completion_answers_and_streams() -> None:
    target = make_target(_options("openai-completions", model="m", stream=True))

    assert target.whole({"choices": [{"text": "ab", "finish_reason": "length"}]}) == TargetReply("ab", None, "length")
    assert target.event('{"choices":[{"text":"a","finish_reason":null}]}') == TargetReply("a")


def test_libretranslate() -> None:
    target = make_target(_options("libretranslate", api_key="k"))

    assert target.path == "/translate"
    assert target.body(DETECTED) == {
        "q": "Hello",
        "source": "auto",
        "target": "ja",
        "format": "text",
        "api_key": "k",
    }
    assert target.whole({"translatedText": "こんにちは"}) == TargetReply("こんにちは")


def test_deepl() -> None:
    target = make_target(_options("deepl", api_key="k"))

    assert target.path == "/v2/translate"
    assert target.headers == {"Authorization": "DeepL-Auth-Key k"}
    assert target.body(ITEM) == {"text": [ITEM.text], "source_lang": "EN", "target_lang": "JA"}
    assert "source_lang" not in target.body(DETECTED)
    assert target.whole({"translations": [{"text": "こんにちは", "detected_source_language": "EN"}]}) == TargetReply(
        "こんにちは"
    )


@pytest.mark.parametrize("kind", ["dragoman", "openai-chat", "openai-completions", "libretranslate", "deepl"])
@pytest.mark.parametrize(
    "answer", [None, [], {}, {"translations": []}, {"choices": [{}]}, {"translatedText": 7}, "text"]
)
def test_an_answer_of_another_shape_is_a_bad_reply(kind: str, answer: object) -> None:
    with pytest.raises(BadReplyError):
        make_target(_options(kind, model="m")).whole(answer)


@pytest.mark.parametrize("kind", ["dragoman", "openai-chat", "openai-completions"])
@pytest.mark.parametrize("data", ["", "{", "[]", "7"])
def test_an_event_of_another_shape_is_a_bad_reply(kind: str, data: str) -> None:
    with pytest.raises(BadReplyError):
        make_target(_options(kind, model="m", stream=True)).event(data)


def test_what_an_api_cannot_do_is_refused() -> None:
    with pytest.raises(ConfigError, match="does not stream"):
        make_target(_options("deepl", stream=True))
    with pytest.raises(ConfigError, match="--model"):
        make_target(_options("openai-chat"))
    with pytest.raises(ConfigError, match=r"no \{text\}"):
        make_target(_options("openai-chat", model="m", user="Translate."))


async def _read(*lines: bytes) -> list[str]:
    async def stream() -> AsyncIterator[bytes]:
        for line in lines:
            yield line

    return [data async for data in event_data(stream())]


@pytest.mark.parametrize(
    ("lines", "events"),
    [
        ((b"data: one\n", b"\n", b"data:two\r\n", b"\r\n"), ["one", "two"]),
        ((b"data: one\n", b"data: two\n", b"\n"), ["one\ntwo"]),
        ((b": ping\n", b"\n", b"event: x\n", b"id: 1\n", b"data: one\n", b"\n"), ["one"]),
        ((b"data: one\n", b"\n", b"data: tw"), ["one"]),  # cut off
        (("data:  駅\n".encode(), b"\n"), [" 駅"]),
    ],
)
async def test_an_event_is_its_data_up_to_a_blank_line(lines: tuple[bytes, ...], events: list[str]) -> None:
    assert await _read(*lines) == events
