"""wholetext alone: its wheel, with nothing but its own dependencies, passes its tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]


def test_wholetext_builds_and_passes_its_tests_alone() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "wholetext.py"), "-q"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-5_000:]
    assert " passed" in done.stdout
