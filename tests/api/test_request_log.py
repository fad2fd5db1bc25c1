"""Every request's id and its one line in the log, over the fake pipeline behind a real server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from dragoman.api.middleware import log
from dragoman.pipelines.fake import FakePipeline
from dragoman.settings import ServerSettings
from dragoman.types import EngineSequence
from tests.serving import echoing, fake_service, served, service_over, slow_service, source_of, wordy
from tests.waiting import until

SECRET = "Zanzibar"
"""Stands in every text: no log line may have it."""


class Lines(logging.Handler):
    """Keeps records of the request log."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def fields(self) -> list[dict[str, Any]]:
        return [record.__dict__["fields"] for record in self.records]

    def only(self) -> dict[str, Any]:
        [line] = self.fields
        return line


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler = Lines()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield handler
    log.removeHandler(handler)
    log.setLevel(level)
    assert SECRET not in "".join(str(record.__dict__) for record in handler.records)


async def post(client: httpx.AsyncClient, request_id: str | None = None, **body: Any) -> httpx.Response:
    headers = {"X-Request-Id": request_id} if request_id else {}
    body = {"text": f"Where is {SECRET}?", "source": "en", "target": "ja"} | body
    return await client.post("/v1/translate", json=body, headers=headers)


async def test_a_translation_is_one_line_with_its_facts(lines: Lines) -> None:
    async with served(fake_service(step_s=0.001)) as client:
        answer = await post(client, text=[f"Where is {SECRET}?", "도서관은 어디에 있나요?"], source=None)
    line = lines.only()
    assert line["request_id"] == answer.headers["x-request-id"]
    assert (line["method"], line["path"], line["status"]) == ("POST", "/v1/translate", 200)
    assert (line["outcome"], line["cancelled"], line["streamed"]) == ("ok", False, False)
    assert (line["texts"], line["sources"], line["target"]) == (2, ["en", "ko"], "ja")
    assert line["characters"] == len(f"Where is {SECRET}?") + 13
    usage = answer.json()["usage"]
    assert (line["prompt_tokens"], line["output_tokens"]) == (usage["prompt_tokens"], usage["completion_tokens"])
    # The first token is that of one text, the queue that of the text which waited longest.
    assert line["duration_s"] >= max(line["ttft_s"], line["queue_s"])
    assert min(line["ttft_s"], line["queue_s"]) >= 0
    assert lines.records[0].levelno == logging.INFO


async def test_a_stream_is_one_line_at_its_end(lines: Lines) -> None:
    async with (
        served(slow_service()) as client,
        client.stream("POST", "/v1/translate", json={"text": SECRET, "target": "ja", "stream": True}) as answer,
    ):
        chunks = answer.aiter_bytes()
        await anext(chunks)
        assert not lines.records
        assert (b"".join([chunk async for chunk in chunks])).endswith(b"data: [DONE]\n\n")
    line = lines.only()
    assert (line["status"], line["outcome"], line["streamed"]) == (200, "ok", True)
    assert line["output_tokens"] > 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_hangs_up_is_one_line_that_says_so(lines: Lines, stream: bool) -> None:
    service = slow_service()
    async with served(service) as client:
        call = asyncio.create_task(post(client, stream=stream))
        await until(lambda: service.pipeline.stats().running == 1, "a running sequence")
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await until(lambda: bool(lines.records), "a line")
    line = lines.only()
    assert (line["outcome"], line["cancelled"], line["streamed"], line["texts"]) == ("cancelled", True, stream, 1)
    assert service.pipeline.stats().running == 0


async def test_a_stream_whose_client_hangs_up_half_way_is_one_line(lines: Lines) -> None:
    service = slow_service()
    async with served(service) as client:
        body = {"text": SECRET, "target": "ja", "stream": True}
        async with client.stream("POST", "/v1/translate", json=body) as answer:
            await anext(answer.aiter_bytes())
        await until(lambda: bool(lines.records), "a line")
    line = lines.only()
    assert (line["status"], line["outcome"], line["streamed"]) == (200, "cancelled", True)


