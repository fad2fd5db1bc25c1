"""The segments of one document, a SQLite file in its folder: what is to be translated, and translations as they are finished.

So finished work survives a server that is killed, and a document's texts are deleted with its folder. Methods block: they are
for threads. Several servers may have the file open.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

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
    """A text of a file, as `wholetext.files.content.Unit`: with marks, its place, and what is said around it.

    What follows is of one that was translated before it came here; `warnings` is JSON.
    """

    source: str
    place: str
    context: str
    follows: bool
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
_UNIT_COLUMNS = "source, place, context, follows, translation, confidence, warnings, doubtful, edited, memory"
_COUNT_EQUAL = """
UPDATE segments SET equal = found.number - 1
FROM (SELECT source, count(*) AS number FROM segments GROUP BY source HAVING count(*) > 1) AS found
WHERE segments.source = found.source
"""


def _segment(row: tuple[int, str, str, str | None, float | None, str, int, int, int, int]) -> StoredSegment:
    n, place, source, translation, confidence, warnings, doubtful, edited, equal, memory = row
    flags = bool(doubtful), bool(edited)
    return StoredSegment(n, place, source, translation, confidence, json.loads(warnings), *flags, equal, bool(memory))


class SegmentFile:
    """A document's segments. Methods raise `OSError` and `sqlite3.Error`, as where the disk is full."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def exists(self) -> bool:
        """Whether it is there, with all its segments."""
        return self._path.is_file()

    @contextmanager
    def _connected(self, path: Path | None = None) -> Generator[sqlite3.Connection]:
        uri = f"{(path or self._path).absolute().as_uri()}?mode=rw"  # and never creates it
        with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_TIMEOUT_S)) as connection, connection:
            yield connection

    def create(self, units: Iterable[SourceUnit]) -> None:
        """Write the file, which is there when it has all units."""
        temporary = self._path.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        temporary.touch(mode=0o600)
        with self._connected(temporary) as connection:
            connection.executescript(_SCHEMA)
            connection.executemany(
                f"INSERT INTO segments (n, {_UNIT_COLUMNS}) VALUES (?{10 * ', ?'})",
                ((n, *(getattr(one, name) for name in _UNIT_COLUMNS.split(", "))) for n, one in enumerate(units)),
            )
            connection.execute(_COUNT_EQUAL)
        temporary.replace(self._path)

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
            for row in connection.execute(f"SELECT {_UNIT_COLUMNS} FROM segments ORDER BY n"):
                texts: tuple[str, str, str] = row[:3]
                yield SourceUnit(*texts, bool(row[3]), row[4], row[5], row[6], bool(row[7]), bool(row[8]), bool(row[9]))

    def page(self, first: int, limit: int, *, doubtful: bool = False) -> Page:
        """Return segments in their order; `doubtful`: of doubtful ones."""
        which = "WHERE doubtful ORDER BY n LIMIT ? OFFSET ?" if doubtful else "WHERE n < ? AND n >= ? ORDER BY n"
        with self._connected() as connection:
            values = (limit if doubtful else first + limit, first)
            segments = [*map(_segment, connection.execute(f"SELECT {_COLUMNS} FROM segments {which}", values))]
            (total,) = connection.execute("SELECT coalesce(max(n), -1) + 1 FROM segments").fetchone()
            (doubtful_total,) = connection.execute("SELECT count(*) FROM segments WHERE doubtful").fetchone()
        return Page(segments, doubtful_total if doubtful else total, doubtful_total)

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
