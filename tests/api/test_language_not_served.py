"""Texts in a language that the model does not have, over every API: named, returned as they are, not charged."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from dragoman.pipelines.fake import FakePipeline
from dragoman.service.service import TranslationService
from dragoman.settings import AuthSettings, CacheSettings, DocumentSettings, Settings
from dragoman.types import Account
from tests.serving import keyed_service, served

GERMAN, RUSSIAN, ENGLISH = "Wo ist der nächste Bahnhof?", "Где вокзал?", "Where is the train station?"
NAMED = "The text is in German; this model translates English, Japanese, Korean and Chinese. It is returned unchanged."


class Server:
    """A server of the packaged model's four languages, and one key."""

    def __init__(self, http: httpx.AsyncClient, service: TranslationService, key: str) -> None:
        self.http, self.service, self.key = http, service, key

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        answer = await self.http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def used(self) -> int:
        return self.service.accounts.usage(await self.service.accounts.authenticate(self.key)).characters

    @property
    def submitted(self) -> int:
        """Sequences that the engine was given."""
        pipeline = self.service.pipeline
        assert isinstance(pipeline, FakePipeline)
        return pipeline.stats().finished


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("languages")
    settings = Settings(
        auth=AuthSettings(mode="keys"),
        cache=CacheSettings(max_bytes=0),
        documents=DocumentSettings(folder=str(folder / "files")),
    )
    service, _, keys = await keyed_service(folder, Account("", "alice"), settings=settings)
    async with served(service) as http:
        http.headers["Authorization"] = f"Bearer {keys['alice']}"
        yield Server(http, service, keys["alice"])


async def test_it_comes_back_with_its_language_and_its_neighbours_are_translated(server: Server) -> None:
    used = await server.used()
    body = {"text": [GERMAN, ENGLISH, RUSSIAN], "target": "ja"}
    answer = await server.post("/v1/translate", body)
    german, english, russian = answer["translations"]
    assert (german["text"], german["source"], german["detected"]) == (GERMAN, "de", True)
    assert german["finish_reason"] == russian["finish_reason"] == "unchanged"
    assert german["warnings"] == [{"code": "language_not_served", "message": NAMED, "missing": [], "places": []}]
    assert (russian["text"], russian["source"]) == (RUSSIAN, "ru")
    assert (english["text"], english["source"]) == (f"~{ENGLISH}", "en")
    assert not [one for one in english["warnings"] if one["code"].startswith("language")]
    assert answer["usage"]["characters"] == len(ENGLISH)
    assert await server.used() - used == len(ENGLISH)


async def test_it_takes_no_engine_slot(server: Server) -> None:
    given = server.submitted
    await server.post("/v1/translate", {"text": [GERMAN, RUSSIAN], "target": "ja", "alternatives": 2})
    assert server.submitted == given


async def test_with_alternatives_it_is_charged_no_more(server: Server) -> None:
    used = await server.used()
    answer = await server.post("/v1/translate", {"text": GERMAN, "target": "ja", "alternatives": 2})
    assert answer["translations"][0]["alternatives"] == []
    assert await server.used() == used


async def test_a_stream_has_it_too(server: Server) -> None:
    used = await server.used()
    answer = await server.http.post("/v1/translate", json={"text": [GERMAN, ENGLISH], "target": "ja", "stream": True})
    events = [json.loads(line[6:]) for line in answer.text.split("\n\n") if line and not line.endswith("[DONE]")]
    deltas = "".join(one["delta"] for one in events if one["index"] == 0 and "delta" in one)
    [done] = [one["translation"] for one in events if one["index"] == 0 and "translation" in one]
    assert deltas == done["text"] == GERMAN
    assert [one["code"] for one in done["warnings"]] == ["language_not_served"]
    assert await server.used() - used == len(ENGLISH)


async def test_a_source_that_is_given_is_obeyed(server: Server) -> None:
    answer = await server.post("/v1/translate", {"text": GERMAN, "source": "en", "target": "ja"})
    [translation] = answer["translations"]
    assert (translation["text"], translation["source"], translation["detected"]) == (f"~{GERMAN}", "en", False)
    assert "language_not_served" not in [one["code"] for one in translation["warnings"]]


async def test_a_short_text_in_doubt_is_translated_with_a_warning(server: Server) -> None:
    answer = await server.post("/v1/translate", {"text": "Danke", "target": "ja"})
    [translation] = answer["translations"]
    assert (translation["text"], translation["finish_reason"]) == ("~Danke", "stop")
    doubtful = [one for one in translation["warnings"] if one["code"] == "language_doubtful"]
    assert [one["message"] for one in doubtful] == [
        "The text may be in German, which the model does not translate; it was taken for English. Give its language."
    ]


