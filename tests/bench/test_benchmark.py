"""A benchmark against small servers: checks, points, conditions, interrupts."""

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
from dragoman_bench.bench.benchmark import (
    Plan,
    Warmup,
    check_server,
    check_url,
    resolve,
    run_benchmark,
)
from dragoman_bench.bench.client import TargetOptions, open_session
from dragoman_bench.bench.progress import NoProgress
from dragoman_bench.bench.results import RESULTS, Load, Results
from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.bench.workload import GeneratedWorkload, Item, RecordedWorkload, parse_pairs
from tests.bench.making import HELLO, workload
from tests.bench.serving import Handler, hang, serving, stats, translate
from tests.waiting import HANG_S, until


class _Server:
    """Answers immediately and remembers what it was asked; holds back answers while `held` is set."""

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
        reported = {
            "engine": {"running": 1, "waiting": 2, "dtype": "float32"},
            "model": "reported",
            "cpu_instruction_sets": ["avx2"],
        }
        return web.json_response(stats(**reported, settings={"engine": {"seqs": 4}}))

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


MADE_UP = GeneratedWorkload(
    "variable", 5, 40, parse_pairs("en-de:2,en-fr:1"), _Texts, lambda text: len(text.split()), "words"
)


def _plan(url: str, *loads: Load, **fields: Any) -> Plan:
    chosen = {"requests": 8, "warmup": Warmup(), "sample_every_s": 0.01} | fields
    return Plan(url, TargetOptions(), chosen.pop("workload", MADE_UP), loads, **chosen)


async def _run(plan: Plan) -> Results:
    return await run_benchmark(plan, NoProgress(), asyncio.Event())


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

    checks, warmups, measured = 2, 4 * 5, 4 * 8
    texts = [body["text"] for body in server.bodies]
    assert len(texts) == len(set(texts)) == checks + warmups + measured
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

    assert (conditions.url, conditions.target, conditions.model, conditions.seed) == (url, "dragoman", "reported", 7)
    assert conditions.server["engine"] == {"seqs": 4}
    assert conditions.workload == MADE_UP.description
    assert (conditions.server["dtype"], conditions.server["cpu_instruction_sets"]) == ("float32", ["avx2"])
    assert conditions.machine.cores >= 1
    assert "aiohttp" in conditions.packages
    assert conditions.options["requests"] == 8
    assert "secret-key" not in json.dumps(RESULTS.document(results))


async def test_the_server_is_sampled_while_it_is_measured() -> None:
    async with _Server().up() as url:
        measurement = (await _run(_plan(url, Load("constant", rate_rps=40)))).points[0].repeats[0]

    assert {(sample.running, sample.waiting) for sample in measurement.server} == {(1, 2)}
    assert any(0 <= sample.t_s <= measurement.window_s for sample in measurement.server)
    assert measurement.summary.mean_waiting == 2


async def test_a_server_not_to_be_asked_is_not() -> None:
    async with _Server().up() as url:
        results = await _run(_plan(url, Load("closed", clients=1), sampled=False))

    assert results.points[0].repeats[0].server == ()
    assert results.conditions.server == {}


async def test_an_interrupt_keeps_what_was_measured_and_says_so() -> None:
    server, interrupted = _Server(), asyncio.Event()
    server.hold_from = 1 + 8 + 3  # the check, the first point, three requests of the second
    async with server.up() as url:
        plan = _plan(url, Load("closed", clients=1), Load("closed", clients=2), workload=workload(), repeats=2)
        running = asyncio.create_task(run_benchmark(plan, NoProgress(), interrupted))
        await until(lambda: server.waiting == 2, "both clients wait")
        interrupted.set()
        results = await asyncio.wait_for(running, HANG_S)

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
        results = await run_benchmark(_plan(url, Load("closed", clients=1)), NoProgress(), interrupted)

    assert (results.points, results.partial) == ((), True)


async def test_nothing_is_measured_where_the_server_cannot_do_it() -> None:
    async with serving({}) as url:
        with pytest.raises(ConfigError, match="is this a dragoman server"):
            await _run(_plan(url, Load("closed", clients=1)))


async def test_texts_that_were_sent_more_than_once_are_counted() -> None:
    async with _Server().up() as url:
        measurement = (
            (await _run(_plan(url, Load("closed", clients=1), workload=workload("a", "b")))).points[0].repeats[0]
        )

    assert (len(measurement.records), measurement.distinct_texts) == (8, 2)


async def _check(handler: Handler, *items: Item, timeout_s: float = 30.0) -> None:
    async with serving({"/v1/translate": handler}) as url, open_session() as session:
        await check_server(session, url, TargetOptions(stream=True), items or (HELLO,), timeout_s)


def _answering(status: int, text: str = "{}") -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=text)

    return handler


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://host", "http://", "nonsense"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is not a URL"):
        check_url(url)


def test_a_url_loses_its_last_slash() -> None:
    assert check_url("http://host:8000/") == "http://host:8000"


async def test_a_server_that_answers_passes() -> None:
    await _check(translate)


async def test_a_busy_server_passes() -> None:
    await _check(_answering(429))


