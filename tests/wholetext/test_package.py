"""The package from outside: its README's example, a format that another package adds, and what importing it loads."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import wholetext
from tests.waiting import HANG_S
from tests.wholetext.office import docx, read, run, texts
from wholetext.errors import UnsupportedFile
from wholetext.files import formats
from wholetext.files.content import ReadOptions
from wholetext.files.formats import GROUP, Format
from wholetext.files.segmentfile import SegmentFile
from wholetext.files.worker import SOURCE, Workers, WorkerTask

README = Path(wholetext.__file__).with_name("README.md")
INI = """
import re
from wholetext.files.content import Content
from wholetext.files.encodings import decode
from wholetext.files.formats import Format
from wholetext.files.strings import Splice
from wholetext.markup.blocks import InlineItem, build

FORMAT = Format(("ini",), "text/plain", "ini_format")

def read(data, options):
    text, encoding, warnings = decode(data)
    content, splice = Content(warnings=warnings), Splice(text)
    for value in re.finditer(r"(?m)^(\\w+) *= *(.+)$", text):
        splice.put(*value.span(2), content.add(build([InlineItem.text(value[2])]), value[1]))
    content.parts.append(splice.part(encoding))
    return content
"""
DATA = b"[menu]\nopen = Open it\nclose=Close it\n"


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Put a package into a folder that Python searches, as an installer does, with one entry point."""
    metadata = folder / "ini_format-1.0.dist-info"
    metadata.mkdir()
    (folder / "ini_format.py").write_text(INI)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: ini-format\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\nini = {value}\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", ":".join(map(str, (folder, *filter(None, sys.path)))))
    formats.installed.cache_clear()


@pytest.fixture(autouse=True)
def _nothing_installed() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    yield
    formats.installed.cache_clear()


async def test_an_installed_package_adds_a_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedFile):
        formats.format_of("ini")
    (packages := tmp_path / "packages").mkdir()
    install(packages, monkeypatch, "ini_format:FORMAT")
    assert formats.format_of("ini") is formats.all_formats()[-1]
    options = ReadOptions("ini", "de")
    assert [(unit.place, unit.block.text) for unit in formats.read(DATA, options).units] == [
        ("open", "Open it"),
        ("close", "Close it"),
    ]
    (tmp_path / SOURCE).write_bytes(DATA)
    workers = Workers(memory_bytes=2**30, timeout_s=HANG_S, at_once=1)
    await workers.run(task := WorkerTask("read", str(tmp_path), options))
    assert SegmentFile(task.file("segments")).translations() == ["Open it", "Close it"]
    assert formats.write(DATA, options, ["Öffnen", "Zu"])[0].decode() == "[menu]\nopen = Öffnen\nclose=Zu\n"
    workers.close()


@pytest.mark.parametrize("value", ["ini_format:read", "no_such_module:FORMAT"])
def test_an_entry_point_that_is_no_format_is_named_and_left_out(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(tmp_path, monkeypatch, value)
    assert formats.all_formats() == formats.FORMATS
    assert value in caplog.text
    with pytest.raises(UnsupportedFile):
        formats.format_of("ini")


def test_no_package_takes_a_format_of_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "ini_format:FORMAT")
    monkeypatch.setattr("ini_format.FORMAT", Format(("txt",), "text/plain", "ini_format"))
    assert formats.format_of("txt") is formats.FORMATS[0]


@pytest.mark.skipif(not README.is_file(), reason="an installed wheel has no README in its folder")
def test_the_example_of_the_readme(tmp_path: Path) -> None:
    program = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert program
    source, result = tmp_path / "letter.docx", tmp_path / "brief.docx"
    source.write_bytes(docx(f"<w:p>{run('Hello ')}{run('world', '<w:b/>')}</w:p>"))
    command = [sys.executable, "-c", program[1], str(source), str(result)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == texts(read(source.read_bytes(), "docx"))
    assert texts(read(result.read_bytes(), "docx")) == ["Hallo <g1>world</g1>"]


def test_importing_it_loads_the_standard_library_alone() -> None:
    program = "import sys; before = {*sys.modules}; import wholetext; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["wholetext"]
