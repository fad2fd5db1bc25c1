"""Are greedy outputs right under each engine setting? Compared, token by token, with an uncompiled engine (`enforce_eager`).

    PYTHONPATH=src:. python benchmarks/equal_outputs.py --out results/equal-outputs-h200.json

Real weights, held-out phrasebook messages, one engine after the other. A batch changes the shapes of matrix products and so the
order of floating-point sums: where two tokens are almost equally likely the choice can change, and a later token with it. So not
every output is equal under any setting, and equality alone says little. What counts is the first token that differs: the margin
there, in nat, between the two tokens that the uncompiled engine found most likely. Rounding moves small margins only; a setting
under which sure tokens differ computes something else.

The uncompiled engine runs first, with `REFERENCE_IN_FLIGHT` sequences in flight, and reports the log-probabilities of its two best
tokens at each step. Every setting then runs all texts at each number in flight. A setting fails where, at any number in flight,

- the 95% interval (Wilson 1927) of its share of outputs that differ first at a margin over `SURE_NAT` lies above that of vLLM's
  default, of all outputs or of those that differ, or
- its chrF against the references is more than `MOST_CHRF_LOST` below the default's, where at least `FEWEST_FOR_CHRF` texts ran:
  of fewer, one output that differs moves chrF by as much.

Settings that change translations by intent (fp8) are measured and exempt. Exit code 1 names the settings that failed. What `--out`
holds of the same model, texts and machine is kept, and only the other settings are measured: an interrupted run continues.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from math import sqrt
from pathlib import Path
from typing import Any

from rich.table import Table
from tools.phrasebook.generator import Generator

from dragoman.cli.console import console, error_console
from dragoman.engine import checkpoint, process
from dragoman.engine.spec import device, resolve, vllm_version
from dragoman.errors import EngineDead
from dragoman.gpu import find_gpus
from dragoman.phrasebook import LANGUAGES
from dragoman.service import stack
from dragoman.settings import EngineSettings, ModelSettings
from dragoman_bench.bench.measurement import Measurement

SURE_NAT = 0.5
MOST_CHRF_LOST = 0.3
FEWEST_FOR_CHRF = 500
REFERENCE_IN_FLIGHT = 64
DEFAULT = "vllm-default"
EXAMPLES = 5
Z_95 = 1.959964


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


@dataclass(frozen=True)
class Setting:
    """`engine`: changes to `EngineSettings`; `vllm`: arguments by vLLM's names, for what is not a setting of ours."""

    engine: dict[str, Any] = field(default_factory=dict)
    vllm: dict[str, Any] = field(default_factory=dict)
    lossy: bool = False
    gpu_only: bool = True


def settings(options: argparse.Namespace) -> dict[str, Setting]:
    """By name. `vllm-default` is the first, as the others are compared with it."""
    pieces = {"cudagraph_mode": "FULL_AND_PIECEWISE"}  # vLLM's own, with the attention backend that it chooses
    plain = {"max_cudagraph_capture_size": 512, **pieces} if options.device == "cuda" else {}
    found = {
        DEFAULT: Setting(plain, gpu_only=False),
        "dragoman": Setting(),
        "cudagraph-FULL_AND_PIECEWISE": Setting(pieces),
    }
    for ceiling in options.ceilings:
        found[f"graphs-{ceiling}"] = Setting({"max_cudagraph_capture_size": ceiling})
    found["no-prefix-caching"] = Setting({"enable_prefix_caching": False}, gpu_only=False)
    for backend in options.attention_backends:
        name, _, version = backend.partition(":")
        chosen = {"backend": name} | ({"flash_attn_version": int(version)} if version else {})
        found[f"attention-{backend}"] = Setting(pieces, {"attention_config": chosen})
    for mode in options.cudagraph_modes:
        found[f"cudagraph-{mode}"] = Setting(pieces, {"compilation_config": {"cudagraph_mode": mode}})
    for name, arguments in options.vllm:
        found[name] = Setting(pieces if options.device == "cuda" else {}, arguments, gpu_only=False)
    found["quantization-fp8"] = Setting({"quantization": "fp8"}, lossy=True)
    found["kv-cache-fp8"] = Setting({"kv_cache_dtype": "fp8"}, lossy=True, gpu_only=False)
    found = {name: one for name, one in found.items() if options.device == "cuda" or not one.gpu_only}
    if unknown := set(options.settings) - set(found):
        raise SystemExit(f"unknown settings {', '.join(sorted(unknown))}: choose from {', '.join(found)}")
    return {name: one for name, one in found.items() if not options.settings or name in (*options.settings, DEFAULT)}


