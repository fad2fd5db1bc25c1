"""Bodies of requests: read after the key, and parsed within bounds.

A body of a few megabytes can hold millions of values, or a form as many fields, which would take seconds to parse and to
validate. What a body holds is therefore counted before it is parsed; large bodies are parsed in a thread, one at a time.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from binascii import a2b_qp
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

from fastapi import Request, Response
from fastapi.routing import APIRoute

from dragoman.api.access import account_of, service_of
from dragoman.errors import InvalidJson, InvalidRequest, TooManyValues, UntranslatableText
from dragoman.service.service import TranslationService

T = TypeVar("T")

SMALL_BYTES = 65_536
"""A body up to here is parsed where it is: in less than the time that another thread takes to answer."""
MAX_VALUES = 100_000
"""Items and entries in the JSON of a body, besides those of texts: as many as a stored glossary may have entries."""
MAX_FORM_FIELDS = 100
"""Fields of a form besides the texts."""
_MAX_DIGITS = 100
_MAX_PART_HEADER_BYTES = 4096
_MAX_BAD_ESCAPES = 10_000  # in a slice
_SLICE_BYTES = 500_000
_PARSER = ThreadPoolExecutor(1, "bodies")


async def parsed(parse: Callable[..., T], body: bytes, *arguments: object) -> T:
    """What `parse` makes of a body. Raises what it raises."""
    if len(body) <= SMALL_BYTES:
        return parse(body, *arguments)
    return await asyncio.get_running_loop().run_in_executor(_PARSER, parse, body, *arguments)


def max_values(service: TranslationService) -> int:
    """How many items and entries the JSON of a body may have."""
    return MAX_VALUES + 4 * service.settings.server.max_texts


# ---- JSON


def parse_json(body: bytes, most: int) -> Any:
    """A body's value. It has no lone surrogates, and no number that is not finite.

    Raises `InvalidJson`, `UntranslatableText` for a lone surrogate, and `TooManyValues` for over `most` items of lists and
    entries of objects.
    """
    _check_number_of_values(body, most)
    try:
        value = _DECODER.decode(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidJson(f"the body is not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise InvalidJson("the body is not JSON: nested too deeply") from None
    except ValueError as error:
        raise InvalidJson(f"the body is not JSON: {error}") from None
    if b"\\ud" in body or b"\\uD" in body:
        _check_unicode(value)
    return value


def _values(structure: bytes) -> int:
    """At most as many items and entries are in this."""
    return structure.count(b",") + structure.count(b"[") + structure.count(b"{")


def _check_number_of_values(body: bytes, most: int) -> None:
    if _values(body) <= most:
        return
    for part in (body[:_SLICE_BYTES], body):  # the beginning of a body shows far too many
        without_escapes = part.replace(b"\\\\", b"").replace(b'\\"', b"")
        has_space = without_escapes.count(b'"') <= 4 * (most + 1)  # two strings for each entry
        if not has_space or _values(b"".join(without_escapes.split(b'"')[::2])) > most:
            raise TooManyValues(f"the body has more than {most} values in its lists and objects")


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number has over {_MAX_DIGITS} digits")
    return int(digits)


def _float(digits: str) -> float:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number has over {_MAX_DIGITS} digits")
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"the number {digits} is too large")
    return number


def _constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_float, parse_constant=_constant)


def _check_unicode(value: object) -> None:
    """Raises `UntranslatableText` for half of a surrogate pair, which JSON can express and which is not a character."""
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        place, one = waiting.pop()
        if isinstance(one, dict):
            entries = cast(dict[str, object], one)
            waiting += ((place or name, part) for name, item in entries.items() for part in (name, item))
        elif isinstance(one, list):
            waiting += ((place, item) for item in cast(list[object], one))
        elif isinstance(one, str):
            try:
                one.encode()
            except UnicodeEncodeError as error:
                message = f"{place or 'the body'} is not Unicode text: a lone surrogate at character {error.start}"
                raise UntranslatableText(message.encode(errors="replace").decode(), param=place or None) from None


# ---- forms


def parse_form(body: bytes, content_type: str, most: int) -> list[tuple[str, str | bytes]]:
    """The fields of a form in order; a file's content is bytes. Raises `InvalidRequest`, `TooManyValues` for over `most`."""
    if not content_type.lower().startswith("multipart/"):
        if body.count(b"&") >= most:
            raise TooManyValues(f"the form has more than {most} fields")
        pairs = (pair.partition(b"=") for pair in body.split(b"&") if pair)
        return [(_unquote(name), _unquote(value)) for name, _, value in pairs]
    boundary = _parameters(content_type).get("boundary", "").encode("latin-1")
    if not boundary:
        raise InvalidRequest("the form has no boundary in its Content-Type")
    return list(_parts(body, b"--" + boundary, most))


