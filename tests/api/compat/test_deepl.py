"""DeepL's API over the fake pipeline: what clients send and are answered. Its own client, unmodified, is in tests/clients."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from dragoman.api.compat.deepl.languages import can_express, source_codes, target_tags
from dragoman.errors import (
    DeadlineExceeded,
    DragomanError,
    Draining,
    EngineFailed,
    EngineRejected,
    Forbidden,
    QueueFull,
    QuotaExceeded,
    RateLimited,
    Starting,
)
from dragoman.pipelines.fake import FakePipeline
from dragoman.prompts import catalog
from dragoman.service.service import TranslationService
from dragoman.settings import CacheSettings, ServerSettings, Settings, StorageSettings
from dragoman.storage.database import Database
from dragoman.types import ANONYMOUS, Event, Planned, PromptOptions
from tests.openapi import validator
from tests.serving import echoing, served, service_over

HELLO = "Where is the train station?"
ENTRIES = "queue\tWarteschlange\nserver\tServer"


def service_with(folder: Path) -> TranslationService:
    settings = Settings(
        server=ServerSettings(max_body_bytes=200_000, max_texts=1_000),
        storage=StorageSettings(f"sqlite:///{folder}/dragoman.db"),
        cache=CacheSettings(max_bytes=0),
    )
    return service_over(FakePipeline(echoing()), settings, database=Database(settings.storage.url))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> TranslationService:
    return service_with(tmp_path_factory.mktemp("deepl"))


@pytest.fixture(scope="module")
async def server(service: TranslationService) -> AsyncIterator[httpx.AsyncClient]:
    async with served(service) as client:
        yield client


@pytest.fixture
async def client(service: TranslationService, server: httpx.AsyncClient) -> AsyncIterator[httpx.AsyncClient]:
    """With a key, on a server without glossaries."""
    server.headers["Authorization"] = "DeepL-Auth-Key test"
    yield server
    for stored in await service.glossaries.list(None):
        await service.glossaries.delete(stored.account_id, stored.id)


def checked(answer: httpx.Response, schema: str, status: int = 200) -> Any:
    """The JSON of an answer that has a shape of DeepL's."""
    assert answer.status_code == status, answer.text
    assert answer.headers["x-trace-id"] == answer.headers["x-request-id"]
    body = answer.json()
    validator("deepl", schema).validate(body)
    return body


async def translated(client: httpx.AsyncClient, **body: Any) -> list[dict[str, Any]]:
    answer = await client.post("/v2/translate", json={"text": [HELLO], "target_lang": "JA", **body})
    return checked(answer, "Translations")["translations"]


# ---- translate


async def test_json_and_forms_are_one(client: httpx.AsyncClient) -> None:
    expected = {"detected_source_language": "EN", "text": "~" + HELLO, "billed_characters": len(HELLO)}
    assert await translated(client) == [expected]
    assert await translated(client, text=HELLO, source_lang="", preserve_formatting=True) == [expected]
    form = {"text": [HELLO, "", "Thank you."], "target_lang": "ja", "show_billed_characters": "1", "ignore_tags": "x,y"}
    answer = checked(await client.post("/v2/translate", data=form), "Translations")
    assert [one["text"] for one in answer["translations"]] == ["~" + HELLO, "", "~Thank you."]


@pytest.mark.parametrize("target", ["ja", "JA", "ja-JP", "ZH", "zh-hans", "ZH-HANS", "KO"])
@pytest.mark.parametrize("source", ["EN", "en", "en-US", None])
async def test_codes_and_variants(client: httpx.AsyncClient, source: str | None, target: str) -> None:
    [found] = await translated(client, source_lang=source, target_lang=target)
    assert found["detected_source_language"] == "EN"