@dataclass(frozen=True)
class Text:
    source: str
    target: str
    text: str
    expected: str


def held_out(count: int, seed: int) -> list[Text]:
    """Messages of one to three sentences that the model has not seen, all directions in turn."""
    generator = Generator("heldout", seed)
    directions = [(source, target) for source in LANGUAGES for target in LANGUAGES if source != target]
    made: list[Text] = []
    for number in range(count):
        source, target = directions[number % len(directions)]
        texts = dict(generator.message(1 + number % 3).texts)
        made.append(Text(source, target, texts[source], texts[target]))
    return made


@dataclass
class Output:
    """`margins`: at each token, the log-probability of the best less that of the second, in nat; of a reference alone."""

    token_ids: list[int]
    text: str
    margins: list[float] = field(default_factory=list)


class Engine:
    """One running engine, and the same prompts for each."""

    def __init__(self, options: argparse.Namespace, name: str, setting: Setting) -> None:
        from dragoman.engine.async_engine import AsyncEngine

        wanted = EngineSettings(
            max_num_seqs=max(options.in_flight),
            max_model_len=1024,
            gpu_memory_utilization=options.gpu_memory_utilization,
            kv_cache_memory_bytes=(4 if options.device == "cuda" else 1) << 30,  # so that several can start on one GPU
        )
        spec = resolve(options.model, replace(wanted, **setting.engine), options.device)
        self.settings = spec.engine
        self._log = options.logs / f"{name}.engine.log"
        self._engine = AsyncEngine(spec, self._log, vllm_arguments=setting.vllm)

    async def __aenter__(self) -> Engine:
        await self._engine.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._engine.shutdown()

    async def outputs(
        self, prompts: Sequence[tuple[int, ...]], in_flight: int, *, logprobs: bool = False
    ) -> list[Output]:
        """Of all prompts, in an order that depends on `in_flight`, with so many in flight all the time."""
        from vllm import SamplingParams
        from vllm.inputs import tokens_input
        from vllm.sampling_params import RequestOutputKind

        llm = self._engine._engine
        await llm.reset_prefix_cache()
        order = list(range(len(prompts)))
        random.Random(in_flight).shuffle(order)
        waiting, found = deque(order), [Output([], "") for _ in prompts]

        async def client() -> None:
            while waiting:
                number = waiting.popleft()
                prompt = list(prompts[number])
                params = SamplingParams(
                    temperature=0.0,
                    max_tokens=min(3 * len(prompt) + 64, 1000 - len(prompt)),
                    logprobs=2 if logprobs else None,
                    output_kind=RequestOutputKind.FINAL_ONLY,
                )
                async for answer in llm.generate(tokens_input(prompt), params, f"{in_flight}.{number}.{logprobs}"):
                    whole = answer.outputs[0]
                    margins = [_margin(step) for step in whole.logprobs or ()]
                    found[number] = Output(list(whole.token_ids), whole.text, margins)

        await asyncio.gather(*(client() for _ in range(in_flight)))
        return found


def _margin(step: dict[int, Any]) -> float:
    best, second = sorted((one.logprob for one in step.values()), reverse=True)[:2]
    return round(best - second, 5)


def first_difference(reference: list[int], other: list[int]) -> int | None:
    """The index of the first token that differs, the end of the shorter included; None: they are equal."""
    for place, (expected, found) in enumerate(zip(reference, other, strict=False)):
        if expected != found:
            return place
    return None if len(reference) == len(other) else min(len(reference), len(other))


def wilson(count: int, of: int, z: float = Z_95) -> tuple[float, float]:
    """The interval of a share (Wilson 1927); 0 to 1 where there is nothing."""
    if not of:
        return 0.0, 1.0
    share, z2 = count / of, z * z / of
    middle, half = (share + z2 / 2) / (1 + z2), z / (1 + z2) * sqrt(share * (1 - share) / of + z2 / of / 4)
    return round(max(0.0, middle - half), 5), round(min(1.0, middle + half), 5)


def share(count: int, of: int) -> dict[str, Any]:
    return {"count": count, "of": of, "share": round(count / of, 5) if of else None, "interval_95": wilson(count, of)}


