"""ZIP packages: what is refused before anything is inflated, and what stays as it was when they are written."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable

import pytest

from wholetext.errors import InvalidFile
from wholetext.files import archive
from wholetext.files.archive import Archive, rewrite


def package(*entries: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as out:
        for name, data in entries:
            info = zipfile.ZipInfo(name, (2007, 8, 9, 10, 12, 14))
            info.compress_type, info.comment, info.extra = method, b"comment", struct.pack("<2H3s", 0xCAFE, 3, b"abc")
            out.writestr(info, data)
        out.comment = b"of the archive"
    return buffer.getvalue()


def streamed(*entries: tuple[str, bytes]) -> bytes:
    """A package whose local headers have no sizes, and descriptors behind the data."""

    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.data = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # pyright: ignore
            self.data += data
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in entries:
            with out.open(name, "w", force_zip64=True) as file:
                file.write(data)
    return bytes(pipe.data)


def details(data: bytes) -> list[tuple[object, ...]]:
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        assert found.testzip() is None
        return [
            (i.filename, i.date_time, i.extra, i.comment, i.compress_type, i.external_attr) for i in found.infolist()
        ]


@pytest.mark.parametrize("make", [package, streamed])
def test_only_the_entries_that_change_get_other_bytes(make: Callable[..., bytes]) -> None:
    data = make(("mimetype", b"application/x"), ("a/b.xml", b"<a>one</a>" * 50), ("c.bin", bytes(range(256))))
    found = Archive(data)
    assert found.names == ["mimetype", "a/b.xml", "c.bin"]
    assert rewrite(data, {name: found.read(name) for name in found.names}) == data
    written = rewrite(data, {"a/b.xml": b"<a>two</a>"})
    assert details(written) == details(data)
    after = Archive(written)
    assert [after.read(name) for name in after.names] == [b"application/x", b"<a>two</a>", bytes(range(256))]
    for name in ("mimetype", "c.bin"):
        old, new = found.entries[name], after.entries[name]
        assert written[new.start : new.end] == data[old.start : old.end]
    assert Archive(rewrite(data, {}, {"c.bin"})).names == ["mimetype", "a/b.xml"]


def patched(data: bytes, offset_in_directory: int, value: bytes, *, entry: int = 0) -> bytes:
    """Replace bytes of an entry's header in the directory."""
    changed = bytearray(data)
    at = data.index(b"PK\1\2")
    for _ in range(entry):
        at = data.index(b"PK\1\2", at + 1)
    changed[at + offset_in_directory : at + offset_in_directory + len(value)] = value
    return bytes(changed)


PLAIN = package(("a.xml", b"a" * 1000), ("b.xml", b"b"))
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"

HOSTILE = {
    "empty": (b"", "empty"),
    "no package": (b"hello" * 100, "no ZIP package"),
    "cut": (PLAIN[:-30], "end is missing"),
    "password": (OLE + bytes(500) + "EncryptedPackage".encode("utf-16-le"), "protected by a password"),
    "of Office 97": (OLE + bytes(500), "save it as"),
    "encrypted entry": (patched(PLAIN, 8, b"\1\0"), "is encrypted"),
    "other method": (patched(PLAIN, 10, b"\x0c\0"), "method 12"),
    "parent's folder": (package(("../a.xml", b"")), "no path within"),
    "absolute": (package(("/a.xml", b"")), "no path within"),
    "backslash": (PLAIN.replace(b"a.xml", b"a\\xml"), "no path within"),
    "drive": (package(("C:/a.xml", b"")), "no path within"),
    "NUL": (PLAIN.replace(b"a.xml", b"a\0xml"), "no path within"),
    "long name": (package(("a" * 261, b"")), "longer than 260"),
    "one name twice": (PLAIN.replace(b"b.xml", b"A.xml"), "two entries have the name"),
    "overlapping": (patched(PLAIN, 42, bytes(4), entry=1).replace(b"b.xml", b"a.xml"), "overlap"),
    "longer than its place": (patched(PLAIN, 20, b"\xff\xff\0\0"), "overlaps another"),
    "other name in its own header": (PLAIN.replace(b"a.xml", b"c.xml", 1), "in its own header"),
    "more than 300 MB": (patched(PLAIN, 24, struct.pack("<L", 301 << 20)), "301 MB when decompressed"),
    "too many": (package(*((f"{n}", b"") for n in range(archive.MOST_ENTRIES + 1))), "more than 5000 entries"),
}


@pytest.mark.parametrize("data, message", HOSTILE.values(), ids=HOSTILE)
def test_hostile_packages_are_refused_before_anything_is_inflated(
    data: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive.zlib, "decompressobj", None)
    with pytest.raises(InvalidFile, match=message):
        Archive(data, folded=True)


def test_the_directory_may_lie_about_sizes() -> None:
    data = package(("a.xml", b"a" * 1000))
    for size in (999, 1001):
        with pytest.raises(InvalidFile, match=r"a\.xml is damaged"):
            Archive(patched(data, 24, struct.pack("<L", size))).read("a.xml")
    with pytest.raises(InvalidFile, match="damaged"):
        Archive(patched(data, 16, struct.pack("<L", zlib.crc32(b"other")))).read("a.xml")


def test_one_entry_has_a_limit_of_bytes_and_of_compression() -> None:
    data = package(("a.bin", bytes(11 << 20)), ("b.bin", b"0" * (1 << 10)))
    with pytest.raises(InvalidFile, match="compressed more than 150 times"):
        Archive(data).read("a.bin")
    assert len(Archive(data).read("b.bin")) == 1 << 10
    stored = patched(package(("a.bin", b"")), 24, struct.pack("<L", 65 << 20))
    with pytest.raises(InvalidFile, match="more than 64 MB"):
        archive_with_large_limit(stored).read("a.bin")


def archive_with_large_limit(data: bytes) -> Archive:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "LEAST_BYTES_FOR_RATIO", 1 << 30)
        return Archive(data)
