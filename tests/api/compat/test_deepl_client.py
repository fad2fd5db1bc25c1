"""DeepL's own Python client and command line, unmodified, on a real port over the fake pipeline."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import deepl
import pytest

from dragoman.api import heartbeat
from dragoman.errors import InvalidKey, QueueFull, QuotaExceeded, RateLimited
from dragoman.service.service import TranslationService
from dragoman.types import ANONYMOUS
from tests.api.compat.test_deepl import service_with
from tests.api.test_heartbeat import ANSWER, held
from tests.serving import served
from tests.waiting import until

Entries = deepl.api_data.MultilingualGlossaryDictionaryEntries

P = ParamSpec("P")
T = TypeVar("T")

UNKNOWN = "00000000-0000-0000-0000-000000000000"


async def run(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The client blocks; the server has the event loop."""
    return await asyncio.to_thread(function, *args, **kwargs)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> TranslationService:
    return service_with(tmp_path_factory.mktemp("deepl"))


@pytest.fixture(scope="module")
async def url(service: TranslationService) -> AsyncIterator[str]:
    async with served(service) as client:
        yield str(client.base_url)


@pytest.fixture
async def client(url: str, service: TranslationService, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    monkeypatch.setattr(deepl.http_client, "max_network_retries", 0)
    client = deepl.DeepLClient("any-key", server_url=url)
    yield client
    client.close()
    for stored in await service.glossaries.list():
        await service.glossaries.delete(stored.id)


async def test_texts(client: Any) -> None:
    one = await run(client.translate_text, "Where is the station?", target_lang="JA")
    assert (one.text, one.detected_source_lang) == ("~Where is the station?", "EN")
    assert one.billed_characters == len("Where is the station?")
    many = await run(
        client.translate_text,
        (f"Number {number}." for number in range(50)),
        source_lang=deepl.Language.ENGLISH,
        target_lang=deepl.Language.JAPANESE,
        model_type=deepl.ModelType.QUALITY_OPTIMIZED,
        split_sentences=deepl.SplitSentences.ALL,
        formality=deepl.Formality.PREFER_LESS,
        context="A list.",
    )
    assert [text.text for text in many] == [f"~Number {number}." for number in range(50)]
    assert many[0].model_type_used == "quality_optimized"


async def test_tags(client: Any) -> None:
    options = {"tag_handling": "xml", "ignore_tags": "keep", "splitting_tags": ["p"], "outline_detection": False}
    text = "<p>Press <b>enter</b>. <keep>Not this.</keep></p>"
    one = await run(client.translate_text, text, target_lang="JA", **options)
    assert "<keep>Not this.</keep>" in one.text
    assert one.text.count("<b>") == 1
    one = await run(client.translate_text, "<h1>Hello</h1>", target_lang="JA", tag_handling="html")
    assert one.text == "<h1>~Hello</h1>"


async def test_languages_and_usage(client: Any) -> None:
    sources, targets = await run(client.get_source_languages), await run(client.get_target_languages)
    assert {one.code: one.name for one in sources}["EN"] == "English"
    assert {"EN-GB", "EN-US", "JA"} <= {one.code for one in targets}
    pairs = await run(client.get_glossary_languages)
    assert ("en", "ja") in {(pair.source_lang, pair.target_lang) for pair in pairs}
    usage = await run(client.get_usage)
    assert (usage.character.valid, usage.any_limit_reached) == (True, False)
    assert await run(client.get_all_style_rules) == []
    assert await run(client.list_translation_memories) == []


async def test_glossaries_of_version_2(client: Any) -> None:
    entries = {"server": "サーバー", "queue": "列"}
    glossary = await run(client.create_glossary, "IT", "EN", "JA", entries)
    assert (glossary.source_lang, glossary.target_lang, glossary.entry_count, glossary.ready) == ("EN", "JA", 2, True)
    assert await run(client.get_glossary_entries, glossary) == entries
    assert [one.glossary_id for one in await run(client.list_glossaries)] == [glossary.glossary_id]
    one = await run(client.translate_text_with_glossary, "The server is slow.", glossary)
    assert "サーバー" in one.text
    table = await run(
        client.create_glossary_from_csv, "table", "EN", "JA", 'server,サーバー,en,ja\n"a ""b""","c,d",en,ja'
    )
    assert await run(client.get_glossary_entries, table) == {"server": "サーバー", 'a "b"': "c,d"}
    await run(client.delete_glossary, glossary)
    with pytest.raises(deepl.GlossaryNotFoundException):
        await run(client.get_glossary, glossary.glossary_id)


async def test_glossaries_of_version_3(client: Any) -> None:
    both = [Entries("EN", "JA", {"server": "サーバー"}), Entries("JA", "EN", {"列": "queue"})]
    glossary = await run(client.create_multilingual_glossary, "IT", both)
    found = await run(client.get_multilingual_glossary, glossary.glossary_id)
    assert {(one.source_lang, one.target_lang, one.entry_count) for one in found.dictionaries} == {
        ("EN", "JA", 1),
        ("JA", "EN", 1),
    }
    one = await run(client.translate_text, "The server.", source_lang="EN", target_lang="JA", glossary=glossary)
    assert "サーバー" in one.text
    await run(client.update_multilingual_glossary_dictionary, glossary, Entries("EN", "JA", {"queue": "列"}))
    renamed = await run(client.update_multilingual_glossary_name, glossary, "Computers")
    assert (renamed.name, len(renamed.dictionaries)) == ("Computers", 2)
    replaced = await run(client.replace_multilingual_glossary_dictionary, glossary, Entries("JA", "EN", {"a": "b"}))
    assert replaced.entry_count == 1
    entries = await run(client.get_multilingual_glossary_entries, glossary, "EN", "JA")
    assert entries.dictionaries[0].entries == "queue\t列\nserver\tサーバー"
    await run(client.delete_multilingual_glossary_dictionary, glossary, None, "JA", "EN")
    [left] = await run(client.list_multilingual_glossaries)
    assert len(left.dictionaries) == 1
    await run(client.delete_multilingual_glossary, glossary)
    assert await run(client.list_multilingual_glossaries) == []
    with pytest.raises(deepl.GlossaryNotFoundException):
        await run(client.get_multilingual_glossary, UNKNOWN)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (InvalidKey("unknown"), deepl.AuthorizationException),
        (QuotaExceeded("used up"), deepl.QuotaExceededException),
        (RateLimited("slower", retry_after_s=1), deepl.TooManyRequestsException),
        (QueueFull("full", retry_after_s=1), deepl.TooManyRequestsException),
    ],
)
async def test_failures_are_its_own_exceptions(
    client: Any, service: TranslationService, monkeypatch: pytest.MonkeyPatch, error: Exception, raised: type[Exception]
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(service, "translate", fail)
    with pytest.raises(raised):
        await run(client.translate_text, "Hello.", target_lang="JA")


async def test_what_is_refused(client: Any, tmp_path: Path) -> None:
    with pytest.raises(deepl.DeepLException, match="target_lang"):
        await run(client.translate_text, "Hello.", target_lang="XX")
    with pytest.raises(deepl.DeepLException, match="formality"):
        await run(client.translate_text, "Hello.", target_lang="JA", formality="more")
    with pytest.raises(deepl.DeepLException, match="Invalid file"):
        await run(client.translate_document, b"Hello.", tmp_path / "out.txt", target_lang="JA", filename="in.txt")
    with pytest.raises(deepl.DeepLException, match="Not found"):
        await run(client.translate_document_get_status, deepl.DocumentHandle("id", "key"))


async def test_it_waits_while_there_is_a_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """White space comes before the JSON; without it the client would give up and send the request again."""
    monkeypatch.setattr(heartbeat, "FIRST_AFTER_S", 0.0)
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.01)
    monkeypatch.setattr(deepl.http_client, "max_network_retries", 0)
    service, pipeline = held()
    async with served(service) as http:
        pipeline.hold()
        client = deepl.DeepLClient("any-key", server_url=str(http.base_url))
        call = asyncio.create_task(run(client.translate_text, "Where is the train station?", target_lang="JA"))
        await until(lambda: pipeline.stats().running == 1, "a running sequence")
        async with http.stream("POST", "/v2/translate", json={"text": "A text.", "target_lang": "JA"}) as answer:
            assert await anext(answer.aiter_raw()) == b" "
            assert answer.headers["x-trace-id"] == answer.headers["x-request-id"]
            pipeline.release.set()
        assert (await call).text == ANSWER["texts"][0]
        client.close()


async def command(url: str, *arguments: str) -> str:
    """What `python -m deepl` prints."""
    path = os.pathsep.join(filter(None, sys.path))
    environment = os.environ | {"DEEPL_AUTH_KEY": "any-key", "DEEPL_SERVER_URL": url, "PYTHONPATH": path}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "deepl", *arguments, env=environment, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


async def test_its_command_line(client: Any, service: TranslationService, url: str) -> None:
    assert await command(url, "text", "--to=JA", "Hello.", "Thank you.") == "~Hello.\n~Thank you.\n"
    used = service.accounts.usage(ANONYMOUS).characters
    assert f"Characters: {used} of 1000000000000" in await command(url, "usage")
    assert "EN-GB: English (United Kingdom)" in await command(url, "languages")
    assert "IT" in await command(url, "glossary", "create", "--name=IT", "--from=EN", "--to=JA", "server=サーバー")
    assert "IT" in await command(url, "glossary", "list")
