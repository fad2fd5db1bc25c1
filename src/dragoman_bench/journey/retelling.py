"""A journey told again from its files: results that were brought over from another machine, or a report written anew.

What counts is what the files say; nothing is compared with this machine. Knows nothing of measuring.
"""

from __future__ import annotations

from pathlib import Path

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Results, members, read_results
from dragoman_bench.journey.route import Terms, plan_route
from dragoman_bench.journey.walk import Travelled

_SUFFIXES = (".json", ".json.gz")


def travelled_of(folder: Path, *, quick: bool = False) -> Travelled:
    """All legs that lie in the folder, in the route's order; steps without any are told as not reached.

    Raises ConfigError where there are none, or a file that should be one cannot be read.
    """
    results = dict(_legs(folder))
    if not results:
        raise ConfigError(f"no results of a journey in {folder}", param="retell")
    first = next(iter(results.values()))
    route = plan_route(Terms(gpu=bool(first.conditions.machine.gpus), quick=quick, high_levels=True))
    missing = [step.name for step in route if not any(step.leg_name(leg) in results for leg in step.legs)]
    return Travelled(route, results, not_reached=missing)


def _legs(folder: Path) -> list[tuple[str, Results]]:
    found: list[tuple[str, Results]] = []
    for path in sorted(folder.iterdir()):
        suffix = next((suffix for suffix in _SUFFIXES if path.name.endswith(suffix)), None)
        name = path.name.removesuffix(suffix) if suffix else ""
        if "." not in name:  # journey.json is the ending's own; a leg's name is step.workload
            continue
        results = read_results(path)
        if members(results.conditions.options.get("journey")).get("step"):
            found.append((name, results))
    return found
