"""Folders of uploads: bounded, and deleted once nobody uses them, however the server ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.errors import DiskFull, QueueFull
from dragoman.service import uploads as module
from dragoman.service.uploads import Uploads

HOLDER = """
import sys, time
from pathlib import Path
from dragoman.service.uploads import Uploads
upload = Uploads(Path(sys.argv[1])).begin("a")
(upload.path / "source").write_bytes(b"x" * 1000)
print("ready", flush=True)
time.sleep(600)
"""


def test_what_a_killed_server_left_is_deleted_and_what_another_uses_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "imports"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"ready\n"
        own = Uploads(folder).begin("a")
        Uploads(folder).sweep()
        assert len(list(folder.iterdir())) == 2
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o700}
        os.kill(other.pid, signal.SIGKILL)
    Uploads(folder).sweep()
    assert list(folder.iterdir()) == [own.path]
    own.discard()
    assert list(folder.iterdir()) == []


def test_what_was_left_while_it_was_made_or_deleted_is_deleted_later(tmp_path: Path) -> None:
    for name in (".made", "deleted"):
        (tmp_path / name).mkdir()
    Uploads(tmp_path).sweep()
    assert len(list(tmp_path.iterdir())) == 2
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    Uploads(tmp_path).sweep()
    assert list(tmp_path.iterdir()) == []


def test_uploads_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 5)
    uploads = Uploads(tmp_path)
    begun = [uploads.begin("a") for _ in range(module.MOST_OF_ACCOUNT)]
    with pytest.raises(QueueFull):
        uploads.begin("a")
    uploads.begin("b")
    with pytest.raises(QueueFull):
        uploads.begin("c")
    begun[0].discard()
    uploads.begin("c")
    with pytest.raises(QueueFull):
        uploads.begin("a")


def test_a_full_disk_is_reported_and_costs_no_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    uploads = Uploads(tmp_path / "a")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", full)
        for _ in range(module.MOST_OF_ACCOUNT + 1):
            with pytest.raises(DiskFull):
                uploads.begin("a")
    uploads.begin("a").discard()
