"""Records of texts, for the recorder's tests."""

from __future__ import annotations

from typing import Any

from dragoman.telemetry.requests import TextRecord
from dragoman.telemetry.traffic.entry import TrafficEntry

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
        "queue_s": 0.01,
        "ttft_s": 0.03,
        "decode_s": 0.4,
    }
    return TextRecord(**fields | other)


def refused(number: int = 0, **other: Any) -> TextRecord:
    """A text that was refused because the queue was full."""
    nothing = dict.fromkeys(("source_tokens", "prompt_tokens", "output_tokens", "e2e_s"), 0)
    unknown = dict.fromkeys(("queue_s", "ttft_s", "decode_s", "finish_reason"))
    return text(number, **nothing | unknown | {"outcome": "queue_full"} | other)


def entry(number: int = 0, **other: Any) -> TrafficEntry:
    return TrafficEntry.of(text(number, **other))
