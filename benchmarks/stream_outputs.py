"""Do streams translate as whole answers do? Each text is answered and streamed, twice each, with the same number in flight.

    PYTHONPATH=src:. python benchmarks/stream_outputs.py --out results/stream-outputs-cpu.json

Greedy outputs of one engine differ from run to run, as a batch decides the order of floating-point sums. So answers are
compared with answers, and streams with answers: at each number in flight the share of texts that differ must not be higher
for streams (their 95% interval, Wilson 1927, must not lie above that of answers). The engine alone generates: nothing checks
an output, and nothing is tried again. Texts are held-out messages; with `--load-format dummy` weights are random and the
outputs' lengths forced. Each delta of a stream is counted, and together they must be the completion's text. Exit code 1:
streams differ more often, or a stream's deltas are not its text.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from equal_outputs import held_out, share
from in_process import numbers, run_until_interrupted, write
from rich.table import Table

from dragoman.cli.console import console, error_console
from dragoman.engine import process
from dragoman.engine.spec import device, resolve
from dragoman.gpu import find_gpus
from dragoman.service import stack
from dragoman.settings import EngineSettings, ModelSettings
from dragoman.types import Completion, EngineSequence
from dragoman_bench.bench.results import describe_machine, git_commit, installed_packages

RUNS = ("answers", "streams", "answers again", "streams again")


async def run(engine: Any, sequences: Sequence[EngineSequence], in_flight: int, name: str) -> dict[str, Any]:
    """All texts with so many in flight: their texts and token counts, in order, and the number of deltas."""
    await engine._engine.reset_prefix_cache()  # so that each run computes the same
    waiting, outputs = deque(range(len(sequences))), [("", 0)] * len(sequences)
    deltas = unequal = 0

    async def client() -> None:
        nonlocal deltas, unequal
        while waiting:
            number = waiting.popleft()
            sequence = replace(sequences[number], id=f"{in_flight}.{number}.{name}")
            if name.startswith("answers"):
                completion = await engine.generate(sequence)
            else:
                *pieces, completion = [item async for item in engine.stream(sequence)]
                assert isinstance(completion, Completion)
                deltas += len(pieces)
                unequal += "".join(piece.text for piece in pieces) != completion.text
            outputs[number] = completion.text.strip(), completion.completion_tokens

    await asyncio.gather(*(client() for _ in range(in_flight)))
    tokens = sum(tokens for _, tokens in outputs)
    return {"outputs": outputs, "tokens": tokens, "deltas": deltas, "deltas_not_the_text": unequal}


async def measure(options: argparse.Namespace, document: dict[str, Any]) -> None:
    from dragoman.engine.async_engine import AsyncEngine

    model = stack.choose_model(ModelSettings(path=options.model, profile=options.profile))
    encoder, _ = stack.load_prompts(model)
    dummy = options.load_format == "dummy"
    sequences: list[EngineSequence] = []
    for number, text in enumerate(held_out(options.texts, options.seed)):
        tokens = encoder.encode(text.text, "en" if dummy else text.source, "ja" if dummy else text.target).token_ids
        length = 20 + 37 * number % 160 if dummy else min(3 * len(tokens) + 64, 1000 - len(tokens))
        sequences.append(EngineSequence(str(number), tokens, length, forced=dummy))
    wanted = EngineSettings(
        max_num_seqs=max(options.in_flight),
        max_model_len=1024,
        load_format=options.load_format,
        gpu_memory_utilization=options.gpu_memory_utilization,
        stream_interval_ms=options.stream_interval_ms,
    )
    engine = AsyncEngine(resolve(model.path, wanted, device()), options.logs / "engine.log")
    await engine.start()
    try:
        for in_flight in options.in_flight:
            chosen = sequences[: options.alone] if in_flight == 1 else sequences
            found: dict[str, dict[str, Any]] = {}
            for name in RUNS:
                error_console.print(f"{in_flight} in flight: {name}")
                found[name] = await run(engine, chosen, in_flight, name)
            document["loads"].append(compared(found, in_flight, len(chosen)))
            write(document, options.out)
    finally:
        await engine.shutdown()


def compared(found: dict[str, dict[str, Any]], in_flight: int, texts: int) -> dict[str, Any]:
    """How many texts differ between runs."""

    def different(one: str, other: str) -> int:
        return sum(a != b for a, b in zip(found[one]["outputs"], found[other]["outputs"], strict=True))

    answers = share(different("answers", "answers again"), texts)
    pairs = (("answers", "streams"), ("answers again", "streams again"))
    streams = share(sum(different(*pair) for pair in pairs), 2 * texts)
    not_the_text = sum(one["deltas_not_the_text"] for one in found.values())
    more_often = streams["interval_95"][0] > answers["interval_95"][1]
    return {
        "in_flight": in_flight,
        "texts": texts,
        "answers_differ": answers,
        "streams_differ": streams,
        "tokens_per_delta": round(found["streams"]["tokens"] / max(found["streams"]["deltas"], 1), 2),
        "deltas_not_the_text": not_the_text,
        "passed": not more_often and not not_the_text,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model", default="", help="default: the packaged model")
    parser.add_argument("--profile", default="")
    parser.add_argument("--load-format", choices=["auto", "dummy"], default="auto")
    parser.add_argument("--texts", type=int, default=1024)
    parser.add_argument("--alone", type=int, default=64, help="texts with one in flight")
    parser.add_argument("--in-flight", type=numbers, default=[1, 64, 512])
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--stream-interval-ms", type=float, default=EngineSettings().stream_interval_ms)
    parser.add_argument("--gpu-memory-utilization", type=float, default=0.5)
    parser.add_argument("--logs", type=Path, default=Path(".dragoman/stream-outputs"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.logs = options.logs.resolve()
    process.log_to_file(options.logs / "engine.log")
    gpus = find_gpus()
    document: dict[str, Any] = {
        "conditions": {
            "machine": asdict(describe_machine(gpus.describe() if gpus else ())),
            "packages": installed_packages(),
            "git_commit": git_commit(),
            "load_format": options.load_format,
            "stream_interval_ms": options.stream_interval_ms,
            "seed": options.seed,
        },
        "loads": [],
    }
    run_until_interrupted(measure(options, document), document)
    write(document, options.out)
    shown = Table(title="Texts whose outputs differ")
    for name in ("in flight", "answer and answer", "stream and answer", "95% intervals", "tokens/delta", "passed"):
        shown.add_column(name)
    for row in document["loads"]:
        both = (row["answers_differ"], row["streams_differ"])
        counts = [f"{one['count']}/{one['of']}" for one in both]
        intervals = " and ".join("{:.1%}..{:.1%}".format(*one["interval_95"]) for one in both)
        shown.add_row(str(row["in_flight"]), *counts, intervals, str(row["tokens_per_delta"]), str(row["passed"]))
    console.print(shown)
    sys.exit(0 if document["loads"] and all(row["passed"] for row in document["loads"]) else 1)


if __name__ == "__main__":
    main()
