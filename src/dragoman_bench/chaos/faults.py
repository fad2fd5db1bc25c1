"""The faults: what each does to the servers and their clients. How they are mixed and what is seen of them is `run.py`'s."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
from collections.abc import Awaitable, Callable, Collection
from contextlib import closing, suppress
from dataclasses import dataclass
from random import Random
from time import monotonic

import psutil

from dragoman.errors import ConfigError, DragomanError
from dragoman_bench.chaos.clients import Manner, MixedLoad
from dragoman_bench.chaos.oracle import SentCall
from dragoman_bench.chaos.shim import Shim
from dragoman_bench.chaos.stage import REAL, STAGES, ChaosServer, Stage, StageName

FAKE_ENGINE, VLLM_ENGINE = "fake_process", "VLLM::EngineCore"
WORKER, REPLICA, PROXY = "wholetext.files.worker", "ray::ServeReplica", "haproxy.cfg"
"""Parts of the command lines by which processes are found."""
HELD_S = 4.0
"""How long a resource is held back."""
APPEARS_S = 20.0
"""How long a process is waited for."""
UPDATES_S = 180.0
"""For two replicas, one after the other."""
MOVED_S = 3600
"""By so much the wall clock is moved, forwards or backwards."""
ENDS_S, STOPPED_S = 60.0, 100.0
"""How long `vllm serve` may take to end after its engine, and how long that is stopped: longer than a call's deadline."""
FLOOD = 10
"""A flood's characters, in times of what servers admit."""


class NotInjected(DragomanError):
    """There was nothing that the fault could be injected into."""

    code = "not_injected"


@dataclass(frozen=True, slots=True)
class Scene:
    """What a fault works on. `rng` has the run's seed."""

    stage: Stage
    load: MixedLoad
    rng: Random

    @property
    def engine(self) -> str:
        """The engine's part of a command line."""
        return VLLM_ENGINE if self.stage.name in REAL else FAKE_ENGINE

    def calls(self, number: int) -> list[SentCall]:
        """So many calls of all kinds and keys."""
        keys = sorted(self.load.keys)
        return [self.load.made(self.rng.choice(self.load.calls), self.rng.choice(keys)) for _ in range(number)]

    async def send(self, calls: list[SentCall], manner: Callable[[], Manner]) -> None:
        """Send them at the same time, to all servers."""
        await asyncio.gather(*(self.load.call(one, self.load.url(one.number), manner()) for one in calls))


async def _found(
    scene: Scene, title: str, *, of: ChaosServer | None = None, but: Collection[int] = ()
) -> psutil.Process:
    """A process, once there is one, of one of the servers, or of one; with another number than `but`. Raises `NotInjected`
    where none appears."""
    end_s, servers = monotonic() + APPEARS_S, scene.stage.servers if of is None else [of]
    while monotonic() < end_s:
        found = [one for server in servers for one in server.below(title) if one.pid not in but]
        if found:
            return scene.rng.choice(found)
        await asyncio.sleep(0.02)
    raise NotInjected(f"no process {title} appeared within {APPEARS_S:g} s")


def _send(process: psutil.Process, number: signal.Signals) -> None:
    """Send a signal. Raises `NotInjected` where the process has ended."""
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess as error:
        raise NotInjected(f"process {error.pid} ended before its signal") from None


async def _signal(scene: Scene, title: str, number: signal.Signals) -> None:
    _send(await _found(scene, title), number)


async def engine_killed(scene: Scene) -> None:
    await _signal(scene, scene.engine, signal.SIGKILL)


async def engine_stopped(scene: Scene) -> None:
    await _signal(scene, scene.engine, signal.SIGSTOP)


async def engine_killed_twice(scene: Scene) -> None:
    """An engine's process, and the next one that its server starts, before that serves."""
    server = scene.rng.choice(scene.stage.servers)
    known = {one.pid for one in server.below(scene.engine)}
    first = await _found(scene, scene.engine, of=server)  # which may have come meanwhile
    _send(first, signal.SIGKILL)
    _send(await _found(scene, scene.engine, of=server, but={first.pid, *known}), signal.SIGKILL)


async def engine_of_vllm_killed(scene: Scene) -> None:
    """`vllm serve` ends, and is started again. Calls that it leaves unanswered from the signal on have failed."""
    [server] = scene.stage.servers
    with scene.load.ledger.outages.during(server.url):
        await engine_killed(scene)
        if server.process is not None:
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(server.process.wait, ENDS_S)
        server.kill()
        await server.start()


