"""`/v1/glossaries` over a SQLite file and the fake pipeline."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest

from dragoman.api.glossaries import parse_csv, parse_tsv, write_csv, write_tsv
from dragoman.errors import BodyTooLarge, InvalidGlossary
from dragoman.pipelines.fake import FakePipeline
from dragoman.service.service import TranslationService
from dragoman.settings import ServerSettings, Settings, StorageSettings
from dragoman.storage.database import Database
from dragoman.storage.glossaries import MAX_ENTRIES
from tests.serving import echoing, fake_service, served, service_over

ENTRIES = {"queue": "Warteschlange", "server": "Server"}
EN_DE = {"source": "en", "target": "de"}


def service_with(folder: Path) -> TranslationService:
    settings = Settings(
        server=ServerSettings(max_body_bytes=20_000), storage=StorageSettings(f"sqlite:///{folder}/dragoman.db")
    )
    return service_over(FakePipeline(echoing()), settings, database=Database(settings.storage.url))


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with served(service_with(tmp_path)) as client:
        yield client


async def created(client: httpx.AsyncClient, name: str = "IT") -> str:
    body = {"name": name, "dictionaries": [{**EN_DE, "entries": ENTRIES}]}
    answer = await client.post("/v1/glossaries", json=body)
    assert answer.status_code == 201
    return answer.json()["id"]


async def test_a_glossary_is_stored_listed_and_deleted(client: httpx.AsyncClient) -> None:
    glossary = await created(client)
    answer = (await client.get(f"/v1/glossaries/{glossary}")).json()
    assert answer["dictionaries"] == [{**EN_DE, "entry_count": 2}]
    assert (answer["name"], answer["version"]) == ("IT", 1)
    assert answer["created_at"].endswith("Z")
    assert (await client.get("/v1/glossaries")).json() == {"glossaries": [answer]}
    assert (await client.delete("/v1/glossaries/IT")).status_code == 204
    assert (await client.get("/v1/glossaries")).json() == {"glossaries": []}


async def test_entries_are_replaced_added_and_deleted(client: httpx.AsyncClient) -> None:
    await created(client)
    added = await client.patch("/v1/glossaries/IT/entries", params=EN_DE, json={"entries": {"cache": "Cache"}})
    assert (added.json()["version"], added.json()["dictionaries"][0]["entry_count"]) == (2, 3)
    await client.put("/v1/glossaries/IT/entries", params=EN_DE, json={"entries": {"a": "b"}})
    assert (await client.get("/v1/glossaries/IT/entries", params=EN_DE)).json() == {
        **EN_DE,
        "version": 3,
        "entries": {"a": "b"},
    }
    changes = {"entries": {"a": None, "none": None, "c": "d"}}
    await client.patch("/v1/glossaries/IT/entries", params=EN_DE, json=changes)
    assert (await client.get("/v1/glossaries/IT/entries", params=EN_DE)).json()["entries"] == {"c": "d"}
    assert (await client.put("/v1/glossaries/IT/entries", params=EN_DE, json=changes)).status_code == 422
    await client.patch("/v1/glossaries/IT/entries", params=EN_DE, json={"entries": {" c ": None}})
    assert (await client.get("/v1/glossaries/IT")).json()["dictionaries"] == []
    deleted = await client.delete("/v1/glossaries/IT/entries", params=EN_DE)
    assert (deleted.json()["version"], deleted.json()["dictionaries"]) == (6, [])


@pytest.mark.parametrize(
    ("kind", "body", "exported"),
    [
        (
            "text/tab-separated-values",
            '\ufeffserver\tServer\r\n\r\n queue \tWarte, "schlange"\n',
            'queue\tWarte, "schlange"\nserver\tServer\n',
        ),
        (
            "text/csv; charset=utf-8",
            'server,Server\r\nqueue,"Warte, ""schlange"""\r\n',
            'queue,"Warte, ""schlange"""\r\nserver,Server\r\n',
        ),
    ],
)
async def test_tables_are_imported_and_exported(client: httpx.AsyncClient, kind: str, body: str, exported: str) -> None:
    await created(client)
    path = "/v1/glossaries/IT/entries"
    answer = await client.put(path, params=EN_DE, content=body.encode(), headers={"Content-Type": kind})
    assert answer.status_code == 200
    plain = kind.partition(";")[0]
    table = await client.get(path, params=EN_DE, headers={"Accept": f"{plain}, */*;q=0.1"})
    assert table.headers["content-type"].startswith(plain)
    assert table.text == exported


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "code"),
    [
        ("GET", "/other", {}, 404, "unknown_glossary"),
        ("DELETE", "/other", {}, 404, "unknown_glossary"),
        ("GET", "/other/entries", {"params": EN_DE}, 404, "unknown_glossary"),
        ("GET", "/IT/entries", {"params": {"source": "en"}}, 422, "invalid_request"),
        ("GET", "/IT/entries", {"params": {"source": "en", "target": "zzz?"}}, 400, "unsupported_language"),
        ("PUT", "/IT/entries", {"params": EN_DE, "json": {"entries": {"a": ""}}}, 422, "invalid_request"),
        ("PUT", "/IT/entries", {"params": EN_DE, "json": {"entries": {"a": 1}}}, 422, "invalid_request"),
        ("PUT", "/IT/entries", {"params": EN_DE, "json": {"entry": {}}}, 422, "invalid_request"),
        ("PUT", "/IT/entries", {"params": EN_DE, "content": b"{"}, 400, "invalid_json"),
        (
            "PUT",
            "/IT/entries",
            {"params": EN_DE, "content": b"a\tb\tc", "headers": {"Content-Type": "text/tab-separated-values"}},
            422,
            "invalid_request",
        ),
        (
            "PUT",
            "/IT/entries",
            {"params": EN_DE, "content": b"\xff,a", "headers": {"Content-Type": "text/csv"}},
            422,
            "invalid_request",
        ),
        (
            "PUT",
            "/IT/entries",
            {"params": EN_DE, "content": b"a", "headers": {"Content-Type": "text/plain"}},
            422,
            "invalid_request",
        ),
        ("PATCH", "/IT/entries", {"params": EN_DE, "json": {"entries": {"x" * 30_000: "b"}}}, 413, "body_too_large"),
        ("POST", "", {"json": {"name": "IT"}}, 409, "glossary_exists"),
        ("POST", "", {"json": {"name": "a/b"}}, 422, "invalid_request"),
        ("POST", "", {"json": {"title": "x"}}, 422, "invalid_request"),
    ],
)
async def test_errors(
    client: httpx.AsyncClient, method: str, path: str, options: dict[str, object], status: int, code: str
) -> None:
    await created(client)
    answer = await client.request(method, f"/v1/glossaries{path}", **options)  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_a_server_without_a_database_has_no_glossaries() -> None:
    async with served(fake_service()) as client:
        assert (await client.get("/v1/glossaries")).status_code == 404


