"""What the log-probabilities of tokens cost: `python -m benchmarks.token_logprobs --out results/token-logprobs-cpu.json`.

The packaged model's own load-test sentences go to one real engine, 32 at a time, with log-probabilities and without in turn. For
each run: CPU time a request of this process and of vLLM's, and requests a second. On a GPU the latter shows the step time too.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import statistics
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import click
import psutil

from dragoman.engine import process
from dragoman.engine.spec import device, resolve
from dragoman.gpu import find_gpus
from dragoman.phrasebook import model_dir, sentences_file
from dragoman.service.stack import choose_model, load_prompts
from dragoman.settings import EngineSettings, ModelSettings
from dragoman.types import Sequence
from dragoman_bench.bench.results import describe_machine, git_commit, installed_packages

IN_FLIGHT = 32


def _cpu_s() -> tuple[float, float]:
    """CPU seconds so far of this process, and of those that it started."""
    own = psutil.Process(os.getpid())
    children = [one.cpu_times() for one in own.children(recursive=True)]
    times = own.cpu_times()
    return times.user + times.system, sum(one.user + one.system for one in children)


def _sequences(count: int) -> list[Sequence]:
    model = choose_model(ModelSettings())
    encoder, _ = load_prompts(model)
    with gzip.open(sentences_file(), "rt", encoding="utf-8") as stream:
        english = [json.loads(line)[0] for line in islice(stream, count)]
    return [
        Sequence(str(number), encoder.encode(text, "en", "ja").token_ids, 200, sampling=encoder.sampling)
        for number, text in enumerate(english)
    ]


async def _run(engine: Any, sequences: list[Sequence], turn: int) -> dict[str, float]:
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def one(sequence: Sequence) -> None:
        async with slots:
            await engine.generate(replace(sequence, id=f"{turn}.{sequence.id}"))

    began_s, (own_s, engine_s) = time.monotonic(), _cpu_s()
    await asyncio.gather(*map(one, sequences))
    took_s, (own_end_s, engine_end_s) = time.monotonic() - began_s, _cpu_s()
    count = len(sequences)
    return {
        "requests_per_s": round(count / took_s, 2),
        "server_cpu_ms_per_request": round(1000 * (own_end_s - own_s) / count, 4),
        "engine_cpu_ms_per_request": round(1000 * (engine_end_s - engine_s) / count, 4),
    }


async def measure(requests: int, turns: int) -> dict[str, Any]:
    """Runs with and without, in turn, after one that is not counted."""
    from dragoman.engine.async_engine import AsyncEngine

    spec = resolve(str(model_dir()), EngineSettings(max_num_seqs=IN_FLIGHT), device())
    log_file = Path(".dragoman/token-logprobs.log")
    process.log_to_file(log_file)
    engine = AsyncEngine(spec, log_file)
    await engine.start()
    try:
        sequences = _sequences(requests)
        await _run(engine, sequences, -1)
        runs: dict[str, list[dict[str, float]]] = {"without": [], "with": []}
        for turn in range(2 * turns):
            name = "with" if turn % 2 else "without"
            engine.with_logprobs = name == "with"
            runs[name].append(await _run(engine, sequences, turn))
    finally:
        await engine.shutdown()
    medians = {
        name: {key: statistics.median(one[key] for one in some) for key in some[0]} for name, some in runs.items()
    }
    gpus = find_gpus()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": asdict(describe_machine(gpus.describe() if gpus else ())),
        "packages": installed_packages(),
        "git_commit": git_commit(),
        "device": spec.device,
        "requests_per_run": requests,
        "in_flight": IN_FLIGHT,
        "median": medians,
        "runs": runs,
    }


@click.command(help="Measure what the log-probabilities of tokens cost.")
@click.option("--requests", type=click.IntRange(min=1), default=1000, show_default=True)
@click.option("--turns", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=Path("results/token-logprobs-cpu.json"))
def main(requests: int, turns: int, out: Path) -> None:
    result = asyncio.run(measure(requests, turns))
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    click.echo(json.dumps(result["median"], indent=1))


if __name__ == "__main__":
    main()
