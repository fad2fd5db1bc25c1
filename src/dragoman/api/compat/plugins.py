"""The custom APIs of browser plug-ins: DeepLX's, Immersive Translate's and KISS Translator's, and with it MTranServer's.

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
from dragoman.api.answers import json_items
from dragoman.api.compat.exchange import Call, Fields, caller, regional_code
from dragoman.api.errors import ErrorFormat, foreign_format, native_format
from dragoman.errors import EmptyText
from dragoman.service.alternatives import MAX_ALTERNATIVES
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
    render: Callable[[list[Translation]], Awaitable[object]],
    *,
    source: str = "source_lang",
    target: str = "target_lang",
    format: TextFormat | None = None,
    alternatives: int = 0,
) -> Response:
    """Answer with what `render` makes of the translations of a plug-in's texts; `texts`, `source` and `target` are the
    fields' names.

    Texts with the plug-ins' tags are HTML: the tags are put where the translation has their words.
    """
    given = call.fields.texts(texts)
    tagged = any(_NUMBERED_TAG.search(text) for text in ([given] if isinstance(given, str) else given))
    source_tag = None if call.fields.text(source).lower() in ("", "auto") else call.tag(source)
    format = format or ("html" if tagged else "text")
    return await call.translate(api, texts, call.tag(target), source_tag, format, render, alternatives=alternatives)


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
_DEEPLX = {
    "text": _TEXT_EXAMPLE,
    **_LANGUAGES,
    "tag_handling": openapi.choice("html", "xml"),
    "alternatives": {
        **openapi.INTEGER,
        "minimum": 0,
        "description": f"This server's own: at most {MAX_ALTERNATIVES} come.",
    },
}
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
_KISS = {
    "text": _TEXT_EXAMPLE,
    "texts": {**openapi.TEXTS, "minItems": 1},
    "from": _SOURCE,
    "to": _TARGET,
    "html": openapi.FLAG,
}
_KISS_ITEM = openapi.object_of({"text": openapi.TEXT, "src": openapi.TEXT, "result": openapi.TEXT}, "result")
_KISS_ANSWER = {"anyOf": [_KISS_ITEM, openapi.array(_KISS_ITEM)]}
_BATCH_ANSWER = openapi.object_of({"results": openapi.TEXTS})


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

    async def render(translations: list[Translation]) -> object:
        [one] = translations
        return {
            "code": 200,
            "id": randbelow(10**10),
            "data": one.text,
            "alternatives": [found.text for found in one.alternatives],
            "source_lang": "" if one.source == "und" else languages.primary(one.source).upper(),
            "target_lang": fields.text("target_lang"),
            "method": "Free",
        }

    return await _translate(call, "deeplx", "text", render, format=tags, alternatives=fields.alternatives())


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

    async def render(translations: list[Translation]) -> object:
        items = ({"detected_source_lang": _detected(one), "text": one.text} for one in translations)
        return {"translations": await json_items(call.service, items)}

    return await _translate(call, "immersive", "text_list", render)


# ---- KISS Translator and MTranServer


@router.post(
    "/kiss/translate",
    **_described("KISS Translator: translate a text or several", _KISS, ("to",), _KISS_ANSWER, _NATIVE_ERROR),
)
async def kiss(call: PlugInCall) -> Response:
    """KISS Translator's custom API: a text is answered with one object, several with a list.

    The object has `result` besides, which clients of MTranServer read, whose `POST /translate` has the same fields.
    """
    name = "texts" if "texts" in call.fields else "text"
    is_list = isinstance(call.fields.texts(name), list)

    async def render(translations: list[Translation]) -> object:
        if not is_list:
            [one] = translations
            return {"text": one.text, "src": _detected(one), "result": one.text}
        return await json_items(call.service, ({"text": one.text, "src": _detected(one)} for one in translations))

    return await _translate(call, "kiss", name, render, source="from", target="to", format=_format(call))


def _format(call: Call) -> TextFormat | None:
    """HTML where MTranServer's parameter says so."""
    return "html" if call.fields.flag("html") else None


@router.post(
    "/translate/batch",
    **_described(
        "MTranServer: translate several texts",
        _KISS,
        ("texts", "to"),
        _BATCH_ANSWER,
        openapi.object_of({"error": openapi.TEXT}),
    ),
)
async def mtranserver_batch(call: PlugInCall) -> Response:
    """MTranServer's API for several texts; its errors have LibreTranslate's form, whose path this is below."""

    async def render(translations: list[Translation]) -> object:
        return {"results": await json_items(call.service, (one.text for one in translations))}

    return await _translate(call, "kiss", "texts", render, source="from", target="to", format=_format(call))
