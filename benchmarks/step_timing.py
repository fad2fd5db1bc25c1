"""Times of the parts of each engine step, recorded inside vLLM's processes; used by `step_budget.py`.

vLLM imports this module there by name, through two of its arguments: `scheduler_cls` in the process with the scheduler, and
`worker_extension_cls` in the worker (the same process for one GPU, another one on a CPU). The scheduler and the model stay vLLM's
own; calls of some of their methods are timed. Each process appends rows of float64 to a file of its own in the folder that
`STEP_TIMING_FOLDER` names. Times are of the monotonic clock, which all processes of a machine share, in seconds.
"""

from __future__ import annotations

import os
import threading
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = "STEP_TIMING_FOLDER"
ENGINE_COLUMNS = (
    *("begin_s", "end_s", "scheduler_s", "input_s", "idle_s"),
    *("tokens", "sequences", "context_tokens", "socket_threads_cpu_s"),
)
"""A call of the engine's step. `input_s`, `idle_s`: before it, taking requests over with and without others that run.
`context_tokens`: of all running sequences, counted at one step in `CONTEXT_EVERY`."""
WORKER_COLUMNS = ("begin_s", "end_s", "forward_s")
"""A call of the worker. `forward_s`: of it, in the model and the sampler; on a GPU that is the time to launch them."""
CONTEXT_EVERY = 8
_FLUSH_S = 0.2


class Recorder:
    """Rows of one process, written a few times a second."""

    def __init__(self, role: str) -> None:
        self._file = Path(os.environ[FOLDER]) / f"{role}-{os.getpid()}.f64"
        self._rows = array("d")
        self._flushed_s = time.monotonic()

    def add(self, *row: float) -> None:
        self._rows.extend(row)
        if row[1] - self._flushed_s > _FLUSH_S:
            self.flush()

    def flush(self) -> None:
        self._flushed_s = time.monotonic()
        if self._rows:
            with self._file.open("ab") as stream:
                self._rows.tofile(stream)
            self._rows = array("d")


class EngineTimes:
    """What has been timed since the last step's row."""

    def __init__(self) -> None:
        self.recorder = Recorder("engine")
        self.scheduler_s = self.input_s = self.idle_s = 0.0
        self.tokens = self.sequences = self.context_tokens = self.steps = 0
        self._clocks: list[int] = []

    def scheduled(self, scheduler: Any, output: Any) -> None:
        self.tokens, self.sequences = output.total_num_scheduled_tokens, len(output.num_scheduled_tokens)
        self.steps += 1
        if self.steps % CONTEXT_EVERY == 1:
            self.context_tokens = sum(one.num_computed_tokens for one in scheduler.running)

    def socket_threads_cpu_s(self) -> float:
        """CPU time so far of the threads that decode requests and encode outputs."""
        if not self._clocks:
            self._clocks = [
                time.pthread_getcpuclockid(one.ident)
                for one in threading.enumerate()
                if one.ident and "_sockets" in one.name
            ]
        return sum(map(time.clock_gettime, self._clocks))

    def step(self, begin_s: float) -> None:
        self.recorder.add(
            *(begin_s, time.monotonic(), self.scheduler_s, self.input_s, self.idle_s),
            *(self.tokens, self.sequences, self.context_tokens, self.socket_threads_cpu_s()),
        )
        self.scheduler_s = self.input_s = self.idle_s = 0.0
        self.tokens = self.sequences = 0


def timed_scheduler(*args: Any, **kwargs: Any) -> Any:
    """vLLM's own scheduler for its configuration, timed: what `scheduler_cls` names."""
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.scheduler import Scheduler

    config = kwargs["vllm_config"] if "vllm_config" in kwargs else args[0]
    scheduler = (AsyncScheduler if config.scheduler_config.async_scheduling else Scheduler)(*args, **kwargs)
    times = EngineTimes()
    schedule, update = scheduler.schedule, scheduler.update_from_output

    def timed_schedule(*args: Any, **kwargs: Any) -> Any:
        begin_s = time.monotonic()
        output = schedule(*args, **kwargs)
        times.scheduler_s += time.monotonic() - begin_s
        times.scheduled(scheduler, output)
        return output

    def timed_update(*args: Any, **kwargs: Any) -> Any:
        begin_s = time.monotonic()
        outputs = update(*args, **kwargs)
        times.scheduler_s += time.monotonic() - begin_s
        return outputs

    scheduler.schedule, scheduler.update_from_output = timed_schedule, timed_update
    _time_the_loop(times)
    return scheduler


