"""Prometheus' own tools, where they are installed (Debian: apt-get install prometheus)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

OPS = Path(__file__).parents[2] / "ops"
ALERTS = OPS / "prometheus" / "alerts.yml"


def _needs(program: str) -> pytest.MarkDecorator:
    """Skips a test where the program is not installed. In CI the test runs, and fails."""
    missing = shutil.which(program) is None and not os.environ.get("CI")
    return pytest.mark.skipif(missing, reason=f"{program} is not installed")


needs_promtool = _needs("promtool")
needs_prometheus = _needs("prometheus")


def promtool(*arguments: str | Path, stdin: str = "") -> None:
    """Fails the test with what promtool says, where it finds fault."""
    command = ["promtool", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
