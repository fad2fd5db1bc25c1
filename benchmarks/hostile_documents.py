"""Does any file harm the server? Attacks over HTTP, and thousands of changed files through the worker's own code.

    python benchmarks/hostile_documents.py --out results/hostile-documents.json --page docs/hostile-documents.md

**Attacks** (`attack_files.py`): each file is sent to a `dragoman serve` over the fake pipeline. The table has the HTTP status, or
how the job ended, its message, the time until then, the most memory of the server and of the worker (sampled), and the longest
that `/healthz` took meanwhile. A file with very many texts is not translated to its end: its job is deleted `--job-s` after it
was read. Addresses in the files are those of a listener here, which counts connections. An attack fails by a 5xx, a message with a
traceback or a path of the server, a connection to the listener, or a server that has exited.

**Mutants** (`mutated_files.py`): `--mutants` changed files, the same ones at each run, are read, and written with translations that
have all, some or none of their marks, by `wholetext.files.worker` as its process does it. Here a process does many files
one after the other: one process a file, as the server has it, takes longer than the file (the report says how much). A mutant fails
by an exception that is no error of files, an end of the process, more than a second for a file under 1 MB, or a result that is not
read again.

Ctrl-C ends it and keeps what was measured; what `--out` holds already and is not measured again is kept too. The exit code is 1 if something failed. The last line of stdout is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import os
import re
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import Any

import aiohttp
import psutil
from attack_files import Attack, attacks
from documents import watching
from mutated_files import Mutant, has_right_sums, mutant
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dragoman.settings import DocumentSettings
from dragoman_bench.bench.progress import error_console, interrupts, run_async
from dragoman_bench.bench.results import describe_machine, git_commit
from dragoman_bench.bench.servers import RunningServer, dragoman_serve, serving
from dragoman_bench.bench.tables import escaped, markdown, table
from wholetext.errors import WholetextError
from wholetext.files import formats, worker
from wholetext.files.content import ReadOptions
from wholetext.files.worker import SOURCE, Workers, WorkerTask
from wholetext.files.xmlpart import NOT_XML
from wholetext.markup.marks import MARK
from wholetext.markup.spans import pseudolocalized

TARGET = "ja"
SMALL_BYTES, SMALL_S = 1_000_000, 1.0
_UNSAFE = re.compile(
    r"Traceback|File \"|(?<![.'])/(?:tmp|root|home|usr|work|etc)/|\.py\b|\b[A-Z]\w+(?:Error|Exception)\b"
)
_SHOWN_CHARACTERS = 110


def progress() -> Progress:
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(TextColumn("{task.description}"), *columns, console=error_console)


def shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"


# ---- attacks


@dataclass
class Outcome:
    """What became of an attack. `ended`: the status, or the state of the job."""

    group: str
    what: str
    file: str
    size: int
    ended: str
    message: str
    took_s: float
    segments: int = 0
    server_mib: int = 0  # more than before
    worker_mib: int = 0
    healthz_ms: float = 0.0
    connections: int = 0
    faults: list[str] = field(default_factory=list[str])


class Listener:
    """Counts the connections to an address that no file may make the server connect to."""

    def __init__(self) -> None:
        self.connections = 0
        self.address = ""

    async def __aenter__(self) -> Listener:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"
        return self

    async def _connected(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.close()

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 1 << 16):
        yield data[at : at + (1 << 16)]


def _form(attack: Attack, data: bytes) -> tuple[Any, dict[str, str]]:
    if not attack.chunked:
        form = aiohttp.FormData({"target": TARGET, "source": "en"})
        form.add_field("file", data, filename=attack.name, content_type="application/octet-stream")
        return form, {}
    head = (
        f'--b\r\ncontent-disposition: form-data; name="target"\r\n\r\n{TARGET}\r\n--b\r\ncontent-disposition: form-data; '
        f'name="file"; filename="{attack.name}"\r\n\r\n'
    )
    body = head.encode() + data + b"\r\n--b--\r\n"
    return _pieces(body), {"content-type": "multipart/form-data; boundary=b"}


async def _translated(session: aiohttp.ClientSession, url: str, attack: Attack, data: bytes, job_s: float) -> Outcome:
    """Send a file, and wait until its job ends, or `job_s` after it was read."""
    body, headers = _form(attack, data)
    outcome = Outcome(attack.group, attack.what, attack.name[-40:], len(data), "", "", 0.0)
    began = perf_counter()
    async with session.post(f"{url}/v1/documents", data=body, headers=headers) as response:
        answer = await response.json(content_type=None)
        if response.status >= 400:
            error = answer.get("error", answer)
            outcome.ended, outcome.message = (
                f"{response.status} {error.get('code', '')}",
                str(error.get("message", answer)),
            )
            outcome.took_s = perf_counter() - began
            return outcome
    path, read_at = f"{url}/v1/documents/{answer['id']}", 0.0
    while True:
        async with session.get(path) as response:
            state = await response.json()
        now = perf_counter()
        read_at = read_at or (now if state["segments"] else 0.0)
        outcome.segments, outcome.ended, outcome.took_s = state["segments"], state["state"], now - began
        if state["state"] == "error":
            outcome.ended, outcome.message = f"error {state['error']['code']}", state["error"]["message"]
        elif state["state"] == "done":
            outcome.message = "; ".join(one["message"] for one in state["warnings"])
            async with session.get(f"{path}/result") as response:
                await response.read()
                if response.status != 200:
                    outcome.faults.append(f"its result has the status {response.status}")
        elif read_at and now - read_at > job_s:
            outcome.ended, outcome.took_s = "read", read_at - began
        else:
            await asyncio.sleep(0.05)
            continue
        async with session.delete(path):
            return outcome


async def attack_server(options: argparse.Namespace, interrupted: asyncio.Event) -> list[Outcome]:
    flags = {
        "pipeline": "fake",
        "fake-step-ms": 0,
        "profile-file": str((Path(__file__).parent.parent / "src/dragoman_bench/eval/any_language.toml").resolve()),
        "storage-url": f"sqlite:///{options.logs}/dragoman.db",
        "documents-folder": str(options.logs / "documents"),
    }
    outcomes: list[Outcome] = []
    async with Listener() as listener:
        found = [one for one in attacks(listener.address) if options.only in f"{one.group} {one.what}"]
        command = dragoman_serve("attacked", flags, options.logs / "engine.log")
        async with serving(command, options.logs / "server.log", interrupted) as server:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=600)) as session:
                with progress() as bar:
                    shown = bar.add_task("attacks", total=len(found))
                    for attack in found:
                        if interrupted.is_set():
                            break
                        bar.update(shown, description=shortened(attack.what)[:40].ljust(40))
                        outcomes.append(await _attack(session, server, listener, attack, options.job_s))
                        bar.advance(shown)
    return outcomes


async def _attack(
    session: aiohttp.ClientSession, server: RunningServer, listener: Listener, attack: Attack, job_s: float
) -> Outcome:
    data = await asyncio.to_thread(attack.data)
    before, resident = listener.connections, psutil.Process(server.process.pid).memory_info().rss
    async with watching(session, server) as watch:
        try:
            outcome = await _translated(session, server.url, attack, data, job_s)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            outcome = Outcome(
                attack.group, attack.what, attack.name[-40:], len(data), type(error).__name__, str(error), 0.0
            )
            outcome.faults.append("no answer")
        with suppress(aiohttp.ClientError):
            await asyncio.sleep(0.2)  # so that short attacks have samples too
    measured = watch.found()
    outcome.server_mib = max(measured["server_mib"] - (resident >> 20), 0)
    outcome.worker_mib = measured["worker_mib"]
    outcome.healthz_ms, outcome.connections = measured["healthz_longest_ms"], listener.connections - before
    if outcome.ended.startswith("5"):
        outcome.faults.append("a server error")
    if _UNSAFE.search(outcome.message):
        outcome.faults.append("the message tells of the server")
    if "its reader failed" in outcome.message:
        outcome.faults.append("the reader failed")
    if outcome.connections:
        outcome.faults.append("it was connected to")
    if server.process.returncode is not None:
        outcome.faults.append("the server exited")
    return outcome


# ---- mutants


@dataclass
class Reading:
    """What became of a mutant. `code`: of an error of files; `fault`: what must not happen. Times are of the CPU."""

    number: int
    extension: str
    kind: str
    what: str
    size: int
    units: int = 0
    read_s: float = 0.0
    write_s: float = 0.0
    code: str = ""
    message: str = ""
    fault: str = ""
    frames: str = ""


_LOSSES = ("none", "changed", "all marks", "some marks", "twice", "empty")


def _translation(random: Random, source: str, loss: str) -> str:
    """A translation, with its marks or with what a model does to them."""
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


def _do(task: WorkerTask, reading: Reading, stage: str) -> bool:
    """Do a task as the worker's process does; whether it ended without an error."""
    answer: dict[str, Any] = worker.answer(json.dumps(asdict(task)).encode())
    if not answer:
        return True
    reading.code, reading.message = str(answer["code"]), f"{stage}: {answer['message']}"
    if "frames" in answer:
        reading.fault, reading.frames = f"{stage}: {answer['frames'].splitlines()[-1].strip()}", answer["frames"]
    return False


