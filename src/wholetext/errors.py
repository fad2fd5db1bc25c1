"""The errors of this package: each has a stable `code`, and a message that says what is wrong, where, and what to do.

WholetextError
├── UnknownLanguage    unsupported_language
├── UnsupportedFile    unsupported_file      (a format that is not read, or not written)
├── InvalidFile        invalid_file          (a file that is not what its extension says, is damaged, or too large)
├── DiskFull           disk_full             (of a worker, whose files cannot be stored)
└── NoWorker           unavailable           (no process can be started for a file now)
"""

from __future__ import annotations


class WholetextError(Exception):
    """An error with a message for the caller. `param` names what the caller gave that is wrong: `file`, `columns`."""

    code = "error"

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class UnknownLanguage(WholetextError):
    """A tag or name is no language."""

    code = "unsupported_language"


class UnsupportedFile(WholetextError):
    """A file of a format that is not read, or that cannot be written as asked."""

    code = "unsupported_file"


class InvalidFile(WholetextError):
    """A file that is not what its extension says, is damaged, or beyond a limit; the message has the place in it."""

    code = "invalid_file"


class DiskFull(WholetextError):
    """There is no space on the disk for what a worker writes."""

    code = "disk_full"


class NoWorker(WholetextError):
    """The machine has no process, memory or open file to spare for a worker: the same file may be read later."""

    code = "unavailable"
