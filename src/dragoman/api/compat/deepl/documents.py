"""DeepL's documents: `POST /v2/document`, its status and its result, on the jobs of the native API.

A client shows a document's id and key with each call, besides the account's own key. What cannot be settled before the file has
been read is an error of the job; clients poll until its status is `done` or `error`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from secrets import token_hex
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import Response

from dragoman.api.answers import OpenFileResponse, file_headers
from dragoman.api.compat.deepl.calls import MISSING, DeepLCall, answer, direction_of, trace_header
from dragoman.api.compat.deepl.translate import check_ignored, formality_of, glossary_of, memory_of
from dragoman.api.compat.exchange import Call, receive_upload
from dragoman.api.input import Service
from dragoman.service.document_runs import DocumentOptions
from dragoman.types import Options

if TYPE_CHECKING:
    from dragoman.storage.documents import StoredDocument

router = APIRouter()


@router.post("/v2/document")
async def upload(http: Request, service: Service) -> Response:
    """Translate a document: a form, the file before or after the fields. The answer has the id and the key
    that the other routes need."""
    documents = service.documents
    with documents.upload() as path:
        call, name = await receive_upload(http, service, path, "auth_key", missing=MISSING)
        name = call.fields.text("filename") or name
        key = token_hex(32).upper()
        options = await _options(call)
        document = await documents.create(path, name, options, call.account, "deepl", secret=key)
    return answer({"document_id": document.id, "document_key": key})


async def _options(call: Call) -> DocumentOptions:
    fields = call.fields
    source, target = direction_of(call)
    check_ignored(fields)
    entries: Mapping[str, str] = {}
    if "glossary_id" in fields or "glossary_ids" in fields:
        entries, _ = await glossary_of(call, source, target)
    glossary = fields.text("glossary_id")
    formality = formality_of(call, source, target) if "formality" in fields else "default"
    memory, threshold = memory_of(fields)
    return DocumentOptions(
        target,
        source,
        Options(glossary={} if glossary else entries, formality=formality, memory_similarity=threshold),
        output=fields.text("output_format"),
        glossary=glossary,
        memory=memory,
    )


async def _document(call: Call, document_id: str) -> StoredDocument:
    """The document of an id and its key. Raises `UnknownDocument`."""
    key = call.fields.required("document_key")
    return await call.service.documents.get(document_id, call.account, key)


@router.post("/v2/document/{document_id}")
async def status(document_id: str, call: DeepLCall) -> Response:
    """A document's status: `queued`, `translating`, `done` or `error`."""
    document = await _document(call, document_id)
    found: dict[str, object] = {"document_id": document.id, "status": document.state}
    if document.state == "translating" and document.seconds_remaining is not None:
        found["seconds_remaining"] = math.ceil(document.seconds_remaining)
    if document.state == "done":
        found |= {"seconds_remaining": 0, "billed_characters": document.characters}
    if document.state == "error":
        found |= dict.fromkeys(("error_message", "message"), document.error_message)
    return answer(found)


@router.post("/v2/document/{document_id}/result")
async def result(document_id: str, call: DeepLCall) -> Response:
    """A document's translation; 503 while it is translated. It is deleted some minutes after the first download."""
    file = await call.service.documents.contents.result(await _document(call, document_id))
    return OpenFileResponse(file.file, file_headers(file.name, file.media_type) | trace_header())
