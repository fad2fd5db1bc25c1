"""Why a server did not start, or died: the one line of its log that tells.

Engines end with pages of tracebacks, whose last line often says no more than that something failed before it. Knows logs as
text; nothing of who wrote them.
"""

from __future__ import annotations

import re
from pathlib import Path

_LONGEST = 300  # characters of a reason
_RAISED = re.compile(r"\b((?:\w+\.)*\w*(?:Error|Exception|Interrupt): \S.*)$")
_MEMORY = re.compile(
    r"out of memory|no available memory|memory runs out|cannot allocate|free memory on device|KV cache .*(?:needed|larger)|"
    r"\bOOM\b",
    re.IGNORECASE,
)
_SECOND_HAND = re.compile(r"initialization failed|root cause|engine did not start", re.I)
_KILLED = re.compile(r"exit code -9\b")


def told_by(message: str, *logs: Path) -> str:
    """A `ServerFault`'s message in one line: what happened, and what its logs say of why."""
    happened, *rest = message.splitlines()
    texts = [_text(log) for log in logs]
    cause = next((found for text in (*texts, message) if (found := root_cause(text))), None)
    if cause is None and _KILLED.search(happened):
        cause = "killed by the system, which it does when memory runs out"
    cause = cause or (rest[-1].strip() if rest else "")
    return _short(f"{happened}: {cause}" if cause and cause not in happened else happened)


def root_cause(log: str) -> str | None:
    """The last line about memory; else the last exception that does not point at another; None where there is none."""
    raised = [found[1].strip() for line in log.splitlines() if (found := _RAISED.search(line))]
    about_memory = [line for line in raised if _MEMORY.search(line)]
    first_hand = [line for line in raised if not _SECOND_HAND.search(line)]
    return next((lines[-1] for lines in (about_memory, first_hand, raised) if lines), None)


def about_memory(reason: str) -> bool:
    """Whether what failed lacked memory."""
    return _MEMORY.search(reason) is not None


def _text(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _short(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
