"""The heap of a started process: frozen, and freed of what died since."""

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
def thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(heap, "_settled", False)
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_a_heap_that_has_settled_is_not_walked_again() -> None:
    held = [Node() for _ in range(100)]
    assert not heap.is_heap_frozen()
    heap.freeze_heap()
    assert heap.is_heap_frozen()
    walked = {id(one) for one in gc.get_objects()}
    assert not any(id(one) in walked for one in held)


def test_what_died_since_is_freed_when_it_settles_again() -> None:
    node = Node()
    there = weakref.ref(node)
    heap.freeze_heap()
    del node
    gc.collect()
    assert there() is not None  # frozen garbage: an engine that died, say
    heap.freeze_heap()
    assert there() is None
