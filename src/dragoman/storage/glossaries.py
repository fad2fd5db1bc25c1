"""Stores glossaries, which have a name, a version, and a dictionary for each pair of languages.

A glossary has an id, which never changes, and a name; callers may use either. Each change of its entries increases the
version, which is part of the keys of cached translations.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    ForeignKey,
    Integer,
    Row,
    String,
    Table,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from dragoman import languages
from dragoman.errors import BodyTooLarge, GlossaryExists, InvalidGlossary, UnknownGlossary
from dragoman.storage.database import METADATA, Database, utc_now
from dragoman.storage.named import MAX_NAME_CHARACTERS, Pair, PairCount, checked_name
from dragoman.telemetry.logs import Change, audit

MAX_TERM_CHARACTERS = 500
"""With the languages and the id, the largest that fits into an index row of PostgreSQL."""
MAX_ENTRIES = 100_000
"""The limit of one glossary."""
_CACHED_DICTIONARIES = 64

_glossaries = Table(
    "glossaries",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("name", String(MAX_NAME_CHARACTERS), nullable=False, unique=True),
    Column("version", Integer, nullable=False),
    Column("created_at", DateTime, nullable=False),  # UTC
    Column("updated_at", DateTime, nullable=False),
)
_entries = Table(
    "glossary_entries",
    METADATA,
    Column("glossary_id", String(36), ForeignKey("glossaries.id", ondelete="CASCADE"), primary_key=True),
    Column("source", String(64), primary_key=True),
    Column("target", String(64), primary_key=True),
    Column("term", String(MAX_TERM_CHARACTERS), primary_key=True),
    Column("translation", String(MAX_TERM_CHARACTERS), nullable=False),
    # Its number in its glossary, in the order in which dictionaries were created.
    Column("dictionary", Integer, nullable=False, server_default="0"),
)


@dataclass(frozen=True, slots=True)
class StoredGlossary:
    """A glossary without its entries. Times are in UTC; dictionaries are in the order in which they were created."""

    id: str
    name: str
    version: int
    created_at: datetime
    updated_at: datetime
    dictionaries: tuple[PairCount, ...]


@dataclass(frozen=True, slots=True)
class StoredDictionary:
    """The entries of one pair of languages, in the order of their terms. Equal `key`: equal entries."""

    glossary_id: str
    version: int
    source: str
    target: str
    entries: Mapping[str, str]

    @property
    def key(self) -> tuple[str, int, str, str]:
        return self.glossary_id, self.version, self.source, self.target


class Glossaries:
    """The repository of glossaries. A `reference` is a glossary's id or name; languages are tags or names.

    All methods raise `StorageUnavailable`; those with a reference raise `UnknownGlossary`; those with languages raise
    `UnsupportedLanguage`; those with entries raise `InvalidGlossary`, and `BodyTooLarge` for too many of them.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cached: OrderedDict[tuple[str, int, str, str], StoredDictionary] = OrderedDict()

    async def create(self, name: str, dictionaries: Mapping[Pair, Mapping[str, str]] | None = None) -> StoredGlossary:
        """Create a glossary with version 1. Raises `GlossaryExists` if the name is in use."""
        name = checked_name(name, "glossary", InvalidGlossary)
        checked: dict[Pair, dict[str, str]] = {}
        for pair, entries in (dictionaries or {}).items():
            checked.setdefault(_checked_pair(*pair), {}).update(await asyncio.to_thread(_checked_entries, entries))

        def create(connection: Connection) -> StoredGlossary:
            now = utc_now()
            row = {"id": str(uuid.uuid4()), "name": name, "version": 1, "created_at": now, "updated_at": now}
            taken = connection.execute(select(_glossaries.c.id).where(_glossaries.c.name == name)).first()
            if taken is not None:
                raise GlossaryExists(f"there is a glossary named {name!r} already: {taken.id}", param="name")
            try:
                connection.execute(insert(_glossaries), [row])
            except IntegrityError:  # created by another server in between
                raise GlossaryExists(f"there is a glossary named {name!r} already", param="name") from None
            for number, (pair, entries) in enumerate(checked.items()):
                _insert(connection, str(row["id"]), pair, entries, number)
            return _read_info(connection, str(row["id"]))

        created = await self._database.write(create)
        audit("glossary.create", created.id)
        return created

    async def list(self) -> tuple[StoredGlossary, ...]:
        """Return all glossaries, by name."""

        def read(connection: Connection) -> tuple[StoredGlossary, ...]:
            counts = _counts(connection)
            rows = connection.execute(select(_glossaries)).all()
            found = [_glossary(row, counts.get(row.id, ())) for row in rows]
            return tuple(sorted(found, key=lambda one: one.name))

        return await self._database.read(read)

    async def get(self, reference: str) -> StoredGlossary:
        """Return a glossary without its entries."""
        return await self._database.read(lambda connection: _read_info(connection, _row(connection, reference).id))

    async def dictionary(self, reference: str, source: str, target: str) -> StoredDictionary:
        """Return the entries for a direction; none if there is no dictionary. A dictionary for `en` also applies to `en-US`.

        Returns the same object while the version is the same and the object is in the cache.
        """
        source, target = _checked_pair(source, target)

        def read(connection: Connection) -> StoredDictionary:
            row = _row(connection, reference)
            pair = _serving(connection, row.id, source, target)
            if pair is None:
                return StoredDictionary(row.id, row.version, source, target, {})
            key = (str(row.id), int(row.version), *pair)
            found = self._cached.pop(key, None)
            if found is None:
                found = StoredDictionary(*key, entries=_entries_of(connection, row.id, pair))
            self._cached[key] = found
            while len(self._cached) > _CACHED_DICTIONARIES:
                self._cached.popitem(last=False)
            return found

        return await self._database.read(read)

    async def replace(self, reference: str, source: str, target: str, entries: Mapping[str, str]) -> StoredGlossary:
        """Replace all entries of a direction."""
        pair = _checked_pair(source, target)
        return await self._write_entries("glossary.replace", reference, pair, entries, keep=False)

    async def merge(self, reference: str, source: str, target: str, entries: Mapping[str, str]) -> StoredGlossary:
        """Add entries to a direction; an existing term gets the new translation."""
        pair = _checked_pair(source, target)
        return await self._write_entries("glossary.merge", reference, pair, entries, keep=True)

    async def delete_dictionary(self, reference: str, source: str, target: str) -> StoredGlossary:
        """Delete all entries of a direction."""
        pair = _checked_pair(source, target)
        return await self._write_entries("glossary.delete_dictionary", reference, pair, {}, keep=False)

    async def rename(self, reference: str, name: str) -> StoredGlossary:
        """Rename a glossary without a new version. Raises `GlossaryExists` if the name is in use."""
        name = checked_name(name, "glossary", InvalidGlossary)

        def rename(connection: Connection) -> StoredGlossary:
            row = _row(connection, reference, for_update=True)
            changed = update(_glossaries).where(_glossaries.c.id == row.id).values(name=name, updated_at=utc_now())
            try:
                connection.execute(changed)
            except IntegrityError:
                raise GlossaryExists(f"there is a glossary named {name!r} already", param="name") from None
            return _read_info(connection, row.id)

        renamed = await self._database.write(rename)
        audit("glossary.rename", renamed.id)
        return renamed

    async def delete(self, reference: str) -> None:
        """Delete a glossary with all its entries."""

        def remove(connection: Connection) -> str:
            row = _row(connection, reference, for_update=True)
            connection.execute(delete(_entries).where(_entries.c.glossary_id == row.id))
            connection.execute(delete(_glossaries).where(_glossaries.c.id == row.id))
            return str(row.id)

        audit("glossary.delete", await self._database.write(remove))

    async def _write_entries(
        self, change_name: Change, reference: str, pair: Pair, entries: Mapping[str, str], *, keep: bool
    ) -> StoredGlossary:
        entries = await asyncio.to_thread(_checked_entries, entries)

        def change(connection: Connection) -> StoredGlossary:
            row = _row(connection, reference, for_update=True)
            number = _dictionary_number(connection, row.id, pair)
            of_pair = (
                (_entries.c.glossary_id == row.id) & (_entries.c.source == pair[0]) & (_entries.c.target == pair[1])
            )
            if not keep:
                connection.execute(delete(_entries).where(of_pair))
            elif entries:
                same_term = delete(_entries).where(of_pair, _entries.c.term == bindparam("replaced"))
                connection.execute(same_term, [{"replaced": term} for term in entries])
            _insert(connection, row.id, pair, entries, number)
            connection.execute(
                update(_glossaries)
                .where(_glossaries.c.id == row.id)
                .values(version=_glossaries.c.version + 1, updated_at=utc_now())
            )
            return _read_info(connection, row.id)

        changed = await self._database.write(change)
        audit(change_name, changed.id)
        return changed


