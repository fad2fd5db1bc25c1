"""Every route of the app has a row in the table of bounded work, so that a new one is measured, and no row is left over."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bounded_work import page
from fastapi.routing import APIRoute
from starlette.routing import Mount, Route

from dragoman.api.app import create_app
from dragoman_bench.bench.measurement import Measurement
from tests.bounded_work import BODIES, READS, ROWS, shapes
from tests.processes import ROOT
from tests.serving import fake_service


def routes() -> Iterator[tuple[str, str]]:
    """Method and path of all that an app answers."""
    for route in create_app(fake_service()).routes:
        if isinstance(route, Mount):
            yield "GET", route.path
        else:
            assert isinstance(route, APIRoute | Route), "a kind of route that the table of bounded work does not know"
            yield from ((method, route.path) for method in route.methods or ())


def test_every_route_has_a_row() -> None:
    """A row says what a route is sent: add one to tests/bounded_work.py."""
    known, measured = set(routes()), {(row.method, row.route) for row in ROWS}
    assert known - measured == set()
    assert measured - known == set()


def test_every_row_that_takes_a_body_is_sent_several_shapes() -> None:
    assert not [row for row in READS if row.method not in ("GET", "HEAD")]
    for row in BODIES:
        made = list(shapes(row))
        assert len({one.name for one in made}) == len(made) > 1, row
        for shape in made:
            body = shape.body(20_000)
            assert 0 < len(body) < 60_000, (row.route, shape.name, len(body))


def test_the_page_is_current() -> None:
    results = Measurement.read(ROOT / "results/bounded-work.json")
    assert page(results) == (ROOT / "docs/bounded-work.md").read_text()
