"""Whether short texts leave anything behind in a server, with the cache and without it.

    python benchmarks/short_texts.py --texts 400000 --settled 200000 --out results/short-texts.json

The texts, of which each is another, are sent to `dragoman serve --pipeline fake` in calls of 20, by 4 clients. After every 1,000
of them the memory, open files, threads and database of the server's processes are read; after `--settled` texts, when all that
has a bound is full, a line is fitted to each, as a soak does (`dragoman_bench.chaos.soak`), over the number of texts. The last
line of stdout is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import psutil

from dragoman_bench.bench.measurement import Measurement
from dragoman_bench.bench.servers import dragoman_serve, serving
from dragoman_bench.chaos.soak import slope

CALL, CLIENTS, EVERY = 20, 4, 1_000
PER = 10_000
"""Texts for which a slope is given."""
WORDS = ("town", "river", "old", "train", "letter", "seven", "garden", "late")


def held(process: psutil.Process, folder: Path) -> dict[str, float]:
    """What the processes of a server hold."""
    processes = [process, *process.children(recursive=True)]
    return {
        "memory_mib": sum(one.memory_info().rss for one in processes) / 2**20,
        "handles": sum(one.num_fds() for one in processes),
        "threads": sum(one.num_threads() for one in processes),
        "database_mib": sum(one.stat().st_size for one in folder.glob("dragoman.db*")) / 2**20,
    }


async def run(cache_bytes: int, texts: int, settled: int, seed: int) -> dict[str, Any]:
    """Send all texts, and return the samples and slopes. Raises `ServerFault` where the server does not start."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        flags = {"pipeline": "fake", "cache-max-bytes": cache_bytes, "storage-url": f"sqlite:///{folder}/dragoman.db"}
        command = dragoman_serve("short texts", {**flags, "fake-step-ms": 0}, folder / "engine.log")
        async with serving(command, folder / "server.log", asyncio.Event()) as server:
            samples, errors = await _sent(server.url, server.process.pid, folder, texts, seed)
    return {"cache_bytes": cache_bytes, "errors": errors, "slopes": slopes(samples, settled), "samples": samples}


async def _sent(url: str, pid: int, folder: Path, texts: int, seed: int) -> tuple[list[dict[str, float]], int]:
    """Return the samples in their order, and how many calls failed."""
    root, rng, numbers = psutil.Process(pid), Random(seed), count()
    samples: list[dict[str, float]] = []
    errors = 0

    async def client(http: aiohttp.ClientSession) -> None:
        nonlocal errors
        while (first := next(numbers) * CALL) < texts:
            batch = [f"The {' '.join(rng.choices(WORDS, k=4))} {first + place}." for place in range(CALL)]
            body = {"text": batch, "source": "en", "target": "ja"}
            async with http.post(f"{url}/v1/translate", json=body) as answer:
                errors += answer.status != 200
                await answer.read()
            if first % EVERY < CALL:
                samples.append({"texts": first, **await asyncio.to_thread(held, root, folder)})

    async with aiohttp.ClientSession() as http:
        await asyncio.gather(*(client(http) for _ in range(CLIENTS)))
    return sorted(samples, key=lambda one: one["texts"]), errors


def slopes(samples: Sequence[dict[str, float]], settled: int) -> dict[str, Any]:
    """Of each figure, for `PER` texts, with its standard error, after so many texts."""
    rest = [one for one in samples if one["texts"] >= settled]
    places = [one["texts"] * 3600 / PER for one in rest]  # a slope is given for an hour: here for PER texts
    found = {name: slope(places, [one[name] for one in rest]) for name in rest[0] if name != "texts"}
    return {name: {**asdict(one), "is_flat": one.is_flat} for name, one in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--texts", type=int, default=50_000)
    parser.add_argument("--settled", type=int, default=17_000, help="texts before the line begins")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = Measurement.begin("short-texts", texts=options.texts, settled=options.settled, seed=options.seed)
    found.data["runs"] = []
    for cache_bytes in (0, 64 * 2**20):
        found.data["runs"].append(asyncio.run(run(cache_bytes, options.texts, options.settled, options.seed)))
        found.write(options.out)
        print({"cache_bytes": cache_bytes, **found.data["runs"][-1]["slopes"]}, flush=True)
    print(json.dumps([one["slopes"] for one in found.data["runs"]]))


if __name__ == "__main__":
    main()
