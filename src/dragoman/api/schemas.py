"""The native API's wire format, as pydantic models: what OpenAPI documents."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from types import NoneType
from typing import Annotated, Any, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from dragoman import types as translation
from dragoman.service.alternatives import MAX_ALTERNATIVES

T = TypeVar("T")

# ---- bodies: the first fault is reported, and what is after it is not looked at

UNKNOWN_FIELD = "extra_forbidden"
"""Pydantic's type of the error for a field that a body does not have."""

Items = Annotated[list[T], Field(fail_fast=True)]
"""A list in a body."""


def _check_entries(value: Any, empty: type = str) -> Any:
    if isinstance(value, dict):
        for name, entry in cast(dict[str, object], value).items():
            if not isinstance(entry, (str, empty)):
                raise PydanticCustomError("string_type", "the entry {name} is not a string", {"name": name[:40]})
    return cast(Any, value)


Entries = Annotated[dict[str, str], BeforeValidator(_check_entries)]
"""Terms and their translations in a body."""
EntryChanges = Annotated[dict[str, str | None], BeforeValidator(partial(_check_entries, empty=NoneType))]
"""The same; null deletes a term's entry."""


class RequestBody(BaseModel):
    """A body with these fields and no others."""

    model_config = ConfigDict(extra="forbid", strict=True)


# ---- translations

_STRICT = ConfigDict(extra="forbid", strict=True)
EVENT: dict[str, object] = {"type": "object", "properties": {"data": {"type": "string"}}, "required": ["data"]}
"""How OpenAPI describes one of several server-sent events."""


class ExampleIn(RequestBody):
    """A text and its translation."""

    source: str
    translation: str


