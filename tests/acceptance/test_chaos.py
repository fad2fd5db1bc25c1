"""`make chaos` for a short time: under load and faults nothing is lost, doubled, wrong or mixed up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dragoman_bench.bench.measurement import Measurement
from dragoman_bench.chaos.faults import FAULTS
from tests.processes import ROOT

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]
SECONDS = 40


def test_nothing_is_lost_doubled_wrong_or_mixed_up(tmp_path: Path) -> None:
    out = tmp_path / "chaos.json"
    command = [sys.executable, "-m", "dragoman_bench.cli.chaos", f"--seconds={SECONDS}", f"--out={out}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    results = Measurement.read(out)
    [run] = results.data["runs"]
    assert run["right"] > 0
    injected = {label.removeprefix("one: ") for label, row in results.data["faults"].items() if row["recovered_s"]}
    assert injected <= {one.name for one in FAULTS}
    assert injected
