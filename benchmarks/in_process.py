"""Shared by benchmarks that run an engine in this process, without a server, under a closed loop.

The texts are the journey's variable ones, with forced output lengths and random weights (`load_format=dummy`), so that every
side of a comparison generates the same number of tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

from dragoman import heap
from dragoman.cli.console import error_console
from dragoman.engine.async_engine import AsyncEngine
from dragoman.engine.spec import device, resolve
from dragoman.gpu import find_gpus
from dragoman.service import stack
from dragoman.service.planner import Planner
from dragoman.settings import EngineSettings, ModelSettings
from dragoman.settings import options as all_settings
from dragoman.types import EngineSequence, TranslationRequest
from dragoman_bench.bench.results import describe_machine, git_commit, installed_packages
from dragoman_bench.bench.summary import distribution
from dragoman_bench.bench.workload import (
    GeneratedWorkload,
    Item,
    OutputRatio,
    PhrasebookTexts,
    parse_pairs,
    token_counter,
)
from dragoman_bench.cli.subject import make_subject


def numbers(text: str) -> list[int]:
    """`1,8,25`, as argparse takes it."""
    return [int(part) for part in text.split(",")]


def named_arguments(text: str) -> tuple[str, dict[str, Any]]:
    """`NAME={"attention_config": {"backend": "TRITON_ATTN"}}`, as argparse takes it."""
    name, _, arguments = text.partition("=")
    try:
        found = json.loads(arguments)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=JSON: {error}") from error
    if not name or not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME={{...}}, arguments by vLLM's names")
    return name, found


def parser_of(doc: str, logs: str) -> argparse.ArgumentParser:
    """The shared options; a benchmark sets its own defaults with `set_defaults`."""
    parser = argparse.ArgumentParser(description=doc.split("\n\n")[0])
    parser.add_argument("--model", default="", help="default: the packaged phrasebook's shape")
    parser.add_argument("--profile", default="")
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--clients", type=numbers)
    parser.add_argument("--duration", type=float, help="seconds of a measurement")
    parser.add_argument(
        "--warmup", type=float, help="seconds before each measurement, as each side is idle while another is measured"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--logs", type=Path, default=Path(logs))
    parser.add_argument("--out", type=Path)
    return parser


def conditions_of(options: argparse.Namespace, work: GeneratedWorkload) -> dict[str, Any]:
    gpus = find_gpus()
    return {
        "machine": asdict(describe_machine(gpus.describe() if gpus else ())),
        "packages": installed_packages(),
        "git_commit": git_commit(),
        "workload": work.description,
        "duration_s": options.duration,
        "warmup_s": options.warmup,
        "repeats": options.repeats,
    }


def run_until_interrupted(measuring: Coroutine[Any, Any, None], document: dict[str, Any]) -> None:
    """An interrupt keeps what was measured so far and marks the document as partial."""
    try:
        asyncio.run(measuring)
    except KeyboardInterrupt:
        error_console.print("interrupted: the measurements made so far are kept")
        document["partial"] = True


def write(document: dict[str, Any], path: Path | None) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def workload(options: argparse.Namespace) -> GeneratedWorkload:
    """The journey's variable texts, their outputs forced."""
    subject = make_subject(options.model, options.profile, "dummy", options.max_model_len)
    tokens_of, named = token_counter(Path(subject.tokenizer) if subject.tokenizer else None)
    low, high = subject.lengths["variable"]
    texts = partial(PhrasebookTexts, tokens_of=tokens_of)
    return GeneratedWorkload(
        "variable", low, high, parse_pairs(subject.pairs), texts, tokens_of, named, 0, OutputRatio(0.8, 1.3)
    )


def engine_setting(text: str) -> tuple[str, Any]:
    """`cudagraph_mode=FULL_AND_PIECEWISE`, as argparse takes it."""
    name, _, value = text.partition("=")
    option = all_settings().get(f"engine.{name}")
    if option is None:
        raise argparse.ArgumentTypeError(f"there is no setting engine.{name}")
    return name, option.parse(value, "--set")


def engine_settings(options: argparse.Namespace) -> EngineSettings:
    """Settings of an engine that shares the machine's memory with another one."""
    on_gpu = device() == "cuda"
    return EngineSettings(
        max_num_seqs=256 if on_gpu else 64,
        max_num_batched_tokens=8192 if on_gpu else 2048,
        max_model_len=options.max_model_len or (2048 if options.model else 1024),
        gpu_memory_utilization=0.4 if on_gpu else 0.9,
        kv_cache_memory_bytes=None if on_gpu else 1 << 30,
        load_format="dummy",
    )


