"""A fake engine that crashes on command: what it holds, what crashes it and how it starts are the test's to decide."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from dragoman.errors import EngineDead, EngineHung
from dragoman.pipelines.fake import FakePipeline
from dragoman.types import Completion, Delta, EngineSequence
from tests.pipelines.scripted import answer

HOLD, CRASH = 1000, 900
"""ModelTokens: wait for `gate` after the first word; crash the engine after the first word."""


class CrashingEngine(FakePipeline):
    """`runs` counts starts that succeeded, `ran` the sequences that began, in order."""

    def __init__(self, answer: Callable[[EngineSequence], str] = answer) -> None:
        super().__init__(answer)
        self.gate = asyncio.Event()
        self.may_start = asyncio.Event()  # cleared: starts hang
        self.may_start.set()
        self.failing_starts = 0
        self.starts = self.runs = 0
        self.ran: list[str] = []
        self.is_broken = False  # it crashes whatever it is given
        self._hung = asyncio.Event()

    async def start(self) -> None:
        self.starts += 1
        await self.may_start.wait()
        if self.failing_starts:
            self.failing_starts -= 1
            raise EngineDead("this start fails")
        self._crash, self._hung = asyncio.Event(), asyncio.Event()
        self._is_running = True
        self.runs += 1

    def crash(self) -> None:
        """`crashed` returns."""
        self._is_running = False
        self._crash.set()

    def hang(self) -> None:
        """`crashed` returns, while sequences go on waiting."""
        self._hung.set()

    async def crashed(self) -> EngineDead:
        await either(self._hung, self._crash)
        return EngineHung("the fake engine hangs") if self._hung.is_set() else EngineDead("the fake engine crashed")

    def crash_silently(self) -> None:
        """Only sequences and health checks notice."""
        self._is_running = False

    async def _decode(self, sequence: EngineSequence) -> AsyncGenerator[Delta | Completion]:
        self.ran.append(sequence.id)
        crash = self._crash  # of this run: the next one may have begun when the sequence goes on
        text = self._answer(sequence)
        for number, word in enumerate(text.split(" ")):
            if crash.is_set() or not self._is_running:
                raise EngineDead("the fake engine crashed")
            yield Delta(f" {word}" if number else word)
            if number == 0:
                await self._obey(sequence)
        yield Completion(text, "stop", len(sequence.prompt_token_ids), number + 1)

    async def _obey(self, sequence: EngineSequence) -> None:
        if self.is_broken or CRASH in sequence.prompt_token_ids:
            self.crash()
        if HOLD in sequence.prompt_token_ids:
            await either(self.gate, self._crash)

    async def shutdown(self) -> None:
        self.crash()


async def either(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
