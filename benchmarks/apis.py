"""CPU time of the server for a request in each API, beside the native one's; and whether arrays come back in order.

    python benchmarks/apis.py --out results/apis-cpu.json

A server over the fake pipeline, in a process of its own and without a cache, is sent the same texts through each API by 25
clients: requests with one text, and arrays of 1,000. The APIs take turns, so that a change of the machine's speed affects
all of them. What is given is the server's CPU time a request, the median of the rounds, and its ratio to the native API's
in the same round (the native API's with detection, where an API's request has no source language). Every answer's texts are compared with the native API's, in order. Then a server that takes 4 ms a word
is sent texts of 100 words by 64 clients, to be answered and to be streamed in turn, through each API that streams: a stream's
events have what was generated in `engine.stream_interval_ms`, as over an engine. The last line of stdout is the JSON document
that `--out` writes; `--only` names one of the two parts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import psutil

from dragoman_bench.bench.measurement import Measurement

CLIENTS, STREAM_CLIENTS = 25, 64
STEP_MS, STREAM_REQUESTS = 4, 512
STREAMING = ("native", "OpenAI")
ONE, ARRAY = 1, 1000
REQUESTS = {ONE: 500, ARRAY: 25}  # of each API in each round
READY_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Api:
    """How an API takes texts, and where its answer has the translations."""

    path: str
    body: Callable[[list[str]], dict[str, Any]]
    texts: Callable[[Any], list[str]]
    arrays: bool = True
    beside: str = "native"  # the API of the ratio: what is told as much


def _plain(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _instructed(text: str) -> list[dict[str, str]]:
    instruction = "Translate from English to Japanese."
    return [{"role": "system", "content": instruction}, {"role": "user", "content": text}]


APIS = {
    "native": Api(
        "/v1/translate",
        lambda texts: {"text": texts, "source": "en", "target": "ja"},
        lambda answer: [one["text"] for one in answer["translations"]],
    ),
    "native, source detected": Api(
        "/v1/translate",
        lambda texts: {"text": texts, "target": "ja"},
        lambda answer: [one["text"] for one in answer["translations"]],
        arrays=False,
    ),
    "DeepL": Api(
        "/v2/translate",
        lambda texts: {"text": texts, "source_lang": "EN", "target_lang": "JA"},
        lambda answer: [one["text"] for one in answer["translations"]],
    ),
    "LibreTranslate": Api(
        "/translate",
        lambda texts: {"q": texts, "source": "en", "target": "ja"},
        lambda answer: _plain(answer["translatedText"]),
    ),
    "Google": Api(
        "/language/translate/v2",
        lambda texts: {"q": texts, "source": "en", "target": "ja", "format": "text"},
        lambda answer: [one["translatedText"] for one in answer["data"]["translations"]],
    ),
    "Immersive Translate": Api(
        "/immersive/translate",
        lambda texts: {"text_list": texts, "source_lang": "en", "target_lang": "ja"},
        lambda answer: [one["text"] for one in answer["translations"]],
    ),
    "KISS Translator": Api(
        "/kiss/translate",
        lambda texts: {"texts": texts, "from": "en", "to": "ja"},
        lambda answer: [one["text"] for one in answer],
    ),
    "DeepLX": Api(
        "/deeplx/translate",
        lambda texts: {"text": texts[0], "source_lang": "en", "target_lang": "ja"},
        lambda answer: [answer["data"]],
        arrays=False,
    ),
    "OpenAI": Api(
        "/v1/chat/completions",
        lambda texts: {"model": "dragoman/ja", "messages": [{"role": "user", "content": texts[0]}]},
        lambda answer: [answer["choices"][0]["message"]["content"]],
        arrays=False,
        beside="native, source detected",
    ),
    "OpenAI, with an instruction": Api(
        "/v1/chat/completions",
        lambda texts: {"model": "dragoman", "messages": _instructed(texts[0])},
        lambda answer: [answer["choices"][0]["message"]["content"]],
        arrays=False,
    ),
    "OpenAI, responses": Api(
        "/v1/responses",
        lambda texts: {"model": "dragoman/ja", "input": texts[0]},
        lambda answer: [answer["output"][0]["content"][0]["text"]],
        arrays=False,
        beside="native, source detected",
    ),
}


@contextmanager
def serving(step_ms: float = 0) -> Iterator[tuple[str, psutil.Process]]:
    """`dragoman serve --pipeline fake`: its address and its process."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    flags = ["--pipeline", "fake", "--port", str(port), "--storage-url", "", "--log-level", "warning"]
    flags += ["--fake-step-ms", str(step_ms)]
    flags += ["--cache-max-bytes", "0", "--max-in-flight-characters", "10000000"]
    process = subprocess.Popen([sys.executable, "-m", "dragoman.cli.main", "serve", *flags], stdout=subprocess.DEVNULL)
    url, end = f"http://127.0.0.1:{port}", time.monotonic() + READY_TIMEOUT_S
    try:
        while True:
            try:
                if httpx.get(f"{url}/readyz").status_code == 200:
                    break
            except httpx.TransportError:
                pass
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit("the server is not ready")
            time.sleep(0.1)
        yield url, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(60)


def cpu_s(process: psutil.Process) -> float:
    """User and system time of the server and its processes so far."""
    return sum(sum(one.cpu_times()[:2]) for one in (process, *process.children(recursive=True)))


def texts_of(number: int, count: int) -> list[str]:
    """Texts that no other request has."""
    return [f"Order {number} has {index} items." for index in range(count)]


