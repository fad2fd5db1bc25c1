"""What DeepL's routes share: a call's parameters and account, its responses and its errors.

DeepL's clients send parameters as JSON (Python) or as a form (Node), also as the body of a GET. Every response has an
`X-Trace-ID`; every error is `{"message": ..., "detail"?: ...}` with a status that the clients map to an exception of their
own. They retry 429 and everything from 500 on, so that no failure that a retry cannot cure has such a status.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi.responses import Response

from dragoman import languages
from dragoman.api.answers import JsonResponse
from dragoman.api.compat.exchange import Call, caller, unsupported
from dragoman.api.errors import Fault, foreign_format
from dragoman.api.middleware import current_id
from dragoman.errors import UnsupportedLanguage

MISSING = "Parameter '{}' not specified"
_STATUSES = {
    "unauthenticated": 403,
    "invalid_key": 403,
    "quota_exceeded": 456,
    "glossary_exists": 400,
    "memory_exists": 400,
}
"""Where DeepL's status is not ours."""


DeepLCall = Annotated[Call, caller("auth_key", missing=MISSING)]
"""Older clients send the key in the query or the body."""


def language_of(call: Call, name: str) -> str | None:
    """The language that a parameter names, which the model serves; None where it names none."""
    if not (value := call.fields.text(name)):
        return None
    try:
        languages.served(value, tuple(call.service.model.profile.languages), name)
    except UnsupportedLanguage as error:
        raise unsupported(name, error.message) from None
    return languages.normalise(value)


def direction_of(call: Call) -> tuple[str | None, str]:
    """The source language, None where it is to be detected, and the target, which is required."""
    target = language_of(call, "target_lang")
    if target is None:
        raise call.fields.absent("target_lang")
    return language_of(call, "source_lang"), target


def trace_header() -> dict[str, str]:
    """The header that every response of DeepL has: the request's id, as in the log."""
    return {"X-Trace-ID": current_id()}


def answer(content: object, status: int = 200) -> Response:
    """JSON."""
    return JsonResponse(content, status, trace_header())


def no_content() -> Response:
    """What a deletion returns."""
    return Response(status_code=204, headers=trace_header())


def time_of(time: datetime) -> str:
    """A time with a fraction of a second, which DeepL's Python client requires."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _error(status: int, fault: Fault) -> dict[str, str]:
    if fault.code == "unknown_glossary":
        return {"message": "Glossary not found", "detail": fault.message}
    if fault.code == "unknown_memory":
        return {"message": "Translation memory not found", "detail": fault.message}
    return {"message": fault.message}


error_format = foreign_format(_STATUSES, _error, trace_header)