async def test_a_stream_that_waits_in_the_queue_notices_that_its_client_is_gone(lines: Lines) -> None:
    service = service_over(FakePipeline(wordy(400), step_s=0.002, slots=1))
    async with served(service) as client:
        first = asyncio.create_task(post(client))
        await until(lambda: service.pipeline.stats().running == 1, "a running sequence")
        second = asyncio.create_task(post(client, stream=True))
        await until(lambda: service.pipeline.stats().waiting == 1, "a waiting sequence")
        second.cancel()
        await until(lambda: bool(lines.records), "a line")
        assert (service.pipeline.stats().waiting, service.pipeline.stats().running) == (0, 1)
        assert lines.only()["outcome"] == "cancelled"
        await first


async def test_a_client_that_hangs_up_while_it_sends_is_cancelled_too(lines: Lines) -> None:
    async with served(fake_service()) as client:
        port = client.base_url.port
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        await until(lambda: bool(lines.records), "a line")
    line = lines.only()
    assert (line["status"], line["outcome"], line["cancelled"]) == (499, "cancelled", True)


@pytest.mark.parametrize(
    ("body", "status", "outcome"),
    [
        ({"stream": "yes"}, 422, "invalid_request"),
        ({"target": "xx"}, 400, "unsupported_language"),
        ({"target": "xx", "stream": True}, 400, "unsupported_language"),
        ({"text": ["a"] * 5}, 413, "too_many_texts"),
        ({"text": "x" * 3_000}, 413, "body_too_large"),
    ],
)
async def test_a_request_that_is_wrong_is_one_line_with_its_code(
    lines: Lines, body: dict[str, Any], status: int, outcome: str
) -> None:
    limits = ServerSettings(max_body_bytes=2_000, max_texts=4)
    async with served(fake_service(server=limits)) as client:
        answer = await post(client, "mine-1", **body)
    assert answer.headers.get_list("x-request-id") == ["mine-1"]
    line = lines.only()
    assert (line["request_id"], line["path"]) == ("mine-1", "/v1/translate")
    assert (
        (line["status"], line["outcome"]) == (status, outcome) == (answer.status_code, answer.json()["error"]["code"])
    )
    assert not line["cancelled"]


async def test_a_refusal_is_one_line_with_what_was_refused(lines: Lines) -> None:
    service = slow_service(characters=1)
    async with served(service) as client:
        calls = [asyncio.create_task(post(client))]
        await until(lambda: service.admission.calls == 1, "a full queue")
        assert not lines.records
        refused = await post(client, "mine-2", text=["a", "b"])
        assert (refused.status_code, refused.headers["x-request-id"]) == (429, "mine-2")
        line = lines.only()
        assert (line["status"], line["outcome"], line["texts"]) == (429, "queue_full", 2)
        await asyncio.gather(*calls)
    assert len(lines.records) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_a_fault_of_ours_is_a_500_with_an_id_and_one_line(
    lines: Lines, caplog: pytest.LogCaptureFixture, stream: bool
) -> None:
    def broken(sequence: EngineSequence) -> str:
        if SECRET in source_of(sequence):
            raise RuntimeError("a fault")
        return "Good morning."

    async with served(fake_service(broken)) as client:
        answer = await post(client, "mine-3", stream=stream)
    assert (answer.status_code, answer.headers["x-request-id"]) == (500, "mine-3")
    assert answer.json()["error"]["code"] == "internal_error"
    line = lines.only()
    assert (line["status"], line["outcome"], line["request_id"]) == (500, "internal_error", "mine-3")
    assert lines.records[0].levelno == logging.ERROR
    [traceback] = [record for record in caplog.records if record.exc_info]  # logged once: not by uvicorn again
    assert traceback.name == "dragoman.api"


