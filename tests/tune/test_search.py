"""Whole tunes over stand-in servers: every part in its order, stopped anywhere, and gone on with."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from dragoman_bench.bench.results import Machine
from dragoman_bench.tune.config_file import config_text
from dragoman_bench.tune.demand import Demand, PromptShape
from dragoman_bench.tune.outcome import Levels, Tuning
from dragoman_bench.tune.outputs import write_outcome
from dragoman_bench.tune.planned import planned
from dragoman_bench.tune.points import Place
from dragoman_bench.tune.search import Job, estimated, tune
from dragoman_bench.tune.workshop import BY_HAND
from tests.bench.making import workload
from tests.tune.shops import PACE, Shop
from tests.waiting import until

PLACE = Place("cpu", 24 * 2**30)
MACHINE = Machine("Linux", "x86_64", "a CPU", 2, 24.0)


def job(**changes: Any) -> Job:
    texts = workload(*(f"{'word ' * (n % 9)}text {n}" for n in range(60)))
    outputs = tuple(item.source_tokens for item in texts.recorded)
    shape = PromptShape(overhead=4, window=64)
    demand = Demand("made here", texts.recorded, outputs, Levels(1, 3, 4), shape, {"mix": texts, "long": texts})
    return Job(demand, PLACE, MACHINE, **({"repeats": 1, "baselines": ("embedder",)} | changes))


async def run(shop: Shop, job: Job, **opening: Any) -> Tuning:
    return await tune(shop.open(slo="e2e_s=30", **opening), job)


async def test_a_tune_goes_from_the_ladder_to_a_recommendation(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    tuning = await run(shop, job())
    assert not tuning.partial
    assert tuning.ladder is not None and tuning.ladder.knee is not None
    assert shop.started[0] == "ladder"
    assert [name for name in shop.started if name.startswith("final")] == ["final-finalist", "final-embedder"]
    assert tuning.memory is not None and tuning.memory.checked == "held"
    assert any(trial.outcome == "skipped" for trial in tuning.trials)
    assert tuning.final is not None and tuning.final.together
    assert {one.verdict for one in tuning.final.standings} <= {"itself", "higher", "equal", "lower"}
    assert tuning.recommendation is not None
    assert {"engine.max_num_seqs", "engine.kv_cache_memory_bytes"} <= {
        one.path for one in tuning.recommendation.choices
    }
    assert tuning.took_s is not None and tuning.took_s > 0


async def test_a_simpler_setup_is_shown_by_itself_before_it_is_recommended(tmp_path: Path) -> None:
    shop = Shop(tmp_path, final_finalist="slow")
    tuning = await run(shop, job())
    found = tuning.recommendation
    assert found is not None and found.contender == "embedder"
    assert shop.started[-1] == "recommended"
    assert found.memory is not None and found.memory.checked == "held" and found.memory.trials == ("recommended",)
    assert found.seen and {seen.level.clients for seen in found.seen} == {3}
    assert not any("computed" in caveat for caveat in found.caveats)
    assert tuning.starts == sum(not name.startswith(("final", "recommended")) for name in shop.started)
    assert "by itself with its memory, 3 clients:" in " ".join(config_text(tuning, {}).replace("\n#", " ").split())


async def test_one_that_does_not_hold_by_itself_is_recommended_with_that_said(tmp_path: Path) -> None:
    shop = Shop(tmp_path, final_finalist="slow")
    shop.manners |= dict.fromkeys(["recommended", *(f"recommended-{n}" for n in range(2, 9))], "fragile")
    found = (await run(shop, job())).recommendation
    assert found is not None and found.contender == "embedder"
    assert found.memory is not None and found.memory.checked == "did not hold"
    assert found.seen == ()
    assert any("no memory that was tried held" in caveat for caveat in found.caveats)


async def test_its_raw_results_lie_in_its_folder_and_its_outcome_is_written(tmp_path: Path) -> None:
    tuning = await run(Shop(tmp_path), job(baselines=()))
    assert tuning.final is None and not tuning.partial
    assert all((tmp_path / seen.file).is_file() for trial in tuning.trials for seen in trial.seen)
    paths = write_outcome(tuning, tmp_path, {"engine.max_model_len": 1024})
    assert [path.name for path in paths] == ["dragoman.toml", "report.html", "tune.md", "tune.json"]
    assert "max_model_len = 1024" in paths[0].read_text(encoding="utf-8")


async def test_the_same_again_measures_nothing_and_says_the_same(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    first = await run(shop, job())
    again = await run(shop, job())
    assert shop.started == []
    assert (again.ladder, again.trials, again.finding) == (first.ladder, first.trials, first.finding)
    assert (again.final, again.recommendation) == (first.final, first.recommendation)


async def test_an_interrupt_leaves_an_answer_and_the_next_run_goes_on(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    rungs = tmp_path / "points"

    async def interrupt() -> None:
        await until(lambda: any(rungs.glob("ladder.cap-*.json")), "a rung")
        shop.interrupted.set()

    tuning, _ = await asyncio.gather(run(shop, job()), interrupt())
    assert tuning.partial and tuning.partial_because == BY_HAND
    assert tuning.ladder is not None and tuning.ladder.knee is not None
    assert (tuning.finding, tuning.final) == (None, None)
    assert shop.started == ["ladder"]
    assert "max_num_seqs = 16" in config_text(tuning, {})  # the ladder's: nothing says that one slot is enough
    shop.interrupted = asyncio.Event()
    whole = await run(shop, job())
    assert not whole.partial
    kept = {seen.file for trial in tuning.trials for seen in trial.seen}
    assert kept <= {seen.file for trial in whole.trials for seen in trial.seen}


async def test_where_no_engine_starts_nothing_was_measured_and_the_trials_say_why(tmp_path: Path) -> None:
    tuning = await run(Shop(tmp_path, ladder="dies", ladder_2="starved"), job())
    assert tuning.ladder is not None and tuning.ladder.knee is None
    assert [trial.outcome for trial in tuning.trials] == ["did_not_start", "did_not_start"]
    assert "no such model" in tuning.trials[0].reason
    assert tuning.recommendation is None


async def test_points_that_crash_are_results_and_not_the_end(tmp_path: Path) -> None:
    """Whatever comes after the ladder dies: the ladder's own engine is what is left to recommend."""
    shop = Shop(tmp_path)
    names = [f"slots-{n}" for n in range(17)] + [f"tokens-{1 << n}" for n in range(16)]
    names += ["memory", *(f"memory-{n}" for n in range(2, 9)), "final-embedder"]
    shop.manners |= dict.fromkeys(names, "fragile")
    tuning = await run(shop, job())
    failed = [trial for trial in tuning.trials if trial.outcome == "failed_under_load"]
    assert failed
    assert tuning.recommendation is not None
    assert tuning.final is not None
    standings = {one.contender.name: one for one in tuning.final.standings}
    assert standings["embedder"].outcome == "failed_under_load"
    assert standings["finalist"].busy
    assert tuning.recommendation.contender == "finalist"


