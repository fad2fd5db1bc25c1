"""Documents in DeepL's and LibreTranslate's APIs over the fake pipeline. Their clients, unmodified, are in tests/clients."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest

from dragoman.api import answers
from dragoman.api.compat import libretranslate
from dragoman.pipelines.fake import FakePipeline
from dragoman.service.service import TranslationService
from dragoman.settings import (
    AuthSettings,
    CacheSettings,
    DocumentSettings,
    ServerSettings,
    Settings,
    StorageSettings,
)
from dragoman.storage.database import Database
from dragoman.types import ANONYMOUS, Account
from tests.api.compat.test_deepl import checked
from tests.openapi import validator
from tests.serving import HeldPipeline, echoing, keyed_service, served, service_over
from tests.waiting import HANG_S, until
from wholetext.files.formats import FORMATS

TEXT = b"Where is the train station?\n\nOver there.\n"
TRANSLATED = b"~Where is the train station?\n\n~Over there.\n"
FILE = {"file": ("Guide é.txt", TEXT)}
FIELDS = {"target_lang": "JA", "source_lang": "EN"}


def settings_in(folder: Path, mode: Literal["none", "keys"] = "none") -> Settings:
    return Settings(
        auth=AuthSettings(mode=mode),
        server=ServerSettings(max_body_bytes=100_000, trusted_proxies="127.0.0.1"),
        storage=StorageSettings(f"sqlite:///{folder}/dragoman.db"),
        documents=DocumentSettings(folder=f"{folder}/documents", max_bytes=1_000_000),
        cache=CacheSettings(max_bytes=0),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("documents")


@pytest.fixture(scope="module")
async def service(folder: Path) -> TranslationService:
    settings = settings_in(folder)
    return service_over(FakePipeline(echoing()), settings, database=Database(settings.storage.url))


@pytest.fixture(scope="module")
async def client(service: TranslationService) -> AsyncIterator[httpx.AsyncClient]:
    async with served(service) as client:
        yield client


# ---- DeepL


async def uploaded(client: httpx.AsyncClient, **sent: Any) -> dict[str, str]:
    handle = checked(await client.post("/v2/document", **({"files": FILE, "data": FIELDS} | sent)), "DocumentHandle")
    assert re.fullmatch("[0-9A-F]{32}", handle["document_id"]) and re.fullmatch("[0-9A-F]{64}", handle["document_key"])
    return handle


async def ended(client: httpx.AsyncClient, handle: dict[str, str]) -> dict[str, Any]:
    """The last status of a document."""
    path, body = f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
    async with asyncio.timeout(HANG_S):
        while True:
            status = checked(await client.post(path, json=body), "DocumentStatus")
            if status["status"] in ("done", "error"):
                return status
            await asyncio.sleep(0.1)


async def result(client: httpx.AsyncClient, handle: dict[str, str], **sent: Any) -> httpx.Response:
    body = sent or {"json": {"document_key": handle["document_key"]}}
    return await client.post(f"/v2/document/{handle['document_id']}/result", **body)


async def test_a_file_is_uploaded_polled_and_downloaded(client: httpx.AsyncClient) -> None:
    handle = await uploaded(client)
    status = await ended(client, handle)
    assert status == {
        "document_id": handle["document_id"],
        "status": "done",
        "seconds_remaining": 0,
        "billed_characters": len(b"Where is the train station?Over there."),
    }
    for sent in (
        {"json": {"document_key": handle["document_key"]}},
        {"data": {"document_key": handle["document_key"]}},
    ):
        answer = await result(client, handle, **sent)
        assert (answer.status_code, answer.content) == (200, TRANSLATED)
    assert "attachment" in answer.headers["content-disposition"]
    assert "filename*=UTF-8''Guide%20%C3%A9.txt" in answer.headers["content-disposition"]


async def test_the_file_may_come_before_its_fields_and_have_its_name_in_one(client: httpx.AsyncClient) -> None:
    parts = [
        ("file", ("file", TEXT, "application/octet-stream")),
        *((name, (None, value)) for name, value in {**FIELDS, "filename": "a.TXT"}.items()),
    ]
    handle = await uploaded(client, files=parts, data=None)
    assert (await ended(client, handle))["status"] == "done"


@pytest.mark.parametrize(
    ("fields", "file", "message"),
    [
        ({"target_lang": None}, ("a.txt", TEXT), "target_lang"),
        ({"target_lang": "XX"}, ("a.txt", TEXT), "target_lang"),
        ({}, ("a.xyz", TEXT), "Invalid file"),
        ({}, ("a.doc", TEXT), "file extension"),
        ({}, ("a", TEXT), "file extension"),
        ({}, ("a.txt", b""), "Invalid file"),
        ({"output_format": "docx"}, ("a.txt", TEXT), "output_format not supported."),
        ({"formality": "more"}, ("a.txt", TEXT), "formality"),
        ({"style_id": "x"}, ("a.txt", TEXT), "style_id"),
    ],
)
async def test_what_can_be_known_of_an_upload_is_refused_at_once(
    client: httpx.AsyncClient, fields: dict[str, str], file: tuple[str, bytes], message: str
) -> None:
    sent = {name: value for name, value in (FIELDS | fields).items() if value is not None}
    answer = await client.post("/v2/document", files={"file": file}, data=sent)
    assert message in checked(answer, "Error", 400)["message"]


async def test_an_upload_without_a_file_too_large_or_with_an_unknown_glossary_is_refused(
    client: httpx.AsyncClient,
) -> None:
    checked(await client.post("/v2/document", files={"x": (None, "y")}, data=FIELDS), "Error", 400)
    checked(await client.post("/v2/document", json=FIELDS), "Error", 400)
    checked(await client.post("/v2/document", files={"file": ("a.txt", b"a" * 1_100_000)}, data=FIELDS), "Error", 413)
    answer = await client.post("/v2/document", files=FILE, data=FIELDS | {"glossary_id": "nothing"})
    checked(answer, "Error", 404)


async def test_equal_languages_are_an_error_of_the_job(client: httpx.AsyncClient) -> None:
    handle = await uploaded(client, data={"target_lang": "EN-GB", "source_lang": "EN"})
    status = await ended(client, handle)
    assert (status["status"], status["error_message"]) == ("error", "Source and target language are equal.")


async def test_a_document_needs_its_key(client: httpx.AsyncClient) -> None:
    handle = await uploaded(client)
    for path in ("", "/result"):
        for id, key in ((handle["document_id"], "0" * 64), ("0" * 32, handle["document_key"])):
            answer = await client.post(f"/v2/document/{id}{path}", json={"document_key": key})
            checked(answer, "Error", 404)
        checked(await client.post(f"/v2/document/{handle['document_id']}{path}", json={}), "Error", 400)


async def test_until_it_is_done_a_document_counts_and_has_no_result(tmp_path: Path) -> None:
    settings, pipeline = settings_in(tmp_path), HeldPipeline(echoing())
    service = service_over(pipeline, settings, database=Database(settings.storage.url))
    async with served(service) as client:
        pipeline.hold()
        handle = await uploaded(client)
        await until(lambda: pipeline.generations > 0, "a sequence")
        checked(await result(client, handle), "Error", 503)
        usage = checked(await client.get("/v2/usage"), "Usage")
        assert (usage["document_count"], usage["document_limit"]) == (1, settings.documents.max_jobs_per_key)
        pipeline.release.set()
        assert (await ended(client, handle))["status"] == "done"
        assert checked(await client.get("/v2/usage"), "Usage")["document_count"] == 0
        await service.documents.delete(
            await service.documents.get(handle["document_id"], secret=handle["document_key"])
        )
        checked(await result(client, handle), "Error", 404)


async def test_languages_of_documents(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v3/languages", params={"resource": "translate_document"})
    found = {one["lang"]: one["features"] for one in checked(answer, "ResourceLanguages")}
    assert {"en", "ja", "ko", "zh"} <= set(found)
    assert set(found["en"]) == {"auto_detection", "glossary", "translation_memory"}
    resources = checked(await client.get("/v3/languages/resources"), "Resources")
    assert "translate_document" in {one["name"] for one in resources}


# ---- LibreTranslate

LIBRE = {"source": "en", "target": "ja", "api_key": ""}


async def test_a_file_is_translated_and_has_an_address(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/translate_file", files={"file": ("Guide é.TXT", TEXT)}, data=LIBRE | {"source": "auto"}
    )
    assert answer.status_code == 200, answer.text
    [(name, url)] = answer.json().items()
    assert name == "translatedFileUrl"
    assert url.startswith(f"{client.base_url}/download_file/") and url.endswith(".Guide%20%C3%A9.TXT")
    for method, content in (("GET", TRANSLATED), ("HEAD", b"")):
        downloaded = await client.request(method, url)
        assert (downloaded.status_code, downloaded.content) == (200, content)
        assert int(downloaded.headers["content-length"]) == len(TRANSLATED)
        assert downloaded.headers["x-content-type-options"] == "nosniff"
    for wrong in (
        re.sub("-[0-9a-f]{4}", "-0000", url),
        url.replace("/download_file/", "/download_file/x"),
        f"{url[:60]}",
    ):
        assert (await client.get(wrong)).status_code == 404


@pytest.mark.parametrize(
    ("headers", "base"),
    [
        ({"X-Forwarded-Host": "translate.example"}, "http://translate.example/"),
        ({"X-Forwarded-Host": "a.example:8443, b.example"}, "http://a.example:8443/"),
        ({"X-Forwarded-Host": "evil.example/path"}, None),
    ],
)
async def test_the_address_is_the_proxys(client: httpx.AsyncClient, headers: dict[str, str], base: str | None) -> None:
    answer = await client.post("/translate_file", files=FILE, data=LIBRE, headers=headers)
    assert answer.json()["translatedFileUrl"].startswith(f"{base or client.base_url}".rstrip("/") + "/download_file/")


@pytest.mark.parametrize(
    ("fields", "file"),
    [
        ({"source": ""}, ("a.txt", TEXT)),
        ({"target": "zz"}, ("a.txt", TEXT)),
        ({"target": "en"}, ("a.txt", TEXT)),
        ({}, ("a.xyz", TEXT)),
        ({}, ("a.txt", b"")),
        ({}, ("a.md", b"\xff\xfe\x00")),
    ],
)
async def test_bad_files_are_400(client: httpx.AsyncClient, fields: dict[str, str], file: tuple[str, bytes]) -> None:
    answer = await client.post("/translate_file", files={"file": file}, data=LIBRE | fields)
    assert (answer.status_code, list(answer.json())) == (400, ["error"]), answer.text


async def test_a_file_that_takes_long_is_white_space_and_then_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late failure is said in the body: its reason is the file, which no retry changes."""
    monkeypatch.setattr(answers, "FIRST_AFTER_S", 0.0)
    monkeypatch.setattr(answers, "EVERY_S", 0.01)
    pipeline = HeldPipeline(echoing())
    settings = settings_in(tmp_path)
    service = service_over(pipeline, settings, database=Database(settings.storage.url))
    async with served(service) as client:
        pipeline.hold()
        async with client.stream("POST", "/translate_file", files=FILE, data=LIBRE) as answer:
            chunks = answer.aiter_raw()
            assert [await anext(chunks) for _ in range(3)] == [b" "] * 3
            pipeline.release.set()
            body = json.loads(b"".join([chunk async for chunk in chunks]))
        assert answer.status_code == 200
        assert (await client.get(body["translatedFileUrl"])).content == TRANSLATED
        failed = await client.post("/translate_file", files={"file": ("a.md", b"\xff\xfe\x00")}, data=LIBRE)
        assert (failed.status_code, list(failed.json())) == (200, ["error"])
        assert failed.content[:1] == b" "


