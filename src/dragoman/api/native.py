"""The native API: `POST /v1/translate`, `GET /v1/languages`, `/v1/models`, and the probes `/healthz` and `/readyz`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response

from dragoman import languages
from dragoman.api import openapi, schemas
from dragoman.api.access import NEEDS_KEY, Caller, Service
from dragoman.api.answers import Events, JsonResponse, json_items, stream, while_connected
from dragoman.api.bodies import KeyFirstRoute
from dragoman.api.input import call_of, check_texts
from dragoman.errors import InvalidRequest
from dragoman.service.service import TranslationService
from dragoman.types import TextDelta, Translation, TranslationRequest, Usage

router = APIRouter(
    prefix="/v1",
    route_class=KeyFirstRoute,
    dependencies=[NEEDS_KEY],
    responses=openapi.failures(schemas.ErrorAnswer, 401),
)
probes = APIRouter()

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
    **openapi.failures(schemas.ErrorAnswer, 400, 401, 403, 404, 413, 422, 429, 504),
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
    request = TranslationRequest(
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
    )
    request = call_of(http, account, "native", request, body.deadline_s)
    if not body.stream:
        translations = await while_connected(http, service.translate(request))
        return await _answer(translations, service, body.confidence_inputs)
    if body.confidence_inputs:
        raise InvalidRequest("confidence_inputs are not reported in a stream", param="confidence_inputs")
    return await stream(
        http, service.stream(request), _events, lambda error: {"error": {"code": error.code, "message": error.message}}
    )


async def _answer(translations: list[Translation], service: TranslationService, with_inputs: bool) -> Response:
    """A `TranslateAnswer`."""
    items = (
        orjson.Fragment(
            schemas.TranslationOut.of(one, service.confidence_inputs(one) if with_inputs else None).model_dump_json()
        )
        for one in translations
    )
    usage = schemas.UsageOut.of(sum((one.usage for one in translations), Usage())).model_dump()
    return JsonResponse({"translations": await json_items(service, items), "model": service.model.name, "usage": usage})


async def _events(events: Events) -> AsyncGenerator[dict[str, Any]]:
    async for event in events:
        if isinstance(event, TextDelta):
            yield {"index": event.index, "delta": event.text}
        else:
            translation = schemas.TranslationOut.of(event.translation).model_dump()
            usage = schemas.UsageOut.of(event.translation.usage).model_dump()
            yield {"index": event.index, "translation": translation, "usage": usage}


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
@probes.get("/readyz", summary="A request sent now would be served", responses=openapi.failures(schemas.ErrorAnswer))
async def readyz(service: Service) -> dict[str, str]:
    """503 until the engine has answered a warm-up, while draining, and while the engine restarts after a crash."""
    await service.check_ready()
    return {"status": "ready"}
