"""Trials over stand-in servers: what is started, measured, survived, kept and told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman_bench.bench.results import read_results
from dragoman_bench.tune.points import Ask, Knobs, KvCache, Setup, Trial
from dragoman_bench.tune.trial import Driver
from dragoman_bench.tune.workshop import Workshop
from tests.tune.shops import Shop, ask, asking
from tests.waiting import until


async def drive(shop: Workshop, *steps: Ask | Trial) -> list[Trial]:
    async with Driver(shop) as driver:
        return await driver.drive(asking(steps))


async def test_asks_of_one_trial_are_measured_on_one_server(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    told = await drive(shop.open(), ask("one", cap=1), ask("one", cap=2), ask("one", cap=2, repeat=1), ask("two"))
    assert shop.started == ["one", "two"]
    assert [trial.name for trial in told] == ["one", "one", "one", "two"]
    assert [len(trial.seen) for trial in told] == [1, 2, 3, 1]
    levels = [(seen.level.cap, seen.repeat) for seen in told[2].seen]
    assert levels == [(1, 0), (2, 0), (2, 1)]
    assert all(seen.rps > 0 and seen.failed == 0 for seen in told[2].seen)


async def test_a_trial_has_what_the_server_says_of_itself(tmp_path: Path) -> None:
    (trial,) = await drive(Shop(tmp_path).open(), ask("one"))
    assert trial.outcome == "measured"
    assert trial.why == "because it was asked"
    assert trial.kv_cache == KvCache(4096, 2048)
    assert trial.gpu_memory_utilization == 0.5
    assert trial.engine["max_num_seqs"] == 8
    assert trial.start_s is not None and trial.start_s > 0


async def test_raw_results_lie_where_the_trial_says(tmp_path: Path) -> None:
    (trial,) = await drive(Shop(tmp_path).open(slo="e2e_s=1"), ask("one", cap=1))
    (seen,) = trial.seen
    results = read_results(tmp_path / seen.file)
    assert results.points[0].repeats[0].summary.goodput_rps == seen.goodput_rps
    assert results.conditions.options["connections"] == 1
    assert results.conditions.slo == "e2e_s=1"
    assert results.conditions.options["label"] == "one, 2 clients, at most 1 at once"


async def test_a_server_that_does_not_start_is_an_outcome_and_the_search_goes_on(tmp_path: Path) -> None:
    shop = Shop(tmp_path, one="starved")
    first, again, other = await drive(shop.open(), ask("one"), ask("one", repeat=1), ask("two"))
    assert first.outcome == again.outcome == "did_not_start"
    assert first.reason == (
        "one ended with exit code 1: ValueError: No available memory for the cache blocks. Try increasing it."
    )
    assert other.outcome == "measured"
    assert shop.started == ["one", "two"]
    assert "one did not start" in shop.said.getvalue()


@pytest.mark.parametrize(("manner", "why"), [("fragile", "exit code 7"), ("hollow", "answers 503")])
async def test_a_server_that_dies_under_load_is_an_outcome_that_keeps_nothing_of_it(
    manner: str, why: str, tmp_path: Path
) -> None:
    first, other = await drive(Shop(tmp_path, one=manner).open(), ask("one"), ask("two"))
    assert first.outcome == "failed_under_load"
    assert why in first.reason
    assert first.seen == ()
    assert first.kv_cache is not None
    assert other.outcome == "measured"


async def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    asks = (ask("one", cap=1), ask("one", cap=2))
    first = await drive(shop.open(), *asks)
    again = await drive(shop.open(), *asks)
    assert shop.started == []
    assert again == first
    assert "(kept)" in shop.said.getvalue()


async def test_a_server_is_started_only_for_what_is_missing(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    await drive(shop.open(), ask("one", cap=1))
    _, whole = await drive(shop.open(), ask("one", cap=1), ask("one", cap=2))
    assert shop.started == ["one"]
    assert [seen.level.cap for seen in whole.seen] == [1, 2]


async def test_other_conditions_are_measured_anew(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    await drive(shop.open(), ask("one"))
    await drive(shop.open(), ask("one", knobs=Knobs(max_num_seqs=16)))
    assert shop.started == ["one"]
    await drive(shop.open(content="another trace"), ask("one", knobs=Knobs(max_num_seqs=16)))
    assert shop.started == ["one"]
    await drive(shop.open(content="another trace", fresh=True), ask("one", knobs=Knobs(max_num_seqs=16)))
    assert shop.started == ["one"]


async def test_another_slo_judges_what_was_measured(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    (plain,) = await drive(shop.open(), ask("one"))
    (judged,) = await drive(shop.open(slo="e2e_s=60"), ask("one"))
    (missed,) = await drive(shop.open(slo="e2e_ms=0.001"), ask("one"))
    assert shop.started == []
    assert plain.seen[0].goodput_rps is None
    assert judged.seen[0].goodput_rps == plain.seen[0].rps
    assert (missed.seen[0].goodput_rps, missed.seen[0].slo_met) == (0.0, False)


async def test_an_slo_on_tokens_needs_streamed_measurements(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    await drive(shop.open(), ask("one"))
    (streamed,) = await drive(shop.open(slo="ttft_s=60"), ask("one"))
    assert shop.started == ["one"]
    assert streamed.seen[0].ttft_p95_s is not None
    assert streamed.seen[0].slo_met


async def test_a_point_that_crashed_is_not_crashed_into_again(tmp_path: Path) -> None:
    shop = Shop(tmp_path, one="dies")
    first = await drive(shop.open(), ask("one"))
    again = await drive(shop.open(), ask("one"))
    assert shop.started == []
    assert (again[0].outcome, again[0].reason) == (first[0].outcome, first[0].reason)
    await drive(shop.open(fresh=True), ask("one"))
    assert shop.started == ["one"]


async def test_a_ladder_that_did_not_start_is_tried_again_by_the_next_run(tmp_path: Path) -> None:
    shop = Shop(tmp_path, ladder="dies")
    await drive(shop.open(), ask("ladder", phase="ladder"))
    await drive(shop.open(), ask("ladder", phase="ladder"))
    assert shop.started == ["ladder"]


async def test_an_interrupt_keeps_what_was_measured_and_begins_nothing(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    measured = tmp_path / "points" / "one.cap-1.clients-2.1.json"

    async def interrupt() -> None:
        await until(measured.exists, "the first measurement's results")
        shop.interrupted.set()

    asks = (ask("one", cap=1), ask("one", cap=2), ask("two"))
    told, _ = await asyncio.gather(drive(shop.open(), *asks), interrupt())
    assert [trial.outcome for trial in told] == ["measured", "interrupted", "interrupted"]
    assert [len(trial.seen) for trial in told] == [1, 1, 0]
    assert shop.started == ["one"]
    shop.interrupted = asyncio.Event()
    told = await drive(shop.open(), *asks)
    assert shop.started == ["one", "two"]
    assert [trial.outcome for trial in told] == ["measured"] * 3


async def test_what_would_not_end_in_time_is_skipped_and_named(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    workshop = shop.open(deadline_s=1.0, clock=lambda: 0.0)  # starting alone is expected to take a minute
    async with Driver(workshop) as driver:
        told = await driver.drive(asking([ask("one"), ask("two")]))
        assert "time limit" in driver.stopped
    assert [trial.outcome for trial in told] == ["skipped", "skipped"]
    assert "time limit" in told[0].reason
    assert shop.started == []
    assert "one is skipped" in shop.said.getvalue()


async def test_what_is_left_of_the_time_is_used(tmp_path: Path) -> None:
    now_s = [0.0]
    workshop = Shop(tmp_path).open(deadline_s=90.0, clock=lambda: now_s[0])
    async with Driver(workshop) as driver:
        (first,) = await driver.drive(asking([ask("one", cap=1)]))
        now_s[0] = 89.9
        told = await driver.drive(asking([ask("one", cap=2)]))
    assert first.outcome == "measured"
    assert (told[0].outcome, len(told[0].seen)) == ("interrupted", 1)


async def test_records_of_a_search_stand_as_they_are(tmp_path: Path) -> None:
    skipped = Trial("tokens-16384", "batched_tokens", Setup(Knobs()), "more", "skipped", "no step holds so many")
    failed = Trial("memory", "memory", Setup(Knobs()), "check", "failed_under_load", "3 preemptions")
    shop = Shop(tmp_path)
    async with Driver(shop.open()) as driver:
        assert await driver.drive(asking([skipped, failed])) == [skipped, failed]
        assert list(driver.trials.values()) == [skipped, failed]
    assert shop.started == []
    assert "tokens-16384 is skipped: no step holds so many" in shop.said.getvalue()
    assert "memory failed under load: 3 preemptions" in shop.said.getvalue()
