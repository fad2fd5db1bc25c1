"""One recorded text, as a value and as a line of a file, and reading the files of folders.

A line is one JSON object with the keys below; what has its default is left out. `v` is the format's version: a reader takes
the versions that it knows and counts the rest. Unknown keys are skipped, so that a key can be added without a new version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from dragoman.errors import ConfigError
from dragoman.telemetry.requests import OK, TextKind, TextRecord

VERSION = 1
_DOCUMENT_ID = re.compile(r"document-[0-9a-f]{32}")

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class TrafficEntry:
    """A text that ended, made from a `TextRecord`. `text` only where the setting traffic.record_text is on."""

    version: Annotated[Literal[1], Field(alias="v")]
    arrived_unix_s: Annotated[Seconds, Field(alias="at")]
    target: Annotated[str, Field(alias="to")]
    outcome: Annotated[str, Field(alias="end")]  # ok, cancelled or an error's code
    e2e_s: Annotated[Seconds, Field(alias="e2e")]
    # Texts in flight at its arrival, its call's own included: of calls, or of documents (without `kind`: of both).
    in_flight: Annotated[Count, Field(alias="in")]
    source_characters: Annotated[Count, Field(alias="chars")]
    source: Annotated[str | None, Field(alias="from")] = None
    source_tokens: Annotated[Count, Field(alias="src")] = 0  # 0, with those below: no model ran
    prompt_tokens: Annotated[Count, Field(alias="prompt")] = 0  # the template's included
    output_tokens: Annotated[Count, Field(alias="out")] = 0
    queue_s: Annotated[Seconds | None, Field(alias="queue")] = None
    ttft_s: Annotated[Seconds | None, Field(alias="ttft")] = None
    decode_s: Annotated[Seconds | None, Field(alias="decode")] = None
    detected: Annotated[bool, Field(alias="det")] = False
    finish_reason: Annotated[str | None, Field(alias="fin")] = None
    warnings: Annotated[Count, Field(alias="warn")] = 0
    request_id: Annotated[str, Field(alias="id")] = ""
    index: Annotated[Count, Field(alias="n")] = 0  # its place in its call
    text: Annotated[str | None, Field(alias="text")] = None
    kind: Annotated[TextKind | None, Field(alias="kind")] = None  # None: recorded by a version that did not know it

    @property
    def ok(self) -> bool:
        return self.outcome == OK

    @property
    def is_document(self) -> bool:
        """Whether it is a segment of a file. Of earlier recordings, the call's id says that."""
        return self.kind == "document" or (self.kind is None and _DOCUMENT_ID.fullmatch(self.request_id) is not None)

    @classmethod
    def of(cls, text: TextRecord) -> TrafficEntry:
        """Times to 10 µs, the arrival to 0.1 ms."""
        return cls(
            VERSION,
            round(text.arrived_unix_s, 4),
            text.target,
            text.outcome,
            round(text.e2e_s, 5),
            text.in_flight,
            text.source_characters,
            text.source,
            text.source_tokens,
            text.prompt_tokens,
            text.output_tokens,
            _rounded(text.queue_s),
            _rounded(text.ttft_s),
            _rounded(text.decode_s),
            text.detected,
            text.finish_reason,
            len(text.warnings),
            text.request_id,
            text.index,
            None if text.text is None else text.text.encode(errors="replace").decode(),  # no lone surrogate in a file
            text.kind,
        )


def _rounded(value_s: float | None) -> float | None:
    return None if value_s is None else round(max(value_s, 0.0), 5)


@cache
def _adapter() -> TypeAdapter[TrafficEntry]:
    return TypeAdapter(TrafficEntry)


def to_line(entry: TrafficEntry) -> bytes:
    """With its line feed, and no other."""
    return _adapter().dump_json(entry, by_alias=True, exclude_defaults=True) + b"\n"


def from_line(line: bytes) -> TrafficEntry | None:
    """None where the line is not one of ours, or of a version that is not known here."""
    try:
        return _adapter().validate_json(line, strict=True)
    except ValidationError:
        return None


# ---- reading folders

_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z(?P<recorder>(?P<host>-[\w.~]+)?-\d+)-\d+\.jsonl")
"""`host` is `HOST` or `HOST~REPLICA`; the earlier form left it out."""