# ---- checks


def _checked_pair(source: str, target: str) -> Pair:
    pair = languages.normalise(source), languages.normalise(target)
    if pair[0] == pair[1]:
        raise InvalidGlossary(f"source and target are the same language: {pair[0]}", param="target")
    return pair


def _checked_entries(entries: Mapping[str, str]) -> dict[str, str]:
    """Return the entries without white space around terms and translations. Raises `InvalidGlossary`, `BodyTooLarge`."""
    checked: dict[str, str] = {}
    for given, translation in entries.items():
        term, translation = given.strip(), translation.strip()
        for text, what in ((term, "a term"), (translation, "a translation")):
            if not text:
                raise InvalidGlossary(f"{what} is empty (entry {given[:40]!r})", param="entries")
            if len(text) > MAX_TERM_CHARACTERS:
                raise InvalidGlossary(
                    f"{what} has {len(text)} characters, more than {MAX_TERM_CHARACTERS} (entry {given[:40]!r})",
                    param="entries",
                )
            if not _is_line(text):
                raise InvalidGlossary(
                    f"{what} has a line break, a tab or another control character (entry {given[:40]!r})",
                    param="entries",
                )
        if checked.get(term, translation) != translation:
            raise InvalidGlossary(f"{term[:40]!r} has two translations", param="entries")
        checked[term] = translation
    return checked


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def _is_line(text: str) -> bool:
    """Whether the text is valid Unicode without control characters and line ends."""
    return _CONTROL.search(text) is None


