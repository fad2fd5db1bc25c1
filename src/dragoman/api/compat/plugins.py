"""The custom APIs of browser plug-ins: DeepLX's, Immersive Translate's and KISS Translator's.

Each has a path of its own, and is recognised by its fields where it is sent to LibreTranslate's `/translate`. Their clients
can often set nothing but an address: a key may stand in the query, as `key`, `api_key` or `token`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from secrets import randbelow
from typing import cast

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from dragoman import languages
from dragoman.api.access import Service, account_of
from dragoman.api.compat import openapi
from dragoman.api.compat.exchange import Fields, json_array, regional_code, served_tag, translated
from dragoman.api.errors import ErrorFormat, Fault, native_format
from dragoman.api.input import check_texts
from dragoman.errors import EmptyText, InvalidRequest
from dragoman.service.service import TranslationService
from dragoman.types import ApiName, TextFormat, Translation

router = APIRouter(tags=["plug-ins"])

PlugIn = Callable[[Request, TranslationService, Fields], Awaitable[Response]]

KEY_NAMES = ("token", "api_key", "key")
_NUMBERED_TAG = re.compile(r"</?[a-z]{1,8}(?:\d{1,5}| i=\d{1,5})\s?/?>", re.IGNORECASE)
"""What the plug-ins put for elements of a page: `<b0></b0>`, `<i1>text</i1>`, `<a i=1>text</a>`."""


def deeplx_format(fault: Fault) -> Response:
    """DeepLX's: the status in the body, too."""
    status = 400 if fault.status == 422 else 429 if fault.code == "quota_exceeded" else fault.status
    return JSONResponse({"code": status, "message": fault.message}, status, fault.headers)


ERROR_FORMATS: dict[str, ErrorFormat] = {"/deeplx/translate": deeplx_format}

# ---- OpenAPI

_TEXT_EXAMPLE = openapi.example(openapi.TEXT, "Where is the train station?")
_SOURCE, _TARGET = openapi.example(openapi.TEXT, "en"), openapi.example(openapi.TEXT, "ja")
_NATIVE_ERROR = openapi.object_of(
    {"error": openapi.object_of({"code": openapi.TEXT, "message": openapi.TEXT, "param": openapi.TEXT}, "param")}
)
_DEEPLX_ERROR = openapi.object_of({"code": openapi.INTEGER, "message": openapi.TEXT})
_REFUSED = (401, 403, 413, 429, 504)
_DEEPLX = {
    "text": _TEXT_EXAMPLE,
    "source_lang": _SOURCE,
    "target_lang": _TARGET,
    "tag_handling": {**openapi.TEXT, "enum": ["html", "xml"]},
}
_DEEPLX_ANSWER = openapi.object_of(
    {
        "code": {"const": 200},
        "id": openapi.INTEGER,
        "data": openapi.TEXT,
        "alternatives": openapi.array(openapi.TEXT),
        "source_lang": openapi.TEXT,
        "target_lang": openapi.TEXT,
        "method": openapi.TEXT,
    }
)
_IMMERSIVE = {
    "text_list": {**openapi.array(_TEXT_EXAMPLE), "minItems": 1},
    "source_lang": _SOURCE,
    "target_lang": _TARGET,
}
_IMMERSIVE_ANSWER = openapi.object_of(
    {"translations": openapi.array(openapi.object_of({"detected_source_lang": openapi.TEXT, "text": openapi.TEXT}))}
)
_KISS = {
    "text": _TEXT_EXAMPLE,
    "texts": {**openapi.array(openapi.TEXT), "minItems": 1},
    "from": _SOURCE,
    "to": _TARGET,
}
_KISS_ITEM = openapi.object_of({"text": openapi.TEXT, "src": openapi.TEXT})
_KISS_ANSWER = {"anyOf": [_KISS_ITEM, openapi.array(_KISS_ITEM)]}


def recognised(fields: Fields) -> PlugIn | None:
    """The plug-in whose request has these fields; None: LibreTranslate's, which has `q`."""
    if "q" in fields:
        return None
    if "text_list" in fields:
        return immersive
    if "texts" in fields or ("text" in fields and "to" in fields):
        return kiss
    return deeplx if "text" in fields else None


def _source(service: TranslationService, fields: Fields, name: str) -> str | None:
    code = fields.text(name)
    return None if code.lower() in ("", "auto") else served_tag(service, code, name)


def _format(texts: tuple[str, ...]) -> TextFormat:
    """Texts with the plug-ins' tags are HTML: the tags are put where the translation has their words."""
    return "html" if any(_NUMBERED_TAG.search(text) for text in texts) else "text"