def file_name(began: datetime, host: str, replica: str, pid: int, number: int) -> str:
    """Of a process's file `number`, which began at that UTC time; names sort by it."""
    names = [re.sub(r"[^A-Za-z0-9_.]+", "_", name) for name in (host or "host", replica) if name]
    return f"{began:%Y%m%dT%H%M%S.%fZ}-{'~'.join(names)}-{pid}-{number}.jsonl"


def traffic_files(folder: Path) -> list[Path]:
    """The folder's files, oldest first. Empty where there is no folder. Raises OSError."""
    try:
        return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    except FileNotFoundError:
        return []


def _recorder(path: Path) -> str:
    """Which process wrote it: host, replica and process, or folder and process where the name has no host."""
    found = _NAME.fullmatch(path.name)
    if found is None:
        return path.name
    return found["recorder"] if found["host"] else f"{path.parent}{found['recorder']}"


@dataclass(slots=True)
class TrafficReader:
    """Iterate for the entries that arrived since `since_unix_s`; afterwards the counts say what was not read. `by_recorder`
    yields each with the name of its recorder.

    Several folders, such as those of several hosts, are read as one; a file of the same name in two of them is read once,
    from where it is longer.
    """

    folders: Sequence[Path]
    since_unix_s: float = 0.0
    files: int = 0
    torn: int = 0  # lines, here and below
    alien: int = 0
    spans_unix_s: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """By recorder: the first arrival and the last end of its entries."""

    def __iter__(self) -> Iterator[TrafficEntry]:
        """Raises ConfigError where there is no folder, or a file may not be read."""
        for _, entry in self.by_recorder():
            yield entry

    def by_recorder(self) -> Iterator[tuple[str, TrafficEntry]]:
        """Raises ConfigError where there is no folder, or a file may not be read."""
        self.files = self.torn = self.alien = 0
        self.spans_unix_s.clear()
        for path in self._paths():
            try:
                for entry in self._entries(path):
                    yield _recorder(path), entry
            except OSError as error:
                raise ConfigError(f"cannot read the traffic in {path.parent}: {error}", param="folder") from None

    @property
    def where(self) -> str:
        """The folders' names."""
        return ", ".join(map(str, self.folders))

    @property
    def overlapping(self) -> bool:
        """Whether two recorders ran at the same time, as far as was read: each then counted only its own share of the texts
        in flight."""
        last_unix_s = float("-inf")
        for first, last in sorted(self.spans_unix_s.values()):
            if first < last_unix_s:
                return True
            last_unix_s = last
        return False

    def _paths(self) -> list[Path]:
        found: dict[str, Path] = {}
        for folder in self.folders:
            try:
                if not folder.is_dir():
                    raise ConfigError(f"no traffic was recorded in {folder}: there is no such folder", param="folder")
                for path in traffic_files(folder):
                    other = found.get(path.name)
                    if other is None or path.stat().st_size > other.stat().st_size:
                        found[path.name] = path
            except OSError as error:
                raise ConfigError(f"cannot read the traffic in {folder}: {error}", param="folder") from None
        return [found[name] for name in sorted(found)]

    def _entries(self, path: Path) -> Iterator[TrafficEntry]:
        try:
            if path.stat().st_mtime < self.since_unix_s:  # all of it ended before
                return
            file = path.open("rb")
        except FileNotFoundError:  # rotated away meanwhile
            return
        self.files += 1
        recorder = _recorder(path)
        first, last = self.spans_unix_s.get(recorder, (float("inf"), float("-inf")))
        with file:
            for line in file:
                entry = self._entry(line)
                if entry is not None and entry.arrived_unix_s >= self.since_unix_s:
                    first = min(first, entry.arrived_unix_s)
                    last = max(last, entry.arrived_unix_s + entry.e2e_s)
                    yield entry
        if first <= last:
            self.spans_unix_s[recorder] = first, last

    def _entry(self, line: bytes) -> TrafficEntry | None:
        if not line.endswith(b"\n"):
            self.torn += 1
            return None
        entry = from_line(line)
        self.alien += entry is None
        return entry

    @property
    def faults(self) -> str | None:
        """What was not read, in a sentence; None where all was."""
        counts = ((self.torn, "torn (cut off in the middle)"), (self.alien, "not records that this version knows"))
        parts = [f"{count} {'line' if count == 1 else 'lines'} {what}" for count, what in counts if count]
        return f"{' and '.join(parts)} left out" if parts else None
