"""OpenTelemetry: a span a request, and under it when its stages were. Imported only where an endpoint is set.

    POST /v1/translate
    ├── admission        until the permit, or the refusal
    ├── segment          languages settled, texts cut into pieces
    └── sequence         one a piece that the engine was given; the same again when it was tried again
        ├── prompt       encoded
        ├── queue        the engine let it wait
        ├── prefill      until its first token
        └── decode       until its last

The request's span lives as long as the request; the others are made at its end from what was noted. `queue`, `prefill` and
`decode` follow one another from the submission on, with the lengths that the engine's clock gave them. Attributes never
hold a text. Semantic conventions: https://opentelemetry.io/docs/specs/semconv/ (http.*, gen_ai.*, error.type).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, format_trace_id, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from dragoman import __version__
from dragoman.errors import ConfigError
from dragoman.settings import TracingSettings
from dragoman.telemetry.calls import CANCELLED, OK, CallRecord
from dragoman.telemetry.rates import FAILURES
from dragoman.telemetry.requests import Interval, RequestTrace, SequenceRecord, Work
from dragoman.types import Timings

log = logging.getLogger("dragoman.tracing")

FLUSH_S = 5.0
"""How long a server that stops waits for the collector."""
_TRACES_PATH = "/v1/traces"
_PROPAGATED = {b"traceparent": "traceparent", b"tracestate": "tracestate"}

Attributes = dict[str, AttributeValue]


def traces_url(endpoint: str) -> str:
    """Where spans go: `endpoint` with OTLP's path, if it names none. Raises `ConfigError` when it is no URL."""
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(
            f"tracing.endpoint = {endpoint!r} is not a URL such as http://localhost:4318", param="tracing.endpoint"
        )
    return endpoint if parts.path.strip("/") else endpoint.rstrip("/") + _TRACES_PATH


