"""Finals over stand-in servers: turns, fallbacks, and what becomes of a contender that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from dragoman_bench.tune import final
from dragoman_bench.tune.contenders import Sharing
from dragoman_bench.tune.final import Match, hold
from dragoman_bench.tune.outcome import Contender, Final, Standing
from dragoman_bench.tune.points import Knobs, Level, Setup
from tests.tune.shops import Shop
from tests.waiting import until

NAMES = ("a", "b", "c")
BUSY, LOW = Level(3), Level(1)


def contender(name: str) -> Contender:
    knobs = Knobs(max_num_seqs=8, gpu_memory_utilization=0.9)
    return Contender(name, f"contender {name}", Setup(knobs), knobs)


def match(rounds: int = 2, *, together: bool = True, names: Sequence[str] = NAMES) -> Match:
    sharing = Sharing(together, "told how", 0.24 if together else None)
    return Match(tuple(map(contender, names)), BUSY, LOW, rounds, "rps", sharing)


def by_name(found: Final) -> dict[str, Standing]:
    return {standing.contender.name: standing for standing in found.standings}


def measured_order(folder: Path, level: Level) -> list[str]:
    """Names of contenders in the order in which their results at the level were written."""
    files = (folder / "points").glob(f"final-*.clients-{level.clients}.*.json")
    return [
        file.name.split(".")[0].removeprefix("final-") for file in sorted(files, key=lambda f: f.stat().st_mtime_ns)
    ]


async def test_all_are_up_at_once_and_take_turns_whose_order_changes(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    found = await hold(shop.open(), match())
    assert shop.started == ["final-a", "final-b", "final-c"]
    assert (found.together, found.rounds, found.memory_told) == (True, 2, "told how")
    assert measured_order(tmp_path, BUSY) == [*"abc", *"bca"]
    standings = by_name(found)
    assert [len(one.busy) for one in standings.values()] == [2, 2, 2]
    assert [len(one.low) for one in standings.values()] == [1, 1, 1]
    assert [seen.repeat for seen in standings["a"].busy] == [0, 1]
    assert standings["a"].outcome == "measured"
    assert standings["a"].start_s and standings["a"].kv_cache


async def test_beside_each_other_each_has_its_share_of_memory(tmp_path: Path) -> None:
    found = await hold(Shop(tmp_path).open(), match(1, names="a"))
    (standing,) = found.standings
    assert standing.contender.setup.knobs.gpu_memory_utilization == 0.24
    assert standing.contender.alone.gpu_memory_utilization == 0.9


async def test_where_memory_is_short_one_is_up_at_a_time(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    found = await hold(shop.open(), match(together=False))
    assert shop.started == [f"final-{name}" for name in "abcbca"]
    assert not found.together
    assert [len(one.busy) for one in found.standings] == [2, 2, 2]
    assert by_name(found)["a"].contender.setup.knobs.gpu_memory_utilization == 0.9


async def test_one_that_lacks_memory_beside_the_others_sends_all_to_turns_of_their_own(tmp_path: Path) -> None:
    shop = Shop(tmp_path, final_b=["starved", "well"])
    found = await hold(shop.open(), match(1))
    assert not found.together
    assert "contender b did not start beside the others" in found.memory_told
    assert [len(one.busy) for one in found.standings] == [1, 1, 1]
    assert shop.started == ["final-a", "final-b", *(f"final-{name}" for name in "abc")]


async def test_a_machine_without_room_for_one_more_starts_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    little = psutil.virtual_memory()._replace(available=1 << 20)
    monkeypatch.setattr(final.psutil, "virtual_memory", lambda: little)
    shop = Shop(tmp_path)
    found = await hold(shop.open(), match(1, names="ab"))
    assert not found.together
    assert "GiB are free" in found.memory_told
    assert shop.started == ["final-a", "final-a", "final-b"]


async def test_one_that_does_not_start_is_out_and_the_others_go_on(tmp_path: Path) -> None:
    shop = Shop(tmp_path, final_b="dies")
    found = await hold(shop.open(), match())
    assert found.together
    assert found.rounds == 2
    standings = by_name(found)
    assert standings["b"].outcome == "did_not_start"
    assert "no such model" in standings["b"].reason
    assert standings["b"].busy == ()
    assert [len(standings[name].busy) for name in "ac"] == [2, 2]
    assert shop.started.count("final-b") == 1


async def test_one_that_dies_under_load_is_out(tmp_path: Path) -> None:
    found = await hold(Shop(tmp_path, final_a="fragile").open(), match(together=False))
    standings = by_name(found)
    assert standings["a"].outcome == "failed_under_load"
    assert [len(standings[name].busy) for name in "abc"] == [0, 2, 2]


async def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    first = await hold(shop.open(), match())
    again = await hold(shop.open(), match())
    assert shop.started == []
    assert again == first
    await hold(shop.open(), match(3))
    assert shop.started == ["final-a", "final-b", "final-c"]


async def test_an_interrupt_leaves_the_rounds_that_were_made(tmp_path: Path) -> None:
    shop = Shop(tmp_path)

    async def interrupt() -> None:
        await until(lambda: len(measured_order(tmp_path, BUSY)) >= 4, "more than a round")
        shop.interrupted.set()

    found, _ = await asyncio.gather(hold(shop.open(), match(5, names="abc")), interrupt())
    assert 1 <= found.rounds < 5
    assert all(one.busy and one.outcome == "measured" for one in found.standings)


async def test_an_interrupt_before_the_first_round_is_told_of_each(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.interrupted.set()
    found = await hold(shop.open(), match())
    assert found.rounds == 0
    assert {one.outcome for one in found.standings} == {"interrupted"}
    assert shop.started == []


async def test_a_final_that_would_not_end_in_time_is_skipped_and_named(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    found = await hold(shop.open(deadline_s=1.0, clock=lambda: 0.0), match())
    assert found.rounds == 0
    assert {one.outcome for one in found.standings} == {"skipped"}
    assert "time limit" in found.standings[0].reason


async def test_preemptions_in_the_final_are_told(tmp_path: Path) -> None:
    shop = Shop(tmp_path, final_b="preempts")
    found = await hold(shop.open(), match(1, names="ab"))
    assert found.memory_told == "told how; requests were preempted, and so slowed, in contender b"
