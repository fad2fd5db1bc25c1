"""What the one line a request says, from an exchange put together by hand."""

from __future__ import annotations

from typing import Any

from dragoman.telemetry.logs import RequestLine
from dragoman.telemetry.requests import CallRecord, RequestTrace, TextRecord


def text(index: int, source: str | None, *, outcome: str = "ok", tokens: int = 4, **times: Any) -> TextRecord:
    return TextRecord("abc", index, 0.0, source, "ja", outcome, 1.0, 1, 20, tokens, 2 * tokens, tokens + 1, **times)


def exchange(*texts: TextRecord, outcome: str = "ok", status: int = 200, streamed: bool = False) -> RequestTrace:
    calls = [CallRecord("abc", "ja", outcome, streamed, texts)] if texts else []
    request = RequestTrace("abc", "POST", "/v1/translate", status, calls=calls)
    request.end()
    request.duration_s = 0.41234567
    return request


def test_over_several_texts_waits_are_the_longest_and_first_tokens_the_first() -> None:
    line = RequestLine(
        exchange(
            text(0, "en", queue_s=0.3, ttft_s=0.5),
            text(1, "ko", queue_s=0.2, ttft_s=0.25),
            text(2, "en"),
        )
    )
    assert line.fields == {
        "request_id": "abc",
        "method": "POST",
        "path": "/v1/translate",
        "status": 200,
        "outcome": "ok",
        "cancelled": False,
        "duration_s": 0.412346,
        "streamed": False,
        "target": "ja",
        "texts": 3,
        "sources": ["en", "ko"],
        "characters": 60,
        "prompt_tokens": 24,
        "output_tokens": 15,
        "queue_s": 0.3,
        "ttft_s": 0.25,
    }
    assert str(line) == (
        "POST /v1/translate 200 in 0.412 s, 3 texts en+ko→ja, 60 characters, 24+15 tokens, "
        "queue 0.300 s, TTFT 0.250 s, id abc"
    )


def test_what_is_not_known_is_not_said() -> None:
    refused = RequestLine(exchange(text(0, None, outcome="queue_full", tokens=0), outcome="queue_full", status=429))
    assert (refused.fields["queue_s"], refused.fields["ttft_s"], refused.fields["sources"]) == (None, None, [])
    line = str(refused)
    assert line.startswith("POST /v1/translate 429 queue_full in 0.412 s, 1 text ?→ja, 20 characters, ")
    assert "TTFT" not in line

    bad_body = RequestLine(exchange(status=422))
    assert bad_body.fields["outcome"] == "http_422"
    assert "texts" not in bad_body.fields
    assert str(bad_body) == "POST /v1/translate 422 http_422 in 0.412 s, id abc"
