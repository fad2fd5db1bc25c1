"""DeepL's translation memories over the fake pipeline. Its own clients, unmodified, are in tests/clients."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman.service import memory_jobs
from dragoman.settings import AuthSettings, CacheSettings, DocumentSettings, Settings
from dragoman.types import Account
from tests.api.compat.test_deepl import checked
from tests.api.test_memories import on_a_full_disk, until_equal
from tests.serving import keyed_service, served
from tests.waiting import HANG_S
from wholetext.files import tmx

FOLDER = "/v3/translation_memories"
HELLO, KONNICHIWA = "Good morning.", "おはよう。"


def tmx_of(*entries: tuple[str, str], target: str = "ja") -> bytes:
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{text}</seg></tuv><tuv xml:lang="{target}"><seg>{translation}</seg></tuv></tu>'
        for text, translation in entries
    )
    return f'<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>'.encode()


CONTENT = tmx_of((HELLO, KONNICHIWA), ("See you.", "またね。"), ('A <ph x="1"/>', "あ"))


class Client:
    def __init__(self, http: httpx.AsyncClient, key: str) -> None:
        self.http = http
        self.headers = {"Authorization": f"DeepL-Auth-Key {key}"}

    async def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        return await self.http.request(method, path, headers=self.headers, **options)

    async def import_file(self, content: bytes = CONTENT, name: str = "legal.tmx", **parameters: str) -> dict[str, Any]:
        """The job after its file was uploaded without a key, as DeepL's clients do."""
        source = {"file_name": name, "content_length": len(content)}
        body = {"source_file": source} | ({"parameters": parameters} if parameters else {})
        made = checked(await self.call("POST", f"{FOLDER}/import", json=body), "MemoryImport", 202)
        waiting = checked(await self.call("GET", f"{FOLDER}/jobs/{made['job_id']}"), "MemoryJob")
        assert waiting["results"][0]["status"] == "awaiting_input"
        assert made["upload_url"].startswith(str(self.http.base_url))
        headers = {"Content-Type": "application/xml"}
        uploaded = await self.http.put(made["upload_url"], content=content, headers=headers)
        assert uploaded.status_code == 200, uploaded.text
        async with asyncio.timeout(HANG_S):
            while True:
                job = checked(await self.call("GET", f"{FOLDER}/jobs/{made['job_id']}"), "MemoryJob")
                if job["results"][0]["status"] != "processing":
                    return {**job, "upload_url": made["upload_url"]}
                await asyncio.sleep(0.02)

    async def translate(self, text: str, status: int = 200, **options: Any) -> Any:
        body = {"text": [text], "target_lang": "JA", "source_lang": "EN", **options}
        answer = await self.call("POST", "/v2/translate", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()["translations"][0]["text"] if status == 200 else answer.json()["message"]


@pytest.fixture(scope="module")
async def clients(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Client, Client]]:
    folder = tmp_path_factory.mktemp("memories")
    settings = Settings(
        auth=AuthSettings(mode="keys"),
        cache=CacheSettings(max_bytes=0),
        documents=DocumentSettings(folder=str(folder / "files"), max_bytes=100_000),
    )
    service, _, keys = await keyed_service(folder, Account("", "a"), Account("", "b"), settings=settings)
    async with served(service) as http:
        yield Client(http, keys["a"]), Client(http, keys["b"])


@pytest.fixture
async def client(clients: tuple[Client, Client]) -> AsyncIterator[Client]:
    yield clients[0]
    for one in (await clients[0].call("GET", FOLDER, params={"page_size": 25})).json()["translation_memories"]:
        await clients[0].call("DELETE", f"{FOLDER}/{one['translation_memory_id']}")


async def test_a_file_is_imported_listed_used_and_deleted(client: Client) -> None:
    job = await client.import_file(display_name="Legal")
    [result] = job["results"]
    assert (job["operation"], job["parameters"], result["status"]) == ("import", {"display_name": "Legal"}, "completed")
    assert result["skipped_segment_count"] == 1
    id = result["translation_memory_id"]
    listed = checked(await client.call("GET", FOLDER), "Memories")
    assert listed["total_count"] == 1
    [memory] = listed["translation_memories"]
    assert (memory["translation_memory_id"], memory["name"], memory["segment_count"]) == (id, "Legal", 2)
    assert (memory["source_language"], memory["target_languages"]) == ("en", ["ja"])
    assert checked(await client.call("GET", f"{FOLDER}/{id}"), "Memory") == memory
    assert await client.translate(HELLO, translation_memory_id=id, translation_memory_threshold=80) == KONNICHIWA
    assert (
        await client.translate(HELLO, translation_memory_id="Legal", translation_memory_threshold="100") == KONNICHIWA
    )
    assert (await client.call("DELETE", f"{FOLDER}/{id}")).status_code == 204
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/segments"), ("POST", "/export")):
        checked(await client.call(method, f"{FOLDER}/{id}{path}"), "Error", 404)
    assert await client.translate(HELLO, 404, translation_memory_id=id) == "Translation memory not found"


