"""Typed models of `GET /v1/stats`, `/v1/replicas` and `dragoman models --json`, used by server and bench.

A field that a later version adds has a default, and unknown fields are ignored, so that the load tests can read the
statistics of older and newer servers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field


@dataclass(frozen=True, slots=True)
class Combined:
    """How the values of several replicas are combined (`api/replicas.py`); a field without it is taken from one replica."""

    by: Callable[[list[Any]], Any]


@dataclass(frozen=True, slots=True)
class Exported:
    """The Prometheus metric that a field is exported as: its name after `dragoman_`. Its help is the field's description."""

    name: str
    type: Literal["gauge", "counter"] = "gauge"


Sum = Annotated[int, Combined(sum)]
SumFloat = Annotated[float, Combined(sum)]
Seconds = Annotated[float | None, Combined(max)]
"""A latency. For several replicas it is the largest, which the percentile of all their texts together cannot exceed."""


class Percentiles(BaseModel):
    """Latencies in seconds; null if nothing was measured yet."""

    p50: Seconds = None
    p95: Seconds = None
    p99: Seconds = None


class StartupPhase(BaseModel):
    """A phase of the last engine start, finished or not."""

    name: str
    duration_s: float
    usual_s: Annotated[float | None, Field(description="What it took at the start before, where that is known.")] = None


class RemoteEngineStats(BaseModel):
    """The current state of one engine elsewhere."""

    url: str
    software: Annotated[str, Field(description="As it reports itself; empty: it has not answered yet.")] = ""
    model: Annotated[str, Field(description="As requests name it there.")] = ""
    window: Annotated[
        int | None, Field(description="Tokens that prompt and output share; null: it does not report it.")
    ] = None
    slots: int
    running: int
    losses: Annotated[int, Field(description="How often it was lost since the server's start.")]
    busy: Annotated[bool, Field(description="It has asked to be left alone for a time.")]
    fault: Annotated[str, Field(description="Why it gets no sequences; empty: it does.")]
    lacks: Annotated[
        list[str],
        Field(
            description="What it has not, and an engine in this process has: `confidence` of translations, `token_ids` (a text "
            "with the name of a control token is refused), `forced_lengths` of load tests."
        ),
    ] = []


class EngineStats(BaseModel):
    """The current state of an engine. Counters count since the server's start, over all restarts of the engine."""

    running: Annotated[
        Sum, Exported("engine_running_sequences"), Field(description="Sequences prefilling or decoding.")
    ] = 0
    waiting: Annotated[
        Sum, Exported("engine_waiting_sequences"), Field(description="Sequences that wait to be scheduled.")
    ] = 0
    peak_running: Sum = 0
    kv_cache_usage: Annotated[
        float, Exported("engine_kv_cache_usage_ratio"), Field(description="Share of the KV cache in use, 0 to 1.")
    ] = 0.0
    kv_cache_tokens: Annotated[
        int | None,
        Combined(sum),
        Exported("engine_kv_cache_tokens"),
        Field(description="Tokens that the KV cache holds; null: not reported."),
    ] = None
    kv_cache_bytes_per_token: int | None = None
    preemptions: Annotated[
        Sum,
        Exported("engine_preemptions", "counter"),
        Field(description="Sequences preempted because the KV cache was full."),
    ] = 0
    restarts: Annotated[Sum, Field(description="Of engines or worker processes, after a crash.")] = 0
    hangs: Annotated[Sum, Field(description="Those restarts before which the engine hung.")] = 0
    restarting: Annotated[
        bool, Combined(max), Field(description="The engine has crashed, and sequences wait until it has restarted.")
    ] = False
    slot_limit: Annotated[
        int | None,
        Combined(min),
        Exported("engine_slot_limit"),
        Field(
            description="Sequences that may run at the same time, for an hour after crashes that no sequence caused alone; "
            "null: as configured."
        ),
    ] = None
    crashing_sequences: Annotated[
        Sum,
        Exported("engine_crashing_sequences", "counter"),
        Field(description="Sequences that crashed the engine alone, and were refused."),
    ] = 0
    steps: Annotated[Sum, Exported("engine_steps", "counter"), Field(description="Engine iterations.")] = 0
    finished: Annotated[
        Sum, Exported("engine_finished_sequences", "counter"), Field(description="Sequences that ended well.")
    ] = 0
    prompt_tokens: Annotated[
        Sum, Exported("engine_prompt_tokens", "counter"), Field(description="Prompt tokens of the engine's sequences.")
    ] = 0
    completion_tokens: Annotated[
        Sum, Exported("engine_output_tokens", "counter"), Field(description="Tokens that the engine generated.")
    ] = 0
    busy_s: Annotated[
        SumFloat,
        Exported("engine_busy_seconds", "counter"),
        Field(description="Time with at least one sequence running, in seconds."),
    ] = 0.0
    dtype: Annotated[str | None, Field(description="Weights and activations, as resolved for this machine.")] = None
    ttft_s: Annotated[Percentiles, Field(description="From submission to the first token, recently.")] = Percentiles()
    inter_token_latency_s: Annotated[Percentiles, Field(description="Of each sequence's mean, recently.")] = (
        Percentiles()
    )
    inter_token_latency_sum_s: SumFloat = 0.0
    inter_token_latency_count: Sum = 0
    inter_token_latency_buckets: Annotated[
        tuple[int, ...], Field(exclude=True, description="For `/metrics`: those beyond the last bound at the end.")
    ] = ()
    remote: Annotated[
        list[RemoteEngineStats], Field(description="Engines elsewhere; none where the engine is here.")
    ] = []
    startup: Annotated[list[StartupPhase], Field(description="Phases of the last engine start.")] = []


