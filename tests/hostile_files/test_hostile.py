"""Whatever a file is, it does no harm: it is refused with an error of its own, or read, and what was read can be written.

Files are read and written in a process with the bounds of a worker's (`wholetext/files/worker.py`), one after the other:
starting a process takes longer than most of these files.
"""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import os
import re
import resource
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.settings import DocumentSettings
from tests.hostile_files.attacks import Attack, attacks
from tests.hostile_files.mutations import mutants, seeds
from tests.processes import serving
from tests.waiting import HANG_S
from wholetext.files import formats, worker
from wholetext.files.content import ReadOptions
from wholetext.files.segmentfile import SegmentFile
from wholetext.files.worker import SOURCE, WorkerTask
from wholetext.files.xmlpart import NOT_XML
from wholetext.markup.marks import MARK
from wholetext.markup.spans import pseudolocalized

CPU_S = 30
"""What reading, or writing, one of these files may take before its process is killed: some take 1 s without other work."""
MOST_UNITS = 30_000
"""How many texts the reader takes of a file: a tenth of a worker's bound too, as these files are of a server's."""
UNSAFE = re.compile(
    r"Traceback|File \"|(?<![.'])/(?:tmp|root|home|usr|work|etc)/|\.py\b|\b[A-Z]\w+(?:Error|Exception)\b|its reader failed"
)
"""What a message must not tell of the server."""
FILLED = frozenset({"po", "xliff", "xcstrings", "ts", "pdf"})
"""Formats whose result has other texts to translate: what was empty is filled, or it is of another format."""
LOSSES = ("none", "changed", "all marks", "some marks", "twice", "empty")
"""What a model may do to a text and its marks."""
SENT = {
    "29 MB": "done",
    "31 MB": "413 body_too_large",
    "31 MB without a length": "413 body_too_large",
    "a txt of 11 MB": "413 body_too_large",
    "a name with a path": "done",
    "an empty file": "400 invalid_file",
    "a format that is not read": "400 unsupported_file",
    "a name without an extension": "400 unsupported_file",
    "a name of 5,000 characters": "400 invalid_request",
    "an entity that is fetched": "invalid_file",
    "a DTD that is fetched": "invalid_file",
    "parameter entities that are fetched": "invalid_file",
    "templates, pictures and frames that are fetched": "done",
    "HTML: pictures, frames and styles that are fetched": "done",
    "xliff: an external DTD": "invalid_file",
    "ts: an external DTD": "done",
    "forms in forms, ten times each, ten deep": "invalid_file",
}
"""Attacks that only a server shows the effect of, and how each ends: uploads, addresses that it would fetch, a worker's end."""
READ_ATTACKS = [one for one in attacks("") if one.what not in SENT]
REFUSED = {"package": 30, "XML": 8, "sheets, OpenDocument, books": 5, "Markdown": 0, "data": 7, "text": 9, "PDF": 7}
"""How many attacks of each group are refused; the others are files, and are read."""


@dataclass
class Outcome:
    """What became of a file: the error that it was refused with, or texts that were written. `fault`: what must not happen."""

    code: str = ""
    message: str = ""
    fault: str = ""


def _translation(random: Random, source: str, loss: str) -> str:
    match loss:
        case "none":
            return source
        case "all marks":
            return MARK.sub("", source)
        case "some marks":  # whole pairs: the translator gives no others
            kept = {number for number in range(1, 1 + len(MARK.findall(source))) if random.random() < 0.5}
            return MARK.sub(lambda mark: mark[0] if int(mark[2] or mark[3]) in kept else "", source)
        case "twice":
            return f"{source} {source}"
        case "empty":
            return ""
        case _:
            parts = re.split(rf"({MARK.pattern.replace('(', '(?:')})", source)
            return "".join(part if at % 2 else pseudolocalized(part) for at, part in enumerate(parts))


# ---- the process


def _start(memory_bytes: int) -> None:
    worker.limit_process(memory_bytes)
    worker.MOST_UNITS = MOST_UNITS
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # as a worker has it


def _answer(task: WorkerTask) -> dict[str, Any]:
    """What a worker answers to a task, which has its CPU time; the process is killed beyond it."""
    used_s = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    resource.setrlimit(resource.RLIMIT_CPU, (used_s + CPU_S, resource.RLIM_INFINITY))
    answer: dict[str, Any] = worker.answer(json.dumps(asdict(task)).encode())
    return answer


