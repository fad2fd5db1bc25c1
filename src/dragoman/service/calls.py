"""Accounts for calls: every call that comes, admitted or refused, ends in one record with an outcome, and so does each text.

Knows when things began and ended and who is to be told; what is made of it is the observers' (`telemetry/`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from time import monotonic

from dragoman.errors import DragomanError
from dragoman.telemetry.calls import CANCELLED, OK, CallRecord, Observer, TextRecord
from dragoman.types import Translation, TranslationRequest

log = logging.getLogger("dragoman.service")
FAULT = "internal_error"

TagOf = Callable[[str], str]
"""The served tag for what a caller called a language: records must hold no more tags than there are languages."""


class CallTracker:
    """One call while it lasts."""

    def __init__(self, request: TranslationRequest, in_flight: int, tag_of: TagOf, *, keep_text: bool = False) -> None:
        self.request = request
        self._keep_text = keep_text
        self.target = tag_of(request.target)
        self.source = tag_of(request.source) if request.source else None
        self.in_flight = in_flight
        self.arrived_unix_s = time.time()
        self.admitted_s: float | None = None
        self._began_s = monotonic()
        self.ended: dict[int, TextRecord] = {}

    @property
    def e2e_s(self) -> float:
        return monotonic() - self._began_s

    def admitted(self) -> None:
        """It has its permit."""
        self.admitted_s = self.e2e_s

    def done(self, index: int, translation: Translation) -> TextRecord:
        """Text `index` is whole."""
        usage = translation.usage
        self.ended[index] = TextRecord(
            self.request.request_id,
            index,
            self.arrived_unix_s,
            translation.source,
            self.target,
            OK,
            self.e2e_s,
            self.in_flight,
            len(self.request.texts[index]),
            usage.source_tokens,
            usage.prompt_tokens,
            usage.completion_tokens,
            translation.detected,
            translation.finish_reason,
            len(translation.warnings),
            translation.timings,
            tuple(warning.code for warning in translation.warnings),
            translation.retries,
            text=self._text(index),
        )
        return self.ended[index]

    def missed(self, outcome: str) -> list[TextRecord]:
        """Those that did not end well, when the call has ended."""
        request = self.request
        missing = (index for index in range(len(request.texts)) if index not in self.ended)
        for index in missing:
            self.ended[index] = TextRecord(
                request.request_id,
                index,
                self.arrived_unix_s,
                self.source,
                self.target,
                outcome,
                self.e2e_s,
                self.in_flight,
                len(request.texts[index]),
                text=self._text(index),
            )
        return [record for record in self.ended.values() if not record.ok]

    def _text(self, index: int) -> str | None:
        return self.request.texts[index] if self._keep_text else None


class CallRegistry:
    """Counts the texts in the house and tells the observers of each that leaves."""

    def __init__(self, pipeline: str, observers: Sequence[Observer], tag_of: TagOf, *, keep_text: bool = False) -> None:
        self.in_flight = 0  # texts, refused ones included for the moment that refusing takes
        self._pipeline = pipeline
        self._observers = observers
        self._tag_of = tag_of
        self._keep_text = keep_text  # in records

    @contextmanager
    def call(self, request: TranslationRequest, *, streamed: bool) -> Generator[CallTracker]:
        """Within: the call is in the house. What it raises is its outcome."""
        self.in_flight += len(request.texts)
        account = CallTracker(request, self.in_flight, self._tag_of, keep_text=self._keep_text)
        outcome = CANCELLED
        try:
            yield account
            outcome = OK
        except DragomanError as error:
            outcome = error.code
            raise
        except Exception:
            outcome = FAULT
            raise
        finally:
            self.in_flight -= len(request.texts)
            self._close(account, outcome, streamed=streamed)

    def done(self, account: CallTracker, index: int, translation: Translation) -> None:
        """Text `index` of the call is whole."""
        self._tell_text(account.done(index, translation))

    def _close(self, account: CallTracker, outcome: str, *, streamed: bool) -> None:
        if outcome != OK:
            for record in account.missed(outcome):
                self._tell_text(record)
        request = account.request
        texts = tuple(record for _, record in sorted(account.ended.items()))
        call = CallRecord(
            request.request_id,
            account.arrived_unix_s,
            self._pipeline,
            account.target,
            outcome,
            account.e2e_s,
            streamed,
            texts,
            account.admitted_s,
        )
        for observer in self._observers:
            _guarded(observer, call)

    def _tell_text(self, record: TextRecord) -> None:
        for observer in self._observers:
            _guarded(observer, record)


def _guarded(observer: Observer, record: TextRecord | CallRecord) -> None:
    """A fault in the bookkeeping is logged, and does not cost a caller the translation."""
    try:
        if isinstance(record, TextRecord):
            observer.text_ended(record)
        else:
            observer.call_ended(record)
    except Exception:
        log.exception("%s failed on a record", type(observer).__name__)
