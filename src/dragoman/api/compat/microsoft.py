"""Microsoft Translator's API: `/translate`, `/detect` and `/languages` with `api-version` in the query, which LibreTranslate's
routes of the same names do not have.

Version 3.0 has the languages in the query and an array of texts as its body; its successor (`2026-06-06`, and what else begins
with a year) has all in the body. An answer has no heartbeat: Microsoft's clients wait for minutes, and try again by the status
of an error, which an answer that has begun cannot have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from fastapi import APIRouter, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.datastructures import QueryParams
from starlette.routing import Match
from starlette.types import Scope

from dragoman import languages
from dragoman.api.answers import JsonResponse, json_items, while_connected
from dragoman.api.compat import RETRY_GRACE_S, exchange
from dragoman.api.compat.exchange import MAX_CHARACTERS, scripted_code, served_tag, unsupported
from dragoman.api.errors import ErrorFormat, Fault, foreign_format
from dragoman.api.input import Caller, Service, call_of, check_texts, parse_json, worked
from dragoman.api.middleware import current_id
from dragoman.errors import BodyTooLarge, InvalidRequest, TooManyTexts
from dragoman.service.service import TranslationService
from dragoman.types import Account, Detection, TextFormat, Translation, TranslationRequest

VERSION = "api-version"
MAX_DIRECTIONS = 100
"""Pairs of languages in one request: each is a call of its own, and all run concurrently."""


class VersionedRoute(APIRoute):
    """A route for requests with `api-version` in their query alone: the same paths without it are LibreTranslate's."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """No match for a request without the parameter."""
        query: bytes = scope.get("query_string", b"")
        if b"api-version=" not in query or VERSION not in QueryParams(query):
            return Match.NONE, {}
        return super().matches(scope)


router = APIRouter(route_class=VersionedRoute)


# ---- errors

_INVALID, _REJECTED = 400000, 429001
_BY_PARAM = {
    "scope": 400001,
    "category": 400002,
    "language": 400003,
    "toScript": 400004,
    "script": 400018,
    "fromScript": 400018,
    "text": 400005,
    "inputs": 400000,
    VERSION: 400021,
    "from": 400035,
    "to": 400036,
    "targets": 400036,
    "profanityAction": 400042,
    "includeSentenceLength": 400042,
    "textType": 400071,
}
"""Microsoft's code for what is wrong with a parameter."""
_BY_CODE = {
    "unsupported_language": 400023,
    "invalid_json": 400074,
    "untranslatable_text": 400005,
    "too_many_texts": 400072,
    "method_not_allowed": 405000,
    "request_timeout": 408002,
    "unauthenticated": 401000,
    "invalid_key": 401000,
    "quota_exceeded": 403001,
    "rate_limited": _REJECTED,
    "queue_full": _REJECTED,
}
"""Microsoft's code for a fault, where no parameter says more."""
_STATUSES = {"too_many_texts": 400, "body_too_large": 400}


def _code(status: int, fault: Fault) -> int:
    if fault.code == "body_too_large":
        return 400050 if fault.param else 400077  # one text, or all of it
    by_param = None if fault.code in ("too_many_texts", "untranslatable_text") else _BY_PARAM.get(_base(fault.param))
    return by_param or _BY_CODE.get(fault.code, 1_000 * status)


def _base(param: str | None) -> str:
    """The parameter's name without the place in its list."""
    return (param or "").partition(".")[0]


def _request_headers() -> dict[str, str]:
    return {"X-RequestId": current_id()}


_format = foreign_format(
    _STATUSES,
    lambda status, fault: {"error": {"code": _code(status, fault), "message": fault.message}},
    _request_headers,
)
ERROR_FORMATS: dict[str, ErrorFormat] = dict.fromkeys(
    (f"/translate?{VERSION}", f"/detect?{VERSION}", f"/languages?{VERSION}"), _format
)
"""Six digits: the status, and what it is about."""


# ---- requests


@dataclass(frozen=True, slots=True)
class Wanted:
    """A text with the codes of its target languages. `source`: the model's tag; None: to be detected."""

    text: str
    source: str | None
    format: TextFormat
    targets: tuple[str, ...]


def _is_versioned_by_date(http: Request) -> bool:
    """Whether the request is of 3.0's successor. Raises `InvalidRequest` for a version that is neither."""
    version = http.query_params[VERSION]
    if version == "3.0":
        return False
    if version[:4].isdigit() and version[4:5] == "-":
        return True
    raise InvalidRequest(f"{VERSION} is {version[:40]!r}; give 3.0 or 2026-06-06", param=VERSION)


async def _body(http: Request) -> object:
    body = await http.body()
    return await worked(len(body), parse_json, body, http.app.state.max_values)