def _read_and_write(file: Mutant, folder: Path) -> Reading:
    reading = Reading(file.number, file.extension, file.kind, file.what, len(file.data))
    random = Random(file.number)
    extension = formats.format_of(file.extension).name
    read_options = ReadOptions(extension, random.choice((TARGET, "de", "ar")), "en", "docx" if extension == "pdf" else extension,
                               comments=random.random() < 0.5)  # fmt: skip
    (folder / SOURCE).write_bytes(file.data)
    tasks = [WorkerTask("read", str(folder), read_options), WorkerTask("write", str(folder), read_options)]
    try:
        began = process_time()
        was_read = _do(tasks[0], reading, "read")
        reading.read_s = process_time() - began
        if not was_read:
            return reading
        rows = [json.loads(line) for line in tasks[0].file("units").read_text("utf-8").split("\n") if line]
        reading.units = len(rows)
        loss = random.choice(_LOSSES)
        translations = [_translation(random, row["source"], loss) for row in rows]
        tasks[1].file("translations").write_text("".join(json.dumps(one) + "\n" for one in translations), "utf-8")
        began = process_time()
        was_written = _do(tasks[1], reading, "write")
        reading.write_s = process_time() - began
        if was_written and loss != "empty":  # which may leave nothing but white space
            sources = [row["source"] for row in rows] if loss == "none" else None
            _read_again(tasks[1], reading, read_options, loss, sources)
        elif not was_written and not reading.fault:
            reading.fault = f"write: {reading.message}"  # what was read can be written
    finally:
        for task in tasks:
            task.delete_files()
    return reading


