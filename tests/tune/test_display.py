from __future__ import annotations

from io import StringIO

from rich.console import Console

from dragoman_bench.tune.display import Display, line
from dragoman_bench.tune.points import Knobs, Level, Setup, Trial
from tests.tune.telling import seen


class Phases(list[str]):
    """An observer that keeps what it is told."""

    def phase(self, label: str, total: int | None) -> None:
        self.append(label)

    def update(self, done: int, failed: int, in_flight: int) -> None:
        self.append(f"{done}/{failed}/{in_flight}")


def display() -> tuple[Display, StringIO, Phases]:
    said, phases = StringIO(), Phases()
    return Display(Console(file=said, width=200), phases), said, phases


def test_a_measurement_is_told_in_a_line_with_what_is_known_of_it() -> None:
    told = line(seen(Level(25, 4), 9.7, 3.3))
    assert told.startswith("25 clients, at most 4 at once: 9.70 req/s, goodput ")
    assert "p95 3.3 s" in told
    assert "3.86 ms a token" in told
    assert "preemptions" not in told and "failed" not in told
    bad = line(seen(Level(38, draw="long"), 9.7, 3.3, preemptions=4, failed=2, goodput_rps=None, e2e_p95_s=None))
    assert bad.startswith("38 clients, long texts: 9.70 req/s, ")
    assert bad.endswith("4 preemptions, 2 failed")
    assert "goodput" not in bad and "p95" not in bad


def test_the_bench_s_phases_are_told_with_their_place_and_the_time_left() -> None:
    shown, _, phases = display()
    shown.left(600)
    shown.measuring("ladder", Level(25, 4), "")
    shown.phase("25 clients, warm-up", None)
    shown.update(3, 1, 2)
    assert phases == ["ladder, at most 4 at once: 25 clients, warm-up, about 10 min left", "3/1/2"]
    shown.left(0)
    shown.measuring("memory", Level(38, draw="long"), "")
    shown.phase("38 clients", None)
    assert phases[-1] == "memory, long texts: 38 clients"


def test_reasons_are_told_as_they_are_whatever_brackets_they_hold() -> None:
    shown, said, _ = display()
    shown.starting("slots-8", "because [bold]", 60.0)
    shown.out("slots-8", "did_not_start", "ValueError: [red] at [/]")
    shown.skipped(Trial("slots-4", "slots", Setup(Knobs()), "", "skipped", "no [step] holds it"))
    shown.measuring("slots-8", Level(1), "again: [it] may be noise")
    lines = said.getvalue().splitlines()
    assert lines == [
        "slots-8: because [bold]",
        "slots-8 did not start: ValueError: [red] at [/]",
        "slots-4 is skipped: no [step] holds it",
        "  again: [it] may be noise",
    ]