def _time_the_loop(times: EngineTimes) -> None:
    from vllm.v1.engine.core import EngineCoreProc

    process_input, process_step = EngineCoreProc._process_input_queue, EngineCoreProc._process_engine_step

    def timed_input(self: Any) -> None:
        is_idle = not self.scheduler.has_requests()
        if is_idle:
            times.recorder.flush()
        begin_s = time.monotonic()
        process_input(self)
        took_s = time.monotonic() - begin_s
        if is_idle:
            times.idle_s += took_s
        else:
            times.input_s += took_s

    def timed_step(self: Any) -> Any:
        begin_s = time.monotonic()
        result = process_step(self)
        times.step(begin_s)
        return result

    EngineCoreProc._process_input_queue, EngineCoreProc._process_engine_step = timed_input, timed_step


class TimedWorker:
    """What `worker_extension_cls` names: methods for `AsyncLLM.collective_rpc`; vLLM mixes it into its worker's class."""

    def start_timing(self) -> None:
        """Time this worker's calls from now on."""
        worker: Any = self
        recorder, forward_s = Recorder("worker"), [0.0]

        def timed(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                begin_s = time.monotonic()
                result = function(*args, **kwargs)
                recorder.add(begin_s, time.monotonic(), forward_s[0])
                forward_s[0] = 0.0
                return result

            return call

        def timed_forward(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                begin_s = time.monotonic()
                result = function(*args, **kwargs)
                forward_s[0] += time.monotonic() - begin_s
                return result

            return call

        worker.execute_model, worker.sample_tokens = timed(worker.execute_model), timed(worker.sample_tokens)
        for name in ("_model_forward", "_sample"):
            if hasattr(worker.model_runner, name):  # vLLM's second model runner, for GPUs, has neither
                setattr(worker.model_runner, name, timed_forward(getattr(worker.model_runner, name)))

    def start_device_profile(self) -> bool:
        """Record the GPU's kernels from now on. False where there is no GPU."""
        import torch

        if not torch.cuda.is_available():
            return False
        self._device_profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
        self._device_profile.start()
        return True

    def stop_device_profile(self) -> dict[str, Any]:
        """What ran on the device: `busy_s` with at least one kernel or copy, `kernels` their number, `by_name` the seconds of each."""
        import torch

        torch.cuda.synchronize()
        self._device_profile.stop()
        events = [
            event
            for event in self._device_profile.profiler.kineto_results.events()
            if event.device_type() == torch.autograd.DeviceType.CUDA and event.duration_ns() > 0
        ]
        busy_ns, until_ns = 0, 0
        by_name: dict[str, float] = {}
        for event in sorted(events, key=lambda one: one.start_ns()):
            begin_ns, end_ns = event.start_ns(), event.start_ns() + event.duration_ns()
            busy_ns += max(0, end_ns - max(begin_ns, until_ns))
            until_ns = max(until_ns, end_ns)
            by_name[event.name()] = by_name.get(event.name(), 0.0) + event.duration_ns() / 1e9
        return {"busy_s": busy_ns / 1e9, "kernels": len(events), "by_name": by_name}


def cost_s() -> float:
    """What recording adds to one step: the two rows of a worker and one of the engine, their clocks and counters."""
    times = EngineTimes()
    worker = Recorder("cost")
    running = [type("Sequence", (), {"num_computed_tokens": 1})] * 256
    output = type("Output", (), {"total_num_scheduled_tokens": 1, "num_scheduled_tokens": {}})
    scheduler = type("Scheduler", (), {"running": running})
    rounds = 5000
    begin_s = time.monotonic()
    for _ in range(rounds):
        for _ in range(8):
            now = time.monotonic()
        times.scheduled(scheduler, output)
        worker.add(now, time.monotonic(), 0.0)
        worker.add(now, time.monotonic(), 0.0)
        times.step(now)
    return (time.monotonic() - begin_s) / rounds
