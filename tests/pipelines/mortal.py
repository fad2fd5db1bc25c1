"""A fake engine that dies on command: what it holds, what kills it and how it starts are the test's to say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from dragoman.errors import EngineDead
from dragoman.pipelines.fake import FakePipeline
from dragoman.types import Completion, Delta, Sequence
from tests.pipelines.scripted import answer

HOLD, KILL = 1000, 900
"""Tokens: wait for `gate` after the first word; kill the engine after the first word."""


class MortalPipeline(FakePipeline):
    """`lives` counts starts that succeeded, `ran` the sequences that began, in order."""

    def __init__(self, answer: Callable[[Sequence], str] = answer) -> None:
        super().__init__(answer)
        self.gate = asyncio.Event()
        self.starting = asyncio.Event()  # cleared: starts hang
        self.starting.set()
        self.failing_starts = 0
        self.starts = self.lives = 0
        self.ran: list[str] = []

    async def start(self) -> None:
        self.starts += 1
        await self.starting.wait()
        if self.failing_starts:
            self.failing_starts -= 1
            raise EngineDead("told not to start")
        self._dead = asyncio.Event()
        self._alive = True
        self.lives += 1

    def die(self) -> None:
        """With a word to whoever watches."""
        self._alive = False
        self._dead.set()

    def die_unseen(self) -> None:
        """Only those that use it notice."""
        self._alive = False

    async def _decode(self, sequence: Sequence) -> AsyncGenerator[Delta | Completion]:
        self.ran.append(sequence.id)
        text = self._answer(sequence)
        for number, word in enumerate(text.split(" ")):
            if not self._alive:
                raise EngineDead("the fake engine died")
            yield Delta(f" {word}" if number else word)
            if number == 0:
                await self._obey(sequence)
        yield Completion(text, "stop", len(sequence.prompt_token_ids), number + 1)

    async def _obey(self, sequence: Sequence) -> None:
        if KILL in sequence.prompt_token_ids:
            self.die()
        if HOLD in sequence.prompt_token_ids:
            waits = [asyncio.create_task(event.wait()) for event in (self.gate, self._dead)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()

    async def shutdown(self) -> None:
        self.die()
