from __future__ import annotations

import pytest

from dragoman_bench.bench.summary import compare, spread_of


def test_median_and_range_of_the_repeats() -> None:
    spread = spread_of([10.0, 14.0, 11.0])

    assert (spread.median, spread.low, spread.high, spread.repeats) == (11.0, 10.0, 14.0, 3)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([10, 11, 12], [11, 12, 13], "equal"),
        ([10, 11, 12], [12, 13, 14], "equal"),  # 2 apart, ranges of 2
        ([10, 11, 12], [12.5, 13.5, 14], "lower"),
        ([20, 20.1, 20.2], [10, 10.1, 10.2], "higher"),
        ([10, 10, 10], [10.1, 10.1, 10.1], "lower"),  # repeats that agree exactly resolve a small difference
        ([10], [10.9], "equal"),  # measured once: 10 % stands for the range
        ([10], [11.2], "lower"),
    ],
)
def test_points_differ_where_medians_are_farther_apart_than_the_wider_range(
    left: list[float], right: list[float], expected: str
) -> None:
    assert compare(spread_of(left), spread_of(right)) == expected
