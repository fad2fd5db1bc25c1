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
from typing import Any, Literal, NamedTuple

MOST_CHANGED = 1_000
"""Segments that are returned of those that an edit has changed."""
MOST_ROWS = 5_000
"""Segments whose texts are read at once."""
SegmentKind = Literal["doubtful", "edited", "reviewed", "unreviewed", "memory", "examples"]
"""Segments that people look for. `memory`: from a translation memory; `examples`: made with examples; neither is edited."""
_BUSY_TIMEOUT_S = 10.0
_ADDED: dict[int, dict[str, str]] = {
    1: {
        "machine": "TEXT",
        "reviewed": "INTEGER NOT NULL DEFAULT 0",
        "examples": "INTEGER NOT NULL DEFAULT 0",
        "best_similarity": "REAL",
        "looks": "TEXT NOT NULL DEFAULT '{}'",
    },
    2: {"base": "TEXT"},
}
"""Columns that files of before a version do not have."""
_VERSION = max(_ADDED)
_SCHEMA = f"""
CREATE TABLE segments (
    n INTEGER PRIMARY KEY, source TEXT NOT NULL, place TEXT NOT NULL, context TEXT NOT NULL, follows INTEGER NOT NULL,
    translation TEXT, confidence REAL, warnings TEXT NOT NULL DEFAULT '[]',
    doubtful INTEGER NOT NULL DEFAULT 0, edited INTEGER NOT NULL DEFAULT 0, memory INTEGER NOT NULL DEFAULT 0,
    equal INTEGER NOT NULL DEFAULT 0, {", ".join(f"{name} {of}" for added in _ADDED.values() for name, of in added.items())}
);
CREATE INDEX doubtful ON segments (n) WHERE doubtful;
PRAGMA user_version = {_VERSION};
"""
_CONDITIONS: dict[SegmentKind | None, str] = {
    None: "1",
    "doubtful": "doubtful",
    "edited": "edited",
    "reviewed": "reviewed",
    "unreviewed": "NOT reviewed",
    "memory": "memory AND NOT edited",
    "examples": "examples AND NOT edited",
}


@dataclass(frozen=True, slots=True)
class SourceUnit:
    """A text of a file, as `content.Unit`: with marks, its place, and what is said around it. `equal`: how many others have
    its source. `looks`: of its marks, as `looks.looks`, in JSON.

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
    machine: str | None = None
    reviewed: bool = False
    examples: int = 0
    best_similarity: float | None = None
    looks: str = "{}"
    base: str | None = None


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
    is from a translation memory. `examples`: how many texts with their translations the model was shown; `best_similarity`: of
    the entries of memories among them, 0 to 100; None: there were none."""

    n: int
    translation: str
    confidence: float | None
    warnings: Sequence[dict[str, object]]
    memory: bool = False
    examples: int = 0
    best_similarity: float | None = None


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment; `n` is its number from 0 on. `doubtful`: it has warnings, and no person has edited or reviewed it. `edited`: a
    person's translation differs from the machine's, which is `machine` then (None: it is not known). `equal`: how many others
    have its source. `looks`: what is known of the looks of its marks, by number. `base`: of the last `ReturnedSegment` that a
    translation of it was taken from; None: there was none."""

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
    machine: str | None = None
    reviewed: bool = False
    examples: int = 0  # of what no person has edited, like `memory`
    best_similarity: float | None = None
    looks: dict[str, str] = field(default_factory=dict[str, str])
    base: str | None = None


class SegmentTexts(NamedTuple):
    """What is searched of a segment."""

    n: int
    source: str
    translation: str


@dataclass(frozen=True, slots=True)
class SegmentEdit:
    """A person's change of segment `n`. `translation` None: it stays as it is. `was`: the translation that was changed; another
    one is not replaced; None: whatever it is. `base`: of the `ReturnedSegment` that it is taken from."""

    n: int
    translation: str | None = None
    reviewed: bool = True
    was: str | None = None
    base: str | None = None


@dataclass(frozen=True, slots=True)
class Edited:
    """What edits have changed: the first `MOST_CHANGED` segments, the numbers of those that stay since they were another, and
    how many segments are still doubtful."""

    changed: list[StoredSegment]
    conflicts: list[int]
    doubtful: int


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the segments asked for, with the number of all of these, and of all doubtful ones."""

    segments: list[StoredSegment] = field(default_factory=list[StoredSegment])
    total: int = 0
    doubtful_total: int = 0


_COLUMNS = (
    "n, place, source, translation, confidence, warnings, doubtful, edited, equal, memory AND NOT edited, machine, reviewed, "
    "CASE WHEN edited THEN 0 ELSE examples END, CASE WHEN edited THEN NULL ELSE best_similarity END, looks, base"
)
_UNIT_COLUMNS = [one.name for one in fields(SourceUnit)]
_FLAGS = ("follows", "doubtful", "edited", "memory", "reviewed")


def _segment(row: tuple[Any, ...]) -> StoredSegment:
    n, place, source, translation, confidence, warnings, doubtful, edited, equal, memory, machine, *of_page = row
    reviewed, examples, best_similarity, looks, base = of_page
    return StoredSegment(
        n,
        place,
        source,
        translation,
        confidence,
        json.loads(warnings),
        bool(doubtful),
        bool(edited),
        equal,
        bool(memory),
        machine,
        bool(reviewed),
        examples,
        best_similarity,
        json.loads(looks),
        base,
    )


