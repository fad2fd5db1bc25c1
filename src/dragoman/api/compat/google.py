"""Google Cloud Translation's API, version 2 (Basic): `/language/translate/v2`, its `/languages` and `/detect`."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import APIRouter
from fastapi.responses import Response

from dragoman import languages
from dragoman.api.answers import JsonResponse, json_items
from dragoman.api.compat.exchange import Call, caller, regional_code
from dragoman.api.errors import ErrorFormat, Fault, foreign_format
from dragoman.types import Detection, TextFormat, Translation

router = APIRouter(prefix="/language/translate/v2")

_KINDS = {
    400: ("INVALID_ARGUMENT", "invalid"),
    403: ("PERMISSION_DENIED", "forbidden"),
    404: ("NOT_FOUND", "notFound"),
    429: ("RESOURCE_EXHAUSTED", "rateLimitExceeded"),
    503: ("UNAVAILABLE", "backendError"),
    504: ("DEADLINE_EXCEEDED", "deadlineExceeded"),
}
"""Google's name and reason of each status that is not an internal error."""

_STATUSES = {"unauthenticated": 403, "invalid_key": 400, "too_many_texts": 400, "body_too_large": 400}
_REASONS = {"quota_exceeded": "dailyLimitExceeded", "invalid_key": "badRequest"}


def _error(status: int, fault: Fault) -> dict[str, Any]:
    name, reason = _KINDS.get(status, ("INTERNAL", "backendError") if status >= 500 else _KINDS[400])
    reason = _REASONS.get(fault.code, reason)
    errors = [{"message": fault.message, "domain": "global", "reason": reason}]
    return {"error": {"code": status, "message": fault.message, "errors": errors, "status": name}}


ERROR_FORMATS: dict[str, ErrorFormat] = {"/language/translate": foreign_format(_STATUSES, _error)}
"""A missing key is 403 and a wrong one 400, as Google's; a used-up quota is 403, a rate limit 429."""

GoogleCall = Annotated[Call, caller("key", missing="Missing required field: {}")]


@router.get("")
@router.post("")
async def translate(call: GoogleCall) -> Response:
    """Translate texts, which are HTML unless `format` is `text`."""
    fields = call.fields
    fields.required("target")
    source = call.tag("source") if fields.text("source") else None
    form = cast(TextFormat, fields.choice("format", "html", "text", default="html"))
    model = fields.text("model")

    async def render(translations: list[Translation]) -> object:
        items = await json_items(call.service, (_translation(one, model) for one in translations))
        return {"data": {"translations": items}}

    return await call.translate("google", "q", call.tag("target"), source, form, render)


def _translation(one: Translation, model: str) -> dict[str, str]:
    answer = {"translatedText": one.text}
    if one.detected:
        answer["detectedSourceLanguage"] = regional_code(one.source)
    return answer | ({"model": model} if model else {})


@router.get("/detect")
@router.post("/detect")
async def detect(call: GoogleCall) -> Response:
    """Detect languages: a list of one detection for each text."""
    found = await call.detect(await call.texts("q"))
    items = await json_items(call.service, ([_detection(one)] for one in found))
    return JsonResponse({"data": {"detections": items}})


def _detection(one: Detection) -> dict[str, object]:
    language = regional_code(one.language) if one.language else "und"
    return {"language": language, "isReliable": False, "confidence": one.confidence}


@router.post("/languages")
@router.get("/languages")
async def list_languages(call: GoogleCall) -> Response:
    """The languages that the model serves; with `target`, their names in that language."""
    target = call.fields.text("target")
    named_in = languages.normalise(target) if target else None
    served = sorted(call.service.model.profile.languages)
    return JsonResponse(
        {"data": {"languages": [{"language": regional_code(tag)} | _name(tag, named_in) for tag in served]}}
    )


def _name(tag: str, named_in: str | None) -> dict[str, str]:
    return {"name": languages.name(tag, named_in)} if named_in else {}
