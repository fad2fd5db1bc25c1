"""Knobs that are tried only where they are asked for, one trial each against the best so far.

What needs what a place does not have is skipped. Knows nothing of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from dragoman.errors import ConfigError
from dragoman_bench.tune.checking import check
from dragoman_bench.tune.incumbent import Case, Challenge, Incumbent, skip
from dragoman_bench.tune.points import Knobs, Place, Steps, Trial

Extra = Literal["prefix-caching", "priority", "fp8", "data-parallel"]
EXTRAS: tuple[Extra, ...] = get_args(Extra)


@dataclass(frozen=True, slots=True)
class _Turn:
    setting: str
    knobs: Knobs
    why: str
    not_here: str = ""
    caveat: str = ""


def parse_extras(text: str) -> tuple[Extra, ...]:
    """`prefix-caching,fp8`. Raises ConfigError naming what is unknown."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in EXTRAS:
            raise ConfigError(f"{word!r} is none of {', '.join(EXTRAS)}", param="also")
    return tuple(extra for extra in EXTRAS if extra in words)


def settle(case: Case, best: Incumbent, extras: Sequence[Extra]) -> Steps[Incumbent]:
    """The incumbent with every extra that made it better."""
    for extra in extras:
        turn = _turn(extra, best.knobs, case.place)
        if turn.not_here:
            yield skip(extra, "optional", turn.knobs, turn.not_here)
            continue
        challenge = Challenge(extra, "optional", turn.knobs, turn.why)
        trial, found = yield from challenge.run(case, best.seen)
        if challenge.wins(found):
            best = yield from _adopted(case, best, challenge, trial, turn)
    return best


def _adopted(case: Case, best: Incumbent, challenge: Challenge, trial: Trial, turn: _Turn) -> Steps[Incumbent]:
    trial = yield from challenge.settled(case, trial)
    seen = trial.at(case.busy)
    told = f"{case.scale.told(seen)}; without it {case.scale.told(best.seen)}{turn.caveat}"
    best = replace(best, knobs=challenge.knobs, seen=seen, trial=trial).because(**{turn.setting: told})
    return (yield from check(case, best, challenge)) if best.memory is not None else best


def _turn(extra: Extra, knobs: Knobs, place: Place) -> _Turn:
    if extra == "prefix-caching":
        why = "off: shared beginnings of prompts are short here, and looking them up costs time"
        return _Turn("enable_prefix_caching", replace(knobs, enable_prefix_caching=False), why)
    if extra == "priority":
        why = "short texts first, where texts wait for a slot"
        return _Turn("scheduling_policy", replace(knobs, scheduling_policy="priority"), why)
    if extra == "fp8":
        why, caveat = (
            "weights of half the size are read in half the time",
            ". Translations may differ: check their quality",
        )
        not_here = "" if place.device == "cuda" else "there is no GPU, and vLLM has no fp8 on a CPU"
        return _Turn("quantization", replace(knobs, quantization="fp8"), why, not_here, caveat)
    not_here = "" if place.gpus > 1 else "a second copy of the model needs a second GPU"
    copies = replace(knobs, data_parallel_size=max(2, place.gpus))
    return _Turn("data_parallel_size", copies, f"a copy of the model on each of {place.gpus} GPUs", not_here)
