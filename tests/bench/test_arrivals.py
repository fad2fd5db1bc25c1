from __future__ import annotations

from itertools import pairwise

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.bench.load import schedule
from dragoman_bench.bench.results import Load


def test_constant_arrivals_are_evenly_spaced() -> None:
    assert schedule(Load("constant", rate_rps=4), requests=4) == (0.0, 0.25, 0.5, 0.75)
    assert schedule(Load("constant", rate_rps=2), duration_s=2) == (0.0, 0.5, 1.0, 1.5)


def test_poisson_arrivals_have_exponential_gaps_of_the_rate() -> None:
    times = schedule(Load("poisson", rate_rps=10), requests=5000, seed=1)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    mean = sum(gaps) / len(gaps)

    assert mean == pytest.approx(0.1, rel=0.05)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert variance**0.5 == pytest.approx(mean, rel=0.07)  # an exponential's deviation is its mean


def test_poisson_arrivals_repeat_by_seed() -> None:
    load = Load("poisson", rate_rps=10)

    assert schedule(load, requests=20, seed=3) == schedule(load, requests=20, seed=3)
    assert schedule(load, requests=20, seed=3) != schedule(load, requests=20, seed=4)


def test_a_duration_bounds_poisson_arrivals() -> None:
    times = schedule(Load("poisson", rate_rps=50), duration_s=10, seed=1)

    assert times[-1] < 10
    assert len(times) == pytest.approx(500, rel=0.15)


def test_a_ramp_sends_the_integral_of_its_rate() -> None:
    times = schedule(Load("ramp", rate_rps=0.0, to_rate_rps=10), duration_s=10)

    assert len(times) == 50
    assert sum(t < 5 for t in times) == 13  # 0.5 * 5**2 = 12.5 of them, and the one at the start


def test_a_ramp_may_go_down_or_stay() -> None:
    down = schedule(Load("ramp", rate_rps=10, to_rate_rps=2), duration_s=10)
    assert len(down) == 60
    assert list(down) == sorted(down)
    assert down[-1] < 10
    assert len(schedule(Load("ramp", rate_rps=3, to_rate_rps=3), duration_s=10)) == 30


def test_a_replay_keeps_the_recorded_gaps_scaled() -> None:
    recorded = (100.0, 101.0, 104.0)

    assert schedule(Load("replay"), recorded_s=recorded) == (0.0, 1.0, 4.0)
    assert schedule(Load("replay", time_scale=0.5), recorded_s=recorded) == (0.0, 0.5, 2.0)
    assert schedule(Load("replay"), recorded_s=recorded, requests=2) == (0.0, 1.0)
    assert schedule(Load("replay"), recorded_s=recorded, duration_s=4) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("load", "bounds", "said"),
    [
        (Load("constant", rate_rps=4), {}, "a number of requests or a duration"),
        (Load("constant"), {"requests": 4}, "a rate above 0"),
        (Load("ramp", rate_rps=1, to_rate_rps=2), {"requests": 4}, "a duration"),
        (Load("ramp", rate_rps=0.1, to_rate_rps=0.2), {"duration_s": 1}, "no request falls into the run"),
        (Load("replay"), {}, "replay needs a trace"),
    ],
)
def test_a_schedule_without_end_or_content_is_refused(load: Load, bounds: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        schedule(load, **bounds)  # type: ignore[arg-type]
