"""`fake`: a pipeline without an engine, for tests of everything above the engine and for measuring the server's overhead.

It answers by a given function (by default with the prompt's own token ids as words; `dragoman serve` gives one whose answers
pass the checks), one step at a time, in slots, so that queueing, streaming and cancellation behave as they do over an engine.
It translates nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from time import monotonic

from dragoman.errors import EngineDead
from dragoman.telemetry.engine import EngineGauge
from dragoman.types import Completion, Delta, EngineSequence, Timings, TokenLogprobs
from dragoman.wire import EngineStats

Answer = Callable[[EngineSequence], str]


def _echo(sequence: EngineSequence) -> str:
    return " ".join(map(str, sequence.prompt_token_ids))


class FakePipeline:
    """Answers word by word: one word is one token and takes one step of `step_s`."""

    name = "fake"

    def __init__(
        self,
        answer: Answer = _echo,
        *,
        step_s: float = 0.0,
        slots: int = 256,
        max_model_len: int = 1024,
        logprobs: TokenLogprobs | None = None,
    ) -> None:
        """`logprobs`: of every answer."""
        self._logprobs = logprobs
        self._answer = answer
        self._step_s = step_s
        self._slots = asyncio.Semaphore(slots)
        self._gauge = EngineGauge()
        self._running = 0
        self._waiting = 0
        self._is_running = False
        self._crash = asyncio.Event()  # set only by tests
        self.max_model_len = max_model_len

    async def start(self) -> None:
        self._is_running = True

    async def generate(self, sequence: EngineSequence) -> Completion:
        completion: Completion | None = None
        # To the stream's end: the slot is free when the answer is returned, not some time after.
        async for item in self.stream(sequence):
            if isinstance(item, Completion):
                completion = item
        if completion is None:
            raise EngineDead("the fake engine ended a sequence without an answer")
        return completion

    async def stream(self, sequence: EngineSequence) -> AsyncGenerator[Delta | Completion]:
        self._waiting += 1
        self._report()
        submitted_s = monotonic()
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
            self._report()
        self._running += 1
        self._report()
        began_s, first_s, last_s = monotonic(), 0.0, 0.0
        try:
            async for item in self._decode(sequence):
                if not first_s:
                    first_s = last_s = monotonic()
                    self._gauge.latencies([first_s - submitted_s], [])
                elif isinstance(item, Delta):
                    before_s, last_s = last_s, monotonic()
                    self._gauge.latencies([], [last_s - before_s])
                if isinstance(item, Completion):
                    timings = Timings(began_s - submitted_s, first_s - began_s, monotonic() - first_s)
                    item = replace(item, timings=timings)
                yield item
        finally:
            self._running -= 1
            self._slots.release()
            self._report()

    async def _decode(self, sequence: EngineSequence) -> AsyncGenerator[Delta | Completion]:
        words = self._answer(sequence).split(" ")
        generated = words[: sequence.max_tokens]
        if not self._is_running:
            raise EngineDead("the fake engine is not running")
        if not self._step_s:  # as fast as can be, for measuring what is above the engine
            await asyncio.sleep(0)
            yield Delta(" ".join(generated))
        for number, word in enumerate(generated if self._step_s else ()):
            await self._step(number)
            if not self._is_running:
                raise EngineDead("the fake engine is not running")
            yield Delta(word if number == 0 else f" {word}")
        self._gauge.stats.finished += 1
        self._gauge.stats.steps += len(generated) if self._step_s else 1
        self._gauge.stats.prompt_tokens += len(sequence.prompt_token_ids)
        self._gauge.stats.completion_tokens += len(generated)
        reason = "stop" if len(generated) == len(words) else "length"
        yield Completion(
            " ".join(generated),
            reason,
            prompt_tokens=len(sequence.prompt_token_ids),
            completion_tokens=len(generated),
            logprobs=self._logprobs,
        )

    async def _step(self, number: int) -> None:
        """The step in which a sequence's word `number`, from 0, is generated."""
        await asyncio.sleep(self._step_s)

    def _report(self) -> None:
        self._gauge.load(self._running, self._waiting, 0.0)

    def stats(self) -> EngineStats:
        return self._gauge.snapshot()

    async def check_health(self) -> None:
        if not self._is_running:
            raise EngineDead("the fake engine is not running")

    async def crashed(self) -> EngineDead:
        await self._crash.wait()
        return EngineDead("the fake engine crashed")

    async def shutdown(self) -> None:
        self._is_running = False
