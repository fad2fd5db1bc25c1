"""Where a tune keeps what it measured: one results file a measurement, one small file for a trial that failed.

The next run takes what was measured under the same conditions: setup, model, texts, level, pace, machine, versions. The SLO
is not among these (records are kept and judged again), nor is the commit (it changes with every word of the documentation;
results name it). Knows nothing of searches.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Measurement, Results, members, read_results, write_results
from dragoman_bench.bench.workload import Workload
from dragoman_bench.journey.steps import Pace, Subject
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.points import Draw, Level, Outcome, Setup
from dragoman_bench.tune.running import Facts

_NOT_OF_A_NAME = re.compile(r"[^a-z0-9.]+")
_FACTS = TypeAdapter(Facts)


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """What decides a measurement's numbers, as JSON. `content` tells two workloads of the same description apart."""

    subject: Subject
    workloads: Mapping[Draw, Workload]
    content: str
    pace: Pace
    stream: bool
    machine: Mapping[str, Any]

    def of(self, setup: Setup, level: Level | None) -> dict[str, Any]:
        """Of a measurement, or (no level) of a start."""
        told: dict[str, Any] = {
            "kind": setup.kind,
            "settings": setup.knobs.settings,
            "subject": self.subject.describe(setup.kind),
            "machine": dict(self.machine),
            "content": self.content,
        }
        if level is not None:
            told |= {
                "level": asdict(level),
                "workload": self.workloads[level.draw].description,
                "seed": self.subject.seed,
                "pace": asdict(self.pace),
                "stream": self.stream,
            }
        return json.loads(json.dumps(told))  # as a file gives it back: lists for tuples


@dataclass(frozen=True, slots=True)
class Stored:
    """A measurement of an earlier run, and the server that it was measured on."""

    measurement: Measurement
    facts: Facts
    file: str


@dataclass(frozen=True, slots=True)
class Failure:
    """How a trial of an earlier run failed."""

    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class Store:
    """A folder. `fresh`: nothing of an earlier run is taken."""

    folder: Path
    fingerprints: Fingerprints
    fresh: bool = False

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def file(self, trial: str, level: Level, repeat: int) -> str:
        """Relative to the folder."""
        cap = f".cap-{level.cap}" if level.cap is not None else ""
        draw = "" if level.draw == "mix" else f".{level.draw}"
        return f"points/{_slug(trial)}{cap}.clients-{level.clients}{draw}.{repeat + 1}.json"

    def load(self, trial: str, setup: Setup, level: Level, repeat: int) -> Stored | None:
        """None where nothing was measured under the same conditions."""
        name = self.file(trial, level, repeat)
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

    def notes(self, trial: str, setup: Setup, level: Level, facts: Facts) -> dict[str, Any]:
        """What a results file says of its place in the tune."""
        return {
            "label": f"{trial}, {level.label}",
            "trial": trial,
            "fingerprint": self.fingerprints.of(setup, level),
            "facts": _FACTS.dump_python(facts, mode="json"),
        }

    def save(self, trial: str, level: Level, repeat: int, results: Results) -> str:
        """Returns the file's name. Raises ConfigError where it cannot be written."""
        name = self.file(trial, level, repeat)
        write_results(results, self.folder / name)
        return name

    def failure(self, trial: str, setup: Setup) -> Failure | None:
        """How this trial failed in an earlier run, under the same conditions."""
        try:
            told = {} if self.fresh else members(json.loads(self._failed(trial).read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return None
        outcome, reason = told.get("outcome"), told.get("reason")
        if told.get("fingerprint") != self.fingerprints.of(setup, None) or not isinstance(reason, str):
            return None
        return Failure(cast(Outcome, outcome), reason) if outcome in ("did_not_start", "failed_under_load") else None

    def save_failure(self, trial: str, setup: Setup, failure: Failure) -> None:
        """Raises ConfigError where it cannot be written."""
        document = {**asdict(failure), "fingerprint": self.fingerprints.of(setup, None)}
        path = self._failed(trial)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot write {path}: {error.strerror}", param="out") from error

    def _failed(self, trial: str) -> Path:
        return self.folder / "points" / f"{_slug(trial)}.failed.json"


def content_of(demand: Demand) -> str:
    """A digest of the demand's texts and lengths: what its description does not tell."""
    items = [(item.text, *item.pair, item.source_tokens, item.output_tokens) for item in demand.items]
    told = json.dumps([items, demand.outputs], ensure_ascii=False)
    return sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _slug(name: str) -> str:
    return _NOT_OF_A_NAME.sub("-", name.lower()).strip("-")
