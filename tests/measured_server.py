"""What requests cost a server: its CPU time, how long they hold its event loop, and how long another key's reads wait for them.

The account that asks has little of its quota left, so that what is measured is what comes before a translation: a translation's
own work is bounded by the quota and by admission, and gives the event loop back. Its storage is filled to its limits.

Three things are measured of each request, in CPU time where other work of the machine would make a time longer:

- the CPU time of the server and of its workers, which has a limit for each megabyte of the body or of the answer;
- the longest time that the event loop was held (`tests/watched_server.py`): so long `/healthz` may wait;
- a read of another key, over and over, of which only counts what the server has worked meanwhile.

CPU time is longer on a slower core, and beside work that takes the caches, never shorter: what is over a limit is measured
again, in the time of the reference core, by a piece of work whose time there is known, and the least counts.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Any
from urllib.parse import urlsplit

import psutil
from filelock import FileLock

from dragoman.storage.database import Database
from dragoman.storage.documents import DocumentStore, StoredDocument
from dragoman.storage.glossaries import Glossaries
from dragoman.storage.keys import Keys
from dragoman.storage.memories import MemoryLimits, MemoryStore, NewEntry
from dragoman.types import Account
from tests.bounded_work import MB, Limits, Row, Shape
from tests.hostile import MULTIPART
from tests.processes import ServerProcess
from tests.watched_server import HOLD_FILE, Hold

SIZES = (MB // 2, 2 * MB, 7_900_000)
"""Bytes of a body; the last is just within the default of `server.max_body_bytes`."""
LEAST_CPU_S = 0.25
"""What a short request may take."""
URL_KEPT = 100
"""Characters of a URL that a case is listed with."""
GROWTH_FROM_S = 0.05
"""CPU time from which growth is looked at."""
WORKER_S = 0.5
"""A worker that is started meanwhile takes so long, and may do so within either request."""
QUOTA = 100_000
"""Characters that the account may have translated in a month."""
MEMORY_ENTRIES, LONG_ENTRIES, GLOSSARY_ENTRIES, DOCUMENTS = 199_000, 900, 100_000, 500
TIMEOUT_S = 300.0
TRIES = 3
"""How often what is over a limit is measured again."""
REFERENCE_S = 0.1
"""CPU time of `_reference_work` on the core for which the limits are: a Xeon of 2.5 GHz, where nothing else runs."""


@dataclass(frozen=True)
class Stored:
    """Ids of what the account has stored, by what URLs call them."""

    ids: Mapping[str, str]

    def url(self, row: Row) -> str:
        """The row's, with what it names."""
        url = row.url.replace("0123456789ABCDEF0123456789ABCDEF", "{document}")
        url = url.replace("11111111-1111-1111-1111-111111111111", "{glossary}").replace(
            "/glossaries/x/", "/glossaries/{glossary}/"
        )
        if url in ("/v1/memories/m", "/v1/memories/m/entries"):
            url = url.replace("/memories/m", "/memories/{memory}")
        for name, id in self.ids.items():
            url = url.replace(f"{{{name}}}", id)
        return url


@dataclass
class Figures:
    """What one request took. `cpu_s` is the server's and its workers', `hold_s` the event loop's, `read_s` another key's."""

    size: int  # of the body; of a request without one, that of the answer, and a megabyte at least
    status: int
    cpu_s: float
    hold_s: float
    read_s: float

    def faults(self, limits: Limits) -> list[str]:
        """What is over its limit."""
        most_s = max(LEAST_CPU_S, limits.cpu_s_a_mb * self.size / MB)
        found = [f"{self.cpu_s:.2f} s of CPU, at most {most_s:.2f}"] if self.cpu_s > most_s else []
        found += [f"the loop held for {self.hold_s:.2f} s of CPU"] if self.hold_s > limits.hold_s else []
        found += [f"a read of another key took {self.read_s:.2f} s"] if self.read_s > limits.read_s else []
        return [*found, f"status {self.status}"] if self.status >= 500 else found

    def divided_by(self, slowness: float) -> Figures:
        """In the time of a core that is faster by so much."""
        return Figures(self.size, self.status, self.cpu_s / slowness, self.hold_s / slowness, self.read_s / slowness)


