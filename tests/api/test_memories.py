"""`/v1/memories` and what other APIs make of translation memories, over a SQLite file and the fake pipeline."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from dragoman.cli.client import KEY_VARIABLE
from dragoman.cli.memory import command
from dragoman.errors import ConfigError
from dragoman.service.uploads import Upload, Uploads
from dragoman.settings import AuthSettings, CacheSettings, DocumentSettings, MemorySettings, ServerSettings, Settings
from dragoman.types import Account
from tests.serving import fake_service, keyed_service, served
from tests.waiting import HANG_S
from wholetext.files import tmx
from wholetext.files.worker import SOURCE

EN_JA = {"source": "en", "target": "ja"}
HELLO, KONNICHIWA = "Good morning.", "おはよう。"


@dataclass
class Client:
    """A client with a key, of the server that all tests share."""

    http: httpx.AsyncClient
    keys: dict[str, str]
    name: str = "a"

    def as_(self, name: str) -> Client:
        return Client(self.http, self.keys, name)

    async def call(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        headers = {"X-API-Key": self.keys[self.name], **options.pop("headers", {})}
        answer = await self.http.request(method, path, headers=headers, **options)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.headers.get("content-type") == "application/json" else answer

    async def memories(self, method: str, path: str = "", status: int = 200, **options: Any) -> Any:
        return await self.call(method, f"/v1/memories{path}", status, **options)

    async def add(self, *entries: tuple[str, str], memory: str = "m") -> dict[str, Any]:
        body = {**EN_JA, "entries": [{"text": text, "translation": translation} for text, translation in entries]}
        return await self.memories("POST", f"/{memory}/entries", json=body)

    async def translate(self, text: str | list[str], **options: Any) -> list[dict[str, Any]]:
        answer = await self.call("POST", "/v1/translate", json={"text": text, **EN_JA, **options})
        return answer["translations"]


async def until_equal(ask: Callable[[], Awaitable[Any]], name: str, expected: object) -> None:
    """Ask again until a field of the answer has this value."""
    async with asyncio.timeout(HANG_S):
        while True:
            found = await ask()
            if (found.json() if isinstance(found, httpx.Response) else found)[name] == expected:
                return
            await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    folder = tmp_path_factory.mktemp("memories")
    settings = Settings(
        server=ServerSettings(max_body_bytes=100_000),
        auth=AuthSettings(mode="keys"),
        cache=CacheSettings(max_bytes=0),
        documents=DocumentSettings(folder=str(folder / "files"), max_bytes=1_000_000),
        memory=MemorySettings(suggestions=True, max_entries_per_key=50),
    )
    service, _, keys = await keyed_service(folder, Account("", "a"), Account("", "b"), settings=settings)
    async with served(service) as http:
        yield Client(http, keys)


@pytest.fixture
async def client(shared: Client) -> AsyncIterator[Client]:
    yield shared
    for name in shared.keys:
        for one in (await shared.as_(name).memories("GET"))["memories"]:
            await shared.as_(name).memories("DELETE", f"/{one['id']}", 204)


async def test_a_memory_from_its_creation_to_its_deletion(client: Client) -> None:
    made = await client.memories("POST", status=201, json={"name": "m"})
    assert (made["name"], made["version"], made["entry_count"], made["pairs"]) == ("m", 1, 0, [])
    stored = await client.add((HELLO, KONNICHIWA), ("Press <g1>it</g1>.", "<g1>それ</g1>を押す。"))
    assert (stored["id"], stored["entry_count"], stored["pairs"]) == (made["id"], 2, [{**EN_JA, "entry_count": 2}])
    assert (await client.memories("GET", "/m")) == stored
    assert (await client.memories("GET"))["memories"] == [stored]
    renamed = await client.memories("PATCH", f"/{made['id']}", json={"name": "n"})
    assert (renamed["id"], renamed["name"], renamed["entry_count"]) == (made["id"], "n", 2)
    page = await client.memories("GET", "/n/entries", params={"limit": 1})
    assert len(page["entries"]) == 1
    last = await client.memories("GET", "/n/entries", params={"limit": 1, "cursor": page["cursor"]})
    assert last["cursor"] is None
    assert {one["text"] for one in page["entries"] + last["entries"]} == {HELLO, "Press <g1>it</g1>."}
    [found] = (await client.memories("GET", "/n/entries", params={"find": "good MORNING", **EN_JA}))["entries"]
    assert (found["text"], found["translation"], found["source"], found["target"]) == (HELLO, KONNICHIWA, "en", "ja")
    await client.memories("DELETE", f"/n/entries/{found['id']}", 204)
    assert [one["memory"] for one in await client.translate([HELLO, "No."])] == [None, None]
    await client.memories("DELETE", "/n", 204)
    assert (await client.memories("GET", "/n", 404))["error"]["code"] == "unknown_memory"


async def test_a_key_sees_and_uses_its_own_memories_alone(client: Client) -> None:
    made = await client.memories("POST", status=201, json={"name": "m"})
    await client.add((HELLO, KONNICHIWA))
    other = client.as_("b")
    assert (await other.memories("GET"))["memories"] == []
    for method, path in (
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/entries"),
        ("GET", "/export"),
        ("DELETE", "/entries/x"),
    ):
        await other.memories(method, f"/{made['id']}{path}", 404)
    [own], [others] = await client.translate(HELLO), await other.translate(HELLO)
    assert (own["memory"], others["memory"]) == ("whole", None)
    assert (await other.call("POST", "/v1/translate", 404, json={"text": "a", **EN_JA, "memory": made["id"]}))["error"][
        "code"
    ] == "unknown_memory"
    assert (await client.http.get("/v1/memories")).status_code == 401


async def test_the_answer_says_what_is_from_a_memory(client: Client) -> None:
    await client.memories("POST", status=201, json={"name": "m"})
    await client.add((HELLO, KONNICHIWA))
    whole, part, none = await client.translate([HELLO, f"- {HELLO}\n- See you.", "See you."])
    assert (whole["text"], whole["memory"], whole["remembered"], whole["confidence"]) == (KONNICHIWA, "whole", 1, None)
    assert (part["memory"], part["remembered"], none["memory"], none["remembered"]) == ("part", 1, None, 0)
    for memory, expected in ((False, None), (True, "whole"), ("m", "whole")):
        [found] = await client.translate(HELLO, memory=memory)
        assert found["memory"] == expected
    await client.call("POST", "/v1/translate", 404, json={"text": "a", **EN_JA, "memory": "other"})
    before = (await client.call("GET", "/v2/usage"))["character_count"]
    await client.translate(HELLO)
    assert (await client.call("GET", "/v2/usage"))["character_count"] == before + len(HELLO)  # as from the cache


async def test_every_api_is_answered_from_it(client: Client) -> None:
    await client.memories("POST", status=201, json={"name": "m"})
    await client.add((HELLO, KONNICHIWA))
    key = client.keys["a"]
    libre = await client.call("POST", "/translate", json={"q": HELLO, **EN_JA, "api_key": key})
    assert libre["translatedText"] == KONNICHIWA
    deepl = await client.call("POST", "/v2/translate", json={"text": [HELLO], "target_lang": "JA", "source_lang": "EN"})
    assert deepl["translations"][0]["text"] == KONNICHIWA
    chat = {"model": "dragoman/ja", "messages": [{"role": "user", "content": HELLO}]}
    assert (await client.call("POST", "/v1/chat/completions", json=chat))["choices"][0]["message"][
        "content"
    ] == KONNICHIWA


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("POST", "", {"json": {"name": ""}}, 422),
        ("POST", "", {"json": {"name": "m"}}, 409),
        ("POST", "", {"json": {}}, 422),
        ("PATCH", "/n", {"json": {"name": "m"}}, 409),
        ("POST", "/m/entries", {"json": {**EN_JA, "entries": [{"text": "a <x1/>", "translation": "b"}]}}, 422),
        ("POST", "/m/entries", {"json": {**EN_JA, "entries": [{"text": "a"}]}}, 422),
        (
            "POST",
            "/m/entries",
            {"json": {"source": "en", "target": "en", "entries": [{"text": "a", "translation": "b"}]}},
            422,
        ),
        (
            "POST",
            "/m/entries",
            {"json": {"source": "en", "target": "xx-no", "entries": [{"text": "a", "translation": "b"}]}},
            400,
        ),
        (
            "POST",
            "/m/entries",
            {"json": {**EN_JA, "entries": [{"text": f"{n}", "translation": "b"} for n in range(51)]}},
            413,
        ),
        ("GET", "/m/entries", {"params": {"cursor": "x"}}, 422),
        ("GET", "/m/entries", {"params": {"limit": "0"}}, 422),
        ("DELETE", "/m/entries/x", {}, 404),
        ("POST", "/import", {"params": {"name": "m"}, "content": b"<html/>"}, 400),
        ("POST", "/import", {"params": {"name": "a/b"}, "content": b"<tmx/>"}, 422),
        ("POST", "/import", {"params": {"name": "m"}, "content": b"x" * 3_100_000}, 413),
        ("POST", "/import", {"content": b"<tmx/>"}, 422),
    ],
)
async def test_what_is_refused(client: Client, method: str, path: str, options: dict[str, Any], status: int) -> None:
    for name in ("m", "n"):
        await client.memories("POST", status=201, json={"name": name})
    error = (await client.memories(method, path, status, **options))["error"]
    assert error["code"] and error["message"]
    assert (await client.memories("GET", "/m"))["entry_count"] == 0


def tmx_of(*entries: tuple[str, str], source: str = "en-US") -> bytes:
    units = "".join(
        f'<tu><tuv xml:lang="{source}"><seg>{text}</seg></tuv><tuv xml:lang="ja-JP"><seg>{translation}</seg></tuv></tu>'
        for text, translation in entries
    )
    return f'<tmx version="1.4"><header srclang="{source}"/><body>{units}</body></tmx>'.encode()


async def test_a_tmx_file_is_imported_used_and_exported(client: Client) -> None:
    content = tmx_of(
        (HELLO, KONNICHIWA),
        ('A <ph x="1"/>', "あ"),
        ('Press <bpt i="1"/>it<ept i="1"/>', '<bpt i="1"/>押す<ept i="1"/>'),
    )
    found = await client.memories("POST", "/import", params={"name": "tm"}, content=content)
    assert (found["added"], found["skipped"], found["memory"]["name"]) == (2, {"codes": 1}, "tm")
    assert found["memory"]["pairs"] == [{"source": "en-US", "target": "ja-JP", "entry_count": 2}]
    [hello, press] = await client.translate([HELLO, "Press <b>it</b>"], format="html")
    assert (hello["text"], press["text"]) == (KONNICHIWA, "<b>押す</b>")
    assert press["memory"] == "whole"
    again = await client.memories("POST", "/import", params={"name": "tm"}, content=tmx_of((HELLO, "おは。")))
    assert (again["added"], again["memory"]["id"], again["memory"]["entry_count"]) == (1, found["memory"]["id"], 2)
    exported = await client.memories("GET", "/tm/export")
    assert exported.headers["content-type"] == tmx.MEDIA_TYPE
    assert "tm.tmx" in exported.headers["content-disposition"]
    entries = {one.text: one.translation for one in tmx.read(exported.content, Counter())}
    assert entries == {HELLO: "おは。", "Press <g1>it</g1>": "<g1>押す</g1>"}
    too_many = tmx_of(*((f"Text {number}.", "あ") for number in range(51)))
    await client.memories("POST", "/import", 413, params={"name": "tm"}, content=too_many)
    await client.memories("GET", "/other/export", 404)


@pytest.mark.acceptance
async def test_the_edits_of_documents_are_a_memory(client: Client) -> None:
    files = {"file": ("a.md", b"Can I *pay* now?\n")}
    document = await client.call("POST", "/v1/documents", 201, data={"target": "ja"}, files=files)
    await until_equal(lambda: client.call("GET", f"/v1/documents/{document['id']}"), "state", "done")
    place = f"/v1/documents/{document['id']}/segments"
    await client.call("PATCH", f"{place}/0", json={"translation": "いま<g1>払え</g1>ますか？"})
    [stored] = (await client.memories("GET"))["memories"]
    assert (stored["name"], stored["pairs"]) == ("edits", [{**EN_JA, "entry_count": 1}])
    [found] = await client.translate("Can I <i>pay</i> now?", format="html")
    assert (found["text"], found["memory"]) == ("いま<i>払え</i>ますか？", "whole")
    for memory, expected in (("true", True), ("false", False), ("edits", True)):
        again = await client.call("POST", "/v1/documents", 201, data={"target": "ja", "memory": memory}, files=files)
        await until_equal(lambda id=again["id"]: client.call("GET", f"/v1/documents/{id}"), "state", "done")
        [segment] = (await client.call("GET", f"/v1/documents/{again['id']}/segments"))["segments"]
        assert (segment["memory"], segment["edited"]) == (expected, False)
        await client.call("DELETE", f"/v1/documents/{again['id']}", 204)
    await client.call("POST", "/v1/documents", 404, data={"target": "ja", "memory": "other"}, files=files)
    await client.call("DELETE", f"/v1/documents/{document['id']}", 204)


async def test_what_is_suggested_is_a_memory(client: Client) -> None:
    assert (await client.call("GET", "/frontend/settings"))["suggestions"] is True
    suggestion = {"q": HELLO, "s": KONNICHIWA, **EN_JA}
    assert await client.call("POST", "/suggest", json=suggestion) == {"success": True}
    assert await client.call("POST", "/suggest", data={**suggestion, "s": "おは。"}) == {"success": True}
    libre = await client.call("POST", "/translate", json={"q": HELLO, **EN_JA})
    assert libre["translatedText"] == "おは。"
    assert [one["name"] for one in (await client.memories("GET"))["memories"]] == ["suggestions"]
    for missing in suggestion:
        body = {name: value for name, value in suggestion.items() if name != missing}
        assert missing in (await client.call("POST", "/suggest", 400, json=body))["error"]
    await client.call("POST", "/suggest", 400, json={**suggestion, "q": "<g1>a</g1>"})
    assert (await client.http.post("/suggest", json=suggestion)).status_code == 400


async def test_suggestions_are_refused_where_the_operator_does_not_want_them() -> None:
    async with served(fake_service()) as http:
        assert (await http.get("/frontend/settings")).json()["suggestions"] is False
        answer = await http.post("/suggest", json={"q": HELLO, "s": KONNICHIWA, **EN_JA})
        assert (answer.status_code, answer.json()) == (403, {"error": "Suggestions are disabled on this server."})
        assert (await http.get("/v1/memories")).status_code == 404


async def test_pages_of_other_origins_neither_read_nor_change_memories(client: Client) -> None:
    other = {"Origin": "https://other.example"}
    for method, path in (
        ("POST", "/v1/memories"),
        ("DELETE", "/v3/translation_memories/x"),
        ("POST", "/v1/memories/import?name=x"),
    ):
        await client.call(method, path, 403, headers=other)
    answer = await client.http.get("/v1/memories", headers={"X-API-Key": client.keys["a"], **other})
    assert "access-control-allow-origin" not in answer.headers


async def test_segments_from_memories_are_counted(tmp_path: Path) -> None:
    service, _, _ = await keyed_service(
        tmp_path, settings=Settings(auth=AuthSettings(mode="none"), cache=CacheSettings(max_bytes=0))
    )
    async with served(service) as http:
        await http.post("/v1/memories", json={"name": "m"})
        body = {**EN_JA, "entries": [{"text": HELLO, "translation": KONNICHIWA}]}
        await http.post("/v1/memories/m/entries", json=body)
        await http.post("/v1/translate", json={"text": [HELLO, f"- {HELLO}\n- See you."], **EN_JA})
        assert service.metrics.registry.get_sample_value("dragoman_memory_segments_total") == 2


# ---- the command


async def run(client: Client, *arguments: str) -> Result:
    """The command in another thread, as its server is in this one."""
    environment = {KEY_VARIABLE: client.keys[client.name]}
    line = [*arguments, "--url", str(client.http.base_url)]
    return await asyncio.to_thread(CliRunner().invoke, command, line, env=environment)


async def test_the_command_imports_lists_exports_and_deletes(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "our terms.tmx"
    file.write_bytes(tmx_of((HELLO, KONNICHIWA), ('A <ph x="1"/>', "あ")))
    imported = await run(client, "import", str(file))
    assert (imported.exit_code, imported.exception) == (0, None)
    listed = (await run(client, "list", "--json")).stdout
    assert '"our terms"' in listed and '"entry_count": 1' in listed
    assert "our terms" in (await run(client, "list")).stdout
    exported = await run(client, "export", "our terms")
    assert [*tmx.read(exported.stdout_bytes, Counter())] == [tmx.TmxEntry("en-US", "ja-JP", HELLO, KONNICHIWA)]
    out = tmp_path / "out.tmx"
    assert (await run(client, "export", "our terms", "--out", str(out))).exit_code == 0
    assert out.read_bytes() == exported.stdout_bytes
    assert isinstance((await run(client, "export", "our terms", "--out", str(out))).exception, ConfigError)
    assert (await run(client, "export", "our terms", "--out", str(out), "--overwrite")).exit_code == 0
    assert (await run(client, "delete", "our terms")).exit_code == 0
    assert (await client.memories("GET"))["memories"] == []


async def test_what_is_wrong_is_one_error_of_the_command(client: Client, tmp_path: Path) -> None:
    (tmp_path / "a.tmx").write_text("no TMX")
    for arguments in (
        ("import", str(tmp_path / "none.tmx")),
        ("import", str(tmp_path / "a.tmx")),
        ("export", "none"),
        ("delete", "none"),
    ):
        assert isinstance((await run(client, *arguments)).exception, ConfigError), arguments


def on_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What arrives is written to a device that is full."""
    begin = Uploads.begin

    def begun(uploads: Uploads, account_id: str) -> Upload:
        upload = begin(uploads, account_id)
        (upload.path / SOURCE).symlink_to("/dev/full")
        return upload

    monkeypatch.setattr(Uploads, "begin", begun)


