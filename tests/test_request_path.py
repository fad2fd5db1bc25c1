"""How many of our functions one plain sentence runs through, from the ASGI app to the fake engine and back, and a docx.

A bound on how much a reader has to follow: a function more on this way is a cost to each of them. Counted under
`sys.setprofile` after three calls, when what is remembered is remembered: functions of `dragoman` and `wholetext`,
comprehensions aside, without the request's line in the log; those outside of `text/`, `prompts/` and `wholetext` once more by
themselves. docs/architecture.md describes the way stop by stop, and is compared with it. Of a docx it is what the event loop's
thread runs from the begin of its translation to the end: files are read in processes, and stored in threads.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest

import dragoman
from dragoman.api.app import create_app
from dragoman.service.document_runs import DocumentRuns
from dragoman.service.service import TranslationService
from dragoman.settings import Settings
from dragoman.storage.documents import StoredDocument
from tests.waiting import HANG_S
from tests.wholetext.office import docx

ROOT = str(Path(dragoman.__file__).parents[1]) + "/"
OURS = (f"{ROOT}dragoman/", f"{ROOT}wholetext/")
APART = ("wholetext/", "text/", "prompts/")
ARCHITECTURE = Path(__file__).parents[1] / "docs" / "architecture.md"

ALL, FUNCTIONS, FILES, RECORDING, DEPTH = {0: 195, 64 << 20: 199}, {0: 88, 64 << 20: 95}, 18, 13, 13
"""The most of a sentence; the first two by the bytes of the cache, which has functions of its own."""
MORE, MORE_IN_ALL = 1.17, 1.27  # for the ways of other formats and APIs, and in all for html
ALL_OF_DOCX, OUTSIDE_OF_DOCX = 210, 104

TEXT = "Where is the train station {}?"
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "native": ("/v1/translate", {"text": TEXT, "source": "en", "target": "ja"}),
    "stream": ("/v1/translate", {"text": TEXT, "source": "en", "target": "ja", "stream": True}),
    "deepl": ("/v2/translate", {"text": [TEXT], "source_lang": "EN", "target_lang": "JA"}),
    "html": (
        "/v1/translate",
        {"text": "<p>Where is the <b>train</b> station {}?</p>", "source": "en", "target": "ja", "format": "html"},
    ),
}


@dataclass
class RequestPath:
    """Functions in the order of their first calls, as (file, name), and our deepest stack without those `APART`."""

    functions: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    depth: int = 0

    @property
    def outside(self) -> list[tuple[str, str]]:
        return [one for one in self.functions if is_outside(one)]

    @property
    def files(self) -> set[str]:
        return {file for file, _ in self.outside}

    @property
    def recording(self) -> list[tuple[str, str]]:
        return [one for one in self.functions if one[0].startswith("telemetry/")]


def place(frame: FrameType) -> tuple[str, str] | None:
    """File, below `dragoman` or beginning with `wholetext`, and name of one of our functions."""
    file, name = frame.f_code.co_filename, frame.f_code.co_name
    if not file.startswith(OURS) or (name.startswith("<") and name != "<lambda>"):
        return None
    return file[len(ROOT) :].removeprefix("dragoman/"), frame.f_code.co_qualname.replace(".<locals>", "")


def is_outside(found: tuple[str, str] | None) -> bool:
    return found is not None and not found[0].startswith(APART)


@contextmanager
def counted() -> Iterator[RequestPath]:
    path = RequestPath()
    known = set[tuple[str, str]]()

    def profile(frame: FrameType, event: str, _: object) -> None:
        found = place(frame) if event == "call" else None
        if found is None:
            return
        if found not in known:
            known.add(found)
            path.functions.append(found)
        depth = 0
        above: FrameType | None = frame
        while above is not None:
            depth += is_outside(place(above))
            above = above.f_back
        path.depth = max(path.depth, depth)

    sys.setprofile(profile)
    try:
        yield path
    finally:
        sys.setprofile(None)


def common(paths: Sequence[RequestPath]) -> RequestPath:
    """What all of them have: other tests' tasks, such as the one engine's, may run between two steps."""
    of_all = set[tuple[str, str]].intersection(*(set(path.functions) for path in paths))
    functions = [one for one in paths[-1].functions if one in of_all]
    return RequestPath(functions, min(path.depth for path in paths))


def numbered(value: Any, number: int) -> Any:
    if isinstance(value, list):
        return [numbered(item, number) for item in value]
    return value.replace("{}", str(number)) if isinstance(value, str) else value


@asynccontextmanager
async def client(cache_bytes: int, storage: str = "") -> AsyncIterator[httpx.AsyncClient]:
    base = Settings()
    settings = replace(
        base,
        pipeline=replace(base.pipeline, name="fake"),
        storage=replace(base.storage, url=storage),
        cache=replace(base.cache, max_bytes=cache_bytes),
    )
    service = TranslationService.from_settings(settings)
    await service.start()
    try:
        transport = httpx.ASGITransport(app=create_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as connected:
            yield connected
    finally:
        await service.stop()


async def path_of(name: str, cache_bytes: int) -> RequestPath:
    """What each of five calls runs through."""
    route, body = BODIES[name]
    paths: list[RequestPath] = []
    async with client(cache_bytes) as connected:
        for number in range(8):
            given = {key: numbered(value, number) for key, value in body.items()}
            with counted() as path:
                response = await connected.post(route, json=given)
            response.raise_for_status()
            paths.append(path)
    return common(paths[3:])


async def path_of_docx(monkeypatch: pytest.MonkeyPatch) -> RequestPath:
    """What each of some documents of two paragraphs runs through, once the first ones have."""
    run, ended = DocumentRuns.run, asyncio.Queue[RequestPath]()

    async def counted_run(runs: DocumentRuns, document: StoredDocument) -> None:
        with counted() as path:
            await run(runs, document)
        ended.put_nowait(path)

    monkeypatch.setattr(DocumentRuns, "run", counted_run)
    texts = ("Where is the train station {}?", "The old map of number {} is here.")
    paths: list[RequestPath] = []
    async with client(0, "sqlite:///dragoman.db") as connected:
        for number in range(6):
            body = "".join(f"<w:p><w:r><w:t>{text.format(number)}</w:t></w:r></w:p>" for text in texts)
            fields = {"target": "ja", "source": "en"}
            sent = await connected.post("/v1/documents", data=fields, files={"file": ("a.docx", docx(body))})
            sent.raise_for_status()
            async with asyncio.timeout(HANG_S):
                paths.append(await ended.get())
            document = (await connected.get(f"/v1/documents/{sent.json()['id']}")).json()
            assert (document["state"], document["segments_done"]) == ("done", 2)
    return common(paths[3:])


@pytest.mark.parametrize("cache_bytes", [0, 64 << 20])
@pytest.mark.parametrize("name", BODIES)
async def test_a_sentence_runs_through_few_functions(
    name: str, cache_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "dragoman.request")  # whatever ran before
    monkeypatch.chdir(tmp_path)
    path = await path_of(name, cache_bytes)
    more, more_in_all = (1.0, 1.0) if name == "native" else (MORE, MORE_IN_ALL)
    measured = (len(path.functions), len(path.outside), len(path.files), len(path.recording), path.depth)
    bounds = (FUNCTIONS[cache_bytes], FILES, RECORDING, DEPTH)
    most = (ALL[cache_bytes] * more_in_all, *(bound * more for bound in bounds))
    assert all(one <= bound for one, bound in zip(measured, most, strict=True)), (measured, *sorted(path.functions))


async def test_a_docx_runs_through_few_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = await path_of_docx(monkeypatch)
    measured = len(path.functions), len(path.outside)
    assert measured[0] <= ALL_OF_DOCX and measured[1] <= OUTSIDE_OF_DOCX, (measured, *sorted(path.functions))


async def test_the_architecture_page_tells_the_way_of_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its table of stops: each function is called, and for the first time in this order."""
    stops = re.findall(r"^\| \d+ \| `([^`]+)` \| `([^`]+)` \|", ARCHITECTURE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(stops) > 7
    monkeypatch.chdir(tmp_path)
    called = (await path_of("native", 64 << 20)).functions
    assert [stop for stop in stops if stop not in called] == []
    places = [called.index(stop) for stop in stops]
    assert places == sorted(places), [called[at] for at in sorted(places)]