def _plain(text: str) -> str:
    """A text without its marks, which may be others where text was written in CDATA, and without what XML cannot have."""
    return NOT_XML.sub("", MARK.sub("", text))


_FILLED = frozenset({"po", "xliff", "pdf"})
"""Formats whose result has other texts to translate: what was empty is filled, or it is of another format."""


def _read_again(task: WorkerTask, reading: Reading, options: ReadOptions, loss: str, sources: list[str] | None) -> None:
    """Read the result, in which only texts have changed; with `sources` as translations none."""
    data = task.file().read_bytes()
    extension = "docx" if options.extension == "pdf" else options.extension
    try:
        again = formats.read(data, replace(options, extension=extension))
        texts = [_plain(unit.block.text) for unit in again.units]
        if sources is not None and options.extension not in _FILLED and texts != [*map(_plain, sources)]:
            reading.fault = f"result ({loss}): other texts"
    except WholetextError as error:
        reading.fault = f"result ({loss}): {error.message}"
    except Exception as error:  # noqa: BLE001 - any is a finding
        reading.fault = f"result ({loss}): {type(error).__name__}"


def _serve(connection: Connection, memory_bytes: int) -> None:
    """A process that reads and writes the mutants whose numbers it is given."""
    worker.limit_process(memory_bytes)
    gc.freeze()  # of the seeds; unlike the server's process, this one has many tasks
    gc.enable()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # as the server's worker has it
    with tempfile.TemporaryDirectory() as folder:
        while (number := connection.recv()) is not None:
            file = mutant(number)
            if file.kind == "part" and not has_right_sums(file.data):
                raise ValueError(f"mutant {number} has wrong sums")
            connection.send(_read_and_write(file, Path(folder)))


class Pool:
    """Processes that read mutants; one that dies or takes too long is replaced."""

    def __init__(self, settings: DocumentSettings) -> None:
        self._settings = settings
        self._context = multiprocessing.get_context("spawn")
        self._idle: list[tuple[Any, Connection]] = []

    def read(self, number: int) -> Reading:
        process, connection = self._idle.pop() if self._idle else self._start()
        connection.send(number)
        if connection.poll(2 * self._settings.worker_timeout_s):
            with suppress(EOFError):
                reading: Reading = connection.recv()
                self._idle.append((process, connection))
                return reading
            process.join()
            fault = f"the process ended with {process.exitcode}"
        else:
            fault = "beyond the worker's limit"
        process.kill()
        file = mutant(number)
        return Reading(number, file.extension, file.kind, file.what, len(file.data), fault=fault)

    def _start(self) -> tuple[Any, Connection]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, self._settings.worker_memory_bytes), daemon=True)
        process.start()
        theirs.close()
        return process, ours

    def close(self) -> None:
        for process, connection in self._idle:
            with suppress(OSError):
                connection.send(None)
            process.join()


