"""Does a long text or a large call hold up other requests? Times of planning and checking, and the longest `/healthz` gap.

    python benchmarks/event_loop.py --out results/event-loop-cpu.json
    python benchmarks/event_loop.py --url http://127.0.0.1:8000 --out results/event-loop-cpu-engine.json

Planning (detection, segmentation, prompts) and checking are timed at 10 KB, 100 KB and 1 MB: linear work takes 10 times as
long for 10 times the text. Then `/healthz` is asked again and again on one connection while a text of 1 MB, and a call of
10,000 texts, are translated: over the fake pipeline in a process of its own, or by the server at `--url`. The longest time
between two answers is the longest time that the event loop was held, plus the request itself, whose time on an idle server
is given beside it. The last line of stdout is the JSON document that `--out` writes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx
import psutil

from dragoman.service.dispatcher import LoopTurns, TimeSlices
from dragoman.service.planner import Planner
from dragoman.service.stack import choose_model, load_prompts
from dragoman.settings import ModelSettings
from dragoman.text.checks import TextChecks
from dragoman.text.comparisons import CheckContext
from dragoman.types import TranslationRequest
from dragoman_bench.bench.measurement import Measurement

SENTENCES = (
    "The train to the coast leaves at a quarter past nine from platform four.",
    "Please send the signed contract for order 4711 to office@example.com before Friday.",
    "We have not decided yet whether the meeting takes place in the morning or in the afternoon.",
    "If the delivery does not arrive by the end of the week, write to the support team.",
)
SIZES = (10_000, 100_000, 1_000_000)
TEXTS = 10_000
IDLE_REQUESTS = 200
LARGEST_TEXT = 999_000  # characters; servers accept 1,000,000


def text_of(characters: int) -> str:
    """Paragraphs of four sentences with numbers of four digits, so that a paragraph has as many tokens whatever the size."""
    paragraphs: list[str] = []
    length = 0
    while length < characters:
        number = 1000 + len(paragraphs) % 9000
        paragraphs.append(" ".join(f"{sentence[:-1]} ({number})." for sentence in SENTENCES))
        length += len(paragraphs[-1]) + 2
    return "\n\n".join(paragraphs)[:characters]


def times_of_work() -> list[dict[str, float]]:
    """Seconds of planning and of checking by size, and the longest step of each without a pause in between."""
    planner = Planner(*load_prompts(choose_model(ModelSettings())), 1024)
    rows: list[dict[str, float]] = []
    for size in SIZES:
        segments, steps = list[str](), list[float]()
        began_s = at_s = perf_counter()
        [job] = asyncio.run(planner.plan(TranslationRequest((text_of(size),), "ja"), TimeSlices(LoopTurns())))
        for segment in job.segments:
            if segment is not None and segment.translatable:
                planner.sequence(job, str(len(segments)), planner.attempt(job, segment))
                segments.append(segment.text)
            steps.append(perf_counter() - at_s)
            at_s = perf_counter()
        planned_s = perf_counter() - began_s
        checks, checked = TextChecks(CheckContext("en", "ja")), list[float]()
        for segment in segments:
            at_s = perf_counter()
            checks.add(segment, segment.replace("the", "その"))
            checked.append(perf_counter() - at_s)
        checks.warnings()
        rows.append(
            {
                "characters": size,
                "segments": len(segments),
                "planning_s": planned_s,
                "longest_planning_step_s": max(steps),
                "checking_s": sum(checked),
                "longest_checking_step_s": max(checked),
            }
        )
    return rows


async def longest_gap_s(client: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, float]:
    """The longest time between two `/healthz` answers while the call is translated."""
    call = asyncio.create_task(client.post("/v1/translate", json=body))
    async with httpx.AsyncClient(base_url=client.base_url, timeout=600) as probe:
        gaps: list[float] = []
        at_s = perf_counter()
        while not call.done():
            (await probe.get("/healthz")).raise_for_status()
            gaps.append(perf_counter() - at_s)
            at_s = perf_counter()
    answer = await call
    answer.raise_for_status()
    return {
        "characters": sum(map(len, body["text"])) if isinstance(body["text"], list) else len(body["text"]),
        "texts": len(body["text"]) if isinstance(body["text"], list) else 1,
        "e2e_s": answer.elapsed.total_seconds(),
        "healthz_answers": len(gaps),
        "longest_gap_s": max(gaps),
        "median_gap_s": sorted(gaps)[len(gaps) // 2],
    }


async def measured(url: str) -> dict[str, Any]:
    """The two calls against a running server, after the same probe of an idle one."""
    async with httpx.AsyncClient(base_url=url, timeout=3600) as client:
        await client.post("/v1/translate", json={"text": "Good morning.", "source": "en", "target": "ja"})
        idle: list[float] = []
        for _ in range(IDLE_REQUESTS):
            at_s = perf_counter()
            (await client.get("/healthz")).raise_for_status()
            idle.append(perf_counter() - at_s)
        many = [f"{SENTENCES[number % len(SENTENCES)]} ({number})" for number in range(TEXTS)]
        stats = (await client.get("/v1/stats")).json()
        return {
            "server": {key: stats.get(key) for key in ("version", "pipeline", "model", "device", "settings")},
            "idle": {"longest_gap_s": max(idle), "median_gap_s": sorted(idle)[len(idle) // 2]},
            "one_text": await longest_gap_s(client, {"text": text_of(LARGEST_TEXT), "target": "ja"}),
            "many_texts": await longest_gap_s(client, {"text": many, "target": "ja"}),
        }


@asynccontextmanager
async def fake_server() -> AsyncGenerator[str]:
    """`dragoman serve` over the fake pipeline, in a process of its own."""
    settings = {
        "DRAGOMAN_PIPELINE_NAME": "fake",
        "DRAGOMAN_SERVER_PORT": "0",
        "DRAGOMAN_LOG_FORMAT": "json",
        "DRAGOMAN_TRAFFIC_ENABLED": "false",
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dragoman.cli.main", "serve"), stderr=asyncio.subprocess.PIPE, env=os.environ | settings
    )
    assert process.stderr is not None
    try:
        while line := (await process.stderr.readline()).decode():
            if "listens on " in line:
                yield line.partition("listens on ")[2].split()[0]
                return
        raise SystemExit("the server did not start")
    finally:
        process.terminate()
        await process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description="Event loop: times of work, and the longest gap between two answers.")
    parser.add_argument("--url", help="a running server; default: one over the fake pipeline is started")
    parser.add_argument("--out", type=Path, help="results file (JSON)")
    arguments = parser.parse_args()

    async def run() -> dict[str, Any]:
        if arguments.url:
            return await measured(arguments.url)
        async with fake_server() as url:
            return await measured(url)

    found = Measurement.begin("event-loop", load_average_before=psutil.getloadavg()[0], client="on the same cores")
    result = found.data = {"work": times_of_work(), "served": asyncio.run(run())}
    print(f"{'characters':>10} {'planning':>10} {'longest':>9} {'checking':>10} {'longest':>9}")
    for row in result["work"]:
        print(
            f"{row['characters']:>10} {row['planning_s'] * 1e3:>8.1f}ms {row['longest_planning_step_s'] * 1e3:>7.2f}ms "
            f"{row['checking_s'] * 1e3:>8.1f}ms {row['longest_checking_step_s'] * 1e3:>7.2f}ms"
        )
    for name in ("idle", "one_text", "many_texts"):
        row = result["served"][name]
        print(f"{name:>10}: longest gap {row['longest_gap_s'] * 1e3:.1f} ms, median {row['median_gap_s'] * 1e3:.1f} ms")
    found.write(arguments.out)
    print(json.dumps(found.document))


if __name__ == "__main__":
    main()
