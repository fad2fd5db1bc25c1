"""One HTTP request and its answer, as one noun: what the request line and the trace are made from.

The HTTP layer opens an `Exchange`; a context variable carries it down to where calls end, so that nothing in between needs
to know of it. Facts only, and never a text, an address or a key. Knows neither HTTP's messages nor who writes the line.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter

from dragoman.telemetry.calls import CANCELLED, OK, CallRecord, Observer, TextRecord
from dragoman.types import Timings

CLIENT_CLOSED_REQUEST = 499
"""nginx's status for an answer that nobody waited for."""
MAX_SEQUENCES = 64
"""Sequences noted one by one in an exchange that is traced; more are counted."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A stretch of the wall clock, in nanoseconds since 1970."""

    began_unix_ns: int
    ended_unix_ns: int


@dataclass(frozen=True, slots=True)
class SequenceRecord:
    """One sequence's way through the pipeline. `outcome` is the completion's reason, "cancelled" or an error's code."""

    id: str
    submitted: Interval
    encoded: Interval | None
    outcome: str
    failed: bool = False
    max_tokens: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    timings: Timings | None = None


@dataclass(slots=True)
class Work:
    """When the stages of an exchange's calls were: filled in only while somebody traces."""

    segmented: list[Interval] = field(default_factory=list[Interval])
    encoded: dict[str, Interval] = field(default_factory=dict[str, Interval])  # by sequence id, until it is submitted
    sequences: list[SequenceRecord] = field(default_factory=list[SequenceRecord])
    unrecorded: int = 0  # sequences beyond MAX_SEQUENCES

    def add(self, sequence: SequenceRecord) -> None:
        if len(self.sequences) < MAX_SEQUENCES:
            self.sequences.append(sequence)
        else:
            self.unrecorded += 1


@dataclass(slots=True)
class RequestTrace:
    """Filled in while the request lasts; whole once `end` was called."""

    request_id: str
    method: str
    route: str | None = None  # the route's template, never the path as sent: that may hold anything
    status: int = 0  # 0: no answer has begun
    fault: str | None = None  # the error code that the answer carries
    trace_id: str | None = None
    began_unix_ns: int = field(default_factory=time.time_ns)
    duration_s: float = 0.0
    calls: list[CallRecord] = field(default_factory=list[CallRecord])
    work: Work | None = None
    _began_s: float = field(default_factory=perf_counter)

    def end(self) -> None:
        """The last byte has been sent, or will not be."""
        self.duration_s = perf_counter() - self._began_s
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


_current: ContextVar[RequestTrace | None] = ContextVar("dragoman_exchange", default=None)


def current() -> RequestTrace | None:
    """The exchange that this runs for; None outside of any."""
    return _current.get()


def note_fault(code: str) -> None:
    """The current exchange, if there is one, is answered with this error code."""
    if (exchange := _current.get()) is not None:
        exchange.fault = code


@contextmanager
def entered(exchange: RequestTrace) -> Generator[None]:
    """Within, and in the tasks begun within: `exchange` is the current one."""
    token = _current.set(exchange)
    try:
        yield
    finally:
        _current.reset(token)


class CallJoiner(Observer):
    """Joins each call to the exchange that it was made in."""

    def call_ended(self, call: CallRecord) -> None:
        if (exchange := _current.get()) is not None:
            exchange.calls.append(call)
