"""The process's heap once it has started: what is there then is there for good, and the garbage collector leaves it alone.

vLLM, torch and a tokenizer's tables are half a million objects that never become garbage. The collector walks all of them now
and then, which stops every stream and holds the engine's next step. `vllm serve` freezes its heap for that reason too.
Knows nothing of what is on the heap.
"""

from __future__ import annotations

import atexit
import gc

_settled = False  # not the count of frozen objects: Python 3.12 starts with some


def freeze_heap() -> None:
    """Collect what is garbage and freeze the rest. Again after more was loaded: what died since the last time is freed.

    Holds the interpreter for some tenths of a second.
    """
    global _settled
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    if not _settled:
        atexit.register(gc.unfreeze)  # else Python leaves it all behind, and extension modules complain of leaks
    _settled = True


def is_heap_frozen() -> bool:
    """Whether `settle` was called in this process."""
    return _settled
