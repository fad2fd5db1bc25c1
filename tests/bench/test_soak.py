"""A soak: what it stores has a bound, and of its samples a leak is found, and noise is not one."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dragoman_bench.bench.measurement import Measurement
from dragoman_bench.bench.progress import NoProgress
from dragoman_bench.chaos import soak
from dragoman_bench.chaos.clients import MixedLoad
from dragoman_bench.chaos.ledger import VERDICTS
from dragoman_bench.chaos.soak import BLOCKS, slope
from dragoman_bench.chaos.stage import Stage
from tests.bench.test_chaos_run import ALONE, staged_in_process, started
from tests.processes import ROOT
from tests.waiting import HANG_S

PUBLISHED = Measurement.read(ROOT / "results" / "soak.json")

TIMES = [float(second) for second in range(0, 1200, 4)]


def test_a_leak_is_measured_through_the_noise() -> None:
    rng = Random(3)
    found = slope(TIMES, [500 + 30 * at / 3600 + rng.gauss(0, 1) for at in TIMES])
    assert not found.is_flat
    assert math.isclose(found.per_hour, 30, abs_tol=3 * found.error)


def test_noise_alone_is_flat_nearly_always() -> None:
    flat = 0
    for seed in range(200):
        rng = Random(seed)
        flat += slope(TIMES, [500 + rng.gauss(0, 5) for _ in TIMES]).is_flat
    assert flat >= 170  # of a t distribution of 8 degrees of freedom 92% are within two standard errors


def test_what_does_not_change_is_flat() -> None:
    found = slope(TIMES, [7.0] * len(TIMES))
    assert found.is_flat
    assert math.isclose(found.mean, 7.0)
    assert abs(found.per_hour) < 1e-6


def test_too_few_samples_are_an_error() -> None:
    with pytest.raises(ValueError, match="too few"):
        slope(TIMES[: BLOCKS - 1], TIMES[: BLOCKS - 1])


def test_of_a_run_that_was_interrupted_there_is_no_slope() -> None:
    data: dict[str, Any] = {
        **dict.fromkeys(VERDICTS, 0),
        "codes": {},
        "samples": [],
        "seconds": 0.5,
        "per_s": 20.0,
        "seed": 1,
    }
    results = Measurement("soak", PUBLISHED.conditions, data, partial=True)
    assert {cell.text for row in soak.table(results).rows for cell in row.cells[1:]} == {"–"}
    assert soak.conditions(results).startswith("0 requests in 0 minutes")


class Interrupting(NoProgress):
    """Interrupts the run once there are so many requests."""

    def __init__(self, interrupted: asyncio.Event, requests: int) -> None:
        self._interrupted, self._requests = interrupted, requests

    def note(self, text: str) -> None:
        if int(text.split()[0]) >= self._requests:
            self._interrupted.set()


async def test_what_a_soak_stores_has_a_bound_and_its_end_is_compared_with_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited, audit = list[MixedLoad](), MixedLoad.audit

    async def noted(load: MixedLoad, settle_s: float = 12.0) -> None:
        audited.append(load)
        await audit(load, settle_s)

    monkeypatch.setattr(MixedLoad, "audit", noted)
    monkeypatch.setattr(soak, "FOLDER", tmp_path)
    monkeypatch.setattr(soak, "ENTRIES", 2)
    interrupted, results = asyncio.Event(), Measurement.begin("soak")
    with started(ALONE) as process:

        @asynccontextmanager
        async def staged(*arguments: Any) -> AsyncGenerator[Stage]:
            async with staged_in_process(*arguments) as stage:
                stage.servers[0].process = process
                yield stage

        monkeypatch.setattr(soak, "staged", staged)
        # So few calls a second that a server which shares its process with them keeps up on a busy machine.
        await soak.Soak(results, 4.0, HANG_S, 1, Interrupting(interrupted, 100)).run(interrupted)
        process.kill()
    assert not soak.has_failed(results), results.data["findings"]
    assert results.data["right"] >= 50
    assert results.data["samples"][0]["memory_mib"] > 0
    [load] = audited
    assert {len(entries) for entries in load.ledger.memories.values()} <= {1, 2}
    assert load.ledger.memories
    assert any(one.is_deleted for one in load.ledger.documents)
    assert all(one.is_deleted or not one.id or one.has_failed for one in load.ledger.documents)


def test_the_page_shows_the_published_results() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert soak.shown_in(page, PUBLISHED) == page, "run make results"
    assert not soak.has_failed(PUBLISHED)