def _elements(value: object, name: str, service: TranslationService) -> list[dict[str, object]]:
    """The objects of a list, whose fields' names are lower case. Raises `InvalidRequest` and `TooManyTexts`."""
    if not isinstance(value, list) or not value:
        raise InvalidRequest(f"{name} is not an array with elements", param=name)
    found, most = cast(list[object], value), service.settings.server.max_texts
    if len(found) > most:
        raise TooManyTexts(f"{len(found)} elements in one request; this server accepts {most}", param=name)
    if not all(isinstance(one, dict) for one in found):
        raise InvalidRequest(f"{name}: an element is not an object", param=name)
    return [{key.lower(): one for key, one in element.items()} for element in cast(list[dict[str, object]], found)]


def _string(fields: Mapping[str, object], name: str) -> str:
    """A string of at most `MAX_CHARACTERS`; empty where it is not given. Raises `InvalidRequest`."""
    value = fields.get(name.lower())
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MAX_CHARACTERS:
        raise unsupported(name, f"give a string of at most {MAX_CHARACTERS} characters")
    return value


def _text(element: Mapping[str, object]) -> str:
    value = element.get("text")
    if not isinstance(value, str):
        raise InvalidRequest("Text is missing, or not a string", param="text")
    return value


def _format_of(fields: Mapping[str, object]) -> TextFormat:
    kind = _string(fields, "textType").lower() or "plain"
    if kind not in ("plain", "html"):
        raise unsupported("textType", "give plain or html")
    return "html" if kind == "html" else "text"


def _refuse(fields: Mapping[str, object], *names: str) -> None:
    """Raise `InvalidRequest` for a parameter that changes what an answer is, and is not served."""
    for name in names:
        if _string(fields, name).lower() not in ("", "false"):
            raise unsupported(name, "this server does not have it")
    if _string(fields, "profanityAction").lower() not in ("", "noaction"):
        raise unsupported("profanityAction", "this server has NoAction alone")


def _wanted(http: Request, service: TranslationService, body: object) -> list[Wanted]:
    """What a request of version 3.0 asks for. Raises `InvalidRequest`, `UnsupportedLanguage` and `TooManyTexts`."""
    query = http.query_params
    fields = {name.lower(): value for name, value in query.items()}
    _refuse(fields, "includeSentenceLength", "fromScript", "toScript")
    if (
        _string(fields, "category").lower() not in ("", "general")
        and _string(fields, "allowFallback").lower() == "false"
    ):
        raise unsupported("category", "this server has no custom system: give general, or allow a fallback")
    targets = tuple(query.getlist("to"))
    if not all(targets) or not targets:
        raise InvalidRequest("The target language is missing", param="to")
    source = served_tag(service, code, "from") if (code := _string(fields, "from")) else None
    format_ = _format_of(fields)
    return [Wanted(_text(one), source, format_, targets) for one in _elements(body, "text", service)]


def _wanted_by_date(service: TranslationService, body: object) -> list[Wanted]:
    """What a request of the successor asks for. Raises what `_wanted` raises."""
    inputs = cast(dict[str, object], body).get("inputs") if isinstance(body, dict) else None
    wanted: list[Wanted] = []
    for one in _elements(inputs, "inputs", service):
        _refuse(one, "script")
        targets = _elements(one.get("targets"), "targets", service)
        for target in targets:
            _refuse(target, "script", "adaptiveDatasetId", "tone", "gender")
        source = served_tag(service, code, "language") if (code := _string(one, "language")) else None
        codes = tuple(_string(target, "language") for target in targets)
        if not all(codes):
            raise InvalidRequest("The target language is missing", param="targets")
        wanted.append(Wanted(_text(one), source, _format_of(one), codes))
    return wanted


# ---- answers


@router.post("/translate")
async def translate(http: Request, service: Service, account: Caller) -> Response:
    """Translate texts, each into all of its target languages."""
    is_by_date = _is_versioned_by_date(http)
    body = await _body(http)
    wanted = _wanted_by_date(service, body) if is_by_date else _wanted(http, service, body)
    translations = await _translate(http, service, account, wanted)
    name = "language" if is_by_date else "to"
    answers = (_answer(one, found, name) for one, found in zip(wanted, translations, strict=True))
    items = await json_items(service, answers)
    return JsonResponse({"value": items} if is_by_date else items, headers=_headers(http, _metered(wanted)))


def _metered(wanted: Sequence[Wanted]) -> int:
    """The characters of all texts, for each of their languages."""
    return sum(len(one.text) * len(one.targets) for one in wanted)


