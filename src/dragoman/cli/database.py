"""What commands do that change a database directly; no server needs to run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from dragoman.cli.console import error_console
from dragoman.errors import ConfigError
from dragoman.service.stack import database
from dragoman.settings import Loaded
from dragoman.storage.database import Database
from dragoman.telemetry.logs import AUDIT_LOG, HumanFormatter, JsonFormatter

T = TypeVar("T")


def on_database(loaded: Loaded, subject: str, work: Callable[[Database], Awaitable[T]]) -> T:
    """Return the result of `work` on the settings' database, which is created or migrated if necessary.

    `subject`: what is stored there, in the plural. Raises `ConfigError` where there is no database.
    """
    opened = database(loaded.settings.storage)
    if opened is None:
        raise ConfigError(f"{subject} are stored in the database, and storage.url is empty", param="storage.url")

    async def run() -> T:
        await opened.open()
        try:
            return await work(opened)
        finally:
            await opened.close()

    with _changes_logged(loaded):
        return asyncio.run(run())


@contextmanager
def _changes_logged(loaded: Loaded) -> Generator[None]:
    """Within: the line of a change goes to standard error, in the format of the server's log."""
    logger = logging.getLogger(AUDIT_LOG)
    handler = logging.StreamHandler(error_console.file)
    handler.setFormatter(JsonFormatter() if loaded.settings.log.format == "json" else HumanFormatter(timed=True))
    logger.addHandler(handler)
    level_before = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level_before)
        logger.removeHandler(handler)
