"""Reads a traffic folder: every text of every file, oldest file first, whoever wrote it.

What cannot be read is counted and told, never guessed at and never fatal: a last line without its end (the disk was full, the
power went) is torn; a line that is not a record of a version known here is alien. Within a file, texts are in the order in
which they ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman.telemetry.traffic.entry import Entry, from_line
from dragoman.telemetry.traffic.spool import traffic_files


@dataclass(slots=True)
class Reading:
    """Iterate for the entries that arrived since `since_unix_s`; afterwards the counts say what was not read."""

    folder: Path
    since_unix_s: float = 0.0
    files: int = 0
    torn: int = 0  # lines, here and below
    alien: int = 0

    def __iter__(self) -> Iterator[Entry]:
        """Raises ConfigError where there is no folder, or a file may not be read."""
        self.files = self.torn = self.alien = 0
        try:
            if not self.folder.is_dir():
                raise ConfigError(f"no traffic was recorded in {self.folder}: there is no such folder", param="folder")
            for path in traffic_files(self.folder):
                yield from self._entries(path)
        except OSError as error:
            raise ConfigError(f"cannot read the traffic in {self.folder}: {error}", param="folder") from None

    def _entries(self, path: Path) -> Iterator[Entry]:
        try:
            if path.stat().st_mtime < self.since_unix_s:  # all of it ended before
                return
            file = path.open("rb")
        except FileNotFoundError:  # rotated away meanwhile
            return
        self.files += 1
        with file:
            for line in file:
                entry = self._entry(line)
                if entry is not None and entry.arrived_unix_s >= self.since_unix_s:
                    yield entry

    def _entry(self, line: bytes) -> Entry | None:
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
        told = [f"{count} {'line' if count == 1 else 'lines'} {what}" for count, what in counts if count]
        return f"{' and '.join(told)} left out" if told else None
