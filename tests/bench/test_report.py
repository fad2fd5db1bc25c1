"""Reports of simulated results: tables, what the page shows, and that it needs nothing but itself."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Load, Point, Results, write_results
from dragoman_bench.bench.summary import spreads
from dragoman_bench.bench.tables import Table, points_table
from dragoman_bench.cli.report import command
from dragoman_bench.report.charts import report_charts
from dragoman_bench.report.named import read_named
from dragoman_bench.report.page import FOOTER, Section, report_lead, report_sections, write_page
from dragoman_bench.report.tables import against_first, notes, unlike
from dragoman_bench.report.tables import conditions as conditions_of
from tests.bench.making import record
from tests.bench.reading import Page
from tests.bench.simulated import conditions, measured, three_ways

STORED = Path(__file__).parents[2] / "results"
EIGHT = Load("closed", clients=8)


@pytest.fixture(scope="module")
def named() -> dict[str, Results]:
    return three_ways((1, 8), requests=60, repeats=3)


@pytest.fixture(scope="module")
def troubled(named: dict[str, Results]) -> dict[str, Results]:
    """One whole result, and one that was cut short, lost requests and ran elsewhere."""
    rows = [record(i, e2e_s=1 + i / 20, error="timeout" if i % 5 == 0 else None) for i in range(40)]
    rows[1] = replace(rows[1], error="refused")
    stopped = (measured(rows, stopped="interrupted"),)
    elsewhere = conditions(seed=7, git_commit="f" * 40 + "-dirty", python="3.12.1")
    cut = Results(elsewhere, (Point(EIGHT, stopped, spreads(stopped)),), partial=True)
    return {"whole": named["continuous"], "cut <short>": cut}


def page_of(results: dict[str, Results], folder: Path) -> tuple[str, Page]:
    write_page(folder / "report.html", "Benchmark report", report_lead(results), report_sections(results), FOOTER)
    text = (folder / "report.html").read_text(encoding="utf-8")
    return text, Page(text)


@pytest.fixture(scope="module")
def page(named: dict[str, Results], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Page]:
    return page_of(named, tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def troubled_page(troubled: dict[str, Results], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Page]:
    return page_of(troubled, tmp_path_factory.mktemp("troubled"))


def test_the_page_refers_to_nothing_outside_itself(page: tuple[str, Page]) -> None:
    text, parsed = page
    references = [value for _, name, value in parsed.attributes if name in ("href", "src", "xlink:href", "srcset")]
    assert references and all(value.startswith("#") for value in references)
    assert not [tag for tag, _, _ in parsed.attributes if tag in ("script", "link", "iframe", "img", "object")]
    assert not re.search(r"url\((?!#)|@import|<script", text)
    assert "default-src 'none'" in text


def test_every_id_is_unique_and_every_reference_has_one(page: tuple[str, Page]) -> None:
    _, parsed = page
    ids = Counter(value for _, name, value in parsed.attributes if name == "id")
    assert [found for found, count in ids.items() if count > 1] == []
    wanted = {value.removeprefix("#") for _, name, value in parsed.attributes if name in ("href", "aria-labelledby")}
    assert wanted <= set(ids)


def test_the_page_names_every_result_load_and_condition(named: dict[str, Results], page: tuple[str, Page]) -> None:
    _, parsed = page
    shared = named["continuous"].conditions
    wanted = [*named, "1 client", "8 clients", "NVIDIA H200", shared.workload, "Qwen/Qwen3-4B", "0123456789", "e2e_s=1"]
    assert [text for text in wanted if text not in parsed.text] == []


def test_every_chart_has_its_numbers_in_words(named: dict[str, Results], page: tuple[str, Page]) -> None:
    _, parsed = page
    drawn = [value for tag, name, value in parsed.attributes if tag == "svg" and name == "aria-label"]
    assert drawn == [chart.alt for chart in report_charts(named)]
    median = named["continuous"].points[1].spreads["rps"].median
    assert f"continuous {median:.1f} requests/s" in drawn[0]


def test_charts_without_data_are_left_out(named: dict[str, Results]) -> None:
    assert [chart.slug for chart in report_charts(named)] == ["throughput", "latency", "timeline"]
    lost = (measured([record(i, error="connect") for i in range(5)]),)
    down = {"down": Results(conditions(), (Point(EIGHT, lost, spreads(lost)),))}
    assert [chart.slug for chart in report_charts(down)] == ["throughput", "timeline"]


def test_everything_failing_still_gives_a_report(tmp_path: Path) -> None:
    lost = (measured([record(i, error="connect") for i in range(5)]),)
    _, parsed = page_of({"down": Results(conditions(), (Point(EIGHT, lost, spreads(lost)),))}, tmp_path)
    assert "5 connect" in parsed.text and "100.0 %" in parsed.text


def test_what_went_wrong_is_shown(troubled_page: tuple[str, Page]) -> None:
    _, parsed = troubled_page
    for text in ("Read with care", "8 timeout, 1 refused", "22.5 %", "source files that differ from the commit"):
        assert text in parsed.text


def test_a_note_that_several_share_is_shown_once(troubled: dict[str, Results]) -> None:
    cut = troubled["cut <short>"]
    alike = notes({"a": cut, "b": cut, "whole": troubled["whole"]})
    assert alike and all(note.startswith("a, b: ") for note in alike)
    assert all(note.startswith("All: ") for note in notes({"a": cut, "b": cut}))
    assert notes({"whole": troubled["whole"]}) == []


def test_a_whole_result_is_not_flagged(page: tuple[str, Page]) -> None:
    _, parsed = page
    assert "Read with care" not in parsed.text


def test_labels_are_escaped(troubled_page: tuple[str, Page]) -> None:
    text, parsed = troubled_page
    assert "<short>" not in text
    assert "cut <short>" in unescape(parsed.text)


def test_conditions_that_differ_are_a_warning(troubled: dict[str, Results], troubled_page: tuple[str, Page]) -> None:
    assert unlike(troubled) == ["python", "git_commit", "seed"]
    assert conditions_of(troubled)["git_commit"] == ("0123456789", "ffffffffff-dirty")
    assert 'class="alert"' in troubled_page[0]


def test_server_settings_are_what_is_compared(named: dict[str, Results], page: tuple[str, Page]) -> None:
    found = conditions_of(named)
    assert (found["server.pipeline"], found["server.engine.max_num_seqs"]) == (tuple(named), ("1", "16", "64"))
    assert unlike(named) == []
    assert 'class="alert"' not in page[0]


def test_conditions_come_last(page: tuple[str, Page]) -> None:
    headings = re.findall(r"<h2[^>]*>([^<]+)</h2>", page[0])
    assert headings == ["Charts", "All points", "Conditions"]


def test_one_result_is_compared_with_nothing(named: dict[str, Results], tmp_path: Path) -> None:
    _, parsed = page_of({"alone": named["continuous"]}, tmp_path)
    assert "Compared with the first" not in parsed.text and "All points" in parsed.text


def test_a_page_of_sections_alone(tmp_path: Path) -> None:
    sections = [
        Section("Answer", ("Yes, `once` upon a <time>.",), frame="answer"),
        Section(details=(("More", "[engine]\nx = 1"),)),
    ]
    write_page(tmp_path / "page.html", "A & B", "Lead", sections, "Footer")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<title>A &amp; B</title>" in text and "<code>once</code> upon a &lt;time&gt;" in text
    parsed = Page(text)
    for part in ("A & B", "Lead", "Yes,", "[engine] x = 1", "More", "Footer"):
        assert part in parsed.text


def column(table: Table | None, title: str) -> dict[tuple[str, str], str]:
    """A column's cells by load and label."""
    assert table is not None
    place = [column.name for column in table.columns].index(title)
    cells = {(row.cells[0].text, row.cells[1].text): row.cells[place] for row in table.rows}
    return {key: f"{cell.text} {cell.detail}".strip() for key, cell in cells.items()}


