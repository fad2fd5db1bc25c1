"""Stores translation memories: collections of people's translations of texts. The server shares its own with all accounts, but
for those that it fills itself where it needs no keys: nobody has chosen what is in them (`EDITS`, `SUGGESTIONS`).

An entry is a text in a source language with its translation into a target language. Within a memory a text has one translation
in a direction; a new one replaces it. Each change increases the memory's version, which its entries carry, so that a server
reads only what is new to it.

A memory may have 200,000 entries or hundreds of megabytes. So entries are counted where they are written, by pair of languages;
a search reads a bounded number of characters in a transaction and goes on from there in the next one; and a memory that is
deleted is gone at once, while its entries are deleted by several transactions.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from hashlib import blake2b
from time import monotonic
from typing import Any, Literal

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Row,
    Select,
    String,
    Table,
    Text,
    and_,
    case,
    cast,
    delete,
    false,
    func,
    insert,
    literal,
    or_,
    select,
    tuple_,
    update,
)

from dragoman.errors import BodyTooLarge, InvalidMemory, MemoryExists, UnknownMemory
from dragoman.storage.collections import (
    MAX_NAME_CHARACTERS,
    Collections,
    Pair,
    StoredCollection,
    collection_table,
    insert_into,
)
from dragoman.storage.database import METADATA, Database, utc_now
from dragoman.storage.folding import composed, folded, matching

EDITS = "edits"
"""The memory of translations that people have edited in documents."""
SUGGESTIONS = "suggestions"
"""The memory of what LibreTranslate's clients suggest."""
MAX_MEMORIES = 100
"""Of one owner: each text of an account's calls is looked for in all of its own and of the server's."""
MAX_TEXT_CHARACTERS = 20_000
"""Of an entry's text, and of its translation."""
MAX_PAIRS = 2_000
"""Pairs of languages in the memories of an owner: a list shows them all."""
DIGEST_BYTES = 16
SCAN_CHARACTERS = 2_000_000
"""A search looks at about as many of each transaction, and a page of entries has no more."""
SEARCH_S = 1.0
"""So long a search goes on that has found nothing; then its page is empty, and the next one goes on."""
DELETE_BYTES = 4_000_000
"""Of the texts that are deleted in one transaction, about."""
TEXT_ROWS = 1_000
"""Of one page of `MemoryStore.texts`."""
FEWEST_ROWS, MOST_ROWS = 20, 2_000
_DELETED = ""
"""The account of memories that are deleted, and whose entries may still be there."""

