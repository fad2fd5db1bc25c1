"""The shapes of DeepL's API, for our OpenAPI description and for tests: no response is built through them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel
from pydantic.json_schema import SkipJsonSchema

_EXACT = ConfigDict(extra="forbid")
_OR_ABSENT = SkipJsonSchema[None]


class DeepLError(BaseModel):
    """Every error."""

    model_config = _EXACT

    message: str
    detail: str | _OR_ABSENT = None


class DeepLTranslation(BaseModel):
    """One text's translation."""

    model_config = _EXACT

    detected_source_language: Annotated[str, Field(description="In upper case; `source_lang` where it was given.")]
    text: str
    billed_characters: Annotated[int, Field(description="Characters of the source.")]
    model_type_used: Annotated[str | _OR_ABSENT, Field(description="Where `model_type` was given.")] = None
    tag_handling_version: Annotated[
        Literal["v1", "v2"] | _OR_ABSENT, Field(description="Where `tag_handling` was given.")
    ] = None


class DeepLTranslations(BaseModel):
    """The answer to `POST /v2/translate`."""

    model_config = _EXACT

    translations: list[DeepLTranslation]


class DeepLUsage(BaseModel):
    """The answer to `GET /v2/usage`."""

    model_config = _EXACT

    character_count: Annotated[int, Field(description="Of this month, in UTC.")]
    character_limit: int
    api_key_character_count: int
    api_key_character_limit: int
    start_time: datetime
    end_time: datetime


class DeepLLanguage(BaseModel):
    """A language of `GET /v2/languages`."""

    model_config = _EXACT

    language: str
    name: str
    supports_formality: Annotated[bool | _OR_ABSENT, Field(description="Of targets alone.")] = None


class DeepLLanguages(RootModel[list[DeepLLanguage]]):
    """The answer to `GET /v2/languages`."""


class DeepLFeature(BaseModel):
    """A feature of a language."""

    model_config = _EXACT

    status: Literal["stable", "beta", "early_access"]


class DeepLResourceLanguage(BaseModel):
    """A language of `GET /v3/languages`."""

    model_config = _EXACT

    lang: str
    name: str
    usable_as_source: bool
    usable_as_target: bool
    status: Literal["stable", "beta", "early_access"]
    features: dict[str, DeepLFeature]


class DeepLResourceLanguages(RootModel[list[DeepLResourceLanguage]]):
    """The answer to `GET /v3/languages`."""


class DeepLResourceFeature(BaseModel):
    """A feature of a resource, and which languages of a pair must have it."""

    model_config = _EXACT

    name: str
    needs_source_support: bool | _OR_ABSENT = None
    needs_target_support: bool | _OR_ABSENT = None


class DeepLResource(BaseModel):
    """A resource of `GET /v3/languages/resources`."""

    model_config = _EXACT

    name: str
    features: list[DeepLResourceFeature]


class DeepLResources(RootModel[list[DeepLResource]]):
    """The answer to `GET /v3/languages/resources`."""


class DeepLPair(BaseModel):
    """A pair of languages."""

    model_config = _EXACT

    source_lang: str
    target_lang: str


class DeepLPairs(BaseModel):
    """The answer to `GET /v2/glossary-language-pairs`."""

    model_config = _EXACT

    supported_languages: list[DeepLPair]


class DeepLDictionary(DeepLPair):
    """One pair of a glossary of version 3, without its entries."""

    entry_count: int


class DeepLEntries(DeepLPair):
    """One pair of a glossary of version 3, with its entries."""

    entries: str
    entries_format: Literal["tsv"]


class DeepLEntriesAnswer(BaseModel):
    """The answer to `GET /v3/glossaries/{glossary_id}/entries`."""

    model_config = _EXACT

    dictionaries: list[DeepLEntries]


class DeepLGlossary(DeepLPair):
    """A glossary of version 2: one pair of languages."""

    glossary_id: str
    name: str
    ready: bool
    creation_time: datetime
    entry_count: int


class DeepLGlossaries(BaseModel):
    """The answer to `GET /v2/glossaries`."""

    model_config = _EXACT

    glossaries: list[DeepLGlossary]


class DeepLMultilingualGlossary(BaseModel):
    """A glossary of version 3: several pairs of languages."""

    model_config = _EXACT

    glossary_id: str
    name: str
    dictionaries: list[DeepLDictionary]
    creation_time: datetime


class DeepLMultilingualGlossaries(BaseModel):
    """The answer to `GET /v3/glossaries`."""

    model_config = _EXACT

    glossaries: list[DeepLMultilingualGlossary]


# ---- request bodies, which the routes read themselves

_TEXT: Any = {"type": "string"}
_TEXTS: Any = {"type": "array", "items": _TEXT}
_FLAG: Any = {"type": "boolean"}
_ENTRIES: Any = {
    "source_lang": _TEXT,
    "target_lang": _TEXT,
    "entries": {**_TEXT, "example": "server\tServer\nqueue\tWarteschlange"},
    "entries_format": {**_TEXT, "enum": ["tsv", "csv"]},
}
_DICTIONARIES: Any = {
    "type": "array",
    "items": {"type": "object", "properties": _ENTRIES, "required": list(_ENTRIES)},
}
TRANSLATE: Any = {
    "text": {**_TEXTS, "minItems": 1, "example": ["Where is the train station?"]},
    "target_lang": {**_TEXT, "example": "JA"},
    "source_lang": _TEXT,
    "context": _TEXT,
    "split_sentences": {**_TEXT, "enum": ["0", "1", "nonewlines"]},
    "preserve_formatting": _FLAG,
    "formality": {**_TEXT, "enum": ["default", "more", "less", "prefer_more", "prefer_less"]},
    "glossary_id": _TEXT,
    "glossary_ids": {**_TEXTS, "maxItems": 5},
    "tag_handling": {**_TEXT, "enum": ["xml", "html"]},
    "tag_handling_version": {**_TEXT, "enum": ["v1", "v2"]},
    "outline_detection": _FLAG,
    "splitting_tags": _TEXTS,
    "non_splitting_tags": _TEXTS,
    "ignore_tags": _TEXTS,
    "model_type": {**_TEXT, "enum": ["quality_optimized", "latency_optimized", "prefer_quality_optimized"]},
    "custom_instructions": {"type": "array", "items": {**_TEXT, "maxLength": 300}, "maxItems": 10},
    "show_billed_characters": _FLAG,
}
CREATE: Any = {"name": _TEXT, **_ENTRIES}
CREATE_MULTILINGUAL: Any = {"name": _TEXT, "dictionaries": _DICTIONARIES}
REPLACE: Any = _ENTRIES


def body_of(properties: Any, *required: str) -> dict[str, Any]:
    """How OpenAPI shows a body: as JSON, and as a form."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    content = {kind: {"schema": schema} for kind in ("application/json", "application/x-www-form-urlencoded")}
    return {"requestBody": {"required": True, "content": content}}
