"""Malformed and oversized bodies for every route that takes one, and a server process to send them to."""

from __future__ import annotations

import http.client
import json
import multiprocessing
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

from tests.processes import ServerProcess, create_key, serving

JSON, FORM, MULTIPART = "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
TIMEOUT_S = 500.0


@dataclass(frozen=True)
class Route:
    """A route that takes a body: the field with most of it, a short field, and what else it needs."""

    method: str
    path: str
    text: str = "text"
    short: str = "target"
    rest: dict[str, object] = field(default_factory=dict[str, object])
    forms: bool = True


_DEEPL_GLOSSARY = "/v3/glossaries/11111111-1111-1111-1111-111111111111"
_SEGMENTS = "/v1/documents/0123456789ABCDEF0123456789ABCDEF/segments"
_SEGMENT = f"{_SEGMENTS}/0"
_PAIR = "source=en&target=ja"
_VERSION, _BY_DATE = "api-version=3.0", "api-version=2026-06-06"
ROUTES = (
    Route("POST", "/v1/translate", rest={"target": "ja"}, forms=False),
    Route("POST", "/v1/chat/completions", "messages", "model", {"model": "dragoman/ja"}, forms=False),
    Route("POST", "/chat/completions", "messages", "model", {"model": "dragoman/ja"}, forms=False),
    Route("POST", "/v1/completions", "prompt", "model", {"model": "dragoman/ja"}, forms=False),
    Route("POST", "/v1/responses", "input", "model", {"model": "dragoman/ja"}, forms=False),
    Route("POST", "/v1/glossaries", "dictionaries", "name", {"name": "x"}, forms=False),
    Route("PATCH", "/v1/glossaries/x", "name", "name", forms=False),
    Route("PUT", f"/v1/glossaries/x/entries?{_PAIR}", "entries", "name", forms=False),
    Route("PATCH", f"/v1/glossaries/x/entries?{_PAIR}", "entries", "name", forms=False),
    Route("POST", "/v1/memories", "name", "name", forms=False),
    Route("PATCH", "/v1/memories/m", "name", "name", forms=False),
    Route("POST", "/v1/memories/m/entries", "entries", "source", {"source": "en", "target": "ja"}, forms=False),
    Route("POST", "/v1/documents", "target", "source"),
    Route("PATCH", _SEGMENTS, "edits", "edits", forms=False),
    Route("POST", f"{_SEGMENTS}/replacements", "find", "replacement", {"find": "a", "replacement": "b"}, forms=False),
    Route("PATCH", _SEGMENT, "translation", "translation", forms=False),
    Route("POST", f"{_SEGMENT}/alternatives", "n", "n", forms=False),
    Route("POST", f"{_SEGMENT}/similar", "n", "n", forms=False),
    Route("POST", "/v2/translate", "text", "target_lang", {"target_lang": "JA"}),
    Route("POST", "/v2/glossaries", "entries", "name", {"name": "x", "source_lang": "EN", "target_lang": "JA"}),
    Route("POST", "/v3/glossaries", "dictionaries", "name", {"name": "x"}),
    Route("PATCH", _DEEPL_GLOSSARY, "dictionaries", "name"),
    Route(
        "PUT", f"{_DEEPL_GLOSSARY}/dictionaries", "entries", "source_lang", {"source_lang": "EN", "target_lang": "JA"}
    ),
    Route("POST", "/v3/translation_memories/import", "source_file", "source_file"),
    Route("POST", "/translate", "q", "target", {"source": "en", "target": "ja"}),
    Route("POST", "/suggest", "q", "target", {"s": "a", "source": "en", "target": "ja"}),
    Route("POST", "/translate_file", "source", "target"),
    Route("POST", "/translate/batch", "texts", "to", {"to": "ja"}),
    Route("POST", "/detect", "q", "q"),
    Route("POST", "/language/translate/v2", "q", "target", {"target": "ja"}),
    Route("POST", "/language/translate/v2/detect", "q", "q"),
    Route("POST", "/language/translate/v2/languages", "target", "target"),
    Route("POST", "/deeplx/translate", "text", "target_lang", {"target_lang": "ja"}),
    Route("POST", "/immersive/translate", "text_list", "target_lang", {"target_lang": "ja"}),
    Route("POST", "/kiss/translate", "texts", "to", {"to": "ja"}),
    Route("POST", "/deeplx", "text", "target_lang", {"target_lang": "ja"}),
    Route("POST", "/imme", "text_list", "target_lang", {"target_lang": "ja"}),
    Route("POST", "/kiss", "texts", "to", {"to": "ja"}),
    Route("POST", "/api/chat", "messages", "model", {"model": "dragoman/ja"}, forms=False),
    Route("POST", "/api/generate", "prompt", "model", {"model": "dragoman/ja"}, forms=False),
    Route("POST", "/api/show", "model", "name", forms=False),
    Route("POST", "/api/pull", "model", "name", forms=False),
    Route("POST", f"/translate?{_BY_DATE}", "inputs", "inputs", forms=False),
    Route("POST", f"/detect?{_VERSION}", "text", "text", forms=False),
)
"""Every route that reads a body; `tests/api/test_bodies.py` compares them with the app's."""


def path_of(route: Route) -> str:
    """As the app declares it."""
    path = (
        route.path.partition("?")[0]
        .replace("/glossaries/x", "/glossaries/{glossary}")
        .replace("/memories/m", "/memories/{memory}")
    )
    path = path.replace("/0123456789ABCDEF0123456789ABCDEF/", "/{id}/").replace("/segments/0", "/segments/{n}")
    return path.replace("11111111-1111-1111-1111-111111111111", "{glossary_id}")


