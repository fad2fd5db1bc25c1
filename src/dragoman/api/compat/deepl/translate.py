"""`POST /v2/translate`: DeepL's parameters to a `TranslationRequest`, and translations to its JSON.

What the model cannot be given and DeepL refuses for some languages too (formality, instructions) is a 400; what has no effect
here because it is always so (formatting is preserved, sentences are found by the server) is accepted.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import cast

from fastapi import APIRouter
from fastapi.responses import Response

from dragoman.api.answers import HeartbeatResponse, json_bytes, json_items
from dragoman.api.compat import RETRY_GRACE_S
from dragoman.api.compat.deepl.calls import DeepLCall, direction_of
from dragoman.api.compat.deepl.languages import can_express, source_code
from dragoman.api.compat.exchange import Call, Fields, unsupported
from dragoman.api.input import call_of, check_texts, memories_of
from dragoman.errors import InvalidRequest, UnknownGlossary
from dragoman.types import (
    MAX_INSTRUCTION_CHARACTERS,
    MAX_INSTRUCTIONS,
    Formality,
    Options,
    PromptOptions,
    TextFormat,
    Translation,
    TranslationRequest,
)
from wholetext.markup.html import TagRules

router = APIRouter()

MAX_GLOSSARIES = 5
MAX_LISTED_CHARACTERS = 20_000
"""Of a list with commas."""
_MODEL_TYPES = ("quality_optimized", "latency_optimized", "prefer_quality_optimized")
_IGNORED_FLAGS = ("preserve_formatting", "outline_detection", "show_billed_characters", "enable_beta_languages")


@router.post("/v2/translate")
async def translate(call: DeepLCall) -> Response:
    """Translate texts of JSON or a form. `text` may be one text or several."""
    fields, service = call.fields, call.service
    request = await _request(call)
    # The end of each translation: what the call's parameters ask for.
    constant: dict[str, str] = {}
    if model_type := fields.choice("model_type", *_MODEL_TYPES):
        constant["model_type_used"] = model_type.removeprefix("prefer_")
    version = fields.choice("tag_handling_version", "v1", "v2", default="v2")
    if fields.text("tag_handling"):
        constant["tag_handling_version"] = version

    async def render(translations: list[Translation]) -> bytes:
        items = (
            {
                "detected_source_language": source_code(one.source),
                "text": one.text,
                "billed_characters": one.usage.characters,
                **constant,
            }
            for one in translations
        )
        return json_bytes({"translations": await json_items(service, items)})

    headers = {"X-Trace-ID": request.request_id}
    heartbeat = service.settings.server.heartbeat != "none"
    events = service.calls.events(request)
    return HeartbeatResponse(events, render, grace_s=RETRY_GRACE_S, headers=headers, heartbeat=heartbeat)


async def _request(call: Call) -> TranslationRequest:
    fields = call.fields
    source, target = direction_of(call)
    texts = await check_texts(call.service, fields.texts("text"), "text", allow_empty=True)
    check_ignored(fields)
    entries: Mapping[str, str] = {}
    key: tuple[object, ...] | None = None
    if "glossary_id" in fields or "glossary_ids" in fields:
        entries, key = await glossary_of(call, source, target)
    memories: tuple[str, ...] | None = None
    threshold: int | None = None
    if "translation_memory_id" in fields or "translation_memory_threshold" in fields:
        named, threshold = memory_of(fields)
        memories = await memories_of(call.service, call.account, named)
    request = TranslationRequest(
        texts,
        target,
        source,
        format=cast(TextFormat, fields.choice("tag_handling", "xml", "html", default="text")),
        options=Options(
            context=fields.text("context", most=None) or None,
            glossary=entries,
            glossary_key=key,
            memories=memories,
            memory_similarity=threshold,
            formality=formality_of(call, source, target) if "formality" in fields else "default",
            instructions=_instructions(call, source, target) if "custom_instructions" in fields else (),
            tags=TagRules(
                frozenset(_listed(fields, "ignore_tags")),
                frozenset(_listed(fields, "splitting_tags")),
                frozenset(_listed(fields, "non_splitting_tags")),
            ),
        ),
    )
    return call_of(call.http, call.account, "deepl", request, consecutive=fields.flag("consecutive"))


def _listed(fields: Fields, name: str) -> list[str]:
    """All values of a field, each of which may be several with commas between them."""
    found = ",".join(fields.text_list(name))
    if len(found) > MAX_LISTED_CHARACTERS:
        raise unsupported(name, f"it has {len(found)} characters; at most {MAX_LISTED_CHARACTERS}")
    return [part.strip() for part in found.split(",") if part.strip()]


def check_ignored(fields: Fields) -> None:
    """What has no effect must still have a value of DeepL's; what the server does not have is not found."""
    fields.choice("split_sentences", "0", "1", "nonewlines")
    for name in _IGNORED_FLAGS:
        fields.flag(name)
    if fields.text("style_id"):
        raise unsupported("style_id", "this server has no style rules")