async def test_a_file_for_which_the_disk_has_no_space_is_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_full_disk(monkeypatch)
    answer = await client.memories("POST", "/import?name=m", 503, content=b"<tmx/>")
    assert answer["error"]["code"] == "disk_full"
    assert (await client.memories("GET"))["memories"] == []


async def test_a_file_for_which_there_is_no_process_may_be_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = f"import os\ndef fork():\n    raise BlockingIOError({errno.EAGAIN}, 'no processes')\nos.fork = fork\n"
    (tmp_path / "sitecustomize.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    service, database, keys = await keyed_service(tmp_path, Account("", "a"))
    async with served(service) as http:
        client = Client(http, keys, "a")
        answer = await client.memories("POST", "/import?name=m", 503, content=b"<tmx/>")
        assert answer["error"]["code"] == "unavailable"
        assert (await client.memories("GET"))["memories"] == []
    await database.close()


async def test_texts_are_found_in_any_case_of_any_script(client: Client) -> None:
    await client.memories("POST", status=201, json={"name": "m"})
    await client.add(("Привет, мир", "Große Straße"), ("Yes.", "はい"))
    for find in ("привет", "Привет", "ПРИВЕТ", "STRASSE", "straße"):
        found = await client.memories("GET", "/m/entries", params={"find": find})
        assert [one["text"] for one in found["entries"]] == ["Привет, мир"], find
        found = await client.call("GET", "/v3/translation_memories/m/segments", params={"filter_text": find})
        assert [one["source_text"] for one in found["segments"]] == ["Привет, мир"], find


async def test_the_entries_of_a_body_are_checked_one_by_one(client: Client) -> None:
    await client.memories("POST", status=201, json={"name": "m"})
    good = {"text": "a", "translation": "b"}
    for entries, place in (
        ({}, "entries"),
        ("x", "entries"),
        ([good, "x"], "entries.1"),
        ([good, {"text": "a"}], "entries.1.translation"),
        ([good, {**good, "text": 1}], "entries.1.text"),
        ([good, {**good, "more": 1}], "entries.1.more"),
    ):
        answer = await client.memories("POST", "/m/entries", 422, json={**EN_JA, "entries": entries})
        assert answer["error"]["param"] == place
    assert (await client.memories("GET", "/m"))["entry_count"] == 0


# ---- similar entries


async def test_number_and_similarity_of_examples_have_bounds(client: Client) -> None:
    await client.memories("POST", "", 201, json={"name": "m"})
    await client.add((HELLO, KONNICHIWA))
    [one] = await client.translate(HELLO, memory_examples=10, memory_similarity=99.5)
    assert (one["text"], one["memory"]) == (KONNICHIWA, "whole")
    for name, value in (
        ("memory_examples", 11),
        ("memory_examples", -1),
        ("memory_similarity", 101),
        ("memory_similarity", "x"),
    ):
        answer = await client.call("POST", "/v1/translate", 422, json={"text": HELLO, **EN_JA, name: value})
        assert answer["error"]["param"] == name
