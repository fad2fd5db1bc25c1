"""Forms: urlencoded and multipart, parsed within bounds."""

from __future__ import annotations

import re
from binascii import a2b_qp
from collections.abc import Iterator

from dragoman.errors import InvalidRequest, TooManyValues

MAX_FORM_FIELDS = 100
"""Fields of a form besides the texts."""
_MAX_PART_HEADER_BYTES = 4096
_MAX_BAD_ESCAPES = 10_000  # in a slice
_SLICE_BYTES = 500_000


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