def memory_of(fields: Fields) -> tuple[bool | str, int | None]:
    """The translation memory that is named, True for none: all of the key's; and from which similarity on its entries are
    examples, None: as the server is set."""
    named = fields.text("translation_memory_id")
    name = "translation_memory_threshold"
    threshold = str(fields.values.get(name, ""))
    if threshold and not (
        threshold.isascii() and threshold.isdecimal() and len(threshold) < 4 and int(threshold) <= 100
    ):
        raise unsupported(name, "give a whole number from 0 to 100")
    if threshold and not named:
        raise InvalidRequest(f"Parameter '{name}' needs Parameter 'translation_memory_id'", param=name)
    return named or True, int(threshold) if threshold else None


def formality_of(call: Call, source: str | None, target: str) -> Formality:
    allowed = ("default", "more", "less", "prefer_more", "prefer_less")
    chosen = cast(Formality, call.fields.choice("formality", *allowed, default="default"))
    if chosen in ("more", "less") and not can_express(call.service, source, target, PromptOptions(formality=chosen)):
        raise InvalidRequest(
            f"Target language {target.upper()!r} doesn't support formality with this server's model; "
            f"prefer_{chosen} uses it where it can",
            param="formality",
        )
    return chosen


def _instructions(call: Call, source: str | None, target: str) -> tuple[str, ...]:
    name = "custom_instructions"
    found = tuple(one for one in call.fields.text_list(name) if one)
    if len(found) > MAX_INSTRUCTIONS:
        raise unsupported(name, f"{len(found)} of them; at most {MAX_INSTRUCTIONS}")
    for one in found:
        if len(one) > MAX_INSTRUCTION_CHARACTERS:
            raise unsupported(name, f"one has {len(one)} characters; at most {MAX_INSTRUCTION_CHARACTERS}")
    if found and not can_express(call.service, source, target, PromptOptions(instructions=found)):
        raise unsupported(name, f"this server's model takes none for target language {target.upper()!r}")
    return found


async def glossary_of(
    call: Call, source: str | None, target: str
) -> tuple[Mapping[str, str], tuple[object, ...] | None]:
    """The entries of the named glossaries, those of the first going before those of the next; and a key for them."""
    one, several = call.fields.text("glossary_id"), _listed(call.fields, "glossary_ids")
    if one and several:
        raise InvalidRequest("Parameters 'glossary_id' and 'glossary_ids' exclude each other", param="glossary_ids")
    wanted = [one] if one else several
    if not wanted:
        return {}, None
    if len(wanted) > MAX_GLOSSARIES:
        raise unsupported("glossary_ids", f"at most {MAX_GLOSSARIES}")
    if source is None:
        raise InvalidRequest("A glossary needs Parameter 'source_lang'", param="source_lang")
    stored_ones, owner = call.service.glossaries, call.account.id
    found = [await stored_ones.dictionary(owner, reference, source, target) for reference in wanted]
    for reference, stored in zip(wanted, found, strict=True):
        if not stored.entries:
            raise UnknownGlossary(f"glossary {reference!r} has no dictionary for {source} to {target}")
    if len(found) == 1:
        return found[0].entries, found[0].key
    return ChainMap(*(dict(stored.entries) for stored in found)), tuple(stored.key for stored in found)
