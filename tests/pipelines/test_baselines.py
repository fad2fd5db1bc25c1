"""The baselines over a scripted engine in real worker processes: batches, crashes, shares, start and shutdown."""

from __future__ import annotations

import asyncio
import io
import os
import signal

import pytest

from dragoman.engine.frames import frame, receive, receive_blocking
from dragoman.errors import EngineDead, EngineFailed, EngineRejected
from dragoman.types import Completion
from dragoman_bench.story.baselines import WorkerPipeline, share_of_cores, usable_cores
from dragoman_bench.story.messages import (
    BatchResults,
    NotReady,
    Ready,
    Refused,
    SequenceBatch,
)
from tests.pipelines.building import exited, loaded, running, static_batch, workers
from tests.pipelines.scripted import BREAK, FAIL, KILL, KILL_ONCE, REJECT, ScriptFolder, sequence
from tests.waiting import until

NEVER_MS = 3_600_000.0  # a batch that starts is full


@pytest.fixture(params=["static_batch", "workers"])
def pipeline(request: pytest.FixtureRequest, script: ScriptFolder) -> WorkerPipeline:
    """With one worker each, so that its crash stops everything."""
    return static_batch(script) if request.param == "static_batch" else workers(script, count=1)


# ---- static_batch


async def test_a_full_batch_does_not_wait_for_the_timeout(script: ScriptFolder) -> None:
    async with running(static_batch(script, size=4, timeout_ms=NEVER_MS)) as pipeline:
        names = [f"s{number}" for number in range(8)]
        await asyncio.gather(*(pipeline.generate(sequence(name=name)) for name in names))
    assert script.batches() == [names[:4], names[4:]]


async def test_a_batch_that_is_not_full_starts_at_the_timeout(script: ScriptFolder) -> None:
    async with running(static_batch(script, size=1000)) as pipeline:
        done = await asyncio.gather(*(pipeline.generate(sequence()) for _ in range(3)))
    assert len(done) == 3
    assert sum(map(len, script.batches())) == 3


async def test_all_of_a_batch_wait_for_its_slowest_and_later_arrivals_for_the_batch(script: ScriptFolder) -> None:
    gate = script.gate()
    async with running(static_batch(script, size=2, timeout_ms=NEVER_MS)) as pipeline:
        tasks = [asyncio.create_task(pipeline.generate(sequence(*held))) for held in [(), (gate,), (), ()]]
        await loaded(pipeline, running=2, waiting=2)
        assert not any(task.done() for task in tasks)
        await script.open(gate)
        done = await asyncio.gather(*tasks)
        await loaded(pipeline, running=0, waiting=0)
        assert (pipeline.stats().steps, pipeline.stats().finished, pipeline.stats().peak_running) == (2, 4, 2)
    assert all(one.timings is not None and one.timings.queue_s >= 0 for one in done)


async def test_a_refused_sequence_does_not_fail_its_batch(script: ScriptFolder) -> None:
    async with running(static_batch(script, size=3, timeout_ms=NEVER_MS)) as pipeline:
        work = [sequence(REJECT), sequence(), sequence(FAIL)]
        ends = await asyncio.gather(*(pipeline.generate(one) for one in work), return_exceptions=True)
    assert [type(end) for end in ends] == [EngineRejected, Completion, EngineFailed]
    assert len(script.batches()) == 1


# ---- workers


async def test_each_worker_runs_one_sequence_and_the_rest_wait(script: ScriptFolder) -> None:
    gates = [script.gate(number) for number in range(3)]
    async with running(workers(script, count=2)) as pipeline:
        tasks = [asyncio.create_task(pipeline.generate(sequence(gate))) for gate in gates]
        await loaded(pipeline, running=2, waiting=1)
        await script.open(gates[0])
        await tasks[0]
        await loaded(pipeline, running=2, waiting=0)
        assert not tasks[1].done()
        await asyncio.gather(script.open(gates[1]), script.open(gates[2]), *tasks)
    assert len(set(script.started())) == 2


