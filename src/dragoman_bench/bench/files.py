"""Workloads from files: plain text (a text a line), JSONL, and recorded traces (JSONL with `at_s`).

A JSONL line is {"text", "source"?, "target"?, "output_tokens"?, "at_s"?}. A trace may hold lengths instead of texts
({"source_tokens", "source", "target", "at_s"}), as `dragoman traffic export` writes it: texts of those lengths are then
made up, so that traffic can be replayed where texts must not be kept. A language of which none can be made is stood in for
by English of that length, which the workload's description tells. Other keys are skipped. Every fault names its line.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from random import Random
from typing import Any

from dragoman.errors import ConfigError
from dragoman_bench.bench.jsons import members, number, whole
from dragoman_bench.bench.pairs import Pair, choose
from dragoman_bench.bench.texts import Texts, TokensOf
from dragoman_bench.bench.workload import Item, OutputRatio, Recorded

STAND_IN = "en"


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading a file needs beside the file. `texts` makes up the texts of a trace that holds none."""

    pairs: tuple[Pair, ...] | None
    tokens_of: TokensOf
    texts: Callable[[int], Texts]
    seed: int = 0
    ratio: OutputRatio | None = None


def read_workload(path: Path, reading: Reading) -> Recorded:
    """By suffix: `.jsonl` and `.ndjson` are JSONL, everything else plain text. Raises ConfigError."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the workload {path}: {error}", param="workload") from error
    numbered = [(place, line.strip()) for place, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise ConfigError(f"the workload {path} is empty", param="workload")
    read = _jsonl if path.suffix in (".jsonl", ".ndjson") else _plain
    return read(path, numbered, reading)


def _plain(path: Path, lines: list[tuple[int, str]], reading: Reading) -> Recorded:
    pairs = reading.pairs
    if not pairs or len({pair.source for pair in pairs}) != 1:
        raise ConfigError(f"{path}: a text file needs --pairs with one source language", param="pairs")
    random = Random(reading.seed)
    items = (_item(text, choose(pairs, random), None, None, reading, random) for _, text in lines)
    return Recorded(path.name, tuple(items))


def _jsonl(path: Path, lines: list[tuple[int, str]], reading: Reading) -> Recorded:
    random = Random(reading.seed)
    made_up = _MadeUpTexts(reading)
    items: list[Item] = []
    for place, line in lines:
        try:
            items.append(_from_json(json.loads(line), reading, random, made_up))
        except json.JSONDecodeError as error:
            raise ConfigError(f"{path}:{place}: not JSON: {error.msg}", param="workload") from error
        except ValueError as error:
            raise ConfigError(f"{path}:{place}: {error}", param="workload") from error
    with_times = sum(item.at_s is not None for item in items)
    if 0 < with_times < len(items):
        raise ConfigError(f"{path}: {with_times} of {len(items)} lines have at_s: all or none", param="workload")
    if with_times:
        items.sort(key=lambda item: item.at_s or 0.0)
    return Recorded(path.name, tuple(items), made_up.note)


class _MadeUpTexts:
    """One generator, made only when a line needs it; it remembers which languages it had to stand in for."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._texts: Texts | None = None
        self._stood_in: Counter[str] = Counter()

    def make(self, source: str | None, tokens: int) -> str:
        """Raises ValueError where no language is told."""
        if source is None:
            raise ValueError("no source: a text of no language cannot be made up")
        self._texts = self._texts or self._reading.texts(self._reading.seed)
        if source in self._texts.languages:
            return self._texts.make(source, tokens)
        self._stood_in[source] += 1
        return self._texts.make(STAND_IN, tokens)

    @property
    def note(self) -> str:
        told = ", ".join(f"{count} of {language}" for language, count in sorted(self._stood_in.items()))
        return f"English in place of texts: {told}" if told else ""


def _from_json(value: Any, reading: Reading, random: Random, made_up: _MadeUpTexts) -> Item:
    """Raises ValueError."""
    line = members(value)
    if not line:
        raise ValueError("not a JSON object")
    pair = _pair_of(line, reading, random)
    text = line.get("text")
    if text is None and "source_tokens" in line:
        text = made_up.make(pair.source, _whole(line, "source_tokens"))
    if not isinstance(text, str) or not text.strip():
        raise ValueError("no text (nor source_tokens)")
    forced = _whole(line, "output_tokens") if line.get("output_tokens") is not None else None
    return _item(text, pair, forced, _time(line), reading, random)


def _pair_of(line: dict[str, Any], reading: Reading, random: Random) -> Pair:
    if line.get("target") is None:
        if not reading.pairs:
            raise ValueError("no target, and no --pairs to choose one from")
        return choose(reading.pairs, random)
    source, target = line.get("source"), line["target"]
    if not isinstance(target, str) or not isinstance(source, str | None):
        raise ValueError("source and target are language tags")
    return Pair(None if source == "auto" else source, target)


def _item(text: str, pair: Pair, forced: int | None, at_s: float | None, reading: Reading, random: Random) -> Item:
    tokens = reading.tokens_of(text)
    if forced is None and reading.ratio is not None:
        forced = reading.ratio.draw(tokens, random)
    return Item(text, pair.source, pair.target, tokens, None, forced, at_s)


def _whole(line: dict[str, Any], key: str) -> int:
    value = whole(line[key])
    if value is None or value < 1:
        raise ValueError(f"{key} is a whole number above 0")
    return value


def _time(line: dict[str, Any]) -> float | None:
    if line.get("at_s") is None:
        return None
    value = number(line["at_s"])
    if value is None or not 0 <= value < inf:
        raise ValueError("at_s is a time in seconds, 0 or more")
    return value
