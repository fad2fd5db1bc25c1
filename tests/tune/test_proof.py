"""What is recommended in the finalist's place, by itself, on a simulated engine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman_bench.tune.incumbent import Case
from dragoman_bench.tune.ladder import check_level, climb
from dragoman_bench.tune.outcome import Choice, Recommendation
from dragoman_bench.tune.points import Knobs, Level
from dragoman_bench.tune.proof import prove
from dragoman_bench.tune.scale import Scale
from dragoman_bench.tune.sizing import with_memory
from tests.tune.lab import Fault, Lab, demand, sound
from tests.tune.simulation import GPU

TUNED = demand()


def proved(fault: Fault = sound) -> tuple[Recommendation, Recommendation, Lab]:
    """`vllm serve`'s settings with computed memory, before and after; and the lab they were shown in."""
    lab = Lab(GPU, TUNED, None)
    ladder, trial = lab.drive(climb(TUNED, GPU.place, None))
    case = Case(TUNED, GPU.place, Scale(None, "rps"), ladder, trial)
    memory = case.sizer.size(1024)
    knobs = with_memory(Knobs(1024, 8192), memory)
    choices = tuple(Choice(f"engine.{name}", value, f"why {name}") for name, value in knobs.settings.items())
    caveats = (
        "measured with `vllm serve` itself; dragoman with the same settings was not measured",
        "this memory is computed; what the search checked under load was its own finding's",
        "another",
    )
    wanted = Recommendation("vllm-serve", knobs, choices, "Serve.", "numbers", False, caveats, memory)
    lab.fault = fault
    return wanted, lab.drive(prove(case, wanted)), lab


def test_it_is_checked_and_measured_with_the_memory_that_it_will_have() -> None:
    wanted, found, lab = proved()
    trial = lab.trials["recommended"]
    assert trial.setup.knobs == wanted.knobs == found.knobs
    assert [seen.level for seen in trial.seen] == [check_level(TUNED), *[Level(25)] * 3]
    assert found.memory is not None and found.memory.checked == "held"
    assert found.seen == trial.at(Level(25))
    assert found.caveats == ("another",)
    assert found.because.startswith("numbers; dragoman with the recommended settings and memory, by itself: ")
    why = {choice.path: choice.why for choice in found.choices}
    assert "it held under 1.5 times the peak" in why["engine.gpu_memory_utilization"]
    assert why["engine.max_num_seqs"] == "why max_num_seqs"


def test_where_the_computed_memory_is_too_little_it_is_given_more() -> None:
    def tight(knobs: Knobs, level: Level | None) -> str:
        small = lowest[0] is None or (knobs.gpu_memory_utilization or 1) <= lowest[0]
        lowest[0] = lowest[0] or knobs.gpu_memory_utilization
        return "CUDA out of memory" if small else ""

    lowest: list[float | None] = [None]
    wanted, found, lab = proved(tight)
    assert lab.trials["recommended"].outcome == "did_not_start"
    assert found.memory is not None and found.memory.trials == ("recommended", "recommended-2")
    assert (found.knobs.gpu_memory_utilization or 0) > (wanted.knobs.gpu_memory_utilization or 1)
    assert found.seen == lab.trials["recommended-2"].at(Level(25)) != ()


def test_where_nothing_holds_it_is_told_and_not_measured() -> None:
    _, found, _ = proved(lambda knobs, level: "it died")
    assert found.memory is not None and found.memory.checked == "did not hold"
    assert found.seen == ()
    assert any("no memory that was tried held" in caveat for caveat in found.caveats)
    assert any("`vllm serve` itself" in caveat for caveat in found.caveats)


def test_where_it_is_not_begun_the_recommendation_stands_with_its_caveats() -> None:
    wanted, _, lab = proved()
    ladder, trial = Lab(GPU, TUNED, None).drive(climb(TUNED, GPU.place, None))
    steps = prove(Case(TUNED, GPU.place, Scale(None, "rps"), ladder, trial), wanted)
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(replace(lab.trials["recommended"], outcome="skipped", reason="no time", seen=()))
    assert end.value.value == wanted
