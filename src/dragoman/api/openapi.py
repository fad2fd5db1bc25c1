"""How OpenAPI describes what routes may answer, and the fields of forms. It describes the native API alone: `app.py` leaves
those of others out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

Schema = Mapping[str, Any]
Answers = dict[int | str, dict[str, Any]]
TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": TEXT}
FLAG: Schema = {"type": "boolean"}
_DESCRIPTIONS = {
    400: "A parameter is missing, or has a value that is not supported",
    401: "The server needs a key, and the request has none or a wrong one",
    403: "The key may not do this, is not valid, or has used up its characters of this month",
    404: "There is nothing of this name or id",
    409: "Another one has this name",
    413: "Too large a body or text, or too many of them",
    421: "The Host header is not a name of this server",
    422: "JSON or entries of the wrong shape",
    429: "The queue is full, or the key's quota or rate is exceeded; see Retry-After",
    500: "The server failed on this request",
    503: "Starting, draining, the engine has crashed, or the database does not answer",
    504: "The deadline that the request named has passed",
}


def choice(*values: str) -> Schema:
    """One of these texts."""
    return {**TEXT, "enum": list(values)}


def failures(error: type[BaseModel], *statuses: int) -> Answers:
    """Errors with these statuses, and with those that every route may have."""
    return {
        status: {"description": _DESCRIPTIONS[status], "model": error} for status in sorted({421, 500, 503, *statuses})
    }
