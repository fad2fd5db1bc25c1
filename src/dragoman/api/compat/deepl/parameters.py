"""What DeepL's routes share: a call's parameters and account, its responses and its errors.

DeepL's clients send parameters as JSON (Python) or as a form (Node), also as the body of a GET. Every response has an
`X-Trace-ID`; every error is `{"message": ..., "detail"?: ...}` with a status that the clients map to an exception of their
own. They retry 429 and everything from 500 on, so that no failure that a retry cannot cure has such a status.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

from fastapi import Depends, Request
from fastapi.responses import JSONResponse, Response

from dragoman.api.access import Service, account_of
from dragoman.api.compat.deepl.schemas import DeepLError
from dragoman.api.compat.exchange import MAX_CHARACTERS, Fields
from dragoman.api.errors import Fault
from dragoman.api.middleware import current_id
from dragoman.errors import InvalidRequest
from dragoman.service.service import TranslationService
from dragoman.types import Account

_FLAGS: Mapping[object, bool] = {"1": True, "0": False, "true": True, "false": False}
_NUMBERED = re.compile(r"(\w+)\[(\d+)\][.\[](\w+)\]?").fullmatch  # dictionaries[0].source_lang
MAX_LISTED_CHARACTERS = 20_000
"""Of a list with commas."""
_STATUSES = {
    "unauthenticated": 403,
    "invalid_key": 403,
    "quota_exceeded": 456,
    "glossary_exists": 400,
}
"""Where DeepL's status is not ours."""


class Parameters:
    """The parameters of one call, as DeepL's API has them.

    The methods raise `InvalidRequest`, which names the parameter, for what its value must not be.
    """

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def items(self, name: str) -> list[object]:
        """All values: of a list, or the one; none where it is absent."""
        value = self._values.get(name)
        return cast("list[object]", value) if isinstance(value, list) else [] if value is None else [value]

    def texts(self, name: str) -> list[str]:
        """All values, which must be text."""
        if not all(isinstance(one, str) for one in self.items(name)):
            raise unsupported(name, "it must be text")
        return cast("list[str]", self.items(name))

    def text(self, name: str, *, most: int | None = MAX_CHARACTERS) -> str | None:
        """The one value, of at most so many characters; None where there is none or an empty one."""
        found = self.texts(name)
        if len(found) > 1:
            raise InvalidRequest(f"Parameter '{name}' given more than once", param=name)
        if found and most is not None and len(found[0]) > most:
            raise unsupported(name, f"it has {len(found[0])} characters; at most {most}")
        return found[0] or None if found else None

    def required(self, name: str, *, most: int | None = MAX_CHARACTERS) -> str:
        """The one value, which must be there."""
        if (found := self.text(name, most=most)) is None:
            raise InvalidRequest(f"Parameter '{name}' not specified", param=name)
        return found

    def listed(self, name: str) -> list[str]:
        """All values, each of which may be several with commas between them; at most as many characters as a text."""
        found = ",".join(self.texts(name))
        if len(found) > MAX_LISTED_CHARACTERS:
            raise unsupported(name, f"it has {len(found)} characters; at most {MAX_LISTED_CHARACTERS}")
        return [part.strip() for part in found.split(",") if part.strip()]

    def choice(self, name: str, *allowed: str, default: str | None = None) -> str | None:
        """One of the allowed values, in any case."""
        value = self.text(name)
        if value is None:
            return default
        if (chosen := value.lower()) not in allowed:
            raise unsupported(name, f"give one of {', '.join(allowed)}")
        return chosen

    def check_flag(self, name: str) -> None:
        """A boolean: of JSON, or `0`, `1`, `false`, `true`."""
        for value in self.items(name):
            if isinstance(value, bool) or value in (0, 1):
                continue
            if not isinstance(value, str) or value.lower() not in _FLAGS:
                raise unsupported(name, "give true or false")

    def objects(self, name: str) -> list[Parameters]:
        """A list of objects: of JSON, or of a form's `name[0].field`."""
        found = self.items(name)
        if not found:
            numbered: dict[int, dict[str, object]] = {}
            for key, value in self._values.items():
                if len(key) < 200 and (match := _NUMBERED(key)) and match[1] == name:
                    numbered.setdefault(int(match[2][:9]), {})[match[3]] = value
            found = [numbered[number] for number in sorted(numbered)]
        if not all(isinstance(one, dict) for one in found):
            raise unsupported(name, "it must be a list of objects")
        return [Parameters(cast("dict[str, object]", one)) for one in found]


def unsupported(name: str, reason: str = "") -> InvalidRequest:
    """A parameter has a value that the API, or this server, does not have."""
    return InvalidRequest(f"Value for '{name}' not supported{f': {reason}' if reason else '.'}", param=name)


@dataclass(frozen=True, slots=True)
class DeepLCall:
    """One call, authenticated."""

    http: Request
    service: TranslationService
    parameters: Parameters
    account: Account


async def _call(http: Request, service: Service) -> DeepLCall:
    """Older clients send the key in the query or the body."""
    fields = await Fields.read(http, service, "auth_key")
    account = await account_of(http, service, fields.text("auth_key"))
    return DeepLCall(http, service, Parameters(fields.values), account)


Call = Annotated[DeepLCall, Depends(_call)]


# ---- responses


def trace_header() -> dict[str, str]:
    """The header that every response of DeepL has: the request's id, as in the log."""
    return {"X-Trace-ID": current_id()}


def answer(content: object, status: int = 200) -> Response:
    """JSON."""
    return JSONResponse(content, status, trace_header())


def no_content() -> Response:
    """What a deletion returns."""
    return Response(status_code=204, headers=trace_header())


def error_format(fault: Fault) -> Response:
    """A fault as DeepL's clients expect it."""
    status = 400 if fault.status == 422 else _STATUSES.get(fault.code, fault.status)
    body = {"message": fault.message}
    if fault.code == "unknown_glossary":
        body = {"message": "Glossary not found", "detail": fault.message}
    return JSONResponse(body, status, {**fault.headers, **trace_header()})


def responses(*statuses: int, ok: Any = None, created: bool = False) -> dict[int | str, dict[str, Any]]:
    """What a route may answer, for OpenAPI: besides `ok` and the given statuses, what every route may."""
    descriptions = {
        400: "A parameter is missing or not supported",
        403: "No key, an unknown one, or one that may not do this",
        404: "No such glossary or dictionary, or not offered",
        413: "Too large a body, or too many texts",
        415: "The format that `Accept` names is not offered",
        429: "Too many requests, or the queue is full",
        456: "The key has used up its characters of this month",
        500: "The server failed on this request",
        503: "Starting, draining, or the database does not answer",
        504: "The deadline that the request named has passed",
    }
    found: dict[int | str, dict[str, Any]] = {
        status: {"description": descriptions[status], "model": DeepLError}
        for status in (400, 403, *statuses, 413, 429, 500, 503)
    }
    return {201 if created else 200: {"model": ok}, **found} if ok is not None else found