@dataclass
class Case:
    """A row and a shape, and its figures by size."""

    method: str
    route: str
    url: str
    shape: str
    limits: Limits
    figures: list[Figures] = field(default_factory=list[Figures])

    @property
    def faults(self) -> list[str]:
        """What is over its limit, and growth that is more than in proportion."""
        found = [fault for one in self.figures for fault in one.faults(self.limits)]
        for small, large in pairwise(self.figures):
            most_s = self.limits.growth / 4 * large.size / max(small.size, 1) * small.cpu_s + WORKER_S
            if small.cpu_s > GROWTH_FROM_S and large.cpu_s > most_s:
                found.append(
                    f"{small.size:,} bytes took {small.cpu_s:.2f} s, {large.size:,} {large.cpu_s:.2f} s of CPU"
                )
        return found


def _reference_work() -> int:
    """What servers do: parse, build and sort, in more memory than a core has a cache for."""
    rows = [{"id": number, "text": f"line {number * 7919 % 30_011}"} for number in range(30_000)]
    parsed = json.loads(json.dumps(rows))
    return len(sorted(parsed, key=lambda row: row["text"]))


def _slowness() -> float:
    """How many times the reference core's CPU time the work takes here and now."""
    began_s = process_time()
    _reference_work()
    return (process_time() - began_s) / REFERENCE_S


def _cpu_s(process: psutil.Process) -> float:
    """Of a process and those below it, also of those that have ended."""
    total_s = 0.0
    for one in (process, *process.children(recursive=True)):
        with suppress(psutil.Error):
            times = one.cpu_times()
            total_s += times.user + times.system + times.children_user + times.children_system
    return total_s


def _reader(address: str, path: str, key: str, pid: int, pipe: Connection) -> None:
    """Read as another key until the pipe says stop; send the longest time on demand, of which counts only what the server has
    worked meanwhile: the rest is time in which this machine did something else."""
    connection, longest_s, process = http.client.HTTPConnection(address, timeout=TIMEOUT_S), 0.0, psutil.Process(pid)
    while True:
        while not pipe.poll(0.05):
            began_s, before_s = perf_counter(), _cpu_s(process)
            connection.request("GET", path, headers={"X-API-Key": key})
            connection.getresponse().read()
            longest_s = max(longest_s, min(perf_counter() - began_s, _cpu_s(process) - before_s))
        if pipe.recv() == "stop":
            return
        pipe.send(longest_s)
        longest_s = 0.0


