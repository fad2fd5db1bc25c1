"""What a trace asks of servers: its busiest windows, its texts' lengths and characters, and the texts that were in flight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dragoman.errors import ConfigError
from dragoman_bench.plan.curve import TextLengths, Unit
from dragoman_bench.tune.demand import TraceLine, in_flight, read_trace

LONGER_WINDOWS_S = (60.0, 3600.0)
"""Shown beside the window that is planned for: what the peak would be if calls could wait that long."""


@dataclass(frozen=True, slots=True)
class Window:
    """The busiest stretch of `seconds`. The two rates may have their peaks at different times; the plan uses tokens."""

    seconds: float
    texts_s: float
    tokens_s: float
    at_s: float  # when the stretch with the most tokens ends, from the trace's first arrival


@dataclass(frozen=True, slots=True)
class TraceDemand:
    """Arrays are by text, in the order of arrival. `characters` None: neither recorded nor known from a measurement."""

    name: str
    arrivals_s: np.ndarray
    tokens: np.ndarray
    lengths: TextLengths
    estimated: int  # texts whose tokens are estimated, as no model ran for them
    characters: float | None
    characters_estimated: bool
    peak_in_flight: int | None  # as recorded, on the servers of that time; None: the trace has no times of ends

    @property
    def seconds(self) -> float:
        """From the first arrival to the last."""
        return float(self.arrivals_s[-1] - self.arrivals_s[0])

    def ending_at_each(self, window_s: float, amounts: np.ndarray) -> np.ndarray:
        """The sum of `amounts` in the window that ends at each arrival, that arrival included."""
        sums = np.concatenate(([0.0], np.cumsum(amounts)))
        first = np.searchsorted(self.arrivals_s, self.arrivals_s - window_s, side="right")
        last = np.searchsorted(self.arrivals_s, self.arrivals_s, side="right")
        return sums[last] - sums[first]

    def busiest(self, window_s: float) -> Window:
        tokens = self.ending_at_each(window_s, self.tokens)
        texts = self.ending_at_each(window_s, np.ones(len(self.tokens)))
        place = int(tokens.argmax())
        at_s = float(self.arrivals_s[place] - self.arrivals_s[0])
        return Window(window_s, float(texts.max()) / window_s, float(tokens[place]) / window_s, at_s)

    def share_above(self, window_s: float, tokens_s: float) -> float:
        """The share of texts that arrive while the window that ends then holds more tokens than `tokens_s`."""
        return float((self.ending_at_each(window_s, self.tokens) > tokens_s * window_s * (1 + 1e-9)).mean())


def read_demand(path: Path, unit: Unit, characters_per_unit: float | None) -> TraceDemand:
    """A trace as `dragoman traffic export` writes it. Raises ConfigError where it cannot be read or has no arrival times."""
    if path.is_dir():
        command = f"dragoman traffic export --folder {path} --since all --out week.jsonl"
        raise ConfigError(f"{path} is a folder: export its records first, with {command}", param="trace")
    lines = read_trace(path)
    arrivals = [line.at_s for line in lines if line.at_s is not None]
    if len(arrivals) < len(lines):
        raise ConfigError(f"the trace {path} has lines without at_s: a plan needs every arrival", param="trace")
    lines.sort(key=lambda line: line.at_s or 0.0)
    tokens, estimated = _tokens(lines, unit, path)
    characters = _characters(lines)
    known = characters is not None
    if characters is None and characters_per_unit is not None:
        characters = sum(tokens) * characters_per_unit
    timed = [(line.at_s, line.at_s + line.e2e_s) for line in lines if line.at_s is not None and line.e2e_s is not None]
    return TraceDemand(
        name=str(path),
        arrivals_s=np.array(sorted(arrivals)),
        tokens=np.array(tokens),
        lengths=TextLengths.of(tokens),
        estimated=estimated,
        characters=characters,
        characters_estimated=not known,
        peak_in_flight=max(in_flight(timed)) if len(timed) == len(lines) else None,
    )


def _tokens(lines: Sequence[TraceLine], unit: Unit, path: Path) -> tuple[list[float], int]:
    """By text, and how many are estimated. A text without an output counts as its source times the others' ratio."""
    sources = [line.source_tokens for line in lines if line.source_tokens is not None]
    if len(sources) < len(lines):
        raise ConfigError(f"the trace {path} has lines without source_tokens: a plan needs lengths", param="trace")
    if unit == "source tokens":
        return [float(tokens) for tokens in sources], 0
    done = [(line.output_tokens, line.source_tokens) for line in lines if line.output_tokens and line.source_tokens]
    ratio = sum(output for output, _ in done) / sum(source for _, source in done) if done else 1.0
    missing = sum(line.output_tokens is None for line in lines)
    return [line.output_tokens or ratio * (line.source_tokens or 0) for line in lines], missing


def _characters(lines: Sequence[TraceLine]) -> float | None:
    """Of all sources; None where a line has neither their number nor its text."""
    total = 0
    for line in lines:
        count = line.source_characters if line.source_characters is not None else len(line.text or "")
        if not count:
            return None
        total += count
    return float(total)
