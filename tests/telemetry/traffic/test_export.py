from __future__ import annotations

import json
from typing import Any

from dragoman.telemetry.traffic.entry import TrafficEntry
from dragoman.telemetry.traffic.export import trace_of
from tests.telemetry.traffic.making import entry, refused


def no_answer(number: int, **other: Any) -> TrafficEntry:
    return TrafficEntry.of(refused(number, **other))


def test_a_line_holds_when_what_and_how_long() -> None:
    trace = trace_of([entry(7), entry(5, in_flight=3, source="zh", target="en")])
    assert trace.lines == (
        {
            "at_s": 0.0,
            "source": "zh",
            "target": "en",
            "source_tokens": 10,
            "output_tokens": 12,
            "prompt_tokens": 14,
            "source_characters": 40,
            "e2e_s": 0.5,
            "in_flight": 3,
            "outcome": "ok",
        },
        {
            "at_s": 2.0,
            "source": "en",
            "target": "ja",
            "source_tokens": 10,
            "output_tokens": 12,
            "prompt_tokens": 14,
            "source_characters": 40,
            "e2e_s": 0.5,
            "in_flight": 1,
            "outcome": "ok",
        },
    )
    assert trace.seconds == 2.0


def test_what_was_refused_came_all_the_same_and_its_length_is_estimated_from_others_of_its_language() -> None:
    others = [entry(0, source_characters=40, source_tokens=10), entry(1, source="zh", source_characters=10)]
    trace = trace_of([*others, no_answer(2, source_characters=80), no_answer(3, source="zh", source_characters=7)])
    assert [line["source_tokens"] for line in trace.lines] == [10, 10, 20, 7]
    assert [line.get("estimated") for line in trace.lines] == [None, None, True, True]
    assert "output_tokens" not in trace.lines[2]


def test_an_unknown_language_is_taken_to_be_the_usual_one() -> None:
    entries = [entry(0), entry(1), entry(2, source="zh"), no_answer(3, source=None)]
    assert [line["source"] for line in trace_of(entries).lines] == ["en", "en", "zh", "en"]
    alone = trace_of([no_answer(3, source=None)])
    assert (alone.lines, alone.left_out) == ((), {"an unknown language": 1})


def test_what_no_replay_could_send_is_left_out_and_counted() -> None:
    entries = [
        entry(0),
        no_answer(1, outcome="cancelled"),
        no_answer(2, outcome="unsupported_language", target="other"),
        no_answer(3, outcome="queue_full", source="other"),
        entry(4, source_tokens=0, prompt_tokens=0, output_tokens=0, source="und"),
        no_answer(5, outcome="restarting"),
    ]
    trace = trace_of(entries)
    assert [line["outcome"] for line in trace.lines] == ["ok", "cancelled", "restarting"]
    assert trace.left_out == {
        "unsupported_language": 1,
        "a language that is not served": 1,
        "nothing to translate": 1,
    }


def test_recorded_texts_travel_and_every_text_is_one_line_for_any_reader() -> None:
    trace = trace_of([entry(0, text="one\u2028two\nthree\x85four")])
    [line] = trace.jsonl().splitlines()
    assert json.loads(line)["text"] == "one\u2028two\nthree\x85four"
