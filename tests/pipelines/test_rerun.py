"""What a second run means for one sequence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman.errors import EngineDead, EngineFailed
from dragoman.pipelines.rerun import Fate, Speech
from dragoman.types import Completion, Delta, Sampling, Timings
from tests.pipelines.scripted import sequence


def heard(deltas: Speech, *texts: str) -> list[str]:
    """What is passed on of a run that says `texts`."""
    return [fresh.text for text in texts if (fresh := deltas.heard(Delta(text)))]


def second_run_of(*texts: str) -> Speech:
    """A stream that gave `texts` and then died."""
    deltas = Speech(sequence())
    deltas.begin()
    assert heard(deltas, *texts) == list(texts)
    deltas.begin()
    return deltas


def test_one_death_is_borne_and_the_second_is_too_many() -> None:
    fate = Fate()
    fate.bear(EngineDead("first"))
    with pytest.raises(EngineDead, match="as it had before"):
        fate.bear(EngineDead("second"))


def test_what_was_lost_to_a_death_counts_as_queueing() -> None:
    whole = Completion("a", "stop", 1, 1, Timings(0.25, 0.5, 1.0))
    assert Fate(waited_s=2.0).told(whole).timings == Timings(2.25, 0.5, 1.0)
    assert Fate().told(whole) is whole
    untimed = replace(whole, timings=None)
    assert Fate(waited_s=2.0).told(untimed) is untimed


@pytest.mark.parametrize("again", [("one", " two", " three"), ("one two three",), ("o", "ne two th", "ree")])
def test_a_second_run_says_only_what_is_new(again: tuple[str, ...]) -> None:
    deltas = second_run_of("one", " tw")
    assert "".join(heard(deltas, *again)) == "o three"
    assert deltas.ended(Completion("one two three", "stop", 1, 3)).text == "one two three"


def test_a_second_run_that_departs_is_not_passed_on() -> None:
    deltas = second_run_of("one", " two")
    with pytest.raises(EngineFailed, match="its new run differs"):
        heard(deltas, "one", " twelve")


def test_a_second_run_that_ends_early_is_not_passed_off_as_whole() -> None:
    deltas = second_run_of("one", " two")
    assert heard(deltas, "one") == []
    with pytest.raises(EngineFailed, match="its new run differs"):
        deltas.ended(Completion("one", "stop", 1, 1))


def test_a_sampled_stream_has_a_second_run_only_while_nothing_was_said() -> None:
    deltas = Speech(replace(sequence(), sampling=Sampling(temperature=0.7)))
    deltas.begin()
    deltas.begin()
    heard(deltas, "one")
    with pytest.raises(EngineFailed, match="sampled"):
        deltas.begin()
