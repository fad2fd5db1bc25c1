from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dragoman.settings import TrafficSettings
from dragoman.telemetry.requests import TextRecord
from dragoman.telemetry.traffic.entry import TrafficReader, file_name, to_line, traffic_files
from dragoman.telemetry.traffic.recorder import Recorder
from tests.telemetry.traffic.making import NOON, entry, text

FIRST = "20260101T000000.000000Z-7-1.jsonl"
SECOND = "20260101T000000.000001Z-7-1.jsonl"


def lines(*numbers: int) -> bytes:
    return b"".join(to_line(entry(number)) for number in numbers)


def test_files_are_read_in_the_order_of_their_starts(tmp_path: Path) -> None:
    (tmp_path / SECOND).write_bytes(lines(2, 3))
    (tmp_path / FIRST).write_bytes(lines(0, 1))
    (tmp_path / "notes.txt").write_text("not a record")
    reading = TrafficReader([tmp_path])
    assert list(reading) == [entry(number) for number in range(4)]
    assert (reading.files, reading.faults) == (2, None)


def test_a_torn_last_line_and_alien_lines_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(lines(0) + b'{"v":2}\n' + lines(1) + lines(2)[:-20])
    (tmp_path / SECOND).write_bytes(b"\x00\x00\n" + lines(3))
    reading = TrafficReader([tmp_path])
    assert list(reading) == [entry(number) for number in (0, 1, 3)]
    assert (reading.torn, reading.alien) == (1, 2)
    assert reading.faults is not None
    assert "1 line torn" in reading.faults and "2 lines not records" in reading.faults


def test_a_file_last_written_before_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(lines(0))
    os.utime(tmp_path / FIRST, (NOON, NOON))
    reading = TrafficReader([tmp_path], NOON + 1)
    assert list(reading) == []
    assert reading.files == 0


def record(folder: Path, replica: str, *texts: TextRecord) -> None:
    recorder = Recorder(TrafficSettings(folder=str(folder)), replica)
    for one in texts:
        recorder.text_ended(one)
    recorder.close()


def test_several_folders_are_read_as_one_and_a_copied_file_once(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    record(one, "a", text(0), text(2))
    record(other, "b", text(1))
    [shorter] = traffic_files(one)
    (other / shorter.name).write_bytes(lines(0))  # copied while it was still being written
    reading = TrafficReader([other, one])
    assert sorted(entry.arrived_unix_s - NOON for entry in reading) == [0, 1, 2]
    assert (reading.files, len(reading.spans_unix_s)) == (2, 2)


@pytest.mark.parametrize(
    ("arrivals", "overlapping"),
    [
        (((0, 1), (5, 6)), False),  # one server after the other, as after a restart
        (((0, 6), (5, 7)), True),
        (((0, 9), (5, 6)), True),
    ],
)
def test_recorders_overlap_where_they_ran_at_the_same_time(
    arrivals: tuple[tuple[int, ...], ...], overlapping: bool, tmp_path: Path
) -> None:
    for replica, numbers in zip("ab", arrivals, strict=True):
        record(tmp_path, replica, *map(text, numbers))
    reading = TrafficReader([tmp_path])
    assert not reading.overlapping  # nothing is read yet
    list(reading)
    assert reading.overlapping is overlapping


@pytest.mark.parametrize(
    ("host", "replica", "name"),
    [
        ("gpu-1", "", "20260101T000000.000000Z-gpu_1-7-2.jsonl"),
        ("gpu-1", "dragoman#r-0/x", "20260101T000000.000000Z-gpu_1~dragoman_r_0_x-7-2.jsonl"),
        ("", "", "20260101T000000.000000Z-host-7-2.jsonl"),
        ("日本", "", "20260101T000000.000000Z-_-7-2.jsonl"),
    ],
)
def test_a_name_says_which_host_and_replica_and_is_found(host: str, replica: str, name: str, tmp_path: Path) -> None:
    assert file_name(datetime(2026, 1, 1, tzinfo=UTC), host, replica, 7, 2) == name
    (tmp_path / name).touch()
    assert [path.name for path in traffic_files(tmp_path)] == [name]


def test_files_of_the_earlier_form_are_distinguished_by_their_folders(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
    (tmp_path / "one" / FIRST).write_bytes(lines(0, 2))
    (tmp_path / "other" / SECOND).write_bytes(lines(1))
    reading = TrafficReader([tmp_path / "one", tmp_path / "other"])
    assert len(list(reading)) == 3
    assert reading.overlapping
