"""Prometheus metrics: those made of requests, calls and texts, and those read at a scrape (statistics, GPUs); and the rates of
the last minute.

vLLM's metrics (`vllm:*`) are in a registry of their own. Labels are bounded: language tags that the model serves, states,
codes; never texts, addresses or keys. docs/operating.md lists all of them, and a test compares it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import accumulate
from time import monotonic
from typing import Generic, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel

from dragoman.errors import Draining, QueueFull, Starting, codes
from dragoman.gpu import MIB, Gpu, Reading
from dragoman.telemetry.engine import INTER_TOKEN_LATENCY_BOUNDS_S, percentiles
from dragoman.telemetry.requests import (
    CANCELLED,
    FAILURES,
    OK,
    CallRecord,
    DocumentRecord,
    RequestTrace,
    TextRecord,
)
from dragoman.wire import (
    LENGTH_BAND_TOKENS,
    LENGTH_BANDS,
    CacheStats,
    EngineStats,
    Exported,
    LastMinute,
    RecorderStats,
    Stats,
)

_SECONDS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3, 5, 8, 13, 20, 30, 60, 120)
_WAITS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3, 5, 8, 13, 20, 30, 60)
_STORAGE_S = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_TOKENS = (5, 10, 20, 50, 100, 200, 400, 800, 1600, 3200, 6400)
_DOCUMENT_SECONDS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200)
_DOCUMENT_CHARACTERS = (100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
_RATIOS = (0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4, 6, 10)

REFUSALS = (QueueFull.code, Starting.code, Draining.code)
UNKNOWN = "unknown"


M = TypeVar("M", Counter, Histogram)


class _Children(dict[tuple[str, ...], M], Generic[M]):
    """A metric's children by the values of their labels. The client library's `labels` takes far longer than a look-up."""

    def __init__(self, metric: M) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, values: tuple[str, ...]) -> M:
        child = self[values] = self._metric.labels(*values)
        return child


class Metrics:
    """The service's metrics in a registry of its own, so that several services (in tests) do not collide. Where the
    service is one of several replicas, every sample of the exposition has its name as the label `replica`."""

    def __init__(self, replica: str = "") -> None:
        self.registry = CollectorRegistry()
        self._labels = {"replica": replica} if replica else {}
        self._calls()
        self._texts()
        self._documents()
        self._storage_seconds = _Children(
            self._histogram("storage_seconds", "Transactions, with the wait for a thread", _STORAGE_S, "operation")
        )
        self._storage_errors = self._counter(
            "storage_errors", "Transactions that the database failed to run", "operation"
        )
        for operation in ("read", "write"):
            _ = self._storage_errors[(operation,)]
        self.is_storage_up = True  # as of the last transaction
        self._answers = self._counter(
            "http_requests", "HTTP requests, by route, status and outcome", "route", "status", "outcome"
        )

    def _calls(self) -> None:
        self._requests = self._counter("requests", "Calls, by outcome: ok, cancelled or an error's code", "outcome")
        self._refusals = self._counter("admission_refusals", "Calls that were not admitted, by reason", "reason")
        self._api_calls = self._counter(
            "api_calls", "Calls, by the API that they came by, class of key and outcome", "api", "key", "outcome"
        )
        self._api_characters = self._counter(
            "api_characters", "Characters of translated texts, by API and class of key", "api", "key"
        )
        self._passed = self._counter(
            "prompts_passed",
            "Chats whose messages the model was given as they are, by API and outcome",
            "api",
            "outcome",
        )
        # From 0, so that a rate shows the first of them.
        for outcome in (OK, CANCELLED, *codes()):
            _ = self._requests[(outcome,)]
        for reason in REFUSALS:
            _ = self._refusals[(reason,)]
        for api in ("openai", "ollama"):
            _ = self._passed[api, OK]

    def _texts(self) -> None:
        self._ended = self._counter("texts", "Texts, by languages and outcome", "source", "target", "outcome")
        self._reasons = self._counter("finish_reasons", "Translations, by why they ended", "reason")
        self._warnings = self._counter("warnings", "Translations with a warning, by its code", "code")
        self._retries = self._counter("retries", "Segments retried because of a check, by its code", "code")
        self._remembered = Counter(
            "memory_segments",
            "Segments answered from translation memories",
            namespace="dragoman",
            registry=self.registry,
        )
        self._examples = Counter(
            "examples",
            "Examples that prompts had before a text; those that were copied are retries with the code copied_example",
            namespace="dragoman",
            registry=self.registry,
        )
        self._e2e = _Children(
            self._histogram("e2e_seconds", "From a text's arrival to its end, by length band", _SECONDS, "band")
        )
        self._queue = self._histogram("queue_seconds", "A text's longest time in the engine's queue", _WAITS_S)
        self._ttft = self._histogram("ttft_seconds", "From submission to a text's first token", _WAITS_S)
        self._source = self._histogram("source_tokens", "A text's length, without the prompt's template", _TOKENS)
        self._output = self._histogram("output_tokens", "A translation's length", _TOKENS)
        self._ratio = self._histogram("output_source_ratio", "Output tokens per source token of a text", _RATIOS)

    def _documents(self) -> None:
        self._ended_documents = self._counter(
            "documents", "Documents that ended, by format and outcome: ok or an error's code", "format", "outcome"
        )
        self._document_characters = self._histogram(
            "document_characters", "Characters to translate of a document that is done", _DOCUMENT_CHARACTERS
        )
        self._document_seconds = self._histogram(
            "document_seconds", "From a document's upload until it is done", _DOCUMENT_SECONDS
        )
        self._worker_seconds = _Children(
            self._histogram(
                "document_worker_seconds", "Reading or writing a file, with the wait for a worker", _SECONDS, "task"
            )
        )

    def document_ended(self, document: DocumentRecord) -> None:
        """Count a document by format and outcome; of one that is done, also its size and its time."""
        self._ended_documents[document.format, document.outcome].inc()
        if document.outcome == OK:
            self._document_characters.observe(document.characters)
            self._document_seconds.observe(document.elapsed_s)

    def document_worked_on(self, task: str, elapsed_s: float) -> None:
        """Record that a file was read, or written, whether it could be or not."""
        self._worker_seconds[(task,)].observe(elapsed_s)

    def storage_ended(self, operation: str, elapsed_s: float | None) -> None:
        """Record a transaction with its time; None: the database failed."""
        self.is_storage_up = elapsed_s is not None
        if elapsed_s is None:
            self._storage_errors[(operation,)].inc()
        else:
            self._storage_seconds[(operation,)].observe(elapsed_s)

    def text_ended(self, text: TextRecord) -> None:
        """Count a text by languages and outcome; of a translated one, also what the engine did with it."""
        self._ended[text.source or UNKNOWN, text.target, text.outcome].inc()
        if text.outcome != OK:
            return
        self._reasons[(text.finish_reason or UNKNOWN,)].inc()
        for code in set(text.warnings):
            self._warnings[(code,)].inc()
        for code in text.retries:
            self._retries[(code,)].inc()
        if text.remembered:
            self._remembered.inc(text.remembered)
        if text.examples:
            self._examples.inc(text.examples)
        if not text.source_tokens:  # there was nothing to translate, and no engine saw it
            return
        self._e2e[(LENGTH_BANDS[bisect_left(LENGTH_BAND_TOKENS, text.source_tokens)],)].observe(text.e2e_s)
        if text.queue_s is not None:
            self._queue.observe(text.queue_s)
        if text.ttft_s is not None:
            self._ttft.observe(text.ttft_s)
        self._source.observe(text.source_tokens)
        self._output.observe(text.output_tokens)
        self._ratio.observe(text.output_tokens / text.source_tokens)

    def call_ended(self, call: CallRecord) -> None:
        """Count a call by its outcome, and as a refusal where it is one."""
        self._requests[(call.outcome,)].inc()
        self._api_calls[call.api, call.key_class, call.outcome].inc()
        if call.is_chat:
            self._passed[call.api, call.outcome].inc()
        if characters := sum([text.source_characters for text in call.texts if text.outcome == OK]):
            self._api_characters[call.api, call.key_class].inc(characters)
        if call.outcome in REFUSALS:
            self._refusals[(call.outcome,)].inc()

    def answered(self, request: RequestTrace) -> None:
        """Count an HTTP request that has ended, also one that never became a call, such as one with a bad body."""
        self._answers[request.route or UNKNOWN, str(request.status), request.outcome].inc()

    def _counter(self, name: str, help: str, *labels: str) -> _Children[Counter]:
        return _Children(Counter(name, help, labels, namespace="dragoman", registry=self.registry))

    def _histogram(self, name: str, help: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(name, help, labels, namespace="dragoman", registry=self.registry, buckets=buckets)

    def exposition(self, *others: CollectorRegistry) -> bytes:
        """All metrics in Prometheus' text format."""
        return b"".join(generate_latest(_Exposed(one, self._labels)) for one in (self.registry, *others))


