"""Where commands print: answers to stdout, all else (progress, logs, errors) to stderr."""

from __future__ import annotations

import os

from rich.console import Console

console = Console()
error_console = Console(stderr=True)


def steady_error_console() -> Console:
    """A console on a copy of today's stderr: it still reaches the user while file descriptor 2 points elsewhere."""
    copy = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    return Console(file=copy, force_terminal=error_console.is_terminal, width=error_console.width)
