"""No request holds the server: every route, sent bodies of every shape, and asked for all of a storage that is full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.bounded_work import BODIES, MB, READS, Limits, Row, Shape, shapes
from tests.measured_server import SIZES, Case, FullStorage, measured_server

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(1_200)]

LITTLE_S = 0.02
"""CPU time for half a megabyte that stays within every limit for the largest body, in whatever proportion it grows."""
NEAR = 0.5
"""The share of a limit that a body may be expected to take, in proportion to a smaller one, without being sent."""
GROWTH = 5.0
"""How many times the CPU time of four times the body may be for work in proportion to it."""
ALLOWANCE = 2.0
"""How many times its limit anything may be here, as machines and their load differ: larger bodies no longer fit into caches,
which other processes use too. (Work that grew with the square of the body would be 16 times that of a quarter.)
`benchmarks/bounded_work.py` has none."""


def allowed(row: Row) -> Row:
    """The row with its limits as they are here."""
    larger = {name: ALLOWANCE * limit for name, limit in asdict(row.limits).items()}
    return replace(row, limits=Limits(**larger))


def is_known(case: Case) -> bool:
    """Whether larger bodies would be far within every limit, as those so far show it.

    Most are. The largest take the most of the hour that all three sizes of every shape take (`benchmarks/bounded_work.py`).
    """
    last = case.figures[-1]
    if last.cpu_s < LITTLE_S:
        return True
    if len(case.figures) < 2:
        return False
    first, times = case.figures[0], SIZES[-1] / last.size
    grows = last.cpu_s / first.cpu_s > GROWTH
    expected = (
        (last.cpu_s, case.limits.cpu_s_a_mb * last.size / MB),
        (last.hold_s * times, case.limits.hold_s),
        (last.read_s * times, case.limits.read_s),
    )
    return not grows and all(one < NEAR * limit for one, limit in expected)


PARTS = 3
"""Of the routes that take bodies: a server each, so that several processes share the work."""


@pytest.fixture(scope="module")
async def full(tmp_path_factory: pytest.TempPathFactory) -> FullStorage:
    """One for all processes of the run."""
    folder = tmp_path_factory.getbasetemp().parent / "full-storage"
    return await FullStorage.made(folder)


async def faults(folder: Path, full: FullStorage, rows: Sequence[tuple[Row, Sequence[Shape | None]]]) -> list[str]:
    """What is over its limit, of rows and the shapes that they are sent."""
    async with measured_server(folder, full) as server:
        cases = [
            server.measure(allowed(row), shape, SIZES if shape else [0], is_known)
            for row, of_row in rows
            for shape in of_row
        ]
        assert not server.process.has_ended
    assert len(cases) > 50
    return [f"{case.method} {case.url} {case.shape}: {'; '.join(case.faults)}" for case in cases if case.faults]


async def test_reads_of_a_full_storage_take_bounded_work(tmp_path: Path, full: FullStorage) -> None:
    assert await faults(tmp_path, full, [(row, [None]) for row in READS]) == []


@pytest.mark.parametrize("part", range(PARTS))
async def test_the_work_for_a_body_is_in_proportion_to_it_and_gives_the_event_loop_back(
    tmp_path: Path, full: FullStorage, part: int
) -> None:
    assert await faults(tmp_path, full, [(row, [*shapes(row)]) for row in BODIES[part::PARTS]]) == []