def _with(route: Route, name: str, value: str) -> bytes:
    rest = "".join(f",{json.dumps(key)}:{json.dumps(one)}" for key, one in route.rest.items() if key != name)
    return f'{{"{name}":{value}{rest}}}'.encode()


def _list_of(item: str) -> Callable[[Route, int], bytes]:
    return lambda route, size: _with(route, route.text, f"[{','.join([item] * (size // (len(item) + 1)))}]")


def _object_of(route: Route, size: int, value: str) -> str:
    return "{" + ",".join(f'"k{number:07d}":{value}' for number in range(size // (12 + len(value)))) + "}"


JSON_SHAPES: dict[str, Callable[[Route, int], bytes]] = {
    "numbers": _list_of("1"),
    "lists": _list_of("[]"),
    "objects": _list_of('{"type":1}'),
    "nested": lambda route, size: _with(route, route.text, "[" * size),
    "unknown fields": lambda route, size: _object_of(route, size, "1").encode(),
    "numbers by name": lambda route, size: _with(route, route.text, _object_of(route, size, "1")),
    "glossary": lambda route, size: _with(route, "glossary", _object_of(route, size, "1")),
    "cut off": lambda route, size: _with(route, route.text, '"' + "\\u3042" * (size // 6))[:-1],
    "long name": lambda route, size: _with(route, "x" * size, "1"),
    "long short field": lambda route, size: _with(route, route.short, f'"{"NN😀" + "x" * size}"'),
    "long number": lambda route, size: _with(route, route.text, "9" * size),
    "surrogates": lambda route, size: _with(route, route.text, '"' + "\\ud800" * (size // 6) + '"'),
}
FORM_SHAPES: dict[str, Callable[[Route, int], bytes]] = {
    "names": lambda route, size: b"a&" * (size // 2),
    "escapes": lambda route, size: f"{route.short}=".encode() + b"%41a" * (size // 4),
    "bad escapes": lambda route, size: f"{route.text}=".encode() + b"%" * size,
    "long field": lambda route, size: f"{route.text}=".encode() + b"a" * size + f"&{route.short}=".encode(),
}
MULTIPART_SHAPES: dict[str, Callable[[Route, int], bytes]] = {
    "parts": lambda route, size: (
        b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n' * (size // 55) + b"--b--\r\n"
    ),
    "headers": lambda route, size: b"--b\r\n" + b"X: y\r\n" * (size // 6),
    "line breaks": lambda route, size: (
        f'--b\r\nContent-Disposition: form-data; name="{route.text}"\r\n\r\n'.encode() + b"\r\n--" * (size // 4)
    ),
}


def shapes_of(route: Route) -> Iterator[tuple[str, str, Callable[[Route, int], bytes]]]:
    """Name, content type and maker of each shape that a route can be sent."""
    kinds = [("", JSON, JSON_SHAPES)]
    if route.forms:
        kinds += [("form: ", FORM, FORM_SHAPES), ("multipart: ", MULTIPART, MULTIPART_SHAPES)]
    for label, kind, shapes in kinds:
        for name, shape in shapes.items():
            yield label + name, kind, shape


def bodies(route: Route, size: int) -> Iterator[tuple[str, str, bytes]]:
    """Name, content type and bytes of each shape that a route can be sent."""
    for name, kind, shape in shapes_of(route):
        yield name, kind, shape(route, size)


# ---- a server process


def _probe(address: str, pipe: Connection) -> None:
    """Ask `/healthz` until the pipe says stop, and send the longest time that an answer took, in seconds."""
    connection, longest_s = http.client.HTTPConnection(address, timeout=TIMEOUT_S), 0.0
    while True:
        while not pipe.poll(0.002):
            began_s = perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            longest_s = max(longest_s, perf_counter() - began_s)
        if pipe.recv() == "stop":
            return
        pipe.send(longest_s)
        longest_s = 0.0


@dataclass
class Server:
    """A running server: its process, an operator's key, and what asks it for its health."""

    process: ServerProcess
    key: str
    probe: Connection

    def send(
        self, method: str, path: str, body: bytes, content_type: str = JSON, *, key: str | None = None
    ) -> tuple[int, bytes, float, float]:
        """Status, answer, seconds, and the longest time that `/healthz` took meanwhile."""
        headers = {"Content-Type": content_type} | ({"Authorization": f"Bearer {key}"} if key else {})
        self.longest_probe_s()
        connection = http.client.HTTPConnection(urlsplit(self.process.url).netloc, timeout=TIMEOUT_S)
        began_s = perf_counter()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        return answer.status, content, perf_counter() - began_s, self.longest_probe_s()

    def post(self, path: str, body: object) -> tuple[int, bytes, float, float]:
        """The same for JSON, with the key."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send("POST", path, content, key=self.key)

    def longest_probe_s(self) -> float:
        """Since this was last asked."""
        self.probe.send("read")
        return self.probe.recv()

    @property
    def megabytes(self) -> float:
        """What the process holds."""
        return self.process.resident_bytes / 2**20


@asynccontextmanager
async def hostile_server(folder: Path, *flags: str) -> AsyncIterator[Server]:
    """A server over the fake pipeline, which needs keys."""
    storage = f"sqlite:///{folder}/keys.db"
    key = await create_key(storage)
    async with serving(folder, "--auth=keys", f"--storage-url={storage}", "--traffic=false", *flags) as process:
        ours, theirs = multiprocessing.Pipe()
        address = urlsplit(process.url).netloc
        prober = multiprocessing.get_context("spawn").Process(target=_probe, args=(address, theirs), daemon=True)
        prober.start()
        server = Server(process, key, ours)
        server.longest_probe_s()
        yield server
        ours.send("stop")
        prober.join(TIMEOUT_S)