async def test_tags_come_back_and_their_handling_is_named(client: httpx.AsyncClient) -> None:
    text = 'Press <x id="9"></x> now. <raw>Not this.</raw>'
    options = {"tag_handling": "xml", "ignore_tags": ["x", "raw"], "splitting_tags": "p,h1", "outline_detection": False}
    [found] = await translated(client, text=text, **options)
    assert '<x id="9"></x>' in found["text"]
    assert "<raw>Not this.</raw>" in found["text"]
    assert found["tag_handling_version"] == "v2"
    [found] = await translated(client, text="<p>Hello.</p>", tag_handling="html", tag_handling_version="v1")
    assert (found["text"], found["tag_handling_version"]) == ("<p>~Hello.</p>", "v1")


async def test_parameters_that_have_no_effect_are_accepted(client: httpx.AsyncClient) -> None:
    [found] = await translated(
        client,
        split_sentences="nonewlines",
        preserve_formatting="1",
        formality="prefer_more",
        context="A traveller speaks.",
        model_type="prefer_quality_optimized",
        enable_beta_languages=True,
        debug="1",
    )
    assert found["model_type_used"] == "quality_optimized"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"text": None}, "text"),
        ({"text": []}, "text"),
        ({"text": [1]}, "text"),
        ({"text": {"a": "b"}}, "text"),
        ({"text": "\ud800"}, "text"),
        ({"target_lang": None}, "target_lang"),
        ({"target_lang": "XX"}, "target_lang"),
        ({"target_lang": "FR"}, "target_lang"),
        ({"target_lang": ["JA", "KO"]}, "target_lang"),
        ({"source_lang": "XX"}, "source_lang"),
        ({"formality": "polite"}, "formality"),
        ({"formality": "more"}, "formality"),
        ({"split_sentences": "2"}, "split_sentences"),
        ({"preserve_formatting": "maybe"}, "preserve_formatting"),
        ({"tag_handling": "markdown"}, "tag_handling"),
        ({"tag_handling": "xml", "tag_handling_version": "v9"}, "tag_handling_version"),
        ({"model_type": "fast"}, "model_type"),
        ({"custom_instructions": ["Be brief."]}, "custom_instructions"),
        ({"custom_instructions": ["x"] * 11}, "custom_instructions"),
        ({"custom_instructions": ["x" * 301]}, "custom_instructions"),
        ({"style_id": "1"}, "style"),
        ({"translation_memory_threshold": "80"}, "translation_memory_threshold"),
        ({"glossary_id": "IT"}, "source_lang"),
        ({"source_lang": "EN", "glossary_ids": ["a"] * 6}, "glossary_ids"),
        ({"source_lang": "EN", "glossary_id": "a", "glossary_ids": ["a"]}, "glossary_ids"),
    ],
)
async def test_what_cannot_be_honoured_is_a_400_that_names_it(
    client: httpx.AsyncClient, body: dict[str, object], named: str
) -> None:
    sent = json.dumps({"text": [HELLO], "target_lang": "JA", **body})
    answer = await client.post("/v2/translate", content=sent, headers={"Content-Type": "application/json"})
    assert named in checked(answer, "Error", 400)["message"]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"{", "application/json"),
        (b"[1]", "application/json"),
        (b"[" * 100_000, "application/json"),
        (b"\xff", "application/x-www-form-urlencoded"),
    ],
)
async def test_bodies_that_cannot_be_read(client: httpx.AsyncClient, content: bytes, kind: str) -> None:
    answer = await client.post("/v2/translate", content=content, headers={"Content-Type": kind})
    checked(answer, "Error", 400)


async def test_too_large(client: httpx.AsyncClient) -> None:
    body = {"text": ["a"] * 1_001, "target_lang": "JA"}
    checked(await client.post("/v2/translate", json=body), "Error", 413)
    checked(await client.post("/v2/translate", content=b"x" * 200_001), "Error", 413)


