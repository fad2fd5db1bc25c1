from __future__ import annotations

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.bench import forms
from dragoman_bench.bench.benchmark import Warmup
from dragoman_bench.bench.results import Load


def _loads(**given: object) -> tuple[Load, ...]:
    chosen = {
        "concurrency": None,
        "rate": None,
        "ramp": None,
        "replay": False,
        "arrivals": "poisson",
        "time_scale": 1.0,
    }
    return forms.loads(**(chosen | given))  # type: ignore[arg-type]


def test_levels_of_a_sweep() -> None:
    assert _loads(concurrency="1,2, 4") == tuple(Load("closed", clients=n) for n in (1, 2, 4))
    assert _loads(rate="0.5,2") == (Load("poisson", rate_rps=0.5), Load("poisson", rate_rps=2))
    assert _loads(rate="3", arrivals="constant") == (Load("constant", rate_rps=3),)
    assert _loads(ramp="1..20") == (Load("ramp", rate_rps=1, to_rate_rps=20),)
    assert _loads(replay=True, time_scale=0.5) == (Load("replay", time_scale=0.5),)
    assert _loads() == (Load("closed", clients=8),)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"concurrency": "8", "rate": "2"}, "--concurrency and --rate exclude each other"),
        ({"ramp": "1..2", "replay": True}, "--ramp and --replay exclude each other"),
        ({"concurrency": "1.5"}, "whole numbers"),
        ({"concurrency": "0"}, "above 0"),
        ({"concurrency": ","}, "is empty"),
        ({"rate": "fast"}, "'fast'"),
        ({"rate": "inf"}, "above 0"),
        ({"ramp": "5"}, "not like 1..20"),
    ],
)
def test_nonsense_names_the_option(given: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        _loads(**given)


def test_intervals() -> None:
    assert forms.interval("10..200", "--tokens") == (10, 200)
    assert forms.interval("60", "--tokens") == (60, 60)
    with pytest.raises(ConfigError, match="backwards"):
        forms.interval("200..10", "--tokens")


def test_warm_ups() -> None:
    assert forms.warmup("20") == Warmup(requests=20)
    assert forms.warmup("1.5s") == Warmup(duration_s=1.5)
    assert not forms.warmup("0").wanted
    with pytest.raises(ConfigError, match="--warmup"):
        forms.warmup("some")


def test_gpus() -> None:
    assert forms.gpus("auto") is None
    assert forms.gpus("none") == frozenset()
    assert forms.gpus("0, 2") == {0, 2}
    with pytest.raises(ConfigError, match="--gpus"):
        forms.gpus("first")