class InProcess:
    """The engine alone: prepared sequences are handed over by as many coroutines as there would be clients."""

    def __init__(self, engine: AsyncEngine, planner: Planner) -> None:
        self.engine = engine
        self._planner = planner
        self._runs = itertools.count()

    def sequences(self, items: Sequence[Item]) -> list[list[EngineSequence]]:
        """The sequences of each text: several if the text is cut into segments."""
        made: list[list[EngineSequence]] = []
        for item in items:
            lengths = (item.output_tokens,) if item.output_tokens else None
            request = TranslationRequest((item.text,), item.target, item.source, forced_output_tokens=lengths)
            (job,) = self._planner.jobs(request)
            segments = [segment for segment in job.segments if segment is not None and segment.translatable]
            made.append(
                [
                    self._planner.sequence(job, str(n), self._planner.attempt(job, segment))
                    for n, segment in enumerate(segments)
                ]
            )
        return made

    async def measure(
        self, items: Sequence[Item], clients: int, duration_s: float, *, warmup: Sequence[Item], warmup_s: float
    ) -> dict[str, float]:
        """Texts a second and their latencies in a closed loop, from the first of `items` on. Texts that end after the window
        do not count."""
        upcoming = itertools.cycle(self.sequences(items))
        await self._loop(itertools.cycle(self.sequences(warmup)), clients, warmup_s)
        taken_s = await self._loop(upcoming, clients, duration_s)
        latency = distribution(taken_s)
        if latency is None:
            raise SystemExit(f"no text was finished within {duration_s:g} s: specify a longer --duration")
        return {
            "rps": len(taken_s) / duration_s,
            "p50_s": latency.p50_s,
            "p95_s": latency.p95_s,
            "p99_s": latency.p99_s,
        }

    async def load(self, items: Sequence[Item], clients: int, duration_s: float) -> None:
        """The closed loop of `measure`, without measuring."""
        await self._loop(itertools.cycle(self.sequences(items)), clients, duration_s)

    async def clear_prefix_cache(self) -> None:
        """So that the same texts can be sent again."""
        await self.engine._engine.reset_prefix_cache()

    async def _loop(self, upcoming: Iterator[list[EngineSequence]], clients: int, duration_s: float) -> list[float]:
        run, end = next(self._runs), monotonic() + duration_s
        taken_s: list[float] = []

        async def client(number: int) -> None:
            for turn in itertools.count():
                sent = monotonic()
                if sent >= end:
                    return
                segments = [replace(one, id=f"{run}.{number}.{turn}.{n}") for n, one in enumerate(next(upcoming))]
                await asyncio.gather(*map(self.engine.generate, segments))
                now = monotonic()
                if now < end:
                    taken_s.append(now - sent)

        await asyncio.gather(*(client(number) for number in range(clients)))
        return taken_s


def texts_of(clients: int, seconds: float) -> int:
    """How many distinct texts a measurement needs at most."""
    return max(200, round(min(5 * clients, 75 + 2 * clients) * seconds))


@asynccontextmanager
async def in_process(
    options: argparse.Namespace, engine: EngineSettings, log: Path, vllm_arguments: dict[str, Any] | None = None
) -> AsyncGenerator[InProcess]:
    """A running engine for the model and profile of the options. Raises EngineDead if it does not start.

    `vllm_arguments`: by vLLM's names, for what is not a setting.
    """
    model = stack.choose_model(ModelSettings(path=options.model, profile=options.profile))
    log.parent.mkdir(parents=True, exist_ok=True)
    engine_alone = AsyncEngine(resolve(model.path, engine, device()), log, vllm_arguments=vllm_arguments)
    await engine_alone.start()
    try:
        encoder, lengths = stack.load_prompts(model)
        heap.freeze_heap()  # as the server does: the cost of a large heap is not part of the comparison
        yield InProcess(engine_alone, Planner(encoder, lengths, engine_alone.max_model_len, forced_lengths=True))
    finally:
        await engine_alone.shutdown()


def spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": median(values), "low": min(values), "high": max(values), "repeats": len(values)}


def summary(rows: list[dict[str, Any]], keys: Sequence[str]) -> list[dict[str, Any]]:
    """By clients, each key's median and range."""
    levels = sorted({row["clients"] for row in rows})
    return [
        {"clients": level} | {key: spread([row[key] for row in rows if row["clients"] == level]) for key in keys}
        for level in levels
    ]
