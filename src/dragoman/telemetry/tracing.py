"""OpenTelemetry: a span for each request, and spans for its stages, made where the work is done.

    POST /v1/translate
    ├── admission        until the permit, or the refusal
    ├── segment          languages settled, documents opened; texts are split later, as slots become free
    └── sequence         one for each sequence that the engine was given, retries included
        ├── prompt       encoded
        ├── queue        waiting in the engine
        ├── prefill      until its first token
        └── decode       until its last

`queue`, `prefill` and `decode` follow one another from the submission on, with the durations of the engine's clock.
Attributes never hold a text. Where no endpoint is set nothing of OpenTelemetry is imported. A request that is not traced runs
nothing of this module: `requests.span` makes its stages no-ops.
Semantic conventions: https://opentelemetry.io/docs/specs/semconv/ (http.*, gen_ai.*, error.type).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from time import time_ns
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dragoman import __version__
from dragoman.errors import ConfigError, DragomanError
from dragoman.settings import TracingSettings
from dragoman.telemetry.requests import CANCELLED, FAILURES, OK, RequestTrace
from dragoman.types import Completion, EngineSequence, Timings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, Tracer
    from opentelemetry.util.types import AttributeValue

log = logging.getLogger("dragoman.tracing")

FLUSH_S = 5.0
"""How long a server that stops waits for the collector."""
MAX_SEQUENCES = 64
"""Sequences with spans in one trace; more are counted."""
_TRACES_PATH = "/v1/traces"
_PROPAGATED = {b"traceparent": "traceparent", b"tracestate": "tracestate"}

Attributes = dict[str, "AttributeValue"]


class RecordedSpans:
    """The spans of one traced request."""

    def __init__(self, tracer: Tracer, root: Span, model: str) -> None:
        self.root = root
        self.model = model
        self.sequences = 0
        self._tracer = tracer

    def start(
        self, name: str, parent: Span | None = None, attributes: Attributes | None = None, at_unix_ns: int | None = None
    ) -> Span:
        """A span under `parent`, by default under the request's."""
        from opentelemetry.context import Context
        from opentelemetry.trace import set_span_in_context

        within = set_span_in_context(parent or self.root, Context())
        return self._tracer.start_span(name, within, attributes=attributes, start_time=at_unix_ns)

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Within: a stage of the request, with a span. What it raises is the span's error."""
        started = self.start(name)
        try:
            yield
        except Exception as error:
            _fail(started, error.code if isinstance(error, DragomanError) else DragomanError.code)
            raise
        finally:
            started.end()

    @contextmanager
    def sequence(self) -> Generator[RecordedSequence | None]:
        """Within: a sequence of the request, with a span. Beyond `MAX_SEQUENCES` they are only counted."""
        self.sequences += 1
        if self.sequences > MAX_SEQUENCES:
            yield None
            return
        span = RecordedSequence(self)
        try:
            yield span
        except BaseException as error:
            span.fail(error)
            raise


class RecordedSequence:
    """The span of one sequence, from before its prompt is encoded to its end."""

    def __init__(self, spans: RecordedSpans) -> None:
        self._spans = spans
        self._span = spans.start("sequence", attributes={"gen_ai.operation.name": "text_completion"})
        self._began_unix_ns = time_ns()
        self._ended = False

    def submit(self, sequence: EngineSequence) -> None:
        """Its prompt was encoded; from here on the engine has it."""
        self._spans.start("prompt", self._span, at_unix_ns=self._began_unix_ns).end()
        self._began_unix_ns = time_ns()
        self._span.set_attributes(
            {
                "gen_ai.request.model": self._spans.model,
                "gen_ai.request.max_tokens": sequence.max_tokens,
                "gen_ai.usage.input_tokens": len(sequence.prompt_token_ids),
                "dragoman.sequence_id": sequence.id,
            }
        )

    def complete(self, completion: Completion) -> None:
        """It has ended well. A stream may be closed later than this."""
        if self._ended:
            return
        ended_unix_ns = time_ns()
        for name, start_unix_ns, end_unix_ns in stages(self._began_unix_ns, ended_unix_ns, completion.timings):
            self._spans.start(name, self._span, at_unix_ns=start_unix_ns).end(end_unix_ns)
        self._span.set_attribute("gen_ai.usage.output_tokens", completion.completion_tokens)
        self._end(completion.reason)

    def fail(self, error: BaseException) -> None:
        """It has ended with an error, or was cancelled."""
        if self._ended:
            return
        if isinstance(error, Exception):
            code = error.code if isinstance(error, DragomanError) else DragomanError.code
            _fail(self._span, code)
            self._end(code)
        else:
            self._end(CANCELLED)

    def _end(self, outcome: str) -> None:
        self._span.set_attribute("gen_ai.response.finish_reasons", [outcome])
        self._span.end()
        self._ended = True