def names(table: Table) -> list[str]:
    return [column.name for column in table.columns]


def test_cells_are_median_and_range(named: dict[str, Results]) -> None:
    spread = named["continuous"].points[1].spreads["rps"]
    cells = column(points_table(named), "req/s")
    assert cells["8 clients", "continuous"] == f"{spread.median:.1f} [{spread.low:.1f}..{spread.high:.1f}]"
    assert [load for load, _ in cells] == ["1 client"] * 3 + ["8 clients"] * 3


def at_latencies(*latencies_s: float) -> Results:
    repeats = tuple(measured([record(0, e2e_s=e2e_s)], place) for place, e2e_s in enumerate(latencies_s))
    return Results(conditions(), (Point(EIGHT, repeats, spreads(repeats)),))


def test_points_closer_than_their_range_are_equal() -> None:
    found = against_first(
        {
            "base": at_latencies(1.0, 1.1, 1.2),
            "near": at_latencies(1.05, 1.15, 1.25),
            "far": at_latencies(3.9, 4.0, 4.1),
        }
    )
    latency, rate = column(found, "p95"), column(found, "req/s")
    assert latency["8 clients", "near"] == "equal"
    assert latency["8 clients", "far"] == "3.64× higher"
    assert rate["8 clients", "far"] == "3.64× lower"


