"""Prometheus' own tools, where they are installed (Debian: apt-get install prometheus)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

OPS = Path(__file__).parents[2] / "ops"
ALERTS = OPS / "prometheus" / "alerts.yml"

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
needs_prometheus = pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")


def promtool(*arguments: str | Path, stdin: str = "") -> None:
    """Fails the test with what promtool says, where it finds fault."""
    command = ["promtool", *map(str, arguments)]
    told = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
