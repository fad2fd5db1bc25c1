"""A whole document beside the same texts in one call: characters a second, slots, memory, the event loop, one at a time.

    python benchmarks/documents.py --out results/documents-cpu.json
    PYTHONPATH=src python benchmarks/documents.py --model DIR --profile NAME --load-format dummy --out …   (on a GPU)

For each file (a docx of `--pages` pages in which no two paragraphs are equal, a srt of `--hours` hours):

- **document**: a fresh server, with an empty cache, gets the file by `POST /v1/documents`; timed from the upload's last byte to
  the result's first;
- **call**: another fresh server gets the same texts, each with the same sources before it as context (`consecutive`), in one
  `POST /v1/translate`;
- **one at a time**: that server then gets a part of the texts again (`--one-at-a-time-share`), other numbers in them, one call
  after the other.

While the document is translated `/healthz` is asked 40 times a second on one connection (its longest answer is the longest time
that the event loop was held, to 25 ms, plus the request itself), and `/v1/stats` says how many sequences run. Memory is
the resident memory of the server's own process and of the document's worker. Both servers are started `--turns` times in turn.
The last line of stdout is the JSON document that `--out` writes.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import zipfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from statistics import median
from time import perf_counter
from typing import Any
from xml.sax.saxutils import escape

import aiohttp
import psutil

from dragoman_bench.bench.measurement import Measurement
from dragoman_bench.bench.progress import interrupts, run_async
from dragoman_bench.bench.servers import RunningServer, dragoman_serve, serving
from dragoman_bench.cli.subject import make_subject

SENTENCES = (
    "The train to the coast leaves at a quarter past nine from platform {n}.",
    "Please send the signed contract for order {n} before Friday.",
    "We have not decided yet whether the meeting in room {n} takes place in the morning.",
    "If the delivery does not arrive by day {n}, write to the support team.",
    "The museum on street {n} is closed on Mondays and on public holidays.",
    "A single ticket for {n} people costs less than two tickets.",
)
CUES = (
    "Where were you at {n}?",
    "I was in room {n}, waiting for the doctor.",
    "Nobody told me about it, number {n}.",
    "Please close the door, it is cold outside, {n}.",
    "We will meet at gate {n} in the evening.",
)
PARAGRAPHS_A_PAGE = 6  # of some 300 characters each
SECONDS_A_CUE = 4.5
HEALTH_INTERVAL_S = 0.025  # one after the other would take most of a core from a server on two
MODES = ("document", "call")
TARGET = "ja"


@dataclass(frozen=True)
class File:
    """A file, and its texts as one call gives them."""

    name: str
    data: bytes
    texts: tuple[str, ...]

    @property
    def characters(self) -> int:
        return sum(map(len, self.texts))


def paragraphs(number: int, first: int) -> Iterator[str]:
    """Paragraphs of four sentences, no two of which are equal: each has its own number."""
    for index in range(first, first + number):
        yield " ".join(SENTENCES[(index + k) % len(SENTENCES)].format(n=1000 + 4 * index + k) for k in range(4))


def cues(number: int, first: int) -> Iterator[str]:
    for index in range(first, first + number):
        yield CUES[index % len(CUES)].format(n=1000 + index)


def docx(texts: tuple[str, ...]) -> bytes:
    """A docx as small as one can be, with one paragraph for each text."""
    kind = "http://schemas.openxmlformats.org"
    body = "".join(f'<w:p><w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>' for text in texts)
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{kind}/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{main}"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{kind}/package/2006/relationships"><Relationship Id="rId1" '
        f'Type="{kind}/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{kind}/wordprocessingml/2006/main"><w:body>{body}</w:body></w:document>',
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        for name, text in parts.items():
            package.writestr(name, f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n{text}')
    return out.getvalue()


def srt(texts: tuple[str, ...]) -> bytes:
    def time(seconds: float) -> str:
        whole = int(seconds)
        return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02},{round(seconds % 1 * 1000):03}"

    lines: list[str] = []
    for number, text in enumerate(texts):
        start = number * SECONDS_A_CUE
        lines.append(f"{number + 1}\n{time(start)} --> {time(start + SECONDS_A_CUE - 0.5)}\n{text}\n")
    return "\n".join(lines).encode()


def files(options: argparse.Namespace) -> list[File]:
    found: list[File] = []
    if options.pages:
        texts = tuple(paragraphs(options.pages * PARAGRAPHS_A_PAGE, 0))
        found.append(File("docx", docx(texts), texts))
    if options.hours:
        texts = tuple(cues(int(options.hours * 3600 / SECONDS_A_CUE), 0))
        found.append(File("srt", srt(texts), texts))
    return found


# ---- what is measured while a document is translated


class Watch:
    """Asks `/healthz` and `/v1/stats`, and reads memory."""

    def __init__(self, session: aiohttp.ClientSession, server: RunningServer) -> None:
        self._session, self._server = session, server
        self.gaps_s: list[float] = []
        self.running: list[int] = []
        self.server_bytes = self.worker_bytes = 0

    async def health(self) -> None:
        while True:
            began = perf_counter()
            async with self._session.get(f"{self._server.url}/healthz") as response:
                await response.read()
            self.gaps_s.append(perf_counter() - began)
            await asyncio.sleep(HEALTH_INTERVAL_S)

    async def sample(self) -> None:
        while True:
            async with self._session.get(f"{self._server.url}/v1/stats") as response:
                stats = await response.json()
            self.running.append(int(stats["engine"].get("running") or 0))
            self._memory()
            await asyncio.sleep(0.5)

    def _memory(self) -> None:
        for process in self._server.tree():
            with suppress(psutil.Error):
                resident = process.memory_info().rss
                if "wholetext.files.worker" in process.cmdline():
                    self.worker_bytes = max(self.worker_bytes, resident)
                elif process.pid == self._server.process.pid:
                    self.server_bytes = max(self.server_bytes, resident)

    def found(self) -> dict[str, Any]:
        busy = self.running[: max(len(self.running) * 9 // 10, 1)]  # the last segments cannot fill all slots
        return {
            "healthz_longest_ms": round(1000 * max(self.gaps_s, default=0.0), 1),
            "healthz_median_ms": round(1000 * median(self.gaps_s), 2) if self.gaps_s else None,
            "running_median": median(busy) if busy else None,
            "server_mib": round(self.server_bytes / 2**20),
            "worker_mib": round(self.worker_bytes / 2**20),
        }


@asynccontextmanager
async def watching(session: aiohttp.ClientSession, server: RunningServer) -> AsyncGenerator[Watch]:
    watch = Watch(session, server)
    tasks = [asyncio.create_task(watch.health()), asyncio.create_task(watch.sample())]
    try:
        yield watch
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def as_document(session: aiohttp.ClientSession, server: RunningServer, file: File) -> dict[str, Any]:
    """Upload, wait and download; the time from the upload's last byte to the result's first."""
    form = aiohttp.FormData({"source": "en", "target": TARGET})
    form.add_field("file", file.data, filename=f"file.{file.name}")
    async with watching(session, server) as watch:
        began = perf_counter()
        async with session.post(f"{server.url}/v1/documents", data=form) as response:
            state = await response.json()
            if response.status >= 400:
                raise SystemExit(f"documents: {response.status} {state}")
        while state["state"] not in ("done", "error"):
            await asyncio.sleep(0.1)
            async with session.get(f"{server.url}/v1/documents/{state['id']}") as response:
                state = await response.json()
        if state["state"] == "error":
            raise SystemExit(f"documents: {state['error']}")
        async with session.get(f"{server.url}/v1/documents/{state['id']}/result") as response:
            await response.content.readany()
            took_s = perf_counter() - began
    return {"took_s": took_s, "segments": state["segments"], "characters": state["characters"], **watch.found()}


async def as_call(session: aiohttp.ClientSession, server: RunningServer, file: File) -> dict[str, Any]:
    body = {"text": file.texts, "source": "en", "target": TARGET, "consecutive": True, "priority": "bulk"}
    began = perf_counter()
    async with session.post(f"{server.url}/v1/translate", json=body) as response:
        await response.read()
        if response.status != 200:
            raise SystemExit(f"translate: {response.status} {await response.text()}")
    return {"took_s": perf_counter() - began}


async def one_at_a_time(
    session: aiohttp.ClientSession, server: RunningServer, file: File, share: float
) -> dict[str, Any]:
    number = max(int(len(file.texts) * share), 1)
    texts = tuple((paragraphs if file.name == "docx" else cues)(number, 2_000_000))
    began = perf_counter()
    for text in texts:
        async with session.post(
            f"{server.url}/v1/translate", json={"text": text, "source": "en", "target": TARGET}
        ) as response:
            await response.read()
    took_s = perf_counter() - began
    return {"took_s": took_s, "texts": number, "characters_per_s": sum(map(len, texts)) / took_s}


# ---- turns


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    subject = make_subject(options.model, options.profile, options.load_format, None)
    rows: list[dict[str, Any]] = []
    given = files(options)
    with interrupts() as interrupted:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
            for turn in range(options.turns):
                for file in given:
                    for mode in MODES if turn % 2 == 0 else reversed(MODES):
                        folder = options.logs / f"{file.name}-{mode}-{turn}"
                        rmtree(folder, ignore_errors=True)  # a run that was stopped has left jobs there
                        flags = {
                            **subject.dragoman,
                            "cache-max-bytes": 64 * 2**20,
                            "storage-url": f"sqlite:///{folder}/dragoman.db",
                            "documents-folder": folder / "documents",
                        }
                        command = dragoman_serve(mode, flags, folder / "engine.log")
                        async with serving(command, folder / "server.log", interrupted) as server:
                            row = await (as_document if mode == "document" else as_call)(session, server, file)
                            row = {"file": file.name, "mode": mode, "turn": turn, **row}
                            row["characters_per_s"] = file.characters / row["took_s"]
                            rows.append(row)
                            print(row, flush=True)
                            if mode == "call" and turn == 0:
                                found = await one_at_a_time(session, server, file, options.one_at_a_time_share)
                                rows.append({"file": file.name, "mode": "one at a time", "turn": turn, **found})
                                print(rows[-1], flush=True)
                        if interrupted.is_set():
                            return result(options, given, rows)
    return result(options, given, rows)


def result(options: argparse.Namespace, given: list[File], rows: list[dict[str, Any]]) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    for file in given:
        rates = {
            mode: [row["characters_per_s"] for row in rows if (row["file"], row["mode"]) == (file.name, mode)]
            for mode in (*MODES, "one at a time")
        }
        medians = {mode: median(found) for mode, found in rates.items() if found}
        ratios: dict[str, float] = {}
        if "document" in medians:
            ratios = {
                f"document / {mode}": round(medians["document"] / medians[mode], 3)
                for mode in medians
                if mode != "document"
            }
        summary[file.name] = {
            "characters": file.characters,
            "texts": len(file.texts),
            "characters_per_s": medians,
            **ratios,
        }
    return {"summary": summary, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=300)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--one-at-a-time-share", type=float, default=0.1, help="of each file's texts")
    parser.add_argument("--model", default="")
    parser.add_argument("--profile", default="")
    parser.add_argument("--load-format", default="auto")
    parser.add_argument(
        "--logs", type=lambda given: Path(given).resolve(), default=Path(".dragoman/documents").resolve()
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    model, load_format = options.model or "phrasebook", options.load_format
    found = Measurement.begin("documents-speed", model=model, load_format=load_format)
    found.data = run_async(measure(options))
    found.write(options.out)
    print(json.dumps(found.data["summary"]))


if __name__ == "__main__":
    main()
