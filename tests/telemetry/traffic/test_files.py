from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.telemetry.traffic.recorder import TrafficFiles, delete_oldest, traffic_files

LINE = b"x" * 99 + b"\n"


def files(folder: Path, *, file_bytes: int = 1_000, max_bytes: int = 100_000) -> TrafficFiles:
    return TrafficFiles(folder, max_bytes=max_bytes, file_bytes=file_bytes)


def sizes(folder: Path) -> list[int]:
    return [path.stat().st_size for path in traffic_files(folder)]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file of this process can grow beyond `size`, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_lines_are_appended_and_a_full_file_is_followed_by_another(tmp_path: Path) -> None:
    writer = files(tmp_path)
    for _ in range(5):
        writer.write([LINE] * 5)
    writer.close()
    assert sizes(tmp_path) == [1_000, 1_000, 500]
    assert writer.written == 25


def test_a_large_batch_is_spread_over_files_and_a_line_is_never_split(tmp_path: Path) -> None:
    writer = files(tmp_path, file_bytes=250)
    writer.write([LINE] * 5 + [b"y" * 999 + b"\n"] + [LINE])
    writer.close()
    assert sizes(tmp_path) == [200, 200, 100, 1_000, 100]


def test_the_oldest_files_are_deleted_so_that_all_together_stay_within_the_bound(tmp_path: Path) -> None:
    writer = files(tmp_path, max_bytes=4_000)
    newest: list[Path] = []
    for _ in range(200):
        writer.write([LINE])
        assert sum(sizes(tmp_path)) <= 4_000
        newest.append(traffic_files(tmp_path)[-1])
    writer.close()
    assert traffic_files(tmp_path) == list(dict.fromkeys(newest))[-4:]


def test_a_file_that_another_server_is_writing_is_not_deleted(tmp_path: Path) -> None:
    other = files(tmp_path)
    other.write([LINE])
    delete_oldest(tmp_path, 0)
    assert sizes(tmp_path) == [100]
    other.close()
    delete_oldest(tmp_path, 0)
    assert sizes(tmp_path) == []


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_bytes(b"z" * 9_000)
    writer = files(tmp_path, max_bytes=4_000)
    for _ in range(60):
        writer.write([LINE])
    writer.close()
    assert (tmp_path / "notes.jsonl").stat().st_size == 9_000
    assert tmp_path / "notes.jsonl" not in traffic_files(tmp_path)


def test_two_servers_on_one_folder_write_files_of_their_own(tmp_path: Path) -> None:
    left, right = files(tmp_path), files(tmp_path)
    for _ in range(12):
        left.write([b"l" * 99 + b"\n"])
        right.write([b"r" * 99 + b"\n"])
    left.close()
    right.close()
    contents = [path.read_bytes() for path in traffic_files(tmp_path)]
    assert len(contents) == 4
    assert all(len(set(content) - {10}) == 1 for content in contents)


def test_a_file_is_its_owners_alone(tmp_path: Path) -> None:
    writer = files(tmp_path / "deep" / "folder")
    writer.write([LINE])
    writer.close()
    [path] = traffic_files(tmp_path / "deep" / "folder")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("closed", [False, True])
def test_a_file_that_was_deleted_under_it_is_followed_by_another(tmp_path: Path, closed: bool) -> None:
    writer = files(tmp_path / "traffic")
    writer.write([LINE])
    if closed:
        writer.close()
    for path in traffic_files(tmp_path / "traffic"):
        path.unlink()
    (tmp_path / "traffic").rmdir()
    writer.write([LINE, LINE])
    writer.close()
    assert sizes(tmp_path / "traffic") == [200]


def test_a_full_disk_is_an_error_and_what_is_torn_stays_at_the_end_of_its_file(tmp_path: Path) -> None:
    writer = files(tmp_path, file_bytes=10_000)
    writer.write([LINE])
    with largest_file(250), pytest.raises(OSError, match="File too large"):
        writer.write([LINE, LINE])
    assert writer.written == 1
    writer.write([LINE])
    writer.close()
    assert sizes(tmp_path) == [250, 100]