async def test_an_engine_that_fails_in_a_stream_is_one_line_with_the_code_that_the_stream_carries(lines: Lines) -> None:
    service = slow_service()
    async with served(service) as client:
        body = {"text": SECRET, "target": "ja", "stream": True}
        async with client.stream("POST", "/v1/translate", json=body) as answer:
            chunks = answer.aiter_bytes()
            await anext(chunks)
            await service.pipeline.shutdown()
            rest = b"".join([chunk async for chunk in chunks])
    assert b'"engine_dead"' in rest
    line = lines.only()
    assert (line["status"], line["outcome"]) == (200, "engine_dead")
    assert lines.records[0].levelno == logging.ERROR


async def test_a_stream_that_we_break_off_is_one_line(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*_: object) -> bytes:
        raise RuntimeError("a fault")

    async with served(fake_service(lambda _: "one two", step_s=0.001)) as client:
        body = {"text": SECRET, "target": "ja", "stream": True}
        with pytest.raises(httpx.RemoteProtocolError):
            async with client.stream("POST", "/v1/translate", json=body) as answer:
                monkeypatch.setattr("dragoman.api.native.json_bytes", fault)
                async for _ in answer.aiter_bytes():
                    pass
        await until(lambda: bool(lines.records), "a line")
    line = lines.only()
    assert (line["status"], line["outcome"]) == (200, "internal_error")


async def test_probes_pages_and_polling_are_lines_at_debug_only(lines: Lines) -> None:
    async with served(fake_service()) as client:
        paths = ["/healthz", "/readyz", "/metrics", "/v1/stats", "/", "/web/app.js", "/openapi.json"]
        for path in paths:
            assert (await client.get(path)).headers["x-request-id"]
        assert not lines.records
        log.setLevel(logging.DEBUG)
        await client.get("/v1/stats")
        await until(lambda: bool(lines.records), "a line")
        assert lines.only()["path"] == "/v1/stats"


async def test_a_path_that_no_route_knows_is_not_repeated(lines: Lines) -> None:
    async with served(fake_service()) as client:
        answer = await client.get(f"/translate/{SECRET}?text={SECRET}")
        assert answer.headers["x-request-id"]
        assert (await client.get("/v1/translate")).status_code == 405
    unknown, wrong_method = lines.fields
    assert (unknown["path"], unknown["status"], unknown["outcome"]) == (None, 404, "not_found")
    assert (wrong_method["path"], wrong_method["status"]) == ("/v1/translate", 405)


@pytest.mark.parametrize("sent", ["a" * 65, "two words", "naïve", "x\ty", '"quoted"', "a/b"])
async def test_an_id_that_does_not_belong_in_a_log_is_replaced(lines: Lines, sent: str) -> None:
    async with served(fake_service()) as client:
        body = {"text": "Hello.", "target": "ja"}
        answer = await client.post("/v1/translate", json=body, headers={b"X-Request-Id": sent.encode()})
    made = answer.headers["x-request-id"]
    assert made != sent
    assert 16 <= len(made) <= 64
    assert lines.only()["request_id"] == made


async def test_two_requests_of_one_id_are_two_in_the_engine() -> None:
    seen: list[str] = []

    def noting(sequence: EngineSequence) -> str:
        seen.append(sequence.id)
        return echoing()(sequence)

    async with served(fake_service(noting, step_s=0.001)) as client:
        seen.clear()  # the warm-up
        answers = await asyncio.gather(*(post(client, "A.b-c_1", text=["One.", "Two."]) for _ in range(5)))
    assert {answer.headers["x-request-id"] for answer in answers} == {"A.b-c_1"}
    assert len(seen) == len(set(seen)) == 10
    assert all(one.startswith("A.b-c_1-") for one in seen)


async def test_a_fault_in_the_bookkeeping_costs_no_answer(lines: Lines, caplog: pytest.LogCaptureFixture) -> None:
    service = fake_service()

    def fault(_: object) -> None:
        raise RuntimeError("a fault in the bookkeeping")

    service.metrics.answered = fault  # type: ignore[method-assign]
    async with served(service) as client:
        assert (await post(client)).status_code == 200
    assert lines.only()["outcome"] == "ok"
    assert "bookkeeping" in caplog.text
