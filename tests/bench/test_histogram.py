from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from dragoman_bench.bench.summary import (
    bucket_counts,
    bucket_of,
    bucket_value,
    histogram_distribution,
    histogram_percentile,
    nearest_rank,
)


def test_a_bucket_is_within_one_percent_of_its_values() -> None:
    random = Random(1)
    values = [10 ** random.uniform(-4.5, 1) for _ in range(500)]

    assert all(bucket_value(bucket_of(value)) == pytest.approx(value, rel=0.0101) for value in values)


def test_percentiles_agree_with_the_exact_ones() -> None:
    values = sorted(Random(2).expovariate(20) + 0.001 for _ in range(1000))
    counted = bucket_counts(values)

    for percent in (50, 90, 95, 99, 100):
        assert histogram_percentile(counted, percent) == pytest.approx(nearest_rank(values, percent), rel=0.011)


def test_adding_histograms_is_counting_all_their_values() -> None:
    left, right = [0.01, 0.02, 0.02], [0.02, 0.5]

    assert bucket_counts(left) + bucket_counts(right) == bucket_counts(left + right)


def test_distribution_counts_and_averages() -> None:
    found = histogram_distribution(bucket_counts([0.01] * 3 + [0.05]))

    assert found is not None
    assert found.count == 4
    assert found.mean_s == pytest.approx(0.02, rel=0.01)
    assert found.max_s == pytest.approx(0.05, rel=0.01)


def test_gaps_under_the_floor_share_a_bucket() -> None:
    assert bucket_counts([0.0, 1e-6, 1e-5]) == Counter({0: 3})


def test_nothing_has_no_percentile() -> None:
    assert histogram_percentile({}, 50) is None
    assert histogram_distribution({}) is None