async def read_mutants(options: argparse.Namespace, interrupted: asyncio.Event) -> list[Reading]:
    pool = Pool(DocumentSettings())
    numbers = iter(range(options.first, options.first + options.mutants))
    readings: list[Reading] = []
    failed = [0]
    with progress() as bar, ThreadPoolExecutor(options.processes) as threads:
        shown = bar.add_task("mutants", total=options.mutants)

        async def work() -> None:
            for number in numbers:
                if interrupted.is_set():
                    return
                reading = await asyncio.get_running_loop().run_in_executor(threads, pool.read, number)
                readings.append(reading)
                failed[0] += bool(fault_of(reading))
                bar.update(shown, advance=1, description=f"mutants, {failed[0]} failed")

        await asyncio.gather(*(work() for _ in range(options.processes)))
        await asyncio.to_thread(pool.close)
    return sorted(readings, key=lambda one: one.number)


def fault_of(reading: Reading) -> str:
    """Why a mutant failed; empty if it did not."""
    took_s = max(reading.read_s, reading.write_s)
    slow = f"{took_s:.1f} s for {reading.size:,} bytes" if reading.size < SMALL_BYTES and took_s > SMALL_S else ""
    return reading.fault or slow


async def own_process_s(count: int) -> list[float]:
    """How long the server's workers take for a read of such files, each in a process of its own."""
    workers = Workers(DocumentSettings().worker_memory_bytes, DocumentSettings().worker_timeout_s, 1)
    took: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            file = mutant(number)
            (Path(folder) / SOURCE).write_bytes(file.data)
            extension = formats.format_of(file.extension).name
            task = WorkerTask(
                "read", folder, ReadOptions(extension, TARGET, "en", "docx" if extension == "pdf" else extension)
            )
            began = perf_counter()
            with suppress(WholetextError):
                await workers.run(task)
            took.append(perf_counter() - began)
            task.delete_files()
    workers.close()
    return took


# ---- results


def mutants_summary(readings: Sequence[Reading], processes_s: Sequence[float]) -> dict[str, Any]:
    times = [one.read_s for one in readings]
    slowest = sorted(readings, key=lambda one: -max(one.read_s, one.write_s))[:10]
    failed = [one for one in readings if fault_of(one)]
    return {
        "files": len(readings),
        "by_kind": dict(Counter(one.kind for one in readings)),
        "by_extension": dict(Counter(one.extension for one in readings)),
        "ended": dict(Counter("fault" if one.fault else one.code or "written" for one in readings)),
        "failed": dict(Counter(re.sub(r"\d+", "0", fault_of(one)) for one in failed)),
        "read_s": {
            "median": round(median(times), 4),
            "p99": round(quantiles(times, n=100)[98], 3),
            "most": round(max(times), 2),
        },
        "slowest": [asdict(one) for one in slowest],
        "failures": [asdict(one) for one in failed[:200]],
        "own_process_median_s": round(median(processes_s), 3) if processes_s else None,
    }


PAGE = """# Hostile documents

<!-- Generated by benchmarks/hostile_documents.py. -->

What becomes of files that attack a server. [documents.md](documents.md#limits) has the limits.

    python benchmarks/hostile_documents.py --out results/hostile-documents.json --page docs/hostile-documents.md

"""


def page_of(found: dict[str, Any]) -> str:
    conditions = found["conditions"]
    machine = conditions["machine"]
    lines = [f"{conditions['started_at'][:10]}, on {machine['cpu']}, {machine['cores']} cores."]
    if outcomes := [Outcome(**one) for one in found["attacks"]]:
        lines += ["", *_attack_lines(outcomes)]
    if found["mutants"]:
        lines += ["", *_mutant_lines(found["mutants"])]
    return PAGE + "\n".join(lines) + "\n"