def compared(
    texts: Sequence[Text], reference: Sequence[Output], found: Sequence[Output], in_flight: int
) -> dict[str, Any]:
    """One setting's outputs at one number in flight. A margin that is unknown counts as over `SURE_NAT`."""
    margins: list[float] = []
    examples: list[dict[str, Any]] = []
    for text, expected, other in zip(texts, reference, found, strict=True):
        place = first_difference(expected.token_ids, other.token_ids)
        if place is None:
            continue
        margin = expected.margins[place] if place < len(expected.margins) else float("inf")
        margins.append(margin)
        if margin > SURE_NAT and len(examples) < EXAMPLES:
            examples.append(
                {"text": text.text, "eager": expected.text, "found": other.text, "token": place, "margin_nat": margin}
            )
    sure = sum(margin > SURE_NAT for margin in margins)
    chrf = import_module("sacrebleu.metrics").CHRF()
    score = chrf.corpus_score([one.text for one in found], [[text.expected for text in texts]]).score
    return {
        "in_flight": in_flight,
        "texts": len(texts),
        "equal": share(len(texts) - len(margins), len(texts)),
        "sure_of_different": share(sure, len(margins)),
        "sure_of_texts": share(sure, len(texts)),
        "largest_margin_nat": max(margins, default=None),
        "chrf": round(float(score), 3),
        "examples": examples,
    }


def verdict(row: dict[str, Any], default: dict[str, Any]) -> tuple[str, list[str]]:
    """`passed`, `failed`, `exempt` or `not measured`, and why it failed."""
    if "loads" not in row or "loads" not in default:
        return "not measured", [row.get("error", "vLLM's default was not measured")]
    reasons: list[str] = []
    by_load = {one["in_flight"]: one for one in default["loads"]}
    for load in row["loads"]:
        other = by_load.get(load["in_flight"])
        if other is None or load["texts"] != other["texts"]:
            continue
        for name, of in (("sure_of_different", "outputs that differ"), ("sure_of_texts", "outputs")):
            if load[name]["interval_95"][0] > other[name]["interval_95"][1]:
                reasons.append(
                    f"with {load['in_flight']} in flight {load[name]['share']:.1%} of the {of} differ first where the margin is "
                    f"over {SURE_NAT} nat, and {other[name]['share'] or 0:.1%} with vLLM's default"
                )
        if load["texts"] >= FEWEST_FOR_CHRF and load["chrf"] < other["chrf"] - MOST_CHRF_LOST:
            reasons.append(
                f"with {load['in_flight']} in flight chrF is {load['chrf']:.2f}, and {other['chrf']:.2f} by default"
            )
    return ("exempt" if row["lossy"] else "failed" if reasons else "passed"), reasons


