"""`dragoman doctor`: reports what this machine can run, and why. Does not start an engine."""

from __future__ import annotations

import asyncio
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import click
import psutil
from rich.table import Table
from rich.text import Text

from dragoman.api.server import listen
from dragoman.cli.console import console
from dragoman.cli.models import weights
from dragoman.cli.options import SettingsCommand, settings_options
from dragoman.deploy import config
from dragoman.engine import capacity, checkpoint
from dragoman.engine.spec import (
    LEAST_RECORDED,
    NO_COMPILER,
    cpp_compiler,
    cpu_flags,
    cpu_instruction_sets,
    device,
    nvidia_gpu_present,
    vllm_version,
)
from dragoman.errors import ConfigError, DragomanError
from dragoman.gpu import find_gpus
from dragoman.prompts import catalog
from dragoman.service import stack
from dragoman.settings import WITHOUT_ENGINE, Loaded, Settings
from dragoman.telemetry.traffic.summary import long_sequence
from dragoman.wire import RemoteEngineStats

State = Literal["ok", "warn", "fail"]
_MARKS: dict[State, tuple[str, str]] = {"ok": ("ok", "green"), "warn": ("--", "yellow"), "fail": ("no", "red")}
SUPPORTED_VLLM = ((0, 26), (0, 33))
_SUPPORTED = " to ".join(f"{major}.{minor}" for major, minor in SUPPORTED_VLLM)
BLOCK_FP8 = (
    "its weights are fp8 with a scale for each block, which vLLM may compute more slowly than bf16: compare both with "
    "`dragoman bench`, if the memory allows"
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One line of the report: what was checked, its state, and details."""

    what: str
    state: State
    details: str


def _python() -> Diagnosis:
    version = sys.version_info
    fits = (3, 11) <= version[:2] <= (3, 13)
    details = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return Diagnosis("Python", "ok" if fits else "fail", details if fits else f"{details}; dragoman needs 3.11 to 3.13")


def _memory() -> Diagnosis:
    memory = psutil.virtual_memory()
    details = f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free, {os.cpu_count()} cores"
    return Diagnosis("Memory", "ok" if memory.available > 3 << 30 else "warn", details)


def _gpu() -> Diagnosis:
    if not nvidia_gpu_present():
        return Diagnosis("GPU", "warn", "no NVIDIA GPU: the engine runs on the CPU (small models only)")
    query = ["nvidia-smi", "--query-gpu=name,memory.total,memory.free,driver_version", "--format=csv,noheader"]
    try:
        gpus = subprocess.run(query, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return Diagnosis("GPU", "fail", f"present, but nvidia-smi does not answer: {error}")
    return Diagnosis("GPU", "ok", "; ".join(gpus.splitlines()))


def _replicas(settings: Settings) -> Diagnosis:
    gpus = find_gpus()
    if gpus is None or not gpus.describe():
        return Diagnosis("Replicas", "warn", "the GPU cannot be read: --replicas auto starts one server")
    try:
        choice = config.sharing_choice(settings, gpus)
    except DragomanError as error:
        return Diagnosis("Replicas", "warn", error.message)
    return Diagnosis("Replicas", "ok", f"--replicas auto: {choice.engines} on each GPU: {choice.reason}")


def _vllm() -> Diagnosis:
    installed = vllm_version()
    if installed is None:
        return Diagnosis(
            "vLLM",
            "fail",
            "not installed: `make setup`, or the wheel with the extra cpu or cuda as in docs/installing.md",
        )
    name, version = installed
    number = tuple(int(part) for part in version.split(".")[:2])
    torch = _version_of("torch")
    details = f"{name} {version}, torch {torch}; the engine runs on {device()}"
    if not SUPPORTED_VLLM[0] <= number <= SUPPORTED_VLLM[1]:
        return Diagnosis("vLLM", "warn", f"{details}; dragoman is tested with {_SUPPORTED}")
    if nvidia_gpu_present() and device() == "cpu":
        return Diagnosis("vLLM", "warn", f"{details}, though there is a GPU: install dragoman[cuda]")
    return Diagnosis("vLLM", "ok", details)


def _version_of(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "missing"


def _cpu() -> Diagnosis:
    if cpu_flags() is None:
        return Diagnosis("CPU", "warn", "its instruction sets are unknown on this system; the engine runs in float32")
    found = ", ".join(cpu_instruction_sets()) or "none of those that engines use"
    return Diagnosis("CPU", "ok", f"{platform.machine()}, {os.cpu_count()} cores, instruction sets: {found}")


def _compiler() -> Diagnosis:
    found = cpp_compiler()
    return Diagnosis("C++ compiler", "ok", found) if found else Diagnosis("C++ compiler", "warn", NO_COMPILER)


def _model(settings: Settings) -> Diagnosis:
    try:
        model = stack.choose_model(settings.model, trust_remote_code=settings.engine.trust_remote_code)
        spec = stack.engine_spec(settings)
    except DragomanError as error:
        return Diagnosis("Model", "fail", error.message)
    kv = f", {spec.kv_bytes_per_token / 1024:.0f} KiB of KV cache a token" if spec.kv_bytes_per_token else ""
    details = (
        f"{model.name}: profile {model.profile.name}, weights {weights(model.profile)}, dtype {spec.engine.dtype}, "
        f"window of {spec.engine.max_model_len} tokens{kv}"
    )
    if checkpoint.has_block_fp8(checkpoint.read_config(model.path)):
        return Diagnosis("Model", "warn", f"{details}; {BLOCK_FP8}")
    slow = [warning for warning in spec.warnings if warning != NO_COMPILER]
    return Diagnosis("Model", "warn", f"{details}; {slow[0]}") if slow else Diagnosis("Model", "ok", details)


async def engines(settings: Settings) -> list[Diagnosis]:
    """What each engine elsewhere is, and what it has not that one of this process has."""
    try:
        pipeline = stack.build_pipeline(settings, stack.engine_spec(settings))
        await pipeline.start()
    except DragomanError as error:
        return [Diagnosis("Engine", "fail", error.message)]
    try:
        return [_engine(one) for one in pipeline.stats().remote]
    finally:
        await pipeline.shutdown()


def _engine(engine: RemoteEngineStats) -> Diagnosis:
    if engine.fault:
        return Diagnosis("Engine", "warn", f"{engine.url}: {engine.fault}")
    window = f"window of {engine.window} tokens" if engine.window else "its window is not known"
    details = (
        f"{engine.url}: {engine.software or 'unknown software'}, {engine.model}, {window}, {engine.slots} sequences"
    )
    if not engine.lacks:
        return Diagnosis("Engine", "ok", details)
    return Diagnosis("Engine", "warn", f"{details}; it lacks {', '.join(engine.lacks)} (docs/engines.md)")


def _port(settings: Settings) -> Diagnosis:
    server = settings.server
    try:
        listen(server.host, server.port).close()
    except DragomanError as error:
        return Diagnosis("Port", "fail", error.message)
    return Diagnosis("Port", "ok", f"{server.host}:{server.port} is free")


def _table_of_models(settings: Settings, gpu_gib: float | None) -> Table:
    """List the published models of the profiles with the sequences that run at once in a GPU's memory.

    `gpu_gib`: of another GPU than this machine's smallest. Raises `ConfigError` without either.
    """
    if gpu_gib is None:
        gpus = find_gpus()
        if gpus is None or not (found := gpus.describe()):
            raise ConfigError("there is no GPU here: name the memory of one with --gpu-gib")
        gpu_gib = min(gpu.memory_mib for gpu in found) / 1024
    share = settings.engine.gpu_memory_utilization
    tokens = long_sequence(Path(settings.traffic.folder), LEAST_RECORDED)
    lengths = f"{tokens} tokens (99th percentile of the recorded traffic)" if tokens else "512 tokens"
    table = Table(box=None, pad_edge=False, title_justify="left", title_style="")
    table.title = f"Sequences of {lengths} at once in {share:g} of {gpu_gib:.0f} GiB; estimates, -: does not fit"
    table.add_column("profile")
    table.add_column("model", no_wrap=True)
    for name in capacity.WEIGHT_BYTES:
        table.add_column(name, justify="right")
    for profile in catalog.profiles().values():
        sizes = {model.parameters_b: model.id for model in reversed(profile.models)}
        for parameters_b, model in sorted(sizes.items()):
            counts = [
                capacity.sequences(parameters_b, each, share * gpu_gib * 2**30, tokens or capacity.SEQUENCE_TOKENS)
                for each in capacity.WEIGHT_BYTES.values()
            ]
            shown = [f"{count}+" if count == capacity.MOST_SEQUENCES else str(count or "-") for count in counts]
            table.add_row(profile.name, model, *shown)
    return table


@click.command("doctor", cls=SettingsCommand)
@settings_options("server", "auth", "model", "engine", "remote", "traffic")
@click.option("--models", is_flag=True, help="List which published models fit this GPU, with how many sequences.")
@click.option("--gpu-gib", type=click.FloatRange(min=0, min_open=True), help="With --models: memory of another GPU.")
def command(loaded: Loaded, models: bool, gpu_gib: float | None) -> None:
    """Report what this machine can run, and why. Exit code 1 if the server could not start as configured."""
    if models:
        console.print(_table_of_models(loaded.settings, gpu_gib))
        return
    is_here = loaded.settings.pipeline.name not in WITHOUT_ENGINE
    of_engine = (_gpu, *((_cpu, _compiler) if device() == "cpu" else ()), _vllm)
    checks: tuple[Callable[[], Diagnosis], ...] = (
        _python,
        _memory,
        *(of_engine if is_here else ()),
        lambda: _model(loaded.settings),
        *((lambda: _replicas(loaded.settings),) if is_here and device() == "cuda" else ()),
        lambda: _port(loaded.settings),
    )
    findings = [check() for check in checks]
    if loaded.settings.pipeline.name == "remote" and all(one.state != "fail" for one in findings):
        findings += asyncio.run(engines(loaded.settings))
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        table.add_row(Text(*_MARKS[finding.state]), finding.what, finding.details)
    console.print(table)
    if any(finding.state == "fail" for finding in findings):
        sys.exit(1)
