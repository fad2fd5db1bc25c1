"""The custom APIs of browser plug-ins: DeepLX's, Immersive Translate's and KISS Translator's.

Each has a path of its own, and is recognised by its fields where it is sent to LibreTranslate's `/translate`. Their clients
can often set nothing but an address: a key may stand in the query, as `key`, `api_key` or `token`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from secrets import randbelow
from typing import Annotated, Any, cast

from fastapi import APIRouter
from fastapi.responses import Response

from dragoman import languages
from dragoman.api import openapi
from dragoman.api.answers import JsonResponse, json_items
from dragoman.api.compat.exchange import Call, Fields, caller, regional_code
from dragoman.api.errors import ErrorFormat, foreign_format, native_format
from dragoman.errors import EmptyText
from dragoman.types import ApiName, TextFormat, Translation

router = APIRouter(tags=["plug-ins"], default_response_class=Response)

KEY_NAMES = ("token", "api_key", "key")
_NUMBERED_TAG = re.compile(r"</?[a-z]{1,8}(?:\d{1,5}| i=\d{1,5})\s?/?>", re.IGNORECASE)
"""What the plug-ins put for elements of a page: `<b0></b0>`, `<i1>text</i1>`, `<a i=1>text</a>`."""

PlugInCall = Annotated[Call, caller(*KEY_NAMES)]

_deeplx_format = foreign_format(
    {"quota_exceeded": 429}, lambda status, fault: {"code": status, "message": fault.message}
)
ERROR_FORMATS: dict[str, ErrorFormat] = {"/deeplx/translate": _deeplx_format}


def recognised(fields: Fields) -> tuple[Callable[[Call], Awaitable[Response]], ErrorFormat] | None:
    """What answers the plug-in whose request has these fields, and its errors; None: LibreTranslate's, which has `q`."""
    if "q" in fields:
        return None
    if "text_list" in fields:
        return immersive, native_format
    if "texts" in fields or ("text" in fields and "to" in fields):
        return kiss, native_format
    return (deeplx, _deeplx_format) if "text" in fields else None


async def _translate(
    call: Call,
    api: ApiName,
    texts: str,
    *,
    source: str = "source_lang",
    target: str = "target_lang",
    format: TextFormat | None = None,
) -> list[Translation]:
    """The translations of a plug-in's texts; `texts`, `source` and `target` are the fields' names.

    Texts with the plug-ins' tags are HTML: the tags are put where the translation has their words.
    """
    given = call.fields.texts(texts)
    tagged = any(_NUMBERED_TAG.search(text) for text in ([given] if isinstance(given, str) else given))
    source_tag = None if call.fields.text(source).lower() in ("", "auto") else call.tag(source)
    return await call.translate(api, texts, call.tag(target), source_tag, format or ("html" if tagged else "text"))


def _detected(one: Translation) -> str:
    return "auto" if one.source == "und" else regional_code(one.source)


# ---- OpenAPI

_TEXT_EXAMPLE = openapi.example(openapi.TEXT, "Where is the train station?")
_SOURCE, _TARGET = openapi.example(openapi.TEXT, "en"), openapi.example(openapi.TEXT, "ja")
_NATIVE_ERROR = openapi.object_of(
    {"error": openapi.object_of({"code": openapi.TEXT, "message": openapi.TEXT, "param": openapi.TEXT}, "param")}
)
_DEEPLX_ERROR = openapi.object_of({"code": openapi.INTEGER, "message": openapi.TEXT})
_LANGUAGES = {"source_lang": _SOURCE, "target_lang": _TARGET}
_DEEPLX = {"text": _TEXT_EXAMPLE, **_LANGUAGES, "tag_handling": openapi.choice("html", "xml")}
_DEEPLX_ANSWER = openapi.object_of(
    {
        "code": {"const": 200},
        "id": openapi.INTEGER,
        "data": openapi.TEXT,
        "alternatives": openapi.TEXTS,
        "source_lang": openapi.TEXT,
        "target_lang": openapi.TEXT,
        "method": openapi.TEXT,
    }
)
_IMMERSIVE = {"text_list": {**openapi.array(_TEXT_EXAMPLE), "minItems": 1}, **_LANGUAGES}
_IMMERSIVE_ITEM = openapi.object_of({"detected_source_lang": openapi.TEXT, "text": openapi.TEXT})
_IMMERSIVE_ANSWER = openapi.object_of({"translations": openapi.array(_IMMERSIVE_ITEM)})
_KISS = {"text": _TEXT_EXAMPLE, "texts": {**openapi.TEXTS, "minItems": 1}, "from": _SOURCE, "to": _TARGET}
_KISS_ITEM = openapi.object_of({"text": openapi.TEXT, "src": openapi.TEXT})
_KISS_ANSWER = {"anyOf": [_KISS_ITEM, openapi.array(_KISS_ITEM)]}


def _described(
    summary: str, properties: dict[str, Any], required: tuple[str, str] | tuple[str], ok: Any, error: Any
) -> dict[str, Any]:
    return {
        "summary": summary,
        "openapi_extra": openapi.body(properties, *required),
        "responses": openapi.answers(ok, error, 401, 403, 413, 429, 504),
    }


# ---- DeepLX


@router.post(
    "/deeplx/translate",
    **_described("DeepLX: translate a text", _DEEPLX, ("text", "target_lang"), _DEEPLX_ANSWER, _DEEPLX_ERROR),
)
async def deeplx(call: PlugInCall) -> Response:
    """DeepLX's `POST /translate`, where nothing else is."""
    fields = call.fields
    if not fields.text("text", most=None):
        raise EmptyText("No text to translate", param="text")
    tags = cast(TextFormat, fields.choice("tag_handling", "html", "xml")) or None
    [one] = await _translate(call, "deeplx", "text", format=tags)
    return JsonResponse(
        {
            "code": 200,
            "id": randbelow(10**10),
            "data": one.text,
            "alternatives": [],
            "source_lang": "" if one.source == "und" else languages.primary(one.source).upper(),
            "target_lang": fields.text("target_lang"),
            "method": "Free",
        }
    )


# ---- Immersive Translate


@router.post(
    "/immersive/translate",
    **_described(
        "Immersive Translate: translate texts",
        _IMMERSIVE,
        ("text_list", "target_lang"),
        _IMMERSIVE_ANSWER,
        _NATIVE_ERROR,
    ),
)
async def immersive(call: PlugInCall) -> Response:
    """Immersive Translate's custom API."""
    translations = await _translate(call, "immersive", "text_list")
    items = ({"detected_source_lang": _detected(one), "text": one.text} for one in translations)
    return JsonResponse({"translations": await json_items(call.service, items)})


# ---- KISS Translator


@router.post(
    "/kiss/translate",
    **_described("KISS Translator: translate a text or several", _KISS, ("to",), _KISS_ANSWER, _NATIVE_ERROR),
)
async def kiss(call: PlugInCall) -> Response:
    """KISS Translator's custom API: a text is answered with one object, several with a list."""
    name = "texts" if "texts" in call.fields else "text"
    translations = await _translate(call, "kiss", name, source="from", target="to")
    items = await json_items(call.service, ({"text": one.text, "src": _detected(one)} for one in translations))
    return JsonResponse(items if isinstance(call.fields.texts(name), list) else items[0])
