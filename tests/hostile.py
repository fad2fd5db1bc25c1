"""Malformed and oversized bodies for every route that takes one, and a server process to send them to.

    python -m tests.hostile [--megabytes 8] [--route /v1/translate]

prints for each route and shape the status, the seconds and the longest time that `/healthz` took meanwhile, with a key and
without one.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from urllib.parse import urlsplit

import psutil

JSON, FORM, MULTIPART = "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
TIMEOUT_S = 120.0


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
_PAIR = "source=en&target=ja"
ROUTES = (
    Route("POST", "/v1/translate", rest={"target": "ja"}, forms=False),
    Route("POST", "/v1/chat/completions", "messages", "model", {"model": "dragoman/ja"}, forms=False),
    Route("POST", "/v1/glossaries", "dictionaries", "name", {"name": "x"}, forms=False),
    Route("PUT", f"/v1/glossaries/x/entries?{_PAIR}", "entries", "name", forms=False),
    Route("PATCH", f"/v1/glossaries/x/entries?{_PAIR}", "entries", "name", forms=False),
    Route("POST", "/v2/translate", "text", "target_lang", {"target_lang": "JA"}),
    Route("POST", "/v2/glossaries", "entries", "name", {"name": "x", "source_lang": "EN", "target_lang": "JA"}),
    Route("POST", "/v3/glossaries", "dictionaries", "name", {"name": "x"}),
    Route("PATCH", _DEEPL_GLOSSARY, "dictionaries", "name"),
    Route(
        "PUT", f"{_DEEPL_GLOSSARY}/dictionaries", "entries", "source_lang", {"source_lang": "EN", "target_lang": "JA"}
    ),
    Route("POST", "/translate", "q", "target", {"source": "en", "target": "ja"}),
    Route("POST", "/detect", "q", "q"),
    Route("POST", "/suggest", "q", "s", {"source": "en", "target": "ja"}),
    Route("POST", "/translate_file", "file", "source"),
    Route("POST", "/language/translate/v2", "q", "target", {"target": "ja"}),
    Route("POST", "/language/translate/v2/detect", "q", "q"),
    Route("POST", "/language/translate/v2/languages", "target", "target"),
    Route("POST", "/deeplx/translate", "text", "target_lang", {"target_lang": "ja"}),
    Route("POST", "/immersive/translate", "text_list", "target_lang", {"target_lang": "ja"}),
    Route("POST", "/kiss/translate", "texts", "to", {"to": "ja"}),
)
"""Every route that reads a body; `tests/api/test_bodies.py` compares them with the app's."""


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


def bodies(route: Route, size: int) -> Iterator[tuple[str, str, bytes]]:
    """Name, content type and bytes of each shape that a route can be sent."""
    for name, shape in JSON_SHAPES.items():
        yield name, JSON, shape(route, size)
    if route.forms:
        for kind, label, shapes in ((FORM, "form", FORM_SHAPES), (MULTIPART, "multipart", MULTIPART_SHAPES)):
            for name, shape in shapes.items():
                yield f"{label}: {name}", kind, shape(route, size)


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
    """A running server: its address, an operator's key, and its process."""

    address: str
    key: str
    process: psutil.Process
    probe: Connection

    def send(
        self, method: str, path: str, body: bytes, content_type: str = JSON, *, key: str | None = None
    ) -> tuple[int, bytes, float, float]:
        """Status, answer, seconds, and the longest time that `/healthz` took meanwhile."""
        headers = {"Content-Type": content_type} | ({"Authorization": f"Bearer {key}"} if key else {})
        self.longest_probe_s()
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)
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
    def cpu_s(self) -> float:
        """What the process has used."""
        times = self.process.cpu_times()
        return times.user + times.system

    @property
    def megabytes(self) -> float:
        """What the process holds."""
        return self.process.memory_info().rss / 2**20


@contextmanager
def serving(**environment: str) -> Iterator[Server]:
    """`dragoman serve` over the fake pipeline, which needs keys."""
    with TemporaryDirectory() as folder:
        settings = {
            "DRAGOMAN_PIPELINE_NAME": "fake",
            "DRAGOMAN_SERVER_PORT": "0",
            "DRAGOMAN_AUTH_MODE": "keys",
            "DRAGOMAN_TRAFFIC_ENABLED": "false",
            "DRAGOMAN_STORAGE_URL": f"sqlite:///{Path(folder)}/dragoman.db",
        }
        command = [sys.executable, "-m", "dragoman.cli.main"]
        run = {"env": os.environ | settings | environment, "text": True}
        key = subprocess.run([*command, "keys", "create", "k"], capture_output=True, check=True, **run).stdout.strip()
        process = subprocess.Popen([*command, "serve"], stderr=subprocess.PIPE, **run)
        ours, theirs = multiprocessing.Pipe()
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "listens on" in line)
            address = urlsplit(re.search(r"http://\S+", line)[0]).netloc  # type: ignore[index]
            prober = multiprocessing.get_context("spawn").Process(target=_probe, args=(address, theirs), daemon=True)
            prober.start()
            server = Server(address, key, psutil.Process(process.pid), ours)
            server.longest_probe_s()
            yield server
            ours.send("stop")
            prober.join(TIMEOUT_S)
        finally:
            process.terminate()
            process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description="Malformed bodies: seconds, and the longest answer of /healthz.")
    parser.add_argument("--megabytes", type=float, default=7.9)
    parser.add_argument("--route", help="one path; default: all")
    arguments = parser.parse_args()
    size = int(arguments.megabytes * 1e6)
    print(
        f"{'route':<38} {'shape':<24} {'key':>12} {'status':>6} {'bytes':>6} {'seconds':>8} {'CPU':>6} {'/healthz':>9}"
    )
    with serving() as server:
        before = server.megabytes
        sleep(3)
        print(f"idle for 3 s: /healthz {server.longest_probe_s():.3f}")
        for route in ROUTES:
            if arguments.route not in (None, route.path):
                continue
            for shape, kind, body in bodies(route, size):
                for key in (server.key, None):
                    began_s = server.cpu_s
                    status, answer, took_s, probe_s = server.send(route.method, route.path, body, kind, key=key)
                    cpu_s = server.cpu_s - began_s
                    print(
                        f"{route.method + ' ' + route.path[:30]:<38} {shape:<24} {'with a key' if key else 'without':>12} "
                        f"{status:>6} {len(answer):>6} {took_s:>8.2f} {cpu_s:>6.2f} {probe_s:>9.3f}",
                        flush=True,
                    )
        print(f"memory: {before:.0f} MB before, {server.megabytes:.0f} MB after")


if __name__ == "__main__":
    main()
