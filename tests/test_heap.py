"""The heap of a started process: frozen, and freed of later garbage."""

from __future__ import annotations

import gc
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
    gc.unfreeze()


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
