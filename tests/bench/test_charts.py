"""Charts show the numbers of the results: bars, whiskers, curves and boxes are read back from the figures."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import matplotlib
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from PIL import Image

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Load, Point, Results
from dragoman_bench.bench.summary import spreads
from dragoman_bench.report import charts
from dragoman_bench.report.charts import middle_requests
from dragoman_bench.report.named import loads_of, shared_load
from dragoman_bench.report.style import save_png, svg
from tests.bench.making import record
from tests.bench.simulated import Server, conditions, measured, point, three_ways

EIGHT = Load("closed", clients=8)


@pytest.fixture(scope="module")
def named() -> dict[str, Results]:
    return three_ways((1, 8), requests=60, repeats=3)


def panels(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_visible()]


def heights(axes: Axes) -> list[float]:
    return sorted(patch.get_height() for patch in axes.patches if isinstance(patch, Rectangle))


def of_points(*points: Point) -> Results:
    return Results(conditions(loads=tuple(point.load for point in points)), points)


def test_bars_are_the_medians_of_the_repeats(named: dict[str, Results]) -> None:
    requests, tokens = panels(charts.throughput(named))
    for axes, metric in ((requests, "rps"), (tokens, "output_tokens_s")):
        medians = [point.spreads[metric].median for results in named.values() for point in results.points]
        assert heights(axes) == pytest.approx(sorted(medians))


def test_whiskers_reach_from_the_lowest_to_the_highest_repeat(named: dict[str, Results]) -> None:
    axes = panels(charts.throughput(named))[0]
    drawn = sorted(
        tuple(segment[:, 1])
        for container in axes.containers
        if hasattr(container, "has_yerr")
        for segment in container.lines[2][0].get_segments()
    )
    expected = sorted(
        (point.spreads["rps"].low, point.spreads["rps"].high) for results in named.values() for point in results.points
    )
    assert drawn == [pytest.approx(ends) for ends in expected]


def test_a_point_measured_once_has_no_whisker() -> None:
    once = {"once": of_points(point(Server(4), 2, requests=10, repeats=1))}
    axes = panels(charts.throughput(once))[0]
    assert not [container for container in axes.containers if hasattr(container, "has_yerr")]


def test_a_load_that_was_not_measured_has_no_bar(named: dict[str, Results]) -> None:
    lacking = named | {"continuous": replace(named["continuous"], points=named["continuous"].points[:1])}
    assert len(heights(panels(charts.throughput(lacking))[0])) == 5


def test_servers_that_report_no_tokens_get_no_token_panel() -> None:
    rows = [record(i, e2e_s=1 + i / 10) for i in range(10)]
    silent = Point(EIGHT, (measured(rows),), spreads([measured(rows)]))
    assert len(panels(charts.throughput({"silent": of_points(silent)}))) == 1


def test_latency_lines_are_the_percentiles(named: dict[str, Results]) -> None:
    for axes, metric in zip(panels(charts.latency(named)), ("e2e_p50_s", "e2e_p95_s", "e2e_p99_s"), strict=True):
        lines = [container.lines[0] for container in axes.containers]
        for line, results in zip(lines, named.values(), strict=True):
            assert list(line.get_ydata()) == [point.spreads[metric].median for point in results.points]


def test_the_timeline_draws_each_request_from_send_to_end() -> None:
    rows = [record(i, intended_s=float(i), e2e_s=2.0, source_tokens=20 + 60 * i) for i in range(3)]
    at = Point(EIGHT, (measured(rows),), spreads([measured(rows)]))
    axes = panels(charts.timeline({"plain": of_points(at)}, EIGHT))[0]
    boxes = [patch.get_path().get_extents() for patch in axes.patches if isinstance(patch, PathPatch)]
    assert [(box.x0, box.x1) for box in boxes] == [(0, 2), (1, 3), (2, 4)]
    assert [round(box.y0 + box.height / 2) for box in boxes] == [0, 1, 2]
    assert len({patch.get_facecolor() for patch in axes.patches}) == 3


def test_the_timeline_divides_a_streamed_answer_at_its_first_token() -> None:
    streamed = record(0, e2e_s=3.0, first_token_s=1.0)
    at = Point(EIGHT, (measured([streamed]),), spreads([measured([streamed])]))
    axes = panels(charts.timeline({"stream": of_points(at)}, EIGHT))[0]
    pale, solid = (patch.get_path().get_extents() for patch in axes.patches)
    assert (pale.x0, pale.x1, solid.x0, solid.x1) == (0, 1, 1, 3)
    assert axes.patches[0].get_alpha() < axes.patches[1].get_alpha() == 1


def test_the_timeline_marks_failures() -> None:
    rows = [record(0), record(1, e2e_s=5.0, error="timeout")]
    at = Point(EIGHT, (measured(rows),), spreads([measured(rows)]))
    axes = panels(charts.timeline({"failing": of_points(at)}, EIGHT))[0]
    assert list(axes.lines[0].get_xdata()) == [5.0]
    assert list(axes.lines[0].get_ydata()) == [1]


@pytest.mark.parametrize(("requests", "expected"), [(4, [3, 4, 5, 6]), (99, list(range(10)))])
def test_consecutive_requests_are_shown(requests: int, expected: list[int]) -> None:
    rows = [record(i, intended_s=float(i)) for i in reversed(range(10))]
    assert [chosen.index for chosen in middle_requests(rows, requests)] == expected


def test_one_bar_a_result_has_its_median_at_that_load(named: dict[str, Results]) -> None:
    chart = charts.rates_by_result(named, EIGHT, "Rates")
    axes = panels(chart.draw())[0]
    medians = [results.points[1].spreads["rps"].median for results in named.values()]
    assert [patch.get_width() for patch in axes.patches] == pytest.approx(medians)
    assert [label.get_text() for label in axes.get_yticklabels()] == list(named)
    assert f"{medians[0]:.2f} requests/s" in chart.alt


def test_loads_are_ordered_by_kind_and_size() -> None:
    loads = [Load("poisson", rate_rps=2), EIGHT, Load("closed", clients=16), Load("poisson", rate_rps=0.5)]
    measurement = measured([record(0)])
    one = of_points(*(Point(load, (measurement,), spreads([measurement])) for load in loads))
    assert [load.label for load in loads_of({"one": one})] == [
        "8 clients", "16 clients", "0.5 req/s poisson", "2 req/s poisson",
    ]  # fmt: skip


def test_the_shared_load_is_the_highest_that_most_have(named: dict[str, Results]) -> None:
    more = of_points(*named["continuous"].points, point(Server(4), 16, requests=20, repeats=1))
    assert shared_load({**named, "more": more}) == EIGHT


def test_svg_can_be_put_into_a_page(named: dict[str, Results]) -> None:
    drawn = svg(charts.throughput(named), "rates", 'bars & "whiskers"')
    assert drawn.startswith("<svg viewBox=") and drawn.endswith("</svg>")
    assert 'aria-label="bars &amp; &quot;whiskers&quot;"' in drawn
    assert "http" not in drawn and "<metadata" not in drawn and "<?xml" not in drawn
    ids = re.findall(r'\bid="([^"]+)"', drawn)
    assert ids and all(found.startswith("rates-") for found in ids)
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', drawn)) <= set(ids)
    assert "var(--ink, #1f2430)" in drawn and "var(--series-0, #2563a8)" in drawn
    assert "continuous</text>" in drawn  # text stays text


def test_png_grows_by_title_and_caption(named: dict[str, Results], tmp_path: Path) -> None:
    figure = charts.throughput(named)
    width_in, height_in = figure.get_size_inches()
    save_png(figure, tmp_path / "made" / "rates.png", "Throughput", "A caption. " * 40)
    with Image.open(tmp_path / "made" / "rates.png") as image:
        assert image.width > 0.9 * width_in * 160
        assert image.height > height_in * 160
    assert "Throughput" in [text.get_text() for text in figure.texts]


def test_a_png_that_cannot_be_written_is_a_config_error(named: dict[str, Results], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError):
        save_png(charts.throughput(named), tmp_path / "file" / "rates.png", "Throughput", "")


def test_labels_of_any_script_are_drawn(named: dict[str, Results]) -> None:
    odd = {"_hidden": named["continuous"], "$cost$ <b>": named["one at a time"]}
    drawn = svg(charts.throughput(odd), "odd", "odd")
    assert "_hidden</text>" in drawn and "$cost$ &lt;b&gt;</text>" in drawn


def test_drawing_leaves_the_callers_settings_alone(named: dict[str, Results]) -> None:
    before = dict(matplotlib.rcParams)
    svg(charts.latency(named), "latency", "lines")
    assert dict(matplotlib.rcParams) == before
