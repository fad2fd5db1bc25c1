"""An SLO against the few percentiles that a running server tells: met, broken, or between two that are known.

A percentile that is not told lies between its told neighbours: where the higher is within the limit, so is it; where the
lower is beyond it, so is it. Knows limits and percentiles; what follows from a broken limit is `fit`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dragoman_bench.bench.summary import Limit
from dragoman_bench.bench.tables import seconds as duration
from dragoman_bench.tune.vitals import Quantiles, Server, Traffic

State = Literal["met", "broken", "unknown"]


@dataclass(frozen=True, slots=True, order=True)
class _Known:
    percent: float
    value_s: float

    @property
    def told(self) -> str:
        what = "the slowest" if self.percent == 100 else f"the {self.percent:g}th percentile"
        return f"{what} is {duration(float(f'{self.value_s:.3g}'))}"


def judge(limit: Limit, traffic: Traffic, server: Server) -> tuple[State, str]:
    """Whether the limit was kept, and the number that says so. A limit on each request is one on the slowest."""
    known = _known(limit, traffic, server)
    percent = 100.0 if limit.percentile is None else limit.percentile
    below = max((one for one in known if one.percent <= percent), default=None)
    above = min((one for one in known if one.percent >= percent), default=None)
    if above is not None and above.value_s <= limit.limit_s:
        return "met", above.told
    if below is not None and below.value_s > limit.limit_s:
        return "broken", below.told
    told = " and ".join(one.told for one in (below, above) if one is not None)
    return "unknown", f"cannot be told: {told or 'the server does not tell it'}"


def _known(limit: Limit, traffic: Traffic, server: Server) -> list[_Known]:
    found = {
        "e2e": traffic.e2e_s,
        "ttft": traffic.ttft_s,
        "itl": server.itl_s,
        "tpot": Quantiles(),  # nobody keeps it by request
    }[limit.metric]
    percentiles = ((50.0, found.p50), (95.0, found.p95), (100.0, found.highest))
    return [_Known(percent, value_s) for percent, value_s in percentiles if value_s is not None]
