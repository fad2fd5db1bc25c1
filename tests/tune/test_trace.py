from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.tune.demand import PromptShape
from dragoman_bench.tune.outcome import Levels
from dragoman_bench.tune.trace import demand_of_subject, demand_of_trace, in_flight
from tests.tune.shops import SUBJECT

SHAPE = PromptShape(12)
DUMMY = replace(SUBJECT, forced=(0.8, 1.3))


def trace(folder: Path, *lines: dict[str, Any]) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return path


def line(at_s: float, **other: Any) -> dict[str, Any]:
    return {"at_s": at_s, "source": "en", "target": "ja", "source_tokens": 20, "output_tokens": 30} | other


def test_levels_are_counted_from_what_was_in_flight(tmp_path: Path) -> None:
    path = trace(tmp_path, *(line(place, in_flight=count) for place, count in enumerate([1, 2, 2, 3, 9])))

    assert demand_of_trace(path, SUBJECT, SHAPE).levels == Levels(2, 9, 9)


def test_levels_are_counted_from_times_where_nothing_says_what_was_in_flight(tmp_path: Path) -> None:
    path = trace(tmp_path, line(0.0, e2e_s=5.0), line(1.0, e2e_s=1.0), line(3.0, e2e_s=0.5), line(9.0, e2e_s=1.0))

    assert demand_of_trace(path, SUBJECT, SHAPE).levels == Levels(1, 2, 2)


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [([(0, 2), (1, 3), (2, 4)], [1, 2, 2]), ([(0, 9), (0, 9), (0, 9)], [1, 2, 3]), ([(5, 6), (0, 1)], [1, 1])],
)
def test_in_flight_counts_the_arrival_itself_and_not_who_has_left(
    intervals: list[tuple[float, float]], expected: list[int]
) -> None:
    assert in_flight(intervals) == expected


def test_stated_levels_overrule_the_trace(tmp_path: Path) -> None:
    path = trace(tmp_path, line(0.0), line(1.0))

    assert demand_of_trace(path, SUBJECT, SHAPE, Levels(2, 8, 8, True)).levels.busy == 8


def test_a_trace_that_counts_nothing_needs_stated_clients(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--clients 2-25"):
        demand_of_trace(trace(tmp_path, line(0.0, in_flight=2), line(1.0)), SUBJECT, SHAPE)


@pytest.mark.parametrize("bad", [{"source_tokens": 0}, {"source": 3}])
def test_a_line_that_is_wrong_is_named(tmp_path: Path, bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"trace\.jsonl:2"):
        demand_of_trace(trace(tmp_path, line(0.0, in_flight=1), line(1.0, **bad)), SUBJECT, SHAPE)


def test_only_jsonl_is_a_trace(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="jsonl"):
        demand_of_trace(tmp_path / "texts.txt", SUBJECT, SHAPE)


def test_lengths_without_texts_are_sent_as_made_up_texts_of_those_lengths(tmp_path: Path) -> None:
    lengths = [12, 40, 90, 25] * 5
    path = trace(tmp_path, *(line(place, source_tokens=tokens, in_flight=2) for place, tokens in enumerate(lengths)))

    found = demand_of_trace(path, SUBJECT, SHAPE)
    sent = found.workloads["mix"].items(20, 1)

    assert [item.source_tokens for item in found.items] == lengths
    assert sorted(item.wanted_tokens or 0 for item in sent) == sorted(lengths)
    assert all(item.text.strip() and item.text[0] != "\0" for item in sent)
    assert sum(item.source_tokens for item in sent) == pytest.approx(sum(lengths), rel=0.1)
    assert any("made up" in note for note in found.notes)


def test_languages_without_texts_are_replaced_and_that_is_said(tmp_path: Path) -> None:
    path = trace(tmp_path, line(0.0, source="de", in_flight=1), line(1.0, in_flight=1))

    found = demand_of_trace(path, SUBJECT, SHAPE)

    assert {item.source for item in found.workloads["mix"].items(2, 0)} == {"en"}
    assert any("de-ja" in note for note in found.notes)


def test_recorded_texts_are_sent_as_they_are(tmp_path: Path) -> None:
    path = trace(tmp_path, *(line(place, text=f"Hello number {place}", in_flight=1) for place in range(8)))

    found = demand_of_trace(path, SUBJECT, SHAPE)

    assert {item.text for item in found.workloads["mix"].items(8, 0)} == {f"Hello number {place}" for place in range(8)}
    assert any("more than once" in note for note in found.notes)


def test_recorded_outputs_size_the_cache_and_are_forced_on_random_weights_only(tmp_path: Path) -> None:
    path = trace(tmp_path, *(line(place, in_flight=1, output_tokens=77) for place in range(4)))

    real, dummy = demand_of_trace(path, SUBJECT, SHAPE), demand_of_trace(path, DUMMY, SHAPE)

    assert real.outputs == dummy.outputs == (77,) * 4
    assert not real.output_estimated
    assert {item.output_tokens for item in real.workloads["mix"].items(4, 0)} == {None}
    assert {item.output_tokens for item in dummy.workloads["mix"].items(4, 0)} == {77}


def test_a_stated_workload_is_the_journeys_variable_texts() -> None:
    found = demand_of_subject(SUBJECT, SHAPE, Levels(2, 4, 4, True))

    assert 10 <= min(found.summary().source.p50, 20) <= 20
    assert found.output_estimated
    assert found.workloads["mix"].items(5, 1) == found.workloads["mix"].items(5, 1)
    assert not demand_of_subject(DUMMY, SHAPE, Levels(2, 4, 4, True)).output_estimated
