"""vLLM's two error families made ours.

0.26 raises `VLLMValidationError(ValueError)` and plain `ValueError`; 0.32 raises `VLLMClientError` (no `ValueError`), wraps
what is left as `EngineGenerateError`, and refuses overflow with `GracefulHTTPError`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from vllm import exceptions as vllm_exceptions
from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

from dragoman.errors import EngineDead, EngineFailed, EngineRejected, Unavailable

CRASHED = "the engine died"
_NAMES = ("VLLMClientError", "VLLMValidationError")
_REFUSALS: tuple[type[Exception], ...] = (
    ValueError,
    *(getattr(vllm_exceptions, name) for name in _NAMES if hasattr(vllm_exceptions, name)),
)
_OVERFLOW: tuple[type[Exception], ...] = tuple(
    getattr(vllm_exceptions, name) for name in ("GracefulHTTPError",) if hasattr(vllm_exceptions, name)
)


@contextmanager
def translated(is_dead: Callable[[], bool] = lambda: False) -> Generator[None]:
    """Within, vLLM's errors leave as `EngineDead`, `EngineRejected`, `EngineFailed` or `Unavailable`.

    What goes wrong with a sequence while the engine `is_dead` goes wrong for that reason: a closed socket, say.
    """
    try:
        yield
    except EngineDeadError as error:
        raise EngineDead(CRASHED) from error
    except EngineGenerateError as error:
        if is_dead():
            raise EngineDead(CRASHED) from error
        raise EngineFailed(f"the engine failed on this sequence: {error.__cause__ or error}") from error
    except _OVERFLOW as error:
        raise Unavailable(f"the engine refused the sequence: {error}") from error
    except _REFUSALS as error:
        raise EngineRejected(f"the engine refused the sequence: {error}") from error