class TranslateBody(RequestBody):
    """`POST /v1/translate`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": "Where is the train station?", "source": "en", "target": "ja"},
                {"text": ["Good morning.", "Guten Morgen."], "target": "ko"},
                {"text": "Thank you very much.", "target": "zh", "stream": True},
                {"text": "<p>Can I pay by <b>credit card</b>?</p>", "target": "ja", "format": "html"},
            ]
        },
    )

    text: Annotated[str | Items[str], Field(description="One text, or several that share target and options.")]
    target: Annotated[str, Field(description="BCP-47 tag of the language to translate into.")]
    source: Annotated[str | None, Field(description="BCP-47 tag; absent: detected for each text.")] = None
    stream: Annotated[bool, Field(description="Server-sent events instead of one JSON answer.")] = False
    alternatives: Annotated[
        int,
        Field(ge=0, le=MAX_ALTERNATIVES, description="How many other translations of each text are wanted."),
    ] = 0
    format: Annotated[
        translation.PublicFormat, Field(description="What the text is; its structure comes back as it was.")
    ] = "text"
    context: Annotated[
        str | None, Field(description="Said around the text: informs the translation, is not translated.")
    ] = None
    consecutive: Annotated[
        bool,
        Field(description="The texts follow each other, such as subtitles: those before a text are its context."),
    ] = False
    glossary: Annotated[
        Entries | str | None,
        Field(description="Terms and their translations, or the id or name of a stored glossary."),
    ] = None
    memory: Annotated[
        bool | str,
        Field(description="Whether the key's translation memories are used; or the id or name of the only one to use."),
    ] = True
    memory_examples: Annotated[
        int | None,
        Field(
            ge=0,
            le=translation.MAX_MEMORY_EXAMPLES,
            description="How many similar entries of the memories a prompt shows the model at most, where its profile can; "
            "absent: as the server is set.",
        ),
    ] = None
    memory_similarity: Annotated[
        float | None,
        Field(ge=0, le=100, description="Of these entries, the least similarity; absent: as the server is set."),
    ] = None
    examples: Annotated[
        Items[ExampleIn],
        Field(description="Texts with their translations, which the model sees before the text where its profile can."),
    ] = []
    keep: Annotated[Items[str], Field(description="Terms that are not to be translated.")] = []
    formality: Annotated[translation.Formality, Field(description="Where the model's profile can express it.")] = (
        "default"
    )
    instructions: Annotated[Items[str], Field(description="To the model, where its profile can express them.")] = []
    ignore_tags: Annotated[Items[str], Field(description="html, xml: elements that are copied.")] = []
    splitting_tags: Annotated[Items[str], Field(description="html, xml: elements that end a sentence.")] = []
    non_splitting_tags: Annotated[Items[str], Field(description="html, xml: elements within a sentence.")] = []
    strict: Annotated[
        bool, Field(description="A translation that fails a check is an error of that text, not a warning.")
    ] = False
    priority: Annotated[translation.Priority, Field(description="`bulk` leaves slots free for interactive calls.")] = (
        "interactive"
    )
    deadline_s: Annotated[
        float | None,
        Field(
            gt=0,
            le=86_400,
            description="Seconds after which the answer is of no use: 504 then. Absent: as `X-Request-Timeout` says.",
        ),
    ] = None
    # Sent by dragoman's own commands alone, and in no public schema.
    confidence_inputs: SkipJsonSchema[bool] = False  # for `check-model --calibrate`
    force_output_tokens: SkipJsonSchema[int | Items[int] | None] = None  # for `bench`, of a server with dummy weights


class ErrorBody(BaseModel):
    """What went wrong: a stable code, and a message for people."""

    code: str
    message: str
    param: str | None = None


class TextPlaceOut(BaseModel):
    """A part of a translation, in Unicode code points: from `start` to before `end`."""

    model_config = _STRICT

    start: int
    end: int
    source_start: Annotated[int | None, Field(description="The same of its source; null: unknown.")] = None
    source_end: int | None = None


class WarningOut(BaseModel):
    """What may be wrong with a translation: a stable code, and a sentence for people."""

    model_config = _STRICT

    code: translation.WarningCode
    message: str
    missing: Annotated[
        list[str],
        Field(
            description="What the translation lacks, or has of an example alone; empty where the code names nothing."
        ),
    ] = []
    places: Annotated[
        list[TextPlaceOut],
        Field(description="The sentences or segments of which it is said; empty: of the text as a whole, or unknown."),
    ] = []

    @classmethod
    def of(cls, found: translation.TranslationWarning) -> WarningOut:
        places = [TextPlaceOut.model_validate(asdict(one)) for one in found.places]
        return cls(code=found.code, message=found.message, missing=list(found.missing), places=places)


class AlternativeOut(BaseModel):
    """Another translation of a text."""

    text: str
    confidence: float | None
    confidence_kind: Annotated[
        translation.ConfidenceKind | None, Field(description="How `confidence` is meant, as that of a translation.")
    ]
    warnings: list[WarningOut]

    @classmethod
    def of(cls, found: translation.Translation) -> AlternativeOut:
        return cls(
            text=found.text,
            confidence=found.confidence,
            confidence_kind=found.confidence_kind,
            warnings=[WarningOut.of(one) for one in found.warnings],
        )


class ExampleOut(BaseModel):
    """A text and its translation that a prompt had before the text."""

    model_config = _STRICT

    source: str
    translation: str


class ExamplesOut(BaseModel):
    """What prompts had before the text."""

    model_config = _STRICT

    count: Annotated[int, Field(description="How many, of all segments.")]
    best_similarity: Annotated[
        float | None,
        Field(
            description="Of an entry of a translation memory to its segment, 0 to 100; null: the call gave all of them."
        ),
    ]
    best: Annotated[ExampleOut, Field(description="The most similar one; the last where the call gave all of them.")]

    @classmethod
    def of(cls, used: tuple[translation.Example, ...]) -> ExamplesOut:
        """`used`: one or more."""
        best = max(reversed(used), key=lambda one: one.similarity)
        similarity = round(best.similarity, 1) if best.similarity else None
        shown = ExampleOut(source=best.source, translation=best.translation)
        return cls(count=len(used), best_similarity=similarity, best=shown)


class TranslationOut(BaseModel):
    """One text's translation."""

    model_config = _STRICT

    text: str
    source: Annotated[str, Field(description="The source language's tag, as given or as detected.")]
    detected: Annotated[bool, Field(description="Whether the source language was detected.")]
    finish_reason: Annotated[
        translation.FinishReason,
        Field(
            description="`stop`: whole. `unchanged`: nothing to translate. `length`, `repetition`: may be incomplete."
        ),
    ]
    warnings: Annotated[list[WarningOut], Field(description="What may be wrong with the text.")]
    confidence: Annotated[
        float | None,
        Field(
            description="That the translation is right, 0 to 1; `confidence_kind` says how it is meant. null: unknown."
        ),
    ] = None
    confidence_kind: Annotated[
        translation.ConfidenceKind | None,
        Field(
            description="`calibrated`: the share of translations with this `confidence` that are right. `rank`: the share of "
            "the model's recent translations of these languages that are less likely to be right. null: there is none."
        ),
    ] = None
    confidence_inputs: Annotated[
        SkipJsonSchema[list[dict[str, float]] | None], Field(exclude_if=lambda value: value is None)
    ] = None  # by segment, where they were asked for; empty: unknown
    retries: Annotated[
        list[translation.RetryReason],
        Field(description="Why segments were translated again; `cut_around`, `aligned`: how tags were kept."),
    ] = []
    cached: Annotated[
        int, Field(description="Segments that were in the cache, or in flight for another text, and cost nothing.")
    ] = 0
    memory: Annotated[
        translation.MemoryUse | None,
        Field(description="How much of the text is a person's translation, from a translation memory; null: nothing."),
    ] = None
    remembered: Annotated[int, Field(description="Segments from a translation memory.")] = 0
    examples: Annotated[
        ExamplesOut | None, Field(description="What prompts had before the text; null: no examples.")
    ] = None
    error: Annotated[
        ErrorBody | None, Field(description="`strict` alone: this text failed a check; `text` is empty.")
    ] = None
    alternatives: Annotated[
        list[AlternativeOut],
        Field(
            exclude_if=lambda value: not value,
            description="Where they were asked for: other translations, none of which has a warning that this one has not.",
        ),
    ] = []