# ---- errors


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (QuotaExceeded("used up"), 456),
        (RateLimited("slower", retry_after_s=1.2), 429),
        (QueueFull("full", retry_after_s=3), 429),
        (Forbidden("not this language"), 403),
        (EngineRejected("too long"), 400),
        (EngineFailed("planted"), 500),
        (DeadlineExceeded("too late"), 504),
        (Draining("stops"), 503),
        (Starting("starts"), 503),
    ],
)
async def test_failures_have_the_statuses_of_deepl(
    service: TranslationService,
    client: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    error: DragomanError,
    status: int,
) -> None:
    async def fail(*_: object, **__: object) -> AsyncGenerator[Event]:
        raise error
        yield Planned()

    monkeypatch.setattr(service.calls, "events", fail)
    answer = await client.post("/v2/translate", json={"text": HELLO, "target_lang": "JA"})
    assert checked(answer, "Error", status)["message"] == error.message
    assert ("retry-after" in answer.headers) == (status in (429, 503))


# ---- what the server has


async def test_languages(client: httpx.AsyncClient) -> None:
    sources = checked(await client.get("/v2/languages"), "Languages")
    assert [one["language"] for one in sources] == ["EN", "JA", "KO", "ZH"]
    assert sources[0] == {"language": "EN", "name": "English"}
    targets = checked(await client.get("/v2/languages", params={"type": "target"}), "Languages")
    assert [one["language"] for one in targets] == ["EN-GB", "EN-US", "JA", "KO", "ZH", "ZH-HANS"]
    assert {one["supports_formality"] for one in targets} == {False}
    assert checked(await client.request("GET", "/v2/languages", data={"type": "target"}), "Languages") == targets
    checked(await client.get("/v2/languages", params={"type": "both"}), "Error", 400)
    pairs = checked(await client.get("/v2/glossary-language-pairs"), "Pairs")["supported_languages"]
    assert len(pairs) == 12
    assert {"source_lang": "en", "target_lang": "ja"} in pairs


async def test_languages_of_version_3(client: httpx.AsyncClient) -> None:
    async def languages(resource: str) -> dict[str, Any]:
        answer = await client.get("/v3/languages", params={"resource": resource})
        return {one["lang"]: one for one in checked(answer, "ResourceLanguages")}

    texts = await languages("translate_text")
    assert {tag: (one["usable_as_source"], one["usable_as_target"]) for tag, one in texts.items()} == {
        "en": (True, False),
        "ja": (True, True),
        "ko": (True, True),
        "zh": (True, True),
        "en-GB": (False, True),
        "en-US": (False, True),
        "zh-Hans": (False, True),
    }
    assert list(await languages("glossary")) == ["en", "ja", "ko", "zh"]
    assert await languages("voice") == {}
    for params in ({}, {"resource": "cars"}):
        checked(await client.get("/v3/languages", params=params), "Error", 400)
    resources = checked(await client.get("/v3/languages/resources"), "Resources")
    assert [one["name"] for one in resources] == [
        "translate_text",
        "translate_document",
        "glossary",
        "translation_memory",
    ]


async def test_usage_style_rules_and_translation_memories(
    client: httpx.AsyncClient, service: TranslationService
) -> None:
    await translated(client)
    usage = checked(await client.get("/v2/usage"), "Usage")
    assert usage["character_count"] == service.accounts.usage(ANONYMOUS).characters >= len(HELLO)
    assert usage["character_limit"] == 10**12
    assert (await client.get("/v3/style_rules")).json() == {"style_rules": []}
    assert (await client.get("/v3/translation_memories")).json() == {"translation_memories": [], "total_count": 0}


@pytest.mark.parametrize("name", list(catalog.profiles()))
def test_every_profile_has_languages_with_their_features(name: str) -> None:
    service: Any = SimpleNamespace(model=SimpleNamespace(profile=catalog.profiles()[name]))
    assert source_codes(service)
    for tag in target_tags(service):
        assert can_express(service, None, tag, PromptOptions(formality="more")) in (True, False)


