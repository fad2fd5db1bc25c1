"""Every point of a grid, max_num_seqs x max_num_batched_tokens, measured: what `dragoman tune` is compared with.

    dragoman tune --trace trace.jsonl --slo p95_s=2 --out results/tune
    python benchmarks/tune_grid.py --trace trace.jsonl --slo p95_s=2 --tuned results/tune/tune.json --out results/tune-grid

One engine start a point and, as in a tune, the demand's busy level three times. Then the grid's best point and what the tune
chose are served together and measured in turn, as numbers taken half an hour apart differ with the machine's state. Resumes
as a tune does. Writes OUT/grid.json.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

from dragoman_bench.bench.progress import Observer, interrupts, observed
from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.cli.subject import make_subject
from dragoman_bench.cli.tune import CPU_PACE, PACE, make_demand, make_servers, this_hardware
from dragoman_bench.tune.final import FinalPlan, run_final
from dragoman_bench.tune.outcome import (
    Candidate,
    Hardware,
    Knobs,
    LoadLevel,
    Measure,
    Metric,
    Results,
    Search,
    Setup,
    Trial,
    Tuning,
    read_tuning,
)
from dragoman_bench.tune.run import TuneJob
from dragoman_bench.tune.trial import Servers, TrialRunner

SEARCH = ("ladder", "slots", "batched_tokens")
"""The phases of a tune that look for what the grid looks for; memory and the final answer other questions."""


def points(options: argparse.Namespace) -> list[Knobs]:
    """The grid, without steps that cannot hold a token of every sequence."""
    memory = {"kv_cache_memory_bytes": options.kv_cache_mib << 20} if options.kv_cache_mib else {}
    return [
        Knobs(slots, tokens, options.graphs, **memory)
        for slots in options.slots
        for tokens in options.tokens
        if tokens >= slots
    ]


def gather_all(grid: list[Knobs], level: LoadLevel, repeats: int) -> Search[list[Trial]]:
    """Point after point; one that does not start or crashes is a result."""
    done: list[Trial] = []
    for knobs in grid:
        name = f"grid-{knobs.max_num_seqs}-{knobs.max_num_batched_tokens}"
        trial: Trial | None = None
        for repeat in range(repeats):
            trial = yield Measure(name, "slots", Setup(knobs), level, "a point of the grid", repeat)
            if trial.outcome != "measured":
                break
        if trial is not None:
            done.append(trial)
    return done


def value(results: Results, metric: Metric) -> float:
    """The median of the repeats."""
    return median(getattr(one, metric) or 0.0 for one in results)


def row(trial: Trial, metric: Metric) -> dict[str, Any]:
    values = [getattr(one, metric) or 0.0 for one in trial.results]
    found: dict[str, Any] = {**trial.setup.knobs.settings, "outcome": trial.outcome, "reason": trial.reason}
    if values:
        found |= {metric: median(values), "low": min(values), "high": max(values), "repeats": len(values)}
        found["e2e_p95_s"] = median(one.e2e_p95_s or 0.0 for one in trial.results)
    return found


def engine_starts(tuning: Tuning, phases: tuple[str, ...]) -> int:
    return sum(
        trial.outcome not in ("did_not_start", "skipped")
        for trial in tuning.trials
        if not phases or trial.phase in phases
    )


async def go(options: argparse.Namespace, observer: Observer) -> dict[str, Any]:
    subject = make_subject(options.model, options.profile, options.load_format, options.max_model_len)
    hardware, machine = this_hardware()
    slo = parse_slo(options.slo) if options.slo else None
    job = TuneJob(
        make_demand(subject, [options.trace] if options.trace else [], options.clients), hardware, machine, slo
    )
    metric: Metric = "goodput_rps" if slo else "rps"
    pace = CPU_PACE if hardware.device == "cpu" else PACE
    pace = replace(pace, duration_s=options.duration or pace.duration_s)
    grid, busy = points(options), LoadLevel(job.demand.levels.busy)
    with interrupts() as interrupted:
        servers = make_servers(subject, job, pace, options.out, observer, interrupted)
        async with TrialRunner(servers) as runner:
            trials = await runner.run(gather_all(grid, busy, options.repeats))
        measured = [trial for trial in trials if trial.results]
        document: dict[str, Any] = {
            "conditions": {
                "machine": asdict(machine),
                "demand": asdict(job.demand.summary()),
                "slo": options.slo,
                "pace": asdict(pace),
                "busy_clients": busy.clients,
                "metric": metric,
            },
            "points": [row(trial, metric) for trial in trials],
            "engine_starts": len(trials),
        }
        if not measured:
            return document
        best = max(measured, key=lambda trial: value(trial.results, metric))
        document["best"] = row(best, metric)
        if options.tuned:
            document["tuned"] = await compared(options, servers, best, busy, metric, hardware)
    return document


async def compared(
    options: argparse.Namespace, servers: Servers, best: Trial, busy: LoadLevel, metric: Metric, hardware: Hardware
) -> dict[str, Any]:
    """The grid's best point and the tune's choice, in turn."""
    tuning = read_tuning(options.tuned)
    if tuning.recommendation is None:
        raise SystemExit(f"{options.tuned} recommends nothing")
    chosen, grid_best = tuning.recommendation.knobs, best.setup.knobs
    if chosen.kv_cache_memory_bytes is not None:  # memory is not what is compared
        chosen = replace(chosen, kv_cache_memory_bytes=grid_best.kv_cache_memory_bytes)
    candidates = (
        Candidate("grid-best", "the grid's best point", Setup(grid_best), grid_best, 0),
        Candidate("tuned", "what the tune chose", Setup(chosen), chosen, 1),
    )
    servers.progress.note("The grid's best point and the tune's choice")
    plan = FinalPlan(candidates, busy, None, options.repeats, metric, hardware)
    final = await run_final(servers, plan)
    sides = [[getattr(one, metric) or 0.0 for one in entry.busy] for entry in final.entries]
    ratios = [tuned / grid for grid, tuned in zip(*sides, strict=False) if grid]
    return {
        "knobs": tuning.recommendation.knobs.settings,
        "engine_starts": engine_starts(tuning, SEARCH),
        "engine_starts_in_all": engine_starts(tuning, ()),
        "grid_best": sides[0],
        "tuned": sides[1],
        "ratio": median(ratios) if ratios else None,
        "ratios": ratios,
        "together": final.together,
    }


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--slots", type=numbers, default=[4, 8, 16, 32])
    parser.add_argument("--tokens", type=numbers, default=[256, 512, 1024, 2048])
    parser.add_argument("--graphs", type=int, help="max_cudagraph_capture_size of every point")
    parser.add_argument("--kv-cache-mib", type=int, help="of every point, on a CPU")
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--clients")
    parser.add_argument("--slo")
    parser.add_argument("--model", default="")
    parser.add_argument("--profile", default="")
    parser.add_argument("--load-format", default="auto")
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--duration", type=float)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tuned", type=Path, help="a tune's tune.json, to compare its choice with the best point")
    parser.add_argument("--out", type=Path, default=Path("results/tune-grid"))
    options = parser.parse_args()
    document = observed(lambda observer: go(options, observer))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "grid.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: part for name, part in document.items() if name not in ("conditions", "points")}, indent=1))


if __name__ == "__main__":
    main()
