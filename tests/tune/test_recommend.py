from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dragoman.settings import options
from dragoman_bench.bench.results import Verdict
from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.tune.outcome import Contender, Final, Finding, Memory, Standing
from dragoman_bench.tune.points import Knobs, KvCache, Level, Outcome, Seen, Setup, Trial
from dragoman_bench.tune.recommend import Grounds, judge, recommend
from tests.tune.lab import demand
from tests.tune.simulation import GPU

SLO = parse_slo("p95_s=2")
FOUND = Knobs(16, 8192, 512, gpu_memory_utilization=0.09)
EMBEDDER = Knobs(128, 2048, gpu_memory_utilization=0.92)
SERVE = Knobs(1024, 8192, gpu_memory_utilization=0.92)
STORY = Knobs(16, 8192, gpu_memory_utilization=0.3)
MEMORY = Memory(
    7_000,
    1.25,
    9_000,
    800_000,
    147_456.0,
    "gpu_memory_utilization",
    0.09,
    10**11,
    "9,000 tokens",
    "held",
    ("slots-16",),
)
REASONS = {name: f"because of {name}" for name in FOUND.settings}
FINDING = Finding(FOUND, REASONS, MEMORY, "slots-16")
LADDER_TRIAL = Trial(
    "ladder", "ladder", Setup(Knobs(64, 8192, 512)), "", kv_cache=KvCache(800_000, 147_456), gpu_memory_utilization=0.9
)
GROUNDS = Grounds(demand(), GPU.place, SLO, LADDER_TRIAL)


def seen(rps: float, repeat: int, p95_s: float) -> Seen:
    verdict = Verdict("e2e p95 ≤ 2 s", p95_s, p95_s <= 2)
    return Seen(Level(25), repeat, 20.0, 200, 200, 0, rps, goodput_rps=rps, slo_met=p95_s <= 2, verdicts=(verdict,))


def standing(
    name: str,
    knobs: Knobs,
    simplicity: int,
    *rates: float,
    p95_s: float = 1.0,
    outcome: Outcome = "measured",
    **other: Any,
) -> Standing:
    kind = "vllm" if name == "vllm-serve" else "dragoman"
    setup = Setup(replace(knobs, gpu_memory_utilization=0.24), kind)
    contender = Contender(name, name, setup, knobs, simplicity)
    busy = tuple(seen(rate, repeat, p95_s) for repeat, rate in enumerate(rates))
    return Standing(contender, outcome, other.pop("reason", ""), busy, (), **other)


def final(*standings: Standing) -> Final:
    return judge(Final(standings, 3, True, "together", "goodput_rps"), SLO)


def finalist(*rates: float, **other: Any) -> Standing:
    return standing("finalist", FOUND, 3, *rates, **other)


def embedder(*rates: float, **other: Any) -> Standing:
    cache = KvCache(150_000, 147_456)
    return standing("embedder", EMBEDDER, 1, *rates, kv_cache=cache, **other)


def test_a_finalist_that_is_better_beyond_the_spread_is_recommended_with_its_reasons() -> None:
    judged = final(
        finalist(34.0, 34.5, 33.8), embedder(20.0, 20.5, 20.2), standing("story", STORY, 2, 28.0, 28.4, 28.2)
    )

    found = recommend(FINDING, judged, GROUNDS)

    assert [one.verdict for one in judged.standings] == ["itself", "higher", "higher"]
    assert (found.contender, found.knobs, found.better) == ("finalist", FOUND, True)
    assert {choice.path: choice.why for choice in found.choices} == {
        f"engine.{name}": why for name, why in REASONS.items()
    }
    assert "more than every baseline" in found.headline
    assert found.caveats == ()


def test_where_the_finalist_is_no_better_the_simpler_one_is_recommended_and_the_memory_is_kept() -> None:
    judged = final(finalist(20.4, 20.0, 20.8), embedder(20.0, 20.5, 20.2))

    found = recommend(FINDING, judged, GROUNDS)

    assert judged.standings[1].verdict == "equal"
    assert (found.contender, found.better) == ("embedder", False)
    assert (found.knobs.max_num_seqs, found.knobs.max_num_batched_tokens) == (128, 2048)
    assert found.knobs.max_cudagraph_capture_size is None
    assert (found.knobs.gpu_memory_utilization or 1) < 0.2
    assert "no better beyond the spread" in found.headline
    assert any("computed" in caveat for caveat in found.caveats)
    memory = next(choice for choice in found.choices if choice.path == "engine.gpu_memory_utilization")
    assert "tokens are needed" in memory.why


def test_the_memory_of_a_simpler_setup_is_for_its_own_slots_and_from_its_own_server() -> None:
    """Sixteen slots never hold what 128 slots hold of 25 clients; and other step sizes leave other room for a cache."""
    judged = final(finalist(20.4, 20.0, 20.8), embedder(20.0, 20.5, 20.2))

    value = recommend(FINDING, judged, GROUNDS).knobs.gpu_memory_utilization or 0.0

    total = GPU.place.memory_bytes
    beside = 0.24 * total - 150_000 * 147_456
    tokens = (value * total - beside) / 147_456
    assert tokens >= 1.25 * demand().peak_tokens(25)


