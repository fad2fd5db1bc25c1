"""The heap of a started process: frozen, and freed of later garbage."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from dragoman import heap


class Node:
    """Garbage that only the collector can see: it holds itself."""

    def __init__(self) -> None:
        self.self = self


@pytest.fixture(autouse=True)
def unfrozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(heap, "_is_frozen", False)
    gc.unfreeze()
    yield
    gc.freeze()  # as it was for all tests


def test_a_frozen_heap_is_not_walked_again() -> None:
    held = [Node() for _ in range(100)]
    assert not heap.is_heap_frozen()
    heap.freeze_heap()
    assert heap.is_heap_frozen()
    walked = {id(one) for one in gc.get_objects()}
    assert not any(id(one) in walked for one in held)


def test_later_garbage_is_freed_when_the_heap_is_frozen_again() -> None:
    node = Node()
    there = weakref.ref(node)
    heap.freeze_heap()
    del node
    gc.collect()
    assert there() is not None  # frozen garbage: such as an engine that crashed
    heap.freeze_heap()
    assert there() is None


_ARENAS = """
import ctypes, os, sys, tempfile
from threading import Barrier, Thread
from dragoman.heap import limit_arenas
if sys.argv[1] == "limited":
    limit_arenas()
barrier = Barrier(9)
def allocate():
    ctypes.CDLL(None).malloc(1000)
    barrier.wait()
threads = [Thread(target=allocate) for _ in range(8)]
for one in threads:
    one.start()
barrier.wait()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
with tempfile.TemporaryFile() as file:
    stream = ctypes.c_void_p(libc.fdopen(os.dup(file.fileno()), b"w"))
    libc.malloc_info(0, stream)
    libc.fflush(stream)
    file.seek(0)
    print(file.read().count(b"<heap "))
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="the C library is not glibc")
def test_threads_share_a_few_arenas() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}

    def arenas(mode: str) -> int:
        command = [sys.executable, "-c", _ARENAS, mode]
        return int(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)

    assert arenas("limited") <= heap.ARENAS < arenas("unlimited")
