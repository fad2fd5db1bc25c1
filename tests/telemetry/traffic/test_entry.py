from __future__ import annotations

import json

import pytest

from dragoman.telemetry.traffic.entry import TrafficEntry, from_line, to_line
from tests.telemetry.traffic.making import NOON, refused, text


@pytest.mark.parametrize(
    "record",
    [
        text(),
        refused(source=None),
        text(3, detected=True, warnings=("repetition", "length_limit"), index=1, queue_s=0.0, ttft_s=None),
        text(text='A "line"\nand\u2028another\r, 日本語 \ud800'),
    ],
)
def test_a_line_is_read_back_as_it_was_written(record: object) -> None:
    entry = TrafficEntry.of(record)  # type: ignore[arg-type]
    line = to_line(entry)
    assert line.count(b"\n") == 1
    assert from_line(line) == entry


def test_a_line_says_its_version_and_leaves_out_what_has_its_default() -> None:
    fields = json.loads(to_line(TrafficEntry.of(refused())))
    assert fields == {
        "v": 1,
        "at": NOON,
        "from": "en",
        "to": "ja",
        "end": "queue_full",
        "e2e": 0.0,
        "in": 1,
        "chars": 40,
        "id": "call-0",
        "kind": "interactive",
    }


def test_a_wait_of_no_time_is_not_an_unknown_wait() -> None:
    assert TrafficEntry.of(text(queue_s=0.0)).queue_s == 0.0
    assert json.loads(to_line(TrafficEntry.of(text(queue_s=0.0))))["queue"] == 0.0
    assert TrafficEntry.of(text(queue_s=None)).queue_s is None


def test_a_key_that_is_not_known_is_skipped() -> None:
    line = to_line(TrafficEntry.of(text()))
    assert from_line(line[:-2] + b',"new":[1]}\n') == TrafficEntry.of(text())


@pytest.mark.parametrize(
    "line",
    [b"", b"\n", b"{}\n", b"[1]\n", b"\xff\n", b'{"v":1,"at":1.0}\n', to_line(TrafficEntry.of(text()))[:-9] + b"\n"],
)
def test_what_is_no_record_is_none(line: bytes) -> None:
    assert from_line(line) is None


@pytest.mark.parametrize(("key", "value"), [("v", 2), ("in", "3"), ("e2e", -1.0), ("e2e", None), ("src", 1.5)])
def test_a_record_of_another_version_or_with_a_wrong_value_is_none(key: str, value: object) -> None:
    fields = json.loads(to_line(TrafficEntry.of(text()))) | {key: value}
    assert from_line(json.dumps(fields).encode()) is None


def test_a_line_without_a_kind_is_of_a_document_if_its_id_is_a_documents() -> None:
    fields = json.loads(to_line(TrafficEntry.of(text(kind="bulk"))))
    assert fields.pop("kind") == "bulk"
    ids = {"document-" + "0a" * 16: True, "document-1": False, "mine": False}
    for id, is_document in ids.items():
        entry = from_line(json.dumps(fields | {"id": id}).encode())
        assert entry is not None
        assert (entry.kind, entry.is_document) == (None, is_document)
    assert TrafficEntry.of(text(kind="document")).is_document
    assert not TrafficEntry.of(text(kind="interactive", request_id="document-" + "0a" * 16)).is_document