class _Exposed(CollectorRegistry):
    """A registry's families with more labels on every sample, and without the gauge of its creation time that the client
    library adds to every counter and histogram."""

    def __init__(self, registry: CollectorRegistry, labels: Mapping[str, str]) -> None:
        super().__init__()
        self._registry = registry
        self._labels = labels

    def collect(self) -> Iterator[Metric]:
        for kept in self._registry.collect():
            family = copy(kept)  # some collectors give the same one at each scrape
            family.samples = [
                one._replace(labels={**one.labels, **self._labels})
                for one in kept.samples
                if not one.name.endswith("_created")
            ]
            yield family


# ---- the last minute

RATE_WINDOW_S = 60.0


class _EndedText(NamedTuple):
    at_s: float
    e2e_s: float
    characters: int
    source_tokens: int
    output_tokens: int
    ok: bool


class RateWindow:
    """The texts that ended within the last minute, for `GET /v1/stats` and Retry-After: those that were translated, and
    those that failed through the server's fault. Each refusal asks for the rate of characters, in constant time."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._started_s = clock()
        self._ended: deque[_EndedText] = deque()
        self.characters = 0  # of those, and of the examples that prompts had with them

    def text_ended(self, text: TextRecord) -> None:
        """Count a text, and forget those that ended before the window."""
        now_s = self._clock()
        if text.outcome == OK:
            characters = text.source_characters + text.shown_characters
            self.characters += characters
            self._ended.append(_EndedText(now_s, text.e2e_s, characters, text.prompt_tokens, text.output_tokens, True))
        elif text.outcome in FAILURES:
            self._ended.append(_EndedText(now_s, 0.0, 0, 0, 0, False))
        self._forget(now_s)

    def _forget(self, now_s: float) -> None:
        while self._ended and self._ended[0].at_s < now_s - RATE_WINDOW_S:
            self.characters -= self._ended.popleft().characters

    def characters_per_s(self) -> float:
        """Characters per second, of texts and examples given with them, over the window or since the start; 0 if none ended."""
        now_s = self._clock()
        self._forget(now_s)
        if not self._ended:
            return 0.0
        busy_s = now_s - self._ended[0].at_s + self._ended[0].e2e_s
        return self.characters / min(max(busy_s, 1e-3), RATE_WINDOW_S)

    def summary(self) -> LastMinute:
        """Rates per second and latency percentiles in seconds, over the last minute."""
        now_s = self._clock()
        self._forget(now_s)
        span_s = max(min(RATE_WINDOW_S, now_s - self._started_s), 1e-3)
        done = [text for text in self._ended if text.ok]
        return LastMinute(
            texts_per_s=len(done) / span_s,
            failures_per_s=(len(self._ended) - len(done)) / span_s,
            source_tokens_per_s=sum(text.source_tokens for text in done) / span_s,
            output_tokens_per_s=sum(text.output_tokens for text in done) / span_s,
            e2e_s=percentiles([text.e2e_s for text in done]),
        )


# ---- read at a scrape

STATES = ("starting", "serving", "draining")

_FAMILIES = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}


def _exported(model: BaseModel) -> Iterator[Metric]:
    """The metrics that the fields of a model say they are `Exported` as; a value of None has no sample."""
    for field, info in type(model).model_fields.items():
        for metric in info.metadata:
            if isinstance(metric, Exported):
                help = (info.description or "").rstrip(".")
                yield _FAMILIES[metric.type](f"dragoman_{metric.name}", help, value=getattr(model, field))


class StatsCollector(Collector):
    """What `GET /v1/stats` reports: the service's state and load, its cache and recorder, the engine.

    `is_ready`: whether a request sent now would be served.
    """

    def __init__(self, read: Callable[[], Stats], is_ready: Callable[[], bool]) -> None:
        self._read = read
        self._is_ready = is_ready

    def collect(self) -> Iterator[Metric]:
        stats = self._read()
        yield from self._state(stats)
        for model in (stats, stats.cache, stats.engine):
            yield from _exported(model)
        yield _cache_lookups(stats.cache)
        yield _recorder(stats.recorder)
        yield _restarts(stats.engine)
        yield from _engines_elsewhere(stats.engine)
        yield _inter_token_latency(stats.engine)

    def _state(self, stats: Stats) -> Iterator[Metric]:
        names = ("version", "model", "profile", "pipeline", "device")
        info = GaugeMetricFamily("dragoman_info", "What runs here; always 1", labels=names)
        info.add_metric([getattr(stats, name) for name in names], 1)
        yield info
        state = "serving" if stats.state == "restarting" else stats.state  # which `dragoman_ready` shows
        states = GaugeMetricFamily("dragoman_state", "1 for the state that the server is in", labels=["state"])
        for one in STATES:
            states.add_metric([one], float(one == state))
        yield states
        yield GaugeMetricFamily(
            "dragoman_ready", "1 if a request sent now would be served", value=float(self._is_ready())
        )


def _cache_lookups(cache: CacheStats) -> Metric:
    lookups = CounterMetricFamily(
        "dragoman_cache_lookups", "Segments looked up in the cache, by what was found", labels=["result"]
    )
    for result, number in (("stored", cache.stored), ("in_flight", cache.in_flight), ("miss", cache.misses)):
        lookups.add_metric([result], number)
    return lookups


def _recorder(recorder: RecorderStats) -> Metric:
    texts = CounterMetricFamily(
        "dragoman_recorder_texts", "Texts that the traffic recorder wrote, or could not write", labels=["result"]
    )
    texts.add_metric(["written"], recorder.written)
    texts.add_metric(["lost"], recorder.lost)
    return texts


def _restarts(engine: EngineStats) -> Metric:
    restarts = CounterMetricFamily(
        "dragoman_engine_restarts", "Restarts of engines and worker processes, by reason", labels=["reason"]
    )
    restarts.add_metric(["crash"], engine.restarts - engine.hangs)
    restarts.add_metric(["hang"], engine.hangs)
    return restarts


def _engines_elsewhere(engine: EngineStats) -> Iterator[Metric]:
    up = GaugeMetricFamily("dragoman_remote_engine_up", "1 if an engine elsewhere gets sequences", labels=["url"])
    running = GaugeMetricFamily(
        "dragoman_remote_engine_running_sequences", "Sequences that an engine elsewhere runs", labels=["url"]
    )
    losses = CounterMetricFamily(
        "dragoman_remote_engine_losses", "How often an engine elsewhere could not be reached or failed", labels=["url"]
    )
    for one in engine.remote:
        up.add_metric([one.url], float(not one.fault))
        running.add_metric([one.url], one.running)
        losses.add_metric([one.url], one.losses)
    yield from (up, running, losses)


def _inter_token_latency(engine: EngineStats) -> Metric:
    bounds = [*map(str, INTER_TOKEN_LATENCY_BOUNDS_S), "+Inf"]
    counts = engine.inter_token_latency_buckets or (0,) * len(bounds)
    return HistogramMetricFamily(
        "dragoman_inter_token_latency_seconds",
        "Between a sequence's tokens: its mean, when it ends",
        buckets=list(zip(bounds, accumulate(counts), strict=True)),
        sum_value=engine.inter_token_latency_sum_s,
    )


@dataclass(frozen=True, slots=True)
class StorageGauges:
    """What the database holds, and what is near a limit. Documents by state and keys by condition; None: not known."""

    is_up: bool = True
    waiting: int = 0  # transactions
    documents: Mapping[str, int] | None = None
    folder_bytes: int | None = None
    folder_bytes_limit: int | None = None
    keys: Mapping[str, int] | None = None


class StorageCollector(Collector):
    """What a server with a database reports of it."""

    def __init__(self, read: Callable[[], StorageGauges]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        gauges = self._read()
        single = (
            ("storage_up", "1 if the last transaction did not fail", float(gauges.is_up)),
            ("storage_waiting_transactions", "Transactions that run, or wait for a thread", gauges.waiting),
            ("documents_folder_bytes", "Files in documents.folder", gauges.folder_bytes),
            ("documents_folder_bytes_limit", "documents.max_folder_bytes", gauges.folder_bytes_limit),
        )
        for name, help, value in single:
            if value is not None:
                yield GaugeMetricFamily(f"dragoman_{name}", help, value=value)
        labelled = (
            ("documents_in_flight", "Documents of all servers that wait or are translated", "state", gauges.documents),
            ("keys", "Valid keys, and those that are near a limit", "condition", gauges.keys),
        )
        for name, help, label, values in labelled:
            if values is not None:
                family = GaugeMetricFamily(f"dragoman_{name}", help, labels=[label])
                for value, number in values.items():
                    family.add_metric([value], number)
                yield family


class GpuCollector(Collector):
    """The GPUs' load; those that do not answer are left out."""

    def __init__(self, gpus: tuple[Gpu, ...], read: Callable[[], tuple[Reading, ...]]) -> None:
        self._gpus = gpus
        self._read = read

    def collect(self) -> Iterator[Metric]:
        busy = GaugeMetricFamily(
            "dragoman_gpu_utilization_ratio", "Share of time with a kernel running, 0 to 1", labels=["gpu"]
        )
        used = GaugeMetricFamily("dragoman_gpu_memory_used_bytes", "Memory in use, by all processes", labels=["gpu"])
        total = GaugeMetricFamily("dragoman_gpu_memory_bytes", "Total memory of the GPU", labels=["gpu"])
        for reading in self._read():
            busy.add_metric([str(reading.gpu)], reading.utilisation_percent / 100)
            used.add_metric([str(reading.gpu)], reading.memory_mib * MIB)
        for gpu in self._gpus:
            total.add_metric([str(gpu.index)], gpu.memory_mib * MIB)
        yield from (busy, used, total)
