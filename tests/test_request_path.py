"""How many of our functions one plain sentence runs through, from the ASGI app to the fake engine and back.

A bound on how much a reader has to follow: a function more on this way is a cost to each of them. Counted under
`sys.setprofile` after three calls, when what is remembered is remembered: functions of `dragoman`, comprehensions and lambdas
aside, without those of `text/` and `prompts/`, and without the request's line in the log. docs/architecture.md describes the
way stop by stop, and is compared with it.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest

import dragoman
from dragoman.api.app import create_app
from dragoman.service.service import TranslationService
from dragoman.settings import Settings

ROOT = str(Path(dragoman.__file__).parent) + "/"
ARCHITECTURE = Path(__file__).parents[1] / "docs" / "architecture.md"

FUNCTIONS, FILES, RECORDING, DEPTH = 98, 18, 13, 12
MORE = 1.15  # for the ways of other formats and APIs

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
    """Functions in the order of their first calls, as (file, name), and our deepest stack, without `text/` and `prompts/`."""

    functions: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    depth: int = 0

    @property
    def files(self) -> set[str]:
        return {file for file, _ in self.functions}

    @property
    def recording(self) -> list[tuple[str, str]]:
        return [one for one in self.functions if one[0].startswith("telemetry/")]


def place(frame: FrameType) -> tuple[str, str] | None:
    """File and name of one of our functions."""
    file = frame.f_code.co_filename
    if not file.startswith(ROOT) or frame.f_code.co_name.startswith("<"):
        return None
    return file[len(ROOT) :], frame.f_code.co_qualname.replace(".<locals>", "")


def is_outside(found: tuple[str, str] | None) -> bool:
    return found is not None and not found[0].startswith(("text/", "prompts/"))


@contextmanager
def counted() -> Iterator[RequestPath]:
    path = RequestPath()
    known = set[tuple[str, str]]()

    def profile(frame: FrameType, event: str, _: object) -> None:
        found = place(frame) if event == "call" else None
        if found is None or not is_outside(found):
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


def numbered(value: Any, number: int) -> Any:
    if isinstance(value, list):
        return [numbered(item, number) for item in value]
    return value.replace("{}", str(number)) if isinstance(value, str) else value


@asynccontextmanager
async def client(cache_bytes: int) -> AsyncIterator[httpx.AsyncClient]:
    base = Settings()
    settings = replace(
        base,
        pipeline=replace(base.pipeline, name="fake"),
        storage=replace(base.storage, url=""),
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
    """What each of five calls runs through: other tests' tasks, such as the one engine's, may run between two steps."""
    route, body = BODIES[name]
    paths: list[RequestPath] = []
    async with client(cache_bytes) as connected:
        for number in range(8):
            given = {key: numbered(value, number) for key, value in body.items()}
            with counted() as path:
                response = await connected.post(route, json=given)
            response.raise_for_status()
            paths.append(path)
    common = set[tuple[str, str]].intersection(*(set(path.functions) for path in paths[3:]))
    functions = [one for one in paths[-1].functions if one in common]
    return RequestPath(functions, min(path.depth for path in paths[3:]))


@pytest.mark.parametrize("cache_bytes", [0, 64 << 20])
@pytest.mark.parametrize("name", BODIES)
async def test_a_sentence_runs_through_few_functions(
    name: str, cache_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "dragoman.request")  # whatever ran before
    monkeypatch.chdir(tmp_path)
    path = await path_of(name, cache_bytes)
    more = 1.0 if name == "native" else MORE
    measured = (len(path.functions), len(path.files), len(path.recording), path.depth)
    most = (FUNCTIONS * more, FILES * more, RECORDING * more, DEPTH * more)
    assert all(one <= bound for one, bound in zip(measured, most, strict=True)), (measured, *sorted(path.functions))


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
