"""Stores glossaries: collections with a dictionary of terms for each pair of languages.

Each change of a glossary's entries increases its version, which is part of the keys of cached translations. The server shares
its glossaries with all accounts.

The entries of a dictionary are read and replaced together, so they are one JSON object in one row: 100,000 of them are written
in the time of a few megabytes, at once, and a list of glossaries does not read them.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock

from sqlalchemy import Column, Connection, ForeignKey, Integer, String, Table, Text, delete, func, select

from dragoman import languages
from dragoman.errors import BodyTooLarge, GlossaryExists, InvalidGlossary, UnknownGlossary
from dragoman.storage.collections import (
    MAX_NAME_CHARACTERS,
    Collections,
    Pair,
    StoredCollection,
    collection_table,
    insert_into,
)
from dragoman.storage.database import METADATA, Database

MAX_TERM_CHARACTERS = 500
"""Of a term, and of its translation."""
MAX_ENTRIES = 100_000
"""The limit of one glossary."""
MAX_DICTIONARY_CHARACTERS = 16_000_000
"""Of one dictionary's entries as JSON, which one transaction writes."""
MAX_GLOSSARIES, MAX_DICTIONARIES = 1_000, 5_000
"""Of one owner: a list shows them all, and the server's."""
_CACHED_DICTIONARIES = 64

_glossaries = collection_table("glossaries", Column("own_name", String(MAX_NAME_CHARACTERS)))
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


class Glossaries(Collections):
    """The repository of glossaries. Languages are tags or names; a glossary's pairs are in the order of their creation.

    Methods with languages raise `UnsupportedLanguage`; those with entries raise `InvalidGlossary`, and `BodyTooLarge` for too
    many of them.
    """

    kind, plural, has_own_names, most = "glossary", "glossaries", True, MAX_GLOSSARIES
    table, pairs, pair_order = _glossaries, _dictionaries, (_dictionaries.c.number,)
    invalid, too_many, unknown, exists = InvalidGlossary, BodyTooLarge, UnknownGlossary, GlossaryExists

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._cached: OrderedDict[tuple[str, int, str, str], StoredDictionary] = OrderedDict()
        self._caching = Lock()  # dictionaries are read in several threads
        self._merging = asyncio.Lock()

    async def create(
        self, account_id: str, name: str, dictionaries: Mapping[Pair, Mapping[str, str]] | None = None
    ) -> StoredCollection:
        """Create a glossary with version 1. Raises `BodyTooLarge`, also where the account has `MAX_GLOSSARIES`."""
        checked: dict[Pair, dict[str, str]] = {}
        for pair, entries in (dictionaries or {}).items():
            checked.setdefault(_checked_pair(*pair), {}).update(await asyncio.to_thread(_checked_entries, entries))
        contents = {pair: await asyncio.to_thread(_content, entries) for pair, entries in checked.items()}

        def create(connection: Connection) -> StoredCollection:
            def fill(id: str) -> None:
                for pair, content in contents.items():
                    _put(connection, id, pair, content)

            return self._info(connection, self._insert(connection, account_id, name, fill))

        created = await self._database.write(create)
        self._audit("create", created.id)
        return created

    async def dictionary(self, account_id: str, reference: str, source: str, target: str) -> StoredDictionary:
        """Return the entries for a direction; none if there is no dictionary. A dictionary for `en` also applies to `en-US`.

        Returns the same object while the version is the same and the object is in the cache.
        """
        source, target = _checked_pair(source, target)

        def read(connection: Connection) -> StoredDictionary:
            row = self._row(connection, account_id, reference)
            pair = self._serving(connection, row.id, source, target)
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

    def _serving(self, connection: Connection, glossary_id: str, source: str, target: str) -> Pair | None:
        """Return the dictionary's pair for a direction: the same pair, or the nearest of the same languages."""
        counts = self._counts(connection, _glossaries.c.id == glossary_id).get(glossary_id, ())
        pairs = [(one.source, one.target) for one in counts]
        if (source, target) in pairs:
            return source, target
        nearest_source = languages.match(source, tuple(pair[0] for pair in pairs))
        nearest_target = languages.match(target, tuple(pair[1] for pair in pairs if pair[0] == nearest_source))
        return (nearest_source, nearest_target) if nearest_source and nearest_target else None

    # ---- changes, of an account's own glossaries

    async def replace(
        self, account_id: str, reference: str, source: str, target: str, entries: Mapping[str, str]
    ) -> StoredCollection:
        """Replace all entries of a direction."""
        return await self._replaced("replace", account_id, reference, _checked_pair(source, target), entries)

    async def delete_dictionary(self, account_id: str, reference: str, source: str, target: str) -> StoredCollection:
        """Delete all entries of a direction."""
        return await self._replaced("delete_dictionary", account_id, reference, _checked_pair(source, target), {})

    async def _replaced(
        self, change: str, account_id: str, reference: str, pair: Pair, entries: Mapping[str, str]
    ) -> StoredCollection:
        content = await asyncio.to_thread(lambda: _content(_checked_entries(entries)))
        changed = await self._database.write(
            lambda connection: self._changed(connection, account_id, reference, pair, content)
        )
        self._audit(change, changed.id)
        return changed

    async def merge(
        self, account_id: str, reference: str, source: str, target: str, entries: Mapping[str, str | None]
    ) -> StoredCollection:
        """Add entries to a direction; an existing term gets the new translation, and loses its entry for None."""
        pair = _checked_pair(source, target)
        new, removed = await asyncio.to_thread(_changes, entries)

        def read(connection: Connection) -> tuple[int, str]:
            row = self._row(connection, account_id, reference)
            return row.version, _content_of(connection, row.id, pair) or "{}"

        async with self._merging:
            while True:  # until no other server has changed it meanwhile
                version, stored = await self._database.read(read)
                content = await asyncio.to_thread(_changed_content, stored, new, removed)
                change = partial(
                    self._changed,
                    account_id=account_id,
                    reference=reference,
                    pair=pair,
                    content=content,
                    version=version,
                )
                with suppress(_ChangedMeanwhile):
                    changed = await self._database.write(change)
                    break
        self._audit("merge", changed.id)
        return changed

    def _changed(
        self,
        connection: Connection,
        account_id: str,
        reference: str,
        pair: Pair,
        content: _Content,
        version: int | None = None,
    ) -> StoredCollection:
        """Replace a dictionary, and increase the version. Raises `_ChangedMeanwhile` if that is not `version`."""
        row = self._row(connection, account_id, reference, own=True)
        if version not in (None, row.version):
            raise _ChangedMeanwhile
        _put(connection, row.id, pair, content)
        if content.entry_count:
            self._check_counts(connection, account_id)
        self._next_version(connection, row.id)
        return self._info(connection, row.id)

    async def delete(self, account_id: str, reference: str) -> None:
        """Delete a glossary with all its entries."""

        def remove(connection: Connection) -> str:
            id = str(self._row(connection, account_id, reference, own=True).id)
            connection.execute(
                delete(_glossaries).where(_glossaries.c.id == id)
            )  # and by its foreign key what refers to it
            return id

        self._audit("delete", await self._database.write(remove))

    def _check_counts(self, connection: Connection, account_id: str) -> None:
        super()._check_counts(connection, account_id)
        own = select(func.count()).select_from(_dictionaries.join(_glossaries))
        if (connection.scalar(own.where(_glossaries.c.account_id == account_id)) or 0) > MAX_DICTIONARIES:
            message = f"the glossaries of one owner have at most {MAX_DICTIONARIES:,} dictionaries"
            raise BodyTooLarge(message, param="dictionaries")


