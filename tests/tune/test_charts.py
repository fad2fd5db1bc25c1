"""The charts of a tune: there where there is data, with the knee where it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from matplotlib.axes import Axes

from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.tune.charts import charts, final, memory, save_pngs
from dragoman_bench.tune.ladder_chart import ladder
from tests.tune.telling import FINAL, LADDER, MEMORY, WHOLE, stopped


def panels(axes: list[Axes]) -> dict[str, Axes]:
    return {one.get_title("left"): one for one in axes if one.get_visible() and one.get_title("left")}


def test_there_is_a_panel_for_every_quantity_that_was_measured() -> None:
    assert set(panels(ladder(LADDER).axes)) == {
        "requests a second", "latency, end to end", "decode time per token", "KV cache in use, at most",
        "requests that wait", "GPU utilisation",
    }  # fmt: skip
    bare = stopped().ladder
    assert bare is not None
    assert "GPU utilisation" not in panels(ladder(bare).axes)


def test_the_knee_is_marked_in_every_panel() -> None:
    for name, axes in panels(ladder(LADDER).axes).items():
        ticks = [label.get_text() for label in axes.get_xticklabels()]
        assert ticks == ["1", "2", "4", "8", "16", "25"], name
        assert "knee 16" in [text.get_text() for text in axes.texts], name
        assert [4, 4] in [list(line.get_xdata()) for line in axes.lines], name


def test_a_ladder_without_a_knee_is_drawn_without_it() -> None:
    found = panels(ladder(replace(LADDER, knee=None, best=None)).axes)
    assert not any("knee" in text.get_text() for axes in found.values() for text in axes.texts)


def test_throughput_and_goodput_are_the_medians() -> None:
    axes = panels(ladder(LADDER).axes)["requests a second"]
    drawn = [list(map(float, line.get_ydata())) for line in axes.lines if len(line.get_xdata()) == 6]
    assert [round(value, 2) for value in drawn[0]] == [2.6, 5.0, 9.7, 18.35, 34.0, 34.1]
    assert [34.0, 34.1] in [[round(value, 2) for value in line[4:]] for line in drawn if line[:2] == [0, 0]]


def test_the_slos_limit_on_the_whole_time_is_drawn() -> None:
    axes = panels(ladder(LADDER, parse_slo("p95_s=2,itl_ms_p95=40")).axes)["latency, end to end"]
    assert "SLO, p95" in [text.get_text() for text in axes.texts]
    assert [2.0, 2.0] in [list(map(float, line.get_ydata())) for line in axes.lines]


def test_the_final_shows_whoever_was_measured() -> None:
    rates = final(FINAL).axes[0]
    assert [label.get_text() for label in rates.get_yticklabels()] == [
        "what the search found", "vLLM's embedder defaults", "vllm serve",
    ]  # fmt: skip


def test_memory_shows_need_and_size() -> None:
    axes = memory(WHOLE, MEMORY).axes[0]
    assert [text.get_text() for text in axes.texts] == ["7,420", "14,508", "9,275", "212,000"]


def test_charts_are_there_for_what_was_reached() -> None:
    assert list(charts(WHOLE)) == ["ladder", "memory", "final"]
    assert list(charts(stopped())) == ["ladder"]
    assert charts(replace(stopped(), ladder=None)) == {}


def test_words_say_what_a_chart_shows() -> None:
    alt = charts(WHOLE)["ladder"].alt
    assert "cap 16: 34.0" in alt and "Knee: 16" in alt
    assert "vLLM's embedder defaults 33.9" in charts(WHOLE)["final"].alt


def test_pngs_are_written_and_the_same_each_time(tmp_path: Path) -> None:
    first, second = save_pngs(stopped(), tmp_path / "a"), save_pngs(stopped(), tmp_path / "b")
    assert first["ladder"].name == "tune-ladder.png"
    assert first["ladder"].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert first["ladder"].read_bytes() == second["ladder"].read_bytes()
