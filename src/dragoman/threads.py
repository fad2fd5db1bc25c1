"""Threads for blocking work, by kind: work of one kind waits for threads of its own, and never for work of another.

asyncio's default pool has a few threads for everything, so that one kind of work that waits, for a lock or a disk, would hold
up all.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
File = TypeVar("File", bound=BinaryIO | None)


class Threads:
    """At most `most` threads named after the kind of their work, started when they are needed."""

    def __init__(self, kind: str, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix=f"dragoman-{kind}")

    async def run(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run `work` in a thread, as `asyncio.to_thread`, and return its result. Cancelling does not end what runs."""
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, lambda: context.run(work, *arguments, **named)
        )

    async def open(self, opener: Callable[[], File]) -> File:
        """As `run`, of work that opens a file: if the task is cancelled, and so receives none, the file is closed."""
        opening = self._pool.submit(contextvars.copy_context().run, opener)
        try:
            return await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close)
            raise


def _close(opening: Future[File]) -> None:
    if not opening.cancelled() and opening.exception() is None and (file := opening.result()) is not None:
        file.close()


UPLOADS = Threads("uploads", 4)
"""Files that arrive."""
RESULTS = Threads("results", 4)
"""Files that are sent, and deleted."""
SEGMENTS = Threads("segments", 4)
"""Pages of what is stored of documents."""
EDITS = Threads("edits", 2)
"""Changes of documents' translations."""
RUNS = Threads("runs", 4)
"""What documents need while they are translated, and what sweeps and moves them."""
