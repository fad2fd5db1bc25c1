"""dragoman against `vllm serve`: starts both, has them measured in turn, writes both results and the ratios.

Knows how servers start and where files go; `versus` knows how two are compared.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Results, write_results
from dragoman_bench.bench.servers import Interrupted, serving
from dragoman_bench.journey import versus
from dragoman_bench.journey.display import Display
from dragoman_bench.journey.measure import Meter
from dragoman_bench.journey.steps import Step, Subject
from dragoman_bench.journey.versus import Contender, PairRatio
from dragoman_bench.journey.walk import command_of, target_of


@dataclass(frozen=True, slots=True)
class Duel:
    """What came out, by contender; empty where it was interrupted before anything was measured."""

    names: tuple[str, str]
    results: dict[str, Results]
    ratios: tuple[PairRatio, ...]
    partial: bool


async def fight(steps: tuple[Step, Step], subject: Subject, folder: Path, meter: Meter, display: Display) -> Duel:
    """Raises ServerFault where a server does not start or dies, ConfigError where one cannot do what is asked."""
    names = (steps[0].name, steps[1].name)
    try:
        async with AsyncExitStack() as stack:
            contenders = [await _start(stack, step, subject, folder, meter, display) for step in steps]
            results = await versus.alternate(meter, steps[0].legs[0], contenders)
    except Interrupted:
        return Duel(names, {}, (), partial=True)
    ratios = tuple(versus.pair_ratios(results[names[0]], results[names[1]]))
    return Duel(names, results, ratios, partial=meter.interrupted.is_set())


async def _start(
    stack: AsyncExitStack, step: Step, subject: Subject, folder: Path, meter: Meter, display: Display
) -> Contender:
    logs = folder / "logs"
    display.starting(step)
    command = command_of(step, subject, logs / f"versus-{step.name}.engine.log")
    server = await stack.enter_async_context(serving(command, logs / f"versus-{step.name}.log", meter.interrupted))

    def announce() -> None:
        display.leg(step, step.legs[0])

    return Contender(step.name, server.url, target_of(step, subject), server.check_alive, announce)


def write_duel(duel: Duel, folder: Path) -> str:
    """Writes each contender's results and `versus.json`; returns the table. Raises ConfigError."""
    if not duel.ratios:
        raise ConfigError("interrupted before both servers were measured once: there is nothing to compare")
    for name, results in duel.results.items():
        write_results(results, folder / f"versus.{name}.json")
    path = folder / "versus.json"
    document = {"names": duel.names, "partial": duel.partial, "ratios": [asdict(ratio) for ratio in duel.ratios]}
    try:
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}", param="out") from error
    return versus.markdown(duel.names, duel.results, duel.ratios)