def test_who_is_behind_somebody_in_every_round_is_no_equal_though_the_best_had_a_bad_round() -> None:
    serve = standing("vllm-serve", SERVE, 0, 20.8, 14.9, 11.4)
    judged = final(finalist(24.0, 18.8, 25.6), serve, embedder(5.0, 24.8, 24.5))

    assert [one.verdict for one in judged.standings] == ["itself", "higher", "equal"]
    assert recommend(FINDING, judged, GROUNDS).contender == "embedder"


def test_of_several_equals_the_simplest_wins_even_where_its_median_is_lower() -> None:
    serve = standing("vllm-serve", SERVE, 0, 20.0, 20.6, 19.9)
    judged = final(finalist(20.4, 20.0, 20.8), serve, embedder(20.5, 20.9, 20.3))

    found = recommend(FINDING, judged, GROUNDS)

    assert found.contender == "vllm-serve"
    assert found.knobs.max_num_seqs == 1024
    assert any("`vllm serve` itself" in caveat for caveat in found.caveats)


def test_a_baseline_that_beats_the_finalist_is_recommended() -> None:
    judged = final(finalist(20.0, 20.2, 20.1), embedder(25.0, 25.2, 25.1))

    found = recommend(FINDING, judged, GROUNDS)

    assert judged.standings[1].verdict == "lower"
    assert found.contender == "embedder"
    assert "what the search found is worse" in found.headline


def test_the_finalist_wins_among_equals_only_where_no_simpler_one_is_equal() -> None:
    judged = final(
        finalist(34.0, 34.2, 34.1), standing("story", STORY, 2, 33.9, 34.3, 34.0), embedder(20.0, 20.5, 20.2)
    )

    found = recommend(FINDING, judged, GROUNDS)

    assert found.contender == "story"
    assert not found.better


def test_attaining_the_slo_comes_before_any_rate() -> None:
    judged = final(finalist(20.0, 20.2, 20.1), embedder(30.0, 30.5, 30.2, p95_s=3.0))

    found = recommend(FINDING, judged, GROUNDS)

    assert judged.standings[1].verdict == "higher"
    assert (found.contender, found.better) == ("finalist", True)


def test_where_nobody_attains_the_slo_requests_decide_and_that_is_said() -> None:
    judged = final(finalist(34.0, 34.5, 33.8, p95_s=4.0), embedder(20.0, 20.5, 20.2, p95_s=5.0))

    found = recommend(FINDING, judged, GROUNDS)

    assert judged.metric == "rps"
    assert found.contender == "finalist"
    assert any("no setup attains the SLO with 25 clients" in caveat for caveat in found.caveats)


def test_a_baseline_that_did_not_start_is_told_and_does_not_count() -> None:
    out = embedder(outcome="did_not_start", reason="out of memory")
    judged = final(finalist(34.0, 34.5, 33.8), out, standing("story", STORY, 2, 28.0, 28.4, 28.2))

    found = recommend(FINDING, judged, GROUNDS)

    assert (judged.standings[1].verdict, judged.standings[1].because) == ("not measured", "out of memory")
    assert found.better


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (None, "the final was not held"),
        (final(finalist(outcome="did_not_start", reason="no room"), embedder(20.0, 20.5)), "no room"),
        (final(embedder(20.0, 20.5)), "the final was not held"),
    ],
)
def test_without_the_finalist_in_the_final_the_search_alone_speaks(held: Final | None, told: str) -> None:
    found = recommend(FINDING, held, GROUNDS)

    assert (found.contender, found.knobs, found.better) == ("finalist", FOUND, False)
    assert any(told in caveat for caveat in found.caveats)


def test_one_round_is_said_to_be_one() -> None:
    found = recommend(FINDING, final(finalist(34.0), embedder(20.0)), GROUNDS)

    assert found.better
    assert any("measured once" in caveat for caveat in found.caveats)


@pytest.mark.parametrize(("checked", "told"), [("did not hold", "may be preempted"), ("not checked", "not checked")])
def test_memory_that_was_not_shown_to_hold_is_a_caveat(checked: Any, told: str) -> None:
    finding = replace(FINDING, memory=replace(MEMORY, checked=checked))

    found = recommend(finding, final(finalist(34.0, 34.5, 33.8), embedder(20.0, 20.5, 20.2)), GROUNDS)

    assert any(told in caveat for caveat in found.caveats)


def test_every_choice_is_a_setting() -> None:
    for rates in ((34.0, 34.5, 33.8), (20.0, 20.4, 20.2)):
        found = recommend(FINDING, final(finalist(*rates), embedder(20.0, 20.5, 20.2)), GROUNDS)
        for choice in found.choices:
            assert options()[choice.path].parse(choice.value, "recommended") == choice.value
            assert choice.why
