from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dragoman.errors import ConfigError
from dragoman_bench.bench.progress import Silent
from dragoman_bench.bench.results import read_results
from dragoman_bench.bench.servers import ServerFault
from dragoman_bench.bench.targets import TargetOptions
from dragoman_bench.journey import versus
from dragoman_bench.journey.duel import Duel, write_duel
from dragoman_bench.journey.measure import Meter, Remembered
from dragoman_bench.journey.steps import Leg, Level, Pace
from dragoman_bench.journey.versus import Contender, PairRatio, alternate, pair_ratios
from tests.bench.journeys import at_level, rates, repeat, results
from tests.bench.making import workload
from tests.bench.serving import serving, translation

PACE = Pace(duration_s=0.2, warmup_s=0.05, timeout_s=5.0)


class Pair:
    """Two servers that note who was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def routes(self, name: str) -> dict[str, Any]:
        async def answer(request: web.Request) -> web.StreamResponse:
            if not self.asked or self.asked[-1] != name:
                self.asked.append(name)
            return web.json_response(translation())

        return {"/v1/translate": answer}


def meter(interrupted: asyncio.Event | None = None) -> Meter:
    texts = Remembered(workload(*(f"text {n}" for n in range(50))))
    return Meter({"variable": texts}, PACE, Silent(), interrupted or asyncio.Event())


def contender(name: str, url: str, check: Any = lambda: None) -> Contender:
    return Contender(name, url, TargetOptions(), check)


class Announced(list[str]):
    """Contenders whose turns are noted."""

    def contender(self, name: str, url: str) -> Contender:
        return replace(contender(name, url), announce=lambda: self.append(name))


async def test_servers_take_turns_and_who_begins_changes() -> None:
    pair, leg, turns = Pair(), Leg("variable", (Level(2, 3),)), Announced()
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(serving(pair.routes(name))) for name in ("a", "b")]
        found = await alternate(meter(), leg, (turns.contender("a", urls[0]), turns.contender("b", urls[1])))
    assert turns == ["a", "b", "b", "a", "a", "b"]
    # Both are checked, then a b, b a, a b: who is asked twice running is noted once.
    assert pair.asked == ["a", "b"] * 3
    assert [len(found[name].points[0].repeats) for name in ("a", "b")] == [3, 3]
    texts = [[r.text for r in found[name].points[0].repeats[0].records][:5] for name in ("a", "b")]
    assert texts[0] == texts[1]
    assert found["a"].conditions.options["label"] == "a"


async def test_of_three_servers_each_is_first_second_and_last_once() -> None:
    pair, turns, names = Pair(), Announced(), ("a", "b", "c")
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(serving(pair.routes(name))) for name in names]
        three = [turns.contender(name, url) for name, url in zip(names, urls, strict=True)]
        found = await alternate(meter(), Leg("variable", (Level(1, 3),)), three)
    assert "".join(turns) == "abcbcacab"
    assert [len(found[name].points[0].repeats) for name in names] == [3, 3, 3]


async def test_a_turn_that_only_one_finished_is_dropped() -> None:
    pair, interrupted = Pair(), asyncio.Event()
    leg = Leg("variable", (Level(1, 3),))

    def stop_at_once() -> None:
        interrupted.set()

    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(serving(pair.routes(name))) for name in ("a", "b")]
        two = (contender("a", urls[0], stop_at_once), contender("b", urls[1]))
        found = await alternate(meter(interrupted), leg, two)
    assert found["a"].points == found["b"].points == ()
    assert found["a"].partial


async def test_a_server_that_dies_ends_the_comparison() -> None:
    pair = Pair()

    def dead() -> None:
        raise ServerFault("b ended with exit code 1")

    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(serving(pair.routes(name))) for name in ("a", "b")]
        two = (contender("a", urls[0]), contender("b", urls[1], dead))
        with pytest.raises(ServerFault):
            await alternate(meter(), Leg("variable", (Level(1, 3),)), two)


def test_ratios_are_of_pairs_not_of_medians() -> None:
    ratios = pair_ratios(rates(10.0, 20.0, 30.0), rates(20.0, 20.0, 10.0))
    assert PairRatio(25, "requests a second", (0.5, 1.0, 3.0)) in ratios


def test_levels_that_only_one_was_measured_at_are_left_out() -> None:
    both = results(at_level(1, [repeat(rps=1.0)]), at_level(25, [repeat(rps=2.0)]))
    assert {ratio.clients for ratio in pair_ratios(both, rates(1.0))} == {25}


@pytest.mark.parametrize(
    ("ratios", "told"),
    [
        ((1.1, 1.2, 1.05), "1.10 (1.05..1.20), higher in every pair"),
        ((0.9, 0.8), "0.85 (0.80..0.90), lower in every pair"),
        ((0.9, 1.2), "1.05 (0.90..1.20), no difference"),
        ((1.2,), "1.20 (1.20..1.20), measured once"),
    ],
)
def test_a_ratio_is_told_with_its_range(ratios: tuple[float, ...], told: str) -> None:
    assert PairRatio(25, "requests a second", ratios).told == told


def test_a_duel_is_written_as_two_results_and_a_table(tmp_path: Path) -> None:
    found = {"ours": rates(10.0, 11.0), "theirs": rates(10.0, 10.0)}
    duel = Duel(("ours", "theirs"), found, tuple(pair_ratios(found["ours"], found["theirs"])), partial=False)
    told = write_duel(duel, tmp_path)
    assert read_results(tmp_path / "versus.theirs.json") == found["theirs"]
    assert "| 25 | requests a second | 10.5 req/s (10.0..11.0) | 10.0 req/s (10.0..10.0) | 1.05 (1.00..1.10)" in told
    assert told == versus.markdown(duel.names, duel.results, duel.ratios)


def test_a_duel_that_measured_nothing_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to compare"):
        write_duel(Duel(("ours", "theirs"), {}, (), partial=True), tmp_path)


async def test_a_servers_word_for_the_models_folder_is_not_kept() -> None:
    async def stats(request: web.Request) -> web.StreamResponse:
        return web.json_response({"running": 0, "settings": {"root": "/home/me/model", "max_model_len": 1024}})

    async with serving({**Pair().routes("a"), "/v1/stats": stats}) as url:
        measuring = replace(meter(), path="/home/me/model")
        found = await measuring.measure_leg(url, TargetOptions(), Leg("variable", (Level(1),)), lambda: None, {})
    assert found.conditions.server == {"max_model_len": 1024}
