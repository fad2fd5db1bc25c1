from __future__ import annotations

from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from dragoman.telemetry.traffic.entry import TrafficEntry, file_name, to_line
from dragoman.telemetry.traffic.summary import (
    in_flight_at_arrivals,
    long_sequence,
    peak_tokens,
    quantiles,
    summarise,
)
from tests.telemetry.traffic.making import entry, refused

MIDNIGHT = 1_699_920_000.0  # 2023-11-14, UTC


def at(arrived_s: float, e2e_s: float = 1.0, **other: Any) -> TrafficEntry:
    return entry(arrived_unix_s=MIDNIGHT + arrived_s, e2e_s=e2e_s, **other)


def test_every_text_counts_as_an_arrival_and_translated_ones_for_lengths_and_times() -> None:
    unchanged = entry(5, source_tokens=0, prompt_tokens=0, output_tokens=0, queue_s=None, ttft_s=None, e2e_s=0.001)
    texts = [
        entry(0, in_flight=1),
        entry(1, in_flight=3, source_tokens=30, e2e_s=1.5),
        TrafficEntry.of(refused(2, in_flight=9)),
        unchanged,
    ]
    summary = summarise(texts)
    assert summary.outcomes == {"ok": 3, "queue_full": 1}
    assert (summary.records, summary.window_s, summary.arrivals_per_s) == (4, 5.001, pytest.approx(4 / 5.001))
    assert summary.in_flight is not None and summary.in_flight.highest == 9
    assert summary.source_tokens is not None
    assert (summary.source_tokens.count, summary.source_tokens.p50, summary.source_tokens.highest) == (2, 20, 30)
    assert summary.e2e_s is not None and summary.e2e_s.count == 3
    assert summary.queue_s is not None and (summary.queue_s.count, summary.queue_s.p50) == (2, pytest.approx(0.01))


def test_percentiles_lie_between_samples_and_the_unknown_does_not_count() -> None:
    found = quantiles([1.0, 2.0, 3.0, None, 4.0])
    assert found is not None and quantiles([None]) is None
    assert (found.count, found.p50, found.highest) == (4, 2.5, 4.0)


def test_peak_tokens_are_those_of_texts_that_overlap() -> None:
    apart = [at(0, prompt_tokens=100, output_tokens=10), at(1, prompt_tokens=50, output_tokens=5)]
    assert peak_tokens(apart) == 110  # one ends when the other comes
    together = [*apart, at(0.5, 2.0, prompt_tokens=7, output_tokens=3)]
    assert peak_tokens(together) == 120


def test_peak_tokens_agree_with_looking_at_every_arrival() -> None:
    random = Random(4)
    texts = [
        at(random.uniform(0, 20), random.uniform(0, 5), prompt_tokens=random.randrange(200), output_tokens=1)
        for _ in range(300)
    ]
    looked = max(
        sum(
            other.prompt_tokens + other.output_tokens
            for other in texts
            if other.arrived_unix_s <= one.arrived_unix_s < other.arrived_unix_s + other.e2e_s
        )
        for one in texts
    )
    assert peak_tokens(texts) == looked


def test_a_long_sequence_has_the_tokens_of_prompt_and_output_and_comes_of_enough_texts_that_a_model_translated(
    tmp_path: Path,
) -> None:
    assert long_sequence(tmp_path / "none", least=1) is None
    texts = [at(number, prompt_tokens=100, output_tokens=number + 1) for number in range(200)]
    cached = [at(1000 + number, prompt_tokens=0, output_tokens=0) for number in range(50)]
    file = tmp_path / file_name(datetime.fromtimestamp(MIDNIGHT, UTC), "host", "0", 1, 0)
    file.write_bytes(b"".join(map(to_line, [*texts, *cached])))
    assert long_sequence(tmp_path, least=200) == ceil(100 + np.percentile(range(1, 201), 99))
    assert long_sequence(tmp_path, least=201) is None


def test_the_busiest_minute_is_a_rate() -> None:
    texts = [at(number) for number in (0, 1, 2, 70, 71, 72, 73, 74, 75, 200)]
    assert summarise(texts).busiest_minute_per_s == pytest.approx(6 / 60)
    assert summarise(texts[:3]).busiest_minute_per_s == pytest.approx(1.0)  # not a minute long


def test_texts_in_flight_are_those_whose_time_covers_an_arrival() -> None:
    random = np.random.default_rng(1)
    arrived = random.integers(0, 60, 300).astype(float)  # many arrive together, as those of one call do
    lasting = random.integers(0, 20, 300).astype(float)  # some take no time, as what is refused
    counted = in_flight_at_arrivals(arrived, lasting)
    for place, moment in enumerate(arrived):
        covers = (arrived <= moment) & (moment < arrived + lasting) | ((arrived == moment) & (lasting == 0))
        assert counted[place] == covers.sum()
