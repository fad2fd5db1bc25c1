"""Documents go through OmegaT: their XLIFF export is a project's source, some segments are edited, the files come back.

    python -m tests.clients.omegat        # apt-get install omegat; writes the table of docs/page.md

Ends with an error where a segment, or what is known of its export, is lost, or others than the edited ones are changed. The
server has the `fake` engine.
OmegaT runs without windows: it is given its own translation memory (`project_save.tmx`), where the editor stores what is typed.
"""

from __future__ import annotations

import asyncio
import html
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import docx
import httpx

from tests.browser import tables
from tests.processes import ROOT, ServerProcess

PROFILE = ROOT / "src/dragoman_bench/eval/any_language.toml"
LINES = 2_000
EDITED = re.compile(r"[ⓐ-ⓩ]{3,}")  # the fake engine circles letters
EDIT_EVERY = 2
TMX = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.1"><header creationtool="OmegaT" creationtoolversion="3.6" '
    'segtype="sentence" o-tmf="OmegaT TMX" adminlang="EN-US" srclang="en" datatype="plaintext"/><body>{}</body></tmx>'
)
PROJECT = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<omegat><project version="1.0">{}<source_lang>en</source_lang>'
    "<target_lang>{}</target_lang><sentence_seg>true</sentence_seg>"
    "<support_default_translations>true</support_default_translations></project></omegat>"
)
FOLDERS = ("source_dir", "target_dir", "tm_dir", "glossary_dir", "glossary_file", "dictionary_dir")


def word_file() -> bytes:
    document = docx.Document()
    document.add_heading("The annual report", 0)
    paragraph = document.add_paragraph("This is ")
    paragraph.add_run("very bold").bold = True
    paragraph.add_run(" and ")
    paragraph.add_run("slanted").italic = True
    paragraph.add_run(" text & more.")
    document.add_paragraph("First line").add_run("\nsecond line")
    document.add_paragraph("First sentence. Second sentence? Third one!")
    written = BytesIO()
    document.save(written)
    return written.getvalue()


DOCUMENTS: tuple[tuple[str, str, bytes], ...] = (
    ("report.docx", "de", word_file()),
    (
        "letter.md",
        "ar",  # written from right to left
        "# Title **bold**\n\nSee [the *link* text](https://example.com) and `code`.\n\nBroken\\\nby 😀 and é.\n\n"
        "Take {name} and %s now.\n\n- first thing\n- second thing\n".encode(),
    ),
    (
        "page.html",
        "he",
        b"<p>One <b>two <i>three</i></b> four<br>five &amp; six &lt;b&gt;</p><p><img src=a alt='A picture'> beside</p>",
    ),
    (
        "messages.po",
        "pl",  # of three plural forms and more
        b'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "%d file there"\n'
        b'msgid_plural "%d files there"\nmsgstr[0] ""\nmsgstr[1] ""\n\nmsgid "<b>Save</b> {name}"\nmsgstr ""\n',
    ),
    ("long.txt", "ja", "\n\n".join(f"Number {n} of the long file." for n in range(LINES)).encode()),
)


class Project:
    """An OmegaT project of one file in a folder."""

    def __init__(self, folder: Path, target: str) -> None:
        self.folder = folder
        self.target = target
        for name in ("source", "target", "omegat", "tm", "glossary", "dictionary"):
            (folder / name).mkdir(parents=True)
        folders = "".join(f"<{name}>__DEFAULT__</{name}>" for name in FOLDERS)
        (folder / "omegat.project").write_text(PROJECT.format(folders, target))

    def run(self, mode: str, *flags: str) -> None:
        shown = (f"--config-dir={self.folder}/settings", "--disable-project-locking")
        subprocess.run(["omegat", str(self.folder), f"--mode={mode}", *flags, *shown], check=True, capture_output=True)

    def segments(self) -> list[str]:
        """The texts that OmegaT offers to translate."""
        listed = self.folder / "listed.tmx"
        self.run("console-createpseudotranslatetmx", f"--pseudotranslatetmx={listed}", "--pseudotranslatetype=equal")
        return [html.unescape(one) for one in re.findall(r"<seg>(.*?)</seg>", listed.read_text(), re.DOTALL)[::2]]

    def translate(self, edits: dict[str, str]) -> None:
        """Write the target files, with these texts translated and the others left alone."""

        def pair(*texts: str) -> str:
            written = zip(("en", self.target), texts, strict=True)
            return "".join(f'<tuv lang="{tag}"><seg>{escape(text)}</seg></tuv>' for tag, text in written)

        units = "".join(f"<tu>{pair(*edit)}</tu>" for edit in edits.items())
        (self.folder / "omegat/project_save.tmx").write_text(TMX.format(units))
        self.run("console-translate")