async def test_every_item_is_tried_and_the_pair_that_fails_is_named() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if (await request.json())["target"] == "tlh":
            return web.json_response({"error": {"message": "tlh is not served"}}, status=400)
        return await translate(request)

    with pytest.raises(ConfigError, match=r"answered 400 to a text of the pair en-tlh: .*tlh is not served"):
        await _check(handler, HELLO, Item("Hello", "en", "tlh", 1))


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (_answering(404), r"does not exist \(404\): is this a dragoman server\?"),
        (_answering(405), r"does not exist \(405\)"),
        (_answering(401, "no key"), "answered 401 .*no key"),
        (_answering(503, "starting"), "answered 503 .*starting"),
        (_answering(200, "<html>"), "does not answer as a dragoman server"),
        (_answering(200, '{"translatedText": "x"}'), "does not answer as a dragoman server"),
    ],
)
async def test_why_a_server_does_not_pass(handler: Handler, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        await _check(handler)


async def test_a_server_that_hangs() -> None:
    with pytest.raises(ConfigError, match=r"did not answer within 0\.05 s"):
        await _check(hang, timeout_s=0.05)


async def test_a_server_that_is_not_there() -> None:
    async with open_session() as session:
        with pytest.raises(ConfigError, match=r"cannot reach http://127.0.0.1:9/v1/translate"):
            await check_server(session, "http://127.0.0.1:9", TargetOptions(), (HELLO,), 5)


async def test_the_model_of_an_openai_server_is_asked_for_unless_named() -> None:
    async def models(request: web.Request) -> web.StreamResponse:
        return web.json_response({"data": [{"id": "org/model"}]})

    async with serving({"/v1/models": models}) as url, open_session() as session:
        asked = await resolve(session, url, TargetOptions("openai-chat"))
        named = await resolve(session, "http://127.0.0.1:9", TargetOptions("openai-chat", model="other"))
        other = await resolve(session, "http://127.0.0.1:9", TargetOptions("deepl"))

    assert (asked.model, named.model, other.model) == ("org/model", "other", None)


@pytest.mark.parametrize("handler", [_answering(404), _answering(200, '{"data": []}'), _answering(200, "x")])
async def test_a_server_without_models_needs_one_named(handler: Handler) -> None:
    async with serving({"/v1/models": handler}) as url, open_session() as session:
        with pytest.raises(ConfigError, match="--model"):
            await resolve(session, url, TargetOptions("openai-completions"))


@pytest.mark.parametrize(
    ("reported", "forced"),
    [
        (json.dumps(stats(settings={"engine": {"load_format": "auto"}})), False),
        (json.dumps(stats(settings={"engine": {"load_format": "dummy"}})), True),
        ("{}", True),
        ("nothing", True),
    ],
)
async def test_output_lengths_are_forced_unless_the_server_reports_real_weights(reported: str, forced: bool) -> None:
    async with serving({"/v1/stats": _answering(200, reported)}) as url, open_session() as session:
        assert (await resolve(session, url, TargetOptions())).forced is forced
        assert (await resolve(session, url, TargetOptions(forced=True))).forced is True


CLOSED = Load("closed", clients=4)
POISSON = Load("poisson", rate_rps=5)


def _unchecked_plan(*loads: Load, **fields: object) -> Plan:
    chosen: dict[str, object] = {"workload": workload(), "requests": 10} | fields
    return Plan("http://h", target=chosen.pop("target", TargetOptions()), loads=loads, **chosen)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("loads", "fields", "said"),
    [
        ((), {}, "no load level"),
        ((CLOSED,), {"requests": None}, "--requests or --duration"),
        ((CLOSED,), {"slo": parse_slo("ttft_ms_p95=300")}, "needs --stream"),
        ((Load("closed", clients=0),), {}, "cannot share"),
        ((CLOSED,), {"processes": 8}, "8 client processes cannot share 4"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(loads: tuple[Load, ...], fields: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        _unchecked_plan(*loads, **fields)


def test_an_slo_on_tokens_goes_with_a_stream() -> None:
    _unchecked_plan(CLOSED, slo=parse_slo("ttft_ms_p95=300"), target=TargetOptions(stream=True))


def test_closed_loops_have_no_schedule_and_each_measurement_of_an_open_one_its_own() -> None:
    plan = _unchecked_plan(CLOSED, POISSON)

    assert plan.job(CLOSED, 1).schedule is None
    assert plan.job(POISSON, 1).schedule == plan.job(POISSON, 1).schedule
    assert plan.job(POISSON, 1).schedule != plan.job(POISSON, 2).schedule


def test_a_replay_needs_times() -> None:
    trace = RecordedWorkload("trace", (Item("a", "en", "de", 1, at_s=5), Item("b", "en", "de", 1, at_s=6.5)))

    assert _unchecked_plan(Load("replay"), workload=trace, requests=None).job(Load("replay"), 1).schedule == (0, 1.5)
    with pytest.raises(ConfigError, match="replay needs a trace"):
        _unchecked_plan(Load("replay")).job(Load("replay"), 1)


def test_rates_are_over_the_duration_or_to_the_last_answer_or_to_the_stop() -> None:
    counted, timed = _unchecked_plan(CLOSED), _unchecked_plan(CLOSED, requests=None, duration_s=30.0)

    assert counted.window_s(CLOSED, 12.5, None) == 12.5
    assert timed.window_s(CLOSED, 31.7, None) == 30.0
    assert timed.window_s(CLOSED, 9.0, 8.5) == 8.5
    assert timed.window_s(Load("replay"), 12.5, None) == 12.5
