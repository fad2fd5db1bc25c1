"""Demands: what is read from a trace or stated, and what is computed from it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.tune.demand import (
    PromptShape,
    longest,
    prompt_shape,
    stated_demand,
    stratified,
    trace_demand,
)
from dragoman_bench.tune.outcome import Concurrency, Knobs, LoadLevel, Setup, Trial
from tests.tune.simulated import SUBJECT, demand, result


def trace(folder: Path, lines: list[dict[str, Any]]) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def lengths_only(count: int = 70) -> list[dict[str, Any]]:
    return [
        {"source": "en", "target": "ja", "source_tokens": 10 + n % 50, "output_tokens": 12, "in_flight": n % 7 + 1}
        for n in range(count)
    ]


def test_a_trace_records_concurrency_and_lengths(tmp_path: Path) -> None:
    found = trace_demand([trace(tmp_path, lengths_only())], SUBJECT)
    assert (found.levels.busy, found.levels.peak) == (7, 7)
    assert {item.source_tokens for item in found.items} == {10 + n for n in range(50)}
    assert not found.output_estimated
    assert set(found.outputs) == {12}
    sent = found.workloads["mix"].items(40, 1)
    assert all(item.text.strip() and item.output_tokens is None for item in sent)
    assert sent == found.workloads["mix"].items(40, 1)
    assert {item.text for item in sent} != {item.text for item in found.workloads["mix"].items(40, 2)}


def test_traces_of_several_replicas_are_joined_and_each_counts_its_own_texts(tmp_path: Path) -> None:
    paths: list[Path] = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        paths.append(trace(tmp_path / name, lengths_only()))
    found = trace_demand(paths, SUBJECT)
    assert len(found.items) == 140
    assert found.levels.peak == 7
    without_counts = trace(tmp_path, [{"source": "en", "target": "ja", "text": "Hello."}])
    with pytest.raises(ConfigError, match="--clients"):
        trace_demand([without_counts], SUBJECT)
    assert trace_demand([without_counts], SUBJECT, Concurrency(3, 3, stated=True)).levels.busy == 3


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = trace(tmp_path, [*lengths_only(1), {"in_flight": 1}])
    with pytest.raises(ConfigError, match=f"{path}:2"):
        trace_demand([path], SUBJECT)
    with pytest.raises(ConfigError, match="jsonl"):
        trace_demand([tmp_path / "trace.txt"], SUBJECT)


def test_a_stated_demand_has_the_lengths_of_the_subject() -> None:
    found = stated_demand(SUBJECT, Concurrency(6, 6, stated=True))
    assert found.output_estimated
    assert all(item.source_tokens <= 260 for item in found.items)
    long = found.workloads["long"].items(20, 0)
    assert max(item.source_tokens for item in long) > 100


def test_long_texts_are_several_sequences_with_a_prompt_each() -> None:
    found = replace(demand(), shape=PromptShape(8, 40))
    assert found.sequences(16) > demand().sequences(16) == 16
    assert sum(found.prompts) > sum(demand().prompts)
    assert found.peak_tokens(16) > found.peak_tokens(4)


def test_prompt_shape_follows_the_models_limits() -> None:
    assert prompt_shape(SUBJECT).segment_tokens == 410  # by its window of 1,024
    short = replace(SUBJECT, lengths={"variable": (10, 120)})
    assert prompt_shape(short) == PromptShape(0, 120, 1024)


def test_measured_lengths_replace_estimates_and_never_what_was_recorded() -> None:
    estimated = replace(demand(), output_estimated=True)
    sources = [item.source_tokens for item in estimated.items]
    shown = result(LoadLevel(16), 10.0, 1.0)  # 60 output tokens a request
    trial = Trial("ladder", "ladder", Setup(Knobs()), "", results=(shown,), prompt_overhead=30)
    assert sum(estimated.measured(trial).outputs) == pytest.approx(60 * len(sources), rel=0.01)
    assert demand().measured(trial).outputs == demand().outputs
    assert demand().measured(trial).shape.overhead == 30


def test_any_twenty_texts_in_a_row_have_the_same_mix_of_lengths() -> None:
    sizes = list(range(400))
    places = list(islice(stratified(sizes, Random(1)), 400))
    assert sorted(places) == sizes
    for start in range(0, 400, 20):
        assert sorted(place // 20 for place in places[start : start + 20]) == list(range(20))
    assert longest([5, 1, 9, 3]) == [2]
