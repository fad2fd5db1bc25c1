"""The phases of an engine's start and the time of each, recognised from vLLM's log as the file grows.

vLLM reports its start only there: a first start compiles for a minute or more without another sign of life. The patterns are
those of vLLM 0.26 to 0.33, on a CPU and on a GPU; where a line is missing, its phase's time counts for the phase before it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import cast

from dragoman.telemetry.engine import EngineGauge
from dragoman.wire import StartupPhase

log = logging.getLogger("dragoman.engine")

PHASES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("start processes", re.compile(r"(?!)")),  # from the beginning; where they are spawned, each imports vLLM
    ("load", re.compile(r"Starting to load model")),
    ("compile", re.compile(r"Warming up model for the compilation|Model loading took|Starting torch\.compile")),
    (
        "warm up",
        re.compile(
            r"saved AOT compiled function|Directly load AOT compilation|torch\.compile (took|and initial)"
            r"|Initial profiling/warmup run"
        ),
    ),
    ("KV cache", re.compile(r"Available KV cache memory|KV cache size: |for KV cache on node")),
    ("CUDA graphs", re.compile(r"Capturing CUDA graphs")),
)
"""Each phase's name, and the log line with which it begins, in the order in which they come."""
_POLL_S = 0.2


class StartupPhases:
    """The phases of one start. `compiles`: whether there is a phase `compile`, else its time counts as `warm up`.

    `import_s`: what importing vLLM into this process took before, on a first start. `usual`: what each phase took at the
    start before, in seconds.
    """

    def __init__(
        self, gauge: EngineGauge, *, compiles: bool, import_s: float = 0.0, usual: Mapping[str, float] | None = None
    ) -> None:
        self._gauge = gauge
        self._usual = usual or {}
        self._compiles = compiles
        self._finished: list[StartupPhase] = []
        if import_s:
            self._finish("import vLLM", import_s)
        self._number = 0
        self._began_s = monotonic()
        self._report()

    def _report(self) -> None:
        """Put the phases into the gauge, the present one last and still growing."""
        present = self._phase(PHASES[self._number][0], monotonic() - self._began_s)
        self._gauge.stats.startup = [*self._finished, present]

    def line(self, line: str) -> None:
        """One line of the log: later phases than the present one may begin with it."""
        for number in range(len(PHASES) - 1, self._number, -1):
            if PHASES[number][1].search(line):
                name = PHASES[number][0]
                self._begin(number + 1 if name == "compile" and not self._compiles else number)
                return

    def _begin(self, number: int) -> None:
        self.finish()
        self._number = number
        if PHASES[number][0] == "compile":
            log.info(
                "compiling the model: minutes for a large one; later starts with the same settings reuse the result"
            )

    def finish(self) -> None:
        """The present phase has ended."""
        now_s = monotonic()
        self._finish(PHASES[self._number][0], now_s - self._began_s)
        self._began_s = now_s
        self._gauge.stats.startup = list(self._finished)

    def _finish(self, name: str, duration_s: float) -> None:
        phase = self._phase(name, duration_s)
        self._finished.append(phase)
        fields = {"phase": name, "duration_s": phase.duration_s}
        log.info("start: %s %.1f s", name, duration_s, extra={"fields": fields})

    def _phase(self, name: str, duration_s: float) -> StartupPhase:
        return StartupPhase(name=name, duration_s=round(duration_s, 3), usual_s=self._usual.get(name))

    async def follow(self, log_file: Path) -> None:
        """Read what is appended to the log from now on, until cancelled."""
        offset = _size(log_file)
        rest = b""
        while True:
            appended = _read_from(log_file, offset)
            offset += len(appended)
            *lines, rest = re.split(rb"[\r\n]", rest + appended)  # a progress bar returns to its line's beginning
            for line in lines:
                self.line(line.decode(errors="replace"))
            self._report()
            await asyncio.sleep(_POLL_S)


def _read_usual(file: Path | None) -> dict[str, float]:
    """What `_write_usual` has written; empty where there is none, or nothing that can be read."""
    try:
        read = cast("dict[str, float]", json.loads(file.read_text(encoding="utf-8"))) if file else {}
        return {name: float(duration_s) for name, duration_s in read.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _write_usual(file: Path, phases: list[StartupPhase]) -> None:
    with suppress(OSError):  # it is only shown
        file.write_text(json.dumps({phase.name: phase.duration_s for phase in phases}), encoding="utf-8")


def _size(log_file: Path) -> int:
    return log_file.stat().st_size if log_file.is_file() else 0


def _read_from(log_file: Path, offset: int) -> bytes:
    if _size(log_file) <= offset:
        return b""
    with log_file.open("rb") as file:
        file.seek(offset)
        return file.read()


@asynccontextmanager
async def followed(
    log_file: Path | None, gauge: EngineGauge, *, compiles: bool, import_s: float = 0.0
) -> AsyncGenerator[None]:
    """Within, an engine starts: its phases are logged, and are in the gauge. Without a log file: one phase, all of it."""
    durations_file = log_file.with_suffix(".start.json") if log_file is not None else None
    usual = _read_usual(durations_file)
    phases = StartupPhases(gauge, compiles=compiles, import_s=import_s, usual=usual)
    following = asyncio.create_task(phases.follow(log_file)) if log_file is not None else None
    try:
        yield
        phases.finish()
        if durations_file is not None:
            _write_usual(durations_file, gauge.stats.startup)
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
