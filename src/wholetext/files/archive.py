"""ZIP packages: checked before anything is inflated, read within limits, and written again with only some entries changed.

The directory is read here and not by `zipfile`, because an entry that does not change keeps all its bytes: header, extra
fields, compressed data, data descriptor. Python's own check of overlapping entries came with 3.11.8.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from wholetext.errors import InvalidFile

_MB = 1 << 20
MOST_ENTRIES = 5_000
MOST_BYTES = 300 * _MB
MOST_BYTES_OF_ENTRY = 64 * _MB
MOST_RATIO, LEAST_BYTES_FOR_RATIO = 100, 50 * _MB  # of a package to its upload
MOST_RATIO_OF_ENTRY, LEAST_BYTES_FOR_RATIO_OF_ENTRY = 150, 10 * _MB
LONGEST_NAME = 260
_PART = 1 << 20

_STORED, _DEFLATED = 0, 8
_ENCRYPTED, _DESCRIPTOR, _UTF_8 = 0x1, 0x8, 0x800
_ZIP64 = 1  # the extra field's id
_DIRECTORY = struct.Struct("<4s6H3L5H2L")  # a header in the directory
_LOCAL = struct.Struct("<4s5H3L2H")
_END = struct.Struct("<4s4H2LH")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def _invalid(message: str) -> InvalidFile:
    return InvalidFile(f"Invalid file: {message}", param="file")


def _damaged(name: str) -> InvalidFile:
    return _invalid(f"{name} is damaged: its size or checksum is not that of the directory")


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """An entry of the directory. Offsets are of the archive; `start` is that of its local header, `data` of its bytes.

    `end` is where the next entry or the directory begins.
    """

    name: str
    method: int
    crc: int
    compressed: int
    size: int
    start: int
    data: int
    end: int
    header: slice  # of the directory


class Archive:
    """A ZIP file whose directory passed all checks. Raises `InvalidFile` if one fails.

    `folded`: names that differ only in case are one name, as in OPC packages.
    """

    def __init__(self, data: bytes, *, folded: bool = False) -> None:
        if not data:
            raise _invalid("it is empty")
        if data.startswith(_OLE):
            if "EncryptedPackage".encode("utf-16-le") in data:
                raise _invalid("it is protected by a password; remove the password and send it again")
            raise _invalid("it is a doc, xls or ppt of Office 97 to 2003; save it as docx, xlsx or pptx")
        self.data = data
        self._end = _end_of_directory(data)
        entries = _entries(data, self._end)
        _check_names([entry.name for entry in entries], folded)
        _check_sizes(entries, len(data))
        self.entries = {entry.name: entry for entry in entries}

    @property
    def names(self) -> list[str]:
        """The names of all entries that are files, in the directory's order."""
        return [name for name in self.entries if not name.endswith("/")]

    def read(self, name: str) -> bytes:
        """Inflate an entry, at most to its size in the directory."""
        entry = self.entries[name]
        if entry.size > MOST_BYTES_OF_ENTRY:
            raise _invalid(f"{name} has more than {MOST_BYTES_OF_ENTRY // _MB} MB")
        if entry.size > max(LEAST_BYTES_FOR_RATIO_OF_ENTRY, MOST_RATIO_OF_ENTRY * entry.compressed):
            raise _invalid(f"{name} is compressed more than {MOST_RATIO_OF_ENTRY} times")
        data = self.data[entry.data : entry.data + entry.compressed]
        if entry.method == _DEFLATED:
            try:
                data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, entry.size + 1)
            except zlib.error:
                raise _invalid(f"{name} cannot be decompressed") from None
        if len(data) != entry.size or zlib.crc32(data) != entry.crc:
            raise _damaged(name)
        return data

    def check(self) -> None:
        """Raises `InvalidFile` if an entry is damaged: one that is not read would be copied as it is."""
        for entry in self.entries.values():
            crc = size = 0
            try:
                for part in self._inflated(entry):
                    crc, size = zlib.crc32(part, crc), size + len(part)
                    if size > entry.size:
                        break
            except zlib.error:
                raise _invalid(f"{entry.name} cannot be decompressed") from None
            if size != entry.size or crc != entry.crc:
                raise _damaged(entry.name)

    def _inflated(self, entry: ArchiveEntry) -> Iterator[bytes]:
        """Yield the bytes of an entry, of any size and ratio, in parts."""
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        stop = entry.data + entry.compressed
        for at in range(entry.data, stop, _PART):
            part = self.data[at : min(at + _PART, stop)]
            if entry.method == _STORED:
                yield part
                continue
            while part:
                yield inflater.decompress(part, _PART)
                part = inflater.unconsumed_tail

    def rewrite(self, replaced: Mapping[str, bytes], dropped: Collection[str] = ()) -> bytes:
        """Return the archive with the bytes of some entries replaced and some entries left out.

        All other entries keep all their bytes, and all keep their order, methods, dates, extra fields and comments.
        Without changes the result has the same bytes.
        """
        changed = {name: data for name, data in replaced.items() if data != self.read(name)}
        if not changed and not set(dropped) & self.entries.keys():
            return self.data
        kept = [entry for entry in self.entries.values() if entry.name not in dropped]
        pieces: list[bytes] = []
        headers: dict[str, bytes] = {}
        at = 0
        for entry in sorted(kept, key=lambda entry: entry.start):
            header = self.data[entry.header]
            body = self.data[entry.start : entry.end]
            if entry.name in changed:
                header, body = self._changed(entry, changed[entry.name])
            headers[entry.name] = header[:42] + struct.pack("<L", at) + header[46:]
            pieces.append(body)
            at += len(body)
        directory = b"".join(headers[entry.name] for entry in kept)
        end = bytearray(self.data[self._end :])
        struct.pack_into("<2H2L", end, 8, len(kept), len(kept), len(directory), at)
        return b"".join((*pieces, directory, end))

    def _changed(self, entry: ArchiveEntry, data: bytes) -> tuple[bytes, bytes]:
        """Return header in the directory, and local header with data, of an entry with new bytes."""
        compressed = data
        if entry.method == _DEFLATED:
            compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
            compressed = compressor.compress(data) + compressor.flush()
        sums = struct.pack("<3L", zlib.crc32(data), len(compressed), len(data))
        fields = _DIRECTORY.unpack_from(header := self.data[entry.header])
        name, extra, comment = _split(header[_DIRECTORY.size :], *fields[10:13])
        extra = _without_zip64(extra)
        flags = fields[3] & ~_DESCRIPTOR
        head = header[:8] + struct.pack("<H", flags) + header[10:16] + sums
        head += struct.pack("<3H", len(name), len(extra), len(comment)) + header[34:46]
        local = self.data[entry.start : entry.data]
        *_, name_length, extra_length = _LOCAL.unpack_from(local)
        name, local_extra = _split(local[_LOCAL.size :], name_length, extra_length)
        local_extra = _without_zip64(local_extra)
        body = local[:6] + struct.pack("<H", flags) + local[8:14] + sums
        body += struct.pack("<2H", len(name), len(local_extra)) + name + local_extra + compressed
        return head + name + extra + comment, body


