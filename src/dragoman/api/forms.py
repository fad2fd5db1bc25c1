"""Forms: urlencoded and multipart, parsed within bounds."""

from __future__ import annotations

import re
from binascii import a2b_qp
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from fastapi import Request

from dragoman.errors import BodyTooLarge, InvalidRequest, TooManyValues
from dragoman.threads import UPLOADS

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
_PARAMETER = re.compile(r';\s*([\w*-]+)=(?:"((?:\\"|[^"])*)"|([^;\s]*))')


def _parameters(header: str) -> dict[str, str]:
    """What stands after the semicolons of a header."""
    return {name.lower(): quoted.replace('\\"', '"') or plain for name, quoted, plain in _PARAMETER.findall(header)}


# ---- forms with a file, which goes to disk as it arrives

_MAX_FIELD_BYTES = 1_000_000
"""Of all fields together."""
_BUFFER_BYTES = 1_000_000


@dataclass(slots=True)
class FileForm:
    """A form whose file is on disk. `fields`: the others, each with its values in order; `file_name` as the client gave it."""

    fields: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    file_name: str | None = None  # None: the form had no file

    def text(self, name: str) -> str | None:
        """The first value of a field; None where there is none, or an empty one."""
        values = self.fields.get(name)
        return values[0] if values and values[0] else None


async def receive_file(request: Request, path: Path, max_bytes: int) -> FileForm:
    """Read a multipart form, whose field `file` is written to `path`; fields may come before and after it.

    Raises `InvalidRequest`, `TooManyValues`, `BodyTooLarge` for over `max_bytes`, and `OSError` from writing.
    """
    content_type = request.headers.get("content-type", "")
    boundary = _parameters(content_type).get("boundary", "").encode("latin-1", "replace")
    if not content_type.lower().startswith("multipart/form-data") or not boundary:
        raise InvalidRequest("send a form (multipart/form-data) with the field `file`", param="file")
    received = _Received(max_bytes)
    reader = _FormReader(b"\r\n--" + boundary)
    with path.open("wb") as out:  # not in a thread, which would leave it open where the request is cancelled meanwhile
        async for chunk in request.stream():
            for item in reader.feed(chunk):
                received.add(item)
            if len(received.unwritten) >= _BUFFER_BYTES:
                await UPLOADS.run(out.write, received.unwritten)
                received.unwritten = bytearray()
        await UPLOADS.run(out.write, received.unwritten)
        await UPLOADS.run(out.flush)
    if not reader.is_complete:
        raise InvalidRequest("the form does not end with its boundary")
    return received.form()


async def receive_body(request: Request, path: Path, max_bytes: int) -> int:
    """Write a request's body to `path`; return its bytes. Raises `BodyTooLarge` for over `max_bytes`, and `OSError`."""
    received, unwritten = 0, bytearray()
    with path.open("wb") as out:  # not in a thread, as in `receive_file`
        async for chunk in request.stream():
            received += len(chunk)
            if received > max_bytes:
                message = f"the file has more than {max_bytes:,} bytes, which this server accepts"
                raise BodyTooLarge(message, param="file")
            unwritten += chunk
            if len(unwritten) >= _BUFFER_BYTES:
                await UPLOADS.run(out.write, unwritten)
                unwritten = bytearray()
        await UPLOADS.run(out.write, unwritten)
        await UPLOADS.run(out.flush)
    return received


@dataclass(slots=True)
class _Received:
    """The parts of a form so far. `unwritten` is the file's content that is not on disk yet."""

    max_file_bytes: int
    file_name: str | None = None
    file_bytes: int = 0
    field_bytes: int = 0
    fields: list[tuple[str, bytearray]] = field(default_factory=list[tuple[str, bytearray]])
    unwritten: bytearray = field(default_factory=bytearray)

    def add(self, item: dict[str, str] | bytes) -> None:
        """A part begins, or goes on. Raises `InvalidRequest`, `TooManyValues` or `BodyTooLarge`."""
        if isinstance(item, dict):
            self.fields.append((item["name"], bytearray()))
            if item["name"] == "file":
                if self.file_name is not None:
                    raise InvalidRequest("the form has several files; send one", param="file")
                self.file_name = item.get("filename", "")
        elif self.fields[-1][0] == "file":
            self.file_bytes += len(item)
            self.unwritten += item
        else:
            self.field_bytes += len(item)
            self.fields[-1][1].extend(item)
        if self.file_bytes > self.max_file_bytes:
            message = f"the file has more than {self.max_file_bytes:,} bytes, which this server accepts"
            raise BodyTooLarge(message, param="file")
        if self.field_bytes > _MAX_FIELD_BYTES or len(self.fields) > MAX_FORM_FIELDS:
            raise TooManyValues(f"the form has more than {MAX_FORM_FIELDS} fields, or too long ones")

    def form(self) -> FileForm:
        form = FileForm(file_name=self.file_name)
        for name, value in self.fields:
            if name != "file":
                form.fields.setdefault(name, []).append(value.decode("utf-8", "replace"))
        return form


class _FormReader:
    """Parses a multipart form as it arrives."""

    def __init__(self, delimiter: bytes) -> None:
        self.is_complete = False
        self._delimiter = delimiter
        self._buffer = bytearray(b"\r\n")
        self._in_head = False
        self._in_part = False

    def feed(self, chunk: bytes) -> Iterator[dict[str, str] | bytes]:
        """Yield the parameters of each part that begins, and then its content in pieces. Raises `InvalidRequest`."""
        buffer, delimiter = self._buffer, self._delimiter
        buffer += chunk
        while not self.is_complete:
            if self._in_head:
                if len(buffer) < 2:
                    return
                end = buffer.find(b"\r\n\r\n", 0, _MAX_PART_HEADER_BYTES)
                if buffer.startswith(b"--"):
                    self.is_complete = True
                elif end >= 0:
                    yield _part_parameters(bytes(buffer[:end]))
                    del buffer[: end + 4]
                    self._in_head, self._in_part = False, True
                elif len(buffer) >= _MAX_PART_HEADER_BYTES:
                    raise InvalidRequest("a part of the form has headers that are too long")
                else:
                    return
                continue
            at = buffer.find(delimiter)
            stop = at if at >= 0 else max(len(buffer) - len(delimiter) + 1, 0)
            if stop and self._in_part:
                yield bytes(buffer[:stop])
            if at < 0:
                del buffer[:stop]
                return
            del buffer[: at + len(delimiter)]
            self._in_head = True


def _part_parameters(head: bytes) -> dict[str, str]:
    """The parameters of a part's Content-Disposition; `filename` is what `filename*` says where it is given."""
    found = _DISPOSITION.search(head)
    parameters = _parameters(found[0].decode("utf-8", "replace")) if found else {}
    if "name" not in parameters:
        raise InvalidRequest("a part of the form has no name")
    charset, _, encoded = parameters.get("filename*", "").partition("'")
    if encoded:
        name = encoded.partition("'")[2]
        with suppress(LookupError, ValueError):  # a name that is no encoding, or of one that fails
            parameters["filename"] = unquote(name, charset or "utf-8", "replace")
    return parameters