@dataclass
class MeasuredServer:
    """A server with a full storage, the key whose it is, and what measures it."""

    process: ServerProcess
    key: str
    stored: Stored
    hold: Hold
    reader: Connection

    def send(self, row: Row, shape: Shape | None, size: int) -> Figures:
        """Send one body, and wait until the work that it caused is over."""
        body, process = shape.body(size) if shape is not None else None, psutil.Process(self.process.process.pid)
        headers = {"X-API-Key": self.key} | ({"Content-Type": shape.content_type} if shape is not None else {})
        self._longest_read_s()
        self.hold.longest_s = 0.0
        before_s = _cpu_s(process)
        connection = http.client.HTTPConnection(urlsplit(self.process.url).netloc, timeout=TIMEOUT_S)
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # refused before all of it was sent
                connection.request(row.method, self.stored.url(row), body, headers)
            with connection.getresponse() as answer:
                status, content = answer.status, answer.read()
        except ConnectionResetError:
            status, content = 0, b""
        finally:
            connection.close()
        cpu_s = _cpu_s(process) - before_s
        if status in (200, 201, 202) and "document" in f"{row.url} {shape.name if shape else ''}":
            self._delete_documents(content)
            self._settle(process)
        size = max(len(content), MB) if body is None else len(body)
        return Figures(size, status, round(cpu_s, 3), round(self.hold.longest_s, 3), round(self._longest_read_s(), 3))

    def _delete_documents(self, answer: bytes) -> None:
        """Those that an answer names, with the reading of their files, which has a limit of CPU time of its own."""
        for id in {*re.findall(rb"[0-9A-F]{32}", answer)} - {self.stored.ids["document"].encode()}:
            with closing(
                http.client.HTTPConnection(urlsplit(self.process.url).netloc, timeout=TIMEOUT_S)
            ) as connection:
                connection.request("DELETE", f"/v1/documents/{id.decode()}", headers={"X-API-Key": self.key})
                connection.getresponse().read()

    def _settle(self, process: psutil.Process) -> None:
        """Wait for the file that was sent to be read, which would count as the next request's work."""
        used_s = -1.0
        while (now_s := _cpu_s(process)) > used_s + 0.05:
            used_s = now_s
            sleep(0.2)

    def measure(
        self, row: Row, shape: Shape | None, sizes: Sequence[int], is_known: Callable[[Case], bool] = lambda case: False
    ) -> Case:
        """One case at several sizes, or fewer where `is_known` says of those so far what the next would show.

        What is over a limit is measured again, and the least figures count.
        """
        case = Case(row.method, row.route, row.url[:URL_KEPT], shape.name if shape is not None else "", row.limits)
        for size in sizes:
            case.figures.append(self.send(row, shape, size))
            if is_known(case):
                break
        for _ in range(TRIES):
            if not case.faults:
                break
            again = [self._in_reference_time(row, shape, size) for size in sizes[: len(case.figures)]]
            case.figures = [_smaller(*both) for both in zip(case.figures, again, strict=True)]
        return case

    def _in_reference_time(self, row: Row, shape: Shape | None, size: int) -> Figures:
        before = _slowness()
        figures = self.send(row, shape, size)
        return figures.divided_by(max(before, _slowness(), 1.0))

    def _longest_read_s(self) -> float:
        """Since this was last asked."""
        self.reader.send("read")
        return self.reader.recv()


def _smaller(one: Figures, other: Figures) -> Figures:
    return Figures(
        one.size,
        max(one.status, other.status),
        min(one.cpu_s, other.cpu_s),
        min(one.hold_s, other.hold_s),
        min(one.read_s, other.read_s),
    )


LIMITS = MemoryLimits(200_000, 2**28)


async def _fill(database: Database, account: Account) -> dict[str, str]:
    """Memories, glossaries and documents of an account, up to their limits; their ids."""
    memories, glossaries, documents = MemoryStore(database), Glossaries(database), DocumentStore(database)
    memory, long = await memories.create(account.id, "many"), await memories.create(account.id, "long")
    for first in range(0, MEMORY_ENTRIES, 10_000):
        numbers = range(first, min(first + 10_000, MEMORY_ENTRIES))
        entries = [NewEntry("en", "ja", f"number {n}", f"番号 {n}") for n in numbers]
        await memories.add(account.id, memory.id, entries, LIMITS)
    for first in range(0, LONG_ENTRIES, 100):
        entries = [NewEntry("en", "ja", f"{n:05d}" + "a" * 19_990, "a" * 19_995) for n in range(first, first + 100)]
        await memories.add(account.id, long.id, entries, LIMITS)
    terms = {f"term {n}": f"用語 {n}" for n in range(GLOSSARY_ENTRIES)}
    glossary = await glossaries.create(account.id, "terms", {("en", "ja"): terms})
    now = datetime.now(UTC).replace(tzinfo=None)
    options = json.dumps({"context": "x" * 20_000})
    for number in range(DOCUMENTS):
        row = StoredDocument(
            f"{number:032X}", account.id, "", "native", "a.txt", "txt", "ja", "en", False, now,
            now + timedelta(days=1), state="done",
        )  # fmt: skip
        await documents.add(row, options, DOCUMENTS)
    return {"memory": memory.id, "long": long.id, "glossary": glossary.id}


