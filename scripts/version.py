#!/usr/bin/env python3
"""Prints the version of this source tree, for a build where its .git is not: an image's build context."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from dragoman.version import build_version

if __name__ == "__main__":
    print(build_version())
