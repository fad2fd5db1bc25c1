"""The process's heap once it has started: the objects are permanent, and the garbage collector is kept from walking them.

vLLM, torch and a tokenizer's tables are half a million objects that never become garbage. The collector walks all of them now
and then, which stops every stream and holds the engine's next step. `vllm serve` freezes its heap for that reason too.
"""

from __future__ import annotations

import atexit
import gc

_is_frozen = False  # not the count of frozen objects: Python 3.12 starts with some


def freeze_heap() -> None:
    """Collect what is garbage and freeze the rest. Again after more was loaded: what has become garbage since is freed.

    Holds the interpreter for some tenths of a second.
    """
    global _is_frozen
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    if not _is_frozen:
        atexit.register(gc.unfreeze)  # else Python leaves it all behind, and extension modules complain of leaks
    _is_frozen = True


def is_heap_frozen() -> bool:
    """Whether `freeze_heap` was called in this process."""
    return _is_frozen
