"""`continuous`, the product: `AsyncLLM` in the event loop.

Every sequence is submitted at once and the engine decides, step by step, which run: a sequence that ends leaves its slot
to one that waits while all others go on decoding.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from dragoman.engine.async_engine import AsyncEngine
from dragoman.errors import EngineDead
from dragoman.telemetry.engine import EngineStats
from dragoman.types import Completion, Delta, Sequence


class ContinuousPipeline:
    """The contract over one `AsyncEngine`, with nothing in between."""

    name = "continuous"

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    @property
    def max_model_len(self) -> int:
        return self._engine.max_model_len

    async def start(self) -> None:
        await self._engine.start()

    async def generate(self, sequence: Sequence) -> Completion:
        return await self._engine.generate(sequence)

    def stream(self, sequence: Sequence) -> AsyncGenerator[Delta | Completion]:
        return self._engine.stream(sequence)

    def stats(self) -> EngineStats:
        return self._engine.stats()

    async def check_health(self) -> None:
        await self._engine.check_health()

    async def died(self) -> EngineDead:
        return await self._engine.died()

    async def shutdown(self) -> None:
        await self._engine.shutdown()
