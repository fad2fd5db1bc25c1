"""The contract between the service and whatever runs sequences.

A pipeline takes token ids and gives text. It knows nothing of languages, of HTTP or of admission: its callers have already
decided that the work shall be done. Every sequence handed to a pipeline ends in exactly one `Completion` or one
`DragomanError` (`EngineRejected`, `EngineFailed`, `EngineDead`, or `QueueFull` of an engine elsewhere); cancelling the
awaiting task, or closing the iterator, frees what the sequence held.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Protocol

from dragoman.engine.spec import EngineSpec
from dragoman.errors import EngineDead
from dragoman.settings import Settings
from dragoman.types import Completion, Delta, EngineSequence
from dragoman.wire import EngineStats


class Engine(Protocol):
    """Runs sequences. Built cheaply; `start` does the work, and works again after `shutdown`."""

    @property
    def max_model_len(self) -> int:
        """Tokens that prompt and output share. Known after `start`."""
        ...

    async def start(self) -> None:
        """Start the engine. Raises `EngineDead` or `ConfigError` when it cannot."""
        ...

    async def generate(self, sequence: EngineSequence) -> Completion: ...

    def stream(self, sequence: EngineSequence) -> AsyncGenerator[Delta | Completion]:
        """Deltas as they are generated (an engine that cannot stream gives one), then exactly one `Completion`."""
        ...

    def stats(self) -> EngineStats: ...

    async def check_health(self) -> None:
        """Raise `EngineDead` when no sequence could be served, `EngineRestarting` when one would have to wait for that."""
        ...

    async def crashed(self) -> EngineDead:
        """Once it has started: return, with the reason, when it has crashed and will not restart by itself.

        `shutdown` is no crash: what awaits this then goes on waiting.
        """
        ...

    async def shutdown(self) -> None:
        """Stop, ending what is still running with `EngineDead`. Safe to call twice, and before `start`."""
        ...


class Pipeline(Engine, Protocol):
    """One way of feeding an engine, such as `continuous`."""

    @property
    def name(self) -> str: ...


class PipelineFactory(Protocol):
    """What a package registers, by the pipeline's name, as an entry point of the group `dragoman.pipelines`."""

    def __call__(self, settings: Settings, spec: EngineSpec, log_file: Path | None, /) -> Pipeline:
        """Build the pipeline, and start nothing yet. What its engines write goes to `log_file`; None: to the terminal."""
        ...
