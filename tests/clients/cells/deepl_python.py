"""deepl, DeepL's Python client, and its command line."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import uuid
from typing import Any

import deepl
from cells import (
    EXPECTED,
    FILES,
    JA,
    KEY,
    TEXT,
    TEXTS,
    URL,
    cell,
    equal,
    japanese,
    main,
    refused,
    same_tags,
    translated_file,
)

client = deepl.DeepLClient(KEY, server_url=URL)
Entries = deepl.api_data.MultilingualGlossaryDictionaryEntries
STATION = {"train station": "ターミナル"}


@cell("text", "translate_text, the source detected")
def text() -> None:
    found = client.translate_text(TEXT, target_lang="JA")
    equal((found.text, found.detected_source_lang, found.billed_characters), (JA, "EN", len(TEXT)))


@cell("text", "formality, context, split_sentences, model_type")
def options() -> None:
    found = client.translate_text(
        TEXT,
        source_lang="EN",
        target_lang="JA",
        formality="prefer_more",
        context="A traveller asks.",
        split_sentences="nonewlines",
        preserve_formatting=True,
        model_type="prefer_quality_optimized",
    )
    japanese(found.text)


@cell("text", "each target language")
def targets() -> None:
    for target, expected in EXPECTED.items():
        equal(client.translate_text(TEXT, source_lang="EN", target_lang=target).text, expected[0])


@cell("batch", "a list of texts, in order")
def batch() -> None:
    found = client.translate_text(TEXTS, source_lang="EN", target_lang="JA")
    equal([one.text for one in found], EXPECTED["ja"])


@cell("batch", "1,000 texts, in order")
def long_batch() -> None:
    texts = [TEXTS[number % len(TEXTS)] for number in range(1000)]
    found = client.translate_text(texts, source_lang="EN", target_lang="JA")
    equal([one.text for one in found], [EXPECTED["ja"][number % len(TEXTS)] for number in range(1000)])


@cell("tags", "tag_handling=xml, ignore_tags, outline_detection")
def xml() -> None:
    source = "<doc><p>Where is the <b>train station</b>?</p><keep>Not this.</keep></doc>"
    options = {"tag_handling": "xml", "ignore_tags": ["keep"], "splitting_tags": ["p"], "outline_detection": False}
    found = client.translate_text(source, source_lang="EN", target_lang="JA", **options).text
    same_tags(found, source)
    assert "<keep>Not this.</keep>" in found, found
    japanese(found.replace("Not this.", ""))


@cell("tags", "tag_handling=html")
def html() -> None:
    source = '<p class="a">Where is the <b>train station</b>?</p><p translate="no">Stay.</p>'
    found = client.translate_text(source, source_lang="EN", target_lang="JA", tag_handling="html").text
    same_tags(found, source)
    assert found.endswith('<p translate="no">Stay.</p>'), found


@cell("languages", "source and target languages, pairs of glossaries")
def languages() -> None:
    assert "EN" in {one.code for one in client.get_source_languages()}
    targets = {one.code for one in client.get_target_languages()}
    assert {"JA", "KO", "EN-US", "EN-GB"} <= targets, targets
    pairs = {(one.source_lang, one.target_lang) for one in client.get_glossary_languages()}
    assert ("en", "ja") in pairs, pairs


@cell("usage", "get_usage counts what was translated")
def usage() -> None:
    before = client.get_usage().character.count
    client.translate_text(TEXT, source_lang="EN", target_lang="JA")
    equal(client.get_usage().character.count, before + len(TEXT))


@cell("glossaries", "version 2: create, get, list, entries, use, CSV, delete")
def glossaries_2() -> None:
    name = f"v2 {uuid.uuid4()}"
    made = client.create_glossary(name, "EN", "JA", STATION)
    try:
        equal((made.source_lang, made.target_lang, made.entry_count, made.ready), ("EN", "JA", 1, True))
        equal(client.get_glossary(made.glossary_id).name, name)
        assert made.glossary_id in {one.glossary_id for one in client.list_glossaries()}
        equal(client.get_glossary_entries(made), STATION)
        found = client.translate_text(TEXT, source_lang="EN", target_lang="JA", glossary=made).text
        assert "ターミナル" in found, found
    finally:
        client.delete_glossary(made)
    from_csv = client.create_glossary_from_csv(f"csv {name}", "EN", "JA", 'hello,"こんにちは"\n')
    equal(client.get_glossary_entries(from_csv), {"hello": "こんにちは"})
    client.delete_glossary(from_csv)
    try:
        client.get_glossary(made.glossary_id)
    except deepl.GlossaryNotFoundException:
        pass
    else:
        raise AssertionError("a deleted glossary was found")


def entries_of(glossary: Any) -> dict[str, str]:
    found = client.get_multilingual_glossary_entries(glossary, "EN", "JA").dictionaries[0].entries
    return found if isinstance(found, dict) else deepl.convert_tsv_to_dict(found)


@cell("glossaries", "version 3: two dictionaries, use, rename, add, replace, delete")
def glossaries_3() -> None:
    name = f"v3 {uuid.uuid4()}"
    made = client.create_multilingual_glossary(
        name, [Entries("EN", "JA", STATION), Entries("EN", "KO", {"server": "서버"})]
    )
    try:
        equal(sorted(one.target_lang.lower() for one in made.dictionaries), ["ja", "ko"])
        found = client.translate_text(TEXT, source_lang="EN", target_lang="JA", glossary=made).text
        assert "ターミナル" in found, found
        client.update_multilingual_glossary_name(made, f"{name} renamed")
        equal(client.get_multilingual_glossary(made.glossary_id).name, f"{name} renamed")
        client.update_multilingual_glossary_dictionary(made, Entries("EN", "JA", {"queue": "列"}))
        equal(entries_of(made), {**STATION, "queue": "列"})
        client.replace_multilingual_glossary_dictionary(made, Entries("EN", "JA", {"queue": "列"}))
        equal(entries_of(made), {"queue": "列"})
        client.delete_multilingual_glossary_dictionary(made, source_lang="EN", target_lang="KO")
        equal(len(client.get_multilingual_glossary(made.glossary_id).dictionaries), 1)
        assert made.glossary_id in {one.glossary_id for one in client.list_multilingual_glossaries()}
    finally:
        client.delete_multilingual_glossary(made)


TMX = f"""<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en"><seg>{TEXT}</seg></tuv><tuv xml:lang="ja"><seg>駅はどこ？</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Press <bpt i="1" x="1"/>it<ept i="1"/>.</seg></tuv>
<tuv xml:lang="ja"><seg><bpt i="1" x="1"/>それ<ept i="1"/>を押す。</seg></tuv></tu></body></tmx>"""


@cell("glossaries", "translation memories: import, list, get, segments, use with a threshold, export, delete")
def memories() -> None:
    given, exported, name = FILES / "legal.tmx", FILES / "exported.tmx", f"memory {uuid.uuid4()}"
    given.write_text(TMX, encoding="utf-8")
    job = client.import_translation_memory_from_filepath(given, display_name=name)
    equal((job.status, job.result.skipped_segment_count), ("completed", 0))
    made = client.get_translation_memory(job.result.translation_memory_id)
    try:
        equal((made.name, made.source_language, made.target_languages, made.segment_count), (name, "en", ["ja"], 2))
        assert made.creation_time is not None
        listed = client.list_translation_memories(page=0, page_size=25)
        assert made.translation_memory_id in {one.translation_memory_id for one in listed}
        page = client.list_translation_memory_segments(made, page_size=1)
        last = client.list_translation_memory_segments(made, page_size=1, page_cursor=page.next_page_cursor)
        equal((page.segment_count, len(page), len(last), last.next_page_cursor), (2, 1, 1, None))
        [found] = client.list_translation_memory_segments(made, filter_text="train station")
        equal((found.source_text, found.targets[0].target_text), (TEXT, "駅はどこ？"))
        options = {"source_lang": "EN", "target_lang": "JA", "translation_memory": made}
        equal(client.translate_text(TEXT, translation_memory_threshold=80, **options).text, "駅はどこ？")
        equal(client.translate_text("Press <b>it</b>.", tag_handling="html", **options).text, "<b>それ</b>を押す。")
        japanese(client.translate_text(TEXTS[1], **options).text)
        client.export_translation_memory_to_filepath(made, exported)
        assert "駅はどこ？" in exported.read_text(encoding="utf-8")
    finally:
        client.delete_translation_memory(made)
    try:
        client.get_translation_memory(made)
    except deepl.DeepLException as error:
        assert "not found" in str(error).lower(), error
    else:
        raise AssertionError("a deleted memory was found")


def translated_document(kind: str) -> None:
    result = FILES / f"result.{kind}"
    status = client.translate_document_from_filepath(FILES / f"a.{kind}", result, source_lang="EN", target_lang="JA")
    equal((status.status, status.billed_characters), (deepl.DocumentStatus.Status.DONE, sum(map(len, TEXTS))))
    translated_file(result)


@cell("documents", "translate_document_from_filepath: docx")
def docx() -> None:
    translated_document("docx")


@cell("documents", "translate_document_from_filepath: pptx")
def pptx() -> None:
    translated_document("pptx")


@cell("documents", "translate_document_from_filepath: srt")
def srt() -> None:
    translated_document("srt")


@cell("documents", "translate_document: bytes with a name, a glossary's terms")
def document_of_bytes() -> None:
    made = client.create_glossary(f"document {uuid.uuid4()}", "EN", "JA", STATION)
    try:
        result = io.BytesIO()
        client.translate_document(
            TEXT.encode(),
            result,
            source_lang="EN",
            target_lang="JA",
            filename="a.txt",
            glossary=made,
            formality="prefer_more",
        )
        assert "ターミナル" in result.getvalue().decode(), result.getvalue()
    finally:
        client.delete_glossary(made)


@cell("documents", "upload, status, result; a handle from its id and key; a wrong one is not found")
def document_steps() -> None:
    with (FILES / "a.srt").open("rb") as given:
        made = client.translate_document_upload(given, source_lang="EN", target_lang="JA", filename="a.srt")
    assert re.fullmatch("Document ID: [0-9A-F]{32}, key: [0-9A-F]{64}", str(made)), str(made)
    handle = deepl.DocumentHandle(made.document_id, made.document_key)
    status = client.translate_document_wait_until_done(handle)
    equal((status.ok, status.done), (True, True))
    result = FILES / "steps.srt"
    with result.open("wb") as out:
        client.translate_document_download(handle, out)
    translated_file(result)
    try:
        client.translate_document_get_status(deepl.DocumentHandle(made.document_id, "0" * 64))
    except deepl.DeepLException as error:
        assert "Not found" in str(error), error
    else:
        raise AssertionError("no exception")


@cell("documents", "equal languages: DocumentTranslationException with the handle; an unknown type: DeepLException")
def document_errors() -> None:
    try:
        client.translate_document(b"text", None, source_lang="EN", target_lang="EN-GB", filename="a.txt")
    except deepl.DocumentTranslationException as error:
        assert "Source and target language are equal." in str(error) and error.document_handle, error
    else:
        raise AssertionError("no exception")
    try:
        client.translate_document(b"text", None, target_lang="JA", filename="a.xyz")
    except deepl.DeepLException as error:
        assert "Invalid file" in str(error), error
    else:
        raise AssertionError("no exception")


@cell("errors", "an unknown language: DeepLException, without retries")
def errors() -> None:
    try:
        client.translate_text(TEXT, target_lang="XX")
    except deepl.DeepLException as error:
        assert "400" in str(error) or "Bad request" in str(error), error
    else:
        raise AssertionError("no exception")


def command(*arguments: str) -> str:
    settings = {**os.environ, "DEEPL_AUTH_KEY": KEY, "DEEPL_SERVER_URL": URL}
    line = [sys.executable, "-m", "deepl", *arguments]
    done = subprocess.run(line, env=settings, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-300:]
    return done.stdout.strip()


@cell("command line", "document")
def command_line_of_documents() -> None:
    (FILES / "out").mkdir()
    command("document", "--from", "EN", "--to", "JA", str(FILES / "a.docx"), str(FILES / "out"))
    translated_file(FILES / "out" / "a.docx")


@cell("command line", "text, languages, usage, glossary")
def command_line() -> None:
    equal(command("text", "--from", "EN", "--to", "JA", TEXT), JA)
    equal(command("text", "--to", "JA", *TEXTS[:3]).splitlines(), EXPECTED["ja"][:3])
    assert "JA: Japanese" in command("languages")
    assert "character" in command("usage").lower()
    name = f"command line {uuid.uuid4()}"
    made = command("glossary", "create", "--name", name, "--from", "EN", "--to", "JA", "train station=ターミナル")
    assert name in made, made
    identifier = next(one.glossary_id for one in client.list_glossaries() if one.name == name)
    assert "ターミナル" in command("text", "--from", "EN", "--to", "JA", "--glossary-id", identifier, TEXT)
    command("glossary", "delete", identifier)


@refused
def translate(key: str) -> str:
    return deepl.DeepLClient(key, server_url=URL).translate_text(TEXT, source_lang="EN", target_lang="JA").text


main()
