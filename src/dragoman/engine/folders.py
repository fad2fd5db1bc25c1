"""What a server must be able to write, checked before it starts: its own folders, temporary files, and the engine's caches.

A container may run as a user who has no home folder, no entry in /etc/passwd and no folder to write. Libraries then fail late,
each in its own way; here it is one line that says what to set.
"""

from __future__ import annotations

import errno
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman.settings import Settings

TEMPORARY_BYTES = 70_000_000
"""py3langid unpacks its model into a temporary file of 68 MB."""
_NAME_VARIABLES = ("LOGNAME", "USER", "LNAME", "USERNAME")
"""Where `getpass.getuser` looks before /etc/passwd."""


def check_folders(settings: Settings) -> None:
    """Raises `ConfigError`, in one line, with all that cannot be written and what to set."""
    problems: dict[str, list[str]] = {}
    for name, path in _written(settings):
        if (problem := _why_not_writable(path)) is not None:
            problems.setdefault(problem, []).append(name)
    user = f"user {os.geteuid()}"
    if problems:
        listed = "; ".join(f"{problem} ({', '.join(names)})" for problem, names in problems.items())
        raise ConfigError(
            f"{user} cannot write what the server needs: {listed}: start it in another folder than {Path.cwd()}, "
            "or set these to what this user can write"
        )
    _check_temporary(user)
    if settings.pipeline.name != "fake":
        _check_home(user)


def name_the_user() -> None:
    """Give a user without an entry in /etc/passwd a name, which torch asks for."""
    if any(os.environ.get(name) for name in _NAME_VARIABLES):
        return
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        os.environ["USER"] = str(os.getuid())


def _written(settings: Settings) -> Iterator[tuple[str, Path]]:
    """Yield settings and the file or folder that each names. Traffic records are not among them: they fail with a warning."""
    url = settings.storage.url
    if url.startswith("sqlite:///") and ":memory:" not in url:
        yield "storage.url", Path(url.removeprefix("sqlite:///").partition("?")[0])
    if settings.log.engine_file:
        yield "log.engine_file", Path(settings.log.engine_file)
    if settings.documents.folder:
        yield "documents.folder", Path(settings.documents.folder)
    if settings.cache.file:
        yield "cache.file", Path(settings.cache.file)


def _why_not_writable(path: Path) -> str | None:
    """Return the file or folder that is in the way of writing `path`, with the reason; None: it can be written or created."""
    existing = path
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if existing != path and not existing.is_dir():
        return f"{existing}: {os.strerror(errno.ENOTDIR)}"
    if not os.access(existing, os.W_OK | (os.X_OK if existing.is_dir() else 0)):
        wanted = existing if existing == path else existing / path.relative_to(existing).parts[0]
        return f"{wanted}: {os.strerror(errno.EROFS if _is_read_only(existing) else errno.EACCES)}"
    return None


def _is_read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _check_temporary(user: str) -> None:
    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError:
        raise ConfigError(
            f"{user} cannot write temporary files in /tmp: set TMPDIR to a folder that it can write"
        ) from None
    free = shutil.disk_usage(folder).free
    if free < TEMPORARY_BYTES:
        raise ConfigError(
            f"temporary files need {TEMPORARY_BYTES // 10**6} MB at the start, and {folder} has {free / 1e6:.0f} MB left: "
            "make room, or set TMPDIR to another folder"
        )


def _check_home(user: str) -> None:
    try:
        home = Path.home()
    except RuntimeError:
        raise ConfigError(
            f"the engine keeps compiled code in a home folder, and {user} has none in /etc/passwd: "
            "set HOME to a folder that this user can write"
        ) from None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    root = Path(os.environ.get("VLLM_CACHE_ROOT") or cache / "vllm").expanduser()
    if (problem := _why_not_writable(root)) is not None:
        raise ConfigError(
            f"{user} cannot write the engine's cache of compiled code, {root}: {problem}: set HOME, or XDG_CACHE_HOME, to a "
            "folder that this user can write"
        )
