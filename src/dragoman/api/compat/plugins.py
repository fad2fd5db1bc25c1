"""The custom APIs of browser plug-ins: DeepLX's, Immersive Translate's and KISS Translator's, with it MTranServer's, and
XUnity.AutoTranslator's.

Each has a path of its own, a short one (MTranServer's), and is recognised by its fields where it is sent to LibreTranslate's
`/translate`. Their clients can often set nothing but an address: a key may stand in the query, as `key`, `api_key` or `token`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from secrets import randbelow
from typing import Annotated, cast

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from dragoman import languages
from dragoman.api.answers import json_items, while_connected
from dragoman.api.compat import RETRY_GRACE_S
from dragoman.api.compat.exchange import Call, Fields, caller, regional_code
from dragoman.api.errors import ErrorFormat, foreign_format, native_format
from dragoman.api.input import call_of
from dragoman.errors import EmptyText, Forbidden
from dragoman.types import ApiName, TextFormat, Translation, TranslationRequest

router = APIRouter()

KEY_NAMES = ("token", "api_key", "key")
_NUMBERED_TAG = re.compile(r"</?[a-z]{1,8}(?:\d{1,5}| i=\d{1,5})\s?/?>", re.IGNORECASE)
"""What the plug-ins put for elements of a page: `<b0></b0>`, `<i1>text</i1>`, `<a i=1>text</a>`."""

PlugInCall = Annotated[Call, caller(*KEY_NAMES)]

_deeplx_format = foreign_format(
    {"quota_exceeded": 429}, lambda status, fault: {"code": status, "message": fault.message}
)
ERROR_FORMATS: dict[str, ErrorFormat] = {"/deeplx": _deeplx_format}


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


@router.post("/deeplx/translate")
@router.post("/deeplx")
async def deeplx(call: PlugInCall) -> Response:
    """Translate a text: DeepLX's `POST /translate`, where nothing else is."""
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


@router.post("/immersive/translate")
@router.post("/imme")
async def immersive(call: PlugInCall) -> Response:
    """Translate texts: Immersive Translate's custom API."""

    async def render(translations: list[Translation]) -> object:
        items = ({"detected_source_lang": _detected(one), "text": one.text} for one in translations)
        return {"translations": await json_items(call.service, items)}

    return await _translate(call, "immersive", "text_list", render)


@router.post("/kiss/translate")
@router.post("/kiss")
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


@router.post("/translate/batch")
async def mtranserver_batch(call: PlugInCall) -> Response:
    """MTranServer's API for several texts; its errors have LibreTranslate's form, whose path this is below."""

    async def render(translations: list[Translation]) -> object:
        return {"results": await json_items(call.service, (one.text for one in translations))}

    return await _translate(call, "kiss", "texts", render, source="from", target="to", format=_format(call))


@router.get("/translate")
async def xunity(call: PlugInCall) -> Response:
    """XUnity.AutoTranslator's custom endpoint, for the texts of games: the answer is the translation and nothing else.

    So there is no heartbeat, which would be a part of it.
    """
    _refuse_other_origins(call.http)
    call.fields.required("text", most=None)
    [text] = await call.texts("text")
    source = None if call.fields.text("from").lower() in ("", "auto") else call.tag("from")
    request = TranslationRequest((text,), call.tag("to"), source)
    async with while_connected(call.http.receive, grace_s=RETRY_GRACE_S):
        [translation] = await call.service.calls.translate(call_of(call.http, call.account, "xunity", request))
    return PlainTextResponse(translation.text)


def _refuse_other_origins(http: Request) -> None:
    """Raise `Forbidden` for what a page of another origin has the browser ask: games are no pages. `RequestMiddleware` refuses
    other methods by `Origin`, which is not sent with a GET for an image or a link."""
    origin, site = http.headers.get("origin"), http.headers.get("sec-fetch-site", "none")
    is_own = origin is None or origin.partition("://")[2] == http.headers.get("host")
    if not is_own or site not in ("none", "same-origin"):
        raise Forbidden("web pages of other origins may not do this")