def _attack_lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    failed = [f"{escaped(one.what)} ({', '.join(one.faults)})" for one in outcomes if one.faults]
    yield "## Attacks\n"
    yield (
        f"{len(outcomes)} files, one after the other, to one server over the fake pipeline; "
        f"{'none' if not failed else len(failed)} did harm{': ' * bool(failed)}{'; '.join(failed)}. Connections to addresses that are in files: "
        f"{sum(one.connections for one in outcomes)}. Seconds are those from the beginning of the upload to the error or the result; where the "
        "state is `read`, to the end of reading: then the job was deleted. Memory is resident: of the server what it had more than before, of the worker the "
        "most (both sampled). `/healthz` is the longest time that it took meanwhile, asked again and again on one connection."
    )
    for group in dict.fromkeys(one.group for one in outcomes):
        rows = [
            [
                one.what,
                one.file.rpartition(".")[2],
                f"{one.size / 1e6:.2f}",
                one.ended,
                shortened(one.message),
                f"{one.took_s:.2f}",
                str(one.server_mib),
                str(one.worker_mib or "–"),
                f"{one.healthz_ms:.0f}",
            ]
            for one in outcomes
            if one.group == group
        ]
        head = ("attack", "file", "MB", "ended", "message", "s", "server MiB", "worker MiB", "healthz ms")
        yield f"\n### {group[0].upper()}{group[1:]}\n"
        yield markdown(table("", head, rows))


def _mutant_lines(found: dict[str, Any]) -> Iterator[str]:
    kinds, ended = found["by_kind"], found["ended"]
    yield "## Changed files\n"
    yield (
        f"{found['files']:,} files of {len(found['by_extension'])} formats, changed at random: {kinds.get('part', 0):,} inside "
        "a part of a package and zipped again with right sizes and checksums (elements, attributes, ids, nesting, texts, encodings), "
        f"{kinds.get('package', 0):,} in the package itself, {kinds.get('text', 0):,} texts and PDFs. Each is read and, if it can be, "
        "written with translations that keep, lose or repeat its text and marks, and the result is read again.\n"
    )
    rows = [["written", f"{ended.get('written', 0):,}"]]
    rows += [[f"refused: {code}", f"{count:,}"] for code, count in ended.items() if code not in ("written", "fault")]
    rows += [[f"failed: {what}", f"{count:,}"] for what, count in found["failed"].items()] or [["failed", "0"]]
    yield markdown(table("", ("ended", "files"), rows))
    times = found["read_s"]
    own = f"; in a process of its own, as the server does it, {found['own_process_median_s']} s in all (median)"
    yield (
        f"\nA read takes {1000 * times['median']:.1f} ms of CPU time (median; 99 of 100: at most {1000 * times['p99']:.0f} ms; most: "
        f"{times['most']} s){own if found['own_process_median_s'] else ''}."
    )


def previous(path: Path | None) -> dict[str, Any]:
    """Earlier results, of which what is not measured now is kept."""
    if path is not None and path.is_file():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    return {"attacks": [], "mutants": {}}


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    before = previous(options.out)
    outcomes: list[Outcome] = []
    mutants: dict[str, Any] = before["mutants"]
    with interrupts() as interrupted:
        if not options.no_attacks:
            outcomes = await attack_server(options, interrupted)
        if options.mutants and not interrupted.is_set():
            readings = await read_mutants(options, interrupted)
            processes_s = [] if interrupted.is_set() else await own_process_s(100)
            mutants = mutants_summary(readings, processes_s) if len(readings) > 1 else mutants
    known = {one["what"]: one for one in before["attacks"]} | {one.what: asdict(one) for one in outcomes}
    return {
        "benchmark": "hostile_documents",
        "conditions": {
            "started_at": started_at,
            "git_commit": git_commit(),
            "machine": asdict(describe_machine()),
            "interrupted": interrupted.is_set(),
        },
        "attacks": [known[one.what] for one in attacks("") if one.what in known],
        "mutants": mutants,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=10_000, help="how many changed files; 0: none")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--no-attacks", action="store_true")
    parser.add_argument("--only", default="", help="attacks whose group and name have this text")
    parser.add_argument("--job-s", type=float, default=10.0, help="seconds after reading, before a job is deleted")
    parser.add_argument("--logs", type=lambda given: Path(given).resolve(), default=Path(".dragoman/hostile").resolve())
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    found = run_async(measure(options))
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.page:
        options.page.write_text(page_of(found), encoding="utf-8")
    failed = [f"{one['what']}: {', '.join(one['faults'])}" for one in found["attacks"] if one["faults"]]
    failed += [f"{what}: {count}" for what, count in found["mutants"].get("failed", {}).items()]
    print(json.dumps({"attacks": len(found["attacks"]), "mutants": found["mutants"].get("files", 0), "failed": failed}))
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
