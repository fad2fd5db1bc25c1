"""Imports and exports of translation memories as jobs, which DeepL's clients begin and then ask for.

A job is a row of the database, so that any server answers for it. Its file is uploaded to one server, which reads it at once;
one that is stopped meanwhile leaves a job that fails. An export has no file of its own: it is written while it is downloaded.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from secrets import token_hex
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

from dragoman.errors import (
    DragomanError,
    InvalidMemory,
    InvalidRequest,
    MemoryExists,
    QueueFull,
    StorageUnavailable,
    UnknownMemory,
)
from dragoman.service.memories import Memories
from dragoman.storage.collections import MAX_NAME_CHARACTERS, StoredCollection
from dragoman.storage.database import utc_now
from dragoman.storage.memories import MAX_MEMORIES, StoredJob
from dragoman.storage.threads import caller
from dragoman.telemetry import requests

if TYPE_CHECKING:
    from dragoman.service.uploads import Upload

log = logging.getLogger("dragoman.memories")

KEEP_S = 3_600.0
"""How long a job is answered for, and its addresses are valid."""
STALE_S = 600.0
"""An import that is processed for longer has lost its server."""
MOST_JOBS = 1_000
"""Jobs of one key that are answered for."""
WAIT_S = 3.0
"""How long an upload is answered after its import, so that a client that asks at once finds it completed."""


class MemoryJobs:
    """The jobs of one server. Methods raise `StorageUnavailable`; those of a job `UnknownMemory`.

    `most_in_flight`: imports of one key that wait for their file or are read.
    """

    def __init__(self, memories: Memories, most_in_flight: int) -> None:
        self._memories = memories
        self._most_in_flight = most_in_flight
        self._running: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Cancel the imports that run."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def create_import(self, account_id: str, name: str, content_type: str, content_length: int) -> StoredJob:
        """Return a job that waits for its file. `name`: of the memory, as the client gave it. Raises `QueueFull`."""
        now = utc_now()
        job = StoredJob(
            str(uuid4()),
            account_id,
            "import",
            "awaiting_input",
            token_hex(32),
            self._clean(name),
            now,
            now,
            now + timedelta(seconds=KEEP_S),
            content_type=content_type,
            content_length=content_length,
        )
        await self._add(job)
        return job

    async def create_export(self, account_id: str, reference: str) -> StoredJob:
        """Return a job whose file can be downloaded. Raises `UnknownMemory`, `QueueFull`."""
        memory = await self._memories.store.get(account_id, reference)
        now = utc_now()
        expires_at = now + timedelta(seconds=KEEP_S)
        job = StoredJob(
            str(uuid4()), account_id, "export", "completed", token_hex(32), memory.name, now, now, expires_at, memory.id
        )
        await self._add(job)
        return job

    async def _add(self, job: StoredJob) -> None:
        stale = job.created_at - timedelta(seconds=STALE_S)
        if not await self._memories.store.add_job(job, self._most_in_flight, MOST_JOBS, stale):
            raise QueueFull(
                f"this key has {self._most_in_flight} imports of translation memories that wait for their file or are read, or "
                f"{MOST_JOBS:,} jobs within the hour: upload their files, or try again later",
                retry_after_s=60.0,
            )

    async def get(self, id: str, account_id: str) -> StoredJob:
        """Return an account's job."""
        job = await self._memories.store.job(id[:36])
        if job is None or job.account_id != account_id:
            raise UnknownMemory("there is no such job; it may have expired")
        if job.status == "processing" and utc_now() - job.updated_at > timedelta(seconds=STALE_S):
            return replace(job, status="failed", error_message="the server was stopped: import the file again")
        return job

    async def of_token(self, token: str, operation: Literal["import", "export"]) -> StoredJob:
        """Return the job of an address."""
        id, _, secret = token.partition(".")
        job = await self._memories.store.job(id[:36])
        right = job is not None and hmac.compare_digest(job.secret.encode(), secret.encode("utf-8", "surrogatepass"))
        if job is None or not right or job.operation != operation:
            raise UnknownMemory("there is no such file; its address may have expired")
        caller.set(job.account_id)
        return job

    async def begin(self, job: StoredJob, upload: Upload, size: int) -> None:
        """Import the file `source` of an upload, which is deleted then; return when that is done, or after `WAIT_S`.

        A file that is uploaded twice is imported once. Raises `InvalidRequest` for a file of another `size` than the job's:
        the right one may be uploaded then.
        """
        try:
            if size != job.content_length:
                raise InvalidRequest(
                    f"the file has {size:,} bytes, and content_length of its import is {job.content_length:,}",
                    param="content_length",
                )
            is_first = await self._memories.store.update_job(job.id, "awaiting_input", status="processing")
        except BaseException:
            await asyncio.to_thread(upload.discard)
            raise
        if not is_first:
            await asyncio.to_thread(upload.discard)
            return
        if (trace := requests.current.get()) is not None:  # the upload's address needs no key
            trace.key = job.account_id
        task = asyncio.create_task(self._import(job, upload))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        await asyncio.wait((task,), timeout=WAIT_S)

    async def _import(self, job: StoredJob, upload: Upload) -> None:
        memory: StoredCollection | None = None
        ended: dict[str, object] = {
            "status": "failed",
            "error_message": "the server was stopped: import the file again",
        }
        try:
            memory = await self._create(job)
            imported = await self._memories.import_tmx(job.account_id, memory.id, upload.path)
            ended = {"status": "completed", "memory_id": memory.id, "skipped": sum(imported.skipped.values())}
        except DragomanError as error:
            ended["error_message"] = error.message
        except Exception:
            log.exception("an import of a translation memory failed")
            ended["error_message"] = "the server failed on this file; see its log"
        finally:
            await asyncio.to_thread(upload.discard)
            with suppress(StorageUnavailable, UnknownMemory):
                if memory is not None and ended["status"] == "failed":
                    await self._memories.changed(self._memories.store.delete(job.account_id, memory.id))
                await self._memories.store.update_job(job.id, "processing", **ended)

    async def _create(self, job: StoredJob) -> StoredCollection:
        """A memory of the job's name, with a number where the account has one of this name."""
        for number in range(1, MAX_MEMORIES + 2):
            name = job.name if number == 1 else f"{job.name} ({number})"
            with suppress(MemoryExists):
                return await self._memories.store.create(job.account_id, name)
        raise InvalidMemory(f"a key has at most {MAX_MEMORIES} memories")

    def _clean(self, name: str) -> str:
        """A memory's name that is like the one that a client gave."""
        kept = "".join(one for one in name.replace("/", "_") if one.isprintable())[: MAX_NAME_CHARACTERS - 10]
        checked_name = self._memories.store.checked_name
        try:
            return checked_name(kept)
        except InvalidMemory:  # it is empty, or looks like an id
            return checked_name(f"memory {kept}")