def _unquote(value: bytes) -> str:
    value = value.replace(b"+", b" ")
    if b"%" in value:  # by slices: within one, no other thread runs
        value = b"".join(map(_unescape, _slices(value)))
    return value.decode("utf-8", "replace")


_NO_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def _unescape(value: bytes) -> bytes:
    """As `urllib.parse.unquote_to_bytes`, in a tenth of the time: quoted-printable has the same escapes after another sign."""
    value, number = _NO_ESCAPE.subn(b"%25", value, _MAX_BAD_ESCAPES)
    if number == _MAX_BAD_ESCAPES:
        raise InvalidRequest("the form is not urlencoded: too many of its percent signs are no escapes")
    return a2b_qp(value.replace(b"=", b"%3D").replace(b"%", b"="))


def _slices(value: bytes) -> Iterator[bytes]:
    """The value in parts, none of which ends within an escape."""
    at = 0
    while at < len(value):
        end = at + _SLICE_BYTES
        escape = value.rfind(b"%", end - 2, end)
        end = end if escape < 0 else escape
        yield value[at:end]
        at = end


def _parts(body: bytes, delimiter: bytes, most: int) -> Iterator[tuple[str, str | bytes]]:
    if body.count(delimiter) > most + 1:
        raise TooManyValues(f"the form has more than {most} parts")
    for part in (b"\r\n" + body).split(b"\r\n" + delimiter)[1:]:
        if part.startswith(b"--"):
            return
        end = part.find(b"\r\n\r\n", 0, _MAX_PART_HEADER_BYTES)
        found = _DISPOSITION.search(part[:end]) if end >= 0 else None
        parameters = _parameters(found[0].decode("utf-8", "replace")) if found else {}
        if "name" not in parameters:
            raise InvalidRequest("a part of the form has no name, or headers that are too long")
        content = part[end + 4 :]
        yield parameters["name"], content if "filename" in parameters else content.decode("utf-8", "replace")
    raise InvalidRequest("the form does not end with its boundary")


_DISPOSITION = re.compile(rb"^content-disposition:[^\r\n]*", re.IGNORECASE | re.MULTILINE)
_PARAMETER = re.compile(r';\s*([\w*-]+)=(?:"([^"]*)"|([^;\s]*))')


def _parameters(header: str) -> dict[str, str]:
    """What stands after the semicolons of a header."""
    return {name.lower(): quoted or plain for name, quoted, plain in _PARAMETER.findall(header)}


# ---- routes with a model for their body


class _BoundedRequest(Request):
    """A request whose JSON is parsed within bounds."""

    async def json(self) -> Any:
        """Raises what `parse_json` raises."""
        return await parsed(parse_json, await self.body(), max_values(await service_of(self)))


class KeyFirstRoute(APIRoute):
    """A route that reads its body after the key in its headers; FastAPI itself reads it before all dependencies."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler after the key was looked at."""
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle

        async def after_key(request: Request) -> Response:
            request.state.account = await account_of(request, await service_of(request))
            return await handle(_BoundedRequest(request.scope, request.receive))

        return after_key
