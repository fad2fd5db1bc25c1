"""The fake engine as a process of its own, behind the interface by which `continuous` runs vLLM's.

So everything that follows from a killed, stopped or restarted engine process is the product's own crash recovery, without a
model: `dragoman serve --pipeline fake --fake-process true`, which `make chaos` uses. The process runs a `FakePipeline` and
translates nothing; it ends when its socket is closed, and is killed with the server by the guard.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Sized
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from tokenizers import Tokenizer

from dragoman.engine.frames import frame, receive
from dragoman.engine.hang import LOOK_S, HangWatch
from dragoman.errors import EngineDead, EngineHung
from dragoman.guard import guard_children
from dragoman.pipelines.fake import FakePipeline, circling
from dragoman.telemetry.engine import EngineGauge
from dragoman.types import Completion, Delta, EngineSequence
from dragoman.wire import EngineStats

EXITED = "the fake engine's process exited"
STEP_S = LOOK_S / 4
"""How often a process that has sequences reports that it makes steps."""
_PROGRAM = "import sys; from dragoman.pipelines.fake_process import main; main(int(sys.argv[1]))"


@dataclass(frozen=True, slots=True)
class FakeEnginePlan:
    """What the process runs. `tokenizer`: as JSON.

    For tests of crash recovery: the process ends when it is given a prompt that has one of `crashes_on`, and when more than
    `crashes_beyond` sequences run.
    """

    tokenizer: str
    slots: int
    max_model_len: int
    step_s: float = 0.0
    stream_interval_s: float = 0.0
    crashes_on: tuple[str, ...] = ()
    crashes_beyond: int | None = None


@dataclass(frozen=True, slots=True)
class _Submission:
    """Run this. `number`: of this process's sequences, by which it answers."""

    number: int
    sequence: EngineSequence
    streams: bool


@dataclass(frozen=True, slots=True)
class _Abort:
    number: int


@dataclass(frozen=True, slots=True)
class _Output:
    number: int
    item: Delta | Completion


@dataclass(frozen=True, slots=True)
class _Step:
    """The engine runs: at its start, and as long as it has sequences."""


# ---- the server's side


@dataclass(eq=False, slots=True)
class _Process:
    """One process from its start to its end. `crash` is set when it exits without `shutdown`."""

    popen: subprocess.Popen[bytes]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    outputs: dict[int, asyncio.Queue[Delta | Completion | EngineDead]] = field(default_factory=dict[int, Any])
    crash: asyncio.Event = field(default_factory=asyncio.Event)
    receiving: asyncio.Task[None] | None = None

    def send(self, message: _Submission | _Abort) -> None:
        if not (self.crash.is_set() or self.writer.is_closing()):
            self.writer.write(frame(message))

    def fail_all(self) -> None:
        for outputs in self.outputs.values():
            outputs.put_nowait(EngineDead(EXITED))