class Tracing:
    """Turns exchanges into spans and sends them, from a thread of its own, to a collector."""

    def __init__(self, settings: TracingSettings, model: str, exporter: SpanExporter | None = None) -> None:
        self._exporter = exporter or OTLPSpanExporter(traces_url(settings.endpoint))
        self._settings = settings
        self._model = model
        self._propagator = TraceContextTextMapPropagator()
        self._provider: TracerProvider | None = None
        self._tracer: Tracer | None = None

    def start(self) -> None:
        """From here on requests are traced. Starts a thread: call it when the engine's processes have been forked."""
        resource = Resource.create({"service.name": self._settings.service_name, "service.version": __version__})
        sampler = ParentBased(TraceIdRatioBased(self._settings.sample_ratio))
        self._provider = TracerProvider(sampler, resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("dragoman", __version__)

    def begin(self, exchange: RequestTrace, headers: Iterable[tuple[bytes, bytes]]) -> Span | None:
        """The request's span, a child of the caller's where `headers` name one. None: this request is not traced."""
        if self._tracer is None:
            return None
        carrier = {_PROPAGATED[name]: value.decode("latin-1") for name, value in headers if name in _PROPAGATED}
        context = self._propagator.extract(carrier, Context())
        span = self._tracer.start_span(exchange.method, context, SpanKind.SERVER, start_time=exchange.began_unix_ns)
        if not span.is_recording():
            return None
        exchange.trace_id = format_trace_id(span.get_span_context().trace_id)
        exchange.work = Work()
        return span

    def end(self, span: Span, exchange: RequestTrace) -> None:
        """The exchange has ended: so do its spans."""
        outcome = exchange.outcome
        if exchange.route:
            span.update_name(f"{exchange.method} {exchange.route}")
        span.set_attributes(self._of_request(exchange, outcome))
        if exchange.status >= 500 or outcome in FAILURES:
            span.set_status(StatusCode.ERROR, outcome)
        within = set_span_in_context(span, Context())
        for call in exchange.calls:
            self._admission(call, within)
        if exchange.work is not None:
            for interval in exchange.work.segmented:
                self._span("segment", interval, within)
            for sequence in exchange.work.sequences:
                self._sequence(sequence, within)
        span.end(exchange.began_unix_ns + _ns(exchange.duration_s))

    def shutdown(self) -> None:
        """Send what is left, waiting `FLUSH_S` at most. Blocks."""
        if self._provider is None:
            return
        sender = threading.Thread(target=self._provider.shutdown, name="dragoman-traces", daemon=True)
        sender.start()
        sender.join(FLUSH_S)
        if sender.is_alive():
            log.warning("traces were left unsent: %s did not take them in %.0f s", self._settings.endpoint, FLUSH_S)
        self._tracer = self._provider = None

    def _of_request(self, exchange: RequestTrace, outcome: str) -> Attributes:
        attributes: Attributes = {
            "http.request.method": exchange.method,
            "http.response.status_code": exchange.status,
            "dragoman.request_id": exchange.request_id,
            "dragoman.outcome": outcome,
        }
        if exchange.route:
            attributes["http.route"] = exchange.route
        if outcome not in {OK, CANCELLED}:
            attributes["error.type"] = outcome
        if exchange.calls:
            attributes |= self._of_calls(exchange)
        if exchange.work is not None and exchange.work.unrecorded:
            attributes["dragoman.sequences.unrecorded"] = exchange.work.unrecorded
        return attributes

    def _of_calls(self, exchange: RequestTrace) -> Attributes:
        texts = exchange.texts
        attributes: Attributes = {
            "gen_ai.request.model": self._model,
            "gen_ai.request.stream": any(call.streamed for call in exchange.calls),
            "gen_ai.usage.input_tokens": sum(text.prompt_tokens for text in texts),
            "gen_ai.usage.output_tokens": sum(text.output_tokens for text in texts),
            "dragoman.texts": len(texts),
            "dragoman.characters": sum(text.source_characters for text in texts),
            "dragoman.target": exchange.calls[0].target,
        }
        if sources := sorted({text.source for text in texts if text.source}):
            attributes["dragoman.sources"] = sources
        return attributes

    def _admission(self, call: CallRecord, within: Context) -> None:
        began_unix_ns = _ns(call.arrived_unix_s)
        lasted_s = call.e2e_s if call.admitted_s is None else call.admitted_s
        refused = call.outcome if call.admitted_s is None else None
        self._span("admission", Interval(began_unix_ns, began_unix_ns + _ns(lasted_s)), within, error=refused)

    def _sequence(self, sequence: SequenceRecord, within: Context) -> None:
        attributes: Attributes = {
            "gen_ai.operation.name": "text_completion",
            "gen_ai.request.model": self._model,
            "gen_ai.request.max_tokens": sequence.max_tokens,
            "gen_ai.usage.input_tokens": sequence.prompt_tokens,
            "gen_ai.usage.output_tokens": sequence.output_tokens,
            "gen_ai.response.finish_reasons": [sequence.outcome],
            "dragoman.sequence_id": sequence.id,
        }
        first = sequence.encoded or sequence.submitted
        whole = Interval(first.began_unix_ns, sequence.submitted.ended_unix_ns)
        error = sequence.outcome if sequence.failed else None
        inside = set_span_in_context(self._span("sequence", whole, within, attributes, error=error), Context())
        if sequence.encoded:
            self._span("prompt", sequence.encoded, inside)
        for name, interval in _stages(sequence.submitted, sequence.timings):
            self._span(name, interval, inside)

    def _span(
        self,
        name: str,
        interval: Interval,
        within: Context,
        attributes: Mapping[str, AttributeValue] | None = None,
        *,
        error: str | None = None,
    ) -> Span:
        """A span that is over."""
        assert self._tracer is not None
        span = self._tracer.start_span(name, within, attributes=attributes, start_time=interval.began_unix_ns)
        if error:
            span.set_attribute("error.type", error)
            span.set_status(StatusCode.ERROR, error)
        span.end(interval.ended_unix_ns)
        return span


def _stages(submitted: Interval, timings: Timings | None) -> Iterator[tuple[str, Interval]]:
    """The engine's stages one after the other, none beyond the sequence's end: the two clocks may differ a little."""
    if timings is None:
        return
    at_unix_ns = submitted.began_unix_ns
    for name, lasted_s in (("queue", timings.queue_s), ("prefill", timings.prefill_s), ("decode", timings.decode_s)):
        if lasted_s is None:
            return
        until_unix_ns = min(at_unix_ns + _ns(lasted_s), submitted.ended_unix_ns)
        yield name, Interval(at_unix_ns, until_unix_ns)
        at_unix_ns = until_unix_ns


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
