"""Where commands print: answers to stdout, all else (progress, logs, errors) to stderr.

Names, paths and texts are printed as they are, so that no string is markup: what has a colour is a `Text` or has a `style`.
"""

from __future__ import annotations

import os

from rich.console import Console

console = Console(markup=False, emoji=False)
error_console = Console(stderr=True, markup=False, emoji=False)


def steady_error_console() -> Console:
    """A console on a copy of today's stderr: it still reaches the user while file descriptor 2 points elsewhere."""
    copy = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    return Console(
        file=copy, force_terminal=error_console.is_terminal, width=error_console.width, markup=False, emoji=False
    )
