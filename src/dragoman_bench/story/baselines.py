"""The baselines `workers` and `static_batch`: worker processes that run batches, for comparison with `continuous`.

`workers`: N processes, each with an engine of its own and one sequence at a time. A worker that becomes idle takes the sequence
that has waited longest. At most N sequences run, each uses the whole device for one sequence's tokens, every worker holds the
weights again, and on one device the workers compete for it.

`static_batch`: one process. A batch starts when `batch_size` sequences wait, or `batch_timeout_ms` after the engine was idle
and the first waited. A lone sequence waits for others that may not come; what arrives while a batch runs waits for all of it;
all of a batch wait for its longest, while the slots of those that ended stay empty.

In both, each sequence crosses to another process and back, results cannot stream, and what runs cannot be cancelled. That is
inherent in the designs and is left as it is. A crash fails the sequences of its batch with `EngineDead`; the worker restarts.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

from dragoman.engine.frames import frame, receive
from dragoman.engine.process import last_lines, on_all_cores
from dragoman.engine.spec import EngineSpec
from dragoman.errors import EngineDead, EngineFailed, EngineRejected
from dragoman.guard import guard_children
from dragoman.pipelines.base import Pipeline
from dragoman.settings import Settings
from dragoman.telemetry.engine import EngineGauge
from dragoman.types import Completion, Delta, EngineSequence, Timings
from dragoman.wire import EngineStats
from dragoman_bench.story.messages import BatchResults, Ready, Refused, SequenceBatch, WorkerPlan

VLLM_ENGINE = "dragoman_bench.story.sync_engine:SyncEngine"
EXIT_GRACE_S = 5.0  # for an idle worker, which exits in about one
_ERRORS = {cls.code: cls for cls in (EngineRejected, EngineFailed)}
Cores = list[tuple[int, ...]]  # the CPUs of each physical core
log = logging.getLogger("dragoman.pipelines")


@dataclass(eq=False, slots=True)
class _Job:
    """A sequence, and the future that its caller awaits; it is done already when the caller was cancelled."""

    sequence: EngineSequence
    answer: asyncio.Future[Completion]
    submitted_s: float = field(default_factory=monotonic)

    def end(self, result: Completion | Refused | EngineDead, began_s: float = 0.0) -> None:
        if self.answer.done():
            return
        if isinstance(result, Completion):
            self.answer.set_result(replace(result, timings=Timings(began_s - self.submitted_s)))
        else:
            self.answer.set_exception(
                _ERRORS[result.code](result.reason) if isinstance(result, Refused) else EngineDead(result.message)
            )


class WorkerProcess:
    """One worker, from the server's event loop. `start` works again after `stop`."""

    def __init__(self, name: str, plan: WorkerPlan, log_file: Path | None) -> None:
        self.name = name
        self.plan = plan
        self.ready = False
        self._log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def start(self) -> Ready:
        """Returns when the engine runs. Raises `EngineDead`, with the log's end, when it does not start."""
        self._reader, self._writer = await asyncio.open_unix_connection(sock=self._spawn())
        self._writer.write(frame(self.plan))
        first = await receive(self._reader)
        if isinstance(first, Ready):
            self.ready = True
            return first
        exit_code = await self.stop()
        reason = first.reason if first else f"exit code {exit_code}"
        raise EngineDead(f"{self.name} did not start: {reason}{last_lines(self._log_file)}")

    def _spawn(self) -> socket.socket:
        guard_children()
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "dragoman_bench.story.worker", str(theirs.fileno())]
        with theirs, on_all_cores(), ExitStack() as stack:
            output = stack.enter_context(self._log_file.open("ab")) if self._log_file else None
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], process_group=0, stdout=output, stderr=output
            )
        return ours

    @property
    def has_exited(self) -> bool:
        return self._reader is not None and self._reader.at_eof()

    async def run(self, sequences: tuple[EngineSequence, ...]) -> tuple[Completion | Refused, ...]:
        """Run a batch to its end. Raises `EngineDead` when the worker exits meanwhile."""
        if self._reader is None or self._writer is None:
            raise EngineDead(f"{self.name} is not running")
        self._writer.write(frame(SequenceBatch(sequences)))
        answer: BatchResults | None = await receive(self._reader)
        if answer is None:
            raise EngineDead(f"{self.name} crashed (exit code {await self.stop()})")
        return answer.results

    async def stop(self, *, grace_s: float = 0.0) -> int | None:
        """Close the connection, wait `grace_s` for the worker to exit, then kill its process group. Returns the exit code."""
        process, self._process = self._process, None
        self.ready = False
        if self._writer is not None:
            self._writer.close()
            self._reader = self._writer = None
        if process is None:
            return None
        reaping = asyncio.get_running_loop().run_in_executor(None, _reap, process, grace_s)
        return await asyncio.shield(
            reaping
        )  # also where the caller is cancelled: no process is left without a parent that waits