class CacheStats(BaseModel):
    """The cache of segments: its current size, and lookups since the start. All are 0 if it is off."""

    stored: Annotated[Sum, Field(description="Lookups that found the segment.")] = 0
    in_flight: Annotated[Sum, Field(description="Lookups that found it in flight, and waited for it.")] = 0
    misses: Sum = 0
    entries: Annotated[Sum, Exported("cache_entries"), Field(description="Segments in the cache.")] = 0
    bytes: Annotated[Sum, Exported("cache_bytes"), Field(description="Memory that the cache takes.")] = 0
    max_bytes: Sum = 0


class LastMinute(BaseModel):
    """Texts that ended within the last minute."""

    texts_per_s: Annotated[SumFloat, Field(description="Translated ones, as all that follow.")] = 0.0
    failures_per_s: Annotated[SumFloat, Field(description="Texts that failed through the server's fault.")] = 0.0
    source_tokens_per_s: SumFloat = 0.0
    output_tokens_per_s: SumFloat = 0.0
    e2e_s: Percentiles = Percentiles()


class RecorderStats(BaseModel):
    """The state of the traffic recorder; `failing`: its folder cannot be written."""

    state: Literal["on", "off", "failing"] = "off"
    written: Annotated[Sum, Field(description="Texts written since the start.")] = 0
    lost: Annotated[Sum, Field(description="Texts that could not be written.")] = 0


class Stats(BaseModel):
    """`GET /v1/stats`: the current state of engine and admission, and rates over the last minute.

    For several replicas, counters, sequences, limits, sizes and rates are sums; `kv_cache_usage` is the share of all
    caches together; a percentile is the largest of any replica; `uptime_s`, `startup` and `settings` are those of the
    replica that has run longest.
    """

    state: Annotated[
        Literal["starting", "serving", "draining", "restarting", "unreachable"],
        Field(
            description="Of several replicas: serving where one of them is. Unreachable: a replica that did not answer."
        ),
    ]
    replica: Annotated[
        str, Field(description="Which of several replicas this is about; empty: all, or the only one.")
    ] = ""
    version: str = ""
    model: str = ""
    profile: str = ""
    pipeline: str = ""
    device: str = ""
    template_difference: Annotated[
        str | None,
        Field(
            description="Of the profile's prompt from the checkpoint's own chat template; empty: none; null: not known."
        ),
    ] = None
    cpu_instruction_sets: Annotated[list[str], Field(description="Those that decide an engine's speed on a CPU.")] = []
    uptime_s: float = 0.0
    in_flight: Annotated[
        Sum, Exported("in_flight_requests"), Field(description="Calls that are admitted and not answered.")
    ] = 0
    in_flight_texts: Annotated[Sum, Exported("in_flight_texts"), Field(description="Texts of the calls in flight.")] = 0
    in_flight_characters: Annotated[
        Sum, Exported("admission_characters"), Field(description="Characters of the texts in flight.")
    ] = 0
    max_in_flight_characters: Annotated[
        Sum,
        Exported("admission_characters_limit"),
        Field(description="Characters in flight from which on calls are refused with 429."),
    ] = 0
    refused: Annotated[Sum, Field(description="Calls refused with 429.")] = 0
    engine: EngineStats = EngineStats()
    cache: CacheStats = CacheStats()
    last_minute: LastMinute = LastMinute()
    recorder: RecorderStats = RecorderStats()
    settings: dict[str, Any] = {}
    replicas: Annotated[
        list[Stats], Field(description="Each of several replicas by itself, in the order of names.")
    ] = []


class MetricsTarget(BaseModel):
    """An entry of `GET /v1/replicas` in the format of Prometheus' HTTP and file service discovery: the address of a
    replica's `/metrics`."""

    targets: Annotated[list[str], Field(description="One address, host:port, that the Prometheus server can reach.")]
    labels: Annotated[dict[str, str], Field(description="`replica`, and what else distinguishes the replicas.")] = {}


class PromptTemplate(BaseModel):
    """A prompt with slots in braces, such as `{text}` and `{source}`."""

    text: str
    system: str = ""


class ModelDescription(BaseModel):
    """`dragoman models --json`: a model, and the prompts of its profile."""

    path: Annotated[str, Field(description="The folder or hub id that vLLM is given.")]
    name: str
    profile: str
    title: str
    mode: Annotated[str, Field(description="chat, structured or raw.")]
    wire: Annotated[str | None, Field(description="The form around a turn; null: the checkpoint's chat template.")] = (
        None
    )
    chat_arguments: Annotated[dict[str, Any], Field(description="For the checkpoint's chat template.")] = {}
    max_source_tokens: Annotated[int | None, Field(description="Longer texts are cut into segments.")] = None
    licence: Annotated[str, Field(description="Of the weights, and where it does not allow their use.")] = ""
    templates: list[PromptTemplate]
    directions: Annotated[
        dict[str, int], Field(description="The template of each direction, by place; keys are like en>ja.")
    ]


LengthBand = Literal["short", "medium", "long"]
LENGTH_BANDS: tuple[LengthBand, ...] = ("short", "medium", "long")
LENGTH_BAND_TOKENS = (50, 120)
"""Source tokens up to which a text is `short`, or `medium`; longer ones are `long`. The same in metrics and reports."""


def length_band(source_tokens: int) -> LengthBand:
    """The band of a text's length, by its source tokens."""
    return LENGTH_BANDS[bisect_left(LENGTH_BAND_TOKENS, source_tokens)]
