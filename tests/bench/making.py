"""Records and items for the bench's tests."""

from __future__ import annotations

from typing import Any

from dragoman.wire import length_band
from dragoman_bench.bench.results import RequestRecord
from dragoman_bench.bench.workload import Item, RecordedWorkload

HELLO = Item("Hello, world", "en", "de", 4)


def record(index: int = 0, *, e2e_s: float = 1.0, intended_s: float = 0.0, **other: Any) -> RequestRecord:
    """A completed request unless a field says otherwise."""
    tokens = other.pop("source_tokens", 20)
    fields: dict[str, Any] = {
        "index": index,
        "text": index,
        "intended_s": intended_s,
        "sent_s": intended_s,
        "first_token_s": None,
        "done_s": intended_s + e2e_s,
        "source_tokens": tokens,
        "band": length_band(tokens),
    }
    return RequestRecord(**(fields | other))


def workload(*texts: str) -> RecordedWorkload:
    return RecordedWorkload(
        "stand-in", tuple(Item(text, "en", "de", len(text.split())) for text in texts or ("Hello, world",))
    )
