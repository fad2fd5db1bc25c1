"""What a request costs, with a feature of the engine and without: `python -m benchmarks.request_cpu --feature groups --out FILE`.

    logprobs   the log-probability of each token (`engine.token_logprobs`), in one engine
    groups     the outputs of whole answers in groups (`engine/scheduler.py`); each run has an engine of its own

The packaged model's own load-test sentences go to a real engine, 32 at a time, with the feature and without in turn. For each run:
CPU time a request of this process and of vLLM's, and requests a second. On a GPU the latter shows the step time too. With
`--tokens N` each output has N tokens, and weights are random.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import statistics
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import click
import psutil

from dragoman.engine import process
from dragoman.engine.spec import device, resolve
from dragoman.phrasebook import model_dir, sentences_file
from dragoman.service.stack import choose_model, load_prompts
from dragoman.settings import EngineSettings, ModelSettings
from dragoman.types import EngineSequence
from dragoman_bench.bench.measurement import Measurement

IN_FLIGHT = 32
WARM_UP = 50  # requests of each new engine that are not counted


def _cpu_s() -> tuple[float, float]:
    """CPU seconds so far of this process, and of those that it started."""
    own = psutil.Process(os.getpid())
    children = [one.cpu_times() for one in own.children(recursive=True)]
    times = own.cpu_times()
    return times.user + times.system, sum(one.user + one.system for one in children)


def _sequences(count: int) -> list[EngineSequence]:
    model = choose_model(ModelSettings())
    encoder, _ = load_prompts(model)
    with gzip.open(sentences_file(), "rt", encoding="utf-8") as stream:
        english = [json.loads(line)[0] for line in islice(stream, count)]
    return [
        EngineSequence(str(number), encoder.encode(text, "en", "ja").token_ids, 200, sampling=encoder.sampling)
        for number, text in enumerate(english)
    ]


async def _run(engine: Any, sequences: list[EngineSequence], turn: int) -> dict[str, float]:
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def one(sequence: EngineSequence) -> None:
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


async def measure(feature: str, requests: int, turns: int, tokens: int | None) -> Measurement:
    """Runs with and without, in turn."""
    from dragoman.engine.async_engine import AsyncEngine

    load_format = "auto" if tokens is None else "dummy"
    spec = resolve(str(model_dir()), EngineSettings(max_num_seqs=IN_FLIGHT, load_format=load_format), device())
    log_file = Path(".dragoman/request-cpu.log")
    process.log_to_file(log_file)
    sequences = _sequences(requests)
    if tokens is not None:
        sequences = [replace(one, max_tokens=tokens, forced=True) for one in sequences]
    runs: dict[str, list[dict[str, float]]] = {"without": [], "with": []}
    engine: AsyncEngine | None = None
    try:
        for turn in range(2 * turns):
            name = ("without", "with", "with", "without")[turn % 4]
            if engine is not None and feature == "groups":
                await engine.shutdown()
                engine = None
            if engine is None:
                vllm = {"scheduler_cls": None} if (feature, name) == ("groups", "without") else None
                engine = AsyncEngine(spec, log_file, vllm_arguments=vllm)
                await engine.start()
                await _run(engine, sequences[:WARM_UP], -1)
            if feature == "logprobs":
                engine.with_logprobs = name == "with"
            runs[name].append(await _run(engine, sequences, turn))
            click.echo(f"{name}: {runs[name][-1]}", err=True)
    finally:
        if engine is not None:
            await engine.shutdown()
    medians = {
        name: {key: statistics.median(one[key] for one in some) for key in some[0]} for name, some in runs.items()
    }
    chosen = {"feature": feature, "requests_per_run": requests, "tokens": tokens, "in_flight": IN_FLIGHT}
    found = Measurement.begin("request-cpu", device=spec.device, **chosen)
    found.data = {"median": medians, "runs": runs}
    return found


@click.command(help="Measure what a feature of the engine costs a request.")
@click.option("--feature", type=click.Choice(["logprobs", "groups"]), required=True)
@click.option("--requests", type=click.IntRange(min=1), default=1000, show_default=True)
@click.option("--turns", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--tokens", type=click.IntRange(min=1), help="Of each output; weights are random then.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True)
def main(feature: str, requests: int, turns: int, tokens: int | None, out: Path) -> None:
    result = asyncio.run(measure(feature, requests, turns, tokens))
    result.write(out)
    click.echo(json.dumps(result.data["median"], indent=1))


if __name__ == "__main__":
    main()
