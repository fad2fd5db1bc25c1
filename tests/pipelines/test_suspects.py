"""The search for what crashes an engine, over engines that are a rule: no process, no clock."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection
from random import Random

import pytest

from dragoman.pipelines.suspects import SuspectSearch

Crashes = Callable[[Collection[int]], bool]


def searched(suspects: list[int], crashes: Crashes) -> tuple[list[int], list[int], int]:
    """Those that are convicted, those that end well, and the number of crashes."""
    search, convicted, ended, restarts = SuspectSearch(suspects), list[int](), list[int](), 0
    is_new_run = True
    while not search.is_over:
        group = list(search.group)
        if crashes(group):
            restarts += 1
            if (one := search.crash(group, is_proven=is_new_run)) is not None:
                convicted.append(one)
            is_new_run = True
        else:
            is_new_run = False
            for one in group:
                search.end(one)
                ended.append(one)
    return convicted, ended, restarts


@pytest.mark.parametrize("number", [*range(1, 40), 64, 100, 256])
def test_one_that_crashes_is_found_within_the_bound_wherever_it_is(number: int) -> None:
    for poison in range(number):
        convicted, ended, restarts = searched([*range(number)], lambda group, poison=poison: poison in group)
        assert convicted == [poison]
        assert sorted(ended) == [one for one in range(number) if one != poison]
        assert restarts <= math.ceil(math.log2(number)) + 1


def test_several_are_all_found_and_no_other() -> None:
    rng = Random(5)
    for _ in range(300):
        number = rng.randrange(2, 60)
        poisons = set(rng.sample(range(number), rng.randrange(2, min(number, 6) + 1)))
        convicted, ended, restarts = searched([*range(number)], lambda group, bad=poisons: not bad.isdisjoint(group))
        assert sorted(convicted) == sorted(poisons)
        assert sorted(ended) == sorted(set(range(number)) - poisons)
        assert restarts <= len(poisons) * (math.ceil(math.log2(number)) + 3)


@pytest.mark.parametrize("most", [1, 2, 7, 20])
def test_where_their_number_crashes_it_none_is_convicted(most: int) -> None:
    convicted, ended, _ = searched([*range(40)], lambda group: len(group) > most)
    assert convicted == []
    assert sorted(ended) == [*range(40)]


def test_only_the_last_one_runs_alone() -> None:
    search = SuspectSearch([1, 2, 3, 4])
    seen = [(tuple(search.group), search.is_alone)]
    for _ in range(2):
        search.crash([*search.group], is_proven=True)
        seen.append((tuple(search.group), search.is_alone))
    assert seen == [((1, 2), False), ((1,), False), ((1,), True)]
    assert search.crash([1], is_proven=True) == 1
    assert ([*search.group], search.is_alone) == ([3, 4, 2], False)


def test_a_crash_that_proves_nothing_convicts_nobody() -> None:
    search = SuspectSearch([1])
    assert search.crash([1], is_proven=False) is None
    assert ([*search.group], search.is_alone, search.is_over) == ([1], True, False)


def test_one_that_leaves_is_no_longer_searched_for() -> None:
    search = SuspectSearch([1, 2, 3])
    search.crash([1, 2], is_proven=True)
    search.end(1)
    assert ([*search.group], search.is_alone) == ([2], True)
    search.end(2)
    assert ([*search.group], search.is_alone) == ([3], False)
    search.add([3, 4])
    search.end(3)
    assert 3 not in search
    assert [*search.group] == [4]
    search.end(4)
    assert search.is_over
    assert not search.has_convicted


class Suspect:
    """One whose comparisons are calls of Python, which are counted."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Suspect) and other.number == self.number


def calls_to_ask(number: int) -> int:
    """Calls of functions, with each step of a generator, that it takes to ask of two whether they are among so many."""
    search, calls, before = SuspectSearch([Suspect(place) for place in range(number)]), 0, sys.getprofile()

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        found = [Suspect(number - 1) in search, Suspect(number) in search]
    finally:
        sys.setprofile(before)
    assert found == [True, False]
    return calls


def test_to_ask_whether_one_is_searched_for_costs_the_same_however_many_are() -> None:
    assert calls_to_ask(10_000) == calls_to_ask(10)