_memories = collection_table("memories")
_entries = Table(
    "memory_entries",
    METADATA,
    Column("memory_id", String(36), ForeignKey("memories.id", ondelete="CASCADE"), primary_key=True),
    Column("source", String(64), primary_key=True),
    Column("digest", LargeBinary(DIGEST_BYTES), primary_key=True),  # of the text, which is too long for an index
    Column("target", String(64), primary_key=True),
    Column("text", Text, nullable=False),
    Column("translation", Text, nullable=False),
    Column("version", Integer, nullable=False),  # of the memory, when the entry was written
    Column("created_at", DateTime, nullable=False),
    Column("updated_at", DateTime, nullable=False),
    # Of text and translation, as `folding.folded` makes them; None: written by a server of before this column.
    Column("folded_text", Text),
    Column("folded_translation", Text),
    Index("ix_memory_entries_version", "memory_id", "version"),
)
_pairs = Table(
    "memory_pairs",
    METADATA,
    Column("memory_id", String(36), ForeignKey("memories.id", ondelete="CASCADE"), primary_key=True),
    Column("source", String(64), primary_key=True),
    Column("target", String(64), primary_key=True),
    Column("entry_count", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),  # of texts and translations in UTF-8
)
_jobs = Table(
    "memory_jobs",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("account_id", String(16), nullable=False, index=True),
    Column("operation", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("secret", String(64), nullable=False),
    Column("memory_id", String(36)),
    Column("name", String(MAX_NAME_CHARACTERS), nullable=False),
    Column("content_type", String(127), nullable=False),
    Column("content_length", BigInteger, nullable=False),
    Column("skipped", Integer, nullable=False),
    Column("error_message", Text),
    Column("created_at", DateTime, nullable=False),
    Column("updated_at", DateTime, nullable=False),
    Column("expires_at", DateTime, nullable=False, index=True),
)

DigestRow = tuple[str, str, bytes]
"""Source, target and digest of an entry."""
EntryKey = tuple[str, bytes, str]
"""Source, digest and target of an entry: their order is that of entries."""


TextPosition = tuple[int, str, bytes, str]
"""Version, source, digest and target of an entry: their order is that in which entries were written."""


@dataclass(frozen=True, slots=True)
class TextRow:
    """An entry with its text's folded form. All three texts are empty where one is longer than was asked for."""

    source: str
    target: str
    digest: bytes
    folded: str
    text: str
    translation: str


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """What all memories of an owner may have. `bytes`: of texts and translations in UTF-8."""

    entries: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MemoryVersion:
    """What a server must know of each memory: whose it is, and whether its entries have changed."""

    id: str
    account_id: str
    name: str
    version: int
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A text and its translation, checked by `service.memories`: with marks in canonical form, or without any."""

    source: str
    target: str
    text: str
    translation: str

    @property
    def key(self) -> EntryKey:
        return self.source, digest_of(self.text), self.target


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry. Times are in UTC."""

    memory_id: str
    source: str
    target: str
    digest: bytes
    text: str
    translation: str
    created_at: datetime
    updated_at: datetime

    @property
    def id(self) -> str:
        """What it is called within its memory; it stays when its translation changes."""
        return _entry_id((self.source, self.digest, self.target))


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Some entries in the order of source language and text, and where the next page begins; None: there is none."""

    entries: list[StoredEntry]
    cursor: str | None


JobStatus = Literal["awaiting_input", "processing", "completed", "failed"]


@dataclass(frozen=True, slots=True)
class StoredJob:
    """An import or an export that a client of DeepL's has begun. Times are in UTC, without a zone."""

    id: str
    account_id: str
    operation: Literal["import", "export"]
    status: JobStatus
    secret: str  # in the address of its upload or download, which needs no key
    name: str  # of the memory that an import makes
    created_at: datetime
    updated_at: datetime
    expires_at: datetime
    memory_id: str | None = None  # that is exported, or that was imported
    content_type: str = ""
    content_length: int = 0
    skipped: int = 0
    error_message: str | None = None


def digest_of(text: str) -> bytes:
    """Return what texts are found by."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


class MemoryStore(Collections):
    """The repository of memories. Of a memory's pairs, the one with the most entries comes first."""

    kind, plural, most, unshared = "memory", "memories", MAX_MEMORIES, frozenset((EDITS, SUGGESTIONS))
    table, pairs, pair_order = _memories, _pairs, (_pairs.c.entry_count.desc(), _pairs.c.source, _pairs.c.target)
    invalid, too_many, unknown, exists = InvalidMemory, InvalidMemory, UnknownMemory, MemoryExists

    def __init__(self, database: Database, most: MemoryLimits | None = None) -> None:
        """`most`: of an owner that is given a memory; more raises `BodyTooLarge`."""
        super().__init__(database)
        self._most = most

    # ---- memories

    async def create(self, account_id: str, name: str) -> StoredCollection:
        """Create an empty memory. Raises `InvalidMemory` also where the account has `MAX_MEMORIES`."""
        created = await self._database.write(
            lambda connection: self._info(connection, self._insert(connection, account_id, name))
        )
        self._audit("create", created.id)
        return created

    async def delete(self, account_id: str, reference: str) -> None:
        """Delete a memory with all its entries. It is gone before its entries are; see `delete_rest`."""

        def remove(connection: Connection) -> str:
            row = self._row(connection, account_id, reference, own=True)
            gone = update(_memories).where(_memories.c.id == row.id).values(account_id=_DELETED, name=row.id)
            connection.execute(gone)
            return str(row.id)

        self._audit("delete", await self._database.write(remove))
        await self.delete_rest()

    async def delete_rest(self) -> None:
        """Delete the entries of memories that are deleted, also of a server that was stopped meanwhile."""
        while await self._database.write(_delete_some):
            pass

    async def versions(self) -> list[MemoryVersion]:
        """Return the versions of the memories of all accounts."""
        columns = select(_memories.c.id, _memories.c.account_id, _memories.c.name, _memories.c.version)
        columns = columns.where(_memories.c.account_id != _DELETED)
        return await self._database.read(
            lambda connection: [
                MemoryVersion(id, owner, name, version, self.shares(owner, name))
                for id, owner, name, version in connection.execute(columns)
            ]
        )

    def _check_new_owner(self, connection: Connection, account_id: str) -> None:
        super()._check_new_owner(connection, account_id)
        if self._most is not None:
            _check_limits(connection, account_id, self._most, entries=1, size=1)

    # ---- entries

    async def add(
        self, account_id: str, reference: str, entries: Iterable[NewEntry], most: MemoryLimits, *, create: bool = False
    ) -> str:
        """Add entries, which replace those of the same text and direction; return the memory's id.

        With more than `most`, `BodyTooLarge` is raised and none is added. `create`: where the account has no such memory, one
        of this name is made. All entries are written by one transaction: a caller gives a few thousand at most.
        """
        rows = await asyncio.to_thread(lambda: {entry.key: _new_row(entry) for entry in entries})

        def add(connection: Connection) -> tuple[str, bool]:
            is_new = False
            try:
                memory_id = str(self._row(connection, account_id, reference, own=True).id)
            except UnknownMemory:
                if not create:
                    raise
                memory_id = self._insert(connection, account_id, reference)
                is_new = True
            now, version = utc_now(), self._next_version(connection, memory_id)
            if rows:
                head = {"memory_id": memory_id, "version": version, "created_at": now, "updated_at": now}
                added = _added(connection, memory_id, rows)
                _upsert(connection, [head | row for row in rows.values()])
                _count_added(connection, memory_id, added)
                entries, size = (sum(numbers) for numbers in zip(*added.values(), strict=True))
                _check_limits(connection, account_id, most, entries=entries, size=size)
            return memory_id, is_new

        try:
            memory_id, is_new = await self._database.write(add)
        except MemoryExists:  # made by another server in between
            memory_id, is_new = await self._database.write(add)
        if is_new:
            self._audit("create", memory_id)
        return memory_id

    async def remove(self, account_id: str, reference: str, entry_id: str) -> None:
        """Delete an entry by its id. Raises `UnknownMemory`, also where there is no such entry."""
        source, digest, target = _key_of(entry_id) or ("", b"", "")

        def remove(connection: Connection) -> None:
            row = self._row(connection, account_id, reference, own=True)
            c = _entries.c
            own = and_(c.memory_id == row.id, c.source == source, c.digest == digest, c.target == target)
            deleted = connection.execute(delete(_entries).where(own).returning(c.text, c.translation)).first()
            if deleted is None:
                raise UnknownMemory("the memory has no such entry")
            _count_added(connection, row.id, {(source, target): (-1, -sum(len(text.encode()) for text in deleted))})
            self._next_version(connection, row.id)

        await self._database.write(remove)

    async def remove_equal(self, account_id: str, reference: str, entries: Sequence[NewEntry]) -> bool:
        """Delete a few entries, where their texts still have these translations; return whether any was. Raises
        `UnknownMemory` where the account has no such memory."""

        def remove(connection: Connection) -> bool:
            row = self._row(connection, account_id, reference, own=True)
            c, removed = _entries.c, dict[Pair, tuple[int, int]]()
            for entry in entries:
                source, digest, target = entry.key
                own = and_(c.memory_id == row.id, c.source == source, c.digest == digest, c.target == target)
                gone = delete(_entries).where(own, c.translation == entry.translation).returning(c.text, c.translation)
                if (texts := connection.execute(gone).first()) is not None:
                    count, size = removed.get((source, target), (0, 0))
                    removed[source, target] = count - 1, size - sum(len(text.encode()) for text in texts)
            if removed:
                _count_added(connection, row.id, removed)
                self._next_version(connection, row.id)
            return bool(removed)

        return await self._database.write(remove)

    async def page(
        self,
        account_id: str,
        reference: str,
        limit: int,
        cursor: str | None = None,
        *,
        find: str = "",
        case_sensitive: bool = False,
        pair: Pair | None = None,
    ) -> EntryPage:
        """Return up to `limit` entries from `cursor` on; `find`: of those whose text or translation has it; `pair`: of this
        direction.

        A page ends early where it is large, and a search where it has read for long: it is empty while more may come only after
        `SEARCH_S`. A cursor is the id of the last entry that was looked at. Raises `InvalidMemory` for another one.
        """
        after = _key_of(cursor) if cursor else None
        if cursor and after is None:
            raise InvalidMemory("the cursor is none that this server gave", param="cursor")
        matches = _matcher(find, case_sensitive)

        def read(connection: Connection) -> EntryPage:
            memory_id = self._row(connection, account_id, reference).id
            query = _haystacks(exact=case_sensitive or not find).where(_entries.c.memory_id == memory_id)
            found, cursor = _scan(connection, query, after, pair, limit, matches)
            return EntryPage(_of_keys(connection, memory_id, found), None if cursor is None else _entry_id(cursor))

        until_s = monotonic() + SEARCH_S
        while True:
            page = await self._database.read(read)
            if page.entries or page.cursor is None or monotonic() >= until_s:
                return page
            after = _key_of(page.cursor)

    async def digests(self, memory_id: str, after: int) -> list[DigestRow]:
        """Return source, target and digest of the entries that were written after a version, in the order of digests."""
        c = _entries.c
        query = select(c.source, c.target, c.digest).where(c.memory_id == memory_id, c.version > after)
        query = query.order_by(c.source, c.digest, c.target)
        return await self._database.read(
            lambda connection: [(source, target, bytes(digest)) for source, target, digest in connection.execute(query)]
        )

    async def texts(
        self, memory_id: str, after: int | TextPosition, most_characters: int
    ) -> tuple[list[TextRow], TextPosition | None]:
        """Return up to `TEXT_ROWS` entries that were written after a version, or after the entry of a position; and the last
        one's position, None where no more may come. Texts of over `most_characters` are left out."""
        c = _entries.c
        is_long = or_(func.length(c.text) > most_characters, func.length(c.translation) > most_characters)
        shown = [case((is_long, ""), else_=text) for text in (c.folded_text, c.text, c.translation)]
        order = (c.version, c.source, c.digest, c.target)
        query = select(*order, *shown).where(c.memory_id == memory_id).order_by(*order).limit(TEXT_ROWS)
        if isinstance(after, int):
            query = query.where(c.version > after)
        else:  # the first condition is for SQLite, which has no use of an index for a comparison of rows alone
            query = query.where(c.version >= after[0], tuple_(*order) > tuple_(*map(literal, after)))

        def read(connection: Connection) -> tuple[list[TextRow], TextPosition | None]:
            rows: Sequence[Row[tuple[Any, ...]]] = connection.execute(query).all()
            found = [_text(*row) for row in rows]
            last = rows[-1] if len(rows) == TEXT_ROWS else None
            return found, None if last is None else (last.version, *_key(last))

        return await self._database.read(read)

    async def entry_count(self, memory_id: str) -> int:
        """Return how many entries a memory has."""
        total = select(func.sum(_pairs.c.entry_count)).where(_pairs.c.memory_id == memory_id)
        return await self._database.read(lambda connection: int(connection.scalar(total) or 0))

    async def find(
        self, memory_ids: Sequence[str], pairs: Sequence[Pair], digests: Sequence[bytes]
    ) -> list[StoredEntry]:
        """Return the entries of these texts in these directions, the last to be changed first."""
        c = _entries.c
        query = select(_entries).where(
            c.memory_id.in_(memory_ids), tuple_(c.source, c.target).in_(pairs), c.digest.in_(digests)
        )
        query = query.order_by(c.updated_at.desc(), c.memory_id)
        return await self._database.read(lambda connection: [*map(_entry, connection.execute(query))])

    # ---- jobs

    async def add_job(self, job: StoredJob, most_in_flight: int, most: int, stale_before: datetime) -> bool:
        """Store a job, and delete those that have expired.

        False: the account has `most` jobs that are answered for, or `most_in_flight` imports that wait for their file or were
        begun after `stale_before`.
        """
        own = select(func.count()).select_from(_jobs).where(_jobs.c.account_id == job.account_id)
        is_processed = and_(_jobs.c.status == "processing", _jobs.c.updated_at >= stale_before)
        in_flight = own.where(or_(_jobs.c.status == "awaiting_input", is_processed))

        def add(connection: Connection) -> bool:
            connection.execute(delete(_jobs).where(_jobs.c.expires_at < utc_now()))
            is_import = job.operation == "import"
            if is_import and (connection.scalar(in_flight) or 0) >= most_in_flight:
                return False
            if (connection.scalar(own) or 0) >= most:
                return False
            connection.execute(insert(_jobs), [{field.name: getattr(job, field.name) for field in fields(StoredJob)}])
            return True

        return await self._database.write(add)

    async def job(self, id: str) -> StoredJob | None:
        """Return a job that has not expired."""
        query = select(_jobs).where(_jobs.c.id == id, _jobs.c.expires_at >= utc_now())
        row = await self._database.read(lambda connection: connection.execute(query).first())
        return None if row is None else StoredJob(**{one.name: getattr(row, one.name) for one in fields(StoredJob)})

    async def update_job(self, id: str, was: JobStatus, **values: object) -> bool:
        """Set columns of a job, while it has the status `was`. False: it has another."""
        changed = update(_jobs).where(_jobs.c.id == id, _jobs.c.status == was).values(updated_at=utc_now(), **values)
        return await self._database.write(lambda connection: connection.execute(changed).rowcount > 0)


# ---- statements


def _entry(row: Row[tuple[Any, ...]]) -> StoredEntry:
    times = row.created_at.replace(tzinfo=UTC), row.updated_at.replace(tzinfo=UTC)
    return StoredEntry(row.memory_id, row.source, row.target, bytes(row.digest), row.text, row.translation, *times)


_ENTRY_ID = re.compile(r"([A-Za-z0-9-]{1,64})\.([0-9a-f]{32})\.([A-Za-z0-9-]{1,64})")


def _entry_id(key: EntryKey) -> str:
    source, digest, target = key
    return f"{source}.{digest.hex()}.{target}"


def _key_of(entry_id: str) -> EntryKey | None:
    """The key of an entry, by its id; None for what is no id."""
    found = _ENTRY_ID.fullmatch(entry_id)
    return (found[1], bytes.fromhex(found[2]), found[3]) if found else None


def _text(
    _: int, source: str, digest: bytes, target: str, folded_text: str | None, text: str, translation: str
) -> TextRow:
    return TextRow(source, target, bytes(digest), folded_text or folded(text), text, translation)


# ---- entries that are written


def _new_row(entry: NewEntry) -> dict[str, object]:
    source, digest, target = entry.key
    return {
        "source": source,
        "digest": digest,
        "target": target,
        "text": entry.text,
        "translation": entry.translation,
        "folded_text": folded(entry.text),
        "folded_translation": folded(entry.translation),
    }


Added = dict[Pair, tuple[int, int]]
"""How many entries, and bytes of texts and translations, a pair of languages has more than before."""


def _added(connection: Connection, memory_id: str, rows: dict[EntryKey, dict[str, Any]]) -> Added:
    """What these rows add to a memory in which some of them may replace others."""
    c = _entries.c
    is_sqlite = connection.dialect.name == "sqlite"
    size: Any = func.length(cast(c.translation, LargeBinary)) if is_sqlite else func.octet_length(c.translation)
    replaced: dict[EntryKey, int] = {}
    digests: dict[str, list[bytes]] = defaultdict(list)
    for source, digest, _ in rows:
        digests[source].append(digest)
    for source, wanted in digests.items():
        there = select(c.digest, c.target, size).where(c.memory_id == memory_id, c.source == source)
        for digest, target, translation_bytes in connection.execute(there.where(c.digest.in_(wanted))):
            replaced[source, bytes(digest), target] = translation_bytes
    added: dict[Pair, list[int]] = defaultdict(lambda: [0, 0])
    for key, row in rows.items():
        of_pair = added[key[0], key[2]]
        of_pair[1] += len(row["translation"].encode()) - replaced.get(key, 0)
        if key not in replaced:
            of_pair[0] += 1
            of_pair[1] += len(row["text"].encode())
    return {pair: (entries, size) for pair, (entries, size) in added.items()}


def _upsert(connection: Connection, rows: list[dict[str, object]]) -> None:
    statement = insert_into(connection, _entries)
    new = ("translation", "folded_text", "folded_translation", "version", "updated_at")
    keys = [column.name for column in _entries.primary_key.columns]
    changed = {name: statement.excluded[name] for name in new}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed), rows)