async def test_an_idle_worker_takes_the_sequence_that_has_waited_longest(script: ScriptFolder) -> None:
    gate = script.gate()
    async with running(workers(script, count=2)) as pipeline:
        slow = asyncio.create_task(pipeline.generate(sequence(gate, name="slow")))
        await until(lambda: bool(script.batches()), "the slow one in its worker")
        names = [f"quick{number}" for number in range(5)]
        await asyncio.gather(*(pipeline.generate(sequence(name=name)) for name in names))
        assert not slow.done()
        await script.open(gate)
        await slow
    assert script.batches() == [["slow"], *([name] for name in names)]


def test_workers_share_memory_and_a_batch_limits_the_slots(script: ScriptFolder) -> None:
    script.configure(gpu_memory_utilization=0.9, kv_cache_memory_bytes=300)
    shares = [worker.plan.spec.engine for worker in workers(script, count=3).workers]
    assert [one.gpu_memory_utilization for one in shares] == [pytest.approx(0.3)] * 3
    assert [(one.kv_cache_memory_bytes, one.max_num_seqs) for one in shares] == [(100, 1)] * 3
    script.configure(kv_cache_memory_bytes=None)
    assert workers(script, count=3).workers[0].plan.spec.engine.kv_cache_memory_bytes is None
    slots = [static_batch(script, size=size).workers[0].plan.spec.engine.max_num_seqs for size in (16, 1000)]
    assert slots == [16, script.spec.engine.max_num_seqs]


CORES = [(0, 4), (1, 5), (2, 6), (3, 7)]  # four cores with two hardware threads each


@pytest.mark.parametrize(
    ("count", "shares"),
    [
        (1, [CORES]),
        (2, [CORES[:2], CORES[2:]]),
        (3, [CORES[:1], CORES[1:2], CORES[2:]]),
        (6, [[core] for core in (CORES[0], CORES[0], CORES[1], CORES[2], CORES[2], CORES[3])]),
    ],
)
def test_workers_share_whole_cores(count: int, shares: list[list[tuple[int, ...]]]) -> None:
    assert [share_of_cores(CORES, number, count) for number in range(count)] == shares


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no CPU affinity")
def test_usable_cores_are_this_process_s_cpus() -> None:
    assert {cpu for core in usable_cores() for cpu in core} == os.sched_getaffinity(0)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no CPU affinity")
async def test_a_worker_leads_a_process_group_in_the_server_s_session_on_its_share_of_the_cores(
    script: ScriptFolder,
) -> None:
    async with running(workers(script, count=1)):
        [pid] = script.started()
        assert (os.getpgid(pid), os.getsid(pid)) == (pid, os.getsid(0))
        assert os.sched_getaffinity(pid) == os.sched_getaffinity(0)


# ---- cancelled sequences


async def test_a_waiting_sequence_that_is_cancelled_never_runs(pipeline: WorkerPipeline, script: ScriptFolder) -> None:
    gate = script.gate()
    async with running(pipeline):
        first = asyncio.create_task(pipeline.generate(sequence(gate, name="first")))
        await loaded(pipeline, running=1, waiting=0)
        second = asyncio.create_task(pipeline.generate(sequence(name="second")))
        await loaded(pipeline, running=1, waiting=1)
        second.cancel()
        await loaded(pipeline, running=1, waiting=0)
        await script.open(gate)
        await first
    assert script.batches() == [["first"]]


