"""Runs a plan: for every repeat and load level a warm-up, then a measurement, sampled and summarised.

Repeats go round the load levels (1, 2, 4, 1, 2, 4) rather than through them (1, 1, 2, 2), so that a machine which
drifts spreads its drift over all points. Ctrl-C keeps what was measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from time import monotonic

from dragoman.bench import loops
from dragoman.bench.clock import Clock
from dragoman.bench.crew import LEAD_S, Sent, assemble
from dragoman.bench.drive import Job, Tally
from dragoman.bench.percentiles import nearest_rank
from dragoman.bench.plan import Plan
from dragoman.bench.progress import Observer, Silent
from dragoman.bench.records import ClientUse, Load
from dragoman.bench.results import Measurement, Stopped
from dragoman.bench.sampling import Sampler, Samples
from dragoman.bench.saturation import Saturation
from dragoman.bench.summary import Observed, summarise

_TICK_S = 0.1


@dataclass(slots=True)
class Stop:
    """Ends a measurement, and says why and when."""

    event: asyncio.Event = field(default_factory=asyncio.Event)
    why: Stopped = "finished"
    at_s: float | None = None

    def set(self, why: Stopped, at_s: float) -> None:
        if not self.event.is_set():
            self.why, self.at_s = why, max(at_s, 0.0)
            self.event.set()