def _count_added(connection: Connection, memory_id: str, added: Added) -> None:
    rows = [
        {"memory_id": memory_id, "source": source, "target": target, "entry_count": entries, "bytes": size}
        for (source, target), (entries, size) in added.items()
    ]
    statement = insert_into(connection, _pairs)
    keys = [column.name for column in _pairs.primary_key.columns]
    sums = {name: _pairs.c[name] + statement.excluded[name] for name in ("entry_count", "bytes")}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=sums), rows)
    connection.execute(delete(_pairs).where(_pairs.c.memory_id == memory_id, _pairs.c.entry_count <= 0))


def _check_limits(connection: Connection, owner: str, most: MemoryLimits, *, entries: int, size: int) -> None:
    """Raise `BodyTooLarge` where an owner has more than it may, and has more of it than before, by so many `entries` and by
    `size` bytes."""
    sums = select(func.count(), func.sum(_pairs.c.entry_count), func.sum(_pairs.c.bytes))
    of_owner = sums.select_from(_pairs.join(_memories)).where(_memories.c.account_id == owner)
    pairs, all_entries, all_bytes = connection.execute(of_owner).one()
    if pairs > MAX_PAIRS:
        message = f"the memories of one owner have entries in at most {MAX_PAIRS:,} pairs of languages"
        raise BodyTooLarge(message, param="entries")
    if entries > 0 and (all_entries or 0) > most.entries:
        raise BodyTooLarge(f"the memories of one owner have at most {most.entries:,} entries", param="entries")
    if size > 0 and (all_bytes or 0) > most.bytes:
        message = f"the texts and translations in the memories of one owner have at most {most.bytes:,} bytes"
        raise BodyTooLarge(message, param="entries")


