"""Where commands print: answers to stdout, all else (progress, logs, errors) to stderr."""

from __future__ import annotations

import json
import logging
import os
from typing import Literal

from rich.console import Console

console = Console()
error_console = Console(stderr=True)


def steady_error_console() -> Console:
    """A console on a copy of today's stderr: it still reaches the user while file descriptor 2 points elsewhere."""
    copy = os.fdopen(os.dup(2), "w", encoding="utf-8", buffering=1)
    return Console(file=copy, force_terminal=error_console.is_terminal, width=error_console.width)


class _Human(logging.Handler):
    """Plain lines, warnings in colour."""

    def __init__(self, target: Console) -> None:
        super().__init__()
        self._target = target

    def emit(self, record: logging.LogRecord) -> None:
        style = "red" if record.levelno >= logging.ERROR else "yellow" if record.levelno >= logging.WARNING else ""
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        self._target.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


class _Json(_Human):
    """One JSON object a line; `extra={"fields": {...}}` joins it."""

    def emit(self, record: logging.LogRecord) -> None:
        said: dict[str, object] = {
            "time": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            said["traceback"] = logging.Formatter().formatException(record.exc_info)
        self._target.file.write(json.dumps(said, ensure_ascii=False, default=str) + "\n")


def configure_logging(level: str, style: Literal["human", "json"], target: Console) -> None:
    """Send dragoman's and uvicorn's logs to `target`."""
    handler = _Json(target) if style == "json" else _Human(target)
    for name in ("dragoman", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel((level if name == "dragoman" else "warning").upper())