def rewrite(data: bytes, replaced: Mapping[str, bytes], dropped: Collection[str] = ()) -> bytes:
    """Return a package with the bytes of some entries replaced and some left out (`Archive.rewrite`)."""
    return Archive(data).rewrite(replaced, dropped)


def _check_names(names: Iterable[str], folded: bool) -> None:
    seen: set[str] = set()
    for name in names:
        shown = repr(name[:80])
        if len(name) > LONGEST_NAME:
            raise _invalid(f"the name of the entry {shown}… is longer than {LONGEST_NAME} characters")
        if name.startswith("/") or "\\" in name or "\0" in name or ".." in name.split("/") or name[1:2] == ":":
            raise _invalid(f"an entry has the name {shown}, which is no path within the package")
        key = name.lower() if folded else name
        if key in seen:
            raise _invalid(f"two entries have the name {shown}")
        seen.add(key)


def _check_sizes(entries: Iterable[ArchiveEntry], upload: int) -> None:
    total = sum(entry.size for entry in entries)
    if total > MOST_BYTES or total > max(LEAST_BYTES_FOR_RATIO, MOST_RATIO * upload):
        raise _invalid(f"it would be {total // _MB} MB when decompressed")


def _split(data: bytes, *lengths: int) -> list[bytes]:
    found: list[bytes] = []
    for length in lengths:
        found.append(data[:length])
        data = data[length:]
    return found