def test_languages_of_larger_models() -> None:
    service: Any = SimpleNamespace(model=SimpleNamespace(profile=catalog.profiles()["hy-mt2-7b"]))
    sources, targets = source_codes(service), target_tags(service)
    assert len(set(sources)) == len(sources)
    assert {"EN", "PT", "ZH"} <= set(sources)
    assert {"en-GB", "en-US", "pt-BR", "pt-PT", "zh", "zh-Hans", "zh-Hant", "de"} <= set(targets)
    assert not {"en", "pt"} & set(targets)
    assert can_express(service, None, "de", PromptOptions(formality="more"))


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v2/write/rephrase", 404),
        ("GET", "/v2/admin/analytics", 404),
        ("POST", "/v3/style_rules", 405),
        ("GET", "/v3/translation_memories/1", 404),
        ("GET", "/v2/other", 404),
        ("DELETE", "/v2/translate", 405),
    ],
)
async def test_what_is_not_offered(client: httpx.AsyncClient, method: str, path: str, status: int) -> None:
    checked(await client.request(method, path), "Error", status)


# ---- glossaries

DE = {"source_lang": "en", "target_lang": "de"}


async def created(client: httpx.AsyncClient, name: str = "IT", **body: object) -> dict[str, Any]:
    answer = await client.post(
        "/v2/glossaries", json={"name": name, **DE, "entries": ENTRIES, "entries_format": "tsv"} | body
    )
    return checked(answer, "Glossary", 201)


async def test_a_repeated_request_stores_a_glossary_once(client: httpx.AsyncClient) -> None:
    """Clients send a request again that was not answered in time."""
    assert await created(client) == await created(client)
    answer = await client.post("/v3/glossaries", json={"name": "IT", "dictionaries": [{**DE, "entries": ENTRIES}]})
    checked(answer, "Multilingual", 201)
    assert len((await client.get("/v2/glossaries")).json()["glossaries"]) == 1


async def test_csv_may_name_the_languages_of_its_entries(client: httpx.AsyncClient) -> None:
    entries = 'server,Server,en,de\n"say ""queue""","Schlange, Warte-",en,de'
    glossary = await created(client, entries=entries, entries_format="csv")
    tsv = await client.get(f"/v2/glossaries/{glossary['glossary_id']}/entries")
    assert tsv.text == 'say "queue"\tSchlange, Warte-\nserver\tServer'
    refused = await client.get(f"/v2/glossaries/{glossary['glossary_id']}/entries", headers={"Accept": "text/csv"})
    checked(refused, "Error", 415)


async def test_a_glossary_of_version_2_is_listed_found_and_deleted(client: httpx.AsyncClient) -> None:
    glossary = await created(client)
    path = f"/v2/glossaries/{glossary['glossary_id']}"
    assert (glossary["entry_count"], glossary["ready"]) == (2, True)
    assert checked(await client.get("/v2/glossaries"), "Glossaries") == {"glossaries": [glossary]}
    assert checked(await client.get(path), "Glossary") == glossary
    assert (await client.get(f"{path}/entries")).text == ENTRIES
    assert (await client.delete(path)).status_code == 204
    for method in ("GET", "DELETE"):
        checked(await client.request(method, path), "Error", 404)


