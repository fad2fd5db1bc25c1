"""No request holds the server: every route, sent bodies of every shape, and asked for all of a storage that is full."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.bounded_work import BODIES, READS, Limits, Row, shapes
from tests.measured_server import SIZES, measured_server

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(1_200)]

GROW_FROM_S = 0.02
"""Of CPU time for the smallest size, from which the largest is sent too: less holds the loop for less than it may."""
ALLOWANCE = 2.0
"""How many times its limit anything may be here, as machines and their load differ; `benchmarks/bounded_work.py` has none."""


def allowed(row: Row) -> Row:
    """The row with its limits as they are here."""
    limits = row.limits
    return replace(row, limits=Limits(*(ALLOWANCE * one for one in (limits.cpu_s_a_mb, limits.hold_s, limits.read_s))))


async def test_the_work_for_a_request_is_in_proportion_to_it_and_gives_the_event_loop_back(tmp_path: Path) -> None:
    """One test, so that one server is filled and started. Reads come first: bodies change what is stored."""
    async with measured_server(tmp_path) as server:
        cases = [server.measure(allowed(row), None, [0]) for row in READS]
        for row in BODIES:
            cases += [server.measure(allowed(row), shape, (SIZES[0], SIZES[-1]), GROW_FROM_S) for shape in shapes(row)]
        assert not server.process.has_ended
    assert len(cases) > 500
    assert [f"{case.method} {case.url} {case.shape}: {'; '.join(case.faults)}" for case in cases if case.faults] == []