async def test_memories_are_listed_by_pages(client: Client) -> None:
    for name in ("b.tmx", "a.tmx", "b.tmx"):
        await client.import_file(name=name)
    names: list[str] = []
    for page in (0, 1, 2):
        found = checked(await client.call("GET", FOLDER, params={"page": page, "page_size": 2}), "Memories")
        assert found["total_count"] == 3
        names += [one["name"] for one in found["translation_memories"]]
    assert names == ["a", "b", "b (2)"]
    for params in ({"page_size": 26}, {"page_size": 0}, {"page": "x"}, {"page": "-1"}):
        checked(await client.call("GET", FOLDER, params=params), "Error", 400)


async def test_segments_are_read_by_pages_and_found_by_their_text(client: Client) -> None:
    id = (await client.import_file())["results"][0]["translation_memory_id"]
    path = f"{FOLDER}/{id}/segments"
    first = checked(await client.call("GET", path, params={"page_size": 1}), "MemorySegments")
    params = {"page_size": 1, "page_cursor": first["next_page_cursor"]}
    last = checked(await client.call("GET", path, params=params), "MemorySegments")
    assert "next_page_cursor" not in last
    segments = first["segments"] + last["segments"]
    assert {one["source_text"]: one["targets"][0]["target_text"] for one in segments} == {
        HELLO: KONNICHIWA,
        "See you.": "またね。",
    }
    assert len({one["source_segment_id"] for one in segments}) == 2
    assert first["segment_count"] == 2
    for text, case_sensitive, number in (("MORNING", "false", 1), ("MORNING", "true", 0), ("おは", "true", 1)):
        params = {"filter_text": text, "filter_case_sensitive": case_sensitive}
        assert len((await client.call("GET", path, params=params)).json()["segments"]) == number
    checked(await client.call("GET", path, params={"filter_text": "a"}), "Error", 400)


async def test_a_memory_is_exported_without_a_key(client: Client) -> None:
    id = (await client.import_file())["results"][0]["translation_memory_id"]
    made = checked(await client.call("POST", f"{FOLDER}/{id}/export"), "MemoryExport", 202)
    job = checked(await client.call("GET", f"{FOLDER}/jobs/{made['job_id']}"), "MemoryJob")
    [result] = job["results"]
    assert (job["operation"], job["parameters"], result["status"]) == (
        "export",
        {"translation_memory_id": id},
        "completed",
    )
    content = (await client.http.get(result["download_url"])).content
    assert {one.text: one.translation for one in tmx.read(content, Counter())} == {
        HELLO: KONNICHIWA,
        "See you.": "またね。",
    }
    wrong = result["download_url"][:-1] + ("0" if result["download_url"][-1] != "0" else "1")
    for address in (wrong, f"{FOLDER}/download?token=x.y", f"{FOLDER}/download"):
        checked(await client.http.get(address), "Error", 404)


@pytest.mark.acceptance
async def test_a_file_that_is_none_leaves_a_job_that_failed_and_no_memory(client: Client) -> None:
    for content in (b"<html/>", b"not XML", b'<!DOCTYPE tmx [<!ENTITY a "b">]><tmx/>'):
        job = await client.import_file(content)
        [result] = job["results"]
        assert (result["status"], bool(result["error"]["message"])) == ("failed", True)
    assert (await client.call("GET", FOLDER)).json()["total_count"] == 0


async def test_a_file_is_imported_once_however_often_it_is_uploaded(client: Client) -> None:
    job = await client.import_file()
    again = await client.http.put(job["upload_url"], content=CONTENT)
    assert again.status_code == 200
    assert (await client.call("GET", FOLDER)).json()["total_count"] == 1


async def test_a_file_of_another_length_is_refused_and_the_right_one_taken_then(client: Client) -> None:
    source = {"file_name": "a.tmx", "content_length": len(CONTENT)}
    made = (await client.call("POST", f"{FOLDER}/import", json={"source_file": source})).json()
    for content in (CONTENT[:-1], CONTENT + b"\n"):
        answer = checked(await client.http.put(made["upload_url"], content=content), "Error", 400)
        assert "content_length" in answer["message"]
    assert (await client.http.put(made["upload_url"], content=CONTENT)).status_code == 200
    await until_equal(lambda: client.call("GET", f"{FOLDER}?page_size=25"), "total_count", 1)


async def test_a_key_has_so_many_imports_that_are_not_done(client: Client, clients: tuple[Client, Client]) -> None:
    body = {"source_file": {"file_name": "a.tmx", "content_length": len(CONTENT)}}
    statuses = [(await clients[1].call("POST", f"{FOLDER}/import", json=body)).status_code for _ in range(22)]
    assert statuses == [202] * 20 + [429] * 2
    await client.import_file()  # another key's


