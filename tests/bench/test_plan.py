from __future__ import annotations

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.bench.benchmark import Plan
from dragoman_bench.bench.results import Load
from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.bench.targets import TargetOptions
from dragoman_bench.bench.workload import Item, Recorded
from tests.bench.making import workload

CLOSED = Load("closed", clients=4)
POISSON = Load("poisson", rate_rps=5)


def _plan(*loads: Load, **fields: object) -> Plan:
    chosen: dict[str, object] = {"workload": workload(), "requests": 10} | fields
    return Plan("http://h", target=chosen.pop("target", TargetOptions()), loads=loads, **chosen)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("loads", "fields", "said"),
    [
        ((), {}, "no load level"),
        ((CLOSED,), {"requests": None}, "how long"),
        ((CLOSED,), {"slo": parse_slo("ttft_ms_p95=300")}, "needs --stream"),
        ((Load("closed", clients=0),), {}, "at least one client"),
        ((CLOSED,), {"processes": 8}, "8 client processes cannot share 4 clients"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(loads: tuple[Load, ...], fields: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        _plan(*loads, **fields)


def test_an_slo_on_tokens_goes_with_a_stream() -> None:
    _plan(CLOSED, slo=parse_slo("ttft_ms_p95=300"), target=TargetOptions(stream=True))


def test_closed_loops_have_no_schedule_and_each_measurement_of_an_open_one_its_own() -> None:
    plan = _plan(CLOSED, POISSON)

    assert plan.schedule(CLOSED, 1) is None
    assert plan.schedule(POISSON, 1) == plan.schedule(POISSON, 1)
    assert plan.schedule(POISSON, 1) != plan.schedule(POISSON, 2)


def test_a_replay_needs_times() -> None:
    trace = Recorded("trace", (Item("a", "en", "de", 1, at_s=5), Item("b", "en", "de", 1, at_s=6.5)))

    assert _plan(Load("replay"), workload=trace, requests=None).schedule(Load("replay"), 1) == (0, 1.5)
    with pytest.raises(ConfigError, match="replay needs a trace"):
        _plan(Load("replay")).schedule(Load("replay"), 1)


def test_rates_are_over_the_duration_or_to_the_last_answer_or_to_the_stop() -> None:
    counted, timed = _plan(CLOSED), _plan(CLOSED, requests=None, duration_s=30.0)

    assert counted.window_s(CLOSED, 12.5, None) == 12.5
    assert timed.window_s(CLOSED, 31.7, None) == 30.0
    assert timed.window_s(CLOSED, 9.0, 8.5) == 8.5
    assert timed.window_s(Load("replay"), 12.5, None) == 12.5
