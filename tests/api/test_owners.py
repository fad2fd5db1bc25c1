"""Whose a stored glossary is, in each API that knows of them: a key's own, another's, the server's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.settings import AuthSettings, CacheSettings, DocumentSettings, Settings
from dragoman.storage.collections import SERVER, StoredCollection
from dragoman.types import Account
from tests.agents import agent
from tests.api.owners_server import OwnersServer
from tests.serving import keyed_service, served

PAIR = {"source": "en", "target": "ja"}
DEEPL_PAIR = {"source_lang": "en", "target_lang": "ja"}
DICTIONARY = {**DEEPL_PAIR, "entries": "server\tサーバー", "entries_format": "tsv"}
TEXT = "The server is new."
FILE = {"file": ("a.txt", TEXT.encode())}


class Server(OwnersServer):
    """With a glossary of each name that is of the key of this name, and one that is shared."""

    async def names(self, key: str, path: str) -> set[str]:
        answer = await self.call(key, "GET", path)
        return {one["name"] for one in answer.json()["glossaries"]}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    settings = Settings(
        auth=AuthSettings(mode="keys"),
        cache=CacheSettings(max_bytes=0),
        documents=DocumentSettings(folder=str(tmp_path / "files")),
    )
    accounts = (Account("", "a"), Account("", "b"), Account("", "operator", role="operator"))
    service, _, keys = await keyed_service(tmp_path, *accounts, settings=settings)
    async with served(service) as http:
        made = Server(http, service, keys)
        owners = {name: (await service.accounts.authenticate(key)).id for name, key in keys.items()} | {
            "shared": SERVER
        }
        for name, owner in owners.items():
            terms = {"server": f"鯖{name}"}
            made.stored[name] = await service.glossaries.create(owner, name, {("en", "ja"): terms})
        yield made


READS: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/v1/glossaries/{}", {}),
    ("GET", "/v1/glossaries/{}/entries", {"params": PAIR}),
    ("GET", "/v2/glossaries/{}", {}),
    ("GET", "/v2/glossaries/{}/entries", {}),
    ("GET", "/v3/glossaries/{}", {}),
    ("GET", "/v3/glossaries/{}/entries", {"params": DEEPL_PAIR}),
]
CHANGES: list[tuple[str, str, dict[str, Any]]] = [
    ("PUT", "/v1/glossaries/{}/entries", {"params": PAIR, "json": {"entries": {"a": "b"}}}),
    ("PATCH", "/v1/glossaries/{}/entries", {"params": PAIR, "json": {"entries": {"a": "b"}}}),
    ("PATCH", "/v3/glossaries/{}", {"json": {"dictionaries": [DICTIONARY]}}),
    ("PUT", "/v3/glossaries/{}/dictionaries", {"json": DICTIONARY}),
    ("PATCH", "/v3/glossaries/{}", {"json": {"name": "new"}}),
    ("DELETE", "/v3/glossaries/{}/dictionaries", {"params": DEEPL_PAIR}),
    ("DELETE", "/v1/glossaries/{}/entries", {"params": PAIR}),
]
DELETIONS: list[tuple[str, str, dict[str, Any]]] = [
    (("DELETE"), f"/{version}/glossaries/{{}}", {}) for version in ("v1", "v2", "v3")
]
USES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/translate", {"json": {"text": TEXT, **PAIR, "glossary": "{}"}}),
    ("/v2/translate", {"json": {"text": [TEXT], **DEEPL_PAIR, "glossary_id": "{}"}}),
    ("/v2/translate", {"json": {"text": [TEXT], **DEEPL_PAIR, "glossary_ids": ["{}"]}}),
    ("/v1/documents", {"files": FILE, "data": {**PAIR, "glossary": "{}"}}),
    ("/v2/document", {"files": FILE, "data": {**DEEPL_PAIR, "glossary_id": "{}"}}),
]


def named(options: Any, reference: str) -> Any:
    """The options of a request with a reference in them."""
    if isinstance(options, dict):
        return {name: named(value, reference) for name, value in options.items()}
    if isinstance(options, list):
        return [named(value, reference) for value in options]
    return reference if options == "{}" else options


def references(stored: StoredCollection) -> tuple[str, str]:
    return stored.id, stored.name


@pytest.mark.parametrize("path", ["/v1/glossaries", "/v2/glossaries", "/v3/glossaries"])
async def test_a_list_has_the_key_s_own_and_those_that_are_shared(server: Server, path: str) -> None:
    for key in server.keys:
        assert await server.names(key, path) == {key, "shared"}


async def test_the_native_api_says_what_is_shared(server: Server) -> None:
    listed = (await server.call("a", "GET", "/v1/glossaries")).json()["glossaries"]
    assert {one["name"]: one["shared"] for one in listed} == {"a": False, "shared": True}


async def test_another_key_s_glossary_is_not_found_and_stays(server: Server) -> None:
    for reference in references(server.stored["b"]):
        for method, path, options in (*READS, *CHANGES, *DELETIONS):
            for key in ("a", "operator"):
                answer = await server.call(key, method, path.format(reference), **options)
                assert answer.status_code == 404, (method, path, answer.text)
        for path, options in USES:
            answer = await server.call("a", "POST", path, **named(options, reference))
            assert answer.status_code == 404, (path, answer.text)
        async with agent(server.http, server.keys["a"]) as client:
            translate = {"text": TEXT, **PAIR, "glossary": reference}
            document = {"file_name": "a.txt", "text": TEXT, **PAIR, "glossary": reference}
            for tool, arguments in (("translate", translate), ("translate_document", document)):
                found = await client.call_tool(tool, arguments)
                assert found.is_error and "unknown_glossary" in found.content[0].text, tool  # type: ignore[union-attr]
    assert await server.service.glossaries.get(server.stored["b"].account_id, "b") == server.stored["b"]


async def test_an_own_glossary_and_a_shared_one_are_read_and_used(server: Server) -> None:
    for name in ("a", "shared"):
        for reference in references(server.stored[name]):
            for method, path, options in READS:
                answer = await server.call("a", method, path.format(reference), **options)
                assert answer.status_code == 200, (path, answer.text)
            for path, options in USES:
                answer = await server.call("a", "POST", path, **named(options, reference))
                assert answer.is_success, (path, answer.text)
                assert "document" in path or f"鯖{name}" in answer.text
    async with agent(server.http, server.keys["a"]) as client:
        found = (await client.call_tool("list_glossaries", {})).structured_content
        assert {one["name"] for one in found["glossaries"]} == {"a", "shared"}  # type: ignore[index]


async def test_a_shared_glossary_is_changed_by_operators_alone(server: Server) -> None:
    shared = server.stored["shared"]
    for reference in references(shared):
        for method, path, options in (*CHANGES, *DELETIONS):
            answer = await server.call("a", method, path.format(reference), **options)
            assert answer.status_code == 403, (method, path, answer.text)
    assert await server.service.glossaries.get(SERVER, "shared") == shared
    for method, path, options in (*CHANGES, DELETIONS[0]):
        answer = await server.call("operator", method, path.format(shared.id), **options)
        assert answer.is_success, (method, path, answer.text)
    assert await server.names("a", "/v1/glossaries") == {"a"}


async def test_an_own_glossary_is_changed_and_deleted_and_hides_a_shared_one_of_its_name(server: Server) -> None:
    body = {"name": "shared", "dictionaries": [{**PAIR, "entries": {"server": "鯖own"}}]}
    assert (await server.call("a", "POST", "/v1/glossaries", json=body)).status_code == 201
    assert (await server.call("a", "POST", "/v1/glossaries", json=body)).status_code == 409
    for key, expected in (("a", "鯖own"), ("b", "鯖shared")):
        answer = await server.call(key, "POST", "/v1/translate", json={"text": TEXT, **PAIR, "glossary": "shared"})
        assert expected in answer.text
    for method, path, options in CHANGES:
        answer = await server.call("b", method, path.format(server.stored["b"].id), **options)
        assert answer.is_success, (method, path, answer.text)
    for (method, path, _), name in zip(DELETIONS, ("b", "a", "operator"), strict=True):
        assert (await server.call(name, method, path.format(server.stored[name].id))).status_code == 204
    assert (await server.call("a", "DELETE", "/v1/glossaries/shared")).status_code == 204
    assert await server.names("a", "/v1/glossaries") == {"shared"}


@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
async def test_a_deletion_that_is_repeated_leaves_the_shared_one_of_the_name(server: Server, version: str) -> None:
    body = {"name": "shared", "dictionaries": [{**PAIR, "entries": {"server": "鯖own"}}]}
    assert (await server.call("operator", "POST", "/v1/glossaries", json=body)).status_code == 201
    path, shared = f"/{version}/glossaries/{{}}", server.stored["shared"]
    answers = [await server.call("operator", "DELETE", path.format("shared")) for _ in range(3)]
    assert [one.status_code for one in answers] == [204, 404, 404]
    assert shared.id in answers[1].text
    assert await server.service.glossaries.get(SERVER, "shared") == shared
    assert (await server.call("operator", "DELETE", path.format(shared.id))).status_code == 204


async def test_an_operator_shares_a_glossary_and_takes_it_back(server: Server) -> None:
    path = f"/v1/glossaries/{server.stored['operator'].id}"
    answer = await server.call("a", "PATCH", f"/v1/glossaries/{server.stored['a'].id}", json={"shared": True})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    for name, status in (("a/b", 422), ("shared", 409)):
        answer = await server.call("operator", "PATCH", path, json={"name": name, "shared": True})
        assert answer.status_code == status
        assert (await server.call("a", "GET", path)).status_code == 404, "what is refused is not shared"
    shared = (await server.call("operator", "PATCH", path, json={"name": "terms", "shared": True})).json()
    assert (shared["name"], shared["shared"], shared["changeable"], shared["shareable"]) == ("terms", True, True, True)
    seen = (await server.call("a", "GET", path)).json()
    assert (seen["shared"], seen["changeable"], seen["shareable"]) == (True, False, False)
    assert (await server.call("a", "PATCH", path, json={"name": "mine"})).status_code == 403
    taken = (await server.call("operator", "PATCH", path, json={"shared": False})).json()
    assert (taken["name"], taken["shared"]) == ("terms", False)
    assert (await server.call("a", "GET", path)).status_code == 404
    assert (await server.call("operator", "PATCH", path, json={})).status_code == 400
    assert (await server.call("operator", "PATCH", path, json={"name": "a/b"})).status_code == 422


async def test_an_unknown_glossary_s_error_names_no_route_of_another_api(server: Server) -> None:
    async with agent(server.http, server.keys["a"]) as client:
        found = await client.call_tool("translate", {"text": TEXT, **PAIR, "glossary": "none"})
    assert "there is no glossary 'none'" in found.content[0].text  # type: ignore[union-attr]
    assert "/v1/" not in found.content[0].text  # type: ignore[union-attr]


async def test_a_server_without_keys_owns_all(tmp_path: Path) -> None:
    settings = Settings(auth=AuthSettings(mode="none"))
    service, _, keys = await keyed_service(tmp_path, Account("", "a"), settings=settings)
    async with served(service) as http:
        made = await http.post("/v1/glossaries", json={"name": "g"}, headers={"X-API-Key": keys["a"]})
        assert made.json()["shared"] is True
        assert (await http.patch(f"/v3/glossaries/{made.json()['id']}", json={"name": "h"})).status_code == 200
        assert [one["name"] for one in (await http.get("/v1/glossaries")).json()["glossaries"]] == ["h"]
        assert (await http.delete("/v2/glossaries/h")).status_code == 204


async def test_where_keys_are_not_required_one_has_its_own(tmp_path: Path) -> None:
    settings = Settings(auth=AuthSettings(mode="auto"))  # for this machine alone
    service, _, keys = await keyed_service(tmp_path, Account("", "a"), settings=settings)
    async with served(service) as http:
        headers = {"X-API-Key": keys["a"]}
        assert (await http.post("/v1/glossaries", json={"name": "g"})).json()["shared"] is True
        assert (await http.post("/v1/glossaries", json={"name": "g"}, headers=headers)).json()["shared"] is False
        for options, number in (({}, 1), ({"headers": headers}, 2)):
            assert len((await http.get("/v1/glossaries", **options)).json()["glossaries"]) == number
