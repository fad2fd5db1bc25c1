"""Records of texts, for the recorder's tests."""

from __future__ import annotations

from typing import Any

from dragoman.telemetry.requests import TextRecord
from dragoman.telemetry.traffic.entry import TrafficEntry
from dragoman.types import Timings

NOON = 1_700_000_000.0  # about


def text(number: int = 0, **other: Any) -> TextRecord:
    """A text that was translated in half a second."""
    fields: dict[str, Any] = {
        "request_id": f"call-{number}",
        "index": 0,
        "arrived_unix_s": NOON + number,
        "source": "en",
        "target": "ja",
        "outcome": "ok",
        "e2e_s": 0.5,
        "in_flight": 1,
        "source_characters": 40,
        "source_tokens": 10,
        "prompt_tokens": 14,
        "output_tokens": 12,
        "finish_reason": "stop",
        "timings": (Timings(0.01, 0.02, 0.4),),
    }
    return TextRecord(**fields | other)


def refused(number: int = 0, **other: Any) -> TextRecord:
    """A text that was refused because the queue was full."""
    none: dict[str, Any] = {"source_tokens": 0, "prompt_tokens": 0, "output_tokens": 0, "timings": (), "e2e_s": 0.0}
    return text(number, **none | {"outcome": "queue_full", "finish_reason": None} | other)


def entry(number: int = 0, **other: Any) -> TrafficEntry:
    return TrafficEntry.of(text(number, **other))