def _end_of_directory(data: bytes) -> int:
    """Return the offset of the record at the archive's end."""
    at = data.rfind(b"PK\5\6", max(0, len(data) - _END.size - 0xFFFF))
    if at < 0 or at + _END.size > len(data):
        raise _invalid("it is no ZIP package, or its end is missing")
    return at


def _entries(data: bytes, end: int) -> list[ArchiveEntry]:
    _, disk, first_disk, on_disk, count, size, start, _ = _END.unpack_from(data, end)
    if disk or first_disk or on_disk != count or start + size > end:
        raise _invalid("its directory is damaged, or it is a ZIP64 package")
    if count > MOST_ENTRIES:
        raise _invalid(f"it has more than {MOST_ENTRIES} entries")
    entries: list[ArchiveEntry] = []
    at = start
    for _ in range(count):
        if at + _DIRECTORY.size > end or data[at : at + 4] != b"PK\1\2":
            raise _invalid(f"its directory is damaged at byte {at}")
        entries.append(_entry(data, at, start))
        at = entries[-1].header.stop
    if at != start + size:
        raise _invalid("its directory has a wrong size")
    ends = dict(pairwise(sorted([*(entry.start for entry in entries), start])))
    if len(ends) != len(entries):
        raise _invalid("two of its entries overlap")
    for entry in entries:
        if entry.data + entry.compressed > ends[entry.start]:
            raise _invalid(f"the entry {entry.name[:80]!r} overlaps another one")
    return [replace(entry, end=ends[entry.start]) for entry in entries]


def _entry(data: bytes, at: int, directory: int) -> ArchiveEntry:
    """Read the entry whose header in the directory is at `at`, and compare it with its local header."""
    fields = _DIRECTORY.unpack_from(data, at)
    flags, method, (crc, compressed, size), start = fields[3], fields[4], fields[7:10], fields[16]
    begin = at + _DIRECTORY.size
    raw, extra, _ = _split(data[begin : begin + sum(fields[10:13])], *fields[10:13])
    name = raw.decode("utf-8" if flags & _UTF_8 else "cp437", "replace")
    large = iter(_zip64(extra))
    size, compressed, start = (next(large, 0) if value == 0xFFFFFFFF else value for value in (size, compressed, start))
    if flags & _ENCRYPTED:
        raise _invalid(f"the entry {name[:80]!r} is encrypted; remove the password and send it again")
    if method not in (_STORED, _DEFLATED):
        raise _invalid(f"the entry {name[:80]!r} is compressed by the method {method}, which is not read")
    if start + _LOCAL.size > directory or data[start : start + 4] != b"PK\3\4":
        raise _invalid(f"the entry {name[:80]!r} is missing at byte {start}")
    local = _LOCAL.unpack_from(data, start)
    begin = start + _LOCAL.size
    if local[3] != method or data[begin : begin + local[9]] != raw:
        raise _invalid(f"the entry {name[:80]!r} has another name or method in its own header")
    header = slice(at, at + _DIRECTORY.size + sum(fields[10:13]))
    return ArchiveEntry(name, method, crc, compressed, size, start, begin + local[9] + local[10], directory, header)


def _extra_fields(extra: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(extra):
        id, length = struct.unpack_from("<2H", extra, at)
        yield id, extra[at + 4 : at + 4 + length]
        at += 4 + length


def _zip64(extra: bytes) -> tuple[int, ...]:
    """Return the numbers of the extra field for those that are 0xFFFFFFFF in a header."""
    field = dict(_extra_fields(extra)).get(_ZIP64, b"")
    return struct.unpack(f"<{min(len(field) // 8, 3)}Q", field[: min(len(field) // 8, 3) * 8])


def _without_zip64(extra: bytes) -> bytes:
    fields = list(_extra_fields(extra))
    if all(id != _ZIP64 for id, _ in fields):
        return extra
    return b"".join(struct.pack("<2H", id, len(field)) + field for id, field in fields if id != _ZIP64)
