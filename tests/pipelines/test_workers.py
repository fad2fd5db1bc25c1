"""How sequences are shared among workers, with scripted engines in real worker processes."""

from __future__ import annotations

import asyncio
import os

import pytest

from dragoman.pipelines.workers import share_of, share_of_cores, usable_cores
from tests.pipelines.building import loaded, running, workers
from tests.pipelines.scripted import KILL_ONCE, Stage, sequence


async def test_each_worker_runs_one_and_the_rest_wait(stage: Stage) -> None:
    gates = [stage.gate(number) for number in range(3)]
    async with running(workers(stage, count=2)) as pipeline:
        tasks = [asyncio.create_task(pipeline.generate(sequence(gate))) for gate in gates]
        await loaded(pipeline, running=2, waiting=1)
        await stage.open(gates[0])
        await loaded(pipeline, running=2, waiting=0)
        assert tasks[0].done()
        assert not tasks[1].done()
        await asyncio.gather(stage.open(gates[1]), stage.open(gates[2]), *tasks)
    assert len(set(stage.started())) == 2


async def test_a_free_worker_takes_what_has_waited_longest(stage: Stage) -> None:
    gate = stage.gate()
    async with running(workers(stage, count=2)) as pipeline:
        slow = asyncio.create_task(pipeline.generate(sequence(gate, name="slow")))
        await loaded(pipeline, running=1, waiting=0)
        names = [f"quick{number}" for number in range(5)]
        await asyncio.gather(*(pipeline.generate(sequence(name=name)) for name in names))
        assert not slow.done()
        await stage.open(gate)
        await slow
    assert stage.batches() == [["slow"], *([name] for name in names)]


async def test_a_waiting_sequence_that_is_cancelled_never_reaches_a_worker(stage: Stage) -> None:
    gate = stage.gate()
    async with running(workers(stage, count=1)) as pipeline:
        first = asyncio.create_task(pipeline.generate(sequence(gate, name="first")))
        second = asyncio.create_task(pipeline.generate(sequence(name="second")))
        await loaded(pipeline, running=1, waiting=1)
        second.cancel()
        await loaded(pipeline, running=1, waiting=0)
        await stage.open(gate)
        await first
    assert stage.batches() == [["first"]]


async def test_one_worker_dies_and_the_other_goes_on(stage: Stage) -> None:
    gate = stage.gate()
    async with running(workers(stage, count=2)) as pipeline:
        steady = asyncio.create_task(pipeline.generate(sequence(gate)))
        await loaded(pipeline, running=1, waiting=0)
        assert (await pipeline.generate(sequence(KILL_ONCE))).text
        assert not steady.done()
        await stage.open(gate)
        await steady
        assert stage.batches().count(stage.batches()[0]) == 1


def test_memory_is_shared_out(stage: Stage) -> None:
    stage.configure(gpu_memory_utilization=0.9, kv_cache_memory_bytes=300)
    share = share_of(stage.spec, 3).engine
    assert share.gpu_memory_utilization == pytest.approx(0.3)
    assert share.kv_cache_memory_bytes == 100
    assert share.max_num_seqs == 1
    stage.configure(kv_cache_memory_bytes=None)
    assert share_of(stage.spec, 3).engine.kv_cache_memory_bytes is None


CORES = [(0, 4), (1, 5), (2, 6), (3, 7)]  # four cores with two hardware threads each


@pytest.mark.parametrize(
    ("workers", "shares"),
    [
        (1, [CORES]),
        (2, [CORES[:2], CORES[2:]]),
        (3, [CORES[:1], CORES[1:2], CORES[2:]]),
        (6, [[core] for core in (CORES[0], CORES[0], CORES[1], CORES[2], CORES[2], CORES[3])]),
    ],
)
def test_cores_are_shared_out_whole(workers: int, shares: list[list[tuple[int, ...]]]) -> None:
    assert [share_of_cores(CORES, number, workers) for number in range(workers)] == shares


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no CPU affinity")
def test_usable_cores_are_this_process_s_cpus() -> None:
    assert {cpu for core in usable_cores() for cpu in core} == os.sched_getaffinity(0)
