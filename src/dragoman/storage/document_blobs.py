"""Documents' files and segments in the database, so that any server that shares it has them, also after another's death.

A file is rows of a megabyte, and a segment is a row. No transaction has more than some of them, so that a large document does
not hold up others. Texts are stored as UTF-8, since PostgreSQL's own type of texts has no U+0000, and files may have it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO, cast

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Dialect,
    Float,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    and_,
    bindparam,
    case,
    delete,
    false,
    func,
    insert,
    literal,
    not_,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.types import TypeDecorator

from dragoman.errors import DocumentLost
from dragoman.storage.database import METADATA, Database, utc_now
from dragoman.storage.document_files import (
    ORPHAN_S,
    FolderUse,
    faults_of,
    full_disk_reported,
    is_replaced,
    make_private,
)
from dragoman.threads import RESULTS, RUNS
from wholetext.files import segmentfile
from wholetext.files.segmentfile import (
    MOST_CHANGED,
    Edited,
    Page,
    Result,
    SegmentEdit,
    SegmentFile,
    SegmentKind,
    SegmentTexts,
    SourceUnit,
    StoredSegment,
    Units,
)

DATABASE = "database"
"""The place of documents that are in it."""
CHUNK_BYTES = 2**20
"""Of a file in one row, and of segments in one transaction."""
MOST_ROWS = 5_000
"""Segments in one transaction."""
_SEGMENTS = "segments"
"""The name of a file without content, which a document has when all its segments are there; its size is theirs."""
_DELETED_CHUNKS = 16


class _Utf8(TypeDecorator[str]):
    """A text as its bytes."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:
        return None if value is None else value.encode("utf-8", "surrogatepass")

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else bytes(value).decode("utf-8", "surrogatepass")


