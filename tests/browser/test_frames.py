"""What the measurement of frames makes of a trace, and that docs/page.md has its result."""

from __future__ import annotations

import json
from typing import Any

from tests.browser.frames import conditions, frames_of, rows
from tests.browser.tables import PAGE, ROOT


def report(at_ms: float, end_ms: float, state: str, is_seen: bool = True) -> list[dict[str, Any]]:
    common = {
        "name": "PipelineReporter",
        "pid": 1,
        "id2": {"local": "0x2"},
    }  # Chromium uses an identity again and again
    args = {"frame_reporter": {"state": f"STATE_{state}", "affects_smoothness": is_seen}}
    return [{**common, "ph": "b", "ts": 1000 * at_ms, "args": args}, {**common, "ph": "e", "ts": 1000 * end_ms}]


def test_frames_are_counted_by_what_became_of_them() -> None:
    events = [
        *report(0, 16, "PRESENTED_ALL"),
        *report(16, 32, "PRESENTED_PARTIAL"),
        *report(32, 48, "DROPPED"),
        *report(48, 64, "DROPPED", is_seen=False),
        *report(64, 80, "NO_UPDATE_DESIRED"),
        *report(80, 96, "PRESENTED_ALL"),
        {"name": "DrawFrame", "pid": 1, "ph": "I", "ts": 5},
    ]
    found = frames_of(json.dumps({"traceEvents": events}).encode())
    assert found == {"shown": 3, "dropped": 1, "p50_ms": 64, "p95_ms": 64, "longest_ms": 64}


def test_the_page_has_what_was_measured() -> None:
    found = json.loads((ROOT / "results/page-frames.json").read_text(encoding="utf-8"))
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert {*rows(found), conditions(found)} <= {*lines}
