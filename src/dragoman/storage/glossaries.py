"""Stores glossaries, which have a name, a version, and a dictionary for each pair of languages.

A glossary has an id, which never changes, and a name; callers may use either. Each change of its entries increases the
version, which is part of the keys of cached translations.

The entries of a dictionary are read and replaced together, so they are one JSON object in one row: 100,000 of them are written
in the time of a few megabytes, at once, and a list of glossaries does not read them.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from threading import Lock

from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    ForeignKey,
    Integer,
    Row,
    String,
    Table,
    Text,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from dragoman import languages
from dragoman.errors import BodyTooLarge, GlossaryExists, InvalidGlossary, UnknownGlossary
from dragoman.storage.database import METADATA, Database, utc_now
from dragoman.storage.named import MAX_NAME_CHARACTERS, Pair, PairCount, checked_name
from dragoman.telemetry.logs import Change, audit

MAX_TERM_CHARACTERS = 500
"""Of a term, and of its translation."""
MAX_ENTRIES = 100_000
"""The limit of one glossary."""
MAX_DICTIONARY_CHARACTERS = 16_000_000
"""Of one dictionary's entries as JSON, which one transaction writes."""
MAX_GLOSSARIES, MAX_DICTIONARIES = 1_000, 5_000
"""Of a server: a list shows them all."""
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
_dictionaries = Table(
    "glossary_dictionaries",
    METADATA,
    Column("glossary_id", String(36), ForeignKey("glossaries.id", ondelete="CASCADE"), primary_key=True),
    Column("source", String(64), primary_key=True),
    Column("target", String(64), primary_key=True),
    Column("number", Integer, nullable=False),  # in its glossary, in the order in which dictionaries were created
    Column("entry_count", Integer, nullable=False),
    Column("entries", Text, nullable=False),  # a JSON object in the order of the terms, after all that a list reads
)
_INFO = [_dictionaries.c[name] for name in ("source", "target", "entry_count")]


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
        self._caching = Lock()  # dictionaries are read in several threads
        self._merging = asyncio.Lock()

    async def create(self, name: str, dictionaries: Mapping[Pair, Mapping[str, str]] | None = None) -> StoredGlossary:
        """Create a glossary with version 1. Raises `GlossaryExists` if the name is in use."""
        name = checked_name(name, "glossary", InvalidGlossary)
        checked: dict[Pair, dict[str, str]] = {}
        for pair, entries in (dictionaries or {}).items():
            checked.setdefault(_checked_pair(*pair), {}).update(await asyncio.to_thread(_checked_entries, entries))
        contents = {pair: await asyncio.to_thread(_content, entries) for pair, entries in checked.items()}

        def create(connection: Connection) -> StoredGlossary:
            now = utc_now()
            row = {"id": str(uuid.uuid4()), "name": name, "version": 1, "created_at": now, "updated_at": now}
            taken = connection.execute(select(_glossaries.c.id).where(_glossaries.c.name == name)).first()
            if taken is not None:
                raise GlossaryExists(f"there is a glossary named {name!r} already: {taken.id}", param="name")
            if (connection.scalar(select(func.count()).select_from(_glossaries)) or 0) >= MAX_GLOSSARIES:
                raise BodyTooLarge(f"this server stores at most {MAX_GLOSSARIES:,} glossaries", param="name")
            try:
                connection.execute(insert(_glossaries), [row])
            except IntegrityError:  # created by another server in between
                raise GlossaryExists(f"there is a glossary named {name!r} already", param="name") from None
            for pair, content in contents.items():
                _put(connection, str(row["id"]), pair, content)
            return _read_info(connection, str(row["id"]))

        created = await self._database.write(create)
        audit("glossary.create", created.id)
        return created

    async def list(self) -> tuple[StoredGlossary, ...]:
        """Return all glossaries, by name."""

        def read(connection: Connection) -> tuple[StoredGlossary, ...]:
            counts: dict[str, list[PairCount]] = {}
            numbered = select(_dictionaries.c.glossary_id, *_INFO).order_by(_dictionaries.c.number)
            for glossary_id, *info in connection.execute(numbered):
                counts.setdefault(glossary_id, []).append(PairCount(*info))
            rows = connection.execute(select(_glossaries)).all()
            found = [_glossary(row, tuple(counts.get(row.id, ()))) for row in rows]
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
            with self._caching:
                found = self._cached.get(key)
            if found is None:
                found = StoredDictionary(*key, entries=json.loads(_content_of(connection, row.id, pair) or "{}"))
            with self._caching:
                found = self._cached[key] = self._cached.pop(
                    key, found
                )  # the last one to be used, and one object for all
                while len(self._cached) > _CACHED_DICTIONARIES:
                    self._cached.popitem(last=False)
            return found

        return await self._database.read(read)

    async def replace(self, reference: str, source: str, target: str, entries: Mapping[str, str]) -> StoredGlossary:
        """Replace all entries of a direction."""
        pair = _checked_pair(source, target)
        return await self._replaced("glossary.replace", reference, pair, entries)

    async def merge(self, reference: str, source: str, target: str, entries: Mapping[str, str]) -> StoredGlossary:
        """Add entries to a direction; an existing term gets the new translation."""
        pair = _checked_pair(source, target)
        new = await asyncio.to_thread(_checked_entries, entries)

        def read(connection: Connection) -> tuple[int, str]:
            row = _row(connection, reference)
            return row.version, _content_of(connection, row.id, pair) or "{}"

        async with self._merging:
            while True:  # until no other server has changed it meanwhile
                version, stored = await self._database.read(read)
                content = await asyncio.to_thread(lambda: _content({**json.loads(stored), **new}))  # noqa: B023 (awaited)
                change = partial(_changed, reference=reference, pair=pair, content=content, version=version)
                with suppress(_ChangedMeanwhile):
                    changed = await self._database.write(change)
                    break
        audit("glossary.merge", changed.id)
        return changed

    async def delete_dictionary(self, reference: str, source: str, target: str) -> StoredGlossary:
        """Delete all entries of a direction."""
        return await self._replaced("glossary.delete_dictionary", reference, _checked_pair(source, target), {})

    async def _replaced(self, change: Change, reference: str, pair: Pair, entries: Mapping[str, str]) -> StoredGlossary:
        content = await asyncio.to_thread(lambda: _content(_checked_entries(entries)))
        changed = await self._database.write(lambda connection: _changed(connection, reference, pair, content))
        audit(change, changed.id)
        return changed

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
            connection.execute(delete(_dictionaries).where(_dictionaries.c.glossary_id == row.id))
            connection.execute(delete(_glossaries).where(_glossaries.c.id == row.id))
            return str(row.id)

        audit("glossary.delete", await self._database.write(remove))


