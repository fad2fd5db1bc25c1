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
from datetime import datetime
from pathlib import Path
from time import monotonic, time
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
_LOGGED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}")
"""The time of a line, as `process.log_to_file` has vLLM write it."""


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
                self._begin(number + 1 if name == "compile" and not self._compiles else number, _logged_s(line))
                return

    def _begin(self, number: int, at_s: float) -> None:
        self._end(max(at_s, self._began_s))
        self._number = number
        if PHASES[number][0] == "compile":
            log.info(
                "compiling the model: minutes for a large one; later starts with the same settings reuse the result"
            )

    def finish(self) -> None:
        """The start has ended."""
        self._end(monotonic())
        self._gauge.stats.startup = list(self._finished)

    def _end(self, at_s: float) -> None:
        """The present phase has ended."""
        self._finish(PHASES[self._number][0], at_s - self._began_s)
        self._began_s = at_s

    def _finish(self, name: str, duration_s: float) -> None:
        phase = self._phase(name, duration_s)
        self._finished.append(phase)
        fields = {"phase": name, "duration_s": phase.duration_s}
        log.info("start: %s %.1f s", name, duration_s, extra={"fields": fields})

    def _phase(self, name: str, duration_s: float) -> StartupPhase:
        return StartupPhase(name=name, duration_s=round(duration_s, 3), usual_s=self._usual.get(name))

    def read(self, log: _GrowingLog) -> None:
        """What was appended since the last call."""
        for line in log.lines():
            self.line(line)
        self._report()

    async def follow(self, log: _GrowingLog) -> None:
        """Read what is appended to the log, until cancelled."""
        while True:
            self.read(log)
            await asyncio.sleep(_POLL_S)


class _GrowingLog:
    """The lines that are appended to a file from now on."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = self._size()
        self._rest = b""

    def lines(self) -> list[str]:
        """Those that were completed since the last call."""
        if self._size() <= self._offset:
            return []
        with self._file.open("rb") as file:
            file.seek(self._offset)
            appended = file.read()
        self._offset += len(appended)
        # A progress bar returns to its line's beginning.
        *lines, self._rest = re.split(rb"[\r\n]", self._rest + appended)
        return [line.decode(errors="replace") for line in lines]

    def _size(self) -> int:
        return self._file.stat().st_size if self._file.is_file() else 0


def _logged_s(line: str) -> float:
    """When a line was logged, on the clock of `monotonic`: now, where it does not say."""
    if (found := _LOGGED.search(line)) is None:
        return monotonic()
    ago_s = time() - datetime.strptime(found[0], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
    return monotonic() - max(ago_s, 0.0)


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


@asynccontextmanager
async def followed(
    log_file: Path | None, gauge: EngineGauge, *, compiles: bool, import_s: float = 0.0
) -> AsyncGenerator[None]:
    """Within, an engine starts: its phases are logged, and are in the gauge. Without a log file: one phase, all of it."""
    durations_file = log_file.with_suffix(".start.json") if log_file is not None else None
    usual = _read_usual(durations_file)
    phases = StartupPhases(gauge, compiles=compiles, import_s=import_s, usual=usual)
    growing = _GrowingLog(log_file) if log_file is not None else None
    following = asyncio.create_task(phases.follow(growing)) if growing is not None else None
    try:
        yield
        if growing is not None:
            phases.read(growing)
        phases.finish()
        if durations_file is not None:
            _write_usual(durations_file, gauge.stats.startup)
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
