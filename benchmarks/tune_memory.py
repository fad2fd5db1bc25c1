"""Memory that does not suffice, on a real engine: what a tune makes of it, step by step.

    python benchmarks/tune_memory.py --out results/tune-memory

A demand of short texts with some long ones among them. An engine is asked for more memory than the machine has (it does not
start). A KV cache is sized as if the long texts did not come, and checked as a tune checks any: under 1.5 times the peak, half
of it long texts. It preempts, and larger ones follow until one holds. Then the size that a tune computes from the whole demand
is checked in the same way. Writes OUT/memory.json.
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil

from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.results import git_commit, installed_packages
from dragoman_bench.cli.observing import interrupts, observed
from dragoman_bench.cli.subject import make_subject
from dragoman_bench.cli.tune import CPU_PACE, PACE
from dragoman_bench.cli.tuning import Bench, here, make_demand, open_workshop
from dragoman_bench.journey.steps import Subject
from dragoman_bench.tune.checking import check
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.estimate import Estimate, Work
from dragoman_bench.tune.incumbent import Case, Challenge, Incumbent
from dragoman_bench.tune.ladder import climb
from dragoman_bench.tune.meter import measurement_s
from dragoman_bench.tune.outcome import Ladder, Memory
from dragoman_bench.tune.points import Knobs, Place, Steps, Trial
from dragoman_bench.tune.scale import Scale
from dragoman_bench.tune.sizing import Sizer, with_memory
from dragoman_bench.tune.trial import Driver

SHORT, LONG = (8, 16), (300, 400)  # tokens of a text


def write_trace(path: Path, long_share: float, in_flight: int) -> Path:
    """As `dragoman traffic export` writes one. The server tells an output's length once it is known; here it is the text's."""
    drawn = random.Random(0)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for number in range(400):
            tokens = drawn.randint(*(LONG if drawn.random() < long_share else SHORT))
            line = {
                "at_s": number / 10,
                "source": "en",
                "target": "ja",
                "source_tokens": tokens,
                "output_tokens": tokens,
            }
            file.write(json.dumps(line | {"in_flight": in_flight}) + "\n")
    return path


def too_large(place: Place, knobs: Knobs) -> Challenge:
    """More than there is."""
    if place.device == "cuda":
        knobs = replace(knobs, gpu_memory_utilization=None, kv_cache_memory_bytes=2 * place.memory_bytes)
    else:
        knobs = replace(knobs, kv_cache_memory_bytes=2 * psutil.virtual_memory().total)
    return Challenge("too-large", "memory", knobs, "twice the memory that there is")


def steps(demand: Demand, short: Demand, place: Place) -> Steps[dict[str, Any]]:
    ladder, trial = yield from climb(demand, place, None, 1)
    case = Case(demand, place, Scale(None, "rps"), ladder, trial, 1)
    refused = yield too_large(place, ladder.setup.knobs).ask(case.busy, 0)
    blind = yield from _checked(
        case, "blind", Sizer(short, place, trial), "sized as if no long text came", trial, ladder
    )
    whole = yield from _checked(case, "whole", case.sizer, "sized from the whole demand", trial, ladder)
    return {"too_large": {"outcome": refused.outcome, "reason": refused.reason}, "blind": blind, "whole": whole}


def _checked(case: Case, name: str, sizer: Sizer, why: str, trial: Trial, ladder: Ladder) -> Steps[dict[str, Any]]:
    memory = sizer.size(ladder.setup.knobs.max_num_seqs or 1)
    knobs = with_memory(ladder.setup.knobs, memory)
    best = Incumbent(knobs, (), trial, memory)
    after = yield from check(case, best, Challenge(name, "memory", knobs, why))
    return {"first": _size(memory), "then": _size(after.memory), "trials": after.memory.trials if after.memory else ()}


def _size(memory: Memory | None) -> dict[str, Any]:
    return asdict(memory) if memory is not None else {}


def told(trial: Trial) -> dict[str, Any]:
    """A trial as it ended."""
    seen = trial.seen[-1] if trial.seen else None
    numbers = ("requests", "failed", "preemptions", "peak_kv_cache_usage", "rps", "e2e_p95_s")
    return {
        "trial": trial.name,
        "knobs": trial.setup.knobs.settings,
        "why": trial.why,
        "outcome": trial.outcome,
        "reason": trial.reason,
        "kv_cache_tokens": trial.kv_cache.tokens if trial.kv_cache else None,
        "level": seen.level.label if seen else None,
        **({name: getattr(seen, name) for name in numbers} if seen else {}),
    }


async def go(options: argparse.Namespace, subject: Subject, observer: Observer) -> dict[str, Any]:
    place, machine = here()
    traces = [write_trace(options.out / name, share, options.clients) for name, share in TRACES.items()]
    demand, short = (make_demand(subject, options.profile, trace, None) for trace in traces)
    pace = replace(CPU_PACE if place.device == "cpu" else PACE, duration_s=options.duration)
    estimate = Estimate.of(measurement_s(pace), (Work("ladder", 1, 6), Work("memory", 4, 4)))
    with interrupts() as interrupted:
        shop = open_workshop(subject, demand, Bench(pace, None, options.out), estimate, observer, interrupted)
        async with Driver(shop) as driver:
            found = await driver.drive(steps(demand, short, place))
        conditions_ = {
            "machine": asdict(machine),
            "packages": installed_packages(),
            "git_commit": git_commit(),
            "demand": asdict(demand.summary()),
            "pace": asdict(pace),
        }
        return {"conditions": conditions_, **found, "trials": [told(trial) for trial in driver.trials.values()]}


TRACES = {"whole.jsonl": 0.08, "short.jsonl": 0.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default="")
    parser.add_argument("--profile", default="")
    parser.add_argument("--load-format", default="auto")
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--clients", type=int, default=16, help="texts at once, in the trace")
    parser.add_argument("--duration", type=float, default=8.0)
    parser.add_argument("--out", type=Path, default=Path("results/tune-memory"))
    options = parser.parse_args()
    subject = make_subject(options.model, options.profile, options.load_format, options.max_model_len)
    document = observed(lambda observer: go(options, subject, observer))
    (options.out / "memory.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document["trials"], indent=1))


if __name__ == "__main__":
    main()
