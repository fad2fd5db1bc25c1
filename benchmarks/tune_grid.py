"""Every point of a grid, max_num_seqs x max_num_batched_tokens, measured: what `dragoman tune` is held against.

    dragoman tune --trace trace.jsonl --slo p95_s=2 --out results/tune
    python benchmarks/tune_grid.py --trace trace.jsonl --slo p95_s=2 --tuned results/tune/tune.json --out results/tune-grid

One engine start a point and, as in a tune, the demand's busy level three times. Then the grid's best point and what the tune
chose are brought up side by side and measured in turn, since numbers taken half an hour apart compare machines' moods. Resumes
as a tune does. Writes OUT/grid.json.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.cli.observing import interrupts, observed
from dragoman_bench.cli.subject import make_subject
from dragoman_bench.cli.tune import CPU_PACE, PACE
from dragoman_bench.cli.tuning import Bench, here, make_demand, open_workshop
from dragoman_bench.tune.contenders import sharing_of
from dragoman_bench.tune.document import read_tuning
from dragoman_bench.tune.estimate import Estimate, Work
from dragoman_bench.tune.final import Match, hold
from dragoman_bench.tune.meter import measurement_s
from dragoman_bench.tune.outcome import Contender, Metric, Tuning
from dragoman_bench.tune.points import Ask, Knobs, Level, Seen, Setup, Steps, Trial
from dragoman_bench.tune.trial import Driver
from dragoman_bench.tune.workshop import Workshop

SEARCH = ("ladder", "slots", "batched_tokens")
"""The phases of a tune that look for what the grid looks for; memory and the final answer other questions."""


def points(options: argparse.Namespace) -> list[Knobs]:
    """The grid. A step that cannot hold a token of every slot is no point of it."""
    memory = {"kv_cache_memory_bytes": options.kv_cache_mib << 20} if options.kv_cache_mib else {}
    return [
        Knobs(slots, tokens, options.graphs, **memory)
        for slots in options.slots
        for tokens in options.tokens
        if tokens >= slots
    ]


def name_of(knobs: Knobs) -> str:
    return f"grid-{knobs.max_num_seqs}-{knobs.max_num_batched_tokens}"


def gather_all(grid: list[Knobs], level: Level, repeats: int) -> Steps[list[Trial]]:
    """Point after point; one that does not start or dies is a result."""
    done: list[Trial] = []
    for knobs in grid:
        trial: Trial | None = None
        for repeat in range(repeats):
            trial = yield Ask(name_of(knobs), "slots", Setup(knobs), level, "a point of the grid", repeat)
            if trial.outcome != "measured":
                break
        if trial is not None:
            done.append(trial)
    return done


def value(seen: tuple[Seen, ...], metric: Metric) -> float:
    """The median of the repeats."""
    return median(getattr(one, metric) or 0.0 for one in seen)


def row(trial: Trial, metric: Metric) -> dict[str, Any]:
    values = [getattr(one, metric) or 0.0 for one in trial.seen]
    told: dict[str, Any] = {**trial.setup.knobs.settings, "outcome": trial.outcome, "reason": trial.reason}
    if values:
        told |= {metric: median(values), "low": min(values), "high": max(values), "repeats": len(values)}
        told["e2e_p95_s"] = median(one.e2e_p95_s or 0.0 for one in trial.seen)
    return told


def engine_starts(tuning: Tuning) -> int:
    """How many the search for slots and step size took."""
    return sum(trial.started for trial in tuning.trials if trial.phase in SEARCH)


async def go(options: argparse.Namespace, observer: Observer) -> dict[str, Any]:
    subject = make_subject(options.model, options.profile, options.load_format, options.max_model_len)
    place, machine = here()
    demand = make_demand(subject, options.profile, options.trace, options.clients)
    slo = parse_slo(options.slo) if options.slo else None
    metric: Metric = "goodput_rps" if slo else "rps"
    pace = CPU_PACE if place.device == "cpu" else PACE
    pace = replace(pace, duration_s=options.duration or pace.duration_s)
    grid, busy = points(options), Level(demand.levels.busy)
    work = (
        Work("slots", len(grid), len(grid) * options.repeats),
        Work("final", 2, 2 * options.repeats),
    )
    estimate = Estimate.of(measurement_s(pace), work)
    with interrupts() as interrupted:
        shop = open_workshop(subject, demand, Bench(pace, slo, options.out), estimate, observer, interrupted)
        shop.begin("slots", f"{len(grid)} points")
        async with Driver(shop) as driver:
            trials = await driver.drive(gather_all(grid, busy, options.repeats))
        measured = [trial for trial in trials if trial.seen]
        document: dict[str, Any] = {
            "conditions": {
                "machine": asdict(machine),
                "demand": asdict(demand.summary()),
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
        best = max(measured, key=lambda trial: value(trial.seen, metric))
        document["best"] = row(best, metric)
        if options.tuned:
            document["tuned"] = await duel(options, shop, best, busy, metric, place)
    return document


async def duel(
    options: argparse.Namespace, shop: Workshop, best: Trial, busy: Level, metric: Metric, place: Any
) -> dict[str, Any]:
    """The grid's best point and the tune's choice, in turn."""
    tuning = read_tuning(options.tuned)
    if tuning.recommendation is None:
        raise SystemExit(f"{options.tuned} recommends nothing")
    chosen = tuning.recommendation.knobs
    grid_best = best.setup.knobs
    if chosen.kv_cache_memory_bytes is not None:  # memory is not what is compared
        chosen = replace(chosen, kv_cache_memory_bytes=grid_best.kv_cache_memory_bytes)
    fighters = (
        Contender("grid-best", "the grid's best point", Setup(grid_best), grid_best, 0),
        Contender("tuned", "what the tune chose", Setup(chosen), chosen, 1),
    )
    shop.begin("final", "The grid's best point against the tune's choice")
    final = await hold(shop, Match(fighters, busy, None, options.repeats, metric, sharing_of(2, place, None, ())))
    sides = [[getattr(seen, metric) or 0.0 for seen in one.busy] for one in final.standings]
    ratios = [tuned / best for best, tuned in zip(*sides, strict=False) if best]
    return {
        "knobs": tuning.recommendation.knobs.settings,
        "engine_starts": engine_starts(tuning),
        "engine_starts_in_all": sum(trial.started for trial in tuning.trials),
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
    parser.add_argument("--tuned", type=Path, help="a tune's tune.json, to hold its choice against the best point")
    parser.add_argument("--out", type=Path, default=Path("results/tune-grid"))
    options = parser.parse_args()
    document = observed(lambda observer: go(options, observer))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "grid.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: part for name, part in document.items() if name not in ("conditions", "points")}, indent=1))


if __name__ == "__main__":
    main()
