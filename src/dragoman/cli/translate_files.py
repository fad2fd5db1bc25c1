"""`dragoman translate-files`: translates documents, with a server or with an engine of its own.

Both go through `/v1/documents`: without `--url` a server is started on a free port of this machine, with one engine and a
folder that is deleted at the end. Exit codes: 0, all files have a result; 1, some have none; 2, the command line is wrong and
nothing was done; 130, interrupted: results that were finished are there.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Any, cast, get_args
from urllib.parse import quote

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from dragoman import languages
from dragoman.cli.client import Server, Unreachable
from dragoman.cli.console import console, error_console, steady_error_console
from dragoman.cli.options import settings_options
from dragoman.cli.translate import unrecorded
from dragoman.errors import ConfigError, DragomanError, QueueFull, Unavailable
from dragoman.settings import Loaded, Settings
from dragoman.telemetry.logs import configure_logging
from dragoman.types import Formality
from wholetext.markup.dialects import DIALECTS

AT_ONCE = 4
"""Files that are in the server's hands at the same time."""
PATIENCE_S = 120.0
"""How long a server may not answer while it has a document: it goes on with it when it was started again."""
LARGE_BYTES = 30_000_000
"""From which size on a server may refuse a file for it."""
MOST_SHOWN = 20
"""Doubtful segments of one file that are listed."""


@dataclass(frozen=True, slots=True)
class Errand:
    """A file to translate and where the result goes."""

    source: Path
    result: Path


@dataclass(slots=True)
class Outcome:
    """What came of a file: `document` as the API shows it, with its first doubtful segments; or the error."""

    errand: Errand
    document: dict[str, Any] | None = None
    doubtful: Sequence[dict[str, Any]] = ()
    error: str = ""


# ---- the command line


def errands(files: Sequence[Path], target: str, out: Path | None, format: str | None) -> list[Errand]:
    """Return each file with its result: in the folder `out` with the same name, or beside it with the language in the name.

    A file that is the result of another one beside it, of an earlier run with the same pattern, is left out. Raises
    `UnsupportedLanguage`, and `ConfigError` for what is no file, and for a result that is a source or another file's result.
    """

    def result_of(file: Path) -> Path:
        suffix = f".{format.lower().lstrip('.')}" if format else file.suffix
        return out / f"{file.stem}{suffix}" if out else file.with_name(f"{file.stem}.{target}{suffix}")

    for file in files:
        if not file.is_file():
            raise ConfigError(f"{file} is not a file")
    languages.normalise(target)  # it is in names of files
    found: dict[Path, Errand] = {}
    made: set[Path] = set() if out else {result_of(file).resolve() for file in files}
    files = [file for file in dict.fromkeys(files) if file.resolve() not in made]
    sources = {file.resolve() for file in files}
    for file in files:
        result = result_of(file)
        place = result.resolve()
        if place in sources:
            raise ConfigError(
                f"the translation of {file} would be written over a source: give another folder with --out"
            )
        if place in found:
            raise ConfigError(f"{found[place].source} and {file} would both be translated to {result}")
        found[place] = Errand(file, result)
    return list(found.values())


def _glossary(given: str | None) -> str:
    """What the form has: a stored glossary's name, or the entries of a file (.tsv, .csv) as JSON. Raises `ConfigError`."""
    if not given or not given.lower().endswith((".tsv", ".csv")):
        return given or ""
    from dragoman.api.glossaries import parse_csv, parse_tsv

    try:
        text = Path(given).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{given} cannot be read as UTF-8 text: {error}") from None
    return json.dumps((parse_csv if given.lower().endswith(".csv") else parse_tsv)(text))


def _several(value: object) -> tuple[object, ...]:
    """The values of an option, which is a tuple where it may be repeated."""
    return cast(tuple[object, ...], value) if isinstance(value, tuple) else (value,)