class SegmentFile:
    """The segments of a file. Methods raise `OSError` and `sqlite3.Error`, as where the disk is full."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        """Whether it is there."""
        return self.path.is_file()

    @contextmanager
    def _connected(self, *, is_new: bool = False) -> Generator[sqlite3.Connection]:
        uri = f"{self.path.absolute().as_uri()}?mode=rw"  # and never creates it
        connected = sqlite3.connect(uri, uri=True, timeout=_BUSY_TIMEOUT_S, check_same_thread=False)
        with closing(connected) as connection, connection:  # a generator may be continued in another thread
            if not is_new:
                _upgrade(connection)
            yield connection

    def create(self, units: Iterable[SourceUnit] = ()) -> None:
        """Make the file, with these units, in place of what a process that was killed while it made it has left."""
        for left in (self.path, Path(f"{self.path}-journal")):
            left.unlink(missing_ok=True)
        self.path.touch(mode=0o600)
        with self._connected(is_new=True) as connection:
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
                "UPDATE segments SET translation = ?, confidence = ?, warnings = ?, doubtful = ?, memory = ?, examples = ?, "
                "best_similarity = ? WHERE n = ? AND NOT edited AND NOT reviewed",
                (
                    (
                        one.translation,
                        one.confidence,
                        json.dumps(one.warnings),
                        bool(one.warnings),
                        one.memory,
                        one.examples,
                        one.best_similarity,
                        one.n,
                    )
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

    def rows(self, numbers: Sequence[int]) -> list[StoredSegment]:
        """Return the segments of these numbers, in their order, as far as there are any."""
        query = f"SELECT {_COLUMNS} FROM segments WHERE n IN ({', '.join('?' * len(numbers))}) ORDER BY n"
        with self._connected() as connection:
            return [*map(_segment, connection.execute(query, numbers))]

    def numbers(self, first: int, stop: int, kind: SegmentKind | None, limit: int) -> list[int]:
        """Return the numbers from `first` to `stop` of up to `limit` segments of a kind; None: of all."""
        query = f"SELECT n FROM segments WHERE n >= ? AND n < ? AND ({_CONDITIONS[kind]}) ORDER BY n LIMIT ?"
        with self._connected() as connection:
            return [n for (n,) in connection.execute(query, (first, stop, limit))]

    def texts(self, first: int, kind: SegmentKind | None, most_characters: int) -> list[SegmentTexts]:
        """Return texts of segments of a kind from number `first` on, up to `MOST_ROWS`, and no more after `most_characters`."""
        query = f"SELECT n, source, coalesce(translation, '') FROM segments WHERE n >= ? AND ({_CONDITIONS[kind]})"
        found, characters = list[SegmentTexts](), 0
        with self._connected() as connection:
            for row in connection.execute(f"{query} ORDER BY n LIMIT {MOST_ROWS}", (first,)):
                found.append(texts := SegmentTexts(*row))
                characters += len(texts.source) + len(texts.translation)
                if characters >= most_characters:
                    break
        return found

    def edits(self) -> list[tuple[str, str]]:
        """Return different sources whose translations people have edited or reviewed, with these, the first `MOST_CHANGED`."""
        query = f"SELECT DISTINCT source, translation FROM segments WHERE edited OR reviewed LIMIT {MOST_CHANGED}"
        with self._connected() as connection:
            return connection.execute(query).fetchall()

    def edit(self, edits: Sequence[SegmentEdit], *, all_equal: bool = False) -> Edited:
        """Set what people have changed, as one transaction; `all_equal`: also of the segments with the same sources."""
        condition = "source = (SELECT source FROM segments WHERE n = :n)" if all_equal else "n = :n"
        values = [
            {"n": one.n, "to": one.translation, "reviewed": one.reviewed, "was": one.was, "base": one.base}
            for one in edits
        ]
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            changed = [
                one["n"]
                for one in values
                if connection.execute(f"{_EDIT} WHERE ({condition}) AND (:was IS NULL OR :was = {_OF_N})", one).rowcount
            ]
            segments = list[StoredSegment]()
            for n in changed:
                rows = connection.execute(
                    f"SELECT {_COLUMNS} FROM segments WHERE {condition} ORDER BY n LIMIT {MOST_CHANGED}", {"n": n}
                )
                segments += map(_segment, rows)
            (doubtful,) = connection.execute("SELECT count(*) FROM segments WHERE doubtful").fetchone()
        conflicts = [one.n for one in edits if one.n not in set(changed)]
        return Edited(segments[:MOST_CHANGED], conflicts, int(doubtful))


_MACHINE = "CASE WHEN edited THEN machine ELSE translation END"
"""The machine's translation; NULL: it was edited when this was not noted yet."""
_NEW = "coalesce(:to, translation)"
_OF_N = "(SELECT translation FROM segments WHERE n = :n)"
_EDIT = f"""
UPDATE segments SET translation = {_NEW}, reviewed = :reviewed,
    base = coalesce(:base, base),
    machine = CASE WHEN {_NEW} = ({_MACHINE}) THEN NULL ELSE ({_MACHINE}) END,
    edited = coalesce({_NEW} <> ({_MACHINE}), 1),
    doubtful = warnings <> '[]' AND NOT :reviewed AND coalesce({_NEW} = ({_MACHINE}), 0)
"""


def _upgrade(connection: sqlite3.Connection) -> None:
    """Add the columns that a file of before does not have; what people had edited before version 1, they have reviewed."""
    version = "PRAGMA user_version"
    if connection.execute(version).fetchone()[0] >= _VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    (found,) = connection.execute(version).fetchone()
    for added in range(found + 1, _VERSION + 1):
        for name, of in _ADDED[added].items():
            connection.execute(f"ALTER TABLE segments ADD COLUMN {name} {of}")
        if added == 1:
            connection.execute("UPDATE segments SET reviewed = edited")
        connection.execute(f"{version} = {added}")
    connection.commit()
