"""The process's heap: how many arenas the C library has for it, and what the garbage collector skips.

After the start objects are frozen. vLLM, torch and a tokenizer's tables are half a million objects that never become garbage. A
full collection visits all of them, which stops every stream and delays the engine's next step. `vllm serve` freezes its heap
for the same reason.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os

ARENAS = 2
_M_ARENA_MAX = -8  # of glibc's malloc.h
_is_frozen = False  # not the count of frozen objects: Python 3.12 starts with some


def limit_arenas() -> None:
    """Have all threads of this process allocate from a few arenas; call it before there are threads.

    glibc has up to eight for each core, and memory that one thread has freed in its arena is of no use to the others: that of a
    server with forty threads grew for hours. Without glibc, or where MALLOC_ARENA_MAX says how many, nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_M_ARENA_MAX, ARENAS)


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
