from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Results, write_results
from dragoman_bench.journey.ending import conclude
from dragoman_bench.journey.retelling import travelled_of
from tests.bench.journeys import rates


def leg(name: str, *rps: float) -> Results:
    """As a journey stores it: the step's name is in its notes."""
    found = rates(*rps)
    options = {**found.conditions.options, "journey": {"step": name, "fingerprint": {"flags": {}}}}
    return replace(found, conditions=replace(found.conditions, options=options))


def test_a_folder_is_told_as_its_files_say_compressed_or_not_in_the_routes_order(tmp_path: Path) -> None:
    write_results(leg("workers-1", 2.0), tmp_path / "workers-1.variable.json")
    write_results(leg("continuous-64", 40.0), tmp_path / "continuous-64.variable.json.gz")
    travelled = travelled_of(tmp_path)
    assert list(travelled.in_order()) == ["workers-1.variable", "continuous-64.variable"]
    assert "static" in travelled.not_reached and "workers-1" not in travelled.not_reached
    assert "40" in conclude(travelled).summary


def test_what_is_no_leg_is_left_out(tmp_path: Path) -> None:
    write_results(leg("static", 9.0), tmp_path / "static.variable.json")
    write_results(rates(50.0), tmp_path / "versus.continuous-64.json")  # a duel's: no step of a journey
    (tmp_path / "journey.json").write_text("{}")
    (tmp_path / "logs").mkdir()
    assert list(travelled_of(tmp_path).results) == ["static.variable"]


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no results of a journey"):
        travelled_of(tmp_path)