async def sent(http: httpx.AsyncClient, api: Api, count: int, expected: list[list[str]] | None) -> list[list[str]]:
    """The translations of all requests, by 25 clients. Ends with an error where they are not those that are expected."""
    found: list[list[str]] = [[] for _ in range(REQUESTS[count])]
    waiting = iter(range(REQUESTS[count]))

    async def client() -> None:
        for number in waiting:
            answer = await http.post(api.path, json=api.body(texts_of(number, count)))
            found[number] = api.texts(answer.raise_for_status().json())

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    if expected is not None and found != expected:
        wrong = next(number for number, texts in enumerate(found) if texts != expected[number])
        raise SystemExit(f"{api.path}: request {wrong} has other translations than the native API's, or another order")
    return found


async def measured(url: str, process: psutil.Process, rounds: int) -> list[dict[str, Any]]:
    """A row for each API and number of texts."""
    times: dict[tuple[str, int], list[float]] = {}
    limits = httpx.Limits(max_connections=CLIENTS)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as http:
        for count in (ONE, ARRAY):
            expected = await sent(http, APIS["native"], count, None)
            for turn in range(rounds):
                names = [name for name, api in APIS.items() if count == ONE or api.arrays]
                for name in names if turn % 2 == 0 else reversed(names):
                    began_s = cpu_s(process)
                    await sent(http, APIS[name], count, expected)
                    times.setdefault((name, count), []).append(1000 * (cpu_s(process) - began_s) / REQUESTS[count])
                    print(f"{count} texts, {name}: {times[name, count][-1]:.2f} ms of CPU time a request", flush=True)
    return [
        {
            "api": name,
            "texts": count,
            "requests": REQUESTS[count] * rounds,
            "cpu_ms": round(statistics.median(found), 3),
            "cpu_ms_of_rounds": [round(one, 3) for one in found],
            "beside": APIS[name].beside,
            "ratio_to_native": round(
                statistics.median(
                    own / native for own, native in zip(found, times[APIS[name].beside, count], strict=True)
                ),
                3,
            ),
            "in_order": True,
        }
        for (name, count), found in times.items()
    ]


async def streamed(http: httpx.AsyncClient, api: Api, text: str) -> tuple[str, int]:
    """The text of a stream, and how many events it came in."""
    parts: list[str] = []
    async with http.stream("POST", api.path, json={**api.body([text]), "stream": True}) as answer:
        async for line in answer.raise_for_status().aiter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line.removeprefix("data: "))
            choices = event.get("choices") or [{}]
            if part := event.get("delta") or choices[0].get("delta", {}).get("content"):
                parts.append(part)
    return "".join(parts), len(parts)


async def measured_streams(url: str, process: psutil.Process, rounds: int) -> list[dict[str, Any]]:
    """A row for each API that streams, of its answers and of its streams of 100 words."""
    texts = [" ".join(texts_of(number, 20)) for number in range(STREAM_REQUESTS)]
    times: dict[tuple[str, bool], list[float]] = {}
    events = 0

    async with httpx.AsyncClient(base_url=url, timeout=300, limits=httpx.Limits(max_connections=None)) as http:

        async def round_of(api: Api, stream: bool) -> list[str]:
            nonlocal events
            found, waiting = [""] * len(texts), iter(range(len(texts)))

            async def client() -> None:
                nonlocal events
                for number in waiting:
                    if stream:
                        found[number], count = await streamed(http, api, texts[number])
                        events += count
                    else:
                        answer = await http.post(api.path, json=api.body([texts[number]]))
                        found[number] = api.texts(answer.raise_for_status().json())[0]

            await asyncio.gather(*(client() for _ in range(STREAM_CLIENTS)))
            return found

        expected = await round_of(APIS["native"], False)
        for _ in range(rounds):
            for name, stream in product(STREAMING, (False, True)):
                began_s, events = cpu_s(process), 0
                if await round_of(APIS[name], stream) != expected:
                    raise SystemExit(f"{name}, stream {stream}: other translations than the native API's answers")
                cpu_ms = 1000 * (cpu_s(process) - began_s) / STREAM_REQUESTS
                times.setdefault((name, stream), []).append(cpu_ms)
                what = f"streams of {events / STREAM_REQUESTS:.1f} events" if stream else "answers"
                print(f"100 words, {name}, {what}: {cpu_ms:.2f} ms of CPU time a request", flush=True)
    return [
        {
            "api": name,
            "words": 100,
            "stream": stream,
            "events": round(events / STREAM_REQUESTS, 1) if stream else 1,
            "requests": STREAM_REQUESTS * rounds,
            "cpu_ms": round(statistics.median(found), 3),
            "cpu_ms_of_rounds": [round(one, 3) for one in found],
        }
        for (name, stream), found in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", choices=["apis", "streams"])
    options = parser.parse_args()
    load_before = os.getloadavg()[0]
    rows: list[dict[str, Any]] = []
    if options.only != "streams":
        with serving() as (url, process):
            rows += asyncio.run(measured(url, process, options.rounds))
    if options.only != "apis":
        with serving(STEP_MS) as (url, process):
            rows += asyncio.run(measured_streams(url, process, options.rounds))
    chosen = {"clients": CLIENTS, "stream_clients": STREAM_CLIENTS, "step_ms": STEP_MS, "rounds": options.rounds}
    found = Measurement.begin("apis", cpus=os.cpu_count(), load_before=round(load_before, 2), **chosen)
    found.data["rows"] = rows
    found.write(options.out)
    print(json.dumps(found.document))


if __name__ == "__main__":
    main()
