"""What is found in a document's segments, and what replacing it makes of their translations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dragoman.service.document_search import SCAN_CHARACTERS, SegmentQuery, replaced, search
from dragoman.storage.document_files import SOURCE, FolderFiles
from wholetext.files.segmentfile import SegmentFile, SourceUnit
from wholetext.markup import marks

ID = "A" * 32


async def folder_of(tmp_path: Path, pairs: Sequence[tuple[str, str]]) -> FolderFiles:
    files, upload = FolderFiles(tmp_path / "documents"), tmp_path / "upload"
    files.folder.mkdir()
    upload.write_bytes(b"")
    await files.put(ID, SOURCE, upload)
    SegmentFile(upload).create(SourceUnit(source, "", "", False, translation=target) for source, target in pairs)
    await files.add_segments(ID, upload)
    return files


async def found(files: FolderFiles, total: int, query: SegmentQuery, limit: int = 100) -> list[int]:
    """All numbers, by as many answers as there are; every answer gets on."""
    numbers, first = list[int](), 0
    while True:
        page = await search(files, ID, total, query, first, limit)
        assert len(page.numbers) <= limit and all(n >= first for n in page.numbers)
        numbers += page.numbers
        if page.next is None:
            return numbers
        assert page.next > first
        first = page.next


PAIRS = [
    ("The <g1>tra</g1>in leaves.", "Der Zug fährt."),
    ("Straße", "STREET"),
    ("Nothing", "ein <x1/>zug"),
    ("<g1>zug</g1>", "ﬁn"),
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (SegmentQuery(), [0, 1, 2, 3]),
        (SegmentQuery("TRAIN"), [0]),
        (SegmentQuery("strasse"), [1]),
        (SegmentQuery("zug"), [0, 2, 3]),
        (SegmentQuery("zug", "translation"), [0, 2]),
        (SegmentQuery("zug", "source"), [3]),
        (SegmentQuery("zug", match_case=True), [2, 3]),
        (SegmentQuery("fa\u0308hrt"), [0]),
        (SegmentQuery("FIN"), [3]),
        (SegmentQuery("g1"), []),
        (SegmentQuery("e" + chr(0) + "D"), []),
        (SegmentQuery("t", kind="edited"), []),
        (SegmentQuery("t", kind="unreviewed"), [0, 1, 2]),
    ],
)
@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_texts_are_found_as_a_reader_sees_them(
    tmp_path: Path, query: SegmentQuery, expected: list[int], limit: int
) -> None:
    files = await folder_of(tmp_path, PAIRS)
    assert await found(files, len(PAIRS), query, limit) == expected


async def test_a_search_of_much_text_comes_in_parts(tmp_path: Path) -> None:
    long = "a" * (SCAN_CHARACTERS // 3)
    files = await folder_of(tmp_path, [(long, ""), (long, ""), (long, ""), (long, ""), (f"{long}b", "")])
    first = await search(files, ID, 5, SegmentQuery("ab"), 0, 100)
    assert (first.numbers, first.next is None) == ([], False)
    assert await found(files, 5, SegmentQuery("ab")) == [4]


@pytest.mark.parametrize(
    ("text", "find", "replacement", "expected"),
    [
        ("Anna and ANNA", "anna", "Eva", "Eva and Eva"),
        ("<g1>New</g1> York", "new york", "Paris", "<g1>Paris</g1>"),
        ("in <g1>New <x2/>York</g1>!", "New York", "Paris", "in <g1>Paris<x2/></g1>!"),
        ("Straße", "strasse", "Weg", "Weg"),
        ("Fu\u0308r f\u00fcr", "f\u00fcr", "vor", "vor vor"),
        ("aaaa", "aa", "b", "bb"),
        ("a<x1/>b", "b", "", "a<x1/>"),
        ("<g1>g1</g1>", "g1", "<", "<g1><</g1>"),
        ("ab", "b", "b and b", "ab and b"),
        ("شركة ألف", "ألف", "باء", "شركة باء"),
    ],
)
def test_what_is_replaced_keeps_the_marks(text: str, find: str, replacement: str, expected: str) -> None:
    assert replaced(text, find, replacement, match_case=False, most_characters=1_000) == expected
    assert not marks.lost(text, expected)


@pytest.mark.parametrize(
    ("text", "find", "match_case"),
    [("a", "b", False), ("Anna", "anna", True), ("ß", "s", False), ("x" * 40, "x", False)],
)
def test_what_is_not_certain_or_too_long_is_not_replaced(text: str, find: str, match_case: bool) -> None:
    assert replaced(text, find, "y" * 30, match_case=match_case, most_characters=1_000) is None