# ---- checks


def _checked_pair(source: str, target: str) -> Pair:
    pair = languages.normalise(source), languages.normalise(target)
    if pair[0] == pair[1]:
        raise InvalidGlossary(f"source and target are the same language: {pair[0]}", param="target")
    return pair


def _checked_entries(entries: Mapping[str, str]) -> dict[str, str]:
    """Return the entries without white space around terms and translations. Raises `InvalidGlossary`, `BodyTooLarge`."""
    if len(entries) > MAX_ENTRIES:
        raise BodyTooLarge(f"a glossary has at most {MAX_ENTRIES:,} entries", param="entries")
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


@dataclass(frozen=True, slots=True)
class _Content:
    """A dictionary's entries as they are stored."""

    entry_count: int
    entries: str


def _content(entries: Mapping[str, str]) -> _Content:
    """Raises `BodyTooLarge`."""
    written = json.dumps(dict(sorted(entries.items())), ensure_ascii=False)
    if len(written) > MAX_DICTIONARY_CHARACTERS:
        message = f"the entries of one pair of languages have at most {MAX_DICTIONARY_CHARACTERS:,} characters"
        raise BodyTooLarge(message, param="entries")
    return _Content(len(entries), written)


class _ChangedMeanwhile(Exception):
    """A glossary has another version than the one whose entries were merged."""


