"""`remote`: sequences are run by engines elsewhere, by HTTP. `remote_apis.py` says what they are asked and how they answer.

A sequence goes to the engine with the largest share of free slots. An engine that cannot be reached, or fails, gets none until
it answers again; what was in flight there runs again, on another engine or on this one later. A stream of which something was
sent does not: another engine may go on in other words. An engine that says that it is busy is left alone for the time that it
names; a sequence that would have to wait long for all of them is refused. Errors for clients name no address.
"""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, cast

import aiohttp
import orjson

from dragoman.errors import (
    ConfigError,
    DragomanError,
    EngineDead,
    EngineFailed,
    EngineRejected,
    EngineRestarting,
    QueueFull,
)
from dragoman.pipelines.remote_apis import Api, Chunk, Json, Served, joined
from dragoman.settings import DEFAULT_SLOTS, RemoteSettings
from dragoman.telemetry.engine import EngineGauge
from dragoman.types import Completion, Delta, EngineSequence, Timings
from dragoman.wire import EngineStats, RemoteEngineStats

log = logging.getLogger("dragoman.pipelines")

MOST_BYTES_OF_A_TOKEN = 2_000
"""Of an answer, more than a token with its part of the JSON has: a longer answer is none."""
MOST_BYTES_OF_AN_ANSWER = 1_000_000
"""Besides its tokens."""
DEFAULT_WINDOW = 4096
"""Tokens, where neither the engines nor the checkpoint say theirs."""
FAILURES_SURVIVED = 2
"""By one sequence, of engines that were lost while they ran it: the next one may be its fault."""
LOST_S = 60.0
"""When no engine has answered for so long, what waits ends."""
ASK_S = 20.0
"""For an engine to say what it serves."""
PAUSES_S = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Before an engine that is lost is asked again; the last one also between questions to one that is not."""
MOST_BUSY_S = 30.0
"""For which an engine may ask to be left alone at a time, and the longest wait of a sequence while all of them do."""


class _Lost(Exception):
    """The engine could not be reached, or failed: others may run the sequence."""


class _Busy(Exception):
    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"busy for {retry_after_s:g} s")
        self.retry_after_s = retry_after_s


@dataclass(eq=False, slots=True)
class RemoteEngine:
    """One address. `served` is known once it has answered."""

    url: str
    api: Api
    served: Served | None = None
    in_flight: int = 0
    fault: str = "it has not answered yet"  # why it gets no sequences; empty: it does
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    since_s: float = field(default_factory=monotonic)  # when that began
    losses: int = 0
    busy_until_s: float = 0.0
    slots: int = DEFAULT_SLOTS

    @property
    def is_busy(self) -> bool:
        return monotonic() < self.busy_until_s

    @property
    def is_free(self) -> bool:
        return not self.fault and self.in_flight < self.slots and not self.is_busy

    def stats(self) -> RemoteEngineStats:
        served = self.served or Served("")
        return RemoteEngineStats(
            url=self.url,
            software=served.software,
            model=served.model,
            window=served.window,
            slots=self.slots,
            running=self.in_flight,
            losses=self.losses,
            busy=self.is_busy,
            fault=self.fault,
            lacks=list(self.api.lacks),
        )


class RemotePipeline:
    """The contract over engines at several addresses."""

    name = "remote"

    def __init__(self, settings: RemoteSettings, apis: Sequence[tuple[str, Api]], *, window: int | None) -> None:
        """`apis`: each engine's address with its API. `window`: of tokens, beside the engines' own.

        Raises `ConfigError` for a file of certificates that cannot be read.
        """
        self._settings = settings
        self.engines = [RemoteEngine(url, api) for url, api in apis]
        self._window = window
        self._gauge = EngineGauge()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._session: aiohttp.ClientSession | None = None
        self._ended: EngineDead | None = EngineDead("the pipeline is not running")
        self._watching: list[asyncio.Task[None]] = []
        self._tls = _tls(settings.ca_file)

    @property
    def max_model_len(self) -> int:
        windows = [self._window, *(one.served.window for one in self.engines if one.served is not None)]
        return min((one for one in windows if one), default=DEFAULT_WINDOW)

    # ---- start, watch, stop

    async def start(self) -> None:
        """Raises `ConfigError` where an engine serves another model, and `EngineDead` where none answers."""
        headers = {"Authorization": f"Bearer {key}"} if (key := self._settings.api_key) else {}
        self._session = aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=0, ssl=self._tls))
        self._ended = None
        try:
            await asyncio.gather(*map(self._ask, self.engines))
            if all(one.fault for one in self.engines):
                raise EngineDead("; ".join(f"{one.url}: {one.fault}" for one in self.engines))
        except BaseException:
            await self.shutdown()
            raise
        for one in self.engines:
            if one.fault:
                log.warning("the engine %s does not answer: %s", one.url, one.fault)
            task = asyncio.create_task(self._watch(one), name=f"dragoman-watch-{one.url}")
            self._watching.append(task)

    async def _ask(self, engine: RemoteEngine) -> None:
        """Ask what it serves, and let it serve. Raises `ConfigError` for another model; another failure is its `fault`."""
        timeout = aiohttp.ClientTimeout(total=ASK_S, sock_connect=self._settings.connect_timeout_s)

        async def ask(method: str, path: str, body: Any) -> Any:
            data = None if body is None else orjson.dumps(body)
            async with self._request(engine, method, path, data, timeout) as response:
                return _json(await _read(response, MOST_BYTES_OF_AN_ANSWER))

        try:
            engine.served = await engine.api.served(ask, self._settings.model)
        except ConfigError:
            raise
        except (_Lost, DragomanError) as fault:
            self._lose(engine, str(fault))
        except _Busy:
            pass  # it lives
        else:
            engine.slots = self._settings.slots or engine.served.slots or DEFAULT_SLOTS
            engine.fault = ""
            engine.lost.clear()
            self._wake()

    async def _watch(self, engine: RemoteEngine) -> None:
        """Ask again and again: soon where it is lost."""
        failed = 0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSES_S[-1]):
                    await engine.lost.wait()
            was_lost = bool(engine.fault)
            if was_lost:
                await asyncio.sleep(PAUSES_S[min(failed, len(PAUSES_S) - 1)])
            try:
                await self._ask(engine)
            except ConfigError as fault:  # it came back with another model
                self._lose(engine, fault.message)
            failed = failed + 1 if engine.fault else 0
            if was_lost and not engine.fault:
                log.info("the engine %s answers again", engine.url)
            self._wake()  # what has waited too long ends

    def _lose(self, engine: RemoteEngine, fault: str) -> None:
        if self._ended is None and not engine.fault:
            engine.since_s = monotonic()
            engine.losses += 1
            self._gauge.stats.restarts += 1
            log.warning("the engine %s: %s; %d sequences of it run again", engine.url, fault, engine.in_flight)
        engine.fault = fault
        engine.lost.set()

    async def shutdown(self) -> None:
        """What is in flight loses its connections, and ends."""
        self._ended = self._ended or EngineDead("the pipeline was shut down")
        watching, self._watching = self._watching, []
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        self._wake()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # ---- which engine

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    @asynccontextmanager
    async def _engine(self) -> AsyncGenerator[RemoteEngine]:
        """A slot of the engine with the largest share of free ones. Raises `EngineDead` where none answers for long."""
        while not (free := [one for one in self.engines if one.is_free]):
            self._check_lost()
            await self._changed()
        self._check_lost()
        engine = min(free, key=lambda one: one.in_flight / one.slots)
        engine.in_flight += 1
        self._load()
        try:
            yield engine
        finally:
            engine.in_flight -= 1
            self._load()
            if (waiter := next((one for one in self._waiters if not one.done()), None)) is not None:
                waiter.set_result(None)

    async def _changed(self) -> None:
        """Wait until a slot is free, an engine answers again or a pause ends."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._load()
        now_s = monotonic()
        pauses = [one.busy_until_s - now_s for one in self.engines if not one.fault and one.busy_until_s > now_s]
        try:
            await asyncio.wait([waiter], timeout=min(pauses, default=None))
        finally:
            self._waiters.remove(waiter)
            self._load()

    def _check_lost(self) -> None:
        if self._ended is not None:
            raise EngineDead(self._ended.message)
        if all(one.fault and monotonic() - one.since_s > LOST_S for one in self.engines):
            raise EngineDead("no engine answers")

    def _check_busy(self, submitted_s: float) -> None:
        """Raise `QueueFull` for a sequence that would have to wait too long for the first of all engines."""
        until_s = min(math.inf if one.fault else one.busy_until_s for one in self.engines)
        if MOST_BUSY_S < until_s - submitted_s < math.inf:
            raise QueueFull("all engines are busy", retry_after_s=math.ceil(until_s - monotonic()))

    def _load(self) -> None:
        self._gauge.load(sum(one.in_flight for one in self.engines), len(self._waiters), 0.0)

    # ---- sequences

    async def generate(self, sequence: EngineSequence) -> Completion:
        *_, last = [item async for item in self._attempts(sequence, stream=False)]
        assert isinstance(last, Completion)
        return last

    async def stream(self, sequence: EngineSequence) -> AsyncGenerator[Delta | Completion]:
        async with aclosing(self._attempts(sequence, stream=True)) as items:
            async for item in items:
                yield item

    async def _attempts(self, sequence: EngineSequence, *, stream: bool) -> AsyncGenerator[Delta | Completion]:
        submitted_s, lost, is_shown = monotonic(), 0, False
        if len(sequence.prompt_token_ids) >= self.max_model_len:
            raise EngineRejected(f"the prompt has {len(sequence.prompt_token_ids)} tokens, beyond the model's window")
        while True:
            async with self._engine() as engine:
                try:
                    async with aclosing(self._run(engine, sequence, submitted_s, stream)) as items:
                        async for item in items:
                            is_shown = is_shown or isinstance(item, Delta)
                            yield item
                    return
                except _Busy as busy:
                    engine.busy_until_s = monotonic() + min(busy.retry_after_s, MOST_BUSY_S)
                    self._check_busy(submitted_s)
                except _Lost as fault:
                    self._check_lost()  # by `shutdown`
                    self._lose(engine, str(fault))
                    lost += 1
                    if is_shown:
                        message = "the engine was lost in the middle of this stream: send the text again"
                        raise EngineFailed(message) from fault
                    if lost > FAILURES_SURVIVED:
                        message = f"{lost} engines were lost while they ran this sequence: {fault}"
                        raise EngineDead(message) from fault

    async def _run(
        self, engine: RemoteEngine, sequence: EngineSequence, submitted_s: float, stream: bool
    ) -> AsyncGenerator[Delta | Completion]:
        """One attempt. Raises `_Lost`, `_Busy`, `EngineRejected` and `EngineFailed`."""
        assert engine.served is not None
        began_s, first_s, own = monotonic(), 0.0, self._settings
        body = orjson.dumps(engine.api.body(sequence, engine.served, stream=stream))
        limits = aiohttp.ClientTimeout(
            own.first_token_timeout_s + sequence.max_tokens * own.token_timeout_s,
            sock_connect=own.connect_timeout_s,
            sock_read=own.first_token_timeout_s if stream else None,
        )
        chunks = list[Chunk]()
        async with self._request(engine, "POST", engine.api.path, body, limits) as response:
            most_bytes = MOST_BYTES_OF_AN_ANSWER + sequence.max_tokens * MOST_BYTES_OF_A_TOKEN
            next_s = own.token_timeout_s if stream else None
            async with aclosing(_answers(response, engine.api.ends if stream else None, most_bytes, next_s)) as answers:
                async for answer in answers:
                    first_s = first_s or monotonic()
                    chunks.append(chunk := engine.api.chunk(answer))
                    if stream and chunk.text:
                        yield Delta(chunk.text)
        done = joined(chunks, sequence)
        if done is None:
            raise _Lost("its answer ended before its end")
        waited_s, decode_s = began_s - submitted_s, monotonic() - first_s
        if stream:  # of a whole answer nobody knows when its first token came
            between = [decode_s / (done.completion_tokens - 1)] if done.completion_tokens > 1 else []
            self._gauge.latencies([first_s - submitted_s], between)
        self._gauge.stats.finished += 1
        self._gauge.stats.prompt_tokens += done.prompt_tokens
        self._gauge.stats.completion_tokens += done.completion_tokens
        yield replace(
            done, timings=Timings(waited_s, first_s - began_s, decode_s) if stream else Timings(waited_s, None, None)
        )

    # ---- HTTP

    @asynccontextmanager
    async def _request(
        self, engine: RemoteEngine, method: str, path: str, data: bytes | None, limits: aiohttp.ClientTimeout
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """An answer with status 200. Raises `_Lost`, `_Busy`, `EngineRejected` and `EngineFailed`."""
        if self._session is None:
            raise EngineDead("the pipeline is not running")
        headers = {"Content-Type": "application/json"} if data is not None else {}
        try:
            async with self._session.request(
                method, engine.url + path, data=data, headers=headers, timeout=limits, allow_redirects=False
            ) as response:
                if response.status != 200:
                    await _raise(response)
                yield response
        except TimeoutError as fault:
            raise _Lost("it did not answer in time") from fault
        except (aiohttp.ClientError, OSError) as fault:
            raise _Lost(f"{type(fault).__name__}: it cannot be reached, or closed the connection") from fault

    # ---- the rest of the contract

    def stats(self) -> EngineStats:
        self._load()
        return self._gauge.snapshot().model_copy(update={"remote": [one.stats() for one in self.engines]})

    async def check_health(self) -> None:
        if self._ended is not None:
            raise EngineDead(self._ended.message)
        if all(one.fault for one in self.engines):
            raise EngineRestarting(f"none of {len(self.engines)} engines answers; sequences wait for them")

    async def crashed(self) -> EngineDead:
        """Never: engines elsewhere are waited for."""
        await asyncio.get_running_loop().create_future()
        raise AssertionError


def _tls(ca_file: str) -> ssl.SSLContext | bool:
    if not ca_file:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as fault:
        raise ConfigError(f"remote.ca_file: {ca_file} cannot be read: {fault}", param="remote.ca_file") from fault


def _json(data: bytes) -> Json:
    try:
        found: object = orjson.loads(data)
    except orjson.JSONDecodeError as fault:
        raise EngineFailed("the engine's answer is not JSON") from fault
    if not isinstance(found, dict):
        raise EngineFailed("the engine's answer is not a JSON object")
    return cast(Json, found)


async def _read(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    data = bytearray()
    async for part in response.content.iter_any():
        data += part
        if len(data) > most_bytes:
            raise EngineFailed(f"the engine's answer has over {most_bytes:,} bytes")
    return bytes(data)


async def _raise(response: aiohttp.ClientResponse) -> None:
    """The error that a status means: a prompt that was refused, an engine that is busy, or one that is lost."""
    status = response.status
    after = response.headers.get("Retry-After", "")
    if status == 429 or (status == 503 and after):  # without it, llama-server's says that it loads its model
        raise _Busy(float(after) if after.isdigit() else 1.0)
    if status in (400, 413, 422):
        raise EngineRejected(f"the engine refused the prompt with status {status}")
    raise _Lost(f"it answered with status {status}{': see remote.api_key' if status in (401, 403) else ''}")


async def _answers(
    response: aiohttp.ClientResponse, ends: bytes | None, most_bytes: int, next_s: float | None
) -> AsyncGenerator[Json]:
    """The JSON of a whole answer, or, with `ends`, of each event (`data: …`) or line of a stream, up to such a line.

    `next_s`: the longest time between two parts of it; of the first the request has a limit.
    """
    if ends is None:
        yield _json(await _read(response, most_bytes))
        return
    parts, rest, read_bytes, timeout_s = response.content.iter_any(), b"", 0, None
    while True:
        async with asyncio.timeout(timeout_s):
            part = await anext(parts, b"")
        read_bytes, timeout_s = read_bytes + len(part), next_s
        if read_bytes > most_bytes:
            raise EngineFailed(f"the engine's answer has over {most_bytes:,} bytes")
        *lines, rest = (rest + part).split(b"\n") if part else (rest, b"")
        for line in map(bytes.strip, lines):
            if ends and line == ends:
                return
            if line and not line.startswith((b":", b"event:")):
                yield _json(line.removeprefix(b"data:"))
        if not part:
            return
