"""Two servers measured in turn: the order, what belongs together, streams, and what is written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dragoman.errors import ConfigError
from dragoman_bench.bench.client import TargetOptions
from dragoman_bench.bench.measurement import Measurement
from dragoman_bench.bench.progress import NoProgress
from dragoman_bench.bench.results import read_results
from dragoman_bench.bench.servers import ServerFault
from dragoman_bench.bench.workload import CachedWorkload
from dragoman_bench.journey.measure import Comparison, LoadMeter, MeasuredServer
from dragoman_bench.journey.page import PairRatios, pair_ratios, write_comparison
from dragoman_bench.journey.steps import MODES, Leg, Mode, Pace
from tests.bench.journeys import at_level, rates, repeat, results
from tests.bench.making import HELLO
from tests.bench.serving import deltas, serving, stats, streamed, translation
from tests.waiting import HANG_S

PACE = Pace(duration_s=0.2, warmup_s=0.05, timeout_s=HANG_S)


class NumberedTexts:
    """A workload whose texts name their variation."""

    description, size = "numbered", None

    def items(self, count: int, variation: int) -> tuple[Any, ...]:
        return tuple(HELLO.__class__(f"{variation} {n}", "en", "de", 4) for n in range(count))

    def samples(self) -> tuple[Any, ...]:
        return (HELLO,)


class Servers:
    """Servers that record the texts sent to each, by mode, and the order of the measurements."""

    def __init__(self) -> None:
        self.measured: list[str] = []
        self.texts: dict[tuple[str, Mode], set[str]] = {}

    async def start(self, stack: AsyncExitStack, name: str, check: Callable[[], None] = lambda: None) -> MeasuredServer:
        async def answer(request: web.Request) -> web.StreamResponse:
            body = await request.json()
            self.texts.setdefault((name, "streamed" if body["stream"] else "plain"), set()).add(body["text"])
            if body["stream"]:
                end = json.dumps({"index": 0, "translation": {}, "usage": {"completion_tokens": 2}})
                return await streamed(request, [*deltas("ha", "llo"), end, "[DONE]"])
            return web.json_response(translation())

        url = await stack.enter_async_context(serving({"/v1/translate": answer}))
        return MeasuredServer(name, url, TargetOptions(), check, lambda: self.measured.append(name))


def meter(interrupted: asyncio.Event | None = None) -> LoadMeter:
    return LoadMeter({"variable": CachedWorkload(NumberedTexts())}, PACE, NoProgress(), interrupted or asyncio.Event())


async def test_servers_are_measured_in_turn_plain_and_streamed() -> None:
    servers, leg = Servers(), Leg("variable", (2,), 2, MODES)
    async with AsyncExitStack() as stack:
        found = await meter().measure(leg, [await servers.start(stack, name) for name in ("a", "b")])
    assert servers.measured == ["a", "b", "a", "b", "b", "a", "b", "a"]  # per round: plain, then streamed
    assert {mode: {name: len(one.points[0].repeats) for name, one in of.items()} for mode, of in found.items()} == {
        "plain": {"a": 2, "b": 2},
        "streamed": {"a": 2, "b": 2},
    }
    streams = found["streamed"]["a"].points[0].repeats[0].summary
    assert streams.completed and streams.ttft and streams.itl and streams.tpot
    assert found["plain"]["a"].points[0].repeats[0].summary.ttft is None
    assert found["streamed"]["b"].conditions.options["stream"] is True
    assert {ratio.metric for ratio in pair_ratios(found["streamed"]["a"], found["streamed"]["b"], "streamed")} >= {
        "time to first token, median",
        "time to first token, 99th percentile",
        "inter-token latency, median",
        "inter-token latency, 99th percentile",
    }


async def test_both_servers_get_the_same_texts_and_streams_get_others() -> None:
    servers, leg = Servers(), Leg("variable", (1,), 1, MODES)
    async with AsyncExitStack() as stack:
        await meter().measure(leg, [await servers.start(stack, name) for name in ("a", "b")])
    sent = {key: texts - {HELLO.text} for key, texts in servers.texts.items()}
    assert sent["a", "plain"] & sent["b", "plain"]
    assert sent["a", "streamed"] & sent["b", "streamed"]
    assert not sent["a", "plain"] & sent["a", "streamed"]


async def test_many_streams_are_read_by_several_client_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)), raising=False)
    async with AsyncExitStack() as stack:
        server = await Servers().start(stack, "a")
        leg = Leg("variable", (1, 64), 1, ("streamed",))
        found = await meter().measure(leg, [server])
    points = found["streamed"]["a"].points
    assert [point.repeats[0].client.processes for point in points] == [1, 2]
    assert all(point.repeats[0].summary.completed for point in points)


async def test_a_round_that_only_one_finished_is_dropped() -> None:
    servers, interrupted = Servers(), asyncio.Event()
    async with AsyncExitStack() as stack:
        two = [await servers.start(stack, "a", interrupted.set), await servers.start(stack, "b")]
        found = await meter(interrupted).measure(Leg("variable", (1,), 3), two)
    assert found["plain"]["a"].points == found["plain"]["b"].points == ()
    assert found["plain"]["a"].partial


async def test_a_server_that_exits_ends_the_comparison() -> None:
    def exited() -> None:
        raise ServerFault("b ended with exit code 1")

    servers = Servers()
    async with AsyncExitStack() as stack:
        two = [await servers.start(stack, "a"), await servers.start(stack, "b", exited)]
        with pytest.raises(ServerFault):
            await meter().measure(Leg("variable", (1,), 3), two)


def test_ratios_are_of_pairs_not_of_medians() -> None:
    (ratio,) = pair_ratios(rates(10.0, 20.0, 30.0), rates(20.0, 20.0, 10.0))[:1]
    assert (ratio.metric, ratio.ratios) == ("requests a second", (0.5, 1.0, 3.0))
    assert ratio.values == ((10.0, 20.0, 30.0), (20.0, 20.0, 10.0))


def test_levels_that_only_one_was_measured_at_are_left_out() -> None:
    both = results(at_level(1, [repeat(rps=1.0)]), at_level(25, [repeat(rps=2.0)]))
    assert {ratio.clients for ratio in pair_ratios(both, rates(1.0))} == {25}


@pytest.mark.parametrize(
    ("ratios", "text"),
    [
        ((1.1, 1.2, 1.05), "1.10 [1.05..1.20], higher in every pair"),
        ((0.9, 0.8), "0.850 [0.800..0.900], lower in every pair"),
        ((0.9, 1.2), "1.05 [0.900..1.20], no difference"),
        ((1.2,), "1.20 [1.20..1.20], measured once"),
    ],
)
def test_a_ratio_has_its_range(ratios: tuple[float, ...], text: str) -> None:
    assert PairRatios(25, "requests a second", ratios).text == text


def test_a_comparison_is_written_as_results_by_server_and_a_table(tmp_path: Path) -> None:
    found = {"ours": rates(10.0, 11.0), "theirs": rates(10.0, 10.0)}
    table = write_comparison(Comparison(("ours", "theirs"), {"plain": found, "streamed": found}), tmp_path)
    assert read_results(tmp_path / "versus.theirs.json") == found["theirs"]
    assert read_results(tmp_path / "versus.ours.streamed.json") == found["ours"]
    assert "| plain | 25 | requests a second | 10.5 req/s [10.0..11.0] | 10.0 req/s [10.0..10.0] | 1.05" in table
    document = json.loads((tmp_path / "versus.json").read_text())
    assert {"clients": 25, "metric": "requests a second", "mode": "streamed"}.items() <= document["ratios"][-2].items()


def test_stored_comparisons_have_ratios_that_this_version_reads() -> None:
    stored = sorted((Path(__file__).parents[2] / "results").glob("versus-*/versus.json"))
    assert stored
    for path in stored:
        found = Measurement.read(path)
        ratios = [PairRatios(**ratio) for ratio in found.data["ratios"]]
        assert len(found.conditions["names"]) == 2 and all(ratio.text for ratio in ratios)


def test_an_interrupted_comparison_without_a_pair_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        write_comparison(Comparison(("ours", "theirs"), {}, partial=True), tmp_path)


async def test_a_model_folder_that_a_server_reports_is_not_kept() -> None:
    async def report(request: web.Request) -> web.StreamResponse:
        return web.json_response(stats(settings={"root": "/home/me/model", "max_model_len": 1024}))

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(translation())

    async with serving({"/v1/translate": answer, "/v1/stats": report}) as url:
        measuring = LoadMeter(meter().workloads, PACE, NoProgress(), asyncio.Event(), path="/home/me/model")
        leg = Leg("variable", (1,))
        server = MeasuredServer("a", url, TargetOptions(), lambda: None)
        found = (await measuring.measure(leg, [server]))["plain"]["a"]
    assert found.conditions.server["max_model_len"] == 1024
    assert "/home/me/model" not in found.conditions.server.values()