def _changed(
    connection: Connection, reference: str, pair: Pair, content: _Content, version: int | None = None
) -> StoredGlossary:
    """Replace a dictionary, and increase the glossary's version. Raises `_ChangedMeanwhile` if that is not `version`."""
    row = _row(connection, reference, for_update=True)
    if version not in (None, row.version):
        raise _ChangedMeanwhile
    _put(connection, row.id, pair, content)
    values = {"version": _glossaries.c.version + 1, "updated_at": utc_now()}
    connection.execute(update(_glossaries).where(_glossaries.c.id == row.id).values(**values))
    return _read_info(connection, row.id)


def _put(connection: Connection, glossary_id: str, pair: Pair, content: _Content) -> None:
    """Write a dictionary in place of the one of this pair, whose number it takes. Without entries there is none."""
    c = _dictionaries.c
    own = c.glossary_id == glossary_id
    of_pair = own & (c.source == pair[0]) & (c.target == pair[1])
    if not content.entry_count:
        connection.execute(delete(_dictionaries).where(of_pair))
        return
    others = select(func.coalesce(func.sum(c.entry_count), 0), func.coalesce(func.max(c.number), -1)).where(
        own, ~of_pair
    )
    count, last = connection.execute(others).one()
    if count + content.entry_count > MAX_ENTRIES:
        raise BodyTooLarge(f"a glossary has at most {MAX_ENTRIES:,} entries", param="entries")
    key = {"glossary_id": glossary_id, "source": pair[0], "target": pair[1]}
    new = {"entry_count": content.entry_count, "entries": content.entries}
    insert_into = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[connection.dialect.name]
    statement = insert_into(_dictionaries).values(**key, **new, number=last + 1)
    connection.execute(statement.on_conflict_do_update(index_elements=[*key], set_=new))
    if (connection.scalar(select(func.count()).select_from(_dictionaries)) or 0) > MAX_DICTIONARIES:
        message = f"the glossaries of this server have at most {MAX_DICTIONARIES:,} dictionaries"
        raise BodyTooLarge(message, param="dictionaries")


def _content_of(connection: Connection, glossary_id: str, pair: Pair) -> str | None:
    c = _dictionaries.c
    of_pair = (c.glossary_id == glossary_id) & (c.source == pair[0]) & (c.target == pair[1])
    return connection.scalar(select(c.entries).where(of_pair))


def _serving(connection: Connection, glossary_id: str, source: str, target: str) -> Pair | None:
    """Return the dictionary's pair for a direction: the same pair, or the nearest of the same languages."""
    pairs = [(one.source, one.target) for one in _infos(connection, glossary_id)]
    if (source, target) in pairs:
        return source, target
    nearest_source = languages.match(source, tuple(pair[0] for pair in pairs))
    nearest_target = languages.match(target, tuple(pair[1] for pair in pairs if pair[0] == nearest_source))
    return (nearest_source, nearest_target) if nearest_source and nearest_target else None


def _infos(connection: Connection, glossary_id: str) -> tuple[PairCount, ...]:
    """Return a glossary's dictionaries in the order in which they were created."""
    own = select(*_INFO).where(_dictionaries.c.glossary_id == glossary_id).order_by(_dictionaries.c.number)
    return tuple(PairCount(*row) for row in connection.execute(own))


def _read_info(connection: Connection, glossary_id: str) -> StoredGlossary:
    row = connection.execute(select(_glossaries).where(_glossaries.c.id == glossary_id)).one()
    return _glossary(row, _infos(connection, glossary_id))


def _glossary(row: Row[tuple[object, ...]], dictionaries: tuple[PairCount, ...]) -> StoredGlossary:
    times = row.created_at.replace(tzinfo=UTC), row.updated_at.replace(tzinfo=UTC)
    return StoredGlossary(row.id, row.name, row.version, *times, dictionaries)
