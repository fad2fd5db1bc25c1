from __future__ import annotations

from datetime import UTC, timedelta, timezone
from random import Random
from typing import Any

import numpy as np
import pytest

from dragoman.telemetry.requests import TextRecord
from dragoman.telemetry.traffic.window import (
    by_hour,
    in_flight_at_arrivals,
    peak_tokens,
    quantiles,
    summarise,
    table_of,
)
from tests.telemetry.traffic.making import refused, text

MIDNIGHT = 1_699_920_000.0  # 2023-11-14, UTC


def at(arrived_s: float, e2e_s: float = 1.0, **other: Any) -> TextRecord:
    return text(arrived_unix_s=MIDNIGHT + arrived_s, e2e_s=e2e_s, **other)


def test_every_text_counts_as_an_arrival_and_translated_ones_for_lengths_and_times() -> None:
    unchanged = text(5, source_tokens=0, prompt_tokens=0, output_tokens=0, timings=(), e2e_s=0.001)
    texts = [
        text(0, in_flight=1),
        text(1, in_flight=3, source_tokens=30, e2e_s=1.5),
        refused(2, in_flight=9),
        unchanged,
    ]
    summary = summarise(table_of(texts), 8.0)
    assert summary.outcomes == {"ok": 3, "queue_full": 1}
    assert (summary.records, summary.arrivals_per_s) == (4, 0.5)
    assert summary.in_flight is not None and summary.in_flight.highest == 9
    assert summary.source_tokens is not None
    assert (summary.source_tokens.count, summary.source_tokens.p50, summary.source_tokens.highest) == (2, 20, 30)
    assert summary.e2e_s is not None and summary.e2e_s.count == 3
    assert summary.queue_s is not None and (summary.queue_s.count, summary.queue_s.p50) == (2, pytest.approx(0.01))


def test_of_nothing_there_is_no_distribution() -> None:
    summary = summarise(table_of([]), 60.0)
    assert (summary.records, summary.arrivals_per_s, summary.busiest_minute_per_s) == (0, 0.0, 0.0)
    assert summary.in_flight is None and summary.e2e_s is None and summary.peak_tokens is None
    assert summary.outcomes == {}


def test_percentiles_lie_between_samples_and_the_unknown_does_not_count() -> None:
    found = quantiles(np.array([1.0, 2.0, 3.0, np.nan, 4.0]))
    assert found is not None
    assert (found.count, found.p50, found.highest) == (4, 2.5, 4.0)


def test_peak_tokens_are_those_of_texts_that_overlap() -> None:
    apart = [at(0, prompt_tokens=100, output_tokens=10), at(1, prompt_tokens=50, output_tokens=5)]
    assert peak_tokens(table_of(apart)) == 110  # one ends when the other comes
    together = [*apart, at(0.5, 2.0, prompt_tokens=7, output_tokens=3)]
    assert peak_tokens(table_of(together)) == 120


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
    assert peak_tokens(table_of(texts)) == looked


def test_the_busiest_minute_is_a_rate() -> None:
    texts = [at(number) for number in (0, 1, 2, 70, 71, 72, 73, 74, 75, 200)]
    assert summarise(table_of(texts), 201.0).busiest_minute_per_s == pytest.approx(6 / 60)
    assert summarise(table_of(texts[:3]), 3.0).busiest_minute_per_s == pytest.approx(1.0)  # not a minute long


def test_hours_have_their_own_distributions_in_the_zone_asked_for() -> None:
    texts = [at(10, in_flight=1), at(3_599, in_flight=5), at(7_200, in_flight=9)]
    hours = by_hour(table_of(texts), UTC)
    assert [(hour.label, hour.summary.records) for hour in hours] == [("2023-11-14 00:00", 2), ("2023-11-14 02:00", 1)]
    assert hours[0].summary.in_flight is not None and hours[0].summary.in_flight.highest == 5
    half = timezone(timedelta(hours=5, minutes=30))
    assert by_hour(table_of(texts), half)[0].label == "2023-11-14 05:30"


def test_days_lie_on_top_of_each_other() -> None:
    texts = [at(day * 86_400 + hour * 3_600) for day in range(3) for hour in (5, 4, 4)]
    hours = by_hour(table_of(texts), UTC, of_day=True)
    assert [(hour.label, hour.summary.records) for hour in hours] == [("04:00", 6), ("05:00", 3)]
    assert hours[0].summary.arrivals_per_s == pytest.approx(6 / (3 * 3_600))


def test_texts_in_flight_are_those_whose_time_covers_an_arrival() -> None:
    random = np.random.default_rng(1)
    arrived = random.integers(0, 60, 300).astype(float)  # many arrive together, as those of one call do
    lasting = random.integers(0, 20, 300).astype(float)  # some take no time, as what is refused
    counted = in_flight_at_arrivals(arrived, lasting)
    for place, moment in enumerate(arrived):
        covers = (arrived <= moment) & (moment < arrived + lasting) | ((arrived == moment) & (lasting == 0))
        assert counted[place] == covers.sum()