async def test_a_running_sequence_that_is_cancelled_runs_to_its_end(
    pipeline: WorkerPipeline, script: ScriptFolder
) -> None:
    gate = script.gate()
    async with running(pipeline):
        task = asyncio.create_task(pipeline.generate(sequence(gate)))
        await loaded(pipeline, running=1, waiting=0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert pipeline.stats().running == 1
        await script.open(gate)
        await loaded(pipeline, running=0, waiting=0)
        assert (await pipeline.generate(sequence())).text


# ---- crashes


@pytest.mark.parametrize("token", [KILL, BREAK])
async def test_a_crash_fails_its_batch_and_the_worker_restarts(script: ScriptFolder, token: int) -> None:
    async with running(static_batch(script, size=3, timeout_ms=NEVER_MS)) as pipeline:
        work = [sequence(), sequence(token), sequence(), sequence(), sequence(), sequence()]
        ends = await asyncio.gather(*(pipeline.generate(one) for one in work), return_exceptions=True)
        assert [type(end) for end in ends] == [EngineDead] * 3 + [Completion] * 3
        assert pipeline.stats().restarts == 1
        await pipeline.check_health()


async def test_one_worker_crashes_and_the_other_goes_on(script: ScriptFolder) -> None:
    gate = script.gate()
    async with running(workers(script, count=2)) as pipeline:
        steady = asyncio.create_task(pipeline.generate(sequence(gate)))
        await loaded(pipeline, running=1, waiting=0)
        with pytest.raises(EngineDead):
            await pipeline.generate(sequence(KILL_ONCE))
        assert (await pipeline.generate(sequence())).text
        assert not steady.done()
        await script.open(gate)
        await steady


async def test_an_idle_worker_that_exits_is_restarted(pipeline: WorkerPipeline, script: ScriptFolder) -> None:
    async with running(pipeline):
        os.kill(script.started()[0], signal.SIGKILL)
        await until(lambda: pipeline.workers[0].has_exited, "the end of the connection")
        assert (await pipeline.generate(sequence())).text
        assert pipeline.stats().restarts == 1


async def test_when_no_worker_restarts_everything_ends(pipeline: WorkerPipeline, script: ScriptFolder) -> None:
    gate = script.gate()
    async with running(pipeline):
        tasks = [asyncio.create_task(pipeline.generate(sequence(gate))) for _ in range(6)]
        await until(lambda: pipeline.stats().running > 0, "a running batch")
        script.set("broken")
        os.kill(script.started()[0], signal.SIGKILL)
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, EngineDead) for end in ends)
        assert isinstance(await pipeline.crashed(), EngineDead)
        with pytest.raises(EngineDead):
            await pipeline.check_health()
        with pytest.raises(EngineDead):
            await pipeline.generate(sequence())
        assert pipeline.stats().running + pipeline.stats().waiting == pipeline.stats().restarts == 0


# ---- start and shutdown


async def test_a_failed_start_reports_the_reason_and_leaves_no_process(script: ScriptFolder) -> None:
    script.set("broken")
    with pytest.raises(EngineDead, match="this engine is broken"):
        await workers(script, count=2).start()


async def test_a_cancelled_start_leaves_no_process(pipeline: WorkerPipeline, script: ScriptFolder) -> None:
    script.set("slow")
    starting = asyncio.create_task(pipeline.start())
    await until(lambda: len(script.started()) == 1, "a starting engine")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await exited(script.started()[0])


async def test_shutdown_ends_an_idle_worker_cleanly_and_it_can_start_again(
    pipeline: WorkerPipeline, script: ScriptFolder
) -> None:
    for _ in range(2):
        async with running(pipeline):
            assert (await pipeline.generate(sequence())).text
    assert script.closed() == script.started()
    await exited(script.started()[0])


# ---- messages

ALL = [
    SequenceBatch((sequence(*range(50_000)), sequence())),
    Ready(1024),
    NotReady("why"),
    BatchResults((Completion("text", "stop", 7, 2), Refused("engine_rejected", "why"))),
]


async def test_frames_read_in_pieces_are_the_messages_sent() -> None:
    reader = asyncio.StreamReader()
    stream = b"".join(map(frame, ALL))
    for start in range(0, len(stream), 1000):
        reader.feed_data(stream[start : start + 1000])
    reader.feed_eof()
    assert [await receive(reader) for _ in ALL] == ALL
    assert await receive(reader) is None
    blocking = io.BytesIO(stream)
    assert [receive_blocking(blocking) for _ in ALL] == ALL
    assert receive_blocking(blocking) is None


@pytest.mark.parametrize("kept", [1, 4, 5, 20])
async def test_a_frame_that_breaks_off_is_an_end(kept: int) -> None:
    broken = frame(ALL[0])[:kept]
    reader = asyncio.StreamReader()
    reader.feed_data(broken)
    reader.feed_eof()
    assert await receive(reader) is None
    assert receive_blocking(io.BytesIO(broken)) is None