@click.command("translate-files")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
@click.option("--to", "target", required=True, metavar="TAG", help="Language to translate into.")
@click.option("--from", "source", metavar="TAG", help="The files' language; detected for each when absent.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the results, under the files' names; absent: beside each file, as NAME.TAG.EXTENSION.",
)
@click.option("--overwrite", is_flag=True, help="Translate again what has a result already.")
@click.option(
    "--format", metavar="EXTENSION", help="Format of the results where it can differ, such as docx for a pdf."
)
@click.option("--glossary", metavar="FILE|NAME", help="Terms: a .tsv or .csv file, or a glossary stored on the server.")
@click.option("--formality", type=click.Choice(get_args(Formality)), help="Where the model's profile can express it.")
@click.option("--context", metavar="TEXT", help="Said about the files: informs the translation, is not translated.")
@click.option("--instruction", "instructions", multiple=True, metavar="TEXT", help="To the model; may be repeated.")
@click.option("--keep", multiple=True, metavar="TERM", help="A term that is not translated; may be repeated.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME|NUMBER",
    help="csv, tsv: a column to translate; may be repeated.",
)
@click.option("--dialect", type=click.Choice(DIALECTS), help="Of Markdown files; guessed when absent.")
@click.option("--comments", is_flag=True, help="Translate reviewers' comments too.")
@click.option("--url", help="A running dragoman server; absent: start an engine for these files.")
@settings_options("model", "engine")
def command(
    loaded: Loaded,
    files: tuple[Path, ...],
    target: str,
    out: Path | None,
    url: str | None,
    *,
    overwrite: bool,
    format: str | None,
    glossary: str | None,
    **more: Any,
) -> None:
    """Translate documents. Each comes back as the same file in another language; no source is changed."""
    all_errands = errands(files, target, out, format)
    given: dict[str, Any] = {"target": target, "glossary": _glossary(glossary), "output_format": format, **more}
    fields = [(name, str(one)) for name, value in given.items() for one in _several(value) if one]
    to_do = [one for one in all_errands if overwrite or not one.result.exists()]
    for errand in all_errands:
        if errand not in to_do:
            error_console.print(
                f"{errand.result} exists: {errand.source} is left out (--overwrite translates it again)"
            )
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    try:
        if not to_do:
            pass
        elif url:
            _Run(Server(url), fields, outcomes).translate(to_do)
        else:
            steady = steady_error_console()
            configure_logging("warning", "human", steady)
            asyncio.run(_with_own_engine(loaded.settings, fields, to_do, outcomes, steady))
    finally:
        for outcome in sorted(outcomes, key=lambda one: all_errands.index(one.errand)):
            _report(outcome)
    if len(outcomes) < len(to_do) or any(one.error for one in outcomes):
        sys.exit(1)


async def _with_own_engine(
    settings: Settings,
    fields: Sequence[tuple[str, str]],
    to_do: Sequence[Errand],
    outcomes: list[Outcome],
    steady: Console,
) -> None:
    from dragoman.api.app import create_app  # a second, which a server's client need not wait
    from dragoman.api.server import listen, url_of
    from dragoman.api.transport import HttpServer, http_config
    from dragoman.service.service import TranslationService

    with tempfile.TemporaryDirectory(prefix="dragoman-") as folder:
        own = replace(
            unrecorded(settings),
            storage=replace(settings.storage, url=f"sqlite:///{folder}/dragoman.db"),
            documents=replace(settings.documents, folder=f"{folder}/documents"),
            server=replace(settings.server, host="127.0.0.1", root_path=""),
        )
        service = TranslationService.from_settings(own)
        listener = listen("127.0.0.1", 0)
        run = _Run(Server(url_of(listener)), fields, outcomes, steady)
        serving: asyncio.Task[None] | None = None
        server = HttpServer(http_config(create_app(service), own.server))
        try:
            with steady.status("starting an engine (a running server answers faster: see --url)"):
                await service.start()
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            await asyncio.to_thread(run.translate, to_do)
        finally:
            run.stop.set()
            server.should_exit = True
            if serving is not None:
                await serving
            await service.stop()


# ---- files through a server


