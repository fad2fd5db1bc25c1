"""Text forms of what a run is told: `1,2,4,8`, `0.8..1.3`, `20` or `10s`. Each raises ConfigError naming its option.

Knows forms only; what the numbers mean is their users' to say.
"""

from __future__ import annotations

from math import inf

from dragoman.errors import ConfigError
from dragoman_bench.bench.benchmark import Warmup
from dragoman_bench.bench.results import Load
from dragoman_bench.bench.workload import OutputRatio


def numbers(text: str, option: str) -> tuple[float, ...]:
    """One or more numbers above 0, between commas, in the order given."""
    found = tuple(number(term, option) for term in text.split(",") if term.strip())
    if not found:
        raise ConfigError(f"{option} is empty", param=option)
    return found


def whole_numbers(text: str, option: str) -> tuple[int, ...]:
    found = numbers(text, option)
    if any(value != int(value) for value in found):
        raise ConfigError(f"{option} {text!r}: whole numbers are wanted", param=option)
    return tuple(map(int, found))


def interval(text: str, option: str) -> tuple[float, float]:
    """`low..high`, or one number that is both."""
    low, dots, high = text.partition("..")
    ends = number(low, option), number(high if dots else low, option)
    if ends[0] > ends[1]:
        raise ConfigError(f"{option} {text!r} runs backwards", param=option)
    return ends


def output_ratio(text: str | None) -> OutputRatio | None:
    return None if text is None else OutputRatio(*interval(text, "--force-output-ratio"))


def warmup(text: str) -> Warmup:
    """`20` requests, `10s` seconds, `0` none."""
    if text.strip() in ("0", "0s"):
        return Warmup()
    if text.strip().endswith("s"):
        return Warmup(duration_s=number(text.strip()[:-1], "--warmup"))
    return Warmup(requests=whole_numbers(text, "--warmup")[0])


def gpus(text: str) -> frozenset[int] | None:
    """`auto` is None, `none` is empty, else indices."""
    if text == "auto":
        return None
    if text == "none":
        return frozenset()
    indices = [term.strip() for term in text.split(",")]
    if not all(term.isdigit() for term in indices):
        raise ConfigError(f"--gpus {text!r} is neither auto, none nor indices like 0,1", param="--gpus")
    return frozenset(map(int, indices))


def loads(
    concurrency: str | None, rate: str | None, ramp: str | None, replay: bool, *, arrivals: str, time_scale: float
) -> tuple[Load, ...]:
    """The load levels of a run: a sweep over clients or over rates, one ramp, or one replay."""
    given = [name for name, value in _named(concurrency, rate, ramp, replay) if value]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} exclude each other", param=given[1])
    if rate:
        kind = "constant" if arrivals == "constant" else "poisson"
        return tuple(Load(kind, rate_rps=value) for value in numbers(rate, "--rate"))
    if ramp:
        start, dots, end = ramp.partition("..")
        if not dots:
            raise ConfigError(f"--ramp {ramp!r} is not like 1..20", param="--ramp")
        return (Load("ramp", rate_rps=number(start, "--ramp"), to_rate_rps=number(end, "--ramp")),)
    if replay:
        return (Load("replay", time_scale=time_scale),)
    return tuple(Load("closed", clients=value) for value in whole_numbers(concurrency or "8", "--concurrency"))


def number(text: str, option: str) -> float:
    """A finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < inf:
        raise ConfigError(f"{option} {text!r}: numbers above 0 are wanted", param=option)
    return value


def _named(concurrency: str | None, rate: str | None, ramp: str | None, replay: bool) -> list[tuple[str, object]]:
    return [("--concurrency", concurrency), ("--rate", rate), ("--ramp", ramp), ("--replay", replay)]
