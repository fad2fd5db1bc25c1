"""Translation memories: `/v1/memories`, their entries as JSON, and TMX files in and out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, cast

from fastapi import APIRouter, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, SkipValidation, ValidationError

from dragoman import languages
from dragoman.api import openapi, schemas
from dragoman.api.answers import file_headers
from dragoman.api.collections import (
    ChangeBody,
    CollectionOut,
    PairOut,
    added_to,
    change,
    changeable,
    deletable,
    errors,
)
from dragoman.api.forms import receive_body
from dragoman.api.input import NEEDS_KEY, Caller, KeyFirstRoute, Service
from dragoman.storage.document_files import full_disk_reported
from wholetext.files import tmx
from wholetext.files.worker import SOURCE

if TYPE_CHECKING:
    from dragoman.service.service import TranslationService
    from dragoman.storage.memories import StoredEntry

router = APIRouter(prefix="/v1/memories", tags=["memories"], route_class=KeyFirstRoute, dependencies=[NEEDS_KEY])

IMPORT_PATH = "/v1/memories/import"
MAX_PAGE = 1_000

# ---- wire format

_EXAMPLE: Any = {
    "id": "5f0c2f0e-6f0f-4b67-9f0c-0d3f2b6f6a51",
    "name": "manuals",
    "version": 2,
    "created_at": "2026-11-25T09:00:00.123456Z",
    "updated_at": "2026-11-25T09:30:00.123456Z",
    "shared": False,
    "changeable": True,
    "shareable": False,
    "entry_count": 1,
    "pairs": [{"source": "en", "target": "ja", "entry_count": 1}],
}


class NameBody(schemas.RequestBody):
    """A memory's name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "manuals"}]})

    name: Annotated[str, Field(description="Unique among the key's memories.")]


class EntryBody(schemas.RequestBody):
    """A text and a person's translation of it."""

    text: Annotated[str, Field(description="With marks for inline codes: `<g1>…</g1>`, `<x2/>`.")]
    translation: Annotated[str, Field(description="With the marks of the text, each once.")]


class MemoryEntriesBody(schemas.RequestBody):
    """Entries of one pair of languages."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "source": "en",
                    "target": "ja",
                    "entries": [{"text": "Press <g1>Start</g1>.", "translation": "<g1>開始</g1>を押します。"}],
                }
            ]
        }
    )

    source: Annotated[str, Field(description="BCP-47 tag of the texts' language.")]
    target: Annotated[str, Field(description="BCP-47 tag of the translations' language.")]
    entries: Annotated[list[EntryBody], SkipValidation]  # by `_texts`, in a thread: there may be 100,000


class MemoryOut(CollectionOut):
    """A memory without its entries."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    entry_count: int
    pairs: list[PairOut]


class MemoriesAnswer(BaseModel):
    """`GET /v1/memories`."""

    memories: list[MemoryOut]


class EntryOut(BaseModel):
    """An entry, with marks in the order of the text."""

    id: Annotated[str, Field(description="Within the memory; it stays when the translation changes.")]
    source: str
    target: str
    text: str
    translation: str
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, stored: StoredEntry) -> EntryOut:
        return cls.model_validate(stored, from_attributes=True)


class MemoryEntriesAnswer(BaseModel):
    """A page of entries."""

    entries: list[EntryOut]
    cursor: Annotated[str | None, Field(description="Of the next page; null: this is the last one.")]


class ImportAnswer(BaseModel):
    """What came of a TMX file."""

    memory: MemoryOut
    added: Annotated[int, Field(description="Translations that were added, or replaced others of their texts.")]
    skipped: Annotated[
        dict[str, int],
        Field(
            description="Translations that were not: `language` (unknown, or the text's own), `codes` (inline codes that are "
            "not those of the text), `text` (empty, too long, or reads like a mark), `variants` (a unit without a translation)."
        ),
    ]


Reference = Annotated[str, Path(description="The memory's id or its name.")]

# ---- routes


@router.post("", summary="Make a translation memory", status_code=201, responses=errors(409, 422))
async def create(body: NameBody, service: Service, account: Caller) -> MemoryOut:
    """A new memory without entries."""
    memories = service.memories
    created = await memories.changed(memories.store.create(account.id, body.name))
    return MemoryOut.of(memories.store, created, account)


@router.get("", summary="The translation memories", responses=errors())
async def list_all(service: Service, account: Caller) -> MemoriesAnswer:
    """The key's own and those that the server shares, by name, without their entries."""
    store = service.memories.store
    return MemoriesAnswer(memories=[MemoryOut.of(store, one, account) for one in await store.list(account.id)])