def _delete_some(connection: Connection) -> bool:
    """Delete some entries of a memory that is deleted, the last time the memory itself. False: there is none."""
    deleted = select(_memories.c.id).where(_memories.c.account_id == _DELETED).limit(1)
    memory_id = connection.scalar(deleted.with_for_update())
    if memory_id is None:
        return False
    sums = select(func.sum(_pairs.c.entry_count), func.sum(_pairs.c.bytes)).where(_pairs.c.memory_id == memory_id)
    entries, size = connection.execute(sums).one()
    rows = _rows_of(DELETE_BYTES, size or 0, entries or 0)
    own = _entries.c.memory_id == memory_id
    last = connection.execute(select(*_KEY).where(own).order_by(*_KEY).offset(rows - 1).limit(1)).first()
    if last is None:
        connection.execute(delete(_entries).where(own))
        connection.execute(delete(_memories).where(_memories.c.id == memory_id))
    else:
        connection.execute(delete(_entries).where(own, tuple_(*_KEY) <= tuple_(*map(literal, last))))
    return True


# ---- entries that are searched

_KEY = (_entries.c.source, _entries.c.digest, _entries.c.target)
Matcher = Callable[[Sequence[Row[tuple[Any, ...]]]], Iterable[int]]
"""Returns the places of the rows of `_haystacks` that are wanted."""