class FakeEngineProcess:
    """An `Engine` for `ContinuousPipeline`; `start` works again after `shutdown`. `hang_timeout_s`: of `HangWatch`."""

    def __init__(self, plan: FakeEnginePlan, *, hang_timeout_s: float | None = None) -> None:
        self._plan = plan
        self._gauge = EngineGauge()
        self._watch = HangWatch(plan.max_model_len, hang_timeout_s)
        self._numbers = itertools.count()
        self._process: _Process | None = None
        self.max_model_len = plan.max_model_len

    @property
    def _running(self) -> _Process:
        if self._process is None or self._process.crash.is_set():
            raise EngineDead(EXITED if self._process else "the fake engine is not running")
        return self._process

    @property
    def pid(self) -> int:
        return self._running.popen.pid

    async def start(self) -> None:
        popen, ours = _spawn()
        process = self._process = _Process(popen, *await asyncio.open_unix_connection(sock=ours))
        process.writer.write(frame(self._plan))
        if await receive(process.reader) is None:
            await self.shutdown()
            raise EngineDead(f"the fake engine did not start (exit code {popen.returncode})")
        process.receiving = asyncio.create_task(self._receive(process))

    async def _receive(self, process: _Process) -> None:
        """Distribute what the process sends, until it exits."""
        while (message := await receive(process.reader)) is not None:
            self._gauge.stats.steps += 1
            if isinstance(message, _Output) and (outputs := process.outputs.get(message.number)) is not None:
                outputs.put_nowait(message.item)
        process.crash.set()
        process.fail_all()

    async def generate(self, sequence: EngineSequence) -> Completion:
        *_, last = [item async for item in self._items(sequence, streams=False)]
        assert isinstance(last, Completion)
        return last

    async def stream(self, sequence: EngineSequence) -> AsyncGenerator[Delta | Completion]:
        async with aclosing(self._items(sequence, streams=True)) as items:
            async for item in items:
                yield item

    async def _items(self, sequence: EngineSequence, *, streams: bool) -> AsyncGenerator[Delta | Completion]:
        process, number = self._running, next(self._numbers)
        outputs = process.outputs[number] = asyncio.Queue[Delta | Completion | EngineDead]()
        process.send(_Submission(number, sequence, streams))
        self._load()
        item: Delta | Completion | EngineDead | None = None
        try:
            while not isinstance(item, Completion):
                item = await outputs.get()
                if isinstance(item, EngineDead):
                    raise item
                if isinstance(item, Completion):
                    self._finished(item)
                yield item
        finally:
            del process.outputs[number]
            if not isinstance(item, Completion):
                process.send(_Abort(number))
            self._load()

    def _finished(self, done: Completion) -> None:
        stats = self._gauge.stats
        stats.finished += 1
        stats.prompt_tokens += done.prompt_tokens
        stats.completion_tokens += done.completion_tokens
        timings = done.timings
        self._watch.prefilled(done.prompt_tokens, (timings and timings.prefill_s) or 0.0)

    def _load(self) -> None:
        in_flight = len(self._process.outputs) if self._process else 0
        running = min(in_flight, self._plan.slots)
        self._gauge.load(running, in_flight - running, 0.0)

    def stats(self) -> EngineStats:
        return self._gauge.snapshot()

    async def check_health(self) -> None:
        _ = self._running

    async def crashed(self) -> EngineDead:
        """Return once the process has exited, or hangs: then sequences are in flight, which `shutdown` ends."""
        process = self._running
        self._watch.restart()
        looked_s = monotonic()
        while not process.crash.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await process.crash.wait()
            before_s, looked_s = looked_s, monotonic()
            steps, has_sequences = self._gauge.stats.steps, bool(process.outputs)
            still_s = self._watch.look(looked_s - before_s, steps, has_sequences=has_sequences)
            if still_s is not None:
                return EngineHung(f"the fake engine hangs: it has sequences, and made no step for {still_s:.0f} s")
        return EngineDead(EXITED)

    async def shutdown(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.receiving is not None:
            process.receiving.cancel()
        process.fail_all()
        process.writer.close()
        process.popen.kill()
        await asyncio.to_thread(process.popen.wait)
        self._load()


def _spawn() -> tuple[subprocess.Popen[bytes], socket.socket]:
    guard_children()
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-c", _PROGRAM, str(theirs.fileno())]
        return subprocess.Popen(command, pass_fds=[theirs.fileno()], process_group=0), ours


# ---- the process


def main(descriptor: int) -> None:
    """Run until the server closes the socket. A terminal's and a service manager's signals are the server's to handle."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    asyncio.run(_run(socket.socket(fileno=descriptor)))


async def _run(connection: socket.socket) -> None:
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    plan: FakeEnginePlan = await receive(reader)
    tokenizer = Tokenizer.from_str(plan.tokenizer)
    engine = FakePipeline(
        circling(tokenizer),
        step_s=plan.step_s,
        slots=plan.slots,
        max_model_len=plan.max_model_len,
        stream_interval_s=plan.stream_interval_s,
    )
    await engine.start()
    tasks: dict[int, asyncio.Task[None]] = {}
    writer.write(frame(_Step()))
    stepping = asyncio.create_task(_report_steps(tasks, writer))
    message: _Submission | _Abort | None
    while (message := await receive(reader)) is not None:
        if isinstance(message, _Submission):
            task = tasks[message.number] = asyncio.create_task(_run_sequence(engine, message, writer))
            task.add_done_callback(lambda _, number=message.number: tasks.pop(number))
            if plan.crashes_on or plan.crashes_beyond is not None:
                text = tokenizer.decode(message.sequence.prompt_token_ids)
                if any(one in text for one in plan.crashes_on) or len(tasks) > (plan.crashes_beyond or len(tasks)):
                    os._exit(1)
        elif (task := tasks.get(message.number)) is not None:
            task.cancel()
    stepping.cancel()


async def _run_sequence(engine: FakePipeline, submission: _Submission, writer: asyncio.StreamWriter) -> None:
    async with aclosing(engine.stream(submission.sequence)) as items:
        async for item in items:
            if submission.streams or isinstance(item, Completion):
                writer.write(frame(_Output(submission.number, item)))


async def _report_steps(tasks: Sized, writer: asyncio.StreamWriter) -> None:
    while True:
        await asyncio.sleep(STEP_S)
        if len(tasks):
            writer.write(frame(_Step()))