@contextmanager
def serving() -> Generator[httpx.Client]:
    with tempfile.TemporaryDirectory() as folder:
        flags = ("--pipeline=fake", f"--profile-file={PROFILE}", f"--documents-folder={folder}/documents")
        with ServerProcess(Path(folder), *flags) as process:
            yield httpx.Client(base_url=f"{asyncio.run(process.listening())}/v1", timeout=60)


def translated(client: httpx.Client, name: str, target: str, data: bytes) -> str:
    """The id of a document, once it is done."""
    form = {"source": "en", "target": target}
    document = client.post("/documents", data=form, files={"file": (name, data)}).raise_for_status().json()
    while document["state"] in ("queued", "translating"):
        time.sleep(0.1)
        document = client.get(f"/documents/{document['id']}").json()
    assert document["state"] == "done", document
    return document["id"]


def rows(client: httpx.Client, id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while page := client.get(f"/documents/{id}/segments", params={"offset": len(found), "limit": 1000}).json()[
        "segments"
    ]:
        found += page
    return found


def round_trip(client: httpx.Client, folder: Path, name: str, target: str, data: bytes) -> list[str]:
    """The cells of a line of the table."""
    id = translated(client, name, target, data)
    before = rows(client, id)
    project = Project(folder / name, target)
    file = project.folder / "source" / f"{name}.xlf"
    file.write_bytes(client.get(f"/documents/{id}/result", params={"format": "xliff"}).content)
    offered = [one for one in project.segments() if EDITED.search(one)]
    edits = {one: EDITED.sub("Edited &", one, count=1) for one in offered[::EDIT_EVERY]}
    project.translate(edits)
    back = (project.folder / "target" / file.name).read_bytes()
    assert back.count(b' extradata="') == len(before), "OmegaT has dropped what is known of the export"
    taken = client.post(f"/documents/{id}/xliff", content=back).raise_for_status().json()
    after = rows(client, id)
    changed = [new["n"] for old, new in zip(before, after, strict=True) if old["translation"] != new["translation"]]
    edited = [one["n"] for one in after if "Edited &" in one["translation"]]
    marked = sum("<g" in one["source"] or "<x" in one["source"] for one in after)
    assert taken["segments"] == len(before) and taken["refused_count"] == 0, taken
    assert changed == edited and taken["changed_count"] == len(changed) and edited, (changed, edited, taken)
    assert taken["changed"] == changed[: len(taken["changed"])]
    return [f"{name}, to {target}", *(f"{one:,}" for one in (len(before), marked, len(edits), len(changed), 0))]


def main() -> None:
    if shutil.which("omegat") is None:
        raise SystemExit("there is no omegat: apt-get install omegat")
    version = subprocess.run(["omegat", "--help"], capture_output=True, text=True).stdout
    with serving() as client, tempfile.TemporaryDirectory() as folder:
        lines = [tables.line(round_trip(client, Path(folder), *one)) for one in DOCUMENTS]
    head = ("document", "segments", "with marks", "edited in OmegaT", "changed here", "refused")
    name = version.splitlines()[0].partition("_unknown")[0]
    note = f"{name}, without its windows. It edits sentences: two may be of one segment."
    tables.write("omegat", head, lines, note)
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