async def _translated(
    http: Request,
    service: TranslationService,
    fields: Fields,
    api: ApiName,
    texts_name: str,
    *,
    source: str,
    target: str,
    format: TextFormat | None = None,
) -> list[Translation]:
    """The translations of a plug-in's texts; `source` and `target` are the fields' names."""
    account = await account_of(http, service, fields.first(*KEY_NAMES))
    if texts_name not in fields:
        raise InvalidRequest(f"{texts_name} is missing", param=texts_name)
    texts = await check_texts(service, fields.texts(texts_name), texts_name, allow_empty=True)
    return await translated(
        http,
        service,
        account,
        api,
        texts,
        target=served_tag(service, fields.text(target), target),
        source=_source(service, fields, source),
        format=format or _format(texts),
    )


def _json(body: str) -> Response:
    return Response(body.encode(), media_type="application/json")


# ---- DeepLX


def _capitals(tag: str) -> str:
    return languages.primary(tag).upper()


async def deeplx(http: Request, service: TranslationService, fields: Fields) -> Response:
    """`text`, `source_lang`, `target_lang`, `tag_handling`: one text, answered in `data`."""
    http.state.error_format = deeplx_format
    if not fields.text("text", most=None):
        raise EmptyText("No text to translate", param="text")
    tags = fields.text("tag_handling")
    if tags not in ("", "html", "xml"):
        message = "Invalid tag_handling value. Allowed values are 'html' and 'xml'."
        raise InvalidRequest(message, param="tag_handling")
    [one] = await _translated(
        http,
        service,
        fields,
        "deeplx",
        "text",
        source="source_lang",
        target="target_lang",
        format=cast(TextFormat, tags) or None,
    )
    answer: dict[str, object] = {
        "code": 200,
        "id": randbelow(10**10),
        "data": one.text,
        "alternatives": [],
        "source_lang": "" if one.source == "und" else _capitals(one.source),
        "target_lang": fields.text("target_lang"),
        "method": "Free",
    }
    return JSONResponse(answer)


@router.post(
    "/deeplx/translate",
    summary="DeepLX: translate a text",
    openapi_extra=openapi.body(_DEEPLX, "text", "target_lang"),
    responses=openapi.answers(_DEEPLX_ANSWER, _DEEPLX_ERROR, *_REFUSED),
    response_class=Response,
)
async def translate_deeplx(http: Request, service: Service) -> Response:
    """DeepLX's `POST /translate`, where nothing else is."""
    return await deeplx(http, service, await Fields.read(http, service, *KEY_NAMES))


# ---- Immersive Translate


async def immersive(http: Request, service: TranslationService, fields: Fields) -> Response:
    """`text_list`, `source_lang`, `target_lang`: texts, answered in `translations`."""
    http.state.error_format = native_format
    translations = await _translated(
        http, service, fields, "immersive", "text_list", source="source_lang", target="target_lang"
    )
    items = ({"detected_source_lang": _detected(one), "text": one.text} for one in translations)
    return _json(f'{{"translations":{await json_array(service, items)}}}')


@router.post(
    "/immersive/translate",
    summary="Immersive Translate: translate texts",
    openapi_extra=openapi.body(_IMMERSIVE, "text_list", "target_lang"),
    responses=openapi.answers(_IMMERSIVE_ANSWER, _NATIVE_ERROR, *_REFUSED),
    response_class=Response,
)
async def translate_immersive(http: Request, service: Service) -> Response:
    """Immersive Translate's custom API."""
    return await immersive(http, service, await Fields.read(http, service, *KEY_NAMES))


# ---- KISS Translator


async def kiss(http: Request, service: TranslationService, fields: Fields) -> Response:
    """`text` or `texts`, `from`, `to`: answered with one object, or with a list of them."""
    http.state.error_format = native_format
    name = "texts" if "texts" in fields else "text"
    translations = await _translated(http, service, fields, "kiss", name, source="from", target="to")
    answer = await json_array(service, ({"text": one.text, "src": _detected(one)} for one in translations))
    return _json(answer if isinstance(fields.texts(name), list) else answer[1:-1])


@router.post(
    "/kiss/translate",
    summary="KISS Translator: translate a text or several",
    openapi_extra=openapi.body(_KISS, "to"),
    responses=openapi.answers(_KISS_ANSWER, _NATIVE_ERROR, *_REFUSED),
    response_class=Response,
)
async def translate_kiss(http: Request, service: Service) -> Response:
    """KISS Translator's custom API, a single text and a batch."""
    return await kiss(http, service, await Fields.read(http, service, *KEY_NAMES))


def _detected(one: Translation) -> str:
    return "auto" if one.source == "und" else regional_code(one.source)