def _upload(process: ServerProcess, key: str) -> str:
    """The id of a document with a thousand segments, once it is done."""
    with closing(http.client.HTTPConnection(urlsplit(process.url).netloc, timeout=TIMEOUT_S)) as connection:
        return _uploaded(connection, key)


def _uploaded(connection: http.client.HTTPConnection, key: str) -> str:
    lines = "".join(f"Line {number}.\n\n" for number in range(1_000))
    head = '--b\r\nContent-Disposition: form-data; name="target"\r\n\r\nja\r\n'
    head += '--b\r\nContent-Disposition: form-data; name="file"; '
    body = f'{head}filename="a.txt"\r\n\r\n{lines}\r\n--b--\r\n'.encode()
    headers = {"X-API-Key": key, "Content-Type": MULTIPART}
    connection.request("POST", "/v1/documents", body, headers)
    id = json.loads(connection.getresponse().read())["id"]
    while True:
        connection.request("GET", f"/v1/documents/{id}", headers=headers)
        state = json.loads(connection.getresponse().read())["state"]
        if state in ("done", "error"):
            assert state == "done"
            return str(id)
        sleep(0.2)


@dataclass(frozen=True)
class FullStorage:
    """A database that is filled to its limits, the key whose it is, another, and the ids of what it has."""

    database: Path
    key: str
    other: str
    ids: Mapping[str, str]

    @classmethod
    async def made(cls, folder: Path) -> FullStorage:
        """Takes half a minute of CPU time. Several processes that name the same folder make it once."""
        folder.mkdir(exist_ok=True)
        file, described = folder / "dragoman.db", folder / "storage.json"
        with FileLock(folder / "lock"):
            if not described.exists():
                described.write_text(json.dumps(await cls._fill(file)))
        return cls(file, **json.loads(described.read_text()))

    @staticmethod
    async def _fill(file: Path) -> dict[str, Any]:
        database = Database(f"sqlite:///{file}")
        await database.open()
        try:
            account, key = await Keys(database).create(Account("", "full", role="operator", characters_per_month=QUOTA))
            _, other = await Keys(database).create(Account("", "other"))
            return {"key": key, "other": other, "ids": await _fill(database, account)}
        finally:
            await database.close()


@asynccontextmanager
async def measured_server(folder: Path, full: FullStorage) -> AsyncIterator[MeasuredServer]:
    """A server over the fake pipeline, with keys and SQLite, that has its own copy of a full storage."""
    shutil.copyfile(full.database, folder / "dragoman.db")
    storage, key, other, ids = f"sqlite:///{folder}/dragoman.db", full.key, full.other, dict(full.ids)
    flags = [
        "--pipeline=fake",
        "--auth=keys",
        f"--storage-url={storage}",
        "--memory-suggestions=true",
        "--traffic=false",
    ]
    hold = folder / "hold"
    watched = ServerProcess(
        folder, *flags, program=(sys.executable, "-m", "tests.watched_server"), environment={HOLD_FILE: str(hold)}
    )
    with watched as process:
        await process.listening()
        ids["document"] = _upload(process, key)
        ours, theirs = multiprocessing.Pipe()
        arguments = (urlsplit(process.url).netloc, "/v1/documents", other, process.process.pid, theirs)
        reader = multiprocessing.get_context("spawn").Process(target=_reader, args=arguments, daemon=True)
        reader.start()
        try:
            yield MeasuredServer(process, key, Stored(ids), Hold(hold), ours)
        finally:
            ours.send("stop")
            reader.join(TIMEOUT_S)
