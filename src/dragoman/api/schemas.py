"""The native API's wire format, as pydantic models: what OpenAPI documents."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from dragoman import types as translation
from dragoman.telemetry.traffic.recorder import Recorder
from dragoman.telemetry.traffic.summary import Quantiles, Summary

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
    warnings: Annotated[list[str], Field(description="What may be wrong with the text, one sentence each.")]

    @classmethod
    def of(cls, one: translation.Translation) -> TranslationOut:
        return cls(
            text=one.text,
            source=one.source,
            detected=one.detected,
            finish_reason=one.finish_reason,
            warnings=list(one.warnings),
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


class Language(BaseModel):
    """A language that the model serves."""

    code: str
    name: str
    native_name: str
    targets: list[str]


class LanguagesAnswer(BaseModel):
    """`GET /v1/languages`."""

    languages: list[Language]


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


class QuantilesOut(BaseModel):
    """A quantity over the window; null where nothing of it is known."""

    p50: float | None = None
    p95: float | None = None
    max: float | None = None

    @classmethod
    def of(cls, found: Quantiles | None) -> QuantilesOut:
        return cls() if found is None else cls(p50=found.p50, p95=found.p95, max=found.highest)


class RecorderOut(BaseModel):
    """The recorder on disk; `failing`: its folder cannot be written now."""

    state: Literal["on", "off", "failing"]
    written: int = 0
    lost: int = 0

    @classmethod
    def of(cls, recorder: Recorder | None) -> RecorderOut:
        if recorder is None:
            return cls(state="off")
        return cls(state="failing" if recorder.failing else "on", written=recorder.written, lost=recorder.lost)


class TrafficAnswer(BaseModel):
    """`GET /v1/traffic`: the texts that ended within the last hour."""

    records: Annotated[int, Field(description="Texts, whatever became of them.")]
    window_s: Annotated[float, Field(description="3600, or less: since the start, or as far back as is remembered.")]
    in_flight: Annotated[QuantilesOut, Field(description="Texts in the house at each arrival, itself included.")]
    source_tokens: Annotated[QuantilesOut, Field(description="Of texts that the model translated, as all lengths.")]
    output_tokens: QuantilesOut
    queue_s: Annotated[QuantilesOut, Field(description="In the engine's queue, where it tells.")]
    ttft_s: QuantilesOut
    e2e_s: Annotated[QuantilesOut, Field(description="Of texts that ended well, from arrival to end.")]
    arrivals_per_s: float
    peak_tokens: Annotated[
        int | None, Field(description="The most that prompts and outputs in the house came to at one time.")
    ]
    outcomes: Annotated[dict[str, int], Field(description="Texts: ok, cancelled or an error's code.")]
    recorder: RecorderOut

    @classmethod
    def of(cls, summary: Summary, recorder: RecorderOut) -> TrafficAnswer:
        return cls(
            records=summary.records,
            window_s=summary.window_s,
            in_flight=QuantilesOut.of(summary.in_flight),
            source_tokens=QuantilesOut.of(summary.source_tokens),
            output_tokens=QuantilesOut.of(summary.output_tokens),
            queue_s=QuantilesOut.of(summary.queue_s),
            ttft_s=QuantilesOut.of(summary.ttft_s),
            e2e_s=QuantilesOut.of(summary.e2e_s),
            arrivals_per_s=summary.arrivals_per_s,
            peak_tokens=summary.peak_tokens,
            outcomes=summary.outcomes,
            recorder=recorder,
        )
