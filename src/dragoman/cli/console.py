"""Consoles of the commands: results go to stdout, everything else (progress, logs, errors) to stderr.

Strings are never read as markup, so that names, paths and texts are printed unchanged; use a `Text` or `style` for colours.
"""

from __future__ import annotations

import os

from rich.console import Console

console = Console(markup=False, emoji=False)
error_console = Console(stderr=True, markup=False, emoji=False)


def say(line: str) -> None:
    """Print a line about what was done to stderr, as it is."""
    error_console.print(line, highlight=False, soft_wrap=True)


def steady_error_console() -> Console:
    """Return a console on a copy of stderr, which still works after file descriptor 2 is redirected."""
    copy = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    return Console(
        file=copy, force_terminal=error_console.is_terminal, width=error_console.width, markup=False, emoji=False
    )
