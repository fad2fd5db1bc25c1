"""Translates whole files with a server and judges the results (`packages.judge`): `dragoman eval --documents`.

The corpus is a list (JSON lines) of public files with repository, commit, path and SHA-256: the files themselves are not part
of this project. Those that are not in the folder of files are fetched from their repository and checked.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
from pydantic import TypeAdapter, ValidationError

from dragoman.errors import ConfigError
from dragoman_bench.bench.measurement import (
    Machine,
    ResultsFile,
    describe_machine,
    first_fault,
    git_commit,
    read_text,
    with_part,
    write_text,
)
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.tables import Table, escaped, markdown, table
from dragoman_bench.eval import libreoffice, packages
from dragoman_bench.eval.libreoffice import LibreOffice, Opened

CORPUS = Path(__file__).parent / "documents.jsonl"
_RAW = "https://raw.githubusercontent.com"
_EXTENSIONS = {"android": "xml", "xliff2": "xlf"}
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """One public file. `format`: its extension, `android` for an XML file of Android's strings, or `xliff2` for xliff 2.x.

    `target`: the language to translate it into; of a catalogue with translations, theirs.
    """

    repo: str
    commit: str
    path: str
    sha256: str
    format: str
    target: str = "ja"

    @property
    def name(self) -> str:
        """Its name in the folder of files, and for the server."""
        return f"{self.sha256}.{_EXTENSIONS.get(self.format, self.format)}"


@dataclass(frozen=True, slots=True)
class FileResult:
    """What became of a file. `error`: why the server refused it; `findings`: what is wrong with the result."""

    file: CorpusFile
    bytes: int
    characters: int = 0
    segments: int = 0
    left: int = 0
    took_s: float = 0.0
    error: str = ""
    findings: tuple[str, ...] = ()
    rivals: dict[str, tuple[str, ...]] | None = None  # findings in what other programs made of it, by their names
    opened: Opened | None = None  # in LibreOffice

    @property
    def whole(self) -> bool:
        return not (self.error or self.findings)


@dataclass(frozen=True, slots=True)
class DocumentResults:
    """A run over a corpus."""

    started_at: str
    git_commit: str | None
    machine: Machine
    server: dict[str, Any]
    files: tuple[FileResult, ...]
    partial: bool = False
    libreoffice: str = ""  # its version, if it opened the results


_FILES = TypeAdapter(CorpusFile)
DOCUMENTS = ResultsFile("documents", DocumentResults)


def read_corpus(path: Path) -> list[CorpusFile]:
    """Read a corpus. Raises ConfigError with the line that is none."""
    try:
        return [_FILES.validate_json(line) for line in read_text(path).splitlines() if line.strip()]
    except ValidationError as error:
        raise ConfigError(f"{path} is no list of files: {first_fault(error)}") from None


class DocumentEval:
    """Sends the files of a corpus to the server at `url`, `concurrency` at a time, each into its own target, from English.

    `rivals` are folders with what other programs made of the same files, which are judged alike: what dragoman leaves on
    purpose, they may leave, too. `office`: opens sources and results.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        folder: Path,
        rivals: Mapping[str, Path],
        office: LibreOffice | None = None,
    ) -> None:
        self._session = session
        self._url = url.rstrip("/")
        self._folder = folder
        self._office = office
        self._rivals = {name: {one.suffix: one.parent for one in path.iterdir()} for name, path in rivals.items()}

    async def run(
        self, corpus: Sequence[CorpusFile], concurrency: int, observer: Observer, interrupted: asyncio.Event
    ) -> DocumentResults:
        """Judge all files; those that are done, if it is interrupted. Raises ConfigError if the server cannot be reached."""
        observer.phase("files", len(corpus))
        started = datetime.now(UTC).isoformat(timespec="seconds")
        server = await self._json("GET", "/v1/stats")
        results: dict[int, FileResult] = {}
        pending = iter(enumerate(corpus))

        async def client() -> None:
            for index, file in pending:
                if interrupted.is_set():
                    return
                results[index] = await self.judged(file)
                failed = sum(not one.whole for one in results.values())
                observer.update(len(results), failed, min(concurrency, len(corpus) - len(results)))

        await asyncio.gather(*(client() for _ in range(concurrency)))
        named = {name: server.get(name) for name in ("version", "model", "pipeline", "device")}
        files = tuple(results[index] for index in sorted(results))
        version = self._office.version if self._office else ""
        partial = len(files) < len(corpus)
        return DocumentResults(started, git_commit(), describe_machine(), named, files, partial, version)

    async def judged(self, file: CorpusFile) -> FileResult:
        """Translate one file and judge what comes back."""
        data = await self._source(file)
        began = monotonic()
        try:
            state, result = await self._translated(file, data)
        except _Refused as refusal:
            return FileResult(file, len(data), error=str(refusal), took_s=round(monotonic() - began, 3))
        took_s = round(monotonic() - began, 3)
        left = [str(one.get("text", "")) for one in state.get("left", ())]
        findings = await asyncio.to_thread(packages.judge, file.format, data, result, left)
        opened = None
        if self._office is not None and file.format in libreoffice.FORMATS:
            opened = await asyncio.to_thread(self._office.compare, file.format, data, result, left)
        return FileResult(
            file,
            len(data),
            int(state["characters"]),
            int(state["segments"]),
            int(state.get("left_count", 0)),
            took_s,
            findings=findings[:20],
            rivals=await asyncio.to_thread(self._of_rivals, file, data, left),
            opened=opened,
        )

    def _of_rivals(self, file: CorpusFile, data: bytes, left: list[str]) -> dict[str, tuple[str, ...]]:
        """The findings in the results of the programs that read the file's format; without a result that is the finding."""
        found: dict[str, tuple[str, ...]] = {}
        for name, folders in self._rivals.items():
            folder = folders.get(Path(file.name).suffix)
            if folder is not None and file.format != "pdf":  # which others write as pdf
                result = folder / file.name
                there = result.is_file()
                found[name] = ("no result",)
                if there:
                    found[name] = packages.judge(file.format, data, result.read_bytes(), left, lenient=True)[:5]
        return found

    async def _source(self, file: CorpusFile) -> bytes:
        """The file, from the folder or from its repository. Raises ConfigError if it cannot be had as it was."""
        path = self._folder / file.name
        if path.is_file():
            data = await asyncio.to_thread(path.read_bytes)
        else:
            url = f"{_RAW}/{file.repo}/{file.commit}/{file.path}"
            try:
                async with self._session.get(url) as response:
                    response.raise_for_status()
                    data = await response.read()
            except aiohttp.ClientError as error:
                raise ConfigError(f"{path} is missing, and {url} cannot be fetched: {error}", param="files") from error
            await asyncio.to_thread(_store, path, data)
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise ConfigError(f"{path} is another file than {file.repo} {file.path}: delete it", param="files")
        return data

    async def _translated(self, file: CorpusFile, data: bytes) -> tuple[dict[str, Any], bytes]:
        form = aiohttp.FormData({"target": file.target, "source": "en"})
        form.add_field("file", data, filename=f"file.{file.name.rsplit('.')[-1]}")
        state = await self._json("POST", "/v1/documents", data=form)
        path = f"/v1/documents/{state['id']}"
        while state["state"] not in ("done", "error"):
            await asyncio.sleep(_POLL_S)
            state = await self._json("GET", path)
        if state["state"] == "error":
            raise _Refused(state["error"]["message"])
        async with self._session.get(f"{self._url}{path}/result") as response:
            result = await response.read()
            if response.status != 200:
                raise _Refused(f"{response.status} {result[:200].decode('utf-8', 'replace')}")
        async with self._session.delete(self._url + path):
            return state, result

    async def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """An answer's JSON. Raises `_Refused` for an error, and ConfigError where there is no server."""
        try:
            async with self._session.request(method, self._url + path, **options) as response:
                payload = await response.read()
        except aiohttp.ClientConnectorError as error:
            raise ConfigError(f"cannot reach {self._url}: {error}", param="url") from error
        if response.status >= 400:
            raise _Refused(f"{response.status} {payload[:300].decode('utf-8', 'replace')}")
        found: dict[str, Any] = json.loads(payload)
        return found


