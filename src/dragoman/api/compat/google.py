"""Google Cloud Translation's API, version 2 (Basic): `/language/translate/v2`, its `/languages` and `/detect`."""

from __future__ import annotations

from typing import Any, cast

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from dragoman import languages
from dragoman.api.access import Service, account_of
from dragoman.api.compat import openapi
from dragoman.api.compat.exchange import Fields, detected, json_array, regional_code, served_tag, translated
from dragoman.api.errors import ErrorFormat, Fault
from dragoman.api.input import check_texts
from dragoman.errors import InvalidRequest
from dragoman.service.service import TranslationService
from dragoman.types import Detection, TextFormat, Translation

router = APIRouter(prefix="/language/translate/v2", tags=["Google"])

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


def error_format(fault: Fault) -> Response:
    """Google's. A missing key is 403 and a wrong one 400, as there; a used-up quota is 403, a rate limit 429."""
    status = _STATUSES.get(fault.code, 400 if fault.status == 422 else fault.status)
    name, reason = _KINDS.get(status, ("INTERNAL", "backendError") if status >= 500 else _KINDS[400])
    reason = _REASONS.get(fault.code, reason)
    error = {
        "code": status,
        "message": fault.message,
        "errors": [{"message": fault.message, "domain": "global", "reason": reason}],
        "status": name,
    }
    return JSONResponse({"error": error}, status, fault.headers)


ERROR_FORMATS: dict[str, ErrorFormat] = {"/language/translate": error_format}

# ---- OpenAPI

_KEY = {"key": openapi.TEXT}
_TRANSLATE = {
    "q": openapi.example(openapi.TEXT_OR_TEXTS, "Where is the train station?"),
    "target": openapi.example(openapi.TEXT, "ja"),
    "source": openapi.example(openapi.TEXT, "en"),
    "format": {**openapi.TEXT, "enum": ["html", "text"]},
    "model": openapi.TEXT,
    **_KEY,
}
_DETECT = {"q": _TRANSLATE["q"], **_KEY}
_LIST = {"target": openapi.TEXT, "model": openapi.TEXT, **_KEY}
_FAULT = {"message": openapi.TEXT, "domain": openapi.TEXT, "reason": openapi.TEXT}
_ERROR = openapi.object_of(
    {
        "error": openapi.object_of(
            {
                "code": openapi.INTEGER,
                "message": openapi.TEXT,
                "errors": openapi.array(openapi.object_of(_FAULT)),
                "status": openapi.TEXT,
            }
        )
    }
)


def _answers(name: str, item: openapi.Schema, *statuses: int) -> dict[int | str, dict[str, Any]]:
    data = openapi.object_of({"data": openapi.object_of({name: openapi.array(item)})})
    return openapi.answers(data, _ERROR, 403, *statuses)


_TRANSLATED = _answers(
    "translations",
    openapi.object_of(
        {"translatedText": openapi.TEXT, "detectedSourceLanguage": openapi.TEXT, "model": openapi.TEXT},
        "detectedSourceLanguage",
        "model",
    ),
    429,
    504,
)
_DETECTED = _answers(
    "detections",
    openapi.array(
        openapi.object_of({"language": openapi.TEXT, "isReliable": {"type": "boolean"}, "confidence": openapi.NUMBER})
    ),
)
_LANGUAGES = _answers("languages", openapi.object_of({"language": openapi.TEXT, "name": openapi.TEXT}, "name"))


async def _texts(service: TranslationService, fields: Fields) -> tuple[str, ...]:
    if "q" not in fields:
        raise InvalidRequest("Missing required field: q", param="q")
    return await check_texts(service, fields.texts("q"), "q", allow_empty=True)


def _data(body: str) -> Response:
    return Response(f'{{"data":{body}}}'.encode(), media_type="application/json")


@router.get(
    "",
    summary="Google: translate, by the query",
    openapi_extra=openapi.query(_TRANSLATE, "q", "target"),
    responses=_TRANSLATED,
    response_class=Response,
)
@router.post(
    "",
    summary="Google: translate",
    openapi_extra=openapi.body(_TRANSLATE, "q", "target"),
    responses=_TRANSLATED,
    response_class=Response,
)
async def translate(http: Request, service: Service) -> Response:
    """Texts are HTML unless `format` is `text`."""
    fields = await Fields.read(http, service, "key")
    account = await account_of(http, service, fields.text("key"))
    texts = await _texts(service, fields)
    if not (target := fields.text("target")):
        raise InvalidRequest("Missing required field: target", param="target")
    source, given_format = fields.text("source"), fields.text("format") or "html"
    if given_format not in ("html", "text"):
        raise InvalidRequest(f"Invalid value for format: {given_format[:40]}", param="format")
    translations = await translated(
        http,
        service,
        account,
        "google",
        texts,
        target=served_tag(service, target, "target"),
        source=served_tag(service, source, "source") if source else None,
        format=cast(TextFormat, given_format),
    )
    model = fields.text("model")
    array = await json_array(service, (_translation(one, model) for one in translations))
    return _data(f'{{"translations":{array}}}')


def _translation(one: Translation, model: str) -> dict[str, str]:
    answer = {"translatedText": one.text}
    if one.detected:
        answer["detectedSourceLanguage"] = regional_code(one.source)
    return answer | ({"model": model} if model else {})


@router.get(
    "/detect",
    summary="Google: detect languages, by the query",
    openapi_extra=openapi.query(_DETECT, "q"),
    responses=_DETECTED,
    response_class=Response,
)
@router.post(
    "/detect",
    summary="Google: detect languages",
    openapi_extra=openapi.body(_DETECT, "q"),
    responses=_DETECTED,
    response_class=Response,
)
async def detect(http: Request, service: Service) -> Response:
    """A list of one detection for each text."""
    fields = await Fields.read(http, service, "key")
    await account_of(http, service, fields.text("key"))
    found = await detected(service, await _texts(service, fields))
    return _data(f'{{"detections":{await json_array(service, ([_detection(one)] for one in found))}}}')


def _detection(one: Detection) -> dict[str, object]:
    language = regional_code(one.language) if one.language else "und"
    return {"language": language, "isReliable": False, "confidence": one.confidence}


@router.post("/languages", include_in_schema=False)
@router.get(
    "/languages",
    summary="Google: the languages",
    openapi_extra=openapi.query(_LIST),
    responses=_LANGUAGES,
    response_class=Response,
)
async def list_languages(http: Request, service: Service) -> Response:
    """The languages that the model serves; with `target`, their names in that language."""
    fields = await Fields.read(http, service, "key")
    await account_of(http, service, fields.text("key"))
    served = service.model.profile.languages
    named_in = languages.normalise(fields.text("target")) if fields.text("target") else None
    found = [{"language": regional_code(tag)} | _name(tag, named_in) for tag in sorted(served)]
    return JSONResponse({"data": {"languages": found}})


def _name(tag: str, named_in: str | None) -> dict[str, str]:
    return {"name": languages.name(tag, named_in)} if named_in else {}
