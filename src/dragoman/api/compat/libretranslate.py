"""LibreTranslate's API, at the server's root: `/translate`, `/translate_file`, `/detect`, `/languages`,
`/frontend/settings`, `/spec`, `/health`, `/suggest`. Its `POST /translate` is shared with the plug-ins': see
`plugins.recognised`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from functools import lru_cache
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any, cast
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response

from dragoman import __version__, languages
from dragoman.api.answers import HeartbeatResponse, JsonResponse, OpenFileResponse, file_headers, json_bytes, json_items
from dragoman.api.compat import RETRY_GRACE_S, plugins
from dragoman.api.compat.exchange import (
    Call,
    Fields,
    authenticated,
    caller,
    read_fields,
    receive_upload,
    scripted_code,
    served_tag,
)
from dragoman.api.errors import ErrorFormat, Fault, foreign_format
from dragoman.api.input import Service, base_url
from dragoman.errors import DragomanError, Forbidden, UnknownDocument
from dragoman.service.document_runs import DocumentOptions
from dragoman.service.memories import SUGGESTIONS
from dragoman.types import Detection, Event, Planned, TextFormat, Translation
from wholetext.files.formats import all_formats

router, suggestions = APIRouter(), APIRouter()

FRONTEND_TIMEOUT_MS = 500
_SPECIFICATION = Path(__file__).with_name("libretranslate.json")
_CODES = {"pb": "pt-BR", "zh": "zh-Hans", "zt": "zh-Hant"}
"""Codes of LibreTranslate's own, and their long forms."""
_DOWNLOAD = re.compile(r"([0-9A-F]{32})-([0-9a-f]{32})\.")
"""The id of a document and what gives access to it, before the file's name."""
_LANGUAGE_RANGE = re.compile(r"([A-Za-z][A-Za-z0-9-]*)(?:\s*;\s*q=([01](?:\.\d{0,3})?))?\s*(?:,|$)")
"""A tag in an Accept-Language header, and its weight."""

_STATUSES = {
    "unauthenticated": 400,
    "invalid_key": 403,
    "quota_exceeded": 429,
    "too_many_texts": 400,
    "body_too_large": 400,
}


_SENTENCES = {
    "unauthenticated": "Please contact the server operator to get an API key",
    "invalid_key": "Invalid API key",
}
"""By which clients recognise LibreTranslate's refusals."""


def _error(status: int, fault: Fault) -> dict[str, str]:
    message = _SENTENCES.get(fault.code, fault.message)
    return {"error": f"Slowdown: {message}" if status == 429 else message}


error_format = foreign_format(_STATUSES, _error)
"""One sentence. A missing key is 400, a wrong one 403, a used-up quota 429."""
ERROR_FORMATS: dict[str, ErrorFormat] = dict.fromkeys(
    ("/translate", "/download_file", "/detect", "/languages", "/frontend/settings", "/spec", "/health", "/suggest"),
    error_format,
)


_MISSING = "Invalid request: missing {} parameter"


LibreTranslateCall = Annotated[Call, caller("api_key", missing=_MISSING)]


def _tag(call: Call, name: str) -> str:
    code = call.fields.required(name)
    return served_tag(call.service, _CODES.get(code.lower(), code), name)


@router.post("/translate")
async def translate(http: Request, service: Service) -> Response:
    """Translate texts: a string is answered with a string, an array with arrays."""
    fields = await read_fields(http, service, *plugins.KEY_NAMES, missing=_MISSING)
    if plugin := plugins.recognised(fields):
        answer_plugin, http.state.error_format = plugin
        return await answer_plugin(await authenticated(http, service, fields, *plugins.KEY_NAMES))
    call = await authenticated(http, service, fields, "api_key")
    given = _texts(fields)
    auto = fields.required("source").lower() == "auto"
    source = None if auto else _tag(call, "source")
    target = _tag(call, "target")
    alternatives = fields.alternatives()
    form = cast(TextFormat, fields.choice("format", "text", "html", default="text"))

    async def render(translations: list[Translation]) -> object:
        answer: dict[str, list[Any]] = {"translatedText": await json_items(service, (one.text for one in translations))}
        if auto:
            answer["detectedLanguage"] = await json_items(service, map(_detected, translations))
        if alternatives:
            others = ([found.text for found in one.alternatives] for one in translations)
            answer["alternatives"] = await json_items(service, others)
        return answer if isinstance(given, list) else {name: value[0] for name, value in answer.items()}

    return await call.translate("libretranslate", "q", target, source, form, render, alternatives=alternatives)


def _texts(fields: Fields) -> str | list[str]:
    """The texts of `q`, which must not be empty."""
    if not (texts := fields.texts("q")):
        raise fields.absent("q")
    return texts


def _detected(one: Translation) -> dict[str, object]:
    served = None if one.source == "und" else one.source
    return _language(Detection(served, one.detection_confidence))


def _language(one: Detection) -> dict[str, object]:
    """What has no language is English with confidence 0, as LibreTranslate says."""
    if one.language is None:
        return {"confidence": 0.0, "language": "en"}
    return {"confidence": round(100 * one.confidence, 1), "language": scripted_code(one.language)}


# ---- files


