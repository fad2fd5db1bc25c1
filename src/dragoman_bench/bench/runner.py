"""Runs a plan: for every repeat and load level a warm-up, then a measurement, sampled and summarised.

Repeats go round the load levels (1, 2, 4, 1, 2, 4) rather than through them (1, 1, 2, 2), so that a machine which
drifts spreads its drift over all points. An interrupt keeps what was measured. Knows nothing of conditions and files.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import monotonic

from dragoman_bench.bench.clock import Clock
from dragoman_bench.bench.crew import LEAD_S, Sent, assemble
from dragoman_bench.bench.drive import Job, Tally
from dragoman_bench.bench.percentiles import nearest_rank
from dragoman_bench.bench.plan import Plan
from dragoman_bench.bench.records import ClientUse, Load, RequestRecord
from dragoman_bench.bench.results import Measurement
from dragoman_bench.bench.sampling import Sampler, Samples
from dragoman_bench.bench.stopping import Stop, Watchman
from dragoman_bench.bench.summary import Observed, summarise

_WARMUP_TEXTS = 200
WARMUP_VARIATION = 1_000_000  # texts apart from those measured: a warm-up must not fill the caches with them


@dataclass(frozen=True, slots=True)
class Runner:
    plan: Plan
    sampler: Sampler
    watchman: Watchman  # told of interrupts; looks for saturation as the plan says

    async def measurements(self) -> AsyncIterator[tuple[int, Measurement]]:
        """Each with the number of its load level. Ends early on an interrupt, after what it had begun."""
        for repeat in range(self.plan.repeats):
            for number in range(len(self.plan.loads)):
                if self.watchman.interrupted.is_set():
                    return
                measurement = await self.measure(number, repeat)
                if measurement is not None:
                    yield number, measurement

    async def measure(self, number: int, repeat: int) -> Measurement | None:
        """One repeat of one load level; None where it was interrupted before it began."""
        plan, load = self.plan, self.plan.loads[number]
        variation = repeat * len(plan.loads) + number + 1
        if plan.warmup.wanted:
            await self._warm_up(load, variation + WARMUP_VARIATION)
        if self.watchman.interrupted.is_set():
            return None
        label = f"{load.label}, repeat {repeat + 1} of {plan.repeats}" if plan.repeats > 1 else load.label
        self.watchman.observer.phase(f"{label}: preparing texts", None)
        job = job_of(plan, load, variation)
        started_at = datetime.now(UTC).isoformat(timespec="seconds")
        sent, samples, stop = await self._send(job, label, self.sampler, watched=load.open)
        return conclude(plan, load, repeat, started_at, len(set(job.items)), sent, samples, stop)

    async def _warm_up(self, load: Load, variation: int) -> None:
        """The same load, as long as the warm-up lasts; a ramp at its first rate, a replay by one client."""
        warmup = self.plan.warmup
        if load.kind == "ramp":
            load = Load("constant", rate_rps=load.rate_rps)
        if load.kind == "replay":
            load = Load("closed", clients=self.plan.processes)
        plan = replace(
            self.plan, requests=warmup.requests, duration_s=warmup.duration_s, texts=min(self.plan.texts, _WARMUP_TEXTS)
        )
        unsampled = Sampler(None, None)
        await self._send(job_of(plan, load, variation), f"{load.label}, warm-up", unsampled, watched=False)

    async def _send(self, job: Job, label: str, sampler: Sampler, *, watched: bool) -> tuple[Sent, Samples, Stop]:
        after_s = self.plan.saturation_after_s if watched else None
        watchman, tally = replace(self.watchman, saturation_after_s=after_s), Tally()
        watchman.observer.phase(label, len(job.schedule) if job.schedule else job.requests)
        async with assemble(job, self.plan.processes) as crew:
            clock = Clock(monotonic() + LEAD_S)
            async with sampler.running(clock) as samples, watchman.watching(clock, tally) as stop:
                sent = await crew.run(clock, tally, stop.event)
            return sent, samples, stop


def job_of(plan: Plan, load: Load, variation: int) -> Job:
    """The whole crew's job. Raises ConfigError where the load has no schedule."""
    times = plan.schedule(load, variation)
    return Job(
        url=plan.url,
        target=plan.target,
        items=plan.items(times, variation),
        timeout_s=plan.timeout_s,
        schedule=times,
        clients=load.clients or 0,
        requests=plan.requests,
        duration_s=plan.duration_s,
        connections=plan.connections,
    )


def conclude(
    plan: Plan, load: Load, repeat: int, started_at: str, texts: int, sent: Sent, samples: Samples, stop: Stop
) -> Measurement:
    """What was sent and sampled, as one measurement with its summary."""
    last_done_s = max((record.done_s for record in sent.records), default=0.0)
    window_s = round(plan.window_s(load, last_done_s, stop.at_s), 6)
    observed = Observed(sent.records, window_s, stop.why, sent.itl_histogram, samples.server, samples.gpu)
    return Measurement(
        repeat=repeat,
        started_at=started_at,
        window_s=window_s,
        stopped=stop.why,
        distinct_texts=texts,
        records=sent.records,
        itl_histogram=dict(sorted(sent.itl_histogram.items())),
        server=tuple(samples.server),
        gpu=tuple(samples.gpu),
        client=client_use(plan, sent),
        summary=summarise(observed, plan.slo),
    )


def client_use(plan: Plan, sent: Sent) -> ClientUse:
    lags = sorted(lag for record in sent.records if (lag := _lag_s(record)) is not None)
    return ClientUse(
        processes=plan.processes,
        cpu_share=sent.cpu_share,
        lag_p99_s=round(nearest_rank(lags, 99), 6) if lags else 0.0,
        maximum_rps=plan.client_maximum_rps,
    )


def _lag_s(record: RequestRecord) -> float | None:
    return None if record.sent_s is None else record.sent_s - record.intended_s
