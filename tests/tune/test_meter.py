from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from dragoman_bench.bench.benchmark import WARMUP_VARIATION, prepared
from dragoman_bench.bench.progress import Silent
from dragoman_bench.bench.results import GpuSample, Measurement
from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.bench.targets import TargetOptions
from dragoman_bench.bench.workload import Item, Recorded
from dragoman_bench.tune.meter import Meter, seen_of, variation_of
from dragoman_bench.tune.points import Level
from tests.bench.journeys import repeat
from tests.bench.making import record, workload
from tests.bench.serving import serving, translate
from tests.bench.simulated import measured
from tests.tune.shops import PACE


@dataclass(frozen=True)
class Asked:
    """A workload that notes which variations are asked for."""

    inner: Recorded = field(default_factory=lambda: workload(*(f"text {n}" for n in range(50))))
    variations: list[int] = field(default_factory=list)
    description: str = "asked"
    size: None = None

    def items(self, count: int, variation: int) -> tuple[Item, ...]:
        self.variations.append(variation)
        return self.inner.items(count, variation)

    def samples(self) -> tuple[Item, ...]:
        return self.inner.samples()


def meter(texts: Asked | Recorded, slo: str | None = None, path: str | None = None) -> Meter:
    workloads = {"mix": texts, "long": texts}
    return Meter(workloads, PACE, parse_slo(slo) if slo else None, Silent(), asyncio.Event(), path=path)


async def measure(meter: Meter, *places: tuple[Level, int]) -> list[Measurement]:
    async with serving({"/v1/translate": translate}) as url:
        async with prepared(meter.plan(url, TargetOptions(), Level(1))) as bench:
            found = [await meter.measure(bench, level, repeat) for level, repeat in places]
    return [one for one in found if one is not None]


async def test_texts_follow_from_level_and_repeat_alone_and_warm_ups_have_their_own() -> None:
    first, second = Asked(), Asked()
    await measure(meter(first), (Level(2), 0), (Level(2), 1), (Level(2, cap=1), 0))
    await measure(meter(second), (Level(2, cap=1), 0), (Level(2), 1))
    assert len(set(first.variations)) == 6  # of three measurements and as many warm-ups
    assert set(second.variations) == set(first.variations[2:])


def test_levels_of_a_ladder_and_their_repeats_never_share_texts() -> None:
    levels = [Level(25, cap) for cap in (1, 2, 4, 8, 16, None)] + [Level(38, draw="long"), Level(2)]
    places = [variation_of(level, repeat) for level in levels for repeat in range(10)]
    assert len(set(places)) == len(places)
    assert max(places) < WARMUP_VARIATION - 1


async def test_a_cap_is_the_most_that_is_at_the_server_at_once_and_waiting_for_it_is_latency() -> None:
    meter_ = meter(workload())
    (found,) = await measure(meter_, (Level(8, cap=2), 0))
    sent = sorted((record.sent_s, record.done_s) for record in found.records if record.sent_s is not None)
    at_once = max(sum(began <= at < ended for began, ended in sent) for at, _ in sent)
    assert at_once <= 2
    assert any((record.sent_s or 0) > record.intended_s for record in found.records)


async def test_an_interrupted_measurement_is_none() -> None:
    meter_ = meter(workload())
    meter_.interrupted.set()
    assert await measure(meter_, (Level(1), 0)) == []


async def test_results_name_the_level_and_not_the_models_folder() -> None:
    meter_ = meter(workload(), path="/home/me/model")
    async with serving({"/v1/translate": translate}) as url:
        async with prepared(meter_.plan(url, TargetOptions(), Level(1))) as bench:
            measurement = await meter_.measure(bench, Level(3, cap=2), 4)
            assert measurement is not None
            told = replace(bench, conditions=replace(bench.conditions, server={"root": "/home/me/model", "slots": 8}))
            results = meter_.results(told, Level(3, cap=2), measurement, {"label": "a rung"})
    assert measurement.repeat == 4
    assert results.conditions.server == {"slots": 8}
    assert [load.clients for load in results.conditions.loads] == [3]
    assert results.conditions.options["connections"] == 2
    assert results.conditions.options["label"] == "a rung"


def test_a_measurement_is_told_in_numbers() -> None:
    gpu = (GpuSample(0.1, 0, 90.0, 1000.0), GpuSample(0.2, 0, 90.0, 3000.0))
    plain = repeat(rps=12.5, errors={"server_error": 2, "unfinished": 3}, peak_kv_cache_usage=0.25, preemptions=1)
    summary = replace(plain.summary, decode_s_per_token=0.004)
    seen = seen_of(replace(plain, gpu=gpu, summary=summary, repeat=2), Level(25, cap=4), "points/a.json")
    assert (seen.level, seen.repeat, seen.file) == (Level(25, 4), 2, "points/a.json")
    assert (seen.rps, seen.failed, seen.preemptions) == (12.5, 2, 1)
    assert (seen.decode_s_per_token, seen.peak_kv_cache_usage) == (0.004, 0.25)
    assert seen.gpu_memory_mib == 3000.0
    assert seen.goodput_rps is None


def test_a_changed_slo_judges_the_records_again() -> None:
    stored = measured([record(n, e2e_s=0.5 + n) for n in range(4)], slo=parse_slo("e2e_s=9"))
    assert stored.summary.attained_share == 1.0
    again = meter(workload(), slo="e2e_s=2").judged_again(stored)
    assert again.summary.attained_share == 0.5
    assert again.records == stored.records
