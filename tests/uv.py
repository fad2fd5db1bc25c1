"""uv, which makes virtual environments of their own for tests: in seconds, where venv and pip take a minute."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


def uv() -> str:
    """The program. `make setup` installs it."""
    found = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    assert found, "uv is not installed; `make setup` does it"
    return found


def installed(folder: Path, *requirements: str) -> Path:
    """The folder of programs of a new environment with these packages."""
    subprocess.run([uv(), "venv", "--quiet", "--python", sys.executable, folder], check=True)
    python = folder / "bin/python"
    subprocess.run([uv(), "pip", "install", "--quiet", "--python", python, *requirements], check=True)
    return python.parent
