"""DeepL's translation memories, version 3, on the key's own and the shared ones: list, segments, delete, and TMX files by jobs.

A client uploads and downloads files at addresses that a job has, without its key: whoever has the address has the file.
"""

from __future__ import annotations

import asyncio
import uuid
from itertools import groupby
from typing import TYPE_CHECKING, cast

from fastapi import APIRouter, Request
from fastapi.responses import Response

from dragoman.api.collections import deletable
from dragoman.api.compat.deepl.calls import DeepLCall, answer, no_content, time_of, trace_header
from dragoman.api.compat.exchange import Fields, unsupported
from dragoman.api.forms import receive_body
from dragoman.api.input import Service, base_url
from dragoman.api.memories import tmx_response
from dragoman.errors import InvalidRequest, UnknownMemory
from dragoman.storage.document_files import full_disk_reported
from wholetext.files.worker import SOURCE

if TYPE_CHECKING:
    from datetime import datetime

    from dragoman.storage.collections import StoredCollection
    from dragoman.storage.memories import StoredEntry, StoredJob

router = APIRouter()

_FOLDER = "/v3/translation_memories"
UPLOAD_PATH = f"{_FOLDER}/upload"
MAX_PAGE, DEFAULT_PAGE = 25, 10
MAX_SEGMENTS, DEFAULT_SEGMENTS = 100, 50
MAX_FILE_NAME_CHARACTERS, MAX_TYPE_CHARACTERS = 100, 127


# ---- memories


@router.get(_FOLDER)
async def list_all(call: DeepLCall) -> Response:
    """The key's own memories and the shared ones, by name."""
    page, size = _number(call.fields, "page", 0, 0, 10**6), _number(call.fields, "page_size", DEFAULT_PAGE, 1, MAX_PAGE)
    try:
        stored = await call.service.memories.store.list(call.account.id)
    except UnknownMemory:  # the server has no database
        stored = ()
    shown = stored[page * size : (page + 1) * size]
    return answer({"translation_memories": [*map(_memory, shown)], "total_count": len(stored)})


@router.get(f"{_FOLDER}/jobs/{{job_id}}")
async def get_job(job_id: str, call: DeepLCall) -> Response:
    """How far an import or export is; of an export that is completed, the address of its file."""
    return answer(_job(await call.service.memory_jobs.get(job_id, call.account.id), base_url(call.http)))


@router.get(f"{_FOLDER}/download")
async def download(http: Request, service: Service) -> Response:
    """The file of an export, at the address that the export has."""
    job = await service.memory_jobs.of_token(http.query_params.get("token", ""), "export")
    return await tmx_response(service, job.account_id, job.memory_id or "")


@router.get(f"{_FOLDER}/{{translation_memory_id}}")
async def get(translation_memory_id: str, call: DeepLCall) -> Response:
    """A memory's languages and its number of segments."""
    return answer(_memory(await call.service.memories.store.get(call.account.id, translation_memory_id)))


@router.delete(f"{_FOLDER}/{{translation_memory_id}}")
async def delete(translation_memory_id: str, call: DeepLCall) -> Response:
    """Delete a memory with all its segments."""
    memories = call.service.memories
    stored = await deletable(memories.store, call.account, translation_memory_id)
    await memories.changed(memories.store.delete(stored.account_id, stored.id))
    return no_content()


@router.get(f"{_FOLDER}/{{translation_memory_id}}/segments")
async def segments(translation_memory_id: str, call: DeepLCall) -> Response:
    """A page of a memory's segments. Inline codes are marks: `<g1>…</g1>`, `<x2/>`."""
    fields, store = call.fields, call.service.memories.store
    size = _number(fields, "page_size", DEFAULT_SEGMENTS, 1, MAX_SEGMENTS)
    wanted = fields.text("filter_text")
    if wanted and len(wanted) < 2:
        raise unsupported("filter_text", "give 2 characters or more")
    memory = await store.get(call.account.id, translation_memory_id)
    cursor, case_sensitive = fields.text("page_cursor") or None, fields.flag("filter_case_sensitive")
    page = await store.page(call.account.id, memory.id, size, cursor, find=wanted, case_sensitive=case_sensitive)
    groups = groupby(page.entries, key=lambda entry: (entry.source, entry.digest))
    found: dict[str, object] = {"segments": [_segment([*group]) for _, group in groups]}
    found["segment_count"] = memory.entry_count
    return answer(found | ({"next_page_cursor": page.cursor} if page.cursor else {}))


# ---- files


