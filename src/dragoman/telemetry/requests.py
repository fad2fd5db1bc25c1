"""Records of HTTP requests, calls and texts: the facts from which metrics, traffic records, log lines and traces are made.

Facts only: characters are counted, and no text is kept unless the operator asked for it (`traffic.record_text`). The HTTP
layer opens a `RequestTrace`; a context variable carries it to where calls end, so that nothing in between passes it on.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, cast

from dragoman.types import Timings

if TYPE_CHECKING:
    from dragoman.telemetry.tracing import RequestSpans

OK = "ok"
CANCELLED = "cancelled"
"""The outcome of what a client no longer waited for."""
FAILURES = frozenset({"internal_error", "engine_failed", "engine_dead"})
"""Outcomes that are the server's fault."""
CLIENT_CLOSED_REQUEST = 499
"""nginx's status for an answer that no client waited for."""


@dataclass(frozen=True, slots=True)
class TextRecord:
    """One text that ended. `outcome` is "ok", "cancelled" or an error's code; what is not "ok" has no output."""

    request_id: str
    index: int  # its place in its call
    arrived_unix_s: float
    source: str | None  # as detected, where it was; None: neither given nor detected before the text ended
    target: str
    outcome: str
    e2e_s: float
    in_flight: int  # texts in flight when it arrived, its call's own included
    source_characters: int
    source_tokens: int = 0
    prompt_tokens: int = 0  # including the template's
    output_tokens: int = 0
    detected: bool = False
    finish_reason: str | None = None
    timings: tuple[Timings, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = ()  # their codes
    retries: tuple[str, ...] = ()  # why segments were retried, one for each retry
    text: str | None = field(default=None, repr=False)  # the source, where the recorder keeps it

    @property
    def ok(self) -> bool:
        return self.outcome == OK

    @property
    def queue_s(self) -> float | None:
        """The longest time in the engine's queue of its segments. None: the engine does not report it."""
        return max((one.queue_s for one in self.timings), default=None)

    @property
    def ttft_s(self) -> float | None:
        """From submission to the first token, of the segment that was first."""
        return min((one.ttft_s for one in self.timings if one.ttft_s is not None), default=None)

    @property
    def decode_s(self) -> float | None:
        """From the first to the last token, of the segment that took longest."""
        return max((one.decode_s for one in self.timings if one.decode_s is not None), default=None)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call that ended, with all its texts."""

    request_id: str
    arrived_unix_s: float
    pipeline: str
    target: str
    outcome: str
    e2e_s: float
    streamed: bool
    texts: tuple[TextRecord, ...]
    api: str = "native"  # `dragoman.types.ApiName`
    key_class: str = "none"  # "none", "operator", or the priority of the calls of the account


class RecordObserver:
    """Notified of everything that ends, on the event loop: must be quick and must not raise."""

    def text_ended(self, text: TextRecord) -> None:
        """Each text once, as soon as it has ended."""

    def call_ended(self, call: CallRecord) -> None:
        """Each call once, after its texts."""


@dataclass(slots=True)
class RequestTrace:
    """One HTTP request and its answer. Complete once `end` was called."""

    request_id: str
    method: str
    route: str | None = None  # the route's template, never the path as sent: that may hold anything
    status: int = 0  # 0: no answer has begun
    fault: str | None = None  # the error code in the answer
    trace_id: str | None = None
    is_abandoned: bool = False  # its client has disconnected
    began_unix_ns: int = field(default_factory=time.time_ns)
    duration_s: float = 0.0
    calls: list[CallRecord] = field(default_factory=list[CallRecord])
    spans: RequestSpans | None = None  # where it is traced
    _began_s: float = field(default_factory=perf_counter)

    @property
    def age_s(self) -> float:
        """Since the request arrived."""
        return perf_counter() - self._began_s

    def end(self) -> None:
        """The last byte has been sent, or will not be."""
        self.duration_s = self.age_s
        self.status = self.status or CLIENT_CLOSED_REQUEST

    @property
    def outcome(self) -> str:
        """ "ok", "cancelled", or the code of what went wrong."""
        if self.fault:
            return self.fault
        failed = next((call.outcome for call in self.calls if call.outcome != OK), None)
        if failed or self.status < 400:
            return failed or OK
        return CANCELLED if self.status == CLIENT_CLOSED_REQUEST else f"http_{self.status}"

    @property
    def texts(self) -> list[TextRecord]:
        return [text for call in self.calls for text in call.texts]


_current: ContextVar[RequestTrace | None] = ContextVar("dragoman_request", default=None)


def current() -> RequestTrace | None:
    """The request that this code runs for; None outside of any."""
    return _current.get()


def note_fault(code: str) -> None:
    """The current request, if there is one, is answered with this error code."""
    if (request := _current.get()) is not None:
        request.fault = code


def note_abandoned() -> None:
    """The current request's client has disconnected before its answer."""
    if (request := _current.get()) is not None:
        request.is_abandoned = True


def is_abandoned() -> bool:
    """Whether the current request's client has disconnected."""
    request = _current.get()
    return request is not None and request.is_abandoned


@contextmanager
def entered(request: RequestTrace) -> Generator[None]:
    """Within, and in the tasks started within: `request` is the current one."""
    token = _current.set(request)
    try:
        yield
    finally:
        _current.reset(token)


class CallJoiner(RecordObserver):
    """Joins each call to the request that it was made in."""

    def call_ended(self, call: CallRecord) -> None:
        if (request := _current.get()) is not None:
            request.calls.append(call)


# ---- the log line of a request

Fields = dict[str, object]


class RequestLine:
    """`fields` is what a JSON log carries; `str()` is the line for people."""

    __slots__ = ("fields",)

    def __init__(self, request: RequestTrace) -> None:
        outcome = request.outcome
        self.fields: Fields = {
            "request_id": request.request_id,
            "method": request.method,
            "path": request.route,
            "status": request.status,
            "outcome": outcome,
            "cancelled": outcome == CANCELLED,
            "duration_s": round(request.duration_s, 6),
        }
        if request.trace_id:
            self.fields["trace_id"] = request.trace_id
        if request.calls:
            self.fields["streamed"] = any(call.streamed for call in request.calls)
            self.fields["target"] = request.calls[0].target
            self.fields |= _of_texts(request.texts)

    def __str__(self) -> str:
        fields = self.fields
        outcome = "" if fields["outcome"] == OK else f" {fields['outcome']}"
        path = fields["path"] or "(no such path)"
        parts = [f"{fields['method']} {path} {fields['status']}{outcome} in {fields['duration_s']:.3f} s"]
        if "texts" in fields:
            sources = "+".join(cast(list[str], fields["sources"])) or "?"
            parts.append(f"{_plural(fields['texts'], 'text')} {sources}→{fields['target']}")
            parts.append(_plural(fields["characters"], "character"))
            if fields["prompt_tokens"]:
                parts.append(f"{fields['prompt_tokens']}+{fields['output_tokens']} tokens")
            if fields["queue_s"] is not None:
                parts.append(f"queue {fields['queue_s']:.3f} s")
            if fields["ttft_s"] is not None:
                parts.append(f"TTFT {fields['ttft_s']:.3f} s")
            if fields["streamed"]:
                parts.append("streamed")
        parts.append(f"id {fields['request_id']}")
        return ", ".join(parts)


def _of_texts(texts: list[TextRecord]) -> Fields:
    """Sums over all texts, the longest time in the engine's queue, and the time to the first token of any."""
    queue_s = max((text.queue_s for text in texts if text.queue_s is not None), default=None)
    ttft_s = min((text.ttft_s for text in texts if text.ttft_s is not None), default=None)
    return {
        "texts": len(texts),
        "sources": sorted({text.source for text in texts if text.source}),
        "characters": sum(text.source_characters for text in texts),
        "prompt_tokens": sum(text.prompt_tokens for text in texts),
        "output_tokens": sum(text.output_tokens for text in texts),
        "queue_s": None if queue_s is None else round(queue_s, 6),
        "ttft_s": None if ttft_s is None else round(ttft_s, 6),
    }


def _plural(number: object, noun: str) -> str:
    return f"{number} {noun if number == 1 else f'{noun}s'}"