def _reap(process: subprocess.Popen[bytes], grace_s: float) -> int:
    """Wait `grace_s` for a worker to exit, then kill its process group. Returns the exit code."""
    if grace_s:
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


class WorkerPipeline:
    """The contract over worker processes that take batches of at most `batch_size` from one queue."""

    def __init__(
        self, name: str, workers: list[WorkerProcess], *, batch_size: int, batch_timeout_s: float, one_by_one: bool
    ) -> None:
        """`one_by_one`: vLLM measures a GPU's free memory while it starts; two starting together would measure each other."""
        self.name = name
        self.workers = workers
        self._batch_size = batch_size
        self._batch_timeout_s = batch_timeout_s
        self._starting = asyncio.Semaphore(1 if one_by_one else len(workers))
        self._queue: deque[_Job] = deque()
        self._arrived = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}  # of the workers that serve, by their names
        self._running: dict[str, list[_Job]] = {}
        self._all_lost = asyncio.Event()
        self._gauge = EngineGauge()
        self._max_model_len: int | None = None

    @property
    def max_model_len(self) -> int:
        if self._max_model_len is None:
            raise EngineDead("the workers are not running")
        return self._max_model_len

    async def start(self) -> None:
        starting = [asyncio.create_task(self._start(worker)) for worker in self.workers]
        try:
            await asyncio.gather(*starting)
        except BaseException:
            for task in starting:
                task.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
            await self.shutdown()
            raise
        self._all_lost.clear()
        self._tasks = {
            worker.name: asyncio.create_task(self._serve(worker), name=worker.name) for worker in self.workers
        }

    async def _start(self, worker: WorkerProcess) -> None:
        async with self._starting:
            self._max_model_len = (await worker.start()).max_model_len

    async def generate(self, sequence: EngineSequence) -> Completion:
        if not self._tasks:
            raise EngineDead("no worker is running")
        job = _Job(sequence, asyncio.get_running_loop().create_future())
        self._queue.append(job)
        self._arrived.set()
        self._report_load()
        try:
            return await job.answer
        finally:
            if job in self._queue:  # the caller was cancelled
                self._queue.remove(job)
                self._report_load()

    async def stream(self, sequence: EngineSequence) -> AsyncGenerator[Delta | Completion]:
        """One `Delta` with the whole text, then the `Completion`."""
        completion = await self.generate(sequence)
        if completion.text:
            yield Delta(completion.text)
        yield completion

    async def _serve(self, worker: WorkerProcess) -> None:
        """Run batch after batch, and restart the worker when it crashes, until that fails."""
        try:
            while True:
                await self._run(await self._next_batch(), worker)
        except EngineDead as error:
            log.error("%s is lost: %s", worker.name, error.message)
            del self._tasks[worker.name]
            if not self._tasks:
                self._fail_waiting(EngineDead("no worker is running, and none could be restarted"))
                self._all_lost.set()

    async def _next_batch(self) -> list[_Job]:
        loop = asyncio.get_running_loop()
        deadline: float | None = None
        while len(self._queue) < self._batch_size:
            if self._queue and deadline is None:
                deadline = loop.time() + self._batch_timeout_s
            self._arrived.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._arrived.wait()
            except TimeoutError:
                if self._queue:
                    break
                deadline = None  # all that waited were cancelled
        return [self._queue.popleft() for _ in range(min(self._batch_size, len(self._queue)))]

    async def _run(self, batch: list[_Job], worker: WorkerProcess) -> None:
        """Raises `EngineDead` when the worker crashed and cannot be restarted."""
        began_s = monotonic()
        self._running[worker.name] = batch
        self._report_load()
        try:
            if worker.has_exited:  # while it was idle
                await worker.stop()
                await self._restart(worker)
            results = await worker.run(tuple(job.sequence for job in batch))
        except EngineDead as crash:
            for job in batch:
                job.end(crash)
            log.warning("%s; restarting it (%d sequences failed)", crash.message, len(batch))
            del self._running[worker.name]
            await self._restart(worker)
            return
        finally:
            self._running.pop(worker.name, None)
            self._report_load()
        self._gauge.stats.steps += 1
        for job, result in zip(batch, results, strict=True):
            if isinstance(result, Completion):
                self._gauge.stats.finished += 1
                self._gauge.stats.prompt_tokens += result.prompt_tokens
                self._gauge.stats.completion_tokens += result.completion_tokens
            job.end(result, began_s)

    async def _restart(self, worker: WorkerProcess) -> None:
        await self._start(worker)
        self._gauge.stats.restarts += 1

    def stats(self) -> EngineStats:
        """`running` are in a batch now, cancelled ones included; `steps` are batches."""
        return self._gauge.snapshot()

    def _report_load(self) -> None:
        self._gauge.load(sum(map(len, self._running.values())), len(self._queue), 0.0)

    def _fail_waiting(self, reason: EngineDead) -> None:
        while self._queue:
            self._queue.popleft().end(reason)
        self._report_load()

    async def check_health(self) -> None:
        """A worker that is being restarted counts: what waits for it will be served."""
        if not self._tasks:
            raise EngineDead("no worker is running")

    async def crashed(self) -> EngineDead:
        """When the last worker could not be restarted."""
        await self._all_lost.wait()
        return EngineDead("no worker is running, and none could be restarted")

    async def shutdown(self) -> None:
        tasks, self._tasks = self._tasks, {}
        reason = EngineDead("the workers were shut down")
        # A batch cannot be interrupted, and its results are not wanted any more: only an idle worker gets time to exit.
        graces = [EXIT_GRACE_S if one.ready and one.name not in self._running else 0.0 for one in self.workers]
        for batch in self._running.values():
            for job in batch:
                job.end(reason)
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        self._running.clear()
        self._fail_waiting(reason)
        await asyncio.gather(*(one.stop(grace_s=grace_s) for one, grace_s in zip(self.workers, graces, strict=True)))