@router.post(f"{_FOLDER}/import")
async def create_import(call: DeepLCall) -> Response:
    """Begin an import: a job, and the address that its TMX file is uploaded to. A name that another memory has
    gets a number."""
    source, parameters = _object(call.fields, "source_file"), _object(call.fields, "parameters")
    file_name = source.required("file_name", most=MAX_FILE_NAME_CHARACTERS)
    most = call.service.max_file_bytes
    length = _number(source, "content_length", 0, 1, most, place="source_file.content_length")
    content_type = source.text("content_type", most=MAX_TYPE_CHARACTERS) or "application/xml"
    name = parameters.text("display_name", most=MAX_FILE_NAME_CHARACTERS) or file_name.rpartition(".")[0] or file_name
    job = await call.service.memory_jobs.create_import(call.account.id, name, content_type, length)
    address = f"{base_url(call.http)}{UPLOAD_PATH}?token={job.id}.{job.secret}"
    return answer({"job_id": job.id, "upload_url": address, "expires_at": time_of(job.expires_at)}, 202)


@router.put(UPLOAD_PATH)
async def upload(http: Request, service: Service) -> Response:
    """Receive the file of an import, at the address that the import has. The job tells what came of it."""
    jobs = service.memory_jobs
    job = await jobs.of_token(http.query_params.get("token", ""), "import")
    upload = service.memories.uploads.begin(job.account_id)
    try:
        with full_disk_reported():
            size = await receive_body(http, upload.path / SOURCE, service.max_file_bytes)
    except BaseException:
        await asyncio.to_thread(upload.discard)
        raise
    await jobs.begin(job, upload, size)
    return Response(status_code=200, headers=trace_header())


@router.post(f"{_FOLDER}/{{translation_memory_id}}/export")
async def create_export(translation_memory_id: str, call: DeepLCall) -> Response:
    """Begin an export: a job, which is completed at once: its file is written while it is downloaded."""
    job = await call.service.memory_jobs.create_export(call.account.id, translation_memory_id)
    return answer({"job_id": job.id, "parameters": {"translation_memory_id": job.memory_id}}, 202)


# ---- parameters


def _number(fields: Fields, name: str, default: int, least: int, most: int, place: str = "") -> int:
    value = str(fields.values.get(name, default))
    if not (value.isascii() and value.isdecimal() and len(value) < 20 and least <= int(value) <= most):
        raise unsupported(place or name, f"give a whole number from {least} to {most}")
    return int(value)


def _object(fields: Fields, name: str) -> Fields:
    value = fields.values.get(name, {})
    if not isinstance(value, dict):
        raise InvalidRequest(f"Value for '{name}' not supported: it is not an object", param=name)
    return Fields(cast(dict[str, object], value), fields.missing)


# ---- JSON


def _times(created: datetime, updated: datetime) -> dict[str, object]:
    return {"creation_time": time_of(created), "updated_time": time_of(updated)}


def _memory(stored: StoredCollection) -> dict[str, object]:
    source = stored.pairs[0].source if stored.pairs else ""
    return {
        "translation_memory_id": stored.id,
        "name": stored.name,
        "source_language": source.lower(),
        "target_languages": sorted(pair.target.lower() for pair in stored.pairs if pair.source == source),
        "segment_count": stored.entry_count,
        **_times(stored.created_at, stored.updated_at),
    }


def _segment(entries: list[StoredEntry]) -> dict[str, object]:
    """Entries of one text."""
    return {
        "source_segment_id": str(uuid.UUID(bytes=entries[0].digest)),
        "source_text": entries[0].text,
        "targets": [
            {
                "target_segment_id": entry.id,
                "target_language": entry.target.lower(),
                "target_text": entry.translation,
                **_times(entry.created_at, entry.updated_at),
            }
            for entry in entries
        ],
        **_times(min(one.created_at for one in entries), max(one.updated_at for one in entries)),
    }


def _job(job: StoredJob, base: str) -> dict[str, object]:
    result: dict[str, object] = {"status": job.status}
    if job.status == "awaiting_input":
        result["status_metadata"] = {"required_action": "PUT the TMX file to upload_url"}
    elif job.status == "failed":
        result["error"] = {"message": job.error_message or "the import failed"}
    elif job.operation == "export":
        result["download_url"] = f"{base}{_FOLDER}/download?token={job.id}.{job.secret}"
        result["expires_at"] = time_of(job.expires_at)
    elif job.status == "completed":
        result |= {"translation_memory_id": job.memory_id, "skipped_segment_count": job.skipped}
    found: dict[str, object] = {
        "job_id": job.id,
        "product": "translation_memory",
        "operation": job.operation,
        **_times(job.created_at, job.updated_at),
        "results": [result],
    }
    if job.operation == "export":
        return found | {"parameters": {"translation_memory_id": job.memory_id}}
    source = {"content_type": job.content_type, "content_length": job.content_length}
    return found | {"parameters": {"display_name": job.name}, "source_file": source}
