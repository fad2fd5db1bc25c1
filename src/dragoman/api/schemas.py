"""The native API's wire format, as pydantic models: what OpenAPI documents."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from dragoman import types as translation

_STRICT = ConfigDict(extra="forbid", strict=True)


class TranslateBody(BaseModel):
    """`POST /v1/translate`."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {"text": "Where is the train station?", "source": "en", "target": "ja"},
                {"text": ["Good morning.", "Guten Morgen."], "target": "ko"},
                {"text": "Thank you very much.", "target": "zh", "stream": True},
            ]
        },
    )

    text: Annotated[str | list[str], Field(description="One text, or several that share target and options.")]
    target: Annotated[str, Field(description="BCP-47 tag of the language to translate into.")]
    source: Annotated[str | None, Field(description="BCP-47 tag; absent: detected for each text.")] = None
    stream: Annotated[bool, Field(description="Server-sent events instead of one JSON answer.")] = False
    context: Annotated[
        str | None, Field(description="Said around the text: informs the translation, is not translated.")
    ] = None
    force_output_tokens: Annotated[
        int | list[int] | None,
        Field(description="Exact output lengths; only on a server with dummy weights, for load tests."),
    ] = None


class WarningOut(BaseModel):
    """What may be wrong with a translation: a stable code, and a sentence for people."""

    model_config = _STRICT

    code: translation.WarningCode
    message: str
    missing: Annotated[
        list[str], Field(description="`copies` and `numbers`: what the translation lacks; else empty.")
    ] = []

    @classmethod
    def of(cls, warning: translation.TranslationWarning) -> WarningOut:
        return cls(code=warning.code, message=warning.message, missing=list(warning.missing))


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

    @classmethod
    def of(cls, one: translation.Translation) -> TranslationOut:
        return cls(
            text=one.text,
            source=one.source,
            detected=one.detected,
            finish_reason=one.finish_reason,
            warnings=[WarningOut.of(warning) for warning in one.warnings],
        )


class UsageOut(BaseModel):
    """What the call cost; characters are the source's."""

    model_config = _STRICT

    characters: int
    prompt_tokens: int
    completion_tokens: int

    @classmethod
    def of(cls, usage: translation.Usage) -> UsageOut:
        return cls(
            characters=usage.characters, prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens
        )


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


class ErrorBody(BaseModel):
    """What went wrong: a stable code, and a message for people."""

    code: str
    message: str
    param: str | None = None


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


class ModelsAnswer(BaseModel):
    """`GET /v1/models`."""

    object: str = "list"
    data: list[ModelOut]
