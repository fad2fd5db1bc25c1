"""No request holds the server: every route, sent bodies of every shape, and asked for all of a storage that is full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bounded_work import BODIES, READS, Limits, Row, Shape, shapes
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


PARTS = 3
"""Of the routes that take bodies: a server each, so that several processes share the work."""


async def faults(folder: Path, rows: Sequence[tuple[Row, Sequence[Shape | None]]]) -> list[str]:
    """What is over its limit, of rows and the shapes that they are sent."""
    async with measured_server(folder) as server:
        cases = [
            server.measure(allowed(row), shape, (SIZES[0], SIZES[-1]) if shape else [0], GROW_FROM_S if shape else 0)
            for row, of_row in rows
            for shape in of_row
        ]
        assert not server.process.has_ended
    assert len(cases) > 50
    return [f"{case.method} {case.url} {case.shape}: {'; '.join(case.faults)}" for case in cases if case.faults]


async def test_reads_of_a_full_storage_take_bounded_work(tmp_path: Path) -> None:
    assert await faults(tmp_path, [(row, [None]) for row in READS]) == []


@pytest.mark.parametrize("part", range(PARTS))
async def test_the_work_for_a_body_is_in_proportion_to_it_and_gives_the_event_loop_back(
    tmp_path: Path, part: int
) -> None:
    assert await faults(tmp_path, [(row, [*shapes(row)]) for row in BODIES[part::PARTS]]) == []
