from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from dragoman.errors import ConfigError
from dragoman_bench.bench.benchmark import Plan, Warmup, benchmark
from dragoman_bench.bench.progress import Silent
from dragoman_bench.bench.results import Load, Results, to_document
from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.bench.targets import TargetOptions
from dragoman_bench.bench.workload import MadeUp, parse_pairs
from tests.bench.making import workload
from tests.bench.serving import serving, translate
from tests.waiting import until


class _Server:
    """Answers at once and remembers what it was asked; holds back answers while `held` is set."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.waiting = 0
        self.hold_from = 10**9

    async def translate(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.json())
        if len(self.bodies) > self.hold_from:
            self.waiting += 1
            await asyncio.Event().wait()
        return await translate(request)

    async def stats(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"running": 1, "waiting": 2, "model": "told", "settings": {"engine": {"seqs": 4}}})

    @asynccontextmanager
    async def up(self) -> AsyncIterator[str]:
        async with serving({"/v1/translate": self.translate, "/v1/stats": self.stats}) as url:
            yield url


class _Texts:
    languages = ("en",)

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._made = 0

    def make(self, language: str, tokens: int) -> str:
        self._made += 1
        return f"{self._seed}-{self._made} " + "w " * tokens


MADE_UP = MadeUp("variable", 5, 40, parse_pairs("en-de:2,en-fr:1"), _Texts, lambda text: len(text.split()), "words")


def _plan(url: str, *loads: Load, **fields: Any) -> Plan:
    chosen = {"requests": 8, "warmup": Warmup(), "gpus": frozenset[int](), "sample_every_s": 0.01} | fields
    return Plan(url, TargetOptions(), chosen.pop("workload", MADE_UP), loads, **chosen)


async def _run(plan: Plan) -> Results:
    return await benchmark(plan, Silent(), asyncio.Event())


async def test_every_level_is_measured_as_often_as_asked() -> None:
    loads = (Load("closed", clients=1), Load("closed", clients=2))
    async with _Server().up() as url:
        results = await _run(_plan(url, *loads, repeats=3, slo=parse_slo("p95_s=30")))

    assert not results.partial
    assert [point.load for point in results.points] == list(loads)
    for point in results.points:
        assert [repeat.repeat for repeat in point.repeats] == [0, 1, 2]
        assert {repeat.summary.completed for repeat in point.repeats} == {8}
        assert all(repeat.summary.slo_met and repeat.stopped == "finished" for repeat in point.repeats)
        assert point.spreads["rps"].repeats == 3
        assert point.spreads["rps"].low <= point.spreads["rps"].median <= point.spreads["rps"].high


async def test_no_text_is_sent_twice_and_warm_up_texts_are_not_measured() -> None:
    server = _Server()
    async with server.up() as url:
        results = await _run(
            _plan(url, Load("closed", clients=2), Load("poisson", rate_rps=200), repeats=2, warmup=Warmup(requests=5))
        )

    preflight, warmups, measured = 2, 4 * 5, 4 * 8
    texts = [body["text"] for body in server.bodies]
    assert len(texts) == len(set(texts)) == preflight + warmups + measured
    assert sum(len(repeat.records) for point in results.points for repeat in point.repeats) == measured


async def test_levels_and_repeats_have_the_same_lengths_in_the_same_order() -> None:
    async with _Server().up() as url:
        results = await _run(_plan(url, Load("closed", clients=1), Load("closed", clients=2), repeats=2))

    shapes = {tuple(r.source_tokens for r in m.records) for point in results.points for m in point.repeats}
    assert len(shapes) == 1


async def test_conditions_say_what_was_run_but_never_the_key() -> None:
    async with _Server().up() as url:
        plan = replace(_plan(url, Load("closed", clients=1)), target=TargetOptions(api_key="secret-key"), seed=7)
        conditions = (results := await _run(plan)).conditions

    assert (conditions.url, conditions.target, conditions.model, conditions.seed) == (url, "dragoman", "told", 7)
    assert conditions.server["engine"] == {"seqs": 4}
    assert conditions.workload == MADE_UP.description
    assert conditions.machine.cores >= 1
    assert "aiohttp" in conditions.packages
    assert conditions.options["requests"] == 8
    assert "secret-key" not in json.dumps(to_document(results))


async def test_the_server_is_sampled_while_it_is_measured() -> None:
    async with _Server().up() as url:
        measurement = (await _run(_plan(url, Load("constant", rate_rps=40)))).points[0].repeats[0]

    assert {(sample.running, sample.waiting) for sample in measurement.server} == {(1, 2)}
    assert any(0 <= sample.t_s <= measurement.window_s for sample in measurement.server)
    assert measurement.summary.mean_waiting == 2


async def test_a_server_not_to_be_asked_is_not() -> None:
    async with _Server().up() as url:
        results = await _run(_plan(url, Load("closed", clients=1), stats=None))

    assert results.points[0].repeats[0].server == ()
    assert results.conditions.server == {}


async def test_an_interrupt_keeps_what_was_measured_and_says_so() -> None:
    server, interrupted = _Server(), asyncio.Event()
    server.hold_from = 1 + 8 + 3  # preflight, the first point, three requests of the second
    async with server.up() as url:
        plan = _plan(url, Load("closed", clients=1), Load("closed", clients=2), workload=workload(), repeats=2)
        running = asyncio.create_task(benchmark(plan, Silent(), interrupted))
        await until(lambda: server.waiting == 2, "both clients wait")
        interrupted.set()
        results = await asyncio.wait_for(running, 30)

    assert results.partial
    first, second = (point.repeats for point in results.points)
    assert [repeat.stopped for repeat in first + second] == ["finished", "interrupted"]
    assert second[0].summary.completed == 3
    assert second[0].summary.errors == {"unfinished": 2}
    assert second[0].window_s >= max(record.done_s for record in second[0].records if record.completed)


async def test_an_interrupt_before_the_first_measurement_leaves_no_points() -> None:
    interrupted = asyncio.Event()
    interrupted.set()
    async with _Server().up() as url:
        results = await benchmark(_plan(url, Load("closed", clients=1)), Silent(), interrupted)

    assert (results.points, results.partial) == ((), True)


async def test_an_open_loop_past_the_server_s_capacity_is_stopped() -> None:
    server = _Server()
    server.hold_from = 2  # nothing ends any more
    async with server.up() as url:
        plan = _plan(url, Load("constant", rate_rps=50), requests=None, duration_s=600.0, saturation_after_s=1.0)
        measurement = (await _run(replace(plan, slo=parse_slo("p95_s=1000")))).points[0].repeats[0]

    assert measurement.stopped == "saturated"
    assert 1.0 <= measurement.window_s < 600
    assert measurement.summary.errors == {"unfinished": measurement.summary.requests}
    assert measurement.summary.slo_met is False


async def test_nothing_is_measured_where_the_server_cannot_do_it() -> None:
    async with serving({}) as url:
        with pytest.raises(ConfigError, match="is this a dragoman server"):
            await _run(_plan(url, Load("closed", clients=1)))


async def test_texts_that_were_sent_more_than_once_can_be_told() -> None:
    async with _Server().up() as url:
        measurement = (
            (await _run(_plan(url, Load("closed", clients=1), workload=workload("a", "b")))).points[0].repeats[0]
        )

    assert (len(measurement.records), measurement.distinct_texts) == (8, 2)
