"""Records of HTTP requests, calls and texts: the facts from which metrics, traffic records, log lines and traces are made.

Every call that comes, admitted or refused, ends in one record with an outcome, and so does each of its texts. Facts only:
characters are counted, and no text is kept unless the operator asked for it (`traffic.record_text`). The HTTP layer opens a
`RequestTrace`; the context variable `current` carries it to where calls end, so that nothing in between passes it on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import Literal, Protocol, TypeVar

from dragoman.errors import DragomanError
from dragoman.types import ANONYMOUS, Completion, EngineSequence, Translation, TranslationRequest, Usage

log = logging.getLogger("dragoman.service")

OK = "ok"
CANCELLED = "cancelled"
"""The outcome of what a client no longer waited for."""
FAILURES = frozenset({"internal_error", "engine_failed", "engine_dead"})
"""Outcomes that are the server's fault."""
CLIENT_CLOSED_REQUEST = 499
"""nginx's status for an answer that no client waited for."""


TextKind = Literal["interactive", "bulk", "document"]
"""Of a call with this priority, or of a document."""


@dataclass(frozen=True, slots=True)
class TextRecord:
    """One text that ended. `outcome` is "ok", "cancelled" or an error's code; what is not "ok" has no output.

    The times are those that the engine reports of the text's segments; None: it reports none.
    """

    request_id: str
    index: int  # its place in its call
    arrived_unix_s: float
    source: str | None  # as detected, where it was; None: neither given nor detected before the text ended
    target: str
    outcome: str
    e2e_s: float
    in_flight: int  # texts in flight when it arrived, its call's own included: those of documents, or those of calls
    source_characters: int
    source_tokens: int = 0
    prompt_tokens: int = 0  # including the template's
    output_tokens: int = 0
    queue_s: float | None = None  # the longest time in the engine's queue of its segments
    ttft_s: float | None = None  # from submission to the first token, of the segment that was first
    decode_s: float | None = None  # from the first to the last token, of the segment that took longest
    detected: bool = False
    finish_reason: str | None = None
    warnings: tuple[str, ...] = ()  # their codes
    retries: tuple[str, ...] = ()  # why segments were retried, one for each retry
    remembered: int = 0  # segments from a translation memory
    shown_characters: int = 0  # of examples that its prompts had besides: the call's, and similar entries of memories
    examples: int = 0  # that prompts of its segments had, in whose outputs the translation is
    text: str | None = field(default=None, repr=False)  # the source, where the recorder keeps it
    kind: TextKind = "interactive"


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call that ended, with all its texts."""

    request_id: str
    target: str
    outcome: str
    streamed: bool
    texts: tuple[TextRecord, ...]
    api: str = "native"  # `dragoman.types.ApiName`
    key_class: str = "none"  # "none", "operator", or the priority of the calls of the account
    is_chat: bool = False  # the model was given a chat's messages as they are


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """One document that is done or an error. `elapsed_s` is the time from its upload; its texts are those of bulk calls."""

    format: str  # of `wholetext.files.formats.FORMATS`
    outcome: str  # "ok" or an error's code
    characters: int  # of the texts to translate; 0 if the file was not read
    elapsed_s: float


# ---- HTTP requests


class SequenceSpan(Protocol):
    """The span of a sequence, which is told how that goes on."""

    def submit(self, sequence: EngineSequence) -> None: ...
    def complete(self, completion: Completion) -> None: ...


class RequestSpans(Protocol):
    """The spans of a traced request (`telemetry.tracing`). What is raised within one is its error."""

    def stage(self, name: str) -> AbstractContextManager[None]: ...
    def sequence(self) -> AbstractContextManager[SequenceSpan | None]: ...


@dataclass(slots=True)
class RequestTrace:
    """One HTTP request and its answer. Complete once `end` was called."""

    request_id: str
    method: str
    route: str | None = None  # the route's template, never the path as sent: that may hold anything
    status: int = 0  # 0: no answer has begun
    fault: str | None = None  # the error code in the answer
    trace_id: str | None = None
    key: str | None = None  # the id of the key that it was sent with, which may be expired or revoked; no secret
    client: str = ""  # its address, which the log of changes has alone
    is_abandoned: bool = False  # its client has disconnected
    began_unix_ns: int = field(default_factory=time.time_ns)
    began_s: float = field(default_factory=perf_counter)
    duration_s: float = 0.0
    outcome: str = OK  # "ok", "cancelled", or the code of what went wrong
    calls: list[CallRecord] = field(default_factory=list[CallRecord])
    spans: RequestSpans | None = None  # where it is traced

    def end(self) -> None:
        """Set duration, status and outcome: the last byte has been sent, or will not be."""
        self.duration_s = perf_counter() - self.began_s
        self.status = self.status or CLIENT_CLOSED_REQUEST
        failed = self.fault or next((call.outcome for call in self.calls if call.outcome != OK), None)
        if failed or self.status < 400:
            self.outcome = failed or OK
        else:
            self.outcome = CANCELLED if self.status == CLIENT_CLOSED_REQUEST else f"http_{self.status}"

    @property
    def texts(self) -> list[TextRecord]:
        """The texts of all calls."""
        return [text for call in self.calls for text in call.texts]


current: ContextVar[RequestTrace | None] = ContextVar("dragoman_request", default=None)
"""The request that this code, and the tasks that it starts, run for; None outside of any."""


def note_fault(code: str) -> None:
    """The current request, if there is one, is answered with this error code."""
    if (request := current.get()) is not None:
        request.fault = code


def note_abandoned() -> None:
    """The current request's client has disconnected before its answer."""
    if (request := current.get()) is not None:
        request.is_abandoned = True


