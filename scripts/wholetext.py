"""Builds wholetext's wheel, installs it with nothing but its own dependencies into a new environment, and runs its tests there.

    python scripts/wholetext.py [PYTEST'S ARGUMENTS]

The tests run on the installed wheel: nothing of this tree but `tests/` can be imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "wholetext"


def run(*command: str | Path) -> None:
    """Run a command without what would make this tree importable. Raises CalledProcessError."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    subprocess.run([*map(str, command)], cwd=ROOT, env=environment, check=True)


def main(arguments: list[str]) -> None:
    uv = Path(sys.executable).with_name("uv")
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder, "venv", "bin", "python")
        run(uv, "build", "--quiet", "--out-dir", folder, PACKAGE)
        (wheel,) = Path(folder).glob("*.whl")
        run(uv, "venv", "--quiet", "--python", sys.executable, python.parents[1])
        run(uv, "pip", "install", "--quiet", "--python", python, f"{wheel}[test]")
        own = ("-c", PACKAGE / "pyproject.toml", "--rootdir", ROOT, "--confcutdir", "tests/wholetext")
        run(python, "-m", "pytest", "-p", "no:cacheprovider", *own, "tests/wholetext", *arguments)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