def test_tables_have_two_columns_and_a_term_has_one_translation() -> None:
    entries = {"a": "b", "c,d": 'e "f"'}
    assert parse_tsv(write_tsv(entries)) == parse_csv(write_csv(entries)) == entries
    assert parse_tsv("a\tb\na\tb\n") == {"a": "b"}
    for text, line in (("a\tb\na\tc\n", 2), ("a\n", 1)):
        with pytest.raises(InvalidGlossary, match=f"line {line}"):
            parse_tsv(text)
    with pytest.raises(InvalidGlossary, match="line 2"):
        parse_csv('a,b\n"c"d,e')


@pytest.mark.parametrize(("parse", "between"), [(parse_tsv, "\t"), (parse_csv, ",")])
def test_a_table_is_refused_where_it_exceeds_what_a_glossary_has(
    parse: Callable[[str], dict[str, str]], between: str
) -> None:
    with pytest.raises(BodyTooLarge):
        parse("".join(f"{number}{between}a\n" for number in range(MAX_ENTRIES + 1)))
    with pytest.raises(InvalidGlossary):
        parse(f"a{between}b\n{'a' + between * 1_000_000}b\n")
    assert len(parse("".join(f"{number}{between}a\n" for number in range(MAX_ENTRIES)))) == MAX_ENTRIES


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ({"queue": "Schlange", "server": ""}, "invalid_request"),
        ({"queue": "Schlange", "server": " "}, "invalid_request"),
        ({" ": "server"}, "invalid_request"),
        ({"server": "a\x00"}, "invalid_request"),
        ({"server": "\ud800"}, "untranslatable_text"),
    ],
)
async def test_terms_without_a_translation_are_refused_by_name(
    client: httpx.AsyncClient, entries: dict[str, str], code: str
) -> None:
    content = json.dumps({"text": "The server.", **EN_DE, "target": "ja", "glossary": entries})
    answer = await client.post("/v1/translate", content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
    if " " not in entries and code == "invalid_request":
        assert "server" in answer.json()["error"]["message"]
    body = json.dumps({"name": "g", "dictionaries": [{**EN_DE, "entries": entries}]})
    stored = await client.post("/v1/glossaries", content=body, headers={"Content-Type": "application/json"})
    assert stored.status_code in (400, 422)
    assert (await client.get("/v1/glossaries")).json() == {"glossaries": []}