async def test_a_time_limit_skips_and_names_what_would_not_end_in_it(tmp_path: Path) -> None:
    shop, now_s = Shop(tmp_path), [0.0]
    opened = shop.open(deadline_s=90.0, clock=lambda: now_s[0])

    async def pass_time() -> None:
        await until(lambda: any((tmp_path / "points").glob("ladder.clients-*.json")), "the last rung")
        now_s[0] = 89.99

    tuning, _ = await asyncio.gather(tune(opened, job()), pass_time())
    assert tuning.partial and "time limit" in tuning.partial_because
    assert shop.started == ["ladder"]
    assert tuning.recommendation is not None
    assert tuning.final is not None and tuning.final.rounds == 0


def test_the_plan_is_told_with_its_time() -> None:
    wanted = job(repeats=3, also=("fp8",), baselines=("vllm-serve", "story"))
    lines = list(planned(wanted, estimated(wanted, PACE.duration_s)))
    told = "\n".join(lines)
    assert "at most 1, 2, 3 requests at once" in told
    assert "finalist, vllm-serve, story: 3 rounds (3 starts, 12 measurements" in told
    assert "fp8 (1 start, 3 measurements" in told
    assert lines[-1].startswith("In all about ")
    bare = job(baselines=())
    assert not any(line.startswith("final") for line in planned(bare, estimated(bare, PACE.duration_s)))