def workers(spec: EngineSpec, log_file: Path | None, *, workers: int, engine: str = VLLM_ENGINE) -> WorkerPipeline:
    """`workers` processes that share memory and CPU cores equally; one sequence needs one slot."""
    on_cpu = spec.device == "cpu"
    kv_cache_bytes = spec.engine.kv_cache_memory_bytes
    share = replace(
        spec.engine,
        max_num_seqs=1,
        gpu_memory_utilization=spec.engine.gpu_memory_utilization / workers,
        kv_cache_memory_bytes=kv_cache_bytes // workers if isinstance(kv_cache_bytes, int) else None,
    )
    cores = usable_cores() if on_cpu else []
    processes: list[WorkerProcess] = []
    for number in range(workers):
        own = share_of_cores(cores, number, workers)
        cpus = tuple(cpu for core in own for cpu in core)
        plan = WorkerPlan(replace(spec, engine=share), engine, cpus, threads=len(own))
        processes.append(WorkerProcess(f"dragoman-workers-{number}", plan, log_file))
    return WorkerPipeline("workers", processes, batch_size=1, batch_timeout_s=0.0, one_by_one=not on_cpu)


def static_batch(
    spec: EngineSpec, log_file: Path | None, *, batch_size: int, batch_timeout_ms: float, engine: str = VLLM_ENGINE
) -> WorkerPipeline:
    """One process with a slot for each sequence of a batch, at most `max_num_seqs`."""
    slots = min(batch_size, spec.engine.max_num_seqs or batch_size)
    plan = WorkerPlan(replace(spec, engine=replace(spec.engine, max_num_seqs=slots)), engine)
    worker = WorkerProcess("dragoman-static_batch-0", plan, log_file)
    return WorkerPipeline(
        "static_batch", [worker], batch_size=batch_size, batch_timeout_s=batch_timeout_ms / 1000, one_by_one=True
    )


def build_workers(settings: Settings, spec: EngineSpec, log_file: Path | None) -> Pipeline:
    """The pipeline `workers` as the settings have it: see `dragoman.pipelines.base.PipelineFactory`."""
    return workers(spec, log_file, workers=settings.pipeline.workers)


def build_static_batch(settings: Settings, spec: EngineSpec, log_file: Path | None) -> Pipeline:
    """Likewise `static_batch`."""
    chosen = settings.pipeline
    return static_batch(spec, log_file, batch_size=chosen.batch_size, batch_timeout_ms=chosen.batch_timeout_ms)


def usable_cores() -> Cores:
    """The physical cores that this process may use, each with its CPUs; a core for each CPU where Linux reports none."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    cores: dict[str, tuple[int, ...]] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        core = siblings.read_text(encoding="ascii").strip() if siblings.is_file() else str(cpu)
        cores[core] = (*cores.get(core, ()), cpu)
    return list(cores.values())


def share_of_cores(cores: Cores, number: int, workers: int) -> Cores:
    """Neighbouring cores for worker `number`; with more workers than cores, some share one."""
    start, end = number * len(cores) // workers, (number + 1) * len(cores) // workers
    return cores[start : max(end, start + 1)]