# ---- statements


def _row(connection: Connection, reference: str, *, for_update: bool = False) -> Row[tuple[object, ...]]:
    """Return the glossary with this id, else the one with this name."""
    if len(reference) > MAX_NAME_CHARACTERS or not _is_line(reference):
        raise UnknownGlossary("there is no such glossary")
    wanted = select(_glossaries).where(or_(_glossaries.c.id == reference, _glossaries.c.name == reference))
    found = connection.execute(wanted.with_for_update() if for_update else wanted).first()
    if found is None:
        raise UnknownGlossary(f"there is no glossary {reference!r}; see GET /v1/glossaries")
    return found


def _dictionary_number(connection: Connection, glossary_id: str, pair: Pair) -> int:
    """Return the number of a glossary's dictionary, or the next free number if it has none for these languages."""
    c = _entries.c
    numbers = select(func.max(c.dictionary)).where(c.glossary_id == glossary_id)
    own = connection.scalar(numbers.where(c.source == pair[0], c.target == pair[1]))
    if own is not None:
        return own
    last = connection.scalar(numbers)
    return 0 if last is None else last + 1


def _insert(connection: Connection, glossary_id: str, pair: Pair, entries: Mapping[str, str], number: int) -> None:
    if not entries:
        return
    count = connection.scalar(select(func.count()).select_from(_entries).where(_entries.c.glossary_id == glossary_id))
    if (count or 0) + len(entries) > MAX_ENTRIES:
        raise BodyTooLarge(f"a glossary has at most {MAX_ENTRIES} entries", param="entries")
    head = {"glossary_id": glossary_id, "source": pair[0], "target": pair[1], "dictionary": number}
    connection.execute(
        insert(_entries), [{**head, "term": term, "translation": entries[term]} for term in sorted(entries)]
    )


def _serving(connection: Connection, glossary_id: str, source: str, target: str) -> Pair | None:
    """Return the dictionary's pair for a direction: the same pair, or the nearest of the same languages."""
    pairs = [(one.source, one.target) for one in _counts(connection, glossary_id).get(glossary_id, ())]
    if (source, target) in pairs:
        return source, target
    nearest_source = languages.match(source, tuple(pair[0] for pair in pairs))
    nearest_target = languages.match(target, tuple(pair[1] for pair in pairs if pair[0] == nearest_source))
    return (nearest_source, nearest_target) if nearest_source and nearest_target else None


def _entries_of(connection: Connection, glossary_id: str, pair: Pair) -> dict[str, str]:
    rows = connection.execute(
        select(_entries.c.term, _entries.c.translation).where(
            _entries.c.glossary_id == glossary_id, _entries.c.source == pair[0], _entries.c.target == pair[1]
        )
    )
    return dict(sorted((str(term), str(translation)) for term, translation in rows))


def _counts(connection: Connection, glossary_id: str | None = None) -> dict[str, tuple[PairCount, ...]]:
    """Return the dictionaries of all glossaries, or of one."""
    columns = (_entries.c.glossary_id, _entries.c.source, _entries.c.target)
    query = select(*columns, func.count()).group_by(*columns)
    if glossary_id is not None:
        query = query.where(_entries.c.glossary_id == glossary_id)
    found: dict[str, tuple[PairCount, ...]] = {}
    for row in connection.execute(query.order_by(func.min(_entries.c.dictionary), *columns)):
        owner = str(row[0])
        found[owner] = (*found.get(owner, ()), PairCount(str(row[1]), str(row[2]), int(row[3])))
    return found


def _read_info(connection: Connection, glossary_id: str) -> StoredGlossary:
    row = connection.execute(select(_glossaries).where(_glossaries.c.id == glossary_id)).one()
    return _glossary(row, _counts(connection, glossary_id).get(glossary_id, ()))


def _glossary(row: Row[tuple[object, ...]], dictionaries: tuple[PairCount, ...]) -> StoredGlossary:
    times = row.created_at.replace(tzinfo=UTC), row.updated_at.replace(tzinfo=UTC)
    return StoredGlossary(row.id, row.name, row.version, *times, dictionaries)
