"""Records and items for the bench's tests."""

from __future__ import annotations

from typing import Any

from dragoman.wire import length_band
from dragoman_bench.bench.results import Conditions, Load, Machine, RequestRecord
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


def conditions(*loads: Load) -> Conditions:
    return Conditions(
        started_at="2025-01-01T00:00:00+00:00",
        machine=Machine("Linux", "x86_64", "a CPU", 2, 8.0),
        server_is_local=True,
        python="3.11.7",
        packages={"aiohttp": "3.14"},
        git_commit=None,
        url="http://127.0.0.1:8000",
        target="dragoman",
        model="a model",
        server={"max_num_seqs": 16},
        workload="stand-in: 1 texts",
        loads=loads,
        slo=None,
        seed=0,
        options={"stream": False},
    )
