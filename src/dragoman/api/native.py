"""The native API: `POST /v1/translate`, `GET /v1/languages`, `/v1/models`, and the probes `/healthz` and `/readyz`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from dragoman import languages
from dragoman.api import openapi, schemas
from dragoman.api.answers import EventStream, JsonResponse, json_bytes, json_items, while_connected
from dragoman.api.input import NEEDS_KEY, Caller, KeyFirstRoute, Service, call_of, check_texts, memories_of
from dragoman.errors import DragomanError, InvalidRequest
from dragoman.service.service import TranslationService
from dragoman.types import Account, ApiName, Example, Options, TextDelta, TextDone, Translation, TranslationRequest
from wholetext.markup.html import TagRules

router = APIRouter(
    prefix="/v1",
    route_class=KeyFirstRoute,
    dependencies=[NEEDS_KEY],
    responses=openapi.failures(schemas.ErrorAnswer, 401),
)
probes = APIRouter()

LACKS_HEADER = "X-Engine-Lacks"
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


def _forced(wanted: int | list[int], service: TranslationService, texts: int) -> tuple[int, ...]:
    """The output tokens of each text. Raises `InvalidRequest`."""
    if service.spec.engine.load_format != "dummy":
        raise InvalidRequest("force_output_tokens needs a server with dummy weights", param="force_output_tokens")
    lengths = (wanted,) * texts if isinstance(wanted, int) else tuple(wanted)
    if len(lengths) != texts or min(lengths) < 1:
        raise InvalidRequest("force_output_tokens: one positive number for each text", param="force_output_tokens")
    return lengths


async def _stored_glossary(
    reference: str, body: schemas.TranslateBody, service: TranslationService, account: Account
) -> tuple[Mapping[str, str], tuple[object, ...]]:
    """The entries of a stored glossary, and a key for them. Raises `UnknownGlossary`, or `InvalidRequest`."""
    if body.source is None:
        raise InvalidRequest(
            "a stored glossary needs the source language: it has entries by language pair", param="source"
        )
    stored = await service.glossaries.dictionary(account.id, reference, body.source, body.target)
    return stored.entries, stored.key


def translation_out(one: Translation) -> dict[str, Any]:
    """A `TranslationOut`."""
    failure = None
    if one.failed:
        codes = ", ".join(warning.code for warning in one.warnings)
        failure = {"code": "check_failed", "message": f"the translation failed a check: {codes}", "param": "text"}
    return {
        "text": "" if one.failed else one.text,
        "source": one.source,
        "detected": one.detected,
        "finish_reason": one.finish_reason,
        "warnings": [schemas.WarningOut.of(warning).model_dump() for warning in one.warnings],
        "confidence": None if one.confidence is None else round(one.confidence, 4),
        "confidence_kind": one.confidence_kind,
        "retries": list(one.retries),
        "cached": one.cached,
        "memory": one.memory,
        "remembered": one.remembered,
        "examples": schemas.ExamplesOut.of(one.examples).model_dump() if one.examples else None,
        "error": failure,
    }


def alternatives_out(one: Translation) -> list[dict[str, Any]]:
    """Its `AlternativeOut`s."""
    return [schemas.AlternativeOut.of(found).model_dump() for found in one.alternatives]


def usage_out(translations: Sequence[Translation]) -> dict[str, int]:
    """A `UsageOut`."""
    return {
        "characters": sum(one.usage.characters for one in translations),
        "prompt_tokens": sum(one.usage.prompt_tokens for one in translations),
        "completion_tokens": sum(one.usage.completion_tokens for one in translations),
    }


class _Events:
    """The server-sent events of a stream."""

    def write(self, event: TextDelta | TextDone) -> bytes:
        """A delta, or a translation with its usage."""
        value: dict[str, Any] = {"index": event.index}
        if isinstance(event, TextDelta):
            value["delta"] = event.text
        else:
            value |= {"translation": translation_out(event.translation), "usage": usage_out([event.translation])}
        return b"data: %b\n\n" % json_bytes(value)

    def end(self, error: DragomanError | None) -> bytes:
        """`[DONE]`, or the error."""
        if error is None:
            return b"data: [DONE]\n\n"
        return b"data: %b\n\n" % json_bytes({"error": {"code": error.code, "message": error.message}})


@router.post(
    "/translate",
    summary="Translate texts",
    response_model=schemas.TranslateAnswer,
    responses=_TRANSLATE_ANSWERS,
)
async def translate(body: schemas.TranslateBody, http: Request, service: Service, account: Caller) -> Response:
    """Translate one text or several. With `"stream": true` the answer is server-sent events."""
    request = await request_of(http, body, service, account, "native")
    headers = {LACKS_HEADER: ", ".join(service.engine_lacks)} if service.engine_lacks else None
    if body.stream:
        for name in ("alternatives", "confidence_inputs"):
            if getattr(body, name):
                raise InvalidRequest(f"{name} are not reported in a stream", param=name)
        return EventStream(service.calls.events(request, streamed=True), _Events(), len(request.texts), headers)
    async with while_connected(http.receive):
        translations = await service.calls.translate(request)
    items = map(translation_out, translations)
    if body.confidence_inputs:
        items = (translation_out(one) | {"confidence_inputs": service.confidence_inputs(one)} for one in translations)
    if body.alternatives:
        items = (item | {"alternatives": alternatives_out(one)} for item, one in zip(items, translations, strict=True))
    answer = {
        "translations": await json_items(service, items),
        "model": service.model.name,
        "usage": usage_out(translations),
    }
    return JsonResponse(answer, headers=headers)


async def request_of(
    http: Request, body: schemas.TranslateBody, service: TranslationService, account: Account, api: ApiName
) -> TranslationRequest:
    """The call that a body asks for. Raises what `check_texts` and `call_of` raise, and `UnknownGlossary`."""
    texts = await check_texts(service, body.text, alternatives=body.alternatives)
    entries, key, forced = body.glossary or {}, None, None
    if isinstance(entries, str):
        entries, key = await _stored_glossary(entries, body, service, account)
    if body.force_output_tokens is not None:
        forced = _forced(body.force_output_tokens, service, len(texts))
    request = TranslationRequest(
        texts,
        body.target,
        body.source,
        format=body.format,
        options=Options(
            context=body.context or None,
            keep=tuple(term for term in body.keep if term),
            glossary=entries,
            glossary_key=key,
            memories=None if body.memory is True else await memories_of(service, account, body.memory),
            memory_examples=body.memory_examples,
            memory_similarity=body.memory_similarity,
            formality=body.formality,
            instructions=tuple(body.instructions),
            tags=TagRules(
                frozenset(body.ignore_tags), frozenset(body.splitting_tags), frozenset(body.non_splitting_tags)
            ),
            examples=tuple(Example(one.source, one.translation) for one in body.examples),
        ),
        strict=body.strict,
        priority=body.priority,
        forced_output_tokens=forced,
        alternatives=body.alternatives,
    )
    return call_of(http, account, api, request, body.deadline_s, consecutive=body.consecutive)


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
    return schemas.ModelsAnswer(data=[model_out(service, id) for id in model_ids(service)])


def model_ids(service: TranslationService) -> tuple[str, ...]:
    """The model's name, and those that name a target language."""
    return (service.model.name, *(f"dragoman/{tag}" for tag in service.model.profile.languages))


def model_out(service: TranslationService, id: str) -> schemas.ModelOut:
    """The served model under one of its ids."""
    model = service.model
    return schemas.ModelOut(
        id=id,
        created=model.created_unix_s,
        profile=model.profile.name,
        confidence_calibrated=model.confidence.kind == "calibrated",
        takes_examples=service.takes_examples,
        takes_formality=model.profile.takes_formality,
        max_model_len=service.spec.engine.max_model_len,
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
    engine = service.pipeline.stats()
    serving, slots = sum(not one.fault for one in engine.remote), engine.slot_limit
    return {
        "status": "ready",
        **({"engines": f"{serving} of {len(engine.remote)} answer"} if engine.remote else {}),
        **({"slot_limit": f"{slots}, after crashes that no sequence caused alone"} if slots else {}),
    }