async def test_a_file_for_which_the_disk_has_no_space_may_come_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {"file_name": "a.tmx", "content_length": len(CONTENT)}
    made = (await client.call("POST", f"{FOLDER}/import", json={"source_file": source})).json()
    with monkeypatch.context() as patched:
        on_a_full_disk(patched)
        assert (await client.http.put(made["upload_url"], content=CONTENT)).status_code == 503
    assert (await client.http.put(made["upload_url"], content=CONTENT)).status_code == 200


async def test_uploads_are_bounded_and_need_their_address(client: Client) -> None:
    source = {"file_name": "a.tmx", "content_length": 10}
    made = (await client.call("POST", f"{FOLDER}/import", json={"source_file": source})).json()
    assert (await client.http.put(made["upload_url"], content=b"x" * 100_001)).status_code == 413
    wrong = made["upload_url"].replace(made["job_id"], "0" * 36)
    checked(await client.http.put(wrong, content=CONTENT), "Error", 404)
    checked(await client.http.put(f"{FOLDER}/upload", content=CONTENT), "Error", 404)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"source_file": "a.tmx"},
        {"source_file": {"content_length": 1}},
        {"source_file": {"file_name": "a.tmx"}},
        {"source_file": {"file_name": "a.tmx", "content_length": 0}},
        {"source_file": {"file_name": "a.tmx", "content_length": 100_001}},
        {"source_file": {"file_name": "a" * 101, "content_length": 1}},
        {"source_file": {"file_name": "a.tmx", "content_length": 1, "content_type": "a" * 128}},
        {"source_file": {"file_name": "a.tmx", "content_length": 1}, "parameters": {"display_name": 1}},
    ],
)
async def test_what_no_import_begins_with(client: Client, body: dict[str, Any]) -> None:
    checked(await client.call("POST", f"{FOLDER}/import", json=body), "Error", 400)


@pytest.mark.acceptance
async def test_names_are_made_of_what_clients_give(client: Client) -> None:
    for number, (given, expected) in enumerate(
        (("a/b\n.tmx", "a_b"), (".tmx", ".tmx"), ("5f0c2f0e-6f0f-4b67-9f0c-0d3f2b6f6a51", None))
    ):
        await client.import_file(name=given)
        listed = (await client.call("GET", FOLDER)).json()["translation_memories"]
        assert len(listed) == number + 1
        assert expected is None or expected in {one["name"] for one in listed}


async def test_another_key_has_no_part_in_it(client: Client, clients: tuple[Client, Client]) -> None:
    job = await client.import_file()
    id, other = job["results"][0]["translation_memory_id"], clients[1]
    for method, path in (
        ("GET", id),
        ("DELETE", id),
        ("GET", f"{id}/segments"),
        ("POST", f"{id}/export"),
        ("GET", f"jobs/{job['job_id']}"),
    ):
        checked(await other.call(method, f"{FOLDER}/{path}"), "Error", 404)
    assert (await other.call("GET", FOLDER)).json() == {"translation_memories": [], "total_count": 0}
    assert await other.translate(HELLO) != KONNICHIWA
    checked(await client.http.get(FOLDER), "Error", 403)


@pytest.mark.parametrize(
    "options",
    [{"translation_memory_threshold": 80}, {"translation_memory_id": "m", "translation_memory_threshold": 101}],
)
async def test_a_threshold_is_a_percentage_of_a_memory(client: Client, options: dict[str, Any]) -> None:
    assert "translation_memory_threshold" in await client.translate(HELLO, 400, **options)


@pytest.mark.acceptance
async def test_a_document_is_translated_with_a_memory(client: Client) -> None:
    await client.import_file(display_name="m")

    async def document(status: int = 200, **fields: str) -> bytes:
        form = {"target_lang": "JA", "source_lang": "EN", **fields}
        made = await client.call("POST", "/v2/document", data=form, files={"file": ("a.txt", HELLO.encode())})
        assert made.status_code == status, made.text
        if status != 200:
            return b""
        place, key = f"/v2/document/{made.json()['document_id']}", {"document_key": made.json()["document_key"]}
        await until_equal(lambda: client.call("POST", place, json=key), "status", "done")
        return (await client.call("POST", f"{place}/result", json=key)).content

    assert (await document(translation_memory_id="m")).decode() == KONNICHIWA
    await document(404, translation_memory_id="other")


async def test_an_import_that_lost_its_server_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(auth=AuthSettings(mode="keys"), cache=CacheSettings(max_bytes=0))
    service, _, keys = await keyed_service(tmp_path, Account("", "a"), settings=settings)
    async with served(service) as http:
        client = Client(http, keys["a"])
        source = {"file_name": "a.tmx", "content_length": 10}
        made = (await client.call("POST", f"{FOLDER}/import", json={"source_file": source})).json()
        assert await service.memories.store.update_job(made["job_id"], "awaiting_input", status="processing")
        for stale_s, status in ((60.0, "processing"), (-1.0, "failed")):
            monkeypatch.setattr(memory_jobs, "STALE_S", stale_s)
            job = checked(await client.call("GET", f"{FOLDER}/jobs/{made['job_id']}"), "MemoryJob")
            assert job["results"][0]["status"] == status
