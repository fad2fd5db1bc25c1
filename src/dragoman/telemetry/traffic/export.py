"""Recorded texts as a trace: the workload that `dragoman bench --replay` sends again, one line a text.

A line holds `at_s` (from the trace's first arrival), `source`, `target`, `source_tokens`, `output_tokens` where there was an
output, and for those who size servers by it `prompt_tokens`, `source_characters`, `e2e_s`, `in_flight`, `outcome`, and the
`kind` of what is no interactive call's (`bulk`, `document`). `text` is there where it was recorded. What the server refused
or lost came all the same and is in the trace; its lengths were never counted, so they are estimated from its characters by
what the others of its language took, and its line says `"estimated": true`.

Left out, and counted: what no replay could send (a language that is not served, a mistake of the caller's) and what the
model never saw (nothing to translate).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.errors import DragomanError, EngineFailed, QueueFull, Unavailable, codes
from dragoman.languages import OTHER
from dragoman.telemetry.requests import CANCELLED, OK
from dragoman.telemetry.traffic.entry import TrafficEntry

LOAD = frozenset({OK, CANCELLED, QueueFull.code, DragomanError.code, EngineFailed.code, *codes(Unavailable)})
"""Outcomes of texts that a server is there to translate."""
UNDETERMINED = "und"
_TOKENS_PER_CHARACTER = 0.3  # where no text was translated to measure it


@dataclass(frozen=True, slots=True)
class TrafficTrace:
    """`lines` in the order of arrival, `left_out` by reason."""

    lines: tuple[dict[str, Any], ...]
    left_out: Mapping[str, int]

    @property
    def seconds(self) -> float:
        return self.lines[-1]["at_s"] if self.lines else 0.0

    def jsonl(self) -> str:
        """ASCII: what some readers take for the end of a line (U+2028) is escaped with the rest."""
        return "".join(json.dumps(line) + "\n" for line in self.lines)


def trace_of(entries: Iterable[TrafficEntry], limit: int | None = None) -> TrafficTrace:
    """`limit` keeps the last arrivals."""
    arrived = sorted(entries, key=lambda entry: (entry.arrived_unix_s, entry.request_id, entry.index))
    reasons = [(entry, _why_left_out(entry)) for entry in arrived]
    kept = [entry for entry, reason in reasons if reason is None]
    estimate = _Estimate(kept)
    known = [entry for entry in kept if entry.source or estimate.source(entry.target)]
    left_out = Counter(reason for _, reason in reasons if reason is not None)
    if len(known) < len(kept):
        left_out["an unknown language"] = len(kept) - len(known)
    known = known[-limit:] if limit else known
    start_unix_s = known[0].arrived_unix_s if known else 0.0
    return TrafficTrace(tuple(_line(entry, start_unix_s, estimate) for entry in known), left_out)


def _why_left_out(entry: TrafficEntry) -> str | None:
    if entry.outcome not in LOAD:
        return entry.outcome
    if OTHER in (entry.source, entry.target):
        return "a language that is not served"
    if (entry.ok and not entry.source_tokens) or entry.source in (UNDETERMINED, entry.target):
        return "nothing to translate"
    return None


class _Estimate:
    """What is not known of a text that was not translated, from those that were."""

    def __init__(self, entries: Sequence[TrafficEntry]) -> None:
        done = [entry for entry in entries if entry.source_tokens and entry.source_characters]
        self._tokens = Counter[str | None]()
        self._characters = Counter[str | None]()
        self._sources = Counter[tuple[str, str]]()
        for entry in done:
            for key in (entry.source, None):  # None: of all languages
                self._tokens[key] += entry.source_tokens
                self._characters[key] += entry.source_characters
            if entry.source is not None:
                self._sources[entry.target, entry.source] += 1

    def source(self, target: str) -> str | None:
        """The language that most texts into `target` are in; None where there were none."""
        counts = {source: count for (into, source), count in self._sources.items() if into == target}
        return max(counts, key=lambda source: counts[source], default=None)

    def tokens(self, source: str | None, characters: int) -> int:
        for key in (source, None):
            if self._characters[key]:
                return max(1, round(characters * self._tokens[key] / self._characters[key]))
        return max(1, round(characters * _TOKENS_PER_CHARACTER))


def _line(entry: TrafficEntry, start_unix_s: float, estimate: _Estimate) -> dict[str, Any]:
    source = entry.source or estimate.source(entry.target)
    estimated = not entry.source_tokens
    fields: dict[str, Any] = {
        "at_s": round(entry.arrived_unix_s - start_unix_s, 4),
        "source": source,
        "target": entry.target,
        "source_tokens": entry.source_tokens or estimate.tokens(source, entry.source_characters),
        "output_tokens": entry.output_tokens or None,
        "prompt_tokens": entry.prompt_tokens or None,
        "source_characters": entry.source_characters or None,
        "e2e_s": entry.e2e_s,
        "in_flight": entry.in_flight,
        "outcome": entry.outcome,
        "kind": "document" if entry.is_document else "bulk" if entry.kind == "bulk" else None,
        "estimated": estimated or None,
        "text": entry.text,
    }
    return {key: value for key, value in fields.items() if value is not None}
