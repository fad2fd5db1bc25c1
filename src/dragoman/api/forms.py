"""Forms: urlencoded and multipart, parsed within bounds."""

from __future__ import annotations

import re
from binascii import a2b_qp
from collections.abc import Callable, Iterator
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
    reader, fields = _FormReader(content_type), list[tuple[str, str | bytes]]()
    has_file_name = False
    for item in reader.feed(body):
        if isinstance(item, bytes):  # all of it: the whole body is there
            fields[-1] = (fields[-1][0], item if has_file_name else item.decode("utf-8", "replace"))
            continue
        if len(fields) == most:
            raise TooManyValues(f"the form has more than {most} parts")
        has_file_name = "filename" in item
        fields.append((item["name"], b"" if has_file_name else ""))
    reader.check_complete()
    return fields


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
    if not content_type.lower().startswith("multipart/form-data"):
        raise InvalidRequest("send a form (multipart/form-data) with the field `file`", param="file")
    received = _Received(_FormReader(content_type), _File(max_bytes))
    await _write(request, path, received.file, received.add)
    received.reader.check_complete()
    return received.form()


async def receive_body(request: Request, path: Path, max_bytes: int) -> int:
    """Write a request's body to `path`; return its bytes. Raises `BodyTooLarge` for over `max_bytes`, and `OSError`."""
    file = _File(max_bytes)
    await _write(request, path, file, file.add)
    return file.size


@dataclass(slots=True)
class _File:
    """A file that arrives. `unwritten` is not on disk yet."""

    max_bytes: int
    size: int = 0
    unwritten: bytearray = field(default_factory=bytearray)

    def add(self, content: bytes) -> None:
        """Raises `BodyTooLarge`."""
        self.size += len(content)
        if self.size > self.max_bytes:
            message = f"the file has more than {self.max_bytes:,} bytes, which this server accepts"
            raise BodyTooLarge(message, param="file")
        self.unwritten += content


async def _write(request: Request, path: Path, file: _File, add: Callable[[bytes], None]) -> None:
    """Pass a request's body to `add`, and write what that adds to the file, a large piece at a time."""
    with path.open("wb") as out:  # not in a thread, which would leave it open where the request is cancelled meanwhile
        async for chunk in request.stream():
            add(chunk)
            if len(file.unwritten) >= _BUFFER_BYTES:
                await UPLOADS.run(out.write, file.unwritten)
                file.unwritten = bytearray()
        await UPLOADS.run(out.write, file.unwritten)
        await UPLOADS.run(out.flush)


@dataclass(slots=True)
class _Received:
    """The parts of a form so far."""

    reader: _FormReader
    file: _File
    file_name: str | None = None
    field_bytes: int = 0
    fields: list[tuple[str, bytearray]] = field(default_factory=list[tuple[str, bytearray]])

    def add(self, chunk: bytes) -> None:
        """Raises `InvalidRequest`, `TooManyValues` or `BodyTooLarge`."""
        for item in self.reader.feed(chunk):
            if isinstance(item, dict):
                self.fields.append((item["name"], bytearray()))
                if item["name"] == "file":
                    if self.file_name is not None:
                        raise InvalidRequest("the form has several files; send one", param="file")
                    self.file_name = item.get("filename", "")
            elif self.fields[-1][0] == "file":
                self.file.add(item)
            else:
                self.field_bytes += len(item)
                self.fields[-1][1].extend(item)
            if self.field_bytes > _MAX_FIELD_BYTES or len(self.fields) > MAX_FORM_FIELDS:
                raise TooManyValues(f"the form has more than {MAX_FORM_FIELDS} fields, or too long ones")

    def form(self) -> FileForm:
        form = FileForm(file_name=self.file_name)
        for name, value in self.fields:
            if name != "file":
                form.fields.setdefault(name, []).append(value.decode("utf-8", "replace"))
        return form


class _FormReader:
    """Parses a multipart form, as it arrives or whole. Raises `InvalidRequest` for a Content-Type without a boundary."""

    def __init__(self, content_type: str) -> None:
        boundary = _parameters(content_type).get("boundary", "").encode("latin-1", "replace")
        if not boundary:
            raise InvalidRequest("the form has no boundary in its Content-Type")
        self._delimiter = b"\r\n--" + boundary
        self._buffer = bytearray(b"\r\n")
        self._in_head = False
        self._in_part = False
        self._is_complete = False

    def check_complete(self) -> None:
        """Raise `InvalidRequest` unless the form has ended."""
        if not self._is_complete:
            raise InvalidRequest("the form does not end with its boundary")

    def feed(self, chunk: bytes) -> Iterator[dict[str, str] | bytes]:
        """Yield the parameters of each part that begins, and then its content in pieces. Raises `InvalidRequest`."""
        buffer, delimiter = self._buffer, self._delimiter
        buffer += chunk
        while not self._is_complete:
            if self._in_head:
                if len(buffer) < 2:
                    return
                end = buffer.find(b"\r\n\r\n", 0, _MAX_PART_HEADER_BYTES)
                if buffer.startswith(b"--"):
                    self._is_complete = True
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
