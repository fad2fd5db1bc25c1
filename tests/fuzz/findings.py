"""What a parser must not do: the judge of both commands. Imports no parser, so that these may be instrumented first."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fuzz.targets import Target

LONGEST_S = 20.0
"""Of CPU time that a case may take; a worker has `documents.worker_timeout_s` for a file."""
MEMORY_BYTES = 6 * 2**30
"""Of address space, of a process that runs cases."""
COLLECTS_EVERY = 200
"""Cases after which garbage is collected: exceptions hold what they came through."""


class TooLong(BaseException):
    """A case has used up its CPU time. No parser's `except Exception` may hide it."""


def _too_long(_: int, __: FrameType | None) -> None:
    raise TooLong(f"more than {LONGEST_S:g} s of CPU time")


def finding(target: Target, data: bytes) -> BaseException | None:
    """What a parser must not do with bytes; None: it has read or refused them."""
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    try:
        target.parse(data)
    except target.refusals:
        return None
    except (Exception, TooLong) as error:  # noqa: BLE001 - it is what is looked for
        return error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def place_of(error: BaseException) -> str:
    """File and line where it was raised."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame is not None else ""


def file_name(target: str) -> str:
    """Of a target's files."""
    return re.sub(r"\W+", "-", target).strip("-")
