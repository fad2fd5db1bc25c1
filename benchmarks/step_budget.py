"""Where the time of an engine step goes, and how near it is to what the device allows.

    PYTHONPATH=src:. python benchmarks/step_budget.py --model /models/Qwen3-4B --profile tower-plus --out results/step-budget-h200.json

One engine with random weights in this process, without a server, under a closed loop of so many clients. `step_timing.py` records
in vLLM's own processes how long each part of a step takes. The parts of the scheduler's thread add up to the time from one step to
the next: scheduler, launch (preparing inputs and launching kernels), waiting for the device, taking requests over, idle (no
sequence runs), other. Beside these, at the same time: the device's busy time, and the CPU time of handling outputs, in this process
and in the threads of vLLM's process that decode requests and encode outputs.

On a GPU the busy time comes from a second window, in which the kernels are recorded (CUPTI, through torch's profiler); the ratio of
the step's time in both windows is reported as the recording's cost. Launching may include waiting for the step before. On a CPU
the model's own time in the worker is the device's; what is left of the step there is the hand-over between vLLM's processes.

The limit of a step is the larger of two times: its bytes (all weights once, and the KV cache of the sequences that run) at the
bandwidth, and its FLOPs (2 for each weight and token, output layer for each sequence only, attention over the cache) at the
matrix-multiplication rate. Bandwidth and rate are measured first, by torch, on the same device, the bandwidth with a buffer of the
weights' size, as small models stay in a CPU's caches.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import re
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import step_timing
from in_process import (
    InProcess,
    conditions_of,
    engine_setting,
    engine_settings,
    in_process,
    parser_of,
    run_until_interrupted,
    texts_of,
    workload,
    write,
)
from rich.table import Table

from dragoman.cli.console import console, error_console
from dragoman.engine import checkpoint
from dragoman.engine.spec import device, resolve
from dragoman.service import stack
from dragoman.settings import ModelSettings
from dragoman_bench.bench.workload import GeneratedWorkload

PARTS = ("scheduler", "launch", "wait", "input", "idle", "other")
TITLES = {
    "scheduler": "scheduler",
    "launch": "launch",
    "wait": "waiting for the device",
    "input": "taking requests over",
    "idle": "idle",
    "other": "other",
}
KERNELS = {
    "matrix multiplication": r"gemm|nvjet|cutlass|cublas|splitK|triton_.*_mm",
    "attention": r"attention|attn|flash|fmha|reshape_and_cache",
    "logits and sampling": r"softmax|argmax|topk|top_k|sort|gather|logprob|sampl|rank",
    "copies": r"^Memcpy|^Memset",
}
"""Kinds of kernels, by a regular expression that is looked for in the name; the first that fits."""
Times = dict[str, np.ndarray]


@dataclass(frozen=True)
class Shape:
    """Of a dense decoder: what one step reads and computes."""

    layer_weights: int
    output_weights: int
    bytes_per_weight: int
    kv_bytes_per_token: int
    attention_flops_per_token: int  # of the context, for one new token

    @property
    def weight_bytes(self) -> int:
        return (self.layer_weights + self.output_weights) * self.bytes_per_weight

    def limit_s(self, tokens: Any, sequences: Any, context: Any, limits: dict[str, float]) -> tuple[Any, Any]:
        """Of steps: the times of their bytes and of their FLOPs."""
        size = self.weight_bytes + context * self.kv_bytes_per_token
        flops = 2 * (self.layer_weights * tokens + self.output_weights * sequences)
        flops = flops + context * self.attention_flops_per_token
        return size / limits["bytes_per_s"], flops / limits["flops_per_s"]


def shape_of(model: str, dtype: str, kv_bytes_per_token: int | None) -> Shape:
    """Raises SystemExit where the config does not say what is needed."""
    config = checkpoint.read_config(model)
    weights = checkpoint.parameters(model, config)
    if weights is None or kv_bytes_per_token is None:
        raise SystemExit(f"{model}: its config.json does not hold the shapes of a dense decoder")
    output = config["vocab_size"] * config["hidden_size"]
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    return Shape(
        layer_weights=weights - output * (1 if config.get("tie_word_embeddings") else 2),
        output_weights=output,
        bytes_per_weight=checkpoint.BYTES_PER_VALUE[dtype],
        kv_bytes_per_token=kv_bytes_per_token,
        attention_flops_per_token=4 * heads * head_dim * config["num_hidden_layers"],
    )


def device_limits(kind: str, dtype: str, weight_bytes: int) -> dict[str, float]:
    """Measured in a process of its own, whose memory is free again afterwards: the best of several runs each."""
    import torch

    of = torch.device(kind)
    type_ = {"float32": torch.float32, "float16": torch.float16}.get(dtype, torch.bfloat16)
    on_gpu = kind == "cuda"

    def fastest_s(run: Any, repeats: int) -> float:
        times = []
        for _ in range(repeats + 2):
            if on_gpu:
                torch.cuda.synchronize()
            begin_s = time.perf_counter()
            run()
            if on_gpu:
                torch.cuda.synchronize()
            times.append(time.perf_counter() - begin_s)
        return min(times[2:])

    size = min(max(weight_bytes, 1 << 30), 8 << 30) if on_gpu else min(weight_bytes, 2 << 30)
    columns = 4096 if on_gpu else 512
    matrix = torch.ones(size // type_.itemsize // columns, columns, dtype=type_, device=of)
    vector, copy = torch.ones(columns, dtype=type_, device=of), torch.empty_like(matrix)
    moved = matrix.numel() * type_.itemsize
    rates = {
        "matrix_vector": moved / fastest_s(lambda: matrix @ vector, 20),
        "copy": 2 * moved / fastest_s(lambda: copy.copy_(matrix), 20),
        "maximum": moved
        / fastest_s(lambda: matrix.view(torch.int16 if type_.itemsize == 2 else torch.int32).max(), 20),
    }
    side = 8192 if on_gpu else 1536
    left, right = (torch.randn(side, side, device=of).to(type_) for _ in range(2))
    flops = 2 * side**3 / fastest_s(lambda: left @ right, 20)
    return {
        "bytes_per_s": max(rates.values()),
        "flops_per_s": flops,
        **{f"{name}_bytes_per_s": one for name, one in rates.items()},
    }


def read_times(folder: Path, role: str, columns: tuple[str, ...], begin_s: float, end_s: float) -> Times:
    """The rows of calls that began within the window."""
    rows = [np.fromfile(file).reshape(-1, len(columns)) for file in folder.glob(f"{role}-*.f64")]
    if not rows:
        raise SystemExit(f"no times of the {role} were recorded in {folder}: does this vLLM start it in another way?")
    table = np.concatenate(rows)
    table = table[(table[:, 0] >= begin_s) & (table[:, 0] < end_s)]
    return {name: table[:, place] for place, name in enumerate(columns)}


def budget(folder: Path, begin_s: float, end_s: float, *, on_gpu: bool) -> dict[str, Any]:
    """The mean step of a window, in seconds, and the steps themselves for the limit."""
    engine = read_times(folder, "engine", step_timing.ENGINE_COLUMNS, begin_s, end_s)
    worker = read_times(folder, "worker", step_timing.WORKER_COLUMNS, begin_s, end_s)
    steps = engine["tokens"] > 0
    count = int(steps.sum())
    if count < 2:
        raise SystemExit("fewer than two steps were recorded: specify a longer --duration")
    inside = (engine["end_s"] - engine["begin_s"]).sum()
    in_worker = (worker["end_s"] - worker["begin_s"]).sum()
    forward = 0.0 if on_gpu else worker["forward_s"].sum()
    sums = {
        "scheduler": engine["scheduler_s"].sum(),
        "launch": in_worker - forward,
        "input": engine["input_s"].sum(),
        "idle": engine["idle_s"].sum(),
    }
    sums["wait"] = inside - sums["scheduler"] - sums["launch"]
    sums["other"] = (end_s - begin_s) - inside - sums["input"] - sums["idle"]
    sockets = engine["socket_threads_cpu_s"]
    return {
        "steps": count,
        "step_s": (end_s - begin_s) / count,
        "parts_s": {name: float(sums[name]) / count for name in PARTS},
        "device_busy_s": None if on_gpu else float(forward) / count,
        "socket_threads_cpu_s": float(sockets[-1] - sockets[0]) / count,
        "tokens": float(engine["tokens"][steps].mean()),
        "sequences": float(engine["sequences"][steps].mean()),
        "context_tokens": float(engine["context_tokens"][steps].mean()),
        "per_step": tuple(engine[name][steps] for name in ("tokens", "sequences", "context_tokens")),
    }


def kernel_times(by_name: dict[str, float], steps: int, *, named: int = 20) -> dict[str, dict[str, float]]:
    """Of a step, in seconds: the time of each kind of kernels, and of the kernels that take most."""
    kinds = dict.fromkeys((*KERNELS, "other"), 0.0)
    for name, seconds in by_name.items():
        kind = next((kind for kind, pattern in KERNELS.items() if re.search(pattern, name, re.IGNORECASE)), "other")
        kinds[kind] += seconds / steps
    most = sorted(by_name.items(), key=lambda one: -one[1])[:named]
    return {"kernels_s": kinds, "largest_kernels_s": {name: seconds / steps for name, seconds in most}}


class Budgets:
    """Measures each number of clients in turn, into the rows of a document."""

    def __init__(self, options: argparse.Namespace, work: GeneratedWorkload, document: dict[str, Any]) -> None:
        self.options, self.work, self.document = options, work, document
        self.on_gpu = device() == "cuda"
        self.folder: Path = (options.logs / f"times-{os.getpid()}").resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        os.environ[step_timing.FOLDER] = str(self.folder)

    async def run(self) -> None:
        options, model = (
            self.options,
            stack.choose_model(ModelSettings(path=self.options.model, profile=self.options.profile)),
        )
        settings = replace(engine_settings(options), **{"gpu_memory_utilization": 0.85, **dict(options.set)})
        spec = resolve(model.path, settings, device())
        if spec.engine.quantization:
            raise SystemExit("the limit is computed for weights as they are: measure without quantization")
        shape = shape_of(model.path, spec.engine.dtype, spec.kv_bytes_per_token)
        error_console.print("measuring the device's bandwidth and matrix multiplication")
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            arguments = (spec.device, spec.engine.dtype, shape.weight_bytes)
            limits = await asyncio.get_running_loop().run_in_executor(pool, device_limits, *arguments)
        self.document |= {
            "engine": asdict(spec.engine),
            "limits": limits,
            "shape": asdict(shape),
            "timing_cost_s": step_timing.cost_s(),
        }
        error_console.print(f"{limits['bytes_per_s'] / 1e9:.4g} GB/s, {limits['flops_per_s'] / 1e12:.4g} TFLOP/s")
        arguments = {"scheduler_cls": "step_timing.timed_scheduler", "worker_extension_cls": "step_timing.TimedWorker"}
        async with in_process(options, settings, options.logs.resolve() / "engine.log", arguments) as alone:
            await alone.engine._engine.collective_rpc("start_timing")
            for clients in options.clients:
                row = await self._measure(alone, clients, shape, limits)
                self.document["budgets"].append(row)
                error_console.print(
                    f"{clients} clients: {1000 * row['step_s']:.3g} ms a step, {row['share']:.0%} of the limit"
                )
                write(self.document, options.out)

    async def _measure(self, alone: InProcess, clients: int, shape: Shape, limits: dict[str, float]) -> dict[str, Any]:
        options = self.options
        profile_s = options.profile_seconds if self.on_gpu else 0.0
        load_s = options.warmup + options.duration + profile_s + (1.0 if self.on_gpu else 0.0)
        items = self.work.items(texts_of(clients, load_s), clients)
        load = asyncio.create_task(alone.load(items, clients, load_s))
        await asyncio.sleep(options.warmup)
        begin_s, cpu_s = time.monotonic(), time.process_time()
        await asyncio.sleep(options.duration)
        end_s, cpu_s = time.monotonic(), time.process_time() - cpu_s
        kernels = await self._kernels(alone, profile_s)
        await load
        await asyncio.sleep(1.0)  # the engine writes what it has when it becomes idle
        row = budget(self.folder, begin_s, end_s, on_gpu=self.on_gpu)
        by_bytes_s, by_flops_s = shape.limit_s(*row.pop("per_step"), limits)
        limit_s = float(np.maximum(by_bytes_s, by_flops_s).mean())
        row |= {
            "clients": clients,
            "server_cpu_s": cpu_s / row["steps"],
            "limit_s": limit_s,
            "limit_bytes_s": float(by_bytes_s.mean()),
            "limit_flops_s": float(by_flops_s.mean()),
            "share": limit_s / row["step_s"],
            "timing_share": self.document["timing_cost_s"] / row["step_s"],
        }
        if kernels:
            profiled = budget(self.folder, kernels["begin_s"], kernels["end_s"], on_gpu=True)
            row["device_busy_s"] = kernels["busy_s"] / profiled["steps"]
            row["kernels_per_step"] = kernels["kernels"] / profiled["steps"]
            row |= kernel_times(kernels["by_name"], profiled["steps"])
            row["step_s_while_kernels_are_recorded"] = profiled["step_s"]
        return row

    async def _kernels(self, alone: InProcess, seconds: float) -> dict[str, Any] | None:
        llm = alone.engine._engine
        if not seconds or not all(await llm.collective_rpc("start_device_profile")):
            return None
        begin_s = time.monotonic()
        await asyncio.sleep(seconds)
        end_s = time.monotonic()
        (found,) = await llm.collective_rpc("stop_device_profile")
        return {**found, "begin_s": begin_s, "end_s": end_s}


def table(document: dict[str, Any]) -> Table:
    """A column for each number of clients."""
    rows = document["budgets"]
    made = Table(title="The mean engine step, in milliseconds")
    made.add_column("clients")
    for row in rows:
        made.add_column(str(row["clients"]), justify="right")

    def add(name: str, values: list[float | None], *, last: bool = False) -> None:
        made.add_row(name, *("" if one is None else f"{1000 * one:.3f}" for one in values), end_section=last)

    add("step", [row["step_s"] for row in rows])
    for part in PARTS:
        add(f"  {TITLES[part]}", [row["parts_s"][part] for row in rows], last=part == PARTS[-1])
    add("device busy", [row["device_busy_s"] for row in rows])
    for kind in rows[0].get("kernels_s", ()):
        add(f"  {kind}", [row.get("kernels_s", {}).get(kind) for row in rows])
    add("output handling, this process (CPU)", [row["server_cpu_s"] for row in rows])
    add("output handling, vLLM's process (CPU)", [row["socket_threads_cpu_s"] for row in rows], last=True)
    add("limit by bytes", [row["limit_bytes_s"] for row in rows])
    add("limit by FLOPs", [row["limit_flops_s"] for row in rows])
    made.add_row("share of the limit", *(f"{row['share']:.0%}" for row in rows), end_section=True)
    made.add_row("tokens in a step", *(f"{row['tokens']:.1f}" for row in rows))
    made.add_row("sequences in a step", *(f"{row['sequences']:.1f}" for row in rows))
    return made


def plot(document: dict[str, Any], file: Path) -> None:
    """Two bars for each number of clients: the parts of the step, and beside it the device's busy time; a line at the limit."""
    from matplotlib.figure import Figure

    rows = document["budgets"]
    figure = Figure(figsize=(9, 4.8), layout="constrained")
    axes = figure.add_subplot()
    places, bottom = np.arange(len(rows)), np.zeros(len(rows))
    for part in PARTS:
        heights = np.array([1000 * row["parts_s"][part] for row in rows])
        axes.bar(places - 0.2, heights, 0.38, bottom=bottom, label=TITLES[part])
        bottom += heights
    axes.bar(places + 0.2, [1000 * (row["device_busy_s"] or 0) for row in rows], 0.38, color="0.7", label="device busy")
    limits = [1000 * row["limit_s"] for row in rows]
    axes.hlines(limits, places - 0.42, places + 0.42, colors="black", linestyles="dashed", label="limit of the device")
    for place, row in zip(places, rows, strict=True):
        axes.annotate(
            f"{row['share']:.0%} of the limit", (float(place), 1000 * row["step_s"]), ha="center", va="bottom"
        )
    axes.set_xticks(places, [str(row["clients"]) for row in rows])
    axes.set_xlabel("clients")
    axes.set_ylabel("milliseconds a step")
    figure.legend(fontsize="small", loc="outside right upper")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150)


