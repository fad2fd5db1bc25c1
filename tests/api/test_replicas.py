"""Several replicas behind one address: the asked one answers for all, its operator's port for itself alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dragoman.api.app import create_operator_app
from dragoman.api.replicas import sum_stats, unreachable_stats
from dragoman.pipelines.fake import FakePipeline
from dragoman.service.service import TranslationService
from dragoman.service.stack import account_store
from dragoman.settings import AuthSettings, CacheSettings, Settings
from dragoman.storage.database import Database
from dragoman.types import Account
from dragoman.wire import CacheStats, EngineStats, LastMinute, MetricsTarget, Percentiles, RecorderStats, Stats
from tests.replicas import ReplicasHere
from tests.serving import echoing, served, service_over

TEXT = {"text": "Good morning.", "target": "ja", "source": "en"}


def replica(name: str, settings: Settings | None = None, database: Database | None = None) -> TranslationService:
    return service_over(FakePipeline(echoing()), settings, database=database, replica=name)


@asynccontextmanager
async def two_replicas(
    missing: tuple[str, ...] = (),
) -> AsyncGenerator[tuple[list[TranslationService], list[httpx.AsyncClient]]]:
    services = [replica("a"), replica("b")]
    everyone = ReplicasHere(services, missing)
    async with AsyncExitStack() as stack:
        yield services, [await stack.enter_async_context(served(one, replicas=everyone)) for one in services]


async def test_stats_add_up_whichever_replica_is_asked() -> None:
    async with two_replicas() as (services, (a, b)):
        for client, texts in ((a, 2), (b, 3)):
            assert (
                await client.post("/v1/translate", json=TEXT | {"text": ["Good morning."] * texts})
            ).status_code == 200
        for client in (a, b):
            stats = Stats.model_validate((await client.get("/v1/stats")).json())
            assert (stats.state, stats.replica) == ("serving", "")
            assert [one.replica for one in stats.replicas] == ["a", "b"]
            assert stats.engine.finished == sum(one.engine.finished for one in stats.replicas) > 5  # the warm-ups too
            assert stats.max_in_flight_characters == 2 * services[0].admission.limit


async def test_a_replica_that_does_not_answer_is_reported() -> None:
    async with two_replicas(missing=("c",)) as (_, (a, _b)):
        stats = Stats.model_validate((await a.get("/v1/stats")).json())
        assert stats.state == "serving"
        assert {one.replica: one.state for one in stats.replicas} == {
            "a": "serving",
            "b": "serving",
            "c": "unreachable",
        }
        assert (await a.post("/v1/reload")).status_code == 503


async def test_the_operators_port_answers_for_its_replica_alone() -> None:
    async with two_replicas() as (services, _):
        transport = httpx.ASGITransport(create_operator_app(services[1]))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:9001") as client:
            stats = Stats.model_validate((await client.get("/v1/stats")).json())
            assert (stats.replica, stats.replicas) == ("b", [])
            assert stats.engine.finished == services[1].stats().engine.finished == 1
            assert (await client.get("/v1/replicas")).json() == [
                {"targets": ["localhost:9001"], "labels": {"replica": "b"}}
            ]


async def test_service_discovery_lists_each_replica() -> None:
    async with two_replicas() as (_, (a, _b)):
        found = [MetricsTarget.model_validate(one) for one in (await a.get("/v1/replicas")).json()]
        assert [(one.targets, one.labels) for one in found] == [
            (["10.0.0.0:9000"], {"replica": "a"}),
            (["10.0.0.1:9000"], {"replica": "b"}),
        ]


@pytest.mark.parametrize(
    "name", ["b", ""]
)  # in this order: families of the process are the same objects at each scrape
async def test_every_sample_of_a_replica_has_its_name(name: str) -> None:
    service = replica(name)
    async with served(service) as client:
        assert (await client.post("/v1/translate", json=TEXT)).status_code == 200
        page = (await client.get("/metrics")).text
        samples = [one for family in text_string_to_metric_families(page) for one in family.samples]
        assert {one.labels.get("replica", "") for one in samples} == {name}
        prefixes = {one.name.partition("_")[0] for one in samples}
        assert {
            "dragoman",
            "process",
        } <= prefixes  # the client library's own registry, which vLLM's metrics are in, too
        stats = (await client.get("/v1/stats")).json()
        assert (stats["replica"], stats["replicas"]) == (name, [])


async def test_a_reload_reaches_all_replicas_of_one_database(tmp_path: Path) -> None:
    settings = Settings(auth=AuthSettings(mode="keys", refresh_s=3600), cache=CacheSettings(max_bytes=0))
    databases = [Database(f"sqlite:///{tmp_path}/dragoman.db") for _ in range(2)]
    await databases[0].open()
    keys = account_store(databases[0]).keys
    (_, operator), (stored, key) = (
        await keys.create(Account("", "op", role="operator")),
        await keys.create(Account("", "alice")),
    )
    services = [replica(name, settings, database) for name, database in zip("ab", databases, strict=True)]
    everyone = ReplicasHere(services)
    async with served(services[0], replicas=everyone) as a, served(services[1], replicas=everyone) as b:

        async def statuses() -> list[int]:
            headers = {"X-API-Key": key}
            return [(await one.post("/v1/translate", json=TEXT, headers=headers)).status_code for one in (a, b)]

        assert await statuses() == [200, 200]
        await keys.revoke(stored.id)
        assert (await b.post("/v1/reload", headers={"X-API-Key": operator})).status_code == 204
        assert await statuses() == [401, 401]


def made(name: str, **values: object) -> Stats:
    known = {"state": "serving", "model": "m", "profile": "p", "pipeline": "fake", "device": "cpu"}
    return Stats.model_validate(known | {"replica": name} | values)


def test_limits_caches_and_latencies_of_several_replicas() -> None:
    a = made(
        "a",
        refused=1,
        uptime_s=50.0,
        engine=EngineStats(running=3, kv_cache_usage=0.9, kv_cache_tokens=1000, ttft_s=Percentiles(p50=0.1, p95=0.2)),
        cache=CacheStats(stored=1, max_bytes=10),
        last_minute={"texts_per_s": 2.0, "e2e_s": {"p50": 1.0, "p95": 2.0}},
        recorder=RecorderStats(state="failing", written=10, lost=1),
    )
    b = made(
        "b",
        state="restarting",
        uptime_s=70.0,
        engine=EngineStats(
            running=4,
            kv_cache_usage=0.1,
            kv_cache_tokens=3000,
            restarting=True,
            dtype="float32",
            ttft_s=Percentiles(p50=0.05, p95=0.4, p99=0.5),
        ),
        cache=CacheStats(misses=2, max_bytes=10),
        recorder=RecorderStats(state="on", written=20),
        last_minute={"texts_per_s": 0.5, "e2e_s": {}},
    )
    found = sum_stats([b, unreachable_stats("c"), a])
    assert (found.engine.running, found.refused, found.uptime_s) == (7, 1, 70.0)
    assert found.engine.kv_cache_usage == pytest.approx(0.3)
    assert (found.engine.kv_cache_tokens, found.engine.restarting, found.engine.dtype) == (4000, True, "float32")
    assert found.recorder == RecorderStats(state="failing", written=30, lost=1)
    assert (found.cache.stored, found.cache.misses, found.cache.max_bytes) == (1, 2, 20)
    assert found.engine.ttft_s == Percentiles(p50=0.1, p95=0.4, p99=0.5)
    assert found.last_minute == LastMinute(texts_per_s=2.5, e2e_s=Percentiles(p50=1.0, p95=2.0))
    assert [one.replica for one in found.replicas] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("states", "state"),
    [
        (("starting", "serving", "unreachable"), "serving"),
        (("restarting", "starting"), "restarting"),
        (("draining", "unreachable"), "draining"),
        (("unreachable", "unreachable"), "unreachable"),
    ],
)
def test_the_state_is_what_a_caller_finds(states: tuple[str, ...], state: str) -> None:
    assert sum_stats([made(str(place), state=one) for place, one in enumerate(states)]).state == state
