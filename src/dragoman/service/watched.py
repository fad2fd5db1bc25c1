"""A planner that notes how long its work took, for the trace of the request that it works for."""

from __future__ import annotations

from time import time_ns

from dragoman.service.planner import Job, Planner
from dragoman.telemetry import requests
from dragoman.telemetry.requests import Interval
from dragoman.types import Sequence, TranslationRequest


class WatchedPlanner(Planner):
    """Plans as `Planner` does; takes its place while requests are traced."""

    def jobs(self, request: TranslationRequest) -> list[Job]:
        began_unix_ns = time_ns()
        try:
            return super().jobs(request)
        finally:
            if (exchange := requests.current()) is not None and exchange.work is not None:
                exchange.work.segmented.append(Interval(began_unix_ns, time_ns()))

    def sequence(self, job: Job, part: str, text: str, *, room_factor: int = 1) -> Sequence:
        began_unix_ns = time_ns()
        sequence = super().sequence(job, part, text, room_factor=room_factor)
        if (exchange := requests.current()) is not None and exchange.work is not None:
            exchange.work.encoded[sequence.id] = Interval(began_unix_ns, time_ns())
        return sequence
