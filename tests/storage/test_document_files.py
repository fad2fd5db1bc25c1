"""Where documents' files and segments lie: the same tests over a folder and a database, SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.errors import DiskFull, DocumentLost, Unavailable
from dragoman.storage.database import Database
from dragoman.storage.document_blobs import CHUNK_BYTES, MOST_ROWS, DatabaseFiles
from dragoman.storage.document_files import SOURCE, DocumentFiles, FolderFiles, full_disk_reported, shortage
from tests.storage.conftest import new_database
from wholetext.files.segmentfile import MOST_CHANGED, Result, SegmentEdit, SegmentFile, SegmentKind, SourceUnit

ID = "A" * 32
OTHER = "B" * 32
UNITS = [SourceUnit(f"text {n % 3}", f"place {n}", "around", follows=n > 0) for n in range(7)]


@pytest.fixture(params=["folder", "sqlite", pytest.param("postgresql", marks=pytest.mark.acceptance)])
async def files(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DocumentFiles]:
    folder = tmp_path / "documents"
    folder.mkdir()
    if request.param == "folder":
        made = FolderFiles(folder)
        await made.identify()
        yield made
        return
    database = Database(new_database(request, tmp_path, request.param))
    await database.open()
    yield DatabaseFiles(database, folder)
    await database.close()


async def put(files: DocumentFiles, tmp_path: Path, content: bytes, name: str = SOURCE, id: str = ID) -> None:
    path = tmp_path / "upload"
    path.write_bytes(content)
    await files.put(id, name, path)
    assert not path.exists()


async def content(files: DocumentFiles, name: str = SOURCE, id: str = ID) -> bytes | None:
    file = await files.open(id, name)
    if file is None:
        return None
    with file:
        return file.read()


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 1])
async def test_a_file_is_there_until_its_document_is_deleted(files: DocumentFiles, tmp_path: Path, size: int) -> None:
    data = bytes(n % 251 for n in range(size))
    await put(files, tmp_path, data)
    await put(files, tmp_path, b"other", id=OTHER)
    assert await content(files) == data
    opened = await files.open(ID, SOURCE)
    assert opened is not None
    await files.delete(ID)
    with opened:
        assert opened.read() == data
    assert [await content(files), await content(files, id=OTHER)] == [None, b"other"]
    await files.delete(ID)


async def test_a_result_replaces_those_of_fewer_edits_and_nothing_else(files: DocumentFiles, tmp_path: Path) -> None:
    for name in (SOURCE, "terms", "result-0", "result-9", "result-10", "result-2", "result-2"):
        await put(files, tmp_path, name.encode(), name)
    for name in (SOURCE, "terms", "result-10", "result-2"):
        assert await content(files, name) == name.encode()
    assert [await content(files, name) for name in ("result-0", "result-9")] == [None, None]


async def test_what_documents_take_is_counted(files: DocumentFiles, tmp_path: Path) -> None:
    assert (await files.use()).size_bytes < 100
    await put(files, tmp_path, bytes(100_000))
    used = await files.use()
    assert 100_000 <= used.size_bytes < 101_000
    assert used.old_ids == []
    await files.delete(ID)
    assert (await files.use()).size_bytes < 100


async def with_segments(files: DocumentFiles, tmp_path: Path, units: list[SourceUnit] = UNITS) -> None:
    await put(files, tmp_path, b"x")
    assert [await files.units(ID), await files.page(ID, 0, 1)] == [None, None]
    await add(files, tmp_path, units)


async def add(files: DocumentFiles, tmp_path: Path, units: list[SourceUnit]) -> None:
    """Give a document the segments of a file, as a worker makes it."""
    times = Counter(one.source for one in units)
    file = SegmentFile(tmp_path / "made")
    file.create(replace(one, equal=times[one.source] - 1) for one in units)
    await files.add_segments(ID, file.path)
    file.path.unlink(missing_ok=True)


async def translations(files: DocumentFiles, tmp_path: Path) -> list[str]:
    """What a worker finds that writes the result."""
    copy = SegmentFile(tmp_path / "copy")
    copy.path.unlink(missing_ok=True)
    number = await files.copy_segments(ID, copy.path)
    found = copy.translations()
    assert number == len(found)
    return found


async def test_segments_come_in_their_order_with_what_is_translated(files: DocumentFiles, tmp_path: Path) -> None:
    await with_segments(files, tmp_path)
    doubt: list[dict[str, object]] = [{"code": "c", "message": "m", "missing": []}]
    await files.store(
        ID, [Result(2, "zwei", 0.5, doubt), Result(0, "null", None, ()), Result(5, "f", 1.0, doubt, memory=True)]
    )
    await files.store(ID, [])
    units = await files.units(ID)
    assert units is not None
    assert units.sources == [one.source for one in UNITS]
    assert [*map(bool, units.follows)] == [one.follows for one in UNITS]
    assert [*map(bool, units.done)] == [n in (0, 2, 5) for n in range(7)]
    page = await files.page(ID, 1, 2)
    assert page is not None
    assert [(one.n, one.place, one.translation, one.equal) for one in page.segments] == [
        (1, "place 1", None, 1),
        (2, "place 2", "zwei", 1),
    ]
    assert (page.segments[1].confidence, page.segments[1].warnings, page.segments[1].doubtful) == (0.5, doubt, True)
    assert (page.total, page.doubtful_total) == (7, 2)
    doubtful = await files.page(ID, 1, 9, doubtful=True)
    assert doubtful is not None
    assert ([one.n for one in doubtful.segments], doubtful.total) == ([5], 2)
    assert doubtful.segments[0].memory
    assert await translations(files, tmp_path) == ["null", "text 1", "zwei", "text 0", "text 1", "f", "text 0"]
    await files.delete(ID)
    assert [await files.units(ID), await files.page(ID, 0, 1)] == [None, None]
    with pytest.raises(DocumentLost):
        await translations(files, tmp_path)


async def test_an_edit_stays_and_changes_equal_segments_where_that_is_wanted(
    files: DocumentFiles, tmp_path: Path
) -> None:
    await with_segments(files, tmp_path)
    await files.store(ID, [Result(n, f"t{n}", None, [{"code": "c"}]) for n in range(7)])
    done = await files.edit(ID, [SegmentEdit(4, "x")])
    assert ([(one.n, one.translation, one.edited) for one in done.changed], done.doubtful) == ([(4, "x", True)], 6)
    done = await files.edit(ID, [SegmentEdit(3, "y")], all_equal=True)
    assert ([one.n for one in done.changed], done.doubtful) == ([0, 3, 6], 3)
    await files.store(ID, [Result(3, "late", None, ()), Result(1, "late", None, ())])
    assert await translations(files, tmp_path) == ["y", "late", "t2", "y", "x", "t5", "y"]


async def test_what_the_machine_wrote_comes_back_and_what_is_reviewed_stays(
    files: DocumentFiles, tmp_path: Path
) -> None:
    await with_segments(files, tmp_path)
    doubt: list[dict[str, object]] = [{"code": "c"}]
    await files.store(ID, [Result(n, f"t{n}", None, doubt, memory=n == 1, examples=2 * (n == 2)) for n in range(7)])

    async def kinds(n: int) -> str:
        wanted: list[SegmentKind] = ["doubtful", "edited", "reviewed", "unreviewed", "memory", "examples"]
        return " ".join([kind for kind in wanted if n in await files.numbers(ID, 0, 9, kind, 9)])

    assert [await kinds(n) for n in (0, 1, 2)] == [
        *("doubtful unreviewed", "doubtful unreviewed memory", "doubtful unreviewed examples"),
    ]
    done = await files.edit(ID, [SegmentEdit(0), SegmentEdit(1, "x"), SegmentEdit(2, "y", reviewed=False)])
    assert [(one.translation, one.machine) for one in done.changed] == [("t0", None), ("x", "t1"), ("y", "t2")]
    assert [await kinds(n) for n in (0, 1, 2)] == ["reviewed", "edited reviewed", "edited unreviewed"]
    await files.edit(ID, [SegmentEdit(1, "z")])
    await files.store(ID, [Result(n, "late", None, ()) for n in range(3)])
    assert (await translations(files, tmp_path))[:3] == ["t0", "z", "y"]
    restored = await files.edit(ID, [SegmentEdit(1, "t1", reviewed=False), SegmentEdit(0, reviewed=False)])
    assert [(one.translation, one.machine, one.edited) for one in restored.changed] == [
        ("t1", None, False),
        ("t0", None, False),
    ]
    assert [await kinds(n) for n in (0, 1)] == ["doubtful unreviewed", "doubtful unreviewed memory"]
    assert restored.doubtful == 6


async def test_a_segment_has_its_examples_until_a_person_edits_it(files: DocumentFiles, tmp_path: Path) -> None:
    await with_segments(files, tmp_path)
    await files.store(ID, [Result(0, "t", None, (), examples=3, best_similarity=86.6), Result(1, "t", None, ())])

    async def examples() -> list[tuple[int, float | None]]:
        return [(one.examples, one.best_similarity) for one in await files.rows(ID, [0, 1])]

    assert await examples() == [(3, 86.6), (0, None)]
    await files.edit(ID, [SegmentEdit(0, "x")])
    assert await examples() == [(0, None), (0, None)]
    await files.edit(ID, [SegmentEdit(0, "t")])
    assert await examples() == [(3, 86.6), (0, None)]


async def test_an_edit_of_another_translation_than_is_there_changes_nothing(
    files: DocumentFiles, tmp_path: Path
) -> None:
    await with_segments(files, tmp_path)
    await files.store(ID, [Result(n, f"t{n}", None, ()) for n in range(7)])
    done = await files.edit(ID, [SegmentEdit(n, "x", was="t3") for n in (2, 3)])
    assert ([one.n for one in done.changed], done.conflicts) == ([3], [2])
    assert (await translations(files, tmp_path))[2:4] == ["t2", "x"]


async def test_segments_are_found_by_number_and_read_in_parts(files: DocumentFiles, tmp_path: Path) -> None:
    await with_segments(files, tmp_path)
    await files.store(ID, [Result(n, "ü" * 10, None, [{"code": "c"}] if n % 2 else ()) for n in range(6)])
    assert [one.n for one in await files.rows(ID, [5, 99, 2])] == [2, 5]
    assert await files.numbers(ID, 1, 6, None, 3) == [1, 2, 3]
    assert await files.numbers(ID, 2, 9, "doubtful", 9) == [3, 5]
    assert [tuple(one) for one in await files.texts(ID, 5, None, 10**6)] == [(5, "text 2", "ü" * 10), (6, "text 0", "")]
    assert [one.n for one in await files.texts(ID, 0, "doubtful", 10)] == [1]
    assert await files.texts(ID, 6, "doubtful", 10) == []


async def test_segments_of_a_folder_of_before_are_read_and_edited(tmp_path: Path) -> None:
    """As written before people could review: without the columns for that."""
    files = FolderFiles(tmp_path)
    await with_segments(files, tmp_path)
    await files.edit(ID, [SegmentEdit(1, "x")])
    with closing(sqlite3.connect(tmp_path / ID / "segments.db", isolation_level=None)) as connection:
        for column in ("machine", "reviewed", "examples", "best_similarity", "looks", "base"):
            connection.execute(f"ALTER TABLE segments DROP COLUMN {column}")
        connection.execute("PRAGMA user_version = 0")
    page = await files.page(ID, 0, 2)
    assert page is not None
    assert [(one.edited, one.reviewed, one.machine) for one in page.segments] == [
        (False, False, None),
        (True, True, None),
    ]
    [again] = (await files.edit(ID, [SegmentEdit(1, "y")])).changed
    assert (again.translation, again.edited, again.machine) == ("y", True, None)


async def test_a_segment_keeps_which_file_has_changed_it_last(files: DocumentFiles, tmp_path: Path) -> None:
    await with_segments(files, tmp_path)
    edits = [SegmentEdit(1), SegmentEdit(1, "x", base="a-b"), SegmentEdit(1, "y"), SegmentEdit(1, "x", base="c-d")]
    bases = [(await files.edit(ID, [edit])).changed[0].base for edit in edits]
    assert bases == [None, "a-b", "a-b", "c-d"]


async def test_texts_come_back_as_they_are(files: DocumentFiles, tmp_path: Path) -> None:
    odd = "a\x00b \x1b \U0001f600 \u2028 <g1>'\"%</g1>"
    await with_segments(files, tmp_path, [SourceUnit(odd, odd, odd, False)])
    await files.store(ID, [Result(0, odd, None, ())])
    page = await files.page(ID, 0, 1)
    assert page is not None
    assert [page.segments[0].source, page.segments[0].place, page.segments[0].translation] == [odd] * 3


async def test_many_segments_and_edits_of_very_many_are_bounded(files: DocumentFiles, tmp_path: Path) -> None:
    number = 2 * MOST_ROWS + 1
    units = [SourceUnit("same" if n % 2 else f"text {n}", "", "", False) for n in range(number)]
    await with_segments(files, tmp_path, units)
    changed = (await files.edit(ID, [SegmentEdit(1, "gleich")], all_equal=True)).changed
    assert len(changed) == MOST_CHANGED
    assert changed[0].equal == number // 2 - 1
    assert await translations(files, tmp_path) == ["gleich" if n % 2 else f"text {n}" for n in range(number)]
    await files.delete(ID)
    await put(files, tmp_path, b"x")
    await add(files, tmp_path, UNITS)
    assert await translations(files, tmp_path) == [one.source for one in UNITS]


async def test_segments_that_were_translated_elsewhere_come_with_their_translations(
    files: DocumentFiles, tmp_path: Path
) -> None:
    edited = replace(UNITS[0], translation="a", edited=True)
    doubtful = replace(
        UNITS[1], translation="b", confidence=0.5, warnings='[{"code": "c"}]', doubtful=True, memory=True
    )
    await with_segments(files, tmp_path, [edited, doubtful, UNITS[2]])
    await files.store(ID, [Result(0, "late", None, ())])
    page = await files.page(ID, 0, 9)
    assert page is not None
    assert [(one.translation, one.edited, one.doubtful, one.memory) for one in page.segments] == [
        ("a", True, False, False),
        ("b", False, True, True),
        (None, False, False, False),
    ]
    assert (page.segments[1].warnings, page.doubtful_total) == ([{"code": "c"}], 1)


async def test_a_document_can_be_deleted_while_others_read_and_write_it(files: DocumentFiles, tmp_path: Path) -> None:
    await with_segments(files, tmp_path)
    calls = [files.page(ID, 0, 3) for _ in range(5)] + [
        files.edit(ID, [SegmentEdit(1, "x")], all_equal=True) for _ in range(5)
    ]
    found = await asyncio.gather(*calls, files.delete(ID), return_exceptions=True)
    assert all(not isinstance(one, BaseException) or isinstance(one, DocumentLost) for one in found), found


@pytest.mark.parametrize("junk", [b"", bytes(8192), b"junk" * 5_000, None])
async def test_damaged_segments_are_an_error_of_the_document(tmp_path: Path, junk: bytes | None) -> None:
    files = FolderFiles(tmp_path)
    await with_segments(files, tmp_path)
    path = tmp_path / ID / "segments.db"
    path.unlink()
    if junk is not None:
        path.write_bytes(junk)
    for call in (
        translations(files, tmp_path),
        files.edit(ID, [SegmentEdit(0, "x")]),
        files.store(ID, [Result(0, "", None, ())]),
    ):
        with pytest.raises(DocumentLost):
            await call
    if junk is not None:
        with pytest.raises(DocumentLost):
            await files.page(ID, 0, 1)
    await files.delete(ID)


async def test_a_folder_is_the_same_under_another_path_and_none_is_another(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to(tmp_path / "a")
    made = [FolderFiles(tmp_path / name) for name in ("a", "b", "c", "a")]
    for one in made:
        await one.identify()
    places = [one.place for one in made]
    assert places[0] == places[1] == places[3] != places[2]


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        *((one, DiskFull) for one in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)),
        *((one, Unavailable) for one in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)),
        *((one, type(None)) for one in (errno.EACCES, errno.ENOENT, errno.EIO)),
    ],
)
def test_what_the_machine_lacks_for_now_may_succeed_later(number: int, kind: type) -> None:
    assert type(shortage(OSError(number, "x"))) is kind


def test_used_up_handles_are_a_lack_of_resources(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with pytest.raises(Unavailable, match=os.strerror(errno.EMFILE)), full_disk_reported():
            (tmp_path / "file").write_bytes(b"x")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
