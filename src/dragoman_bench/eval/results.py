"""Results files of `dragoman eval`: the conditions, and a row for each text with its answer and the findings."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dragoman import __version__
from dragoman_bench.bench.measurement import (
    Machine,
    ResultsFile,
    describe_machine,
    git_commit,
)
from dragoman_bench.eval.apis import Answer, TranslationApi
from dragoman_bench.eval.judge import Judgement


@dataclass(frozen=True, slots=True)
class EvalConditions:
    """The conditions of a run. `server`: what the server reports about itself, including its CPU's instruction sets."""

    started_at: str  # ISO 8601, UTC
    dragoman: str  # the version of this command
    git_commit: str | None
    machine: Machine  # of this command
    api: str
    plain: bool  # no format was named
    concurrency: int
    server: dict[str, Any]
    inputs_sha256: str  # the first 16 digits

    @classmethod
    async def of(cls, api: TranslationApi, inputs: Path) -> EvalConditions:
        """Return the conditions of a run with a file, which begins now."""
        options = api.options
        return cls(
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            dragoman=__version__,
            git_commit=git_commit(),
            machine=describe_machine(),
            api=options.kind,
            plain=options.plain,
            concurrency=options.concurrency,
            server=await api.settings() or ({"model": options.model} if options.model else {}),
            inputs_sha256=hashlib.sha256(await asyncio.to_thread(inputs.read_bytes)).hexdigest()[:16],
        )


@dataclass(frozen=True, slots=True)
class Reference:
    """A text, its reference translation, and the languages.

    `checks`: groups of words; an adequate translation has one word of each group. Empty if there is only the reference.
    """

    text: str
    reference: str
    source: str
    target: str
    checks: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """A hard input's answer, and the judgement."""

    id: str
    kind: str
    answer: Answer
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A text with its reference, and the answer."""

    reference: Reference
    answer: Answer


@dataclass(frozen=True, slots=True)
class EvalResults:
    """The results of a run. `partial`: it was interrupted, and has only the finished rows."""

    conditions: EvalConditions
    partial: bool = False
    judged: tuple[JudgedRow, ...] = ()
    scored: tuple[ScoredRow, ...] = ()
    scores: dict[str, Any] = field(default_factory=dict[str, Any])


QUALITY, FIDELITY = (ResultsFile(kind, EvalResults, schema=2) for kind in ("quality", "fidelity"))
