"""A pipeline that notes what became of each sequence, for the trace of the request that it belongs to.

Stands before any other pipeline while requests are traced, and only then. Changes nothing that passes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import time_ns
from types import TracebackType

from dragoman.errors import DragomanError, EngineDead
from dragoman.pipelines.base import Pipeline
from dragoman.telemetry import requests
from dragoman.telemetry.calls import CANCELLED
from dragoman.telemetry.engine import EngineStats
from dragoman.telemetry.requests import Interval, SequenceRecord
from dragoman.types import Completion, Delta, Sequence


class _Watch:
    """One sequence from submission to its end, noted once. Outside of a traced exchange: nothing."""

    def __init__(self, sequence: Sequence) -> None:
        exchange = requests.current()
        self._work = exchange.work if exchange is not None else None
        self._sequence = sequence
        self._began_unix_ns = time_ns()

    def __enter__(self) -> _Watch:
        return self

    def done(self, completion: Completion) -> None:
        """A stream may be left open after this, so the end is now."""
        self._note(completion.reason, completion)

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if isinstance(error, DragomanError):
            self._note(error.code, failed=True)
        elif isinstance(error, Exception):
            self._note(DragomanError.code, failed=True)
        else:
            self._note(CANCELLED)

    def _note(self, outcome: str, completion: Completion | None = None, *, failed: bool = False) -> None:
        work, self._work = self._work, None
        if work is None:
            return
        sequence = self._sequence
        work.add(
            SequenceRecord(
                sequence.id,
                Interval(self._began_unix_ns, time_ns()),
                work.encoded.pop(sequence.id, None),
                outcome,
                failed,
                sequence.max_tokens,
                completion.prompt_tokens if completion else len(sequence.prompt_token_ids),
                completion.completion_tokens if completion else 0,
                completion.timings if completion else None,
            )
        )


class WatchedPipeline:
    """The contract over another pipeline."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    @property
    def name(self) -> str:
        return self._pipeline.name

    @property
    def max_model_len(self) -> int:
        return self._pipeline.max_model_len

    async def start(self) -> None:
        await self._pipeline.start()

    async def generate(self, sequence: Sequence) -> Completion:
        with _Watch(sequence) as watch:
            completion = await self._pipeline.generate(sequence)
            watch.done(completion)
            return completion

    async def stream(self, sequence: Sequence) -> AsyncGenerator[Delta | Completion]:
        with _Watch(sequence) as watch:
            async with aclosing(self._pipeline.stream(sequence)) as items:
                async for item in items:
                    if isinstance(item, Completion):
                        watch.done(item)
                    yield item

    def stats(self) -> EngineStats:
        return self._pipeline.stats()

    async def check_health(self) -> None:
        await self._pipeline.check_health()

    async def crashed(self) -> EngineDead:
        return await self._pipeline.crashed()

    async def shutdown(self) -> None:
        await self._pipeline.shutdown()