@pytest.mark.parametrize("format", ["html", "xml", "markdown"])
async def test_markup_does_not_hide_it(server: Server, format: str) -> None:
    text = (
        "<p>Wo ist der <b>nächste</b> Bahnhof, bitte?</p>"
        if format != "markdown"
        else "Wo ist der **nächste** Bahnhof?"
    )
    answer = await server.post("/v1/translate", {"text": text, "target": "ja", "format": format})
    assert (answer["translations"][0]["text"], answer["translations"][0]["source"]) == (text, "de")


async def test_the_apis_of_others_name_it(server: Server) -> None:
    [deepl] = (await server.post("/v2/translate", {"text": [GERMAN], "target_lang": "JA"}))["translations"]
    assert (deepl["detected_source_language"], deepl["text"], deepl["billed_characters"]) == ("DE", GERMAN, 0)
    libre = await server.post("/translate", {"q": [GERMAN, ENGLISH], "source": "auto", "target": "ja"})
    assert libre["translatedText"] == [GERMAN, f"~{ENGLISH}"]
    assert [one["language"] for one in libre["detectedLanguage"]] == ["de", "en"]
    google = await server.post("/language/translate/v2", {"q": GERMAN, "target": "ja", "format": "text"})
    assert google["data"]["translations"] == [{"translatedText": GERMAN, "detectedSourceLanguage": "de"}]
    deeplx = await server.post("/deeplx/translate", {"text": GERMAN, "target_lang": "JA"})
    assert (deeplx["data"], deeplx["source_lang"]) == (GERMAN, "DE")
    immersive = await server.post("/immersive/translate", {"text_list": [GERMAN], "target_lang": "ja"})
    assert immersive["translations"] == [{"detected_source_lang": "de", "text": GERMAN}]
    kiss = await server.post("/kiss/translate", {"text": GERMAN, "from": "auto", "to": "ja"})
    assert (kiss["text"], kiss["src"]) == (GERMAN, "de")


async def test_detection_names_it(server: Server) -> None:
    [libre] = await server.post("/detect", {"q": GERMAN})
    assert libre["language"] == "de" and libre["confidence"] > 50
    google = await server.post("/language/translate/v2/detect", {"q": [GERMAN, RUSSIAN]})
    assert [one["language"] for [one] in google["data"]["detections"]] == ["de", "ru"]


async def test_a_chat_has_the_text_as_it_is(server: Server) -> None:
    body = {"model": "dragoman/ja", "messages": [{"role": "user", "content": GERMAN}]}
    answer = await server.post("/v1/chat/completions", body)
    assert answer["choices"][0]["message"]["content"] == GERMAN


async def document(server: Server, text: str, **fields: str) -> dict[str, Any]:
    files = {"file": ("a.md", text.encode())}
    created = (await server.http.post("/v1/documents", data={"target": "ja", **fields}, files=files)).json()
    account = await server.service.accounts.authenticate(server.key)
    await server.service.documents.wait(await server.service.documents.get(created["id"], account))
    return (await server.http.get(f"/v1/documents/{created['id']}")).json()


async def test_a_document_leaves_such_segments_and_lists_them(server: Server) -> None:
    used = await server.used()
    longer = "This is a much longer sentence in English, so that the language of the file is clear to everybody."
    found = await document(server, f"{longer}\n\n{GERMAN}\n\nThe old map.\n")
    assert (found["state"], found["source"]) == ("done", "en")
    assert found["left"] == [{"place": found["left"][0]["place"], "reason": "language_not_served", "text": GERMAN}]
    assert found["left_count"] == 1
    assert found["characters"] == found["characters_done"] == len(longer) + len("The old map.")
    result = (await server.http.get(f"/v1/documents/{found['id']}/result")).text
    assert GERMAN in result and "\\~The old map." in result
    segments = (await server.http.get(f"/v1/documents/{found['id']}/segments")).json()["segments"]
    named = [any(warning["code"] == "language_not_served" for warning in one["warnings"]) for one in segments]
    assert named == [False, True, False]
    assert await server.used() - used == found["characters"]


async def test_a_document_whose_source_is_given_has_all_its_segments_translated(server: Server) -> None:
    found = await document(server, f"{ENGLISH}\n\n{GERMAN}\n", source="en")
    assert (found["state"], found["left_count"]) == ("done", 0)


async def test_a_document_in_such_a_language_is_an_error_that_names_it(server: Server) -> None:
    used = await server.used()
    found = await document(server, f"{GERMAN}\n\nIch komme heute etwas später nach Hause.\n")
    assert found["state"] == "error"
    assert found["error"] == {
        "code": "unsupported_language",
        "message": "the document is in German; this model translates English, Japanese, Korean and Chinese",
    }
    assert await server.used() == used
