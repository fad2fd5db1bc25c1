"""Worker processes of documents that stay from one test's server to the next's: most of what starting one takes is imports.

They are real ones, and what a task does it does in a process of its own, forked from them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from wholetext.files import worker
from wholetext.files.worker import Workers

MOST_KEPT = 3

_kept: list[tuple[object, subprocess.Popen[bytes]]] = []
"""Each with what it was started with; the first is the oldest."""


class KeptWorkers(Workers):
    """Takes the process of a server that has stopped, if it was started with the same settings and environment."""

    def _started_with(self) -> object:
        return self._memory_bytes, self._timeout_s, self._environment()

    def _start(self) -> subprocess.Popen[bytes]:
        for one in [one for one in _kept if one[0] == self._started_with()]:
            _kept.remove(one)
            if one[1].poll() is None:
                return one[1]
            worker.end(one[1])
        return super()._start()

    def close(self) -> None:
        with self._starting:
            idle, self._idle = self._idle, None
        super().close()
        if idle is not None:
            _kept.append((self._started_with(), idle))
            _end_all_but(MOST_KEPT)


def _end_all_but(number: int) -> None:
    while len(_kept) > number:
        worker.end(_kept.pop(0)[1])


@contextmanager
def kept_workers() -> Generator[None]:
    """Within: servers of this process have such workers, which end with it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(worker, "Workers", KeptWorkers)
        yield
    _end_all_but(0)