def main() -> None:
    parser = parser_of(__doc__, ".dragoman/step-budget")
    parser.add_argument(
        "--profile-seconds", type=float, default=2.0, help="of the window in which a GPU's kernels are recorded"
    )
    parser.add_argument(
        "--set", type=engine_setting, action="append", default=[], metavar="NAME=VALUE", help="a setting of the engine"
    )
    parser.add_argument("--plot", type=Path, help="default: beside --out, as PNG")
    on_gpu = device() == "cuda"
    parser.set_defaults(clients=[1, 25, 128, 256] if on_gpu else [1, 8, 25], duration=10.0, warmup=3.0, repeats=1)
    options = parser.parse_args()
    work = workload(options)
    document: dict[str, Any] = {"conditions": conditions_of(options, work), "budgets": []}
    run_until_interrupted(Budgets(options, work, document).run(), document)
    if not document["budgets"]:
        raise SystemExit("nothing was measured")
    document["budgets"].sort(key=lambda row: row["clients"])
    write(document, options.out)
    console.print(table(document))
    cost = fmean(row["timing_share"] for row in document["budgets"])
    console.print(f"Recording takes {1e6 * document['timing_cost_s']:.0f} µs a step, {cost:.2%} of it")
    for row in document["budgets"]:
        if recorded_s := row.get("step_s_while_kernels_are_recorded"):
            console.print(
                f"{row['clients']} clients: a step takes {recorded_s / row['step_s']:.2f} times as long while kernels are recorded"
            )
    file = options.plot or (options.out.with_suffix(".png") if options.out else options.logs / "step-budget.png")
    plot(document, file)
    console.print(f"The plot is in {file}")


if __name__ == "__main__":
    main()
