"""wholetext alone: its wheel, with nothing but its own dependencies, passes its tests.

All of them are imported there, and those of one file of each kind are run: `make test` runs all in this tree, and
`make wholetext` all in the environment alone.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

RUN = "test_package or test_document or test_worker or test_segments or test_plain or test_epub"

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]


def test_wholetext_builds_and_passes_its_tests_alone() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "wholetext.py"), "-q", "-k", RUN]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-5_000:]
    assert " passed" in done.stdout
