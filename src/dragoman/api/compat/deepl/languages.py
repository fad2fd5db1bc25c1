"""The languages that the model serves, by the codes of DeepL's API: `/v2/languages`, `/v3/languages`, the glossaries' pairs.

A source has a base code (`EN`, `ZH`), a target may be a variant (`EN-GB`, `ZH-HANT`). Every BCP-47 tag that
`dragoman.languages` knows is accepted in requests, in any case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from fastapi import APIRouter
from fastapi.responses import Response

from dragoman import languages
from dragoman.api.compat.deepl.calls import DeepLCall, answer
from dragoman.errors import UnsupportedLanguage
from dragoman.service.service import TranslationService
from dragoman.types import PromptOptions

router = APIRouter()

_VARIANTS: Mapping[str, tuple[str, ...]] = {
    "en": ("en-GB", "en-US"),
    "es": ("es", "es-419"),
    "no": ("nb",),
    "pt": ("pt-BR", "pt-PT"),
    "zh": ("zh", "zh-Hans"),
}
"""The targets that DeepL's clients know for a model's language; `EN` and `PT` they send no more."""
_RESOURCES: Mapping[str, Mapping[str, tuple[bool, bool]]] = {
    "translate_text": {
        "auto_detection": (True, False),
        "formality": (False, True),
        "glossary": (True, True),
        "tag_handling": (True, True),
        "translation_memory": (True, True),
    },
    "translate_document": {
        "auto_detection": (True, False),
        "formality": (False, True),
        "glossary": (True, True),
        "translation_memory": (True, True),
    },
    "glossary": {},
    "translation_memory": {},
}
"""DeepL's resources that the server has, and by feature whether the source and the target must have it."""
_OTHER_RESOURCES = ("voice", "write", "style_rules")
_STABLE = {"status": "stable"}


def _served(service: TranslationService, tag: str) -> str | None:
    """The model's own tag for a language. Raises `UnsupportedLanguage` for what is none."""
    return languages.match(tag, tuple(service.model.profile.languages))


@lru_cache(maxsize=512)
def source_code(tag: str) -> str:
    """DeepL's code for a source language: `EN` for `en-US`; `UND` where the language could not be detected."""
    try:
        base = languages.primary(tag)
    except UnsupportedLanguage:
        return tag.upper()
    return "NB" if base == "no" else base.upper()


def source_codes(service: TranslationService) -> list[str]:
    """DeepL's codes of the languages that the model translates from, in the order of the model's."""
    return list(dict.fromkeys(map(source_code, service.model.profile.languages)))


def target_tags(service: TranslationService) -> list[str]:
    """The tags of the targets that DeepL's clients know, in the order of the model's languages."""
    served = service.model.profile.languages
    return list(dict.fromkeys(variant for tag in served for variant in _VARIANTS.get(tag, (tag,))))


def can_express(service: TranslationService, source: str | None, target: str, options: PromptOptions) -> bool:
    """Whether the model can be given all of these options for a target; by any source where that is not known."""
    profile = service.model.profile
    served = _served(service, target)
    sources = [_served(service, source)] if source else profile.languages
    return any(
        other != served and profile.serves(other, served) and profile.honours(other, served, options) == options.given
        for other in sources
        if other is not None and served is not None
    )


_FORMAL = PromptOptions(formality="more")


@router.get("/v2/languages")
async def v2_languages(call: DeepLCall) -> Response:
    """The sources, or with `type=target` the targets. The type may also come as a form body, as DeepL's Python
    client sends it."""
    kind = call.fields.choice("type", "source", "target", default="source")
    if kind == "source":
        found = [{"language": code, "name": languages.name(code)} for code in source_codes(call.service)]
        return answer(found)
    return answer(
        [
            {
                "language": tag.upper(),
                "name": languages.name(tag),
                "supports_formality": can_express(call.service, None, tag, _FORMAL),
            }
            for tag in target_tags(call.service)
        ]
    )


@router.get("/v2/glossary-language-pairs")
async def glossary_language_pairs(call: DeepLCall) -> Response:
    """The pairs that the model translates; glossaries of other pairs can be stored, but have no use."""
    pairs = [{"source_lang": source, "target_lang": target} for source, target in _pairs(call.service)]
    return answer({"supported_languages": pairs})


@router.get("/v3/languages/resources")
async def v3_resources(call: DeepLCall) -> Response:
    """What the server offers of DeepL's API, and which of a pair's languages must have a feature."""
    return answer(
        [
            {
                "name": name,
                "features": [
                    {"name": feature}
                    | ({"needs_source_support": True} if of_source else {})
                    | ({"needs_target_support": True} if of_target else {})
                    for feature, (of_source, of_target) in features.items()
                ],
            }
            for name, features in _RESOURCES.items()
            if name != "translate_document" or call.service.translates_documents
        ]
    )


@router.get("/v3/languages")
async def v3_languages(call: DeepLCall) -> Response:
    """The languages of a resource: sources and targets in one list. Of a resource that the server does not offer: none."""
    call.fields.required("resource")
    resource = call.fields.choice("resource", *_RESOURCES, *_OTHER_RESOURCES)
    if resource in _OTHER_RESOURCES or (resource == "translate_document" and not call.service.translates_documents):
        return answer([])
    if resource in ("glossary", "translation_memory"):
        return answer(list(_glossary_languages(call.service)))
    return answer(list(_translated_languages(call.service, resource)))


def _translated_languages(service: TranslationService, resource: str) -> Iterator[dict[str, object]]:
    sources = {languages.normalise(code): None for code in source_codes(service)}
    targets = target_tags(service)
    for tag in dict.fromkeys([*sources, *targets]):
        features = ["glossary", "translation_memory", *(["tag_handling"] if resource == "translate_text" else [])]
        features += ["auto_detection"] if tag in sources else []
        features += ["formality"] if tag in targets and can_express(service, None, tag, _FORMAL) else []
        yield _listed(tag, features, source=tag in sources, target=tag in targets)


def _glossary_languages(service: TranslationService) -> Iterator[dict[str, object]]:
    pairs = list(_pairs(service))
    sources, targets = {source for source, _ in pairs}, {target for _, target in pairs}
    for code in source_codes(service):
        tag = code.lower()
        yield _listed(tag, [], source=tag in sources, target=tag in targets)


def _listed(tag: str, features: list[str], *, source: bool, target: bool) -> dict[str, object]:
    return {
        "lang": tag,
        "name": languages.name(tag),
        "usable_as_source": source,
        "usable_as_target": target,
        "status": "stable",
        "features": dict.fromkeys(sorted(features), _STABLE),
    }


def _pairs(service: TranslationService) -> Iterator[tuple[str, str]]:
    """Base codes in lower case."""
    profile = service.model.profile
    tags = {code.lower(): _served(service, code) for code in source_codes(service)}
    for source, source_tag in tags.items():
        for target, target_tag in tags.items():
            if source != target and source_tag and target_tag and profile.serves(source_tag, target_tag):
                yield source, target