_NO_SPAN = nullcontext()


def span(name: Literal["admission", "segment", "sequence"]) -> AbstractContextManager[SequenceSpan | None]:
    """A context manager that traces a stage of the current request. What is raised within is the span's error.

    It returns the span of a sequence, which is to be told when the sequence is submitted and complete. It does nothing and
    returns None where the request is not traced.
    """
    request = current.get()
    if request is None or request.spans is None:
        return _NO_SPAN
    return request.spans.sequence() if name == "sequence" else request.spans.stage(name)


# ---- calls

Record = TypeVar("Record")


def _notify(observers: Sequence[Callable[[Record], None]], record: Record) -> None:
    """Pass a record to each observer. A fault of one is logged, and does not cost a caller the translation."""
    for observe in observers:
        try:
            observe(record)
        except Exception:
            log.exception("%s failed on a record", getattr(observe, "__qualname__", observe))


class Pacer(Protocol):
    """Gives other calls the event loop from time to time."""

    async def pause(self) -> None: ...


@dataclass(eq=False, slots=True)
class CallTracker:
    """One call while it is in flight."""

    registry: CallRegistry = field(repr=False)
    request: TranslationRequest = field(repr=False)
    target: str  # a served tag, like `source`
    source: str | None
    in_flight: int  # texts when it arrived, its own included: those of documents, or those of calls
    ended: dict[int, TextRecord] = field(default_factory=dict[int, TextRecord])  # by their places
    arrived_unix_s: float = field(default_factory=time.time)
    began_s: float = field(default_factory=monotonic)
    shown_characters: int = 0  # of the call's examples that the prompt of each text has

    async def end_others(self, outcome: str) -> None:
        """End the texts without a translation with the call's outcome."""
        pace = self.registry.pace()
        for index in range(len(self.request.texts)):
            if index not in self.ended:
                self.done(index, None, outcome)
                await pace.pause()

    def done(self, index: int, translation: Translation | None, outcome: str = OK) -> int:
        """Make and pass on the record of text `index`, which has ended: of one without a translation little is known. Return
        how many characters of similar entries of memories its prompts had."""
        text = self.request.texts[index]
        examples = translation.examples if translation else ()
        similar = sum([len(one.source) + len(one.translation) for one in examples if one.similarity])
        usage, timings = (translation.usage, translation.timings) if translation else (Usage(), ())
        first_tokens_s = [one.queue_s + one.prefill_s for one in timings if one.prefill_s is not None]
        record = TextRecord(
            request_id=self.request.request_id,
            index=index,
            arrived_unix_s=self.arrived_unix_s,
            source=translation.source if translation else self.source,
            target=self.target,
            outcome=outcome,
            e2e_s=monotonic() - self.began_s,
            in_flight=self.in_flight,
            source_characters=len(text),
            source_tokens=usage.source_tokens,
            prompt_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
            queue_s=max([one.queue_s for one in timings], default=None),
            ttft_s=min(first_tokens_s, default=None),
            decode_s=max([one.decode_s for one in timings if one.decode_s is not None], default=None),
            detected=translation.detected if translation else False,
            finish_reason=translation.finish_reason if translation else None,
            warnings=tuple([warning.code for warning in translation.warnings]) if translation else (),
            retries=translation.retries if translation else (),
            remembered=translation.remembered if translation else 0,
            shown_characters=self.shown_characters + similar,
            examples=len(examples),
            text=text if self.registry.keep_text else None,
            kind="document" if self.request.is_document else self.request.priority,
        )
        self.ended[index] = record
        _notify(self.registry.text_observers, record)
        return similar


