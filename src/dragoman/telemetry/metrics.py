"""Every Prometheus metric that is made of calls, texts and HTTP requests, once, and the registry of all of dragoman's own.

What is read at a scrape (`dragoman_engine_*`, `dragoman_gpu_*`, ...) is in `collectors.py`; vLLM's metrics (`vllm:*`) stand
beside ours in a registry of its own. Labels are bounded: language tags that the model serves, states, codes; never texts,
addresses or keys. docs/operating.md lists all of them, and a test holds that it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from dragoman.errors import Draining, QueueFull, Starting, codes
from dragoman.telemetry.calls import CANCELLED, OK, CallRecord, Observer, TextRecord
from dragoman.telemetry.requests import RequestTrace
from dragoman.wire import length_band

_SECONDS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3, 5, 8, 13, 20, 30, 60, 120)
_WAITS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3, 5, 8, 13, 20, 30, 60)
_TOKENS = (5, 10, 20, 50, 100, 200, 400, 800, 1600, 3200, 6400)
_RATIOS = (0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4, 6, 10)

REFUSALS = (QueueFull.code, Starting.code, Draining.code)
UNKNOWN = "unknown"


class Metrics(Observer):
    """The service's metrics in a registry of its own, so that several services (in tests) do not collide."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._calls()
        self._texts()
        self._answers = self._counter(
            "http_requests", "HTTP requests, by route, status and outcome", "route", "status", "outcome"
        )

    def _calls(self) -> None:
        self._requests = self._counter("requests", "Calls, by outcome: ok, cancelled or an error's code", "outcome")
        self._refusals = self._counter("admission_refusals", "Calls that were not admitted, by reason", "reason")
        # From 0, so that a rate shows the first of them.
        for outcome in (OK, CANCELLED, *codes()):
            self._requests.labels(outcome)
        for reason in REFUSALS:
            self._refusals.labels(reason)

    def _texts(self) -> None:
        self._ended = self._counter("texts", "Texts, by languages and outcome", "source", "target", "outcome")
        self._reasons = self._counter("finish_reasons", "Translations, by why they ended", "reason")
        self._warnings = self._counter("guard_warnings", "Translations given with a guard's warning", "guard")
        self._retries = self._counter("guard_retries", "Pieces translated again because of a guard", "guard")
        self._e2e = self._histogram("e2e_seconds", "A text's time in the house, by length band", _SECONDS, "band")
        self._queue = self._histogram("queue_seconds", "A text's longest wait for the engine to begin", _WAITS_S)
        self._ttft = self._histogram("ttft_seconds", "From submission to a text's first token", _WAITS_S)
        self._source = self._histogram("source_tokens", "A text's length, the prompt's template aside", _TOKENS)
        self._output = self._histogram("output_tokens", "A translation's length", _TOKENS)
        self._ratio = self._histogram("output_source_ratio", "Output tokens to source tokens, of a text", _RATIOS)

    def text_ended(self, text: TextRecord) -> None:
        """Every text by languages and outcome; of translated ones, what the engine did with them."""
        self._ended.labels(text.source or UNKNOWN, text.target, text.outcome).inc()
        if not text.ok:
            return
        self._reasons.labels(text.finish_reason).inc()
        for guard in set(text.checks):
            self._warnings.labels(guard).inc()
        for guard in text.retries:
            self._retries.labels(guard).inc()
        if text.source_tokens:  # else there was nothing to translate, and no engine saw it
            self._measure(text)

    def _measure(self, text: TextRecord) -> None:
        self._e2e.labels(length_band(text.source_tokens)).observe(text.e2e_s)
        if text.queue_s is not None:
            self._queue.observe(text.queue_s)
        if text.ttft_s is not None:
            self._ttft.observe(text.ttft_s)
        self._source.observe(text.source_tokens)
        self._output.observe(text.output_tokens)
        self._ratio.observe(text.output_tokens / text.source_tokens)

    def call_ended(self, call: CallRecord) -> None:
        """Every call by outcome, and the refusals among them."""
        self._requests.labels(call.outcome).inc()
        if call.outcome in REFUSALS:
            self._refusals.labels(call.outcome).inc()

    def answered(self, exchange: RequestTrace) -> None:
        """An HTTP request has ended: here is seen what never became a call, such as a bad body or a wrong key."""
        self._answers.labels(exchange.route or UNKNOWN, str(exchange.status), exchange.outcome).inc()

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(name, help, labels, namespace="dragoman", registry=self.registry)

    def _histogram(self, name: str, help: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(name, help, labels, namespace="dragoman", registry=self.registry, buckets=buckets)

    def exposition(self, *others: CollectorRegistry) -> bytes:
        """All metrics in Prometheus' text format."""
        own = CollectorRegistry()
        own.register(_WithoutCreated(self.registry))
        return b"".join(generate_latest(registry) for registry in (own, *others))


class _WithoutCreated(Collector):
    """The client library gives every counter and histogram a gauge of when it was made, which nobody asked for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            family.samples = [one for one in family.samples if not one.name.endswith("_created")]
            yield family
