"""The story that this project starts from, as data: a team's own numbers, on one RTX 5090, and ours beside them.

Their numbers are quoted, never computed with. Ours come from results files. Knows no verdicts (`claims`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dragoman_bench.journey.claims import best_continuous
from dragoman_bench.journey.evidence import BUSY_SHARE, GPU_IDLE, GPU_MEAN, P50, RPS, At, Evidence, Metric
from dragoman_bench.journey.route import BUSY

NOT_MEASURED = "not measured"
HEADER = ("step", "the story, RPS at 25 concurrent", "here, at 25 clients")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table, all text."""

    step: str
    story: str
    here: str


@dataclass(frozen=True, slots=True)
class _Told:
    step: str
    story: str
    here: Callable[[Evidence], str]


def table(evidence: Evidence) -> tuple[Row, ...]:
    """The story's rows in its order, with what was measured here."""
    return tuple(Row(told.step, told.story, told.here(evidence)) for told in _STORY)


def numbers(*asked: tuple[str, Sequence[tuple[At, Metric]]]) -> Callable[[Evidence], str]:
    """`label: number, number` for each label that has one."""

    def here(evidence: Evidence) -> str:
        parts: list[str] = []
        for label, places in asked:
            said = [told for at, metric in places if (told := evidence.told(at, metric))]
            if said:
                parts.append(f"{label}: {', '.join(said)}" if label else ", ".join(said))
        return "; ".join(parts) or NOT_MEASURED

    return here


def _busy(step: str, workload: str) -> tuple[tuple[At, Metric], tuple[At, Metric]]:
    at = At(f"{step}.{workload}", BUSY)
    return (at, RPS), (at, P50)


def _best(evidence: Evidence) -> str:
    best = best_continuous(evidence)
    told = evidence.told(best, RPS)
    return f"{best.leg.removesuffix('.variable')}: {told}" if told else NOT_MEASURED


def _utilisation(evidence: Evidence) -> str:
    one, best = At("workers-1.variable", BUSY), best_continuous(evidence)
    gpu = numbers(
        ("one worker", [(one, GPU_MEAN), (one, GPU_IDLE)]), ("continuous", [(best, GPU_MEAN), (best, GPU_IDLE)])
    )
    told = gpu(evidence)
    if told != NOT_MEASURED:
        return f"GPU mean, samples under 10 %: {told}"
    told = numbers(("one worker", [(one, BUSY_SHARE)]), ("continuous", [(best, BUSY_SHARE)]))(evidence)
    return told if told == NOT_MEASURED else f"engine busy: {told}"


_ALONE = At("workers-1.variable", 1)

_STORY: tuple[_Told, ...] = (
    _Told(
        "one worker process, one request at a time",
        "2.2 (uniform), 1.1 (variable); falling from 3.3, responses 1.4 → 11.3 s",
        numbers(
            ("uniform", _busy("workers-1", "uniform")),
            ("variable", _busy("workers-1", "variable")),
            ("variable, 1 client", [(_ALONE, RPS), (_ALONE, P50)]),
        ),
    ),
    _Told("two workers on one GPU", "2.0", numbers(("variable", _busy("workers-2", "variable")))),
    _Told(
        "static batches, 16 requests or 50 ms",
        "5.9; 452 → 171 ms a request",
        numbers(("uniform", _busy("static", "uniform")), ("variable", _busy("static", "variable"))),
    ),
    _Told(
        "continuous batching, max_num_seqs 64, uniform texts",
        "15.0",
        numbers(("uniform", _busy("continuous-64", "uniform"))),
    ),
    _Told(
        "the same on variable texts, not tuned",
        "3.5",
        numbers(
            ("max_num_seqs 64", _busy("continuous-64", "variable")),
            ("max_num_seqs 16", _busy("continuous-16", "variable")),
        ),
    ),
    _Told("tuned: max_num_seqs 16, max_num_batched_tokens 8192, gpu_memory_utilization 0.3", "10.7 (staging)", _best),
    _Told("production, real traffic", "9.0 → 16.4", lambda evidence: "needs real traffic"),
    _Told("utilisation", "GPU 93 % → 0 % → 93 % with workers; steady 90 to 95 % tuned", _utilisation),
)