async def engine_of_vllm_stopped(scene: Scene) -> None:
    """`vllm serve` does not see it: the engine goes on once it is told to."""
    engine = await _found(scene, scene.engine)
    _send(engine, signal.SIGSTOP)
    try:
        await asyncio.sleep(STOPPED_S)
    finally:
        _send(engine, signal.SIGCONT)


async def worker_killed(scene: Scene) -> None:
    await _signal(scene, WORKER, signal.SIGKILL)


async def replica_killed(scene: Scene) -> None:
    """Streams that it has begun are cut; HAProxy sends other calls to the other one. Of its usage a second may be lost."""
    server, outages = scene.stage.servers[0], scene.load.ledger.outages
    replica = await _found(scene, REPLICA)
    with outages.during(server.url):
        _send(replica, signal.SIGKILL)


async def proxy_killed(scene: Scene) -> None:
    """Connections to HAProxy are cut, whatever they have been answered; Ray Serve starts another."""
    server, outages = scene.stage.servers[0], scene.load.ledger.outages
    proxy = await _found(scene, PROXY)
    with outages.during(server.url):
        _send(proxy, signal.SIGKILL)
        await server.ready()


async def rolling_update(scene: Scene) -> None:
    """SIGUSR2 replaces one replica after another. Nothing excuses a call that gets no answer."""
    server = scene.stage.servers[0]
    before = {one.pid for one in server.below(REPLICA)}
    server.root.send_signal(signal.SIGUSR2)
    end_s = monotonic() + UPDATES_S
    while monotonic() < end_s:
        now = {one.pid for one in server.below(REPLICA)}
        if len(now) >= len(before) and not now & before:
            return
        await asyncio.sleep(0.2)
    scene.load.ledger.count("lost", f"no new replicas within {UPDATES_S:g} s of a rolling update")


async def server_killed(scene: Scene) -> None:
    await scene.rng.choice(scene.stage.servers).restart(signal.SIGKILL)


async def server_ended(scene: Scene) -> None:
    await scene.rng.choice(scene.stage.servers).restart(signal.SIGTERM)


async def keys_read_again(scene: Scene) -> None:
    for server in scene.stage.servers:
        server.root.send_signal(signal.SIGHUP)


async def clients_vanish(scene: Scene) -> None:
    await scene.send(scene.calls(30), lambda: Manner(leave_after_s=scene.rng.uniform(0.005, 0.5)))


async def clients_trickle(scene: Scene) -> None:
    await scene.send(scene.calls(10), lambda: Manner(send_s=scene.rng.uniform(1.0, HELD_S)))


async def flood(scene: Scene) -> None:
    """Until their characters are ten times what the servers admit."""
    calls, left = list[SentCall](), FLOOD * scene.stage.most_characters
    while left > 0:
        calls.append(scene.load.made(scene.load.calls[0], scene.rng.choice(("a", "b"))))
        left -= calls[-1].characters
    await scene.send(calls, Manner)


async def garbage(scene: Scene) -> None:
    """Bytes that are no request, and requests that are none of the API's: an answer of 5xx is a fault."""
    for server in scene.stage.servers:
        for content in _garbage(scene.rng):
            answer = await _raw(server.port, content)
            is_refused = not answer.startswith(b"HTTP/1.1 5")
            scene.load.ledger.count("refused" if is_refused else "wrong", f"{content[:60]!r} gets {answer[:60]!r}")


def _garbage(rng: Random) -> list[bytes]:
    body = b'{"text": ["a", 1, {}], "target": ' + rng.randbytes(40)
    head = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    return [
        rng.randbytes(400),
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/translate HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        head + b"Content-Length: %d\r\n\r\n" % len(body) + body,
        head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ]


async def _raw(port: int, content: bytes) -> bytes:
    """The beginning of what is answered; nothing where the connection is closed without."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(content)
                writer.write_eof()
                return await reader.read(200)
            finally:
                writer.close()
    return b""


async def database_locked(scene: Scene) -> None:
    """Another program holds SQLite's lock for writing."""
    file = scene.stage.storage_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(file, timeout=APPEARS_S, isolation_level=None, check_same_thread=False)) as database:
        await asyncio.to_thread(_begin, database)
        await asyncio.sleep(HELD_S)
        database.rollback()


def _begin(database: sqlite3.Connection) -> None:
    database.execute("BEGIN IMMEDIATE")


async def database_restarted(scene: Scene) -> None:
    """PostgreSQL, without a checkpoint: as after a crash."""
    if scene.stage.postgres is None:
        raise NotInjected("the servers have no PostgreSQL")
    await asyncio.to_thread(scene.stage.postgres.control, "restart", "-m", "immediate")