def _haystacks(*, exact: bool) -> Any:
    """The keys of entries with their texts, as they are or folded."""
    c = _entries.c
    if exact:
        return select(*_KEY, c.text, c.translation, literal(True).label("is_ready"))
    text, translation = func.coalesce(c.folded_text, c.text), func.coalesce(c.folded_translation, c.translation)
    return select(
        *_KEY, text.label("text"), translation.label("translation"), c.folded_text.is_not(None).label("is_ready")
    )


def _matcher(find: str, case_sensitive: bool) -> Matcher:
    if not find:
        return lambda rows: range(len(rows))
    form = composed if case_sensitive else folded
    wanted = form(find)

    def matches(rows: Sequence[Row[tuple[Any, ...]]]) -> Iterable[int]:
        texts = [
            text if row.is_ready and not case_sensitive else form(text)
            for row in rows
            for text in (row.text, row.translation)
        ]
        return dict.fromkeys(place // 2 for place in matching(texts, wanted))

    return matches


def _scan(
    connection: Connection, query: Select[Any], after: EntryKey | None, pair: Pair | None, limit: int, matches: Matcher
) -> tuple[list[EntryKey], EntryKey | None]:
    """Look at about `SCAN_CHARACTERS`; return the keys of up to `limit` entries that match, and where to go on."""
    found: list[EntryKey] = []
    seen = characters = 0
    for rows in _in_order(connection, query, after, pair, limit + 1):
        for place in matches(rows):
            if len(found) == limit or characters >= SCAN_CHARACTERS:
                return found, found[-1]
            row = rows[place]
            found.append(_key(row))
            characters += len(row.text) + len(row.translation)
        seen += _characters(rows)
        if seen >= SCAN_CHARACTERS:
            return found, _key(rows[-1])
    return found, None


def _in_order(
    connection: Connection, query: Select[Any], after: EntryKey | None, pair: Pair | None, first: int
) -> Iterator[Sequence[Row[tuple[Any, ...]]]]:
    """Yield rows in the order of their keys, by statements: `first` rows, then twice as many each time if they are short."""
    limit = min(first, 2 * SCAN_CHARACTERS // MAX_TEXT_CHARACTERS)
    while True:
        rows = connection.execute(_from(query, after, pair).limit(limit)).all()
        if rows:
            yield rows
        if len(rows) < limit:
            return
        after, limit = _key(rows[-1]), min(2 * limit, _rows_of(SCAN_CHARACTERS // 4, _characters(rows), len(rows)))


def _from(query: Select[Any], after: EntryKey | None, pair: Pair | None) -> Select[Any]:
    """The query in the order of keys, of what comes after a key; with a pair, of entries of this direction.

    For a pair, conditions and order leave out its languages: SQLite would sort all its entries otherwise.
    """
    c = _entries.c
    if pair is None:
        rest = query if after is None else query.where(tuple_(*_KEY) > tuple_(*map(literal, after)))
        return rest.order_by(*_KEY)
    of_pair = query.where(c.source == pair[0], c.target == pair[1]).order_by(c.digest)
    if after is None or after[0] < pair[0]:
        return of_pair
    if after[0] > pair[0]:
        return of_pair.where(false())
    return of_pair.where(tuple_(c.digest, c.target) > tuple_(*map(literal, after[1:])))


def _rows_of(size: int, size_of_some: int, some: int) -> int:
    """How many rows have about this size, if they are like some others."""
    return max(FEWEST_ROWS, min(MOST_ROWS, size * some // max(size_of_some, 1)))


def _characters(rows: Sequence[Row[tuple[Any, ...]]]) -> int:
    return sum(len(row.text) + len(row.translation) for row in rows)


def _key(row: Row[tuple[Any, ...]]) -> EntryKey:
    return row.source, bytes(row.digest), row.target


def _of_keys(connection: Connection, memory_id: str, keys: Sequence[EntryKey]) -> list[StoredEntry]:
    """Return these entries in the order of their keys."""
    digests: dict[str, list[bytes]] = defaultdict(list)
    for source, digest, _ in keys:
        digests[source].append(digest)
    entries: dict[EntryKey, StoredEntry] = {}
    for source, wanted in digests.items():  # by columns: SQLite has no use of an index for a list of whole keys
        own = select(_entries).where(_entries.c.memory_id == memory_id, _entries.c.source == source)
        for row in connection.execute(own.where(_entries.c.digest.in_(wanted))):
            entries[_key(row)] = _entry(row)
    return [entries[key] for key in keys]
