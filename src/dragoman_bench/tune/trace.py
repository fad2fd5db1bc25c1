"""Where a demand comes from: a recorded trace, or a workload that is stated.

A trace is JSONL as `bench.files` reads it, a line a text. Two further fields count concurrency: `in_flight` (texts in the
house when this one came, itself included) or, for a trace that has only times, `at_s` with `e2e_s`. Recorded output lengths
size the KV cache; they are sent (forced) only to a server of random weights. Knows nothing of what is done with a demand.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import members, number, whole
from dragoman_bench.bench.texts import PhrasebookTexts, token_counter
from dragoman_bench.bench.workload import Item, MadeUp, OutputRatio, Reading, Workload, parse_pairs, read_workload
from dragoman_bench.journey.measure import CachedWorkload
from dragoman_bench.journey.steps import Subject
from dragoman_bench.tune.demand import Demand, PromptShape, counted, expected_outputs
from dragoman_bench.tune.draws import drawn, made_up, pairs_without_texts
from dragoman_bench.tune.outcome import Levels
from dragoman_bench.tune.points import Draw

SAMPLED = 400  # texts of a stated workload that its lengths are taken from
FEW_TEXTS = 2000
_BLANK = "\0"  # begins a text that only says its length


def demand_of_trace(path: Path, subject: Subject, shape: PromptShape, levels: Levels | None = None) -> Demand:
    """`levels` overrules what the trace counts. Raises ConfigError where the trace cannot be read, or counts nothing
    and no levels are stated."""
    if path.suffix not in (".jsonl", ".ndjson"):
        raise ConfigError(f"the trace {path} is not a .jsonl file", param="trace")
    tokens_of, _ = token_counter(Path(subject.tokenizer) if subject.tokenizer else None)
    lines = _lines(path)
    ratio = OutputRatio(*subject.forced) if subject.forced else None
    blank = _Blank(cast(tuple[str, ...], tuple({_source(line) for line in lines})))
    reading = Reading(parse_pairs(subject.pairs), partial(_tokens, tokens_of), lambda _: blank, subject.seed, ratio)
    recorded = read_workload(path, reading).recorded
    outputs, estimated = expected_outputs(recorded)
    sent = recorded if subject.forced else tuple(replace(item, output_tokens=None) for item in recorded)
    sizes = tuple(item.source_tokens + output for item, output in zip(recorded, outputs, strict=True))
    texts = partial(PhrasebookTexts, tokens_of=tokens_of)
    without = any(item.text.startswith(_BLANK) for item in recorded)
    workloads = drawn(path.name, sent, sizes, subject.seed, (texts, tokens_of) if without else None)
    return Demand(
        description=f"{path.name}: {len(recorded)} recorded texts",
        items=recorded,
        outputs=outputs,
        levels=levels or _levels(path, lines),
        shape=shape,
        workloads=_remembered(workloads),
        seed=subject.seed,
        output_estimated=estimated,
        notes=tuple(_notes(recorded, without, texts(subject.seed).languages)),
    )


def demand_of_subject(subject: Subject, shape: PromptShape, levels: Levels) -> Demand:
    """The journey's variable texts at stated levels. Raises ConfigError where the subject's tokenizer cannot be read."""
    tokens_of, tokens_are = token_counter(Path(subject.tokenizer) if subject.tokenizer else None)
    pairs, texts = parse_pairs(subject.pairs), partial(PhrasebookTexts, tokens_of=tokens_of)
    ratio = OutputRatio(*subject.forced) if subject.forced else None
    low, high = subject.lengths["variable"]
    workload = MadeUp("variable", low, high, pairs, texts, tokens_of, tokens_are, subject.seed, ratio)
    items = workload.items(SAMPLED, 0)
    outputs, estimated = expected_outputs(items)
    described, workloads = workload.description, made_up(workload)
    return Demand(described, items, outputs, levels, shape, _remembered(workloads), subject.seed, estimated)


def in_flight(intervals_s: Sequence[tuple[float, float]]) -> list[int]:
    """Of texts that came and left then: how many were there at each arrival, itself included."""
    arrivals, departures = sorted(came for came, _ in intervals_s), sorted(left for _, left in intervals_s)
    return [place + 1 - bisect_right(departures, came) for place, came in enumerate(arrivals)]


@dataclass(frozen=True, slots=True)
class _Blank:
    """Stands for texts while a trace is read: the real ones are made up anew for each measurement."""

    languages: tuple[str, ...]

    def make(self, language: str, tokens: int) -> str:
        return f"{_BLANK}{tokens}"


def _remembered(workloads: Mapping[Draw, Workload]) -> dict[Draw, Workload]:
    """Every server is sent the same texts: they are made once."""
    return {draw: CachedWorkload(workload) for draw, workload in workloads.items()}


def _tokens(tokens_of: Any, text: str) -> int:
    return int(text[1:]) if text.startswith(_BLANK) else tokens_of(text)


def _lines(path: Path) -> list[dict[str, Any]]:
    """What is not JSON is for `read_workload` to complain of."""
    found: list[dict[str, Any]] = []
    with suppress(OSError, UnicodeDecodeError):
        for line in path.read_text(encoding="utf-8-sig").splitlines():
            with suppress(json.JSONDecodeError):
                found.append(members(json.loads(line)))
    return found


def _source(line: dict[str, Any]) -> str | None:
    source = line.get("source")
    return source if isinstance(source, str) and source != "auto" else None


def _levels(path: Path, lines: Sequence[dict[str, Any]]) -> Levels:
    told = [count for line in lines if (count := whole(line.get("in_flight"))) is not None and count >= 1]
    if told and len(told) == len([line for line in lines if line]):
        return counted(told)
    intervals = [_interval(line) for line in lines]
    known = [interval for interval in intervals if interval is not None]
    if not known or len(known) < len([line for line in lines if line]):
        raise ConfigError(
            f"the trace {path} does not say how many texts come at once: its lines need in_flight, or at_s and e2e_s; "
            "or say --clients 2-25 (usually, at busy times)",
            param="clients",
        )
    return counted(in_flight(known))


def _interval(line: dict[str, Any]) -> tuple[float, float] | None:
    at_s, e2e_s = number(line.get("at_s")), number(line.get("e2e_s"))
    return None if at_s is None or e2e_s is None else (at_s, at_s + e2e_s)


def _notes(recorded: Sequence[Item], without: bool, languages: Sequence[str]) -> list[str]:
    if not without:
        if len(recorded) >= FEW_TEXTS:
            return []
        return [
            f"the trace's {len(recorded)} texts are sent more than once: a prefix cache may answer for part of them"
        ]
    replaced = pairs_without_texts(recorded, languages)
    made = ["the trace holds lengths, not texts: texts are made up at those lengths"]
    return made + ([f"made-up texts of other languages stand for {', '.join(replaced)}"] if replaced else [])