async def _limited(process: psutil.Process, resource: int, limit: Callable[[psutil.Process], int]) -> None:
    """Limit a resource of a server's process for a time."""
    soft, hard = process.rlimit(resource)
    process.rlimit(resource, (limit(process), hard))
    try:
        await asyncio.sleep(HELD_S)
    finally:
        with suppress(psutil.NoSuchProcess):
            process.rlimit(resource, (soft, hard))


async def _serving(scene: Scene, server: ChaosServer) -> psutil.Process:
    """The process that answers a server's calls, or one of them."""
    return await _found(scene, REPLICA) if scene.stage.name == "replicas" else server.root


async def disk_full(scene: Scene) -> None:
    """No file of the server's process grows: each write beyond a file's end is an error (RLIMIT_FSIZE)."""
    process = await _serving(scene, scene.rng.choice(scene.stage.servers))
    await _limited(process, psutil.RLIMIT_FSIZE, lambda _: 0)


async def disk_read_only(scene: Scene) -> None:
    """Each attempt of the server's processes to write a file is an error, EROFS (`shim`)."""
    shim = _shim(scene)
    shim.set(is_read_only=True)
    try:
        await asyncio.sleep(HELD_S)
    finally:
        shim.set()


async def clock_moved(scene: Scene) -> None:
    """The wall clock of one server's processes is an hour ahead or behind (`shim`), and then right again."""
    shim = _shim(scene)
    shim.set(clock_s=scene.rng.choice((-MOVED_S, MOVED_S)))
    try:
        await asyncio.sleep(HELD_S)
    finally:
        shim.set()


def _shim(scene: Scene) -> Shim:
    """Of one of the servers. Raises `NotInjected` where there is no compiler for it."""
    shim = scene.rng.choice(scene.stage.servers).shim
    if shim is None:
        raise NotInjected("there is no C compiler")
    return shim


async def handles_used_up(scene: Scene) -> None:
    """The server's process may open no more files and connections than it has (RLIMIT_NOFILE).

    libuv then closes new connections unread, which no server can answer: these calls have failed.
    """
    server, outages = scene.rng.choice(scene.stage.servers), scene.load.ledger.outages
    process = await _serving(scene, server)
    with outages.during(server.url, is_orderly=True):
        await _limited(process, psutil.RLIMIT_NOFILE, lambda process: process.num_fds() + 1)


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A kind of fault. `inject`: raises `NotInjected` where it could not; `stages`: where it exists."""

    name: str
    inject: Callable[[Scene], Awaitable[None]]
    stages: tuple[StageName, ...] = ("one", "pair", "replicas", "real")


_PROCESSES: tuple[StageName, ...] = ("one", "pair", "real")
FAULTS = (
    FaultKind("engine killed", engine_killed),
    FaultKind("engine killed twice", engine_killed_twice),
    FaultKind("engine stopped (SIGSTOP)", engine_stopped),
    FaultKind("engine killed", engine_of_vllm_killed, ("vllm",)),
    FaultKind("engine stopped (SIGSTOP)", engine_of_vllm_stopped, ("vllm",)),
    FaultKind("document worker killed", worker_killed),
    FaultKind("replica killed", replica_killed, ("replicas",)),
    FaultKind("HAProxy killed", proxy_killed, ("replicas",)),
    FaultKind("rolling update (SIGUSR2)", rolling_update, ("replicas",)),
    FaultKind("server killed and started", server_killed),
    FaultKind("server ended (SIGTERM) and started", server_ended),
    FaultKind("keys read again (SIGHUP)", keys_read_again),
    FaultKind("30 clients vanish", clients_vanish),
    FaultKind("10 clients trickle", clients_trickle),
    FaultKind("garbage is sent", garbage),
    FaultKind("flood of 10 times the capacity", flood, STAGES),
    FaultKind("database locked", database_locked, ("one", "replicas", "real")),
    FaultKind("database restarted", database_restarted, ("pair",)),
    FaultKind("disk full (injected)", disk_full),
    FaultKind("disk read-only (injected)", disk_read_only, _PROCESSES),
    FaultKind("wall clock moved by an hour (injected)", clock_moved, _PROCESSES),
    FaultKind("file handles used up", handles_used_up),
)


def kinds_of(stage: StageName, names: Collection[str] = ()) -> list[FaultKind]:
    """The kinds of faults that exist at a stage; of `names` only, if there are any. Raises `ConfigError` where none is left."""
    kinds = [one for one in FAULTS if stage in one.stages and (not names or one.name in names)]
    if not kinds:
        raise ConfigError(f"--servers {stage} has no fault {' or '.join(names)}: name another of either", param="fault")
    return kinds
