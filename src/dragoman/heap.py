"""Freezes the process's heap after its start, so that the garbage collector skips permanent objects.

vLLM, torch and a tokenizer's tables are half a million objects that never become garbage. A full collection visits all of
them, which stops every stream and delays the engine's next step. `vllm serve` freezes its heap for the same reason.
"""

from __future__ import annotations

import atexit
import gc

_is_frozen = False  # not the count of frozen objects: Python 3.12 starts with some


def freeze_heap() -> None:
    """Collect garbage and freeze all other objects. Call it again after more was loaded, which also frees new garbage.

    It blocks the interpreter for some tenths of a second.
    """
    global _is_frozen
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    if not _is_frozen:
        atexit.register(
            gc.unfreeze
        )  # so that Python frees the objects at exit; extension modules report leaks otherwise
    _is_frozen = True


def is_heap_frozen() -> bool:
    """Whether `freeze_heap` was called in this process."""
    return _is_frozen
