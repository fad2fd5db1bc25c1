"""uv, which makes virtual environments of their own for tests: in seconds, where venv and pip take a minute."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def uv() -> str:
    """The program. `make setup` installs it."""
    found = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    assert found, "uv is not installed; `make setup` does it"
    return found


def environment_with(folder: Path, *wanted: str | Path, environment: Mapping[str, str] | None = None) -> Path:
    """The folder of programs of a new environment in `folder`. `wanted`: further arguments of `uv pip install`.

    Raises `CalledProcessError`, after uv has said why.
    """
    python = folder / "bin/python"
    for command in (("venv", "--python", sys.executable, folder), ("pip", "install", "--python", python, *wanted)):
        subprocess.run([uv(), *command, "--quiet"], cwd=folder.parent, env=environment, check=True)
    return python.parent
