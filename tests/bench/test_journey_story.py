from __future__ import annotations

import pytest

from dragoman_bench.journey.evidence import RPS, At, Evidence, ms_per_token, plain, short_p50_s, short_to_long
from dragoman_bench.journey.story import NOT_MEASURED, table
from tests.bench.journeys import at_level, evidence, rates, repeat, results
from tests.bench.making import record

THE_STORY = ("2.2", "1.1", "3.3", "2.0", "5.9", "452 → 171", "15.0", "3.5", "10.7", "9.0 → 16.4", "93 % → 0 % → 93 %")


def here(step: str, found: Evidence) -> str:
    return next(row.here for row in table(found) if row.step.startswith(step))


def test_the_table_quotes_every_figure_of_the_story() -> None:
    told = " ".join(row.story for row in table(evidence()))
    assert [figure for figure in THE_STORY if figure not in told] == []


def test_what_was_not_measured_is_said_so() -> None:
    rows = table(evidence())
    assert {row.here for row in rows if not row.step.startswith("production")} == {NOT_MEASURED}


def test_our_figures_stand_beside_theirs_with_their_spread() -> None:
    found = evidence(
        workers_1__variable=rates(1.0, 1.2, 1.4),
        workers_1__uniform=rates(2.2),
        continuous_16__variable=rates(20.0, 21.0),
        continuous_64__variable=rates(30.0, 31.0),
    )
    assert here("one worker", found).startswith("uniform: 2.20 req/s")
    assert "variable: 1.20 req/s (1.00..1.40)" in here("one worker", found)
    assert here("tuned", found) == "continuous-64: 30.5 req/s (30.0..31.0)"
    assert "max_num_seqs 16: 20.5" in here("the same on variable", found)


def test_utilisation_is_the_gpus_where_it_was_sampled_and_else_the_engines() -> None:
    on_gpu = results(at_level(25, [repeat(gpu_mean_percent=93.0, gpu_share_below_10=0.2, engine_busy_share=0.7)] * 2))
    assert here("utilisation", evidence(workers_1__variable=on_gpu)).startswith(
        "GPU mean, samples under 10 %: one worker"
    )
    on_cpu = results(at_level(25, [repeat(engine_busy_share=0.7)] * 2))
    assert here("utilisation", evidence(workers_1__variable=on_cpu)) == "engine busy: one worker: 70.0 % (70.0..70.0)"


def test_short_and_long_requests_are_the_outer_quarters_by_source_tokens() -> None:
    spent = [record(n, e2e_s=1 + n // 25, source_tokens=10 + n) for n in reversed(range(100))]
    assert short_p50_s(repeat(spent)) == pytest.approx(1.0)
    assert short_to_long(repeat(spent)) == pytest.approx(0.25)


def test_too_few_requests_have_no_quarters_and_failed_ones_do_not_count() -> None:
    assert short_p50_s(repeat([record(n) for n in range(19)])) is None
    failed = [record(n, e2e_s=99.0, source_tokens=1, error="timeout") for n in range(50)]
    assert short_p50_s(repeat([record(n, source_tokens=10 + n) for n in range(20)] + failed)) == pytest.approx(1.0)


def test_time_for_each_token_is_over_completed_requests_that_told_their_tokens() -> None:
    told = [record(0, e2e_s=1.0, output_tokens=10), record(1, e2e_s=3.0, output_tokens=30)]
    other = [record(2, e2e_s=50.0), record(3, e2e_s=50.0, output_tokens=5, error="timeout")]
    assert ms_per_token(repeat([*told, *other])) == pytest.approx(0.1)
    assert ms_per_token(repeat([record(e2e_s=50.0)])) is None


def test_a_level_that_was_not_measured_has_no_numbers() -> None:
    found = evidence(workers_1__variable=rates(1.0, 2.0))
    assert found.spread(At("workers-1.variable", 10), RPS) is None
    assert found.told(At("elsewhere", 25), RPS) is None


def test_numbers_have_three_digits() -> None:
    assert [plain(value) for value in (0.123, 1.234, 12.34, 1234.5)] == ["0.12", "1.23", "12.3", "1234"]
