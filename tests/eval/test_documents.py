"""The judge of translated files: it finds each kind of damage, and nothing in a file that is whole."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.bench.measurement import describe_machine
from dragoman_bench.eval import packages
from dragoman_bench.eval.documents import (
    CORPUS,
    CorpusFile,
    DocumentResults,
    FileResult,
    documents_table,
    read_corpus,
    write_page,
)
from dragoman_bench.eval.libreoffice import Opened, compared

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
BODY = '<w:p w:id="1"><w:r><w:t>Good morning, all.</w:t></w:r><w:r><w:instrText> PAGE </w:instrText></w:r></w:p>'


def circled(text: str) -> str:
    return "".join(chr(0x24D0 + ord(c) % 26) if c.isalpha() else c for c in text)


def package(body: str, **others: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("word/document.xml", f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>')
        for name, data in others.items():
            made.writestr(name, data)
    return out.getvalue()


TRANSLATED = BODY.replace("Good morning, all.", circled("Good morning, all."))


@pytest.mark.parametrize(
    ("result", "found"),
    [
        (package(TRANSLATED, image=b"1"), ""),
        (package(BODY, image=b"1"), "not translated"),
        (package(TRANSLATED.replace(",", ""), image=b"1"), "became"),
        (package(TRANSLATED.replace("PAGE", "SEITE"), image=b"1"), "instrText"),
        (package(TRANSLATED.replace('w:id="1"', 'w:id="2"'), image=b"1"), "p@id"),
        (package(TRANSLATED + "<w:tbl/>", image=b"1"), "elements"),
        (package(TRANSLATED.replace("</w:p>", ""), image=b"1"), "well-formed"),
        (package(TRANSLATED, image=b"2"), "other bytes"),
        (package(TRANSLATED), "entries differ"),
        (b"nothing", "not a ZIP"),
    ],
)
def test_damage_to_a_package_is_found(result: bytes, found: str) -> None:
    findings = [item for item in packages.judge("odp", package(BODY, image=b"1"), result, []) if "odf" not in item]
    assert bool(findings) is bool(found)
    assert found in " ".join(findings)


def test_what_is_reported_as_left_need_not_be_translated() -> None:
    source = package(BODY)
    assert packages.judge("docm", source, source, ["Good morning, all."]) == ()


@pytest.mark.parametrize(
    ("format", "source", "result", "whole"),
    [
        ("json", '{"a": "Open file", "n": 1}', json.dumps({"a": circled("Open file"), "n": 1}), True),
        ("json", '{"a": "Open file", "n": 1}', '{"a": "Open file", "n": 1}', False),
        ("json", '{"a": "Open {name}"}', json.dumps({"a": circled("Open ") + "{name}"}), True),
        ("json", '{"a": "Open file"}', json.dumps({"b": circled("Open file")}), False),
        ("csv", "id,name\n1,Red car\n", f"id,name\n1,{circled('Red car')}\n", True),
        ("csv", "id,name\n1,Red car\n", f"id,name\n1,{circled('Red car')},\n", False),
        ("tsv", 'say "a"\t[{"a": "b, c"}]\n', circled('say "a"') + '\t[{"a": "b, c"}]\n', True),
        ("tsv", "one, two\tred\n", "one, two\tred\n", False),
        ("md", "Some text\n\n```\ncode here\n```\n", circled("Some text") + "\n\n```\ncode here\n```\n", True),
        ("md", "Some text\n\n```\ncode here\n```\n", circled("Some text\n\n```\ncode here\n```\n"), False),
        ("txt", "one line\n", circled("one\nline\n"), False),
        ("html", '<p lang="en">A dog</p>', f'<p lang="de">{circled("A dog")}</p>', True),
        ("html", '<p class="a">A dog</p>', f'<p class="abc">{circled("A dog")}</p>', False),
    ],
)
def test_texts_are_compared_by_format(format: str, source: str, result: str, whole: bool) -> None:
    assert (packages.judge(format, source.encode(), result.encode(), []) == ()) is whole


PAGE = "Good morning, all of you. See https://example.com/one/two/three/four"


@pytest.mark.parametrize(
    ("source", "result", "found"),
    [
        ((2, PAGE), (3, circled(PAGE)), ""),
        ((2, PAGE), (2, circled("Good ") + PAGE[5:]), "not translated"),
        ((2, PAGE), (0, ""), "source only"),
        ((0, ""), (1, circled(PAGE)), "result only"),
        ((0, ""), (0, ""), ""),
        ((2, PAGE), (1, circled(PAGE)), "pages"),
        ((2, PAGE), (5, circled(PAGE)), "pages"),
        ((2, PAGE), (2, circled(PAGE[:20])), "letters"),
    ],
)
def test_what_libreoffice_shows_is_compared(source: tuple[int, str], result: tuple[int, str], found: str) -> None:
    opened = compared(source, result, [])
    assert (opened.source_pages, opened.pages) == (source[0], result[0])
    assert bool(opened.findings) is bool(found)
    assert found in " ".join(opened.findings)
    assert not any("translated" in one for one in compared(source, result, [PAGE]).findings)


def test_the_corpus_names_public_files_once_and_by_commit() -> None:
    files = read_corpus(CORPUS)
    assert len(files) >= 120
    assert len({file.name for file in files}) == len(files)
    assert all(len(file.commit) == 40 and file.repo.count("/") == 1 for file in files)


def test_a_page_gets_the_results_between_its_marks(tmp_path: Path) -> None:
    file = CorpusFile("owner/name", "c" * 40, "a.docx", "0" * 64, "docx")
    rows = (
        FileResult(file, 10, 5, 1, opened=Opened(2, 5, ("2 pages became 5",))),
        FileResult(file, 10, findings=("word/document.xml: lost",), rivals={"Other": ()}),
    )
    results = DocumentResults(
        "2026-11-24T00:00:00+00:00", None, describe_machine(), {"pipeline": "fake"}, rows, libreoffice="7"
    )
    cells = [cell.text for cell in documents_table(results).rows[0].cells]
    assert cells == ["docx", "2", "1", "5", "1", "0 of 1", "1 of 1"]
    page = tmp_path / "page.md"
    page.write_text("head\n<!-- results: begin -->\nold\n<!-- results: end -->\ntail\n", encoding="utf-8")
    write_page(page, results)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("head\n") and text.endswith("tail\n")
    assert "word/document.xml: lost" in text and "2 pages became 5" in text and "old" not in text
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(ConfigError):
        write_page(page, results)