async def test_a_client_that_gives_up_ends_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libretranslate, "RETRY_GRACE_S", 0.01)
    pipeline = HeldPipeline(echoing())
    settings = settings_in(tmp_path)
    service = service_over(pipeline, settings, database=Database(settings.storage.url))
    async with served(service) as client:
        pipeline.hold()
        sent = asyncio.create_task(client.post("/translate_file", files=FILE, data=LIBRE))
        await until(lambda: pipeline.stats().running > 0, "the document in the engine")
        sent.cancel()
        await asyncio.gather(sent, return_exceptions=True)
        await until(lambda: pipeline.stats().running == 0, "no running sequence")
        files = tmp_path / "documents"
        # `os.walk` and no `glob`, which fails in a folder that is deleted meanwhile
        await until(lambda: not any("source" in names for *_, names in os.walk(files)), "the document deleted")
        assert await service.documents.list(ANONYMOUS) == []


async def test_front_ends_are_told_the_formats(client: httpx.AsyncClient) -> None:
    settings = (await client.get("/frontend/settings")).json()
    assert settings["filesTranslation"] is True
    assert settings["supportedFilesFormat"] == [f".{one}" for format in FORMATS for one in format.extensions]


async def test_a_server_without_a_folder_refuses_files(tmp_path: Path) -> None:
    settings = Settings(storage=StorageSettings(f"sqlite:///{tmp_path}/d.db"), documents=DocumentSettings(folder=""))
    service = service_over(FakePipeline(echoing()), settings, database=Database(settings.storage.url))
    async with served(service) as client:
        answer = await client.post("/translate_file", files=FILE, data=LIBRE)
        assert (answer.status_code, answer.json()["error"]) == (403, "Files translation are disabled on this server.")
        assert (await client.get("/frontend/settings")).json()["filesTranslation"] is False
        checked(await client.post("/v2/document", files=FILE, data=FIELDS), "Error", 403)
        assert checked(await client.get("/v3/languages?resource=translate_document"), "ResourceLanguages") == []
        validator("deepl", "Usage").validate((await client.get("/v2/usage")).json())