class Comparison:
    """What is measured, into one document that is written after every engine."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.texts = held_out(options.texts, options.seed)
        encoder, _ = stack.load_prompts(options.chosen)
        self.prompts = [encoder.encode(one.text, one.source, one.target).token_ids for one in self.texts]
        gpus = find_gpus()
        inputs = {
            "files": [[file.name, file.stat().st_size] for file in sorted(Path(options.model).glob("*"))]
            or checkpoint.revision(options.model),
            "texts": options.texts,
            "alone": options.alone,
            "seed": options.seed,
            "in_flight": options.in_flight,
            "device": [asdict(one) for one in gpus.describe()] if gpus and options.device == "cuda" else ["cpu"],
            "vllm": vllm_version(),
        }
        limits = {"sure_nat": SURE_NAT, "most_chrf_lost": MOST_CHRF_LOST, "reference_in_flight": REFERENCE_IN_FLIGHT}
        given = {"model": options.chosen.name, "inputs": json.loads(json.dumps(inputs))}
        self.found = Measurement.begin("equal-outputs", **limits, **given)
        self.settings: dict[str, Any] = self.found.data.setdefault("settings", {})
        self._reference_file: Path = options.logs / "reference.json"
        self._continue()

    def _continue(self) -> None:
        """With the settings that `--out` holds of the same inputs."""
        if self.options.fresh or self.options.out is None or not self.options.out.is_file():
            return
        before = Measurement.read(self.options.out)
        if before.conditions["inputs"] == self.found.conditions["inputs"]:
            self.settings |= {name: row for name, row in before.data["settings"].items() if "loads" in row}

    async def reference(self) -> list[Output]:
        """The uncompiled engine's outputs with their margins; those of an earlier run with the same inputs are read again."""
        inputs = self.found.conditions["inputs"]
        if self._reference_file.is_file() and not self.options.fresh:
            kept = json.loads(self._reference_file.read_text(encoding="utf-8"))
            if kept["inputs"] == inputs:
                return [Output(**one) for one in kept["outputs"]]
        error_console.print("eager: the reference")
        eager = Setting({"enforce_eager": True})
        async with Engine(self.options, "eager", eager) as engine:
            outputs = await engine.outputs(self.prompts, REFERENCE_IN_FLIGHT, logprobs=True)
            if "eager" not in self.settings:
                await self._measure("eager", eager, engine, outputs)
        self._reference_file.write_text(
            json.dumps({"inputs": inputs, "outputs": [asdict(one) for one in outputs]}), encoding="utf-8"
        )
        return outputs

    async def _measure(self, name: str, setting: Setting, engine: Engine, reference: list[Output]) -> None:
        row: dict[str, Any] = {
            "lossy": setting.lossy,
            "engine": asdict(engine.settings),
            "vllm": setting.vllm,
            "loads": [],
        }
        for in_flight in self.options.in_flight:
            count = self.options.alone if in_flight == 1 else len(self.texts)
            found = await engine.outputs(self.prompts[:count], in_flight)
            load = compared(self.texts[:count], reference[:count], found, in_flight)
            row["loads"].append(load)
            error_console.print(
                f"{name}, {in_flight} in flight: {load['equal']['count']} of {count} equal, chrF {load['chrf']}"
            )
        self.settings[name] = row

    async def run(self) -> None:
        reference = await self.reference()
        for name, setting in settings(self.options).items():
            if name in self.settings:
                continue
            error_console.print(name)
            try:
                async with Engine(self.options, name, setting) as engine:
                    await self._measure(name, setting, engine, reference)
            except EngineDead as error:
                self.settings[name] = {
                    "lossy": setting.lossy,
                    "vllm": setting.vllm,
                    "error": error.message[:2000],
                }
                error_console.print(f"{name} did not start: see {self.options.logs / name}.engine.log")
            self.judge()
            self.found.write(self.options.out)

    def judge(self) -> list[str]:
        """Adds the verdicts; the names of the settings that failed."""
        rows = self.settings
        for row in rows.values():
            row["verdict"], row["reasons"] = verdict(row, rows.get(DEFAULT, {}))
        return [name for name, row in rows.items() if row["verdict"] == "failed"]

    def table(self) -> Table:
        columns = ("setting", "in flight", "equal", f">{SURE_NAT:g} nat", "95% interval", "chrF", "verdict")
        table = Table(
            title="Greedy outputs against an uncompiled engine's; of those that differ, first at a margin over 0.5 nat"
        )
        for column in columns:
            table.add_column(column, justify="left" if column in ("setting", "verdict") else "right", no_wrap=True)
        for name, row in self.settings.items():
            if "loads" not in row:
                table.add_row(name, "", "", "", "", "", row["verdict"])
            for number, load in enumerate(row.get("loads", ())):
                sure = load["sure_of_different"]
                low, high = sure["interval_95"]
                table.add_row(
                    "" if number else name,
                    str(load["in_flight"]),
                    f"{load['equal']['count']}/{load['texts']}",
                    f"{sure['count']}/{sure['of']}",
                    f"{low:.1%}..{high:.1%}" if sure["of"] else "",
                    f"{load['chrf']:.2f}",
                    "" if number else row["verdict"],
                )
            table.add_section()
        return table


def names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default="", help="default: the packaged model")
    parser.add_argument("--texts", type=int, default=1024)
    parser.add_argument("--alone", type=int, default=96, help="texts with one in flight")
    parser.add_argument("--in-flight", type=numbers, default=[1, 64, 256, 512])
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--settings", type=names, default=[], help="names, separated by commas; default: all")
    parser.add_argument(
        "--ceilings", type=numbers, default=[256, 2048], help="of max_cudagraph_capture_size, beside ours"
    )
    parser.add_argument(
        "--attention-backends",
        type=names,
        default=["FLASH_ATTN:2", "FLASHINFER", "TRITON_ATTN"],
        help="of vLLM, FLASH_ATTN with its version",
    )
    parser.add_argument(
        "--cudagraph-modes",
        type=names,
        default=[],
        help="of vLLM with its own attention backend, such as FULL,PIECEWISE,FULL_DECODE_ONLY",
    )
    parser.add_argument(
        "--vllm",
        type=named_arguments,
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="a further setting, by vLLM's arguments; may be repeated",
    )
    parser.add_argument("--gpu-memory-utilization", type=float, default=0.3)
    parser.add_argument("--logs", type=Path, default=Path(".dragoman/equal-outputs"))
    parser.add_argument("--fresh", action="store_true", help="measure all again")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.device = device()
    options.chosen = stack.choose_model(ModelSettings(path=options.model))
    options.model = options.chosen.path
    options.logs = options.logs.resolve()
    process.log_to_file(options.logs / "vllm.log")
    settings(options)  # unknown names are reported before an engine starts
    comparison = Comparison(options)
    comparison.found.run(comparison.run())
    failed = comparison.judge()
    comparison.found.write(options.out)
    console.print(comparison.table())
    for name in failed:
        for reason in comparison.settings[name]["reasons"]:
            console.print(f"{name}: {reason}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
