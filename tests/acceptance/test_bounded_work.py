"""No request holds the server: every route, sent bodies of every shape, and asked for all of a storage that is full."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bounded_work import BODIES, READS, shapes
from tests.measured_server import SIZES, measured_server

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(1_200)]

GROW_FROM_S = 0.1
"""Of CPU time for the middle size, from which the largest one is sent too."""


async def test_the_work_for_a_request_is_in_proportion_to_it_and_gives_the_event_loop_back(tmp_path: Path) -> None:
    """One test, so that one server is filled and started. Reads come first: bodies change what is stored."""
    async with measured_server(tmp_path) as server:
        cases = [server.measure(row, None, [0]) for row in READS]
        for row in BODIES:
            cases += [server.measure(row, shape, SIZES[1:], GROW_FROM_S) for shape in shapes(row)]
        assert not server.process.has_ended
    assert len(cases) > 500
    assert [f"{case.method} {case.url} {case.shape}: {'; '.join(case.faults)}" for case in cases if case.faults] == []
