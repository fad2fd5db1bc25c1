from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.settings import TrafficSettings
from dragoman.telemetry.traffic import recorder as recording
from dragoman.telemetry.traffic.entry import TrafficEntry, TrafficReader
from dragoman.telemetry.traffic.recorder import Recorder
from dragoman.wire import RecorderStats
from tests.telemetry.traffic.making import text
from tests.waiting import until


@pytest.fixture(autouse=True)
def _heard() -> Iterator[None]:
    """dragoman's loggers reach pytest, whatever a test of the command line made of them."""
    logger = logging.getLogger("dragoman")
    before, logger.propagate = logger.propagate, True
    yield
    logger.propagate = before


def read(folder: Path) -> list[TrafficEntry]:
    return list(TrafficReader([folder]))


def recorder(folder: Path) -> Recorder:
    return Recorder(TrafficSettings(folder=str(folder)))


async def test_what_ends_is_on_disk_soon_without_being_asked_for(tmp_path: Path) -> None:
    running = recorder(tmp_path / "traffic")
    running.start()
    texts = [text(number) for number in range(500)]
    for one in texts:
        running.text_ended(one)
    await until(lambda: running.stats().written == 500, "five hundred texts on disk")
    assert read(tmp_path / "traffic") == [TrafficEntry.of(one) for one in texts]
    running.close()


def test_a_call_that_the_servers_end_cut_off_is_recorded_after_the_close(tmp_path: Path) -> None:
    running = recorder(tmp_path)
    running.start()
    running.text_ended(text(0))
    running.close()
    running.text_ended(text(1, outcome="engine_dead"))
    assert [one.outcome for one in read(tmp_path)] == ["ok", "engine_dead"]
    assert len(list(tmp_path.iterdir())) == 1


def test_no_file_is_made_before_there_is_a_text(tmp_path: Path) -> None:
    running = recorder(tmp_path)
    running.start()
    running.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_one_warning_and_the_recording_comes_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "RETRY_AFTER_S", 0.0)
    monkeypatch.setattr(recording, "FLUSH_EVERY_S", 3_600.0)  # this test flushes
    (tmp_path / "traffic").write_text("in the way")
    running = recorder(tmp_path / "traffic")
    running.start()
    for number in range(3):
        running.text_ended(text(number))
        running.flush()
    assert running.stats() == RecorderStats(state="failing", written=0, lost=3)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "traffic is not recorded" in caplog.text

    (tmp_path / "traffic").unlink()
    running.text_ended(text(3))
    running.flush()
    assert running.stats() == RecorderStats(state="on", written=1, lost=3)
    assert "recorded again; 3 texts were not" in caplog.text
    running.close()


def test_while_a_folder_cannot_be_written_texts_wait_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MOST_PENDING", 10)
    (tmp_path / "traffic").write_text("in the way")
    running = recorder(tmp_path / "traffic")
    running.start()  # finds the folder unwritable, and will not try again for a while
    for number in range(25):
        running.text_ended(text(number))
    (tmp_path / "traffic").unlink()
    running.close()
    assert running.stats() == RecorderStats(state="on", written=10, lost=15)
    assert [one.request_id for one in read(tmp_path / "traffic")] == [f"call-{number}" for number in range(10)]