# ---- checks


def _checked_pair(source: str, target: str) -> Pair:
    pair = languages.normalise(source), languages.normalise(target)
    if pair[0] == pair[1]:
        raise InvalidGlossary(f"source and target are the same language: {pair[0]}", param="target")
    return pair


def _changes(entries: Mapping[str, str | None]) -> tuple[dict[str, str], set[str]]:
    """Return the entries to set, checked, and the terms to remove. Raises what `_checked_entries` does."""
    new = _checked_entries({term: translation for term, translation in entries.items() if translation is not None})
    return new, {term.strip() for term, translation in entries.items() if translation is None}.difference(new)


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


def _changed_content(stored: str, new: Mapping[str, str], removed: set[str]) -> _Content:
    """What is stored, with entries that are new or changed, and without those of some terms."""
    kept = {term: translation for term, translation in json.loads(stored).items() if term not in removed}
    return _content(kept | dict(new))


class _ChangedMeanwhile(Exception):
    """A glossary has another version than the one whose entries were merged."""


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
    statement = insert_into(connection, _dictionaries).values(**key, **new, number=last + 1)
    connection.execute(statement.on_conflict_do_update(index_elements=[*key], set_=new))


def _content_of(connection: Connection, glossary_id: str, pair: Pair) -> str | None:
    c = _dictionaries.c
    of_pair = (c.glossary_id == glossary_id) & (c.source == pair[0]) & (c.target == pair[1])
    return connection.scalar(select(c.entries).where(of_pair))