# ---- keys


async def test_a_key_may_come_after_the_file_and_what_is_refused_leaves_nothing(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, "keys")
    service, _, keys = await keyed_service(tmp_path, Account("", "good"), Account("", "other"), settings=settings)
    large = (
        "a.html",
        b"<p>Over there.</p><!-- %s -->" % (b"x" * 100_000),
    )  # more than is read at once, whoever sends it
    async with served(service) as client:
        for path, name, fields, statuses in (
            ("/v2/document", "auth_key", FIELDS, (403, 403)),
            ("/translate_file", "api_key", {"source": "en", "target": "ja"}, (400, 403)),
        ):
            parts = [("file", large), *((field, (None, value)) for field, value in fields.items())]
            for key, status in ((None, statuses[0]), ("drg_wrong", statuses[1]), (keys["good"], 200)):
                form = [*parts, *([(name, (None, key))] if key else [])]
                answer = await client.post(path, files=form)
                assert answer.status_code == status, answer.text
                assert [*(tmp_path / "documents" / "uploads").iterdir()] == []
            answer = await client.post(path, files=parts, headers={"Authorization": f"Bearer {keys['good']}"})
            assert answer.status_code == 200
        handle = await uploaded(client, headers={"X-API-Key": keys["good"]})
        body = {"json": {"document_key": handle["document_key"]}}
        for key, status in (("good", 200), ("other", 404)):
            answer = await client.post(
                f"/v2/document/{handle['document_id']}", headers={"X-API-Key": keys[key]}, **body
            )
            assert answer.status_code == status


async def test_few_uploads_without_a_key_in_a_header_go_to_disk_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.api.input._KEYLESS_WAIT_S", 0.2)
    settings = settings_in(tmp_path, "keys")
    service, _, _ = await keyed_service(tmp_path, Account("", "good"), settings=settings)
    uploads, unfinished = tmp_path / "documents" / "uploads", asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n' + b"a" * 100_000
        await unfinished.wait()
        yield b"\r\n--x--\r\n"

    async with served(service) as client:

        async def send() -> int:
            kind = {"Content-Type": "multipart/form-data; boundary=x"}
            return (await client.post("/translate_file", content=slow(), headers=kind)).status_code

        sent = [asyncio.create_task(send()) for _ in range(4)]
        await until(lambda: uploads.is_dir() and len([*uploads.iterdir()]) == 4, "four uploads")
        answer = await client.post("/translate_file", files={"file": ("a.txt", b"a" * 100_000)})
        assert answer.status_code == 429
        unfinished.set()
        assert await asyncio.gather(*sent) == [400] * 4
        assert [*uploads.iterdir()] == []