async def test_a_glossary_of_version_3_by_forms(client: httpx.AsyncClient) -> None:
    both = [{**DE, "entries": ENTRIES}, {"source_lang": "de", "target_lang": "en", "entries": "Server\tserver"}]
    answer = await client.post("/v3/glossaries", json={"name": "IT", "dictionaries": both})
    glossary = checked(answer, "Multilingual", 201)
    path = f"/v3/glossaries/{glossary['glossary_id']}"
    checked(await client.get("/v3/glossaries"), "Multilinguals")
    assert (await client.get("/v2/glossaries")).json() == {"glossaries": []}
    checked(await client.get(path.replace("v3", "v2")), "Error", 404)
    form = {f"dictionaries[0].{name}": value for name, value in {**DE, "entries": "cache\tCache"}.items()}
    patched = checked(await client.patch(path, data={"name": "Computers", **form}), "Multilingual")
    assert patched["name"] == "Computers"
    assert {**DE, "entry_count": 3} in patched["dictionaries"]
    replaced = await client.put(f"{path}/dictionaries", data={**DE, "entries": "a\tb", "entries_format": "tsv"})
    assert checked(replaced, "Dictionary") == {**DE, "entry_count": 1}
    [found] = checked(await client.get(f"{path}/entries", params=DE), "Entries")["dictionaries"]
    assert found["entries"] == "a\tb"
    assert (await client.delete(f"{path}/dictionaries", params=DE)).status_code == 204
    checked(await client.get(f"{path}/entries", params=DE), "Error", 404)
    assert (await client.delete(path)).status_code == 204
    checked(await client.get(path), "Error", 404)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v2/glossaries", {"name": "", **DE, "entries": ENTRIES}),
        ("POST", "/v2/glossaries", {"name": "IT", **DE, "entries": "a\tb"}),  # the name is in use
        ("POST", "/v2/glossaries", {"name": "A", **DE}),
        ("POST", "/v2/glossaries", {"name": "A", **DE, "entries": "\n"}),
        ("POST", "/v2/glossaries", {"name": "A", **DE, "entries": "no tab"}),
        ("POST", "/v2/glossaries", {"name": "A", **DE, "entries": "a\tb\na\tc"}),
        ("POST", "/v2/glossaries", {"name": "A", **DE, "entries": ENTRIES, "entries_format": "xls"}),
        ("POST", "/v2/glossaries", {"name": "A", "source_lang": "EN", "target_lang": "XX", "entries": ENTRIES}),
        ("POST", "/v2/glossaries", {"name": "A", "source_lang": "EN", "target_lang": "EN", "entries": ENTRIES}),
        ("POST", "/v3/glossaries", {"name": "A"}),
        ("POST", "/v3/glossaries", {"name": "A", "dictionaries": ["a"]}),
        ("POST", "/v3/glossaries", {"name": "A", "dictionaries": [{**DE, "entries": ENTRIES}] * 2}),
        ("PATCH", "/v3/glossaries/IT", {"dictionaries": [{**DE, "entries": ENTRIES}] * 2}),
        ("PUT", "/v3/glossaries/IT/dictionaries", {**DE, "entries": ""}),
        ("GET", "/v3/glossaries/IT/entries", {}),
    ],
)
async def test_glossaries_that_are_refused(
    client: httpx.AsyncClient, method: str, path: str, body: dict[str, object]
) -> None:
    await created(client)
    checked(await client.request(method, path, json=body), "Error", 400)


async def test_a_translation_uses_its_glossaries_the_first_one_first(client: httpx.AsyncClient) -> None:
    japanese = {"source_lang": "EN", "target_lang": "JA"}
    one = await created(client, "one", **japanese, entries="server\tサーバー")
    two = await created(client, "two", **japanese, entries="server\tサーバ\nqueue\t列")
    call: dict[str, Any] = {"text": "The server has a queue.", **japanese}
    [found] = await translated(client, **call, glossary_id=one["glossary_id"])
    assert "サーバー" in found["text"] and "列" not in found["text"]
    [found] = await translated(client, **call, glossary_ids=[one["glossary_id"], two["glossary_id"]])
    assert "サーバー" in found["text"] and "列" in found["text"]
    [found] = await translated(client, **{**call, "source_lang": "en-US"}, glossary_ids=f"{two['glossary_id']},one")
    assert "サーバー" not in found["text"] and "サーバ" in found["text"]
    for missing in ("00000000-0000-0000-0000-000000000000", one["glossary_id"]):
        sent = {**call, "target_lang": "KO", "glossary_id": missing}
        checked(await client.post("/v2/translate", json=sent), "Error", 404)