def stages(began_unix_ns: int, ended_unix_ns: int, timings: Timings | None) -> Iterable[tuple[str, int, int]]:
    """The engine's stages, each with its start and end; none ends after the sequence: the two clocks may differ a little."""
    if timings is None:
        return
    at_unix_ns = began_unix_ns
    for name, duration_s in (("queue", timings.queue_s), ("prefill", timings.prefill_s), ("decode", timings.decode_s)):
        if duration_s is None:
            return
        until_unix_ns = min(at_unix_ns + _ns(duration_s), ended_unix_ns)
        yield name, at_unix_ns, until_unix_ns
        at_unix_ns = until_unix_ns


def traces_url(endpoint: str) -> str:
    """Where spans are sent: `endpoint` with OTLP's path, unless it has one. Raises `ConfigError` when it is not a URL."""
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(
            f"tracing.endpoint = {endpoint!r} is not a URL such as http://localhost:4318", param="tracing.endpoint"
        )
    return endpoint if parts.path.strip("/") else endpoint.rstrip("/") + _TRACES_PATH


class Tracing:
    """Sends the spans of requests to a collector, from a thread of its own. Raises `ConfigError` without the extra."""

    def __init__(self, settings: TracingSettings, model: str, exporter: SpanExporter | None = None) -> None:
        url = traces_url(settings.endpoint)
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        except ImportError as error:
            raise ConfigError(
                f"tracing.endpoint is set, but OpenTelemetry cannot be imported ({error}): pip install 'dragoman[tracing]'",
                param="tracing.endpoint",
            ) from None
        self._exporter = exporter or OTLPSpanExporter(url)
        self._settings = settings
        self._model = model
        self._provider: TracerProvider | None = None
        self._tracer: Tracer | None = None

    def start(self) -> None:
        """From here on requests are traced. Starts a thread: call it when the engine's processes have been forked."""
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

        # Attributes that are given here come before those of OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
        own = {"service.name": "dragoman", "service.version": __version__}
        resource = Resource.create({**own, **OTELResourceDetector().detect().attributes})
        sampler = ParentBased(TraceIdRatioBased(self._settings.sample_ratio))
        self._provider = TracerProvider(sampler, resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("dragoman", __version__)

    def begin(self, request: RequestTrace, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Start the request's span, a child of the caller's where `headers` name one, unless it is not to be traced."""
        if self._tracer is None:
            return
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, format_trace_id
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carrier = {_PROPAGATED[name]: value.decode("latin-1") for name, value in headers if name in _PROPAGATED}
        context = TraceContextTextMapPropagator().extract(carrier, Context())
        root = self._tracer.start_span(request.method, context, SpanKind.SERVER, start_time=request.began_unix_ns)
        if root.is_recording():
            request.trace_id = format_trace_id(root.get_span_context().trace_id)
            request.spans = RecordedSpans(self._tracer, root, self._model)

    def end(self, request: RequestTrace) -> None:
        """The request has ended: so does its span."""
        if not isinstance(request.spans, RecordedSpans):
            return
        root, outcome = request.spans.root, request.outcome
        if request.route:
            root.update_name(f"{request.method} {request.route}")
        root.set_attributes(self._attributes(request, request.spans, outcome))
        if request.status >= 500 or outcome in FAILURES:
            _fail(root, outcome)
        root.end(request.began_unix_ns + _ns(request.duration_s))

    def shutdown(self) -> None:
        """Send what is left, waiting `FLUSH_S` at most. Blocks."""
        if self._provider is None:
            return
        sender = threading.Thread(target=self._provider.shutdown, name="dragoman-traces", daemon=True)
        sender.start()
        sender.join(FLUSH_S)
        if sender.is_alive():
            log.warning("traces were not sent: %s did not accept them in %.0f s", self._settings.endpoint, FLUSH_S)
        self._tracer = self._provider = None

    def _attributes(self, request: RequestTrace, spans: RecordedSpans, outcome: str) -> Attributes:
        attributes: Attributes = {
            "http.request.method": request.method,
            "http.response.status_code": request.status,
            "dragoman.request_id": request.request_id,
            "dragoman.outcome": outcome,
        }
        if request.key:
            attributes["dragoman.key"] = request.key
        if request.route:
            attributes["http.route"] = request.route
        if outcome not in {OK, CANCELLED}:
            attributes["error.type"] = outcome
        if spans.sequences > MAX_SEQUENCES:
            attributes["dragoman.sequences.unrecorded"] = spans.sequences - MAX_SEQUENCES
        if request.calls:
            texts = request.texts
            attributes |= {
                "gen_ai.request.model": self._model,
                "gen_ai.request.stream": any(call.streamed for call in request.calls),
                "gen_ai.usage.input_tokens": sum(text.prompt_tokens for text in texts),
                "gen_ai.usage.output_tokens": sum(text.output_tokens for text in texts),
                "dragoman.texts": len(texts),
                "dragoman.characters": sum(text.source_characters for text in texts),
                "dragoman.target": request.calls[0].target,
            }
            if sources := sorted({text.source for text in texts if text.source}):
                attributes["dragoman.sources"] = sources
        return attributes


def _fail(span: Span, code: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", code)
    span.set_status(StatusCode.ERROR, code)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
