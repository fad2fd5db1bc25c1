"""What importing the package costs."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["dragoman.phrasebook", "tools.phrasebook.generator", "tools.phrasebook.shape"])
def test_generating_text_needs_no_torch(module: str) -> None:
    program = f"import sys, {module}; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