def test_higher_latency_is_bad_and_higher_throughput_good(named: dict[str, Results]) -> None:
    fast = against_first(named)
    assert fast is not None
    continuous = next(row for row in fast.rows if (row.cells[0].text, row.cells[1].text) == ("8 clients", "continuous"))
    assert continuous.cells[names(fast).index("req/s")].tone == "good"
    slow = against_first({"base": at_latencies(1.0, 1.0), "slow": at_latencies(2.0, 2.0)})
    assert slow is not None and slow.rows[1].cells[names(slow).index("p95")].tone == "bad"


def test_stored_results_make_a_report(tmp_path: Path) -> None:
    files = [STORED / "journey-quick" / f"{name}.variable.json.gz" for name in ("workers-1", "continuous-64")]
    _, parsed = page_of(read_named(files), tmp_path)
    assert "workers-1" in parsed.text and "25 clients" in parsed.text


def test_nothing_measured_is_a_config_error() -> None:
    with pytest.raises(ConfigError):
        report_sections({"stopped": Results(conditions(), (), partial=True)})


def test_labels_come_from_the_options_or_the_file(named: dict[str, Results], tmp_path: Path) -> None:
    chosen = replace(named["continuous"].conditions, options={"label": "chosen"})
    write_results(replace(named["continuous"], conditions=chosen), tmp_path / "one.json")
    write_results(named["one at a time"], tmp_path / "two.json")
    assert list(read_named([tmp_path / "one.json", tmp_path / "two.json"])) == ["chosen", "two"]
    with pytest.raises(ConfigError):
        read_named([tmp_path / "one.json"] * 2)


def test_the_command_writes_what_it_is_asked_for(named: dict[str, Results], tmp_path: Path) -> None:
    for name in ("one at a time", "continuous"):
        write_results(named[name], tmp_path / f"{name}.json")
    out, png = tmp_path / "out" / "report.html", tmp_path / "docs" / "png"
    files = [str(tmp_path / "one at a time.json"), str(tmp_path / "continuous.json")]
    options = ["--out", str(out), "--png", str(png)]
    done = CliRunner().invoke(command, [*files, *options], catch_exceptions=False)
    assert done.exit_code == 0
    assert "60 requests in" in Page(out.read_text(encoding="utf-8")).text
    images = sorted(path.name for path in png.iterdir())
    assert images == ["latency.png", "throughput.png", "timeline.png"]
    assert all((png / name).read_bytes().startswith(b"\x89PNG") for name in images)


def test_bad_input_is_one_line(named: dict[str, Results], tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"schema": 99}')
    write_results(named["continuous"], tmp_path / "good.json")
    good = str(tmp_path / "good.json")
    for arguments in (
        [str(tmp_path / "missing.json")],
        [str(tmp_path / "other.json")],
        [good, "--out", f"{good}/report.html"],
    ):
        done = CliRunner().invoke(command, arguments)
        assert isinstance(done.exception, ConfigError)
        assert "\n" not in done.exception.message
