from __future__ import annotations

from math import inf

import pytest

from dragoman_bench.bench.summary import distribution, nearest_rank


@pytest.mark.parametrize(("percent", "expected"), [(1, 15), (30, 20), (40, 20), (50, 35), (95, 50), (100, 50)])
def test_nearest_rank_of_the_textbook_example(percent: float, expected: float) -> None:
    assert nearest_rank([15, 20, 35, 40, 50], percent) == expected


def test_exact_ranks_are_not_pushed_up_by_rounding() -> None:
    values = [float(value) for value in range(1, 101)]

    assert [nearest_rank(values, percent) for percent in (55, 57, 58, 95, 99)] == [55, 57, 58, 95, 99]


def test_infinities_only_count_where_the_rank_reaches_them() -> None:
    assert nearest_rank([1.0] * 95 + [inf] * 5, 95) == 1.0
    assert nearest_rank([1.0] * 94 + [inf] * 6, 95) == inf


def test_distribution_of_twenty_values() -> None:
    found = distribution(float(value) for value in range(20, 0, -1))

    assert found is not None
    assert (found.count, found.mean_s, found.p50_s, found.p90_s, found.p95_s, found.p99_s, found.max_s) == (
        20,
        10.5,
        10.0,
        18.0,
        19.0,
        20.0,
        20.0,
    )


def test_nothing_has_no_distribution() -> None:
    assert distribution([]) is None