@router.post(
    "/import",
    summary="Import a TMX file",
    responses=errors(404, 413, 422),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {tmx.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def import_file(
    request: Request,
    service: Service,
    account: Caller,
    name: Annotated[str, Query(description="Id or name of the memory; one that the key does not have is made.")],
) -> ImportAnswer:
    """TMX 1.4, whatever the Content-Type. Entries with the text of one in the file get its translation; others stay."""
    service.admission.check_open()
    upload = service.memories.uploads.begin(account.id)
    try:
        with full_disk_reported():
            await receive_body(request, upload.path / SOURCE, service.max_file_bytes)
            owner, reference = await added_to(service.memories.store, account, name)
            found = await service.memories.import_tmx(owner, reference, upload.path)
    finally:
        await asyncio.to_thread(upload.discard)
    return ImportAnswer(
        memory=MemoryOut.of(service.memories.store, found.memory, account),
        added=found.added,
        skipped=dict(found.skipped),
    )


@router.get("/{memory}", summary="One translation memory", responses=errors(404))
async def get(memory: Reference, service: Service, account: Caller) -> MemoryOut:
    """A memory without its entries."""
    store = service.memories.store
    return MemoryOut.of(store, await store.get(account.id, memory), account)


@router.patch("/{memory}", summary="Rename or share a translation memory", responses=errors(403, 404, 409, 413, 422))
async def change_memory(memory: Reference, body: ChangeBody, service: Service, account: Caller) -> MemoryOut:
    """Its id and its entries stay."""
    memories = service.memories
    changed = await memories.changed(change(memories.store, account, memory, body))
    return MemoryOut.of(memories.store, changed, account)


@router.delete("/{memory}", summary="Delete a translation memory", status_code=204, responses=errors(403, 404))
async def delete(memory: Reference, service: Service, account: Caller) -> Response:
    """With all its entries: one's own by its id or name, a shared one by its id."""
    memories = service.memories
    stored = await deletable(memories.store, account, memory)
    await memories.changed(memories.store.delete(stored.account_id, stored.id))
    return Response(status_code=204)


@router.get(
    "/{memory}/export",
    summary="Export a TMX file",
    response_class=Response,
    responses={200: {"content": {tmx.MEDIA_TYPE: {"schema": openapi.TEXT}}}, **errors(404)},
)
async def export(memory: Reference, service: Service, account: Caller) -> Response:
    """TMX 1.4 with all entries; marks are `bpt`, `ept` and `ph`."""
    return await tmx_response(service, account.id, memory)


async def tmx_response(service: TranslationService, account_id: str, reference: str) -> Response:
    """A memory as a file. Raises `UnknownMemory`."""
    stored = await service.memories.store.get(account_id, reference)
    content: AsyncGenerator[bytes] = service.memories.export(account_id, stored.id)
    return StreamingResponse(content, headers=file_headers(f"{stored.name}.tmx", tmx.MEDIA_TYPE))


@router.get("/{memory}/entries", summary="The entries of a translation memory", responses=errors(404, 422))
async def list_entries(
    memory: Reference,
    service: Service,
    account: Caller,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
    cursor: Annotated[str | None, Query(description="Of the page before; absent: the first page.")] = None,
    find: Annotated[str, Query(max_length=1_000, description="Only entries with this in text or translation.")] = "",
    source: Annotated[str | None, Query(description="With `target`: only entries of this direction.")] = None,
    target: Annotated[str | None, Query()] = None,
) -> MemoryEntriesAnswer:
    """In an order that stays."""
    pair = (languages.normalise(source), languages.normalise(target)) if source and target else None
    page = await service.memories.store.page(account.id, memory, limit, cursor, find=find, pair=pair)
    return MemoryEntriesAnswer(entries=[*map(EntryOut.of, page.entries)], cursor=page.cursor)


@router.post("/{memory}/entries", summary="Add entries to a translation memory", responses=errors(403, 404, 413, 422))
async def add_entries(memory: Reference, body: MemoryEntriesBody, service: Service, account: Caller) -> MemoryOut:
    """A text that has a translation in this direction gets the new one."""
    memories = service.memories
    stored = await changeable(memories.store, account, memory)
    owner, entries = stored.account_id, _texts(body.entries)
    id = await memories.add_texts(owner, stored.id, body.source, body.target, entries)
    return MemoryOut.of(memories.store, await memories.store.get(owner, id), account)


def _texts(entries: object) -> Iterator[tuple[str, str]]:
    """The texts of a body's entries with their translations. Raises `RequestValidationError` for the first that is none."""
    if not isinstance(entries, list):
        raise RequestValidationError([{"type": "list_type", "loc": ("body", "entries"), "msg": "it is not a list"}])
    for place, entry in enumerate(cast(list[object], entries)):
        try:
            one = EntryBody.model_validate(entry)
        except ValidationError as fault:
            errors = fault.errors(include_url=False)
            raise RequestValidationError(
                [{**error, "loc": ("body", "entries", place, *error["loc"])} for error in errors[:1]]
            ) from None
        yield one.text, one.translation


@router.delete("/{memory}/entries/{entry}", summary="Delete an entry", status_code=204, responses=errors(403, 404))
async def delete_entry(
    memory: Reference, entry: Annotated[str, Path(description="The entry's id.")], service: Service, account: Caller
) -> Response:
    """The memory stays, also without entries."""
    memories = service.memories
    stored = await changeable(memories.store, account, memory)
    await memories.changed(memories.store.remove(stored.account_id, stored.id, entry))
    return Response(status_code=204)
