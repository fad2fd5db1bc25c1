from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.telemetry.traffic.entry import TrafficReader, to_line
from tests.telemetry.traffic.making import NOON, entry

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


def test_only_what_arrived_since_is_read(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(lines(0, 1, 2))
    assert list(TrafficReader([tmp_path], NOON + 1)) == [entry(1), entry(2)]


def test_a_file_last_written_before_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(lines(0))
    os.utime(tmp_path / FIRST, (NOON, NOON))
    reading = TrafficReader([tmp_path], NOON + 1)
    assert list(reading) == []
    assert reading.files == 0


def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no traffic was recorded in"):
        list(TrafficReader([tmp_path / "none"]))
