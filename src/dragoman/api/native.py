"""The native API: `POST /v1/translate`, `GET /v1/languages`, `/v1/models`, and the probes `/healthz` and `/readyz`."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from dragoman import languages
from dragoman.api import schemas
from dragoman.api.access import NEEDS_KEY, Caller, Service
from dragoman.api.bodies import KeyFirstRoute
from dragoman.api.input import check_options, check_texts, deadline_of
from dragoman.api.middleware import EventStream, current_id, while_connected
from dragoman.errors import DragomanError, InvalidRequest
from dragoman.service.service import TranslationService
from dragoman.types import TextDelta, TextDone, Translation, TranslationRequest, Usage

_NOT_READY: dict[int | str, dict[str, Any]] = {
    503: {"description": "Starting, draining, or restarting", "model": schemas.ErrorAnswer}
}
_NO_KEY: dict[int | str, dict[str, Any]] = {
    401: {
        "description": "The server needs a key, and the request has none or a wrong one",
        "model": schemas.ErrorAnswer,
    }
}
router = APIRouter(prefix="/v1", route_class=KeyFirstRoute, dependencies=[NEEDS_KEY], responses=_NO_KEY | _NOT_READY)
probes = APIRouter()

_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "Bad JSON, an unsupported language, an empty text"},
    404: {"description": "No stored glossary has the id or name"},
    401: {"description": "The server needs a key, and the request has none or a wrong one"},
    403: {"description": "The key may not do this, or has used up its characters of this month"},
    413: {"description": "Too many texts, or too large a body"},
    422: {"description": "JSON of the wrong shape"},
    429: {"description": "The queue is full, or the key sends too many requests a second; see Retry-After"},
    503: {"description": "Starting, draining, or the engine has crashed"},
    504: {"description": "The call's own deadline has passed; what was left of it was dropped"},
}
for _error in _ERRORS.values():
    _error["model"] = schemas.ErrorAnswer
_STREAM_EXAMPLE = (
    'data: {"index": 0, "delta": "駅は"}\n\n'
    'data: {"index": 0, "delta": "どこですか？"}\n\n'
    'data: {"index": 0, "translation": {"text": "駅はどこですか？", "source": "en", "detected": false, '
    '"finish_reason": "stop", "warnings": []}, '
    '"usage": {"characters": 27, "prompt_tokens": 10, "completion_tokens": 5}}\n\n'
    "data: [DONE]\n\n"
)
_TRANSLATE_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "model": schemas.TranslateAnswer,
        "content": {"text/event-stream": {"schema": schemas.EVENT, "example": _STREAM_EXAMPLE}},
    },
    **_ERRORS,
}


def _forced(body: schemas.TranslateBody, service: TranslationService, texts: int) -> tuple[int, ...] | None:
    wanted = body.force_output_tokens
    if wanted is None:
        return None
    if service.spec.engine.load_format != "dummy":
        raise InvalidRequest("force_output_tokens needs a server with dummy weights", param="force_output_tokens")
    lengths = (wanted,) * texts if isinstance(wanted, int) else tuple(wanted)
    if len(lengths) != texts or min(lengths) < 1:
        raise InvalidRequest("force_output_tokens: one positive number for each text", param="force_output_tokens")
    return lengths


async def _glossary(
    body: schemas.TranslateBody, service: TranslationService
) -> tuple[Mapping[str, str], tuple[object, ...] | None]:
    """The entries, and for those of a stored glossary a key. Raises `UnknownGlossary`, or `InvalidRequest`."""
    if not isinstance(body.glossary, str):
        return body.glossary or {}, None
    if body.source is None:
        raise InvalidRequest(
            "a stored glossary needs the source language: it has entries by language pair", param="source"
        )
    stored = await service.glossaries.dictionary(body.glossary, body.source, body.target)
    return stored.entries, stored.key


@router.post(
    "/translate",
    summary="Translate texts",
    response_model=schemas.TranslateAnswer,
    responses=_TRANSLATE_ANSWERS,
)
async def translate(body: schemas.TranslateBody, http: Request, service: Service, account: Caller) -> Response:
    """Translate one text or several. With `"stream": true` the answer is server-sent events."""
    texts = await check_texts(service, body.text)
    entries, key = await _glossary(body, service)
    request = check_options(
        TranslationRequest(
            texts,
            body.target,
            body.source,
            format=body.format,
            context=body.context or None,
            keep=tuple(term for term in body.keep if term),
            glossary=entries,
            glossary_key=key,
            formality=body.formality,
            instructions=tuple(body.instructions),
            ignore_tags=frozenset(body.ignore_tags),
            splitting_tags=frozenset(body.splitting_tags),
            non_splitting_tags=frozenset(body.non_splitting_tags),
            strict=body.strict,
            priority=body.priority,
            forced_output_tokens=_forced(body, service, len(texts)),
            request_id=current_id(),
            account=account,
            deadline_s=deadline_of(http, body.deadline_s),
        )
    )
    if body.stream and body.confidence_inputs:
        raise InvalidRequest("confidence_inputs are not reported in a stream", param="confidence_inputs")
    if body.stream:
        return await _streamed(http, service, request)
    translations = await while_connected(http, service.translate(request))
    return Response(await _answer(translations, service, body.confidence_inputs), media_type="application/json")


async def _answer(translations: list[Translation], service: TranslationService, with_inputs: bool) -> bytes:
    """A `TranslateAnswer` as JSON, serialised translation by translation: other calls run in between."""
    pace, parts, usage = service.pace(), list[str](), Usage()
    for one in translations:
        inputs = service.confidence_inputs(one) if with_inputs else None
        parts.append(schemas.TranslationOut.of(one, inputs).model_dump_json())
        usage += one.usage
        await pace.pause()
    total = schemas.UsageOut.of(usage).model_dump_json()
    model = json.dumps(service.model.name, ensure_ascii=False)
    return f'{{"translations":[{",".join(parts)}],"model":{model},"usage":{total}}}'.encode()


async def _streamed(http: Request, service: TranslationService, request: TranslationRequest) -> Response:
    """Wait for the first event before the status is sent, so that a refusal is still a proper error."""
    events = service.stream(request)

    async def next_event() -> TextDelta | TextDone:
        return await anext(events)

    first = await while_connected(http, next_event())

    async def lines() -> AsyncGenerator[bytes]:
        try:
            yield _event(first)
            async for event in events:
                yield _event(event)
            yield b"data: [DONE]\n\n"
        except DragomanError as error:  # the status is already sent: the stream carries the error
            yield _data({"error": {"code": error.code, "message": error.message}})

    return EventStream(lines(), source=events)


def _event(event: TextDelta | TextDone) -> bytes:
    if isinstance(event, TextDelta):
        return _data({"index": event.index, "delta": event.text})
    translation = schemas.TranslationOut.of(event.translation).model_dump()
    usage = schemas.UsageOut.of(event.translation.usage).model_dump()
    return _data({"index": event.index, "translation": translation, "usage": usage})


def _data(value: object) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


@router.get("/languages", summary="Languages that the model serves")
async def list_languages(service: Service) -> schemas.LanguagesAnswer:
    """Each language with its names and the targets that it can be translated into."""
    profile = service.model.profile
    return schemas.LanguagesAnswer(
        languages=[
            schemas.LanguageOut(
                code=tag,
                name=languages.name(tag),
                native_name=languages.native_name(tag),
                targets=[other for other in profile.languages if other != tag and profile.serves(tag, other)],
            )
            for tag in profile.languages
        ]
    )


@router.get("/models", summary="The model, in OpenAI's list shape")
async def list_models(service: Service) -> schemas.ModelsAnswer:
    """The one model that this server runs, and the names by which chat clients choose its target language: `dragoman/ja`."""
    model = service.model
    ids = (model.name, *(f"dragoman/{tag}" for tag in model.profile.languages))
    return schemas.ModelsAnswer(
        data=[
            schemas.ModelOut(
                id=id_,
                created=model.created_unix_s,
                profile=model.profile.name,
                confidence_calibrated=model.confidence.calibrated,
                max_model_len=service.spec.engine.max_model_len,
            )
            for id_ in ids
        ]
    )


@probes.head("/healthz", include_in_schema=False)
@probes.get("/healthz", summary="The process is running")
async def healthz(service: Service) -> dict[str, str]:
    """Answers as long as the event loop runs, and says so when the server restarts its engine: it is not to be killed then."""
    restarting = service.pipeline.stats().restarting
    return {"status": "ok", **({"engine": "restarting"} if restarting else {})}


@probes.head("/readyz", include_in_schema=False)
@probes.get("/readyz", summary="A request sent now would be served", responses=_NOT_READY)
async def readyz(service: Service) -> dict[str, str]:
    """503 until the engine has answered a warm-up, while draining, and while the engine restarts after a crash."""
    await service.check_ready()
    return {"status": "ready"}
