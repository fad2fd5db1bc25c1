"""What an engine elsewhere may do instead of answering, and what becomes of a sequence: data for a test, and the table of
docs/engines.md (`python -m tests.pipelines.faults` prints it).

A fault is the bytes that come instead of an answer, and what follows them: the end of the connection, its reset, or nothing.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from dragoman import errors

Then = Literal["close", "reset", "nothing"]
RUNS_AGAIN = ""
"""The outcome of a sequence that is answered in the end."""
_CODES = {
    error.code: error.status
    for error in (errors.EngineRejected, errors.EngineFailed, errors.EngineDead, errors.QueueFull)
}


@dataclass(frozen=True, slots=True)
class Fault:
    """`code`: of the error that a sequence ends with, and `stream` of a streamed one; empty: it runs again."""

    what: str
    sent: bytes
    code: str
    stream: str | None = None  # where it differs
    then: Then = "close"
    each_time: bool = False  # all attempts have it

    def code_of(self, *, stream: bool) -> str:
        return self.code if self.stream is None or not stream else self.stream


def http(status: int = 200, body: bytes = b"", *headers: str, length: int | None = None) -> bytes:
    """An answer; `length`: the one that it names, where it is not the body's."""
    named = len(body) if length is None else length
    lines = (f"HTTP/1.1 {status} Any", f"Content-Length: {named}", *headers, "", "")
    return "\r\n".join(lines).encode() + body


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _choice(**choice: Any) -> bytes:
    return http(200, _json({"choices": [choice]}))


def _events(*events: Any) -> bytes:
    """A stream that ends in the middle of its body."""
    body = b"".join(b"data: %s\n\n" % _json(event) for event in events)
    return http(200, body, "Content-Type: text/event-stream", length=len(body) + 1)


_HALF = _events({"choices": [{"text": "w1"}]})
_FAILED, _REJECTED, _DEAD, _FULL = "engine_failed", "engine_rejected", "engine_dead", "queue_full"

FAULTS = (
    Fault("closes the connection without an answer", b"", RUNS_AGAIN),
    Fault("resets it", b"", RUNS_AGAIN, then="reset"),
    Fault("resets it after the headers", http(200, b"", length=99), RUNS_AGAIN, then="reset"),
    Fault("closes it before the body's end", http(200, b'{"choices": [', length=999), RUNS_AGAIN),
    Fault("does not answer in time", b"", RUNS_AGAIN, then="nothing"),
    Fault("does not send the body in time", http(200, b"", length=99), RUNS_AGAIN, then="nothing"),
    Fault("breaks off a stream of which something was shown", _HALF, RUNS_AGAIN, stream=_FAILED),
    Fault("goes silent in such a stream", _HALF, RUNS_AGAIN, stream=_FAILED, then="nothing"),
    Fault("answers in no HTTP", b"SSH-2.0-OpenSSH_9.6\r\n", RUNS_AGAIN),
    Fault("sends headers that are too long", http(200, b"{}", "X: " + "a" * 70_000), RUNS_AGAIN),
    Fault("compresses what is not compressed", http(200, b"{}", "Content-Encoding: gzip"), RUNS_AGAIN),
    Fault("answers 500", http(500), RUNS_AGAIN),
    Fault("answers 500 each time", http(500), _DEAD, each_time=True),
    Fault("answers 502 with a proxy's page", http(502, b"<html>"), RUNS_AGAIN),
    Fault("answers 503 while it loads its model", http(503), RUNS_AGAIN),
    Fault("answers 503 with Retry-After", http(503, b"", "Retry-After: 0"), RUNS_AGAIN),
    Fault("answers 429", http(429, b"", "Retry-After: 0"), RUNS_AGAIN),
    Fault("answers 429 with a date", http(429, b"", "Retry-After: Fri, 01 Jan 2027"), RUNS_AGAIN),
    Fault("answers 429 for over half a minute", http(429, b"", "Retry-After: 60"), _FULL, each_time=True),
    Fault("redirects to another address", http(307, b"", "Location: http://127.0.0.1:1/"), RUNS_AGAIN),
    Fault("answers 401, since the key is wrong", http(401), RUNS_AGAIN),
    Fault("answers 404, since the model is unloaded", http(404), RUNS_AGAIN),
    Fault("refuses the prompt with 400", http(400, b'{"error": "too long"}'), _REJECTED),
    Fault("refuses it with 413", http(413), _REJECTED),
    Fault("refuses it with 422", http(422), _REJECTED),
    Fault("answers with a page", http(200, b"<html>"), _FAILED),
    Fault("answers with half of a JSON", http(200, b'{"choices": ['), _FAILED),
    Fault("answers with a JSON list", http(200, b"[1, 2]"), _FAILED),
    Fault("answers with bytes that are no text", http(200, b'{"choices": "\xff\xfe"}'), _FAILED),
    Fault("answers with choices that are none", http(200, b'{"choices": "abc"}'), _FAILED),
    Fault(
        "reports a probability that is none",
        _choice(text="a", finish_reason="stop", logprobs={"token_logprobs": ["a"]}),
        _FAILED,
    ),
    Fault("answers with over 2,000 bytes a token", http(200, b" " * 1_500_000), _FAILED),
    Fault("expands its answer to that", http(200, gzip.compress(b" " * 3_000_000), "Content-Encoding: gzip"), _FAILED),
    Fault("answers with an empty object", http(200, b"{}"), RUNS_AGAIN),
    Fault("answers with an error of status 200", http(200, b'{"error": {"message": "out of memory"}}'), RUNS_AGAIN),
    Fault("names no reason for the end", _choice(text="a"), RUNS_AGAIN, stream=_FAILED),
    Fault("names another reason, as for what it cancelled", _choice(text="", finish_reason="abort"), RUNS_AGAIN),
)


def table() -> Iterator[str]:
    """The rows of the table in docs/engines.md."""

    def shown(code: str) -> str:
        return f"{_CODES[code]}, `{code}`" if code else "its translation"

    yield "| the engine | a client gets | with `stream` |"
    yield "|---|---|---|"
    for fault in FAULTS:
        whole, stream = (shown(fault.code_of(stream=one)) for one in (False, True))
        yield f"| {fault.what} | {whole} | {'the same' if whole == stream else stream} |"


if __name__ == "__main__":
    print("\n".join(table()))
