"""Whose a translation memory is, in each API that knows of them: a key's own, another's, the server's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.settings import AuthSettings, CacheSettings, DocumentSettings, MemorySettings, Settings
from dragoman.storage.collections import SERVER
from dragoman.storage.memories import EDITS, SUGGESTIONS
from dragoman.types import Account
from tests.api.owners_server import OwnersServer
from tests.api.test_owners import named, references
from tests.serving import keyed_service, served

PAIR = {"source": "en", "target": "ja"}
DEEPL_PAIR = {"source_lang": "en", "target_lang": "ja"}
TEXT = "The server is new."
ENTRIES = {**PAIR, "entries": [{"text": "Yes.", "translation": "はい"}]}
FILE = (
    '<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>Yes.</seg></tuv>'
    '<tuv xml:lang="ja"><seg>はい</seg></tuv></tu></body></tmx>'
)


class Server(OwnersServer):
    """With a memory of each name that is of the key of this name, and others that the server owns."""

    async def listed(self, key: str) -> dict[str, bool]:
        answer = await self.call(key, "GET", "/v1/memories")
        return {one["name"]: one["shared"] for one in answer.json()["memories"]}

    async def translated(self, key: str, text: str = TEXT, **options: Any) -> tuple[str | None, str]:
        answer = await self.call(key, "POST", "/v1/translate", json={"text": text, **PAIR, **options})
        [one] = answer.json()["translations"]
        return one["memory"], one["text"]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    settings = Settings(
        auth=AuthSettings(mode="keys"),
        cache=CacheSettings(max_bytes=0),
        documents=DocumentSettings(folder=str(tmp_path / "files")),
        memory=MemorySettings(suggestions=True),
    )
    accounts = (Account("", "a"), Account("", "b"), Account("", "operator", role="operator"))
    service, _, keys = await keyed_service(tmp_path, *accounts, settings=settings)
    async with served(service) as http:
        made = Server(http, service, keys)
        owners = {name: (await service.accounts.authenticate(key)).id for name, key in keys.items()}
        for name, owner in (*owners.items(), ("shared", SERVER), (EDITS, SERVER), (SUGGESTIONS, SERVER)):
            id = await service.memories.add_texts(owner, name, "en", "ja", [(f"{name}?", f"{name}。")], create=True)
            made.stored[name] = await service.memories.store.get(owner, id)
        yield made


def import_path(reference: str) -> str:
    return f"/v1/memories/import?name={reference}"


READS: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/v1/memories/{}", {}),
    ("GET", "/v1/memories/{}/entries", {}),
    ("GET", "/v1/memories/{}/export", {}),
    ("GET", "/v3/translation_memories/{}", {}),
    ("GET", "/v3/translation_memories/{}/segments", {}),
    ("POST", "/v3/translation_memories/{}/export", {}),
]
CHANGES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/v1/memories/{}/entries", {"json": ENTRIES}),
    ("DELETE", "/v1/memories/{}/entries/x", {}),
    ("PATCH", "/v1/memories/{}", {"json": {"name": "new"}}),
]
DELETIONS = ("/v1/memories/{}", "/v3/translation_memories/{}")
USES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/translate", {"json": {"text": TEXT, **PAIR, "memory": "{}"}}),
    ("/v2/translate", {"json": {"text": [TEXT], **DEEPL_PAIR, "translation_memory_id": "{}"}}),
    ("/v1/documents", {"files": {"file": ("a.txt", TEXT.encode())}, "data": {**PAIR, "memory": "{}"}}),
    (
        "/v2/document",
        {"files": {"file": ("a.txt", TEXT.encode())}, "data": {**DEEPL_PAIR, "translation_memory_id": "{}"}},
    ),
]


async def test_lists_have_the_key_s_own_and_those_that_are_shared(server: Server) -> None:
    for key in server.keys:
        assert await server.listed(key) == {key: False, "shared": True}
        answer = (await server.call(key, "GET", "/v3/translation_memories")).json()
        assert {one["name"] for one in answer["translation_memories"]} == {key, "shared"}


async def test_what_another_key_has_and_what_the_server_keeps_is_not_found_and_not_used(server: Server) -> None:
    for name in ("b", EDITS, SUGGESTIONS):
        stored = server.stored[name]
        for reference in references(stored):
            requests = (*READS, *CHANGES, *(("DELETE", path, dict[str, Any]()) for path in DELETIONS))
            for method, path, options in requests:
                for key in ("a", "operator"):
                    answer = await server.call(key, method, path.format(reference), **options)
                    assert answer.status_code == 404, (method, path, answer.text)
            for path, options in USES:
                answer = await server.call("a", "POST", path, **named(options, reference))
                assert answer.status_code == 404, (path, answer.text)
        assert (await server.call("a", "POST", import_path(stored.id), content=FILE)).status_code == 422  # no name
        for key in ("a", "operator"):
            assert (await server.translated(key, f"{name}?"))[0] is None
        assert await server.service.memories.store.get(stored.account_id, name) == stored


async def test_own_and_shared_ones_are_read_and_used(server: Server) -> None:
    for name in ("a", "shared"):
        assert await server.translated("a", f"{name}?") == ("whole", f"{name}。")
        for reference in references(server.stored[name]):
            for method, path, options in READS:
                answer = await server.call("a", method, path.format(reference), **options)
                assert answer.is_success, (path, answer.text)
            for path, options in USES:
                answer = await server.call("a", "POST", path, **named(options, reference))
                assert answer.is_success, (path, answer.text)
            assert (await server.translated("a", f"{name}?", memory=reference))[0] == "whole"
    assert (await server.translated("a", "shared?", memory="a"))[0] is None
    assert (await server.translated("a", "shared?", memory=False))[0] is None


async def test_shared_ones_are_changed_by_operators_alone(server: Server) -> None:
    shared, store = server.stored["shared"], server.service.memories.store
    deletions = [("DELETE", path, dict[str, Any]()) for path in DELETIONS]
    for reference in references(shared):
        for method, path, options in (*CHANGES, *deletions):
            answer = await server.call("a", method, path.format(reference), **options)
            assert answer.status_code == 403, (method, path, answer.text)
    assert (await server.call("a", "POST", import_path(shared.id), content=FILE)).status_code == 403
    assert await store.get(SERVER, "shared") == shared
    [entry] = (await server.call("a", "GET", f"/v1/memories/{shared.id}/entries")).json()["entries"]
    added = await server.call("operator", "POST", "/v1/memories/shared/entries", json=ENTRIES)
    assert (added.json()["shared"], added.json()["entry_count"]) == (True, 2)
    assert await server.translated("a", "Yes.") == ("whole", "はい")
    other = FILE.replace("Yes.", "No.")
    imported = (await server.call("operator", "POST", import_path(shared.id), content=other)).json()
    assert (imported["memory"]["id"], imported["memory"]["entry_count"]) == (shared.id, 3)
    path = f"/v1/memories/{shared.id}/entries/{entry['id']}"
    assert (await server.call("operator", "DELETE", path)).status_code == 204
    assert (await server.translated("a", "shared?"))[0] is None
    renamed = await server.call("operator", "PATCH", "/v1/memories/shared", json={"name": "manuals"})
    assert (renamed.json()["id"], renamed.json()["shared"]) == (shared.id, True)
    hidden = await server.call("operator", "PATCH", "/v1/memories/manuals", json={"name": EDITS})
    assert (hidden.status_code, hidden.json()["error"]["param"]) == (422, "name")
    assert await server.listed("b") == {"b": False, "manuals": True}


async def test_an_operator_shares_a_memory_and_takes_it_back(server: Server) -> None:
    assert (await server.call("a", "PATCH", "/v1/memories/a", json={"shared": True})).status_code == 403
    path = f"/v1/memories/{server.stored['operator'].id}"
    assert (await server.call("operator", "PATCH", path, json={"shared": True})).json()["shared"] is True
    assert (await server.translated("a", "operator?"))[0] == "whole"
    assert (await server.call("operator", "PATCH", path, json={"shared": False})).json()["shared"] is False
    assert (await server.translated("a", "operator?"))[0] is None
    await server.call("operator", "PATCH", path, json={"name": EDITS})
    assert (await server.call("operator", "GET", path)).json()["shareable"] is False
    assert (await server.call("operator", "PATCH", path, json={"shared": True})).status_code == 422


async def test_a_name_is_one_s_own_before_it_is_the_shared_one_s(server: Server) -> None:
    shared = server.stored["shared"]
    for key in ("a", "operator"):  # an import makes one's own, an operator's too
        answer = await server.call(key, "POST", import_path("shared"), content=FILE)
        assert answer.json()["memory"]["shared"] is False
    assert (await server.call("a", "POST", "/v1/memories/shared/entries", json=ENTRIES)).json()["entry_count"] == 1
    assert (await server.translated("a", "Yes.", memory="shared"))[0] == "whole"
    assert (await server.translated("a", "shared?", memory="shared"))[0] is None
    assert (await server.translated("a", "shared?"))[0] == "whole"
    for path in DELETIONS:
        await server.call("operator", "POST", "/v1/memories", json={"name": "shared"})
        answers = [await server.call("operator", "DELETE", path.format("shared")) for _ in range(2)]
        assert [one.status_code for one in answers] == [204, 404]
        assert shared.id in answers[1].text
    assert await server.service.memories.store.get("c", "shared") == shared
    assert (await server.call("operator", "DELETE", DELETIONS[1].format(shared.id))).status_code == 204
    assert (await server.translated("b", "shared?"))[0] is None
    assert await server.listed("b") == {"b": False}


async def test_what_a_key_edits_and_suggests_is_its_own(server: Server) -> None:
    body = {"q": "Yes.", "s": "はい", **PAIR}
    assert (await server.call("operator", "POST", "/suggest", json=body)).status_code == 200
    assert await server.listed("operator") == {"operator": False, "shared": True, SUGGESTIONS: False}
    assert [(await server.translated(key, "Yes."))[0] for key in ("operator", "a")] == ["whole", None]


async def test_a_server_without_keys_owns_all_and_shares_what_it_can_name(tmp_path: Path) -> None:
    service, _, _ = await keyed_service(tmp_path, settings=Settings(auth=AuthSettings(mode="none")))
    async with served(service) as http:
        for name in ("m", EDITS):
            assert (await http.post("/v1/memories", json={"name": name})).status_code == 201
            assert (await http.post(f"/v1/memories/{name}/entries", json=ENTRIES)).status_code == 200
        listed = (await http.get("/v1/memories")).json()["memories"]
        assert {one["name"]: one["shared"] for one in listed} == {"m": True, EDITS: False}
        for name in ("m", EDITS):
            assert (await http.delete(f"/v1/memories/{name}")).status_code == 204
