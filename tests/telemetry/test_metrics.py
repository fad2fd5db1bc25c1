"""Metrics of a served fake pipeline: they are those of the documentation, named as Prometheus wants them, and bounded."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from dragoman.errors import codes
from dragoman.service.service import TranslationService
from tests.ops.tools import needs_promtool, promtool
from tests.serving import fake_service, served
from tests.telemetry.metered import documented, metered_service, post, some_of_everything

HOSTILE_TAGS = (
    *(f"en-x-attack{number}" for number in range(20)),
    *(f"q{letter}a" for letter in "abcdefghijklmnopqrst"),
    "en-US",
    "EN_gb",
    "xx",
    "日本語",
    "'; drop table languages",
    "a" * 500,
)


@pytest.fixture(scope="module")
async def service() -> AsyncIterator[TranslationService]:
    service = metered_service()
    async with served(service) as client:
        await some_of_everything(client, service)
        yield service


def families(service: TranslationService) -> dict[str, Metric]:
    """By the name that a query uses."""
    found = text_string_to_metric_families(service.metrics.exposition().decode())
    return {family.name + ("_total" if family.type == "counter" else ""): family for family in found}


def value(service: TranslationService, name: str, **labels: str) -> float:
    return service.metrics.registry.get_sample_value(name, labels) or 0.0


async def test_the_metrics_are_those_of_the_documentation(service: TranslationService) -> None:
    here, in_docs = families(service), documented()
    assert sorted(here) == sorted(in_docs)
    assert {name: family.type for name, family in here.items()} == {name: row.type for name, row in in_docs.items()}


async def test_labels_are_those_of_the_documentation_and_every_metric_but_one_has_samples(
    service: TranslationService,
) -> None:
    in_docs = documented()
    silent = set[str]()
    for name, family in families(service).items():
        labels = {frozenset(sample.labels) - {"le"} for sample in family.samples}
        assert labels <= {in_docs[name].labels}, name
        if not labels:
            silent.add(name)
    assert silent == {"dragoman_engine_kv_cache_tokens"}  # the fake has no KV cache


@needs_promtool
async def test_promtool_has_nothing_to_say_about_the_names(service: TranslationService) -> None:
    promtool("check", "metrics", stdin=service.metrics.exposition().decode())


async def test_outcomes_warnings_and_refusals_are_counted(service: TranslationService) -> None:
    assert value(service, "dragoman_requests_total", outcome="ok") == 6
    assert value(service, "dragoman_api_calls_total", api="native", key="none", outcome="ok") == 5
    assert value(service, "dragoman_api_calls_total", api="deepl", key="none", outcome="ok") == 1
    assert value(service, "dragoman_api_characters_total", api="deepl", key="none") == len("Good evening.")
    assert value(service, "dragoman_requests_total", outcome="cancelled") == 1
    assert value(service, "dragoman_requests_total", outcome="unsupported_language") == 1
    assert value(service, "dragoman_admission_refusals_total", reason="queue_full") == 1
    assert value(service, "dragoman_texts_total", source="en", target="ja", outcome="cancelled") == 30
    assert value(service, "dragoman_finish_reasons_total", reason="unchanged") == 2
    assert value(service, "dragoman_finish_reasons_total", reason="length") == 1
    assert value(service, "dragoman_retries_total", code="cut_around") == 2
    assert value(service, "dragoman_warnings_total", code="source_copied") == 6
    assert value(service, "dragoman_warnings_total", code="length_limit") == 1
    assert value(service, "dragoman_retries_total", code="length_limit") == 1
    assert value(service, "dragoman_retries_total", code="line_breaks_lost") == 1
    route = {"route": "/v1/translate"}
    assert value(service, "dragoman_http_requests_total", **route, status="429", outcome="queue_full") == 1
    assert value(service, "dragoman_http_requests_total", **route, status="400", outcome="invalid_json") == 1
    assert value(service, "dragoman_http_requests_total", route="unknown", status="404", outcome="not_found") == 1


async def test_texts_with_nothing_to_translate_are_not_in_the_histograms(service: TranslationService) -> None:
    whole = sum(
        value(service, "dragoman_texts_total", source="en", target=target, outcome="ok") for target in ("ja", "ko")
    )
    unchanged = value(service, "dragoman_finish_reasons_total", reason="unchanged")
    for name in ("source_tokens", "output_tokens", "output_source_ratio", "queue_seconds", "ttft_seconds"):
        assert value(service, f"dragoman_{name}_count") == whole - unchanged
    bands = ("short", "medium", "long")
    assert sum(value(service, "dragoman_e2e_seconds_count", band=band) for band in bands) == whole - unchanged


async def test_every_outcome_is_there_before_its_first_call() -> None:
    service = fake_service()
    outcomes = {sample.labels["outcome"] for sample in families(service)["dragoman_requests_total"].samples}
    assert outcomes == {"ok", "cancelled", *codes()}
    assert {"queue_full", "engine_dead", "internal_error"} <= outcomes
    assert "config_error" not in outcomes


async def test_hostile_languages_and_paths_do_not_grow_the_metrics() -> None:
    service = fake_service()
    async with served(service) as client:
        for tag in ("xx", "en", "ja", "ko", "zh"):  # no language, and those that are served
            await _ask_with(client, tag)
        before = _series(service)
        for tag in HOSTILE_TAGS:
            await _ask_with(client, tag)
        assert _series(service) == before


async def _ask_with(client: httpx.AsyncClient, tag: str) -> None:
    await post(client, text="Good morning.", source="en", target=tag)
    await post(client, text="Good morning.", source=tag, target="ja")
    await client.get(f"/v1/{tag}")
    await client.request("PATCH", "/v1/translate")


def _series(service: TranslationService) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    return {
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in families(service).values()
        for sample in family.samples
    }


async def test_readiness_is_as_readyz_reports() -> None:
    service = fake_service()
    await service.exposition()
    assert value(service, "dragoman_ready") == 0
    assert value(service, "dragoman_state", state="starting") == 1
    async with served(service) as client:
        assert "dragoman_ready 1.0" in (await client.get("/metrics")).text
        await service.pipeline.shutdown()
        assert "dragoman_ready 0.0" in (await client.get("/metrics")).text
        assert value(service, "dragoman_state", state="serving") == 1