class _Refused(Exception):
    """The server's answer was an error."""


def _store(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


# ---- the page


def documents_table(results: DocumentResults) -> Table:
    """A row for each format: files, those that came back whole, characters, those that LibreOffice opens and shows alike, and
    what other programs made of the same files."""
    rivals = list(dict.fromkeys(name for one in results.files for name in one.rivals or ()))
    formats = list(dict.fromkeys(one.file.format for one in results.files))
    rows: list[list[str]] = []
    for name in (*formats, ""):
        files = [one for one in results.files if name in ("", one.file.format)]
        cells = [
            name or "all",
            str(len(files)),
            str(sum(one.whole for one in files)),
            f"{sum(one.characters for one in files):,}",
            f"{sum(one.segments for one in files):,}",
        ]
        if results.libreoffice:
            opened = [one.opened for one in files if one.opened and one.opened.source_pages]
            cells.append(f"{sum(not one.findings for one in opened)} of {len(opened)}" if opened else "–")
        for rival in rivals:
            read = [one.rivals[rival] for one in files if one.rivals and rival in one.rivals]
            cells.append(f"{sum(not findings for findings in read)} of {len(read)}" if read else "–")
        rows.append(cells)
    office = ("in LibreOffice",) if results.libreoffice else ()
    return table("", ("format", "files", "whole", "characters", "segments", *office, *rivals), rows)


def _of_libreoffice(results: DocumentResults) -> list[str]:
    opened = [one.opened for one in results.files if one.opened]
    sources = [one for one in opened if one.source_pages]
    return [
        f"{results.libreoffice} opens {len(sources)} of {len(opened)} sources, and the translations of "
        f"{sum(one.pages > 0 for one in sources)} of these, "
        f"{sum(one.pages == one.source_pages for one in sources)} with as many pages."
    ] * bool(opened)


def write_page(page: Path, results: DocumentResults) -> None:
    """Put the results between the marks of the page. Raises ConfigError if it has none."""
    failures = [one for one in results.files if not one.whole]
    lines = [
        f"{len(results.files)} files, {results.started_at[:10]}, on {results.machine.cpu}; pipeline "
        f"{results.server.get('pipeline')}.",
        *_of_libreoffice(results),
        "",
        markdown(documents_table(results)),
        "",
        "Not whole:" if failures else "All files came back whole.",
        "",
        *(
            f"- `{one.file.repo}` {escaped(one.file.path)}: {escaped(one.error or '; '.join(one.findings[:2]))}"
            for one in failures
        ),
    ]
    shown = [(one.file, one.opened.findings) for one in results.files if one.opened and one.opened.findings]
    if shown:
        lines += ["", "Not alike in LibreOffice:", ""]
        lines += [f"- `{file.repo}` {escaped(file.path)}: {escaped('; '.join(found[:2]))}" for file, found in shown]
    write_text(page, with_part(read_text(page, "page"), "results", "\n".join(lines).strip()), "page")
