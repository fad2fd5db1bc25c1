"""Typed models of `GET /v1/stats`, `/v1/traffic`, `/v1/replicas` and `dragoman models --json`, used by server and bench.

A field that a later version adds has a default, and unknown fields are ignored, so that a bench reads older and newer servers.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field


class Percentiles(BaseModel):
    """Latencies in seconds; null where nothing was measured yet."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


class KvCacheSize(BaseModel):
    """What the KV cache holds; null where the engine does not report it."""

    tokens: int | None = None
    bytes_per_token: int | None = None


class StartupPhase(BaseModel):
    """One phase of the last engine start."""

    name: str
    duration_s: float


class CacheStats(BaseModel):
    """The cache of segments: its size now, and lookups since the start. All 0: it is off, or the server has none."""

    stored: Annotated[int, Field(description="Lookups that found the segment.")] = 0
    in_flight: Annotated[int, Field(description="Lookups that found it in flight, and waited for it.")] = 0
    misses: int = 0
    entries: int = 0
    bytes: int = 0
    max_bytes: int = 0


class Stats(BaseModel):
    """`GET /v1/stats`: the engine and admission now, rates over the last minute.

    Of several replicas: counters, sequences, limits, sizes and rates are added up; `kv_cache_usage` is the share of all
    their caches; a percentile is the largest of any replica, which that of all their texts together cannot exceed;
    `uptime_s` and `startup` are those of the replica that runs longest; `settings` are those of one replica.
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
    model: str
    profile: str
    template_difference: Annotated[
        str | None,
        Field(
            description="Of the profile's prompt from the checkpoint's own chat template; empty: none; null: not known."
        ),
    ] = None
    pipeline: str
    device: str
    dtype: Annotated[str | None, Field(description="Weights and activations, as resolved for this machine.")] = None
    cpu_instruction_sets: Annotated[list[str], Field(description="Those that decide an engine's speed on a CPU.")] = []
    running: Annotated[int, Field(description="Running sequences.")]
    waiting: Annotated[int, Field(description="Sequences that wait to be scheduled.")]
    peak_running: int = 0
    kv_cache_usage: Annotated[float, Field(description="0 to 1.")]
    preemptions: int = 0
    restarts: int = 0
    steps: int = 0
    finished: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    in_flight: Annotated[int, Field(description="Admitted calls.")] = 0
    in_flight_characters: Annotated[int, Field(description="Of their texts.")] = 0
    max_in_flight_characters: Annotated[int, Field(description="Calls beyond this are refused with 429.")] = 0
    refused: int = 0
    busy_s: float = 0.0
    uptime_s: float = 0.0
    ttft_s: Percentiles = Percentiles()
    inter_token_latency_s: Percentiles = Percentiles()
    inter_token_latency_sum_s: float = 0.0
    inter_token_latency_count: int = 0
    kv_cache: KvCacheSize = KvCacheSize()
    cache: CacheStats = CacheStats()
    startup: list[StartupPhase] = []
    last_minute: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    replicas: Annotated[
        list[Stats], Field(description="Each of several replicas by itself, in the order of names.")
    ] = []


class TrafficPercentiles(BaseModel):
    """A quantity over the window; null where nothing of it is known."""

    p50: float | None = None
    p95: float | None = None
    max: float | None = None


class RecorderState(BaseModel):
    """The recorder on disk; `failing`: its folder cannot be written now."""

    state: Literal["on", "off", "failing"]
    written: int = 0
    lost: int = 0


class Traffic(BaseModel):
    """`GET /v1/traffic`: the texts that ended within the last hour.

    Of several replicas: texts, arrivals per second and outcomes are added up. A percentile and `peak_tokens` are the
    largest of any replica; for lengths and times that is a bound, which those of all texts together cannot exceed.
    `in_flight` and `peak_tokens` stay those of one replica, whose slots and cache they are to be compared with: how many
    texts were in flight in all replicas together only their recorded files say (`dragoman traffic show`).
    """

    replica: Annotated[
        str, Field(description="Which of several replicas this is about; empty: all, or the only one.")
    ] = ""
    unreachable: Annotated[bool, Field(description="The replica did not answer: nothing below is known of it.")] = False

    records: Annotated[int, Field(description="Texts, whatever their outcome.")]
    window_s: Annotated[float, Field(description="3600, or less: since the start, or as far back as is remembered.")]
    in_flight: Annotated[TrafficPercentiles, Field(description="In-flight texts at each arrival, itself included.")]
    source_tokens: Annotated[
        TrafficPercentiles, Field(description="Of texts that the model translated, as all lengths.")
    ]
    output_tokens: TrafficPercentiles
    queue_s: Annotated[TrafficPercentiles, Field(description="In the engine's queue, where it is reported.")]
    ttft_s: TrafficPercentiles
    e2e_s: Annotated[TrafficPercentiles, Field(description="Of texts that ended well, from arrival to end.")]
    arrivals_per_s: float
    peak_tokens: Annotated[
        int | None, Field(description="The most tokens, of prompts and outputs, that were in flight at one time.")
    ]
    outcomes: Annotated[dict[str, int], Field(description="Texts by outcome: ok, cancelled or an error's code.")]
    recorder: RecorderState
    replicas: Annotated[
        list[Traffic], Field(description="Each of several replicas by itself, in the order of names.")
    ] = []


class MetricsTarget(BaseModel):
    """An entry of `GET /v1/replicas`, as Prometheus' HTTP and file service discovery read it: where one replica's
    `/metrics` are."""

    targets: Annotated[list[str], Field(description="One address, host:port, that the Prometheus server can reach.")]
    labels: Annotated[dict[str, str], Field(description="`replica`, and what else distinguishes the replicas.")] = {}


class PromptTemplate(BaseModel):
    """A trained prompt: slots in braces, such as `{text}` and `{source}`."""

    text: str
    system: str = ""


class ModelDescription(BaseModel):
    """`dragoman models --json`: a model, and the prompts of the profile that is chosen for it."""

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
SHORT_TOKENS, MEDIUM_TOKENS = 50, 120
"""Source tokens up to which a text is `short`, or `medium`; longer ones are `long`. The same in metrics and reports."""


def length_band(source_tokens: int) -> LengthBand:
    """The band of a text's length, by its source tokens."""
    if source_tokens <= SHORT_TOKENS:
        return "short"
    return "medium" if source_tokens <= MEDIUM_TOKENS else "long"
