"""Where log records go: lines for people, or one JSON object a line for machines. Set up by commands, never on import.

A record made while a request is served carries the request's id.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Literal

from rich.console import Console

from dragoman.telemetry import requests

_OURS = "dragoman"
_OTHERS = ("uvicorn", "asyncio", "opentelemetry", "py.warnings")
"""Libraries whose warnings an operator has to see."""


def _request_id(record: logging.LogRecord) -> str | None:
    exchange = requests.current()
    return exchange.request_id if exchange is not None and not hasattr(record, "fields") else None


class JsonFormatter(logging.Formatter):
    """`extra={"fields": {...}}` joins the object; `extra={"event": ...}` replaces a message that only repeats them."""

    def __init__(self, *, replica: str = "") -> None:
        super().__init__()
        self._replica = replica

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": getattr(record, "event", None) or record.getMessage(),
        }
        if self._replica:
            fields["replica"] = self._replica
        if request_id := _request_id(record):
            fields["request_id"] = request_id
        fields |= getattr(record, "fields", {})
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, default=str)


class HumanFormatter(logging.Formatter):
    """The message; before it the time of day, where lines come over hours, and which of several replicas it is of."""

    def __init__(self, *, timed: bool, replica: str = "") -> None:
        super().__init__()
        self._timed = timed
        self._replica = replica

    def format(self, record: logging.LogRecord) -> str:
        text = f"[{self._replica}] {record.getMessage()}" if self._replica else record.getMessage()
        if self._timed:
            text = f"{self.formatTime(record, '%H:%M:%S')} {text}"
        if request_id := _request_id(record):
            text += f" (request {request_id})"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


class _Terminal(logging.Handler):
    """Warnings in colour, and nothing in the way of a progress bar: for terminals only, being slow."""

    def __init__(self, target: Console) -> None:
        super().__init__()
        self._target = target

    def emit(self, record: logging.LogRecord) -> None:
        style = "red" if record.levelno >= logging.ERROR else "yellow" if record.levelno >= logging.WARNING else ""
        try:
            self._target.print(self.format(record), style=style, markup=False, highlight=False, soft_wrap=True)
        except (OSError, ValueError):  # the terminal is gone
            self.handleError(record)


def configure_logging(
    level: str, style: Literal["human", "json"], target: Console, *, timed: bool = False, replica: str = ""
) -> None:
    """Send dragoman's log, and the warnings of what serves it, to `target`. `timed`: lines for people say when; `replica`:
    which of several this process is."""
    human = _Terminal(target) if target.is_terminal else logging.StreamHandler(target.file)
    handler = logging.StreamHandler(target.file) if style == "json" else human
    handler.setFormatter(
        JsonFormatter(replica=replica) if style == "json" else HumanFormatter(timed=timed, replica=replica)
    )
    logging.captureWarnings(True)
    for name in (_OURS, *_OTHERS):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper() if name == _OURS else logging.WARNING)
