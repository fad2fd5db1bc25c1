"""A start by a user without home folder, entry in /etc/passwd or folders to write: it works, or one line says what to set."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import httpx
import pytest

from dragoman.engine.folders import TEMPORARY_BYTES, check_folders
from dragoman.errors import ConfigError
from dragoman.settings import Settings, load

ROOT = Path(__file__).parents[2]
USER = 12345
_READS_ALL = "-all,+dac_read_search"
"""Of root's capabilities: the interpreter may be in a folder of root's. Nothing else can be written with it."""


def stranger(folder: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Run `dragoman serve` as a user whom the system does not know, of group 0, in a folder, with no other variables."""
    return subprocess.Popen(
        [*_setpriv(), sys.executable, "-B", "-m", "dragoman.cli.main", "serve", "--port", "0", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _setpriv() -> list[str]:
    if os.geteuid() != 0:
        pytest.skip("only root can start processes of another user")
    if (program := shutil.which("setpriv")) is None:
        pytest.skip("setpriv is not installed")
    capabilities = [f"--{kind}={_READS_ALL}" for kind in ("inh-caps", "ambient-caps", "bounding-set")]
    return [program, "--reuid", str(USER), "--regid", "0", "--clear-groups", *capabilities]


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that group 0 may write, as a volume is; pytest's own folders are root's alone."""
    with tempfile.TemporaryDirectory(prefix="dragoman-test-") as name:
        folder = Path(name)
        os.chown(folder, -1, 0)
        folder.chmod(0o770)
        yield folder


def refused(process: subprocess.Popen[str], *named: str) -> None:
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 2, output
    (line,) = output.splitlines()
    for one in named:
        assert one in line


def test_a_working_folder_that_cannot_be_written_is_one_line_with_the_settings(shared: Path) -> None:
    shared.chmod(0o555)
    process = stranger(shared, "--pipeline", "fake")
    refused(process, "storage.url", "log.engine_file", "documents.folder", str(USER), str(shared))


def test_the_engine_without_a_home_folder_is_one_line(shared: Path) -> None:
    refused(stranger(shared), "HOME")


def test_a_home_folder_that_cannot_be_written_is_one_line(shared: Path) -> None:
    refused(stranger(shared, HOME="/"), "HOME", "/.cache")


def test_the_fake_pipeline_serves_with_a_working_folder_alone(shared: Path) -> None:
    with stranger(shared, "--pipeline", "fake") as process:
        try:
            assert process.stdout is not None
            lines = list(lines_until("listens on", process.stdout))
            address = re.search(r"http://\S+", lines[-1])
            assert address, lines
            answer = httpx.post(f"{address[0]}/v1/translate", json={"text": "Hello", "target": "ja"}, timeout=60)
            assert answer.status_code == httpx.codes.OK, answer.text
        finally:
            process.terminate()
        rest = process.stdout.read()
    assert process.returncode == 0, rest
    assert (shared / ".dragoman/dragoman.db").stat().st_uid == USER


def lines_until(words: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield lines up to the first that has the words."""
    for line in lines:
        yield line
        if words in line:
            return


def settings_of(folder: Path, **variables: str) -> Settings:
    own = {
        "DRAGOMAN_STORAGE_URL": f"sqlite:///{folder}/dragoman.db",
        "DRAGOMAN_LOG_ENGINE_FILE": f"{folder}/engine.log",
        "DRAGOMAN_DOCUMENTS_FOLDER": f"{folder}/documents",
        "DRAGOMAN_PIPELINE_NAME": "fake",
    }
    return load(environment=own | variables).settings


def test_folders_that_can_be_made_are_right(tmp_path: Path) -> None:
    check_folders(settings_of(tmp_path / "a" / "b"))
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("setting", ["storage.url", "log.engine_file", "documents.folder", "cache.file"])
def test_a_file_in_the_place_of_a_folder_is_named_with_its_setting(tmp_path: Path, setting: str) -> None:
    (tmp_path / "file").touch()
    path = f"{tmp_path}/file/x"
    variable = f"DRAGOMAN_{setting}".replace(".", "_").upper()
    changed = {variable: f"sqlite:///{path}" if setting == "storage.url" else path}
    with pytest.raises(ConfigError) as refusal:
        check_folders(settings_of(tmp_path, **changed))
    assert setting in refusal.value.message and str(tmp_path / "file") in refusal.value.message


def test_servers_without_files_need_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    none = {"DRAGOMAN_STORAGE_URL": "", "DRAGOMAN_LOG_ENGINE_FILE": "", "DRAGOMAN_DOCUMENTS_FOLDER": ""}
    check_folders(settings_of(tmp_path / "file" / "x", **none))


def test_temporary_files_without_space_are_an_error_before_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: used._replace(free=TEMPORARY_BYTES - 1))
    with pytest.raises(ConfigError, match="TMPDIR"):
        check_folders(settings_of(tmp_path))
