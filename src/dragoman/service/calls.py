"""Records of calls: every call that comes, admitted or refused, ends in one record with an outcome, and so does each text.

Knows when they began and ended and which observers to notify (`dragoman.telemetry`), not what those do with it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from time import monotonic

from dragoman.errors import DragomanError
from dragoman.service.dispatcher import LoopTurns, TimeSlices
from dragoman.telemetry.requests import CANCELLED, OK, CallRecord, RecordObserver, TextRecord
from dragoman.types import ANONYMOUS, Account, Translation, TranslationRequest

log = logging.getLogger("dragoman.service")

TagOf = Callable[[str], str]
"""The served tag for a caller's name of a language: records must hold no more tags than there are languages."""


class CallTracker:
    """One call while it is in flight."""

    def __init__(self, registry: CallRegistry, request: TranslationRequest) -> None:
        self.ended: dict[int, TextRecord] = {}
        self._registry = registry
        self._request = request
        self._target = registry.tag_of(request.target)
        self._source = registry.tag_of(request.source) if request.source else None
        self._in_flight = registry.in_flight
        self._arrived_unix_s = time.time()
        self._began_s = monotonic()

    def done(self, index: int, translation: Translation) -> None:
        """Text `index` is translated."""
        usage = translation.usage
        self._end(
            replace(
                self._record(index, OK),
                source=translation.source,
                source_tokens=usage.source_tokens,
                prompt_tokens=usage.prompt_tokens,
                output_tokens=usage.completion_tokens,
                detected=translation.detected,
                finish_reason=translation.finish_reason,
                timings=translation.timings,
                warnings=tuple(warning.code for warning in translation.warnings),
                retries=translation.retries,
            )
        )

    async def close(self, outcome: str, pace: TimeSlices, *, streamed: bool) -> None:
        """The call has ended: the texts without a translation end with its outcome."""
        request = self._request
        for index in range(len(request.texts)) if len(self.ended) < len(request.texts) else ():
            if index in self.ended:
                continue
            self._end(self._record(index, outcome))
            await pace.pause()
        record = CallRecord(
            request_id=request.request_id,
            arrived_unix_s=self._arrived_unix_s,
            pipeline=self._registry.pipeline,
            target=self._target,
            outcome=outcome,
            e2e_s=monotonic() - self._began_s,
            streamed=streamed,
            texts=tuple(self.ended[index] for index in range(len(request.texts))),
            api=request.api,
            key_class=_key_class(request.account),
        )
        self._registry.notify(record)

    def _end(self, record: TextRecord) -> None:
        self.ended[record.index] = record
        self._registry.notify(record)

    def _record(self, index: int, outcome: str) -> TextRecord:
        """What is known of a text without its translation."""
        text = self._request.texts[index]
        return TextRecord(
            request_id=self._request.request_id,
            index=index,
            arrived_unix_s=self._arrived_unix_s,
            source=self._source,
            target=self._target,
            outcome=outcome,
            e2e_s=monotonic() - self._began_s,
            in_flight=self._in_flight,
            source_characters=len(text),
            text=text if self._registry.keep_text else None,
        )


def _key_class(account: Account) -> str:
    """A label of few values, whatever the number of keys."""
    if account is ANONYMOUS:
        return "none"
    return "operator" if account.role == "operator" else account.priority


class CallRegistry:
    """Counts in-flight texts and notifies the observers of each that ends."""

    def __init__(
        self,
        pipeline: str,
        observers: Sequence[RecordObserver],
        tag_of: TagOf,
        turns: LoopTurns,
        *,
        keep_text: bool = False,
    ) -> None:
        self.in_flight = 0  # texts; refused ones are included while they are refused
        self.pipeline = pipeline
        self.tag_of = tag_of
        self.keep_text = keep_text  # in records
        self._observers = observers
        self._turns = turns

    @asynccontextmanager
    async def call(self, request: TranslationRequest, *, streamed: bool) -> AsyncGenerator[CallTracker]:
        """Within: the call is in flight. What it raises is its outcome."""
        self.in_flight += len(request.texts)
        tracker = CallTracker(self, request)
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
            self.in_flight -= len(request.texts)
            await tracker.close(outcome, TimeSlices(self._turns), streamed=streamed)

    def notify(self, record: TextRecord | CallRecord) -> None:
        """Pass a record to each observer. A fault of one is logged, and does not cost a caller the translation."""
        for observer in self._observers:
            try:
                if isinstance(record, TextRecord):
                    observer.text_ended(record)
                else:
                    observer.call_ended(record)
            except Exception:
                log.exception("%s failed on a record", type(observer).__name__)
