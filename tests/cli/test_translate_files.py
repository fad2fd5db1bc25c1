"""`dragoman translate-files` as a process, through a server over the fake pipeline and with an engine of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from dragoman.cli import translate_files
from dragoman.cli.client import KEY_VARIABLE, Server
from dragoman.cli.translate_files import Errand, Outcome, errands
from dragoman.errors import ConfigError, UnsupportedLanguage
from tests.processes import DRAGOMAN, ROOT, ServerProcess, serving
from tests.waiting import HANG_S, until

pytestmark = pytest.mark.acceptance  # each test starts the command as a process, and most a server too

TEXT = "Where is the train station?\n\nOver there.\n"
TRANSLATED = "Wⓐⓧⓚⓧ ⓑⓛ ⓜⓐⓧ ⓜⓚⓣⓑⓖ ⓛⓜⓣⓜⓑⓗⓖ?\n\nOⓞⓧⓚ ⓜⓐⓧⓚⓧ.\n"


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "NO_PROXY": "127.0.0.1"}
    command = [*DRAGOMAN, "translate-files", "--to", "ja", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@dataclass
class Ended:
    code: int
    report: str
    errors: str


async def ended(process: subprocess.Popen[str]) -> Ended:
    report, errors = await asyncio.to_thread(process.communicate, timeout=HANG_S)
    return Ended(process.returncode, report, errors)


async def run(folder: Path, *arguments: str) -> Ended:
    return await ended(started(folder, *arguments))


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerProcess]:
    async with serving(tmp_path_factory.mktemp("server")) as found:
        yield found


async def test_files_come_back_beside_their_sources_or_in_a_folder(server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "é b.MD").write_text("# Good *morning*\n")
    beside = await run(tmp_path, "a.txt", "é b.MD", "--url", server.url)
    assert beside.code == 0, beside.errors
    assert (tmp_path / "a.ja.txt").read_text() == TRANSLATED
    assert (tmp_path / "é b.ja.MD").read_text() == "# Gⓗⓗⓦ *ⓕⓗⓚⓖⓑⓖⓩ*\n"
    assert "a.txt → a.ja.txt: en to ja, 38 characters, 2 segments, 0 doubtful" in beside.report
    (tmp_path / "terms.tsv").write_text("station\tbahnhof\n")
    options = ("--from", "en", "--out", "out/deep", "--glossary", "terms.tsv", "--url", server.url)
    in_folder = await run(tmp_path, "a.txt", *options)
    assert (in_folder.code, "bahnhof" in (tmp_path / "out/deep/a.txt").read_text()) == (0, True)
    assert (tmp_path / "a.txt").read_text() == TEXT
    assert {one.name for one in (tmp_path / "out/deep").iterdir()} == {"a.txt"}
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=HANG_S) as client:
        assert (await client.get("/v1/documents")).json() == {"documents": []}


async def test_the_options_of_the_api(server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text,note\nA1,Open the door,Open the door\n")
    options = ("--column", "text", "--keep", "door", "--context", "A house.", "--instruction", "Be brief.")
    found = await run(tmp_path, "a.csv", *options, "--url", server.url)
    assert found.code == 0, found.errors
    [_, row] = (tmp_path / "a.ja.csv").read_text().splitlines()
    number, text, note = row.split(",")
    assert (number, note) == ("A1", "Open the door")
    assert "door" in text and "Open" not in text
    assert (
        "instructions" in found.report and "context" in found.report
    )  # which the packaged model's profile cannot express
    assert (await run(tmp_path, "a.csv", "--column", "nothing", "--overwrite", "--url", server.url)).code == 1


async def test_what_fails_or_exists_leaves_the_rest(server: ServerProcess, tmp_path: Path) -> None:
    for name, text in {"a.txt": TEXT, "b.xyz": TEXT, "c.txt": "", "d.txt": TEXT, "d.ja.txt": "mine"}.items():
        (tmp_path / name).write_text(text)
    files = ("a.txt", "b.xyz", "c.txt", "d.txt")
    some = await run(tmp_path, *files, "--url", server.url)
    assert some.code == 1
    assert (tmp_path / "a.ja.txt").read_text() == TRANSLATED
    assert (tmp_path / "d.ja.txt").read_text() == "mine"
    assert [line.partition(":")[0] for line in some.errors.splitlines()] == ["d.ja.txt exists", "b.xyz", "c.txt"]
    all_there = await run(tmp_path, "a.txt", "d.txt", "--url", server.url)
    assert (all_there.code, len(all_there.errors.splitlines())) == (0, 2)
    again = await run(tmp_path, "d.txt", "--overwrite", "--url", server.url)
    assert (again.code, (tmp_path / "d.ja.txt").read_text()) == (0, TRANSLATED)


async def test_a_wrong_command_line_is_2_and_nothing_is_done(server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    for arguments in (
        ("no.txt", "a.txt"),
        ("a.txt", "--out", "."),
        ("a.txt", "--glossary", "no.csv"),
        ("a.txt", "--formality", "x"),
        (),
    ):
        refused = await run(tmp_path, *arguments, "--url", server.url)
        assert (refused.code, refused.report) == (2, "")
    assert {one.name for one in tmp_path.iterdir()} == {"a.txt"}
    assert (await run(tmp_path, "a.txt", "--url", "http://127.0.0.1:9")).code == 1


async def test_an_interrupt_leaves_what_is_done(tmp_path: Path) -> None:
    async with serving(tmp_path, "--fake-step-ms=200") as server:
        (tmp_path / "short.txt").write_text("Hello.\n")
        (tmp_path / "long.txt").write_text(
            "".join(f"Where is the train station number {n}?\n\n" for n in range(15_000))
        )
        process = started(tmp_path, "long.txt", "short.txt", "--url", server.url)
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=HANG_S) as client:
            await until((tmp_path / "short.ja.txt").exists, "the short file")
            process.send_signal(signal.SIGINT)
            interrupted = await ended(process)
            assert interrupted.code == 130
            assert "short.txt → short.ja.txt" in interrupted.report
            left = {one.name for one in tmp_path.iterdir() if "ja" in one.name}
            assert left == {"short.ja.txt"}
            assert (await client.get("/v1/documents")).json() == {"documents": []}


async def test_without_a_server_an_engine_is_started_for_the_files(tmp_path: Path) -> None:
    (tmp_path / "dragoman.toml").write_text('[pipeline]\nname = "fake"\n')
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(TEXT)
    found = await run(tmp_path, "a.txt", "b.txt")
    assert found.code == 0, found.errors
    assert (tmp_path / "a.ja.txt").read_text() == (tmp_path / "b.ja.txt").read_text() == TRANSLATED
    assert not (tmp_path / ".dragoman" / "documents").exists()


@pytest.mark.parametrize(
    ("files", "out", "format", "results"),
    [
        (("a.txt", "x/b.docx"), None, None, ["a.ja.txt", "x/b.ja.docx"]),
        (("a.txt", "x/b.docx"), "out", None, ["out/a.txt", "out/b.docx"]),
        (("a.txt", "./a.txt"), None, None, ["a.ja.txt"]),
        (("x/c.pdf",), None, ".DOCX", ["x/c.ja.docx"]),
        (("a.ja.txt", "a.txt", "x/a.txt"), None, None, ["a.ja.txt", "x/a.ja.txt"]),
        (("a.txt", "x/a.txt"), "out", None, None),
        (("x/a.txt",), "x", None, None),
        (("a.txt", "x/a.txt"), ".", None, None),
        (("x",), None, None, None),
    ],
)
def test_where_results_go(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: tuple[str, ...],
    out: str | None,
    format: str | None,
    results: list[str] | None,
) -> None:
    """None: there is a result in the place of a source or of another result."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    for name in ("a.txt", "a.ja.txt", "x/a.txt", "x/b.docx", "x/c.pdf"):
        (tmp_path / name).touch()
    sources = [Path(one) for one in files]
    if results is None:
        with pytest.raises(ConfigError):
            errands(sources, "ja", Path(out) if out else None, format)
    else:
        found = errands(sources, "ja", Path(out) if out else None, format)
        assert [str(one.result) for one in found] == results


