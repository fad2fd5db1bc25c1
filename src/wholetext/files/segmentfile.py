"""The segments of one file, in a SQLite file: what a worker has found to translate, and translations as they are finished.

A worker writes it when it has read a file, and reads the translations from it when it writes the result; in between it is its
owner's. Methods block: they are for threads. Several processes may have the file open.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

MOST_CHANGED = 1_000
"""Segments that are returned of those that an edit has changed."""
_BUSY_TIMEOUT_S = 10.0
_SCHEMA = """
CREATE TABLE segments (
    n INTEGER PRIMARY KEY, source TEXT NOT NULL, place TEXT NOT NULL, context TEXT NOT NULL, follows INTEGER NOT NULL,
    translation TEXT, confidence REAL, warnings TEXT NOT NULL DEFAULT '[]',
    doubtful INTEGER NOT NULL DEFAULT 0, edited INTEGER NOT NULL DEFAULT 0, memory INTEGER NOT NULL DEFAULT 0,
    equal INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX doubtful ON segments (n) WHERE doubtful;
"""


@dataclass(frozen=True, slots=True)
class SourceUnit:
    """A text of a file, as `content.Unit`: with marks, its place, and what is said around it. `equal`: how many others have
    its source.

    What follows is of one that is translated; `warnings` is JSON.
    """

    source: str
    place: str
    context: str
    follows: bool
    equal: int = 0
    translation: str | None = None
    confidence: float | None = None
    warnings: str = "[]"
    doubtful: bool = False
    edited: bool = False
    memory: bool = False


@dataclass(frozen=True, slots=True)
class Units:
    """What a run needs of all units, in their order: lists, since as many objects would make collections of garbage long."""

    sources: list[str]
    contexts: list[str]
    follows: list[int]
    done: list[int]  # 1: translated


@dataclass(frozen=True, slots=True)
class Result:
    """The translation of segment `n`. `warnings` are objects of `code`, `message` and `missing`. `memory`: some of it, or all,
    is from a translation memory."""

    n: int
    translation: str
    confidence: float | None
    warnings: Sequence[dict[str, object]]
    memory: bool = False


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment; `n` is its number from 0 on. `doubtful`: it has warnings, and no person has edited it. `equal`: how many
    others have its source."""

    n: int
    place: str
    source: str
    translation: str | None
    confidence: float | None
    warnings: list[dict[str, object]]
    doubtful: bool
    edited: bool
    equal: int
    memory: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the segments asked for, with the number of all of these, and of all doubtful ones."""

    segments: list[StoredSegment] = field(default_factory=list[StoredSegment])
    total: int = 0
    doubtful_total: int = 0


_COLUMNS = "n, place, source, translation, confidence, warnings, doubtful, edited, equal, memory"
_UNIT_COLUMNS = [one.name for one in fields(SourceUnit)]
_FLAGS = ("follows", "doubtful", "edited", "memory")


def _segment(row: tuple[int, str, str, str | None, float | None, str, int, int, int, int]) -> StoredSegment:
    n, place, source, translation, confidence, warnings, doubtful, edited, equal, memory = row
    flags = bool(doubtful), bool(edited)
    return StoredSegment(n, place, source, translation, confidence, json.loads(warnings), *flags, equal, bool(memory))


class SegmentFile:
    """The segments of a file. Methods raise `OSError` and `sqlite3.Error`, as where the disk is full."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        """Whether it is there."""
        return self.path.is_file()

    @contextmanager
    def _connected(self) -> Generator[sqlite3.Connection]:
        uri = f"{self.path.absolute().as_uri()}?mode=rw"  # and never creates it
        connected = sqlite3.connect(uri, uri=True, timeout=_BUSY_TIMEOUT_S, check_same_thread=False)
        with closing(connected) as connection, connection:  # a generator may be continued in another thread
            yield connection

    def create(self, units: Iterable[SourceUnit] = ()) -> None:
        """Make the file, with these units."""
        self.path.touch(mode=0o600)
        with self._connected() as connection:
            connection.executescript(_SCHEMA)
        self.add(units)

    def add(self, units: Iterable[SourceUnit], first: int = 0) -> None:
        """Write units, the first of which gets the number `first`, as one transaction."""
        names, values = ", ".join(_UNIT_COLUMNS), len(_UNIT_COLUMNS) * ", ?"
        with self._connected() as connection:
            connection.executemany(
                f"INSERT INTO segments (n, {names}) VALUES (?{values})",
                ((n, *astuple(unit)) for n, unit in enumerate(units, first)),
            )

    def copy(self, path: Path) -> int:
        """Copy the file, with what others have written until now, to a new `path`; return the number of segments."""
        path.touch(mode=0o600)
        with closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            connection.execute("VACUUM INTO ?", (str(path),))
            (number,) = connection.execute("SELECT count(*) FROM segments").fetchone()
        return int(number)

    def units(self) -> Units:
        """Return all units."""
        units = Units([], [], [], [])
        with self._connected() as connection:
            rows = connection.execute(
                "SELECT source, context, follows, translation IS NOT NULL FROM segments ORDER BY n"
            )
            for source, context, follows, done in rows:
                units.sources.append(source)
                units.contexts.append(context)
                units.follows.append(follows)
                units.done.append(done)
        return units

    def store(self, results: Iterable[Result]) -> None:
        """Store translations, as one transaction. Those of people stay: a server that others took for dead may come late."""
        with self._connected() as connection:
            connection.executemany(
                "UPDATE segments SET translation = ?, confidence = ?, warnings = ?, doubtful = ?, memory = ? "
                "WHERE n = ? AND NOT edited",
                (
                    (one.translation, one.confidence, json.dumps(one.warnings), bool(one.warnings), one.memory, one.n)
                    for one in results
                ),
            )

    def translations(self) -> list[str]:
        """Return all translations in order; the source of a segment that has none."""
        with self._connected() as connection:
            return [
                text for (text,) in connection.execute("SELECT coalesce(translation, source) FROM segments ORDER BY n")
            ]

    def source_units(self) -> Iterator[SourceUnit]:
        """Yield all segments in their order, with their translations."""
        with self._connected() as connection:
            for row in connection.execute(f"SELECT {', '.join(_UNIT_COLUMNS)} FROM segments ORDER BY n"):
                values: dict[str, Any] = dict(zip(_UNIT_COLUMNS, row, strict=True))
                values.update({name: bool(values[name]) for name in _FLAGS})
                yield SourceUnit(**values)

    def page(self, first: int, limit: int, *, doubtful: bool = False) -> Page:
        """Return segments in their order; `doubtful`: of doubtful ones."""
        which = "WHERE doubtful ORDER BY n LIMIT ? OFFSET ?" if doubtful else "WHERE n < ? AND n >= ? ORDER BY n"
        with self._connected() as connection:
            values = (limit if doubtful else first + limit, first)
            segments = [*map(_segment, connection.execute(f"SELECT {_COLUMNS} FROM segments {which}", values))]
            (total,) = connection.execute("SELECT coalesce(max(n), -1) + 1 FROM segments").fetchone()
            (doubtful_total,) = connection.execute("SELECT count(*) FROM segments WHERE doubtful").fetchone()
        return Page(segments, doubtful_total if doubtful else total, doubtful_total)

    def edits(self) -> list[tuple[str, str]]:
        """Return different sources that people have edited with their translations, the first `MOST_CHANGED`."""
        query = f"SELECT DISTINCT source, translation FROM segments WHERE edited LIMIT {MOST_CHANGED}"
        with self._connected() as connection:
            return connection.execute(query).fetchall()

    def edit(self, n: int, translation: str, *, all_equal: bool) -> tuple[list[StoredSegment], int]:
        """Set a person's translation of segment `n`, and of `all_equal` ones; return the first `MOST_CHANGED` of these, and how
        many are still doubtful."""
        condition = "source = (SELECT source FROM segments WHERE n = ?)" if all_equal else "n = ?"
        with self._connected() as connection:
            connection.execute(
                f"UPDATE segments SET translation = ?, edited = 1, doubtful = 0, memory = 0 WHERE {condition}",
                (translation, n),
            )
            changed = connection.execute(
                f"SELECT {_COLUMNS} FROM segments WHERE {condition} ORDER BY n LIMIT {MOST_CHANGED}", (n,)
            )
            segments = [*map(_segment, changed)]
            (doubtful,) = connection.execute("SELECT count(*) FROM segments WHERE doubtful").fetchone()
        return segments, int(doubtful)
