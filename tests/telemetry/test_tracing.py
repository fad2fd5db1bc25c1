"""Spans of requests over the fake pipeline, as the SDK exports them. The way to a collector is in tests/cli/test_serve.py."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from dragoman.errors import ConfigError
from dragoman.service.service import TranslationService
from dragoman.settings import Settings, TracingSettings
from dragoman.telemetry.tracing import MAX_SEQUENCES, Tracing, stages, traces_url
from dragoman.types import Timings
from tests.serving import echoing, fake_service, served, slow_service
from tests.waiting import until

SECRET = "Zanzibar"
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"


class Traced:
    """A service whose spans are kept."""

    def __init__(self, service: TranslationService, sample_ratio: float = 1.0) -> None:
        self.exporter = InMemorySpanExporter()
        settings = TracingSettings("http://localhost:4318", sample_ratio)
        self.service = service
        self.service.tracing = self.tracing = Tracing(settings, "phrasebook", self.exporter)

    def spans(self) -> list[ReadableSpan]:
        """All of them, in the order of their beginnings; tracing is over. None may hold a text."""
        self.tracing.shutdown()
        spans = sorted(self.exporter.get_finished_spans(), key=lambda span: (span.start_time, -(span.end_time or 0)))
        assert not any(SECRET in span.to_json() for span in spans)
        return spans


async def post(client: httpx.AsyncClient, headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:
    body = {"text": f"Where is {SECRET}?", "source": "en", "target": "ja"} | body
    return await client.post("/v1/translate", json=body, headers=headers)


def named(spans: Sequence[ReadableSpan], name: str) -> list[ReadableSpan]:
    return [span for span in spans if span.name == name]


def context(span: ReadableSpan) -> SpanContext:
    assert span.context is not None
    return span.context


def children(spans: Sequence[ReadableSpan], parent: ReadableSpan) -> list[ReadableSpan]:
    return [span for span in spans if span.parent and span.parent.span_id == context(parent).span_id]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_is_a_tree_of_what_it_went_through(stream: bool) -> None:
    traced = Traced(fake_service(lambda _: "one two three?", step_s=0.002))
    async with served(traced.service) as client:
        answer = await post(client, {"X-Request-Id": "mine"}, stream=stream)
        await answer.aread()
    spans = traced.spans()
    [request] = named(spans, "POST /v1/translate")
    assert (request.kind, request.parent) == (SpanKind.SERVER, None)
    assert request.status.status_code == StatusCode.UNSET
    assert request.resource.attributes["service.name"] == "dragoman"
    recorded = attributes(request)
    assert recorded["http.route"] == "/v1/translate"
    assert recorded["http.response.status_code"] == 200
    assert (recorded["dragoman.request_id"], recorded["dragoman.outcome"]) == ("mine", "ok")
    assert (recorded["gen_ai.request.model"], recorded["gen_ai.request.stream"]) == ("phrasebook", stream)
    assert (recorded["dragoman.sources"], recorded["dragoman.target"]) == (("en",), "ja")
    assert recorded["gen_ai.usage.output_tokens"] == 3

    assert [span.name for span in children(spans, request)] == ["admission", "segment", "sequence"]
    [sequence] = named(spans, "sequence")
    assert attributes(sequence)["dragoman.sequence_id"].startswith("mine-")
    assert attributes(sequence)["gen_ai.response.finish_reasons"] == ("stop",)
    stages = children(spans, sequence)
    assert [span.name for span in stages] == ["prompt", "queue", "prefill", "decode"]
    for span in spans:
        assert (span.start_time or 0) <= (span.end_time or 0)
        inner = children(spans, span)
        assert all((span.start_time or 0) <= (child.start_time or 0) for child in inner)
        assert all((child.end_time or 0) <= (span.end_time or 0) for child in inner)
    for before, after in pairwise(stages[1:]):
        assert before.end_time == after.start_time


def test_stages_follow_one_another_and_last_as_long_as_the_engine_reports() -> None:
    assert list(stages(5_000, 90_000, Timings(1e-5, 2e-5, 3e-5))) == [
        ("queue", 5_000, 15_000),
        ("prefill", 15_000, 35_000),
        ("decode", 35_000, 65_000),
    ]


def test_stages_end_with_their_sequence_and_what_the_engine_does_not_report_is_no_stage() -> None:
    assert list(stages(5_000, 30_000, Timings(1e-5, 2e-5, 3e-5)))[1:] == [
        ("prefill", 15_000, 30_000),
        ("decode", 30_000, 30_000),
    ]
    assert [name for name, _, _ in stages(5_000, 30_000, Timings(1e-5))] == ["queue"]
    assert list(stages(5_000, 30_000, None)) == []


async def test_a_callers_trace_is_continued_and_its_decision_respected() -> None:
    traced = Traced(fake_service(), sample_ratio=0.0)
    async with served(traced.service) as client:
        await post(client, {"traceparent": f"{CALLER}-01", "tracestate": "vendor=1"})
        await post(client, {"traceparent": f"{CALLER}-00"})
        await post(client, {"traceparent": "garbage"})
        await post(client)
    spans = traced.spans()
    [request] = [span for span in spans if span.kind == SpanKind.SERVER]
    assert request.parent is not None
    assert f"{request.parent.span_id:016x}" == CALLER.split("-")[2]
    assert {f"{context(span).trace_id:032x}" for span in spans} == {CALLER.split("-")[1]}
    assert context(request).trace_state.get("vendor") == "1"


async def test_a_refusal_is_an_admission_that_failed() -> None:
    slow = slow_service(characters=1)
    traced = Traced(slow)
    async with served(slow) as client:
        calls = [asyncio.create_task(post(client))]
        await until(lambda: slow.admission.calls == 1, "a full queue")
        assert (await post(client)).status_code == 429
        await asyncio.gather(*calls)
    spans = traced.spans()
    [request] = [span for span in spans if attributes(span).get("http.response.status_code") == 429]
    assert attributes(request)["error.type"] == "queue_full"
    [admission] = children(spans, request)
    assert admission.name == "admission"
    assert (admission.status.status_code, attributes(admission)["error.type"]) == (StatusCode.ERROR, "queue_full")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_hangs_up_leaves_a_whole_trace(stream: bool) -> None:
    service = slow_service()
    traced = Traced(service)
    async with served(service) as client:
        call = asyncio.create_task(post(client, text=["a b", "c d"], stream=stream))
        await until(lambda: service.pipeline.stats().running == 2, "two running sequences")
        call.cancel()
        await until(lambda: service.calls.registry.in_flight == 0, "no call in flight")
    spans = traced.spans()
    [request] = named(spans, "POST /v1/translate")
    assert attributes(request)["dragoman.outcome"] == "cancelled"
    assert request.status.status_code == StatusCode.UNSET
    ends = [attributes(span)["gen_ai.response.finish_reasons"] for span in named(spans, "sequence")]
    assert ends == [("cancelled",)] * 2


async def test_a_fault_is_an_error_of_the_request_and_of_the_sequence() -> None:
    service = slow_service()
    traced = Traced(service)
    async with served(service) as client:
        call = asyncio.create_task(post(client))
        await until(lambda: service.pipeline.stats().running == 1, "a running sequence")
        await service.pipeline.shutdown()
        assert (await call).status_code == 503
    spans = traced.spans()
    for span in (*named(spans, "POST /v1/translate"), *named(spans, "sequence")):
        assert (span.status.status_code, attributes(span)["error.type"]) == (StatusCode.ERROR, "engine_dead")


async def test_a_long_call_has_a_bounded_trace() -> None:
    traced = Traced(fake_service(echoing()))
    async with served(traced.service) as client:
        assert (await post(client, text=["Good morning."] * (MAX_SEQUENCES + 6))).status_code == 200
    spans = traced.spans()
    assert len(named(spans, "sequence")) == MAX_SEQUENCES
    [request] = named(spans, "POST /v1/translate")
    assert attributes(request)["dragoman.sequences.unrecorded"] == 6


async def test_probes_are_not_traced_and_unknown_paths_not_repeated() -> None:
    traced = Traced(fake_service())
    async with served(traced.service) as client:
        for path in ("/healthz", "/readyz", "/metrics", "/v1/stats", "/"):
            await client.get(path)
        await client.get(f"/{SECRET}")
    [unknown] = traced.spans()
    assert unknown.name == "GET"
    assert attributes(unknown)["error.type"] == "not_found"


async def test_the_text_of_a_query_is_not_traced() -> None:
    """`Traced.spans` looks for it."""
    traced = Traced(fake_service())
    async with served(traced.service) as client:
        for target in ("ja", "zz"):
            await client.get("/translate", params={"from": "en", "to": target, "text": f"Where is {SECRET}?"})
    assert [one.name for one in traced.spans() if one.parent is None] == ["GET /translate", "GET /translate"]


def test_an_endpoint_is_a_url_with_otlps_path_unless_it_names_one() -> None:
    assert (
        traces_url("http://collector:4318") == traces_url("http://collector:4318/") == "http://collector:4318/v1/traces"
    )
    assert traces_url("https://host/otlp/v1/traces") == "https://host/otlp/v1/traces"
    for wrong in ("localhost:4318", "grpc://a:1", "http://", "yes"):
        with pytest.raises(ConfigError, match="is not a URL"):
            traces_url(wrong)


def test_without_the_extra_it_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigError) as refusal:
        TranslationService.from_settings(replace(Settings(), tracing=TracingSettings("http://localhost:4318")))
    assert refusal.value.param == "tracing.endpoint"
    assert "\n" not in refusal.value.message


def test_a_server_without_tracing_replicas_and_agents_imports_none_of_their_libraries() -> None:
    program = (
        "import sys, dragoman.cli.serve; from tests.serving import fake_service; from dragoman.api.app import create_app;"
        "create_app(fake_service()); print({'opentelemetry', 'ray', 'mcp'} & {name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