async def _translate(
    http: Request, service: TranslationService, account: Account, wanted: Sequence[Wanted]
) -> list[list[Translation]]:
    """The translations of each text into each of its languages.

    Raises `TooManyTexts`, `BodyTooLarge`, `InvalidRequest` for over `MAX_DIRECTIONS`, and what `check_texts` and calls raise.
    """
    await check_texts(service, [one.text for one in wanted], allow_empty=True)
    limits = service.settings.server
    if (number := sum(len(one.targets) for one in wanted)) > limits.max_texts:
        raise TooManyTexts(f"{number} translations in one request; this server accepts {limits.max_texts}", param="to")
    if (characters := _metered(wanted)) > limits.max_body_bytes:
        raise BodyTooLarge(f"{characters} characters, for each language; this server accepts {limits.max_body_bytes}")
    places: dict[tuple[str | None, str, TextFormat], list[tuple[int, int]]] = {}
    for index, one in enumerate(wanted):
        for place, code in enumerate(one.targets):
            direction = one.source, served_tag(service, code, "to"), one.format
            places.setdefault(direction, []).append((index, place))
    if len(places) > MAX_DIRECTIONS:
        raise InvalidRequest(f"{len(places)} pairs of languages in one request; this server accepts {MAX_DIRECTIONS}")
    calls = [
        call_of(
            http,
            account,
            "microsoft",
            TranslationRequest(tuple(wanted[index].text for index, _ in found), target, source, format=format_),
        )
        for (source, target, format_), found in places.items()
    ]
    async with while_connected(http.receive, grace_s=RETRY_GRACE_S):
        done = await _translate_all(service, calls)
    by_place = {
        place: translation
        for found, of_call in zip(places.values(), done, strict=True)
        for place, translation in zip(found, of_call, strict=True)
    }
    return [[by_place[index, place] for place in range(len(one.targets))] for index, one in enumerate(wanted)]


async def _translate_all(service: TranslationService, calls: Sequence[TranslationRequest]) -> list[list[Translation]]:
    """The translations of all calls. Raises the error of one that failed, after which the others are cancelled."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(service.calls.translate(call)) for call in calls]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def _answer(wanted: Wanted, translations: Sequence[Translation], language_name: str) -> dict[str, object]:
    found = [{"text": one.text, language_name: code} for one, code in zip(translations, wanted.targets, strict=True)]
    first = translations[0]
    if wanted.source is not None:
        return {"translations": found}
    served = None if first.source == "und" else first.source
    return {
        "detectedLanguage": _language(Detection(served, first.detection_confidence)),
        "translations": found,
    }


def _language(one: Detection) -> dict[str, object]:
    """What has no language is English with the score 0: the field is required."""
    if one.language is None:
        return {"language": "en", "score": 0.0}
    return {"language": scripted_code(one.language), "score": round(one.confidence, 2)}


def _headers(http: Request, metered: int | None = None) -> dict[str, str]:
    """Those of an answer: with the client's id for the request, and the characters that were charged."""
    headers = _request_headers()
    if (given := http.headers.get("x-clienttraceid", "")) and len(given) <= 100 and given.isascii():
        headers["X-ClientTraceId"] = given
    return headers | ({"X-Metered-Usage": str(metered)} if metered is not None else {})


@router.post("/detect")
async def detect(http: Request, service: Service, account: Caller) -> Response:
    """Detect the language of each text."""
    _is_versioned_by_date(http)
    elements = _elements(await _body(http), "text", service)
    texts = await check_texts(service, [_text(one) for one in elements], allow_empty=True)
    answers = list[dict[str, object]]()
    for one in await exchange.detect(service, texts, "text"):
        is_served = one.language is not None and languages.find(one.language) is not None
        served = is_served and languages.match(one.language, tuple(service.model.profile.languages)) is not None
        answers.append(_language(one) | {"isTranslationSupported": served, "isTransliterationSupported": False})
    return JsonResponse(answers, headers=_headers(http))


_SCOPES = {"translation", "transliteration", "dictionary", "models"}


@router.get("/languages")
async def list_languages(http: Request, service: Service) -> Response:
    """The languages that the model serves, with their names in the first language of Accept-Language that has such names."""
    is_by_date = _is_versioned_by_date(http)
    scopes = [one.strip().lower() for one in http.query_params.get("scope", "").split(",") if one.strip()]
    if unknown := next((one for one in scopes if one not in _SCOPES), None):
        raise unsupported("scope", f"{unknown[:40]!r} is none of {', '.join(sorted(_SCOPES))}")
    named_in = _named_in(http.headers.get("accept-language", ""))
    more: dict[str, object] = {"models": []} if is_by_date else {}
    translation = {
        scripted_code(tag): {
            "name": languages.name(tag, named_in),
            "nativeName": languages.native_name(tag),
            "dir": "rtl" if languages.is_right_to_left(tag) else "ltr",
            **more,
        }
        for tag in sorted(service.model.profile.languages)
    }
    empty: dict[str, object] = {}
    of_scopes: dict[str, object] = {
        "translation": translation,
        "transliteration": empty,
        **({"models": []} if is_by_date else {"dictionary": empty}),
    }
    answer = {name: value for name, value in of_scopes.items() if not scopes or name in scopes}
    return JsonResponse(answer, headers=_headers(http))


def _named_in(accept_language: str) -> str:
    """The first language of the header; English where it is none."""
    found = languages.find(accept_language[:100].partition(",")[0].partition(";")[0].strip())
    return languages.normalise(found) if found else "en"