class Refusing(BaseHTTPRequestHandler):
    """A server that needs a key, and one that closes the connection during a large body."""

    def do_POST(self) -> None:
        if int(self.headers["Content-Length"]) < 1_000:
            body = b'{"error": {"message": "a key is needed"}}'
            self.send_response(401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_what_a_refusal_asks_for_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translate_files, "LARGE_BYTES", 5_000_000)
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    outcomes: list[Outcome] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever).start()
        for size in (9, 9_000_000):
            (tmp_path / "a.txt").write_bytes(b"x" * size)
            run = translate_files._Run(Server(f"http://127.0.0.1:{server.server_port}"), [], outcomes)
            run.translate([Errand(tmp_path / "a.txt", tmp_path / "b.txt")])
        server.shutdown()
    assert KEY_VARIABLE in outcomes[0].error
    assert "documents.max_bytes" in outcomes[1].error


@pytest.mark.parametrize("target", ["../x", "", "qq/zz", "a" * 300])
def test_what_is_no_language_is_in_no_name_of_a_file(tmp_path: Path, target: str) -> None:
    (tmp_path / "a.txt").touch()
    with pytest.raises(UnsupportedLanguage):
        errands([tmp_path / "a.txt"], target, None, None)


async def test_an_address_needs_no_scheme_and_another_scheme_is_refused(server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    found = await run(tmp_path, "a.txt", "--url", server.url.removeprefix("http://"))
    assert found.code == 0, found.errors
    for url in ("ftp://127.0.0.1:1", "file:///etc/passwd"):
        with pytest.raises(ConfigError, match="http://"):
            Server(url)
    assert Server("example.org:8000/mt/").url == "http://example.org:8000/mt"
    assert Server("HTTPS://example.org").url == "HTTPS://example.org"
