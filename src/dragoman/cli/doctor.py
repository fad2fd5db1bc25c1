"""`dragoman doctor`: what this machine can run, and why. Starts no engine."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Literal

import click
import psutil
from rich.table import Table

from dragoman.api.server import listen
from dragoman.cli.console import console
from dragoman.cli.models import weights
from dragoman.cli.options import settings_options
from dragoman.engine.checkpoint import kv_bytes_per_token, read_config
from dragoman.engine.spec import device, nvidia_gpu_present, vllm_version
from dragoman.errors import DragomanError
from dragoman.service import stack
from dragoman.settings import Loaded, Settings

State = Literal["ok", "warn", "fail"]
_MARKS: dict[State, str] = {"ok": "[green]ok[/]", "warn": "[yellow]--[/]", "fail": "[red]no[/]"}
SUPPORTED_VLLM = ((0, 26), (0, 33))


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: what was looked at, how it stands, and what follows."""

    what: str
    state: State
    told: str


def _python() -> Finding:
    version = sys.version_info
    fits = (3, 11) <= version[:2] <= (3, 13)
    told = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return Finding("Python", "ok" if fits else "fail", told if fits else f"{told}; dragoman needs 3.11 to 3.13")


def _memory() -> Finding:
    memory = psutil.virtual_memory()
    told = f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free, {os.cpu_count()} cores"
    return Finding("Memory", "ok" if memory.available > 3 << 30 else "warn", told)


def _gpu() -> Finding:
    if not nvidia_gpu_present():
        return Finding("GPU", "warn", "no NVIDIA GPU: the engine runs on the CPU (small models only)")
    query = ["nvidia-smi", "--query-gpu=name,memory.total,memory.free,driver_version", "--format=csv,noheader"]
    try:
        seen = subprocess.run(query, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("GPU", "fail", f"present, but nvidia-smi does not answer: {error}")
    return Finding("GPU", "ok", "; ".join(seen.splitlines()))


def _vllm() -> Finding:
    installed = vllm_version()
    if installed is None:
        return Finding("vLLM", "fail", "not installed: `make setup`, or `pip install dragoman[cpu]` / `dragoman[cuda]`")
    name, version = installed
    number = tuple(int(part) for part in version.split(".")[:2])
    torch = _version_of("torch")
    told = f"{name} {version}, torch {torch}; the engine runs on {device()}"
    if not SUPPORTED_VLLM[0] <= number <= SUPPORTED_VLLM[1]:
        return Finding("vLLM", "warn", f"{told}; dragoman is tested with 0.26 to 0.33")
    if nvidia_gpu_present() and device() == "cpu":
        return Finding("vLLM", "warn", f"{told}, though there is a GPU: install dragoman[cuda]")
    return Finding("vLLM", "ok", told)


def _version_of(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "missing"


def _model(settings: Settings) -> Finding:
    try:
        model = stack.choose_model(settings.model)
    except DragomanError as error:
        return Finding("Model", "fail", error.message)
    per_token = kv_bytes_per_token(read_config(model.path), settings.engine.dtype)
    kv = f", {per_token / 1024:.0f} KiB of KV cache a token" if per_token else ""
    return Finding("Model", "ok", f"{model.name}: profile {model.profile.name}, weights {weights(model.profile)}{kv}")


def _port(settings: Settings) -> Finding:
    server = settings.server
    try:
        listen(server.host, server.port).close()
    except DragomanError as error:
        return Finding("Port", "fail", error.message)
    return Finding("Port", "ok", f"{server.host}:{server.port} is free")


@click.command("doctor")
@settings_options("server", "model", "engine")
def command(loaded: Loaded) -> None:
    """Tell what this machine can run, and why. Exit code 1 when the server could not start as configured."""
    checks: tuple[Callable[[], Finding], ...] = (
        _python,
        _memory,
        _gpu,
        _vllm,
        lambda: _model(loaded.settings),
        lambda: _port(loaded.settings),
    )
    findings = [check() for check in checks]
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        table.add_row(_MARKS[finding.state], finding.what, finding.told)
    console.print(table)
    if any(finding.state == "fail" for finding in findings):
        sys.exit(1)
