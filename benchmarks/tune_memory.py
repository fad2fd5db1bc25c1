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

from dragoman_bench.bench.progress import Observer, interrupts, observed
from dragoman_bench.bench.results import git_commit, installed_packages
from dragoman_bench.cli.subject import make_subject
from dragoman_bench.cli.tune import CPU_PACE, PACE, make_demand, make_servers, this_hardware
from dragoman_bench.journey.steps import Subject
from dragoman_bench.tune.compare import Attempt, Best, Context, Objective
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.memory import Sizer, check_memory
from dragoman_bench.tune.outcome import Hardware, Knobs, Memory, Search, Trial, choices_of
from dragoman_bench.tune.run import TuneJob
from dragoman_bench.tune.search import climb
from dragoman_bench.tune.trial import TrialRunner

SHORT, LONG = (8, 16), (300, 400)  # tokens of a text


def write_trace(path: Path, long_share: float, in_flight: int) -> Path:
    """As `dragoman traffic export` writes one. The server records an output's length; here it is the text's."""
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


def too_large(hardware: Hardware, knobs: Knobs) -> Attempt:
    """More than there is."""
    if hardware.device == "cuda":
        knobs = replace(knobs, gpu_memory_utilization=None, kv_cache_memory_bytes=2 * hardware.memory_bytes)
    else:
        knobs = replace(knobs, kv_cache_memory_bytes=2 * psutil.virtual_memory().total)
    return Attempt("too-large", "memory", knobs, "twice the memory that there is")


def steps(demand: Demand, short: Demand, hardware: Hardware) -> Search[dict[str, Any]]:
    ladder, trial = yield from climb(demand, hardware, None, 1)
    context = Context(demand, hardware, Objective(None, "rps"), ladder, trial, 1)
    refused = yield too_large(hardware, ladder.setup.knobs).measure(context.busy)
    blind = yield from _checked(context, "blind", Sizer(short, hardware, trial), "sized as if no long text came")
    whole = yield from _checked(context, "whole", Sizer(demand, hardware, trial), "sized from the whole demand")
    return {"too_large": {"outcome": refused.outcome, "reason": refused.reason}, "blind": blind, "whole": whole}


def _checked(context: Context, name: str, sizer: Sizer, why: str) -> Search[dict[str, Any]]:
    memory = sizer.size(context.ladder.setup.knobs.max_num_seqs or 1)
    choices = choices_of(context.ladder.setup.knobs, "as the ladder's")
    best = Best(choices, (), context.ladder_trial).sized(memory)
    after = yield from check_memory(context, best, Attempt(name, "memory", best.knobs, why))
    return {"first": _size(memory), "then": _size(after.memory), "trials": after.memory.trials if after.memory else ()}


def _size(memory: Memory | None) -> dict[str, Any]:
    return asdict(memory) if memory is not None else {}


def as_row(trial: Trial) -> dict[str, Any]:
    """A trial as it ended."""
    last = trial.results[-1] if trial.results else None
    numbers = ("requests", "failed", "preemptions", "peak_kv_cache_usage", "rps", "e2e_p95_s")
    return {
        "trial": trial.name,
        "knobs": trial.setup.knobs.settings,
        "why": trial.why,
        "outcome": trial.outcome,
        "reason": trial.reason,
        "kv_cache_tokens": trial.kv_cache.tokens if trial.kv_cache else None,
        "level": last.level.label if last else None,
        **({name: getattr(last, name) for name in numbers} if last else {}),
    }


async def go(options: argparse.Namespace, subject: Subject, observer: Observer) -> dict[str, Any]:
    hardware, machine = this_hardware()
    traces = [write_trace(options.out / name, share, options.clients) for name, share in TRACES.items()]
    demand, short = (make_demand(subject, [trace], None) for trace in traces)
    pace = replace(CPU_PACE if hardware.device == "cpu" else PACE, duration_s=options.duration)
    with interrupts() as interrupted:
        job = TuneJob(demand, hardware, machine)
        async with TrialRunner(make_servers(subject, job, pace, options.out, observer, interrupted)) as runner:
            found = await runner.run(steps(demand, short, hardware))
        conditions = {
            "machine": asdict(machine),
            "packages": installed_packages(),
            "git_commit": git_commit(),
            "demand": asdict(demand.summary()),
            "pace": asdict(pace),
        }
        return {"conditions": conditions, **found, "trials": [as_row(trial) for trial in runner.trials.values()]}


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