class _Run:
    """The translation of some files through a server. `fields`: of the form, besides the file. `outcomes` has each as it is
    finished; `stop` ends it early."""

    def __init__(
        self, server: Server, fields: Sequence[tuple[str, str]], outcomes: list[Outcome], on: Console = error_console
    ) -> None:
        self.stop = threading.Event()
        self._server = server
        self._fields = fields
        self._outcomes = outcomes
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[characters]}"),
            TimeRemainingColumn(),
            console=on,
            transient=True,
            disable=not on.is_terminal,
        )

    def translate(self, to_do: Sequence[Errand]) -> None:
        """Translate files, several at once. Blocks until all are done; an interrupt lets none begin, and deletes what runs."""
        with self._progress, ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                for future in [pool.submit(self._one, errand) for errand in to_do]:
                    future.result()
            except BaseException:
                self.stop.set()
                raise

    def _one(self, errand: Errand) -> None:
        """Translate a file, and note what came of it unless it was stopped."""
        if self.stop.is_set():
            return
        bar = self._progress.add_task(errand.source.name, total=None, characters="")
        try:
            outcome = self._through_server(errand, bar)
        except DragomanError as error:
            outcome = Outcome(errand, error=error.message)
        except OSError as error:
            outcome = Outcome(errand, error=f"{error.filename or errand.source}: {error.strerror}")
        finally:
            self._progress.remove_task(bar)
        if outcome is not None:
            self._outcomes.append(outcome)

    def _through_server(self, errand: Errand, bar: TaskID) -> Outcome | None:
        """Upload a file, wait, and write its result; the server's copy is deleted. None: it was stopped."""
        form, content_type = _form(self._fields, errand.source)
        try:
            document = self._patiently("POST", "/v1/documents", form, content_type)
        except Unreachable as error:  # a server that refuses a body may close the connection before it was sent
            if len(form) < LARGE_BYTES:
                raise
            message = f"{error.message}; it may accept no file of {len(form):,} bytes (documents.max_bytes)"
            raise Unreachable(message) from None
        path = f"/v1/documents/{document['id']}" if document else ""
        pause_s = 0.1
        try:
            while document and document["state"] not in ("done", "error"):
                if total := document["characters"]:
                    done = document["characters_done"]
                    characters = f"{done:,} of {total:,} characters"
                    self._progress.update(bar, completed=done, total=total, characters=characters)
                self.stop.wait(pause_s)
                pause_s = min(1.5 * pause_s, 2.0)
                document = self._patiently("GET", path)
            if document is None:
                return None
            if document["error"]:
                return Outcome(errand, document, error=document["error"]["message"])
            result = self._server.call("GET", f"{path}/result")
            doubtful = self._server.json("GET", f"{path}/segments?doubtful=true&limit={MOST_SHOWN}")["segments"]
            _write(errand.result, result)
            return Outcome(errand, document, doubtful)
        finally:
            if path:
                with suppress(DragomanError):
                    self._server.call("DELETE", path)

    def _patiently(self, method: str, path: str, body: bytes | None = None, content_type: str = "") -> Any:
        """The JSON of an answer, also of a server that is full, or that does not answer for a time. None: stopped."""
        until_s = monotonic() + PATIENCE_S
        while not self.stop.is_set():
            try:
                return json.loads(self._server.call(method, path, body, content_type))
            except QueueFull as full:
                self.stop.wait(min(full.retry_after_s, 30.0))
            except (Unreachable, Unavailable):
                if method == "POST" or monotonic() > until_s:
                    raise
                self.stop.wait(1.0)
        return None


def _form(fields: Sequence[tuple[str, str]], file: Path) -> tuple[bytes, str]:
    """A form with the fields and the file, and its type."""
    boundary = token_hex(16)
    name = quote(file.name, safe="")
    heads = [
        *(f'--{boundary}\r\nContent-Disposition: form-data; name="{one}"\r\n\r\n{value}\r\n' for one, value in fields),
        f"--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename*=UTF-8''{name}\r\n\r\n",
    ]
    return b"".join([*map(str.encode, heads), file.read_bytes(), f"\r\n--{boundary}--\r\n".encode()]), (
        f"multipart/form-data; boundary={boundary}"
    )


def _write(path: Path, content: bytes) -> None:
    """Write a file that is whole when it is there."""
    temporary = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


# ---- the report


def _report(outcome: Outcome) -> None:
    """Print what came of a file: an error, or the result with what was left as it was and what is doubtful."""
    errand, document = outcome.errand, outcome.document
    if document is None or outcome.error:
        error_console.print(f"{errand.source}: {outcome.error}", style="red", highlight=False, soft_wrap=True)
        return
    counted = (
        f"{document['characters']:,} characters, {document['segments']:,} segments, {document['doubtful']:,} doubtful"
    )
    lines = [f"{errand.source} → {errand.result}: {document['source']} to {document['target']}, {counted}"]
    reasons = Counter(one["reason"] for one in document["left"])
    if reasons:
        left = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
        more = f" and {document['left_count'] - len(document['left'])} more" * (
            document["left_count"] > len(document["left"])
        )
        lines.append(f"  not translated on purpose: {left}{more}")
    lines += [f"  note: {': '.join(filter(None, (one['place'], one['message'])))}" for one in document["warnings"]]
    for segment in outcome.doubtful:
        reason = "; ".join(one["message"] for one in segment["warnings"]) or f"confidence {segment['confidence']}"
        lines.append(f"  doubtful: {segment['place'] or segment['n'] + 1}: {_short(segment['source'])} ({reason})")
    if document["doubtful"] > len(outcome.doubtful):
        lines.append(f"  and {document['doubtful'] - len(outcome.doubtful):,} doubtful segments more")
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59]}…"
