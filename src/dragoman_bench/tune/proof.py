"""A simpler setup that is recommended in the finalist's place, by itself: it has run nowhere yet as it will be served.

The final gave it other memory, and `vllm serve` may have been its server. So it is started with the memory that the demand
needs, checked under more than the peak (and given more where that does not hold), and measured at the busy level. Decides
nothing anew: what it shows is told beside the recommendation.
"""

from __future__ import annotations

from dataclasses import replace

from dragoman_bench.tune.checking import check
from dragoman_bench.tune.incumbent import Case, Challenge, Incumbent
from dragoman_bench.tune.outcome import Recommendation
from dragoman_bench.tune.points import Steps
from dragoman_bench.tune.recommend import proven

SERIES = "recommended"


def prove(case: Case, wanted: Recommendation) -> Steps[Recommendation]:
    """The recommendation with what it showed; unchanged where it was not begun."""
    challenge = Challenge(
        SERIES, SERIES, wanted.knobs, "the recommended settings by themselves, with the memory needed"
    )
    best = Incumbent(wanted.knobs, (), case.ladder_trial, wanted.memory)
    after = yield from check(case, best, challenge, SERIES)
    if after.memory is None or after.memory.checked == "not checked":
        return wanted
    shown = replace(challenge, name=after.memory.trials[-1], knobs=after.knobs)
    if after.memory.checked == "did not hold":
        return proven(wanted, after.knobs, after.memory, (), case.scale)
    trial = yield shown.ask(case.busy, 0)
    trial = yield from shown.settled(case, trial)
    return proven(wanted, after.knobs, after.memory, trial.at(case.busy), case.scale)
