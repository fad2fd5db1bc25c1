"""Stand-in servers (`stand_in.py`) for tests of what starts several: how each behaves, which were started, an interrupt."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from dragoman_bench.bench.servers import ServerCommand

STAND_IN = str(Path(__file__).with_name("stand_in.py"))


class StandIns:
    """`behaviours` by name, with `_` for `-`; a server that is not named serves well."""

    def __init__(self, folder: Path, **behaviours: str) -> None:
        self.folder = folder
        self.started: list[str] = []
        self.interrupted = asyncio.Event()
        self._behaviours = {name.replace("_", "-"): behaviour for name, behaviour in behaviours.items()}

    def start(self, name: str) -> ServerCommand:
        self.started.append(name)
        return ServerCommand(name, (sys.executable, STAND_IN, self._behaviours.get(name, "well")), "/readyz")