class CallRegistry:
    """Counts in-flight texts, and makes and passes on the record of each text and call that ends.

    `tag_of` returns the served tag for a caller's name of a language: records must hold no more tags than there are
    languages. The observers are called on the event loop, so they must be quick: those of texts as soon as a text has ended,
    those of calls when the call and all its texts have. `pace` is asked for time slices of a call that ends many texts.
    """

    def __init__(
        self,
        tag_of: Callable[[str], str],
        pace: Callable[[], Pacer],
        *,
        text_observers: Sequence[Callable[[TextRecord], None]] = (),
        call_observers: Sequence[Callable[[CallRecord], None]] = (),
        keep_text: bool = False,
    ) -> None:
        self.in_flight = 0  # texts; refused ones are included while they are refused
        self.in_flight_of_documents = 0  # of these
        self.tag_of = tag_of
        self.pace = pace
        self.text_observers = text_observers
        self.call_observers = call_observers
        self.keep_text = keep_text  # in records

    @asynccontextmanager
    async def call(self, request: TranslationRequest, *, streamed: bool) -> AsyncGenerator[CallTracker]:
        """Within: the call is in flight. What it raises is its outcome."""
        count, account, trace = len(request.texts), request.account, current.get()
        self.in_flight += count
        of_documents = count if request.is_document else 0
        self.in_flight_of_documents += of_documents
        of_kind = self.in_flight_of_documents if of_documents else self.in_flight - self.in_flight_of_documents
        of_key = "operator" if account.role == "operator" else account.priority
        key_class = "none" if account is ANONYMOUS else of_key  # few values, whatever the number of keys
        source = self.tag_of(request.source) if request.source else None
        tracker = CallTracker(self, request, self.tag_of(request.target), source, of_kind)
        outcome = CANCELLED
        try:
            yield tracker
            outcome = OK
        except DragomanError as error:
            outcome = error.code
            raise
        except Exception:
            outcome = DragomanError.code
            raise
        finally:
            self.in_flight -= count
            self.in_flight_of_documents -= of_documents
            if len(tracker.ended) < count:
                await tracker.end_others(outcome)
            record = CallRecord(
                request_id=request.request_id,
                target=tracker.target,
                outcome=outcome,
                streamed=streamed,
                texts=tuple([tracker.ended[index] for index in range(count)]),
                api=request.api,
                key_class=key_class,
                is_chat=request.chat is not None,
            )
            if trace is not None:
                trace.calls.append(record)
            _notify(self.call_observers, record)