class UsageOut(BaseModel):
    """What the call cost; characters are the source's."""

    model_config = _STRICT

    characters: int
    prompt_tokens: int
    completion_tokens: int


class TranslateAnswer(BaseModel):
    """The answer to `POST /v1/translate`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "translations": [
                        {
                            "text": "駅はどこですか？",
                            "source": "en",
                            "detected": False,
                            "finish_reason": "stop",
                            "warnings": [],
                            "confidence": 0.9731,
                            "confidence_kind": "calibrated",
                            "retries": [],
                            "cached": 0,
                            "memory": None,
                            "remembered": 0,
                            "examples": None,
                            "error": None,
                        }
                    ],
                    "model": "phrasebook",
                    "usage": {"characters": 27, "prompt_tokens": 11, "completion_tokens": 7},
                }
            ]
        }
    )

    translations: list[TranslationOut]
    model: str
    usage: UsageOut


class ErrorAnswer(BaseModel):
    """Every error's shape."""

    error: ErrorBody


class LanguageOut(BaseModel):
    """A language that the model serves."""

    code: str
    name: str
    native_name: str
    targets: list[str]


class LanguagesAnswer(BaseModel):
    """`GET /v1/languages`."""

    languages: list[LanguageOut]


class ModelOut(BaseModel):
    """A model in OpenAI's list shape."""

    id: str
    object: str = "model"
    created: int
    owned_by: str = "dragoman"
    profile: str
    max_model_len: int | None = None
    confidence_calibrated: Annotated[
        bool, Field(description="Whether `confidence` is fitted for this model; otherwise it is a rank.")
    ] = False
    takes_examples: Annotated[
        bool, Field(description="Whether its prompts have a place for texts with their translations.")
    ] = False
    takes_formality: Annotated[bool, Field(description="Whether its prompts can say how people are addressed.")] = False


class ModelsAnswer(BaseModel):
    """`GET /v1/models`."""

    object: str = "list"
    data: list[ModelOut]
