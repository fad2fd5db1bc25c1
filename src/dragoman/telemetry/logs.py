"""Where log records go: lines for people, or one JSON object a line for machines. Set up by commands, never on import.

A record made while a request is served carries the request's id. Each request has one line (`RequestLine`), and so has each
change of keys, glossaries and memories (`audit`).
"""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, cast

from dragoman.telemetry import requests
from dragoman.telemetry.requests import CANCELLED, OK, RequestTrace, TextRecord

if TYPE_CHECKING:
    from rich.console import Console

_OURS = ("dragoman", "wholetext")
_OTHERS = ("uvicorn", "asyncio", "opentelemetry", "mcp", "py.warnings")
"""Libraries whose warnings an operator has to see."""


def _request_of(record: logging.LogRecord) -> RequestTrace | None:
    """The request that a record was made in; None where its own fields say that."""
    return None if hasattr(record, "fields") else requests.current.get()


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
        if (request := _request_of(record)) is not None:
            fields["request_id"] = request.request_id
            if request.key:
                fields["key"] = request.key
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
        if (request := _request_of(record)) is not None:
            text += f" (request {request.request_id})"
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
    for name in (*_OURS, *_OTHERS):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper() if name in _OURS else logging.WARNING)


Fields = dict[str, object]

# ---- changes

AUDIT_LOG = "dragoman.audit"
_audit = logging.getLogger(AUDIT_LOG)

Change = Literal[
    "key.create",
    "key.rotate",
    "key.revoke",
    "glossary.create",
    "glossary.replace",
    "glossary.merge",
    "glossary.delete_dictionary",
    "glossary.rename",
    "glossary.delete",
    "glossary.share",
    "glossary.give",
    "memory.create",
    "memory.rename",
    "memory.import",
    "memory.delete",
    "memory.share",
    "memory.give",
]
"""What is logged of changes: an object and what was done with it."""


def audit(change: Change, id: str) -> None:
    """Log a change that was made to the key, glossary or memory `id`: by which key, from where, in which request.

    Outside of a request it is a command's, by a user of this machine. Names are not logged: they may be texts.
    """
    request = requests.current.get()
    fields: Fields = {"change": change, "id": id, "by": f"uid {os.getuid()}", "from": "command line"}
    if request is not None:
        origin = {"by": request.key or "no key", "from": request.client or "unknown"}
        fields |= {**origin, "request_id": request.request_id}
    line = f"{change} {id} by {fields['by']} from {fields['from']}"
    if request is not None:
        line += f", id {request.request_id}"
    _audit.info("%s", line, extra={"event": "audit", "fields": fields})


# ---- the log line of a request


class RequestLine:
    """`fields` is what a JSON log carries; `str()` is the line for people."""

    __slots__ = ("fields",)

    def __init__(self, request: RequestTrace) -> None:
        self.fields: Fields = {
            "request_id": request.request_id,
            "method": request.method,
            "path": request.route,
            "status": request.status,
            "outcome": request.outcome,
            "cancelled": request.outcome == CANCELLED,
            "duration_s": round(request.duration_s, 6),
        }
        if request.key:
            self.fields["key"] = request.key
        if request.trace_id:
            self.fields["trace_id"] = request.trace_id
        if request.calls:
            self.fields["streamed"] = any(call.streamed for call in request.calls)
            self.fields["target"] = request.calls[0].target
            self.fields |= _of_texts(request.texts)

    def __str__(self) -> str:
        fields = self.fields
        outcome = "" if fields["outcome"] == OK else f" {fields['outcome']}"
        path = fields["path"] or "(no such path)"
        parts = [f"{fields['method']} {path} {fields['status']}{outcome} in {fields['duration_s']:.3f} s"]
        if "texts" in fields:
            sources = "+".join(cast(list[str], fields["sources"])) or "?"
            parts.append(f"{_plural(fields['texts'], 'text')} {sources}→{fields['target']}")
            parts.append(_plural(fields["characters"], "character"))
            if fields["prompt_tokens"]:
                parts.append(f"{fields['prompt_tokens']}+{fields['output_tokens']} tokens")
            if fields["queue_s"] is not None:
                parts.append(f"queue {fields['queue_s']:.3f} s")
            if fields["ttft_s"] is not None:
                parts.append(f"TTFT {fields['ttft_s']:.3f} s")
            if fields["streamed"]:
                parts.append("streamed")
        if "key" in fields:
            parts.append(f"key {fields['key']}")
        parts.append(f"id {fields['request_id']}")
        return ", ".join(parts)


def _of_texts(texts: list[TextRecord]) -> Fields:
    """Sums over all texts, the longest time in the engine's queue, and the time to the first token of any."""
    queue_s = max((text.queue_s for text in texts if text.queue_s is not None), default=None)
    ttft_s = min((text.ttft_s for text in texts if text.ttft_s is not None), default=None)
    return {
        "texts": len(texts),
        "sources": sorted({text.source for text in texts if text.source}),
        "characters": sum(text.source_characters for text in texts),
        "prompt_tokens": sum(text.prompt_tokens for text in texts),
        "output_tokens": sum(text.output_tokens for text in texts),
        "queue_s": None if queue_s is None else round(queue_s, 6),
        "ttft_s": None if ttft_s is None else round(ttft_s, 6),
    }


def _plural(number: object, noun: str) -> str:
    return f"{number} {noun if number == 1 else f'{noun}s'}"