@router.post("/translate_file")
async def translate_file(http: Request, service: Service) -> Response:
    """Translate a file. The answer comes when it is translated; what fails after white space was sent is an error with
    status 200. Whoever has its URL has the file."""
    if not service.translates_documents:
        raise Forbidden("Files translation are disabled on this server.")
    documents = service.documents
    secret = token_hex(16)
    with documents.upload() as path:
        call, name = await receive_upload(http, service, path, "api_key", missing=_MISSING)
        auto = call.fields.required("source").lower() == "auto"
        options = DocumentOptions(_tag(call, "target"), None if auto else _tag(call, "source"))
        document = await documents.create(path, name, options, call.account, "libretranslate", secret=secret)
    url = ""

    async def work() -> AsyncGenerator[Event]:
        nonlocal url
        yield Planned()
        try:
            file = await documents.contents.result(await documents.wait(document))
            file.file.close()
        except asyncio.CancelledError:  # the client has gone
            await documents.delete(document)
            raise
        url = f"{base_url(http)}/download_file/{document.id}-{secret}.{quote(file.name)}"

    async def render(_: list[Translation]) -> bytes:
        return json_bytes({"translatedFileUrl": url})

    def late_error(error: DragomanError) -> bytes:
        return json_bytes({"error": error.message})

    heartbeat = service.settings.server.heartbeat == "all"
    return HeartbeatResponse(work(), render, grace_s=RETRY_GRACE_S, heartbeat=heartbeat, late_error=late_error)


@router.get("/download_file/{name}")
@router.head("/download_file/{name}")
async def download_file(name: str, service: Service) -> Response:
    """The file that `/translate_file` has named."""
    found = _DOWNLOAD.match(name)
    if found is None:
        raise UnknownDocument("there is no such file; it may have expired")
    documents = service.documents
    file = await documents.contents.result(await documents.get(found[1], secret=found[2]))
    return OpenFileResponse(file.file, file_headers(file.name, file.media_type))


@router.post("/detect")
async def detect(call: LibreTranslateCall) -> Response:
    """The language of a text; of several, each language with its average confidence, the most of the text first."""
    _texts(call.fields)
    texts = await call.texts("q")
    weights: dict[str | None, float] = {}
    confidences: dict[str | None, list[float]] = {}
    for text, one in zip(texts, await call.detect(texts), strict=True):
        weights[one.language] = weights.get(one.language, 0.0) + one.confidence * len(text)
        confidences.setdefault(one.language, []).append(one.confidence)
    ranked = sorted(confidences, key=lambda language: -weights[language])
    averages = [Detection(language, sum(confidences[language]) / len(confidences[language])) for language in ranked]
    known = [one for one in averages if one.language is not None]
    return JsonResponse([_language(one) for one in known or averages])


@router.post("/languages")
@router.get("/languages")
async def list_languages(service: Service) -> Response:
    """The languages that the model serves. POST, because libretranslatepy 2.1.1 sends it."""
    profile = service.model.profile
    return JsonResponse(
        [
            {
                "code": scripted_code(tag),
                "name": languages.name(tag),
                "targets": [scripted_code(to) for to in profile.languages if to == tag or profile.serves(tag, to)],
            }
            for tag in profile.languages
        ]
    )


@suggestions.post("/suggest")
async def suggest(call: LibreTranslateCall) -> Response:
    """A text's translation for the key's translation memory `suggestions`, where the operator allows it."""
    if not call.service.takes_suggestions:
        raise Forbidden("Suggestions are disabled on this server.")
    texts = [call.fields.required(name, most=call.service.settings.server.max_text_characters) for name in ("q", "s")]
    source, target = _tag(call, "source"), _tag(call, "target")
    await call.service.memories.add_texts(
        call.account.id, SUGGESTIONS, source, target, [(texts[0], texts[1])], has_marks=False, create=True
    )
    return JsonResponse({"success": True})


def _preferred(accept_language: str, served: tuple[str, ...]) -> str | None:
    """The served language that comes first in an Accept-Language header (RFC 9110, 12.5.4); None if none does."""
    ranges = _LANGUAGE_RANGE.findall(accept_language[:1_000])
    for tag, weight in sorted(ranges, key=lambda one: -float(one[1] or 1)):
        if float(weight or 1) and languages.find(tag) and (found := languages.match(tag, served)):
            return found
    return None


@router.get("/frontend/settings")
async def frontend_settings(http: Request, service: Service) -> Response:
    """What LibreTranslate's front ends ask first. The target is the language that the browser prefers."""
    served = tuple(service.model.profile.languages)
    target = _preferred(http.headers.get("accept-language", ""), served) or languages.match("en", served) or served[0]
    return JsonResponse(
        {
            "charLimit": service.settings.server.max_text_characters,
            "frontendTimeout": FRONTEND_TIMEOUT_MS,
            "apiKeys": service.accounts.required,
            "keyRequired": service.accounts.required,
            "suggestions": service.takes_suggestions,
            "filesTranslation": service.translates_documents,
            "supportedFilesFormat": [
                f".{extension}"
                for one in (all_formats() if service.translates_documents else ())
                for extension in one.extensions
            ],
            "language": {
                "source": {"code": "auto", "name": "Auto Detect"},
                "target": {"code": scripted_code(target), "name": languages.name(target)},
            },
        }
    )


@router.get("/spec")
async def spec(service: Service) -> Response:
    """Clients recognise by its title that a server speaks LibreTranslate's API."""
    root_path = service.settings.server.root_path.strip("/")
    return Response(_specification(root_path), media_type="application/json")


@lru_cache(maxsize=1)
def _specification(root_path: str) -> bytes:
    """This API in OpenAPI, with this server's version and the path that it is served under."""
    described = json.loads(_SPECIFICATION.read_bytes())
    described["info"]["version"] = __version__
    described["servers"] = [{"url": f"/{root_path}"}]
    return json_bytes(described)


@router.get("/health")
async def health() -> Response:
    """The process is running; `/readyz` says whether it would translate."""
    return JsonResponse({"status": "ok"})
