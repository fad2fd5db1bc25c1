"""`POST /v2/translate`: DeepL's parameters to a `TranslationRequest`, and translations to its JSON.

What the model cannot be given and DeepL refuses for some languages too (formality, instructions) is a 400; what has no effect
here because it is always so (formatting is preserved, sentences are found by the server) is accepted.
"""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Mapping
from typing import cast

from fastapi import APIRouter
from fastapi.responses import Response

from dragoman.api.compat import RETRY_GRACE_S
from dragoman.api.compat.deepl.languages import can_express, language_of, source_code
from dragoman.api.compat.deepl.parameters import Call, DeepLCall, Parameters, responses, trace_header, unsupported
from dragoman.api.compat.deepl.schemas import TRANSLATE, DeepLTranslations, body_of
from dragoman.api.heartbeat import HeartbeatResponse
from dragoman.api.input import (
    MAX_INSTRUCTION_CHARACTERS,
    MAX_INSTRUCTIONS,
    check_options,
    check_texts,
    deadline_of,
)
from dragoman.api.middleware import current_id
from dragoman.errors import InvalidRequest, UnknownGlossary
from dragoman.service.service import TranslationService
from dragoman.types import Formality, PromptOptions, TextFormat, Translation, TranslationRequest

router = APIRouter(tags=["DeepL"])

MAX_GLOSSARIES = 5
_MODEL_TYPES = ("quality_optimized", "latency_optimized", "prefer_quality_optimized")


@router.post(
    "/v2/translate",
    summary="DeepL: translate texts",
    responses=responses(404, 456, 504, ok=DeepLTranslations),
    openapi_extra=body_of(TRANSLATE, "text", "target_lang"),
    response_class=Response,
)
async def translate(call: Call) -> Response:
    """JSON or a form. `text` may be one text or several."""
    request, rest = await _request(call), _constant_fields(call.parameters)

    async def rendered(translations: list[Translation]) -> bytes:
        return await _rendered(translations, rest, call.service)

    return HeartbeatResponse(call.service, request, rendered, grace_s=RETRY_GRACE_S, headers=trace_header())


async def _request(call: DeepLCall) -> TranslationRequest:
    parameters, service = call.parameters, call.service
    target = language_of(parameters, "target_lang", service)
    if target is None:
        parameters.required("target_lang")
        raise AssertionError
    source = language_of(parameters, "source_lang", service)
    if "text" not in parameters:
        raise InvalidRequest("Parameter 'text' not specified", param="text")
    texts = await check_texts(service, parameters.texts("text"), allow_empty=True)
    _check_ignored(parameters)
    context = parameters.text("context", most=None)
    entries, key = await _glossary(call, source, target)
    return check_options(
        TranslationRequest(
            texts,
            target,
            source,
            format=cast(TextFormat, parameters.choice("tag_handling", "xml", "html", default="text")),
            context=context,
            glossary=entries,
            glossary_key=key,
            formality=_formality(call, source, target),
            instructions=_instructions(call, source, target),
            ignore_tags=frozenset(parameters.listed("ignore_tags")),
            splitting_tags=frozenset(parameters.listed("splitting_tags")),
            non_splitting_tags=frozenset(parameters.listed("non_splitting_tags")),
            request_id=current_id(),
            priority=call.account.priority,
            account=call.account,
            api="deepl",
            deadline_s=deadline_of(call.http),
        )
    )


def _check_ignored(parameters: Parameters) -> None:
    """What has no effect must still have a value of DeepL's; what the server does not have is not found."""
    parameters.choice("split_sentences", "0", "1", "nonewlines")
    for name in ("preserve_formatting", "outline_detection", "show_billed_characters", "enable_beta_languages"):
        parameters.check_flag(name)
    if parameters.text("style_id"):
        raise unsupported("style_id", "this server has no style rules")
    if parameters.text("translation_memory_id"):
        raise unsupported("translation_memory_id", "this server has no translation memories")


def _formality(call: DeepLCall, source: str | None, target: str) -> Formality:
    allowed = ("default", "more", "less", "prefer_more", "prefer_less")
    chosen = cast(Formality, call.parameters.choice("formality", *allowed, default="default"))
    if chosen in ("more", "less") and not can_express(call.service, source, target, PromptOptions(formality=chosen)):
        raise InvalidRequest(
            f"Target language {target.upper()!r} doesn't support formality with this server's model; "
            f"prefer_{chosen} uses it where it can",
            param="formality",
        )
    return chosen


def _instructions(call: DeepLCall, source: str | None, target: str) -> tuple[str, ...]:
    name = "custom_instructions"
    found = tuple(one for one in call.parameters.texts(name) if one)
    if len(found) > MAX_INSTRUCTIONS:
        raise unsupported(name, f"{len(found)} of them; at most {MAX_INSTRUCTIONS}")
    for one in found:
        if len(one) > MAX_INSTRUCTION_CHARACTERS:
            raise unsupported(name, f"one has {len(one)} characters; at most {MAX_INSTRUCTION_CHARACTERS}")
    if found and not can_express(call.service, source, target, PromptOptions(instructions=found)):
        raise unsupported(name, f"this server's model takes none for target language {target.upper()!r}")
    return found


async def _glossary(
    call: DeepLCall, source: str | None, target: str
) -> tuple[Mapping[str, str], tuple[object, ...] | None]:
    """The entries of the named glossaries, those of the first going before those of the next; and a key for them."""
    parameters = call.parameters
    one, several = parameters.text("glossary_id"), parameters.listed("glossary_ids")
    if one and several:
        raise InvalidRequest("Parameters 'glossary_id' and 'glossary_ids' exclude each other", param="glossary_ids")
    wanted = [one] if one else several
    if not wanted:
        return {}, None
    if len(wanted) > MAX_GLOSSARIES:
        raise unsupported("glossary_ids", f"at most {MAX_GLOSSARIES}")
    if source is None:
        raise InvalidRequest("A glossary needs Parameter 'source_lang'", param="source_lang")
    found = [await call.service.glossaries.dictionary(reference, source, target) for reference in wanted]
    for reference, stored in zip(wanted, found, strict=True):
        if not stored.entries:
            raise UnknownGlossary(f"glossary {reference!r} has no dictionary for {source} to {target}")
    if len(found) == 1:
        return found[0].entries, found[0].key
    return ChainMap(*(dict(stored.entries) for stored in found)), tuple(stored.key for stored in found)


def _constant_fields(parameters: Parameters) -> str:
    """The end of each translation's JSON: what the call's parameters ask for."""
    fields: dict[str, str] = {}
    if model_type := parameters.choice("model_type", *_MODEL_TYPES):
        fields["model_type_used"] = model_type.removeprefix("prefer_")
    version = parameters.choice("tag_handling_version", "v1", "v2", default="v2")
    if version and parameters.text("tag_handling"):
        fields["tag_handling_version"] = version
    return "".join(f',"{name}":"{value}"' for name, value in fields.items())


async def _rendered(translations: list[Translation], rest: str, service: TranslationService) -> bytes:
    """The answer's JSON, serialised translation by translation: other calls run in between."""
    pace, parts = service.pace(), list[str]()
    for one in translations:
        parts.append(
            f'{{"detected_source_language":"{source_code(one.source)}",'
            f'"text":{json.dumps(one.text, ensure_ascii=False)},"billed_characters":{one.usage.characters}{rest}}}'
        )
        await pace.pause()
    return f'{{"translations":[{",".join(parts)}]}}'.encode()
