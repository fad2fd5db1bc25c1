"""Whether LibreOffice opens a translated file as it opens the source: the pages and texts of their PDFs are compared.

Needs `soffice` (LibreOffice), `pdftotext` and `pdfinfo` (poppler-utils).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from dragoman.errors import ConfigError
from dragoman_bench.eval.packages import KEPT

FORMATS = frozenset({"docx", "docm", "pptx", "pptm", "xlsx", "xlsm", "odt", "ods", "odp"})
_LIMIT_S = 120.0
_WORDS_OF_A_PASSAGE = 4
_LEAST_LETTERS = 0.8
_WORD = re.compile(r"[^\W\d_]{3,}")
_CIRCLED = re.compile("[\u24b6-\u24e9]")


@dataclass(frozen=True, slots=True)
class Opened:
    """What LibreOffice made of a file. `pages`: 0 where it makes no PDF of it. `source_pages`: of the source."""

    source_pages: int
    pages: int
    findings: tuple[str, ...]


class LibreOffice:
    """Converts one file at a time, with a profile of its own."""

    def __init__(self) -> None:
        """Raises ConfigError if a program is not there."""
        missing = [name for name in ("soffice", "pdftotext", "pdfinfo") if shutil.which(name) is None]
        if missing:
            raise ConfigError(
                f"--libreoffice needs {', '.join(missing)}: install LibreOffice and poppler-utils", param="libreoffice"
            )
        self._lock = Lock()
        self._folder = TemporaryDirectory(prefix="dragoman-libreoffice-")
        self.version = self._run("soffice", "--version").strip()

    def compare(self, format: str, source: bytes, result: bytes, left: list[str]) -> Opened:
        """Convert both. `left`: texts that the server reports as left on purpose."""
        with self._lock:
            before, after = self._shown(format, source, result)
        return compared(before, after, left)

    def _shown(self, format: str, *files: bytes) -> list[tuple[int, str]]:
        """The pages of each file's PDF, and its text; 0 pages without a PDF. A file that ends the program is tried alone."""
        folder = Path(self._folder.name)
        paths = [folder / f"{number}.{format}" for number in range(len(files))]
        for path, data in zip(paths, files, strict=True):
            path.write_bytes(data)
            path.with_suffix(".pdf").unlink(missing_ok=True)
        profile = (folder / "profile").as_uri()
        options = ("--headless", "--norestore", "--convert-to", "pdf", "--outdir", str(folder))
        self._run("soffice", f"-env:UserInstallation={profile}", *options, *map(str, paths))
        found: list[tuple[int, str]] = []
        for path, data in zip(paths, files, strict=True):
            pdf = path.with_suffix(".pdf")
            if not pdf.is_file():
                found += self._shown(format, data) if len(files) > 1 else [(0, "")]
                continue
            pages = re.search(r"^Pages:\s*(\d+)", self._run("pdfinfo", str(pdf)), re.MULTILINE)
            found.append((int(pages[1]) if pages else 0, self._run("pdftotext", "-enc", "UTF-8", str(pdf), "-")))
        return found

    def _run(self, *command: str) -> str:
        """The program's output; none if it takes too long. Then all that it started ends, too."""
        quiet = subprocess.DEVNULL
        with subprocess.Popen(
            command, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, start_new_session=True
        ) as process:
            try:
                return process.communicate(timeout=_LIMIT_S)[0].decode("utf-8", "replace")
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return ""


def compared(source: tuple[int, str], result: tuple[int, str], left: list[str]) -> Opened:
    """Compare the pages and texts of two PDFs."""
    findings: list[str] = []
    (pages, before), (others, after) = source, result
    if bool(pages) != bool(others):
        findings.append("LibreOffice opens the source only" if pages else "LibreOffice opens the result only")
    elif pages:
        if not pages <= others <= 2 * pages:
            findings.append(f"{pages} pages became {others}")
        wanted, found = _letters(before), _letters(after)
        if found < _LEAST_LETTERS * wanted:
            findings.append(f"{wanted} letters became {found}")
        said = set(_WORD.findall("\n".join(left)))
        kept = [words for words in _passages(after) & _passages(before) if not said.issuperset(words)]
        findings += [f"not translated: {' '.join(words)!r}" for words in sorted(kept)[:3]]
    return Opened(pages, others, tuple(findings))


def _letters(text: str) -> int:
    return sum(c.isalpha() or bool(_CIRCLED.match(c)) for c in text)


def _passages(text: str) -> set[tuple[str, ...]]:
    """All sequences of a few words in the text, between what is translated."""
    found: set[tuple[str, ...]] = set()
    for part in _CIRCLED.split(KEPT.sub(" ", text)):
        words = _WORD.findall(part)
        found |= set(zip(*(words[n:] for n in range(_WORDS_OF_A_PASSAGE)), strict=False))
    return found
