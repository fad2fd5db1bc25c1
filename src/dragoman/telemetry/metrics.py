"""Every Prometheus metric of dragoman's own, once. vLLM's metrics (`vllm:*`) stand beside them in the same registry.

Labels are bounded: language tags that the model serves, states, reasons; never texts, addresses or keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

from dragoman.telemetry.calls import CallRecord, Observer, TextRecord

_SECONDS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3, 5, 8, 13, 20, 30, 60, 120)
_TOKENS = (5, 10, 20, 50, 100, 200, 400, 800, 1600, 3200)

BANDS = ((30, "short"), (100, "medium"))
"""Length bands by source tokens: up to 30 short, up to 100 medium, then long."""


def band(source_tokens: int) -> str:
    """The length band of a text."""
    return next((name for limit, name in BANDS if source_tokens <= limit), "long")


class Metrics(Observer):
    """The service's metrics in a registry of its own, so that several services (in tests) do not collide."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("requests", "Calls, by outcome: ok or an error code", "outcome")
        self.texts = self._counter("texts", "Texts translated", "source", "target", "finish_reason")
        self.e2e = self._histogram("request_seconds", "A text's time in the house", _SECONDS, "band")
        self.source_tokens = self._histogram("source_tokens", "A text's prompt", _TOKENS)
        self.output_tokens = self._histogram("output_tokens", "A translation's length", _TOKENS)
        self.warnings = self._counter("guard_warnings", "Translations given with a warning", "target")

    def text_ended(self, text: TextRecord) -> None:
        """Translated texts: their lengths and their time in the house."""
        if not text.ok:
            return
        self.texts.labels(text.source, text.target, text.finish_reason).inc()
        # Prompt tokens stand for the text's length: the template's share is small and the same for all.
        self.e2e.labels(band(text.prompt_tokens)).observe(text.e2e_s)
        self.source_tokens.observe(text.prompt_tokens)
        self.output_tokens.observe(text.output_tokens)
        if text.warnings:
            self.warnings.labels(text.target).inc()

    def call_ended(self, call: CallRecord) -> None:
        """Every call, by outcome."""
        self.requests.labels(call.outcome).inc()

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(name, help, labels, namespace="dragoman", registry=self.registry)

    def _histogram(self, name: str, help: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(name, help, labels, namespace="dragoman", registry=self.registry, buckets=buckets)

    def gauge(self, name: str, help: str, read: Callable[[], float]) -> None:
        """A gauge that is read when it is scraped."""
        Gauge(name, help, namespace="dragoman", registry=self.registry).set_function(read)

    def exposition(self, *others: CollectorRegistry) -> bytes:
        """All metrics in Prometheus' text format."""
        return b"".join(generate_latest(registry) for registry in (self.registry, *others))