def _outcome(data: bytes, options: ReadOptions, loss: str, seed: int) -> Outcome:
    """Read a file, write it with translations, and read the result again."""
    gc.collect()  # of the file before: a worker, which has one, collects none
    gc.freeze()  # what is left stays, and need not be looked at again
    with TemporaryDirectory() as folder:
        Path(folder, SOURCE).write_bytes(data)
        reading, writing = (WorkerTask(op, folder, options) for op in ("read", "write"))
        if code := (refused := _answer(reading)).get("code"):
            return Outcome(code, refused["message"], refused.get("frames", ""))
        units = [*SegmentFile(reading.file("segments")).source_units()]
        sources = [one.source for one in units]
        random = Random(seed)
        SegmentFile(writing.file("segments")).create(
            replace(one, translation=_translation(random, one.source, loss)) for one in units
        )
        if code := (refused := _answer(writing)).get("code"):
            return Outcome(code, refused["message"], "what was read cannot be written")
        if loss == "empty":  # which may leave nothing but white space
            return Outcome()
        extension = "docx" if options.extension == "pdf" else options.extension
        again = formats.read(writing.file().read_bytes(), replace(options, extension=extension))
        same = (
            loss != "none"
            or options.extension in FILLED
            or _plain(sources) == _plain([u.block.text for u in again.units])
        )
        return Outcome(fault="" if same else "the result has other texts")


def _plain(texts: list[str]) -> list[str]:
    """Texts without their marks, which may be others where text was written in CDATA, and without what XML cannot have."""
    return [NOT_XML.sub("", MARK.sub("", text)) for text in texts]


class Reader:
    """The process that reads; it is started again where a file has ended it."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def read(self, data: bytes, extension: str, loss: str = "none", **options: Any) -> Outcome:
        name = formats.format_of(extension).name
        given = ReadOptions(name, options.pop("target", "ja"), "en", "docx" if name == "pdf" else name, **options)
        if self._pool is None:
            spawn, memory_bytes = multiprocessing.get_context("spawn"), DocumentSettings().worker_memory_bytes
            self._pool = ProcessPoolExecutor(1, spawn, _start, (memory_bytes,))
        try:
            return self._pool.submit(_outcome, data, given, loss, len(data)).result()
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    reader = Reader()
    yield reader
    reader.close()


# ---- mutations


@pytest.mark.parametrize("extension", [name for files in seeds() for name in files])
@settings(max_examples=20)
@given(data=st.data(), loss=st.sampled_from(LOSSES), target=st.sampled_from(("ja", "de", "ar")), comments=st.booleans())
def test_a_changed_file_is_refused_or_read_and_written(
    reader: Reader, extension: str, data: st.DataObject, loss: str, target: str, *, comments: bool
) -> None:
    outcome = reader.read(data.draw(mutants(extension)), extension, loss, target=target, comments=comments)
    assert not outcome.fault and not UNSAFE.search(outcome.message), outcome
    assert outcome.code in ("", "invalid_file", "unsupported_file")


# ---- attacks


@pytest.mark.acceptance
@pytest.mark.timeout(900)  # each attack has the worker's limit of CPU time; there are a hundred
@pytest.mark.parametrize("group", REFUSED)
def test_attacks_are_refused_or_read_and_written(reader: Reader, group: str) -> None:
    refused = Counter[str]()
    for attack in (one for one in READ_ATTACKS if one.group == group):
        extension = attack.name.rpartition(".")[2]
        try:
            outcome = reader.read(attack.data(), extension)
        except Exception as error:
            raise AssertionError(attack.what) from error
        assert not outcome.fault and not UNSAFE.search(outcome.message), (attack.what, outcome)
        refused[outcome.code] += 1
    assert sum(number for code, number in refused.items() if code) == REFUSED[group], refused


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[str, list[object]]]:
    """An address that no file may make the server connect to, and who did."""
    connected: list[object] = []
    server = await asyncio.start_server(lambda _, writer: (connected.append(writer), writer.close()), "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()[:2]
        yield f"{host}:{port}", connected


async def ended(client: httpx.AsyncClient, attack: Attack) -> tuple[str, str]:
    """How an upload ended, as its status or in its job, and the message."""
    data, fields = attack.data(), {"target": "ja", "source": "en"}
    request = client.build_request("POST", "/v1/documents", data=fields, files={"file": (attack.name, data)})
    if attack.chunked:
        del request.headers["content-length"]
        request.headers["transfer-encoding"] = "chunked"
    answer = await client.send(request)
    if answer.is_error:
        error = answer.json()["error"]
        return f"{answer.status_code} {error['code']}", error["message"]
    path = f"/v1/documents/{answer.json()['id']}"
    while (job := (await client.get(path)).json())["state"] not in ("done", "error"):  # noqa: ASYNC110 (another process)
        await asyncio.sleep(0.02)
    if job["state"] == "error":
        return job["error"]["code"], job["error"]["message"]
    assert (await client.get(f"{path}/result")).status_code == 200
    return "done", ""


@pytest.mark.acceptance
async def test_attacks_on_a_server_do_no_harm_and_nothing_that_a_file_names_is_fetched(tmp_path: Path) -> None:
    async with (
        listening() as (address, connected),
        serving(tmp_path, "--fake-step-ms=0") as server,
        httpx.AsyncClient(base_url=server.url, timeout=HANG_S) as client,
    ):
        found = {one.what: await ended(client, one) for one in attacks(address) if one.what in SENT}
        assert {what: how for what, (how, _) in found.items()} == SENT
        assert not [message for _, message in found.values() if UNSAFE.search(message)]
        assert not connected and not server.has_ended