_files = Table(
    "document_files",
    METADATA,
    Column("blob", String(32), primary_key=True),
    Column("document_id", String(32), nullable=False, index=True),
    Column("name", String(64), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("is_complete", Boolean, nullable=False),
    Column("created_at", DateTime, nullable=False),  # UTC
)
_chunks = Table(
    "document_chunks",
    METADATA,
    Column("blob", String(32), primary_key=True),
    Column("n", Integer, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
_segments = Table(
    "document_segments",
    METADATA,
    Column("document_id", String(32), primary_key=True),
    Column("n", Integer, primary_key=True),
    Column("source", _Utf8, nullable=False),
    Column("place", _Utf8, nullable=False),
    Column("context", _Utf8, nullable=False),
    Column("follows", Boolean, nullable=False),
    Column("translation", _Utf8),
    Column("confidence", Float),
    Column("warnings", Text, nullable=False),
    Column("doubtful", Boolean, nullable=False),
    Column("edited", Boolean, nullable=False),
    Column("memory", Boolean, nullable=False),
    Column("equal", Integer, nullable=False),
    Column("machine", _Utf8),
    Column("reviewed", Boolean, nullable=False, server_default=false()),
    Column("examples", Integer, nullable=False, server_default="0"),
    Column("best_similarity", Float),
    Column("looks", Text, nullable=False, server_default="{}"),
    Column("base", String(21)),
    Index("ix_document_segments_doubtful", "document_id", "doubtful", "n"),
)
_SHOWN: list[Column[Any]] = [_segments.c[field.name] for field in fields(StoredSegment)]
_CONDITIONS: dict[SegmentKind | None, ColumnElement[bool]] = {
    None: true(),
    "doubtful": _segments.c.doubtful,
    "edited": _segments.c.edited,
    "reviewed": _segments.c.reviewed,
    "unreviewed": not_(_segments.c.reviewed),
    "memory": and_(_segments.c.memory, not_(_segments.c.edited)),
    "examples": and_(_segments.c.examples > 0, not_(_segments.c.edited)),
}


def _segment(row: Any) -> StoredSegment:
    values: dict[str, Any] = {field.name: getattr(row, field.name) for field in fields(StoredSegment)}
    origin: dict[str, Any] = {"memory": False, "examples": 0, "best_similarity": None} if row.edited else {}
    return StoredSegment(**{**values, **origin, "warnings": json.loads(row.warnings), "looks": json.loads(row.looks)})


def _complete(id: str, name: str) -> ColumnElement[bool]:
    return and_(_files.c.document_id == id, _files.c.name == name, _files.c.is_complete)


class DatabaseFiles:
    """Documents in the database; `work` is a folder of this server for files that are open. See `DocumentFiles`."""

    def __init__(self, database: Database, work: Path) -> None:
        self.place = DATABASE
        self._database = database
        self._work = work

    # ---- files

    async def put(self, id: str, name: str, path: Path) -> None:
        """See `DocumentFiles`."""
        blob, size = await self._begin(id, name), 0
        with path.open("rb") as file:
            for n in range(2**31):
                data = await RUNS.run(file.read, CHUNK_BYTES)
                if not data:
                    break
                row = {"blob": blob, "n": n, "data": data}
                await self._database.write(lambda connection, row=row: connection.execute(insert(_chunks), [row]))
                size += len(data)
        await self._end(id, name, blob, size)
        await RUNS.run(path.unlink)

    async def _begin(self, id: str, name: str) -> str:
        """Note a file that is not complete; return its blob."""
        row = {
            "blob": token_hex(16),
            "document_id": id,
            "name": name,
            "size": 0,
            "is_complete": False,
            "created_at": utc_now(),
        }
        await self._database.write(lambda connection: connection.execute(insert(_files), [row]))
        return str(row["blob"])

    async def _end(self, id: str, name: str, blob: str, size: int) -> None:
        """Let a file be there, and delete those that it replaces."""

        def end(connection: Connection) -> list[str]:
            completed = update(_files).where(_files.c.blob == blob).values(size=size, is_complete=True)
            connection.execute(completed)
            own = and_(_files.c.document_id == id, _files.c.is_complete, _files.c.blob != blob)
            others = connection.execute(select(_files.c.blob, _files.c.name).where(own))
            return [str(other) for other, of in others if of == name or is_replaced(of, name)]

        await self._delete_blobs(await self._database.write(end))

    async def open(self, id: str, name: str) -> BinaryIO | None:
        """See `DocumentFiles`."""
        query = select(_files.c.blob, _files.c.size).where(_complete(id, name)).order_by(_files.c.created_at.desc())
        while (found := await self._database.read(lambda connection: connection.execute(query).first())) is not None:
            blob, size = str(found[0]), int(found[1])
            file = await RESULTS.open(self._new_file)
            try:
                async for data in self._content(blob):
                    await RESULTS.run(_write, file, data)
                if await RESULTS.run(file.tell) == size:
                    await RESULTS.run(file.seek, 0)
                    return file
                again = await self._database.read(lambda connection: connection.execute(query).first())
                if again is not None and again[0] == blob:
                    raise DocumentLost("the document's files are damaged: delete it, and send it again")
            except BaseException:
                with suppress(OSError):  # of what could not be written before
                    file.close()
                raise
            file.close()  # it was deleted meanwhile, or replaced
        return None

    def _new_file(self) -> BinaryIO:
        with full_disk_reported():
            make_private(self._work)
            return cast(BinaryIO, tempfile.TemporaryFile(dir=self._work))

    async def _content(self, blob: str) -> AsyncIterator[bytes]:
        for n in range(2**31):
            query = select(_chunks.c.data).where(_chunks.c.blob == blob, _chunks.c.n == n)
            data = await self._database.read(lambda connection, query=query: connection.scalar(query))
            if data is None:
                return
            yield bytes(data)

    async def _delete_blobs(self, blobs: Iterable[str]) -> None:
        """Delete the content of files, some chunks a transaction, and then the files."""
        for blob in blobs:
            own = _chunks.c.blob == blob
            last = await self._database.read(
                lambda connection, own=own: connection.scalar(select(func.max(_chunks.c.n)).where(own))
            )
            for n in range(_DELETED_CHUNKS, (-1 if last is None else last) + _DELETED_CHUNKS + 1, _DELETED_CHUNKS):
                await self._execute(delete(_chunks).where(own, _chunks.c.n < n))
            await self._execute(delete(_files).where(_files.c.blob == blob))

    async def _execute(self, statement: Any) -> None:
        await self._database.write(lambda connection: connection.execute(statement))

    async def delete(self, id: str) -> None:
        """See `DocumentFiles`."""
        blobs = select(_files.c.blob).where(_files.c.document_id == id)
        await self._delete_segments(id)
        await self._delete_blobs(await self._database.read(lambda connection: list(connection.scalars(blobs))))

    async def use(self) -> FolderUse:
        """See `DocumentFiles`."""
        before = utc_now() - timedelta(seconds=ORPHAN_S)
        c = _files.c
        unfinished = select(c.blob).where(c.is_complete.is_(False), c.created_at < before)
        await self._delete_blobs(await self._database.read(lambda connection: list(connection.scalars(unfinished))))

        def use(connection: Connection) -> FolderUse:
            size = connection.scalar(select(func.coalesce(func.sum(c.size), 0)))
            old = select(c.document_id).group_by(c.document_id).having(func.max(c.created_at) < before)
            return FolderUse(int(size or 0), list(connection.scalars(old)))

        return await self._database.read(use)

    # ---- segments

    async def add_segments(self, id: str, path: Path) -> None:
        """See `DocumentFiles`."""
        await self._delete_segments(id)  # of a server that has died in the middle of it
        blob = await self._begin(id, _SEGMENTS)
        rows, size = _rows(id, path), 0
        while batch := await RUNS.run(_batch, rows):
            size += sum(3 * len(row["source"]) + len(row["context"]) + 100 for row in batch)
            await self._database.write(lambda connection, batch=batch: connection.execute(insert(_segments), batch))
        await self._end(id, _SEGMENTS, blob, size)

    async def _delete_segments(self, id: str) -> None:
        own = _segments.c.document_id == id
        last = await self._database.read(
            lambda connection: connection.scalar(select(func.max(_segments.c.n)).where(own))
        )
        for n in range(MOST_ROWS, (-1 if last is None else last) + MOST_ROWS + 1, MOST_ROWS):
            await self._execute(delete(_segments).where(own, _segments.c.n < n))

    async def units(self, id: str) -> Units | None:
        """See `DocumentFiles`."""
        c = _segments.c
        units = Units([], [], [], [])
        async for rows in self._all(id, c.source, c.context, c.follows, c.translation.is_not(None)):
            for source, context, follows, done in rows:
                units.sources.append(source)
                units.contexts.append(context)
                units.follows.append(int(follows))
                units.done.append(int(done))
        return units if await self._has_segments(id) else None

    async def _has_segments(self, id: str) -> bool:
        query = select(_files.c.blob).where(_complete(id, _SEGMENTS))
        return await self._database.read(lambda connection: connection.execute(query).first() is not None)

    async def _all(self, id: str, *columns: Any) -> AsyncIterator[Sequence[Any]]:
        """Columns of all segments in their order, some rows a transaction."""
        first = 0
        while True:
            c = _segments.c
            query = select(*columns).where(c.document_id == id, c.n >= first, c.n < first + MOST_ROWS).order_by(c.n)
            rows = await self._database.read(lambda connection, query=query: connection.execute(query).all())
            if not rows:
                return
            yield rows
            first += MOST_ROWS

    async def store(self, id: str, results: Sequence[Result]) -> None:
        """See `DocumentFiles`."""
        c = _segments.c
        changed = update(_segments).where(
            c.document_id == id, c.n == bindparam("number"), not_(c.edited), not_(c.reviewed)
        )
        rows = [
            {
                "number": one.n,
                "translation": one.translation,
                "confidence": one.confidence,
                "warnings": json.dumps(one.warnings),
                "doubtful": bool(one.warnings),
                "memory": one.memory,
                "examples": one.examples,
                "best_similarity": one.best_similarity,
            }
            for one in results
        ]
        if rows:
            await self._database.write(lambda connection: connection.execute(changed, rows))

    async def page(self, id: str, first: int, limit: int, *, doubtful: bool = False) -> Page | None:
        """See `DocumentFiles`."""
        c = _segments.c
        own = select(*_SHOWN).where(c.document_id == id).order_by(c.n)
        marked = own.where(c.doubtful).limit(limit).offset(first)
        query = marked if doubtful else own.where(c.n >= first, c.n < first + limit)
        has_all = select(_files.c.blob).where(_complete(id, _SEGMENTS))
        last = select(func.coalesce(func.max(c.n), -1)).where(c.document_id == id)

        def page(connection: Connection) -> Page | None:
            if connection.execute(has_all).first() is None:
                return None
            doubtful_total = _count_doubtful(connection, id)
            total = doubtful_total if doubtful else int(connection.scalar(last) or 0) + 1
            return Page([*map(_segment, cast(Any, connection.execute(query)))], total, doubtful_total)

        return await self._database.read(page)

    async def copy_segments(self, id: str, path: Path) -> int:
        """See `DocumentFiles`."""
        if not await self._has_segments(id):
            raise DocumentLost("the document's segments are missing: delete it, and send it again")
        c, file, number = _segments.c, SegmentFile(path), 0
        with full_disk_reported():
            await RUNS.run(file.create)
            async for rows in self._all(id, c.source, c.translation):
                units = [SourceUnit(source, "", "", False, translation=translation) for source, translation in rows]
                await RUNS.run(file.add, units, number)
                number += len(units)
        return number

    async def rows(self, id: str, numbers: Sequence[int]) -> list[StoredSegment]:
        """See `DocumentFiles`."""
        c = _segments.c
        query = select(*_SHOWN).where(c.document_id == id, c.n.in_(numbers)).order_by(c.n)
        return await self._database.read(lambda connection: [*map(_segment, cast(Any, connection.execute(query)))])

    async def numbers(self, id: str, first: int, stop: int, kind: SegmentKind | None, limit: int) -> list[int]:
        """See `DocumentFiles`."""
        c = _segments.c
        query = select(c.n).where(c.document_id == id, c.n >= first, c.n < stop, _CONDITIONS[kind])
        return await self._database.read(lambda connection: [*connection.scalars(query.order_by(c.n).limit(limit))])

    async def texts(self, id: str, first: int, kind: SegmentKind | None, most: int) -> list[SegmentTexts]:
        """See `DocumentFiles`."""
        c = _segments.c
        translation = func.coalesce(c.translation, literal("", _Utf8), type_=_Utf8)
        own = and_(c.document_id == id, c.n >= first, _CONDITIONS[kind])
        sizes = select(c.n, func.length(c.source) + func.length(translation)).where(own).order_by(c.n)

        def read(connection: Connection) -> list[SegmentTexts]:
            listed, size = list[int](), 0
            for n, bytes_of_one in connection.execute(sizes.limit(segmentfile.MOST_ROWS)):
                listed.append(n)
                size += bytes_of_one
                if size >= most:
                    break
            last = listed[-1] if listed else -1
            rows = connection.execute(select(c.n, c.source, translation).where(own, c.n <= last).order_by(c.n))
            return [SegmentTexts(*row) for row in rows]

        return await self._database.read(read)

    async def edits(self, id: str) -> list[tuple[str, str]]:
        """See `DocumentFiles`."""
        c = _segments.c
        approved = and_(c.document_id == id, or_(c.edited, c.reviewed))
        query = select(c.source, c.translation).where(approved).distinct().limit(MOST_CHANGED)

        def edits(connection: Connection) -> list[tuple[str, str]]:
            return [(source, translation) for source, translation in connection.execute(query)]

        return await self._database.read(edits)

    async def edit(self, id: str, edits: Sequence[SegmentEdit], *, all_equal: bool = False) -> Edited:
        """See `DocumentFiles`."""
        c = _segments.c

        def which(n: int) -> ColumnElement[bool]:
            source = select(c.source).where(c.document_id == id, c.n == n).scalar_subquery()
            return and_(c.document_id == id, c.source == source if all_equal else c.n == n)

        def edit(connection: Connection) -> Edited:
            changed, conflicts = list[StoredSegment](), list[int]()
            for one in edits:
                unchanged = true() if one.was is None else c.translation == one.was
                done = connection.execute(update(_segments).where(which(one.n), unchanged).values(_values(one)))
                if not done.rowcount:
                    conflicts.append(one.n)
                elif len(changed) < MOST_CHANGED:
                    rows = connection.execute(select(*_SHOWN).where(which(one.n)).order_by(c.n).limit(MOST_CHANGED))
                    changed += map(_segment, cast(Any, rows))
            return Edited(changed[:MOST_CHANGED], conflicts, _count_doubtful(connection, id))

        return await self._database.write(edit)


def _values(edit: SegmentEdit) -> dict[str, Any]:
    """What an edit sets. The machine's translation is unknown where it was edited when this was not noted yet."""
    c = _segments.c
    machine: ColumnElement[Any] = case((c.edited, c.machine), else_=c.translation)
    new: ColumnElement[Any] = c.translation if edit.translation is None else literal(edit.translation, _Utf8)
    is_machine = func.coalesce(new == machine, false())
    return {
        "translation": new,
        "machine": case((is_machine, None), else_=machine),
        "edited": not_(is_machine),
        "reviewed": edit.reviewed,
        "base": c.base if edit.base is None else edit.base,
        "doubtful": false() if edit.reviewed else and_(c.warnings != "[]", is_machine),
    }


def _count_doubtful(connection: Connection, id: str) -> int:
    c = _segments.c
    return connection.scalar(select(func.count()).select_from(_segments).where(c.document_id == id, c.doubtful)) or 0


def _rows(id: str, path: Path) -> Iterator[dict[str, Any]]:
    names = [field.name for field in fields(SourceUnit)]
    with faults_of(path):
        for n, unit in enumerate(SegmentFile(path).source_units()):
            yield {**{name: getattr(unit, name) for name in names}, "document_id": id, "n": n}


def _batch(rows: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of one transaction."""
    batch, size = list[dict[str, Any]](), 0
    for row in islice(rows, MOST_ROWS):
        batch.append(row)
        size += len(row["source"]) + len(row["context"]) + len(row["translation"] or "")
        if size >= CHUNK_BYTES:
            break
    return batch


def _write(file: BinaryIO, data: bytes) -> None:
    with full_disk_reported():
        file.write(data)
        file.flush()
