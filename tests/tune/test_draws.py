from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from dragoman_bench.bench.texts import estimated_tokens
from dragoman_bench.bench.workload import Item, MadeUp
from dragoman_bench.tune.draws import Drawn, Mixed, Written, drawn, longest, made_up, stand_in, stratified


class Counted:
    """Texts that say how they were made."""

    languages = ("en", "ja")

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def make(self, language: str, tokens: int) -> str:
        return f"{language} {self.seed} " + "w" * tokens


def items(count: int, source: str | None = "en") -> tuple[Item, ...]:
    return tuple(Item(f"text {place}", source, "ko", place + 1, None, 2 * place + 1) for place in range(count))


@pytest.mark.parametrize("count", [1, 7, 20, 60, 600])
def test_every_run_of_a_draw_has_one_from_each_stretch_of_lengths(count: int) -> None:
    sizes = [place * place for place in range(count)]
    strata = min(20, count)

    places = list(islice(stratified(sizes, Random(1)), 10 * strata))

    for start in range(0, len(places), strata):
        run = sorted(places[start : start + strata])
        assert [place * strata // count for place in run] == list(range(strata))


def test_every_text_is_drawn_before_any_comes_again() -> None:
    places = list(islice(stratified(list(range(40)), Random(2)), 80))

    assert sorted(places[:40]) == list(range(40))
    assert sorted(places[40:]) == list(range(40))
    assert places[:40] != places[40:]


def test_the_mean_length_of_a_measurement_moves_far_less_than_with_a_free_draw() -> None:
    sizes = [round(10 * 20 ** (place / 599)) for place in range(600)]
    mean = sum(sizes) / len(sizes)
    drawn_means = [
        sum(sizes[place] for place in islice(stratified(sizes, Random(seed)), 60)) / 60 for seed in range(40)
    ]
    free_means = [sum(Random(seed).choices(sizes, k=60)) / 60 for seed in range(40)]

    def strays(means: list[float]) -> float:
        return max(abs(one - mean) / mean for one in means)

    assert strays(drawn_means) < 0.03 < strays(free_means)


def test_the_longest_tenth_has_at_least_one() -> None:
    assert longest([5, 1, 9]) == [2]
    assert longest(list(range(50))) == [45, 46, 47, 48, 49]


def test_recorded_texts_come_in_another_order_in_another_variation_and_the_same_in_the_same() -> None:
    workload = Drawn("trace", items(100), tuple(range(100)), seed=3)

    assert workload.items(30, 1) == workload.items(30, 1)
    assert workload.items(30, 1) != workload.items(30, 2)
    assert workload.items(30, 1) == workload.items(50, 1)[:30]
    assert {item.text for item in workload.items(250, 1)} == {f"text {place}" for place in range(100)}


def test_texts_at_recorded_lengths_differ_between_variations_and_their_lengths_do_not() -> None:
    workload = Written("trace", items(30), tuple(range(30)), Counted, lambda text: text.count("w"), seed=3)

    one, other = workload.items(25, 1), workload.items(25, 2)

    assert [item.source_tokens for item in one] == [item.source_tokens for item in other]
    assert [item.output_tokens for item in one] == [2 * item.source_tokens - 1 for item in one]
    assert not {item.text for item in one} & {item.text for item in other}


@pytest.mark.parametrize(
    ("source", "target", "expected"), [("ja", "en", "ja"), ("de", "en", "ja"), ("de", "fr", "en"), (None, "ko", "en")]
)
def test_a_language_without_texts_is_replaced_by_another_than_the_target(
    source: str | None, target: str, expected: str
) -> None:
    assert stand_in(source, target, ("en", "ja")) == expected


def test_half_of_the_long_draw_is_from_the_longest_tenth() -> None:
    workload = drawn("trace", items(200), tuple(range(200)), 0, None)["long"]

    sent = workload.items(100, 4)

    assert len(sent) == 100
    assert 50 <= sum(item.source_tokens > 180 for item in sent) <= 60


def test_made_up_texts_have_a_long_draw_too() -> None:
    workload = MadeUp("variable", 10, 200, (), Counted, estimated_tokens, "counted")

    both = made_up(workload)

    assert both["mix"] is workload
    assert isinstance(both["long"], Mixed)
    assert isinstance(both["long"].second, MadeUp)
    assert (both["long"].second.low, both["long"].second.high) == (148, 200)
