"""`fake`: a pipeline without an engine, for tests of everything above the engine and for measuring the server's overhead.

It answers by a given function (by default with the prompt's own token ids as words; `dragoman serve` gives one whose answers
pass the checks), one step at a time, in slots, so that queueing, streaming and cancellation behave as they do over an engine.
It translates nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from dragoman.errors import EngineDead
from dragoman.telemetry.engine import EngineGauge
from dragoman.types import Completion, Delta, EngineSequence, Timings, TokenLogprobs
from dragoman.wire import EngineStats
from wholetext.markup.spans import pseudolocalized

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Answer = Callable[[EngineSequence], str]


def _echo(sequence: EngineSequence) -> str:
    return " ".join(map(str, sequence.prompt_token_ids))


def circling(tokenizer: Tokenizer) -> Answer:
    """Return an answer that is the prompt's text, changed so that it passes the checks.

    An answer with a finding would be generated again, and the overhead of the server would be measured twice.
    """
    return lambda sequence: pseudolocalized(tokenizer.decode(sequence.prompt_token_ids, skip_special_tokens=True))


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
        stream_interval_s: float = 0.0,
    ) -> None:
        """`logprobs`: of every answer. `stream_interval_s`: a delta after the first has the words of about so much time."""
        self._logprobs = logprobs
        self._answer = answer
        self._step_s = step_s
        self._words_of_delta = max(round(stream_interval_s / step_s), 1) if step_s else 1
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
        # To the stream's end: the slot is free when the answer is returned, not some time after.
        *_, completion = [item async for item in self.stream(sequence)]
        assert isinstance(completion, Completion)
        return completion

    async def stream(self, sequence: EngineSequence) -> AsyncGenerator[Delta | Completion]:
        submitted_s = monotonic()
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        self._running += 1
        self._gauge.load(self._running, self._waiting, 0.0)
        began_s, first_s = monotonic(), 0.0
        try:
            async with aclosing(self._decode(sequence)) as items:
                async for item in items:
                    first_s = first_s or monotonic()
                    if isinstance(item, Completion):
                        decode_s = monotonic() - first_s
                        timings = Timings(began_s - submitted_s, first_s - began_s, decode_s)
                        item = replace(item, timings=timings)
                        steps = item.completion_tokens - 1
                        self._gauge.latencies([first_s - submitted_s], [decode_s / steps] if steps > 0 else [])
                    yield item
        finally:
            self._running -= 1
            self._slots.release()
            self._gauge.load(self._running, self._waiting, 0.0)

    async def _decode(self, sequence: EngineSequence) -> AsyncGenerator[Delta | Completion]:
        words = self._answer(sequence).split(" ")
        generated = words[: sequence.max_tokens]
        if not self._is_running:
            raise EngineDead("the fake engine is not running")
        if not self._step_s:  # as fast as can be, for measuring what is above the engine
            await asyncio.sleep(0)
            yield Delta(" ".join(generated))
        sent = 0
        while self._step_s and sent < len(generated):
            ended = min(sent + self._words_of_delta, len(generated)) if sent else 1
            await self._steps(sent, ended)
            if not self._is_running:
                raise EngineDead("the fake engine is not running")
            yield Delta(" ".join(["", *generated[sent:ended]] if sent else generated[:ended]))
            sent = ended
        stats = self._gauge.stats
        stats.finished += 1
        stats.steps += len(generated) if self._step_s else 1
        stats.prompt_tokens += len(sequence.prompt_token_ids)
        stats.completion_tokens += len(generated)
        yield Completion(
            " ".join(generated),
            "stop" if len(generated) == len(words) else "length",
            prompt_tokens=len(sequence.prompt_token_ids),
            completion_tokens=len(generated),
            logprobs=self._logprobs,
        )

    async def _steps(self, first: int, end: int) -> None:
        """The steps in which a sequence's words from `first` (the first of all is 0), and before `end`, are generated."""
        await asyncio.sleep(self._step_s * (end - first))

    def stats(self) -> EngineStats:
        self._gauge.load(self._running, self._waiting, 0.0)
        return self._gauge.snapshot()

    async def check_health(self) -> None:
        if not self._is_running:
            raise EngineDead("the fake engine is not running")

    async def crashed(self) -> EngineDead:
        await self._crash.wait()
        return EngineDead("the fake engine crashed")

    async def shutdown(self) -> None:
        self._is_running = False
