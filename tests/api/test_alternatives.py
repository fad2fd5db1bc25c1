"""Other translations of a text, in the APIs that have them: sampled, distinct, checked and charged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman.pipelines.fake import FakePipeline
from dragoman.service.alternatives import SHORT_CHARACTERS, SPARE_SAMPLES, Alternatives, canonical_form
from dragoman.service.planner import ALTERNATIVES_TEMPERATURE
from dragoman.settings import AuthSettings, CacheSettings, ServerSettings, Settings
from dragoman.types import Account, EngineSequence, TranslationRequest
from tests.serving import HeldPipeline, fake_service, keyed_service, served, service_over, source_of
from tests.waiting import until

TEXT = "Where is the train station?"
GREEDY = "駅はどこですか？"
SAMPLES = (
    "駅はどこにありますか？",
    "駅はどちらでしょうか？",
    "鉄道の駅はどこですか？",
    "駅の場所はどこですか？",
    "駅はどちらですか？",
    "駅って何処？",
)
BODY: dict[str, Any] = {"text": TEXT, "source": "en", "target": "ja"}


def answering(*samples: str, greedy: str = GREEDY) -> Callable[[EngineSequence], str]:
    """A fake model that says one thing, and another with each seed where an alternative is sampled."""

    def answer(sequence: EngineSequence) -> str:
        if sequence.sampling.temperature != ALTERNATIVES_TEMPERATURE:
            return greedy
        assert sequence.sampling.seed is not None
        return samples[(sequence.sampling.seed - 1) % len(samples)]

    return answer


async def alternatives_of(client: httpx.AsyncClient, **body: Any) -> list[list[str]]:
    answer = await client.post("/v1/translate", json=BODY | body)
    assert answer.status_code == 200, answer.text
    return [[other["text"] for other in one["alternatives"]] for one in answer.json()["translations"]]


async def test_as_many_as_are_wanted_and_none_unless_they_are() -> None:
    async with served(fake_service(answering(*SAMPLES))) as client:
        assert await alternatives_of(client, alternatives=2) == [list(SAMPLES[:2])]
        assert await alternatives_of(client, alternatives=4) == [list(SAMPLES[:4])]
        assert await alternatives_of(client, text=[TEXT, "12"], alternatives=1) == [[SAMPLES[0]], []]
        [plain] = (await client.post("/v1/translate", json=BODY)).json()["translations"]
        assert (plain["text"], "alternatives" in plain) == (GREEDY, False)
        assert await alternatives_of(client, source="ja", text="駅", alternatives=2) == [[]]  # nothing to translate


async def test_equal_ones_are_left_out() -> None:
    equal = (f" {GREEDY} ", "駅はどこですか。", SAMPLES[0], SAMPLES[0].rstrip("？"), SAMPLES[1])
    async with served(fake_service(answering(*equal))) as client:
        assert await alternatives_of(client, alternatives=4) == [[SAMPLES[0], SAMPLES[1]]]
    async with served(fake_service(answering(GREEDY))) as client:
        assert await alternatives_of(client, alternatives=4) == [[]]


async def test_one_that_is_worse_by_its_warnings_is_left_out() -> None:
    bad = (TEXT, "", SAMPLES[0])
    async with served(fake_service(answering(*bad))) as client:
        assert await alternatives_of(client, alternatives=3) == [[SAMPLES[0]]]
        assert await alternatives_of(client, alternatives=3, strict=True) == [[SAMPLES[0]]]
    async with served(fake_service(answering(*SAMPLES, greedy=""))) as client:  # better than the first
        [one] = (await client.post("/v1/translate", json=BODY | {"alternatives": 1})).json()["translations"]
        assert [warning["code"] for warning in one["warnings"]] == ["empty_output"]
        assert one["alternatives"] == [
            {"text": SAMPLES[0], "confidence": None, "confidence_kind": None, "warnings": []}
        ]


def numbered(sequence: EngineSequence) -> str:
    """Kana, in which the number of a sample stands."""
    sampled = sequence.sampling.temperature == ALTERNATIVES_TEMPERATURE
    words = len(source_of(sequence).split())
    return "かな" * words + ("ねこいぬとりうま"[2 * ((sequence.sampling.seed or 1) % 4) :][:2] if sampled else "")


async def test_an_alternative_is_a_whole_text_whatever_its_segments_and_format() -> None:
    async with served(fake_service(numbered)) as client:
        html = "<h1 class='a'>Good morning.</h1>\n<p>Here it is.</p>"
        [found] = await alternatives_of(client, text=html, format="html", alternatives=2)
        assert found == [
            "<h1 class='a'>かなかないぬ</h1>\n<p>かなかなかないぬ</p>",
            "<h1 class='a'>かなかなとり</h1>\n<p>かなかなかなとり</p>",
        ]
        [found] = await alternatives_of(client, text="Good morning.\n\n- Here it is.\n", alternatives=1)
        assert found == ["かなかないぬ\n\n- かなかなかないぬ\n"]


async def test_what_is_refused() -> None:
    async with served(fake_service(answering(*SAMPLES), server=ServerSettings(max_texts=6))) as client:
        for body, status, code in (
            ({"alternatives": 5}, 422, "invalid_request"),
            ({"alternatives": -1}, 422, "invalid_request"),
            ({"alternatives": "2"}, 422, "invalid_request"),
            ({"alternatives": 1, "stream": True}, 400, "invalid_request"),
            ({"alternatives": 3, "text": [TEXT, TEXT]}, 413, "too_many_texts"),
            ({"alternatives": 2, "text": [TEXT, TEXT]}, 200, None),
            ({"alternatives": 0, "stream": True}, 200, None),
        ):
            answer = await client.post("/v1/translate", json=BODY | body)
            assert answer.status_code == status, answer.text
            if code is not None:
                assert answer.json()["error"]["code"] == code
        refused = await client.post(
            "/translate", json={"q": [TEXT] * 2, "source": "en", "target": "ja", "alternatives": 3}
        )
        assert refused.status_code == 400


async def test_an_alternative_is_never_the_cached_answer() -> None:
    service = fake_service(answering(*SAMPLES), cache_bytes=2**20)
    async with served(service) as client:
        await alternatives_of(client, alternatives=3)
        assert service.cache.stats().entries == 1
        [one] = (await client.post("/v1/translate", json=BODY)).json()["translations"]
        assert (one["text"], one["cached"]) == (GREEDY, 1)


# ---- what they cost


async def test_each_is_charged_and_the_quota_has_to_have_them_all(tmp_path: Path) -> None:
    accounts = Account("", "free"), Account("", "limited", characters_per_month=5 * len(TEXT))
    settings = Settings(auth=AuthSettings(mode="keys"), cache=CacheSettings(max_bytes=0))
    _, database, keys = await keyed_service(tmp_path, *accounts, settings=settings)
    pipeline = FakePipeline(answering(SAMPLES[0], GREEDY, SAMPLES[1]))
    service = service_over(pipeline, settings, database=database)
    async with served(service) as client:
        headers = {"X-API-Key": keys["free"]}
        answer = await client.post("/v1/translate", json=BODY | {"alternatives": 4}, headers=headers)
        found = answer.json()
        assert len(found["translations"][0]["alternatives"]) == 2
        assert found["usage"]["characters"] == 3 * len(TEXT)
        free = await service.accounts.authenticate(keys["free"])
        assert service.accounts.usage(free).characters == 3 * len(TEXT)
        one = (await client.post("/v1/translate", json=BODY, headers=headers)).json()["usage"]
        assert found["usage"]["prompt_tokens"] == (1 + 4 + SPARE_SAMPLES) * one["prompt_tokens"]
        headers = {"X-API-Key": keys["limited"]}
        statuses = [
            (await client.post("/v1/translate", json=BODY | {"alternatives": n}, headers=headers)).status_code
            for n in (4, 2, 1)  # charged: 3, then 2 of the 2 that are left are too few for 3, and enough for 2
        ]
        assert statuses == [200, 403, 200]


async def test_admission_counts_them_while_they_are_in_flight() -> None:
    pipeline = HeldPipeline(answering(*SAMPLES))
    service = service_over(pipeline)
    async with served(service) as client:
        pipeline.hold()
        call = asyncio.create_task(alternatives_of(client, alternatives=2))
        await until(lambda: pipeline.stats().running == 3 + SPARE_SAMPLES, "the text and its samples in the engine")
        assert service.admission.characters == (3 + SPARE_SAMPLES) * len(TEXT)
        pipeline.release.set()
        assert len((await call)[0]) == 2
        assert service.admission.characters == 0


# ---- the APIs of others


async def test_libretranslates() -> None:
    sent: dict[str, Any] = {"q": TEXT, "source": "en", "target": "ja"}
    async with served(fake_service(answering(*SAMPLES))) as client:
        for many in ({"json": sent | {"alternatives": 2}}, {"data": sent | {"alternatives": "2"}}):
            answer = (await client.post("/translate", **many)).json()  # type: ignore[arg-type]
            assert answer == {"translatedText": GREEDY, "alternatives": list(SAMPLES[:2])}
        answer = (await client.post("/translate", json=sent | {"q": [TEXT, "12"], "alternatives": 1})).json()
        assert answer == {"translatedText": [GREEDY, "12"], "alternatives": [[SAMPLES[0]], []]}
        answer = (await client.post("/translate", json=sent | {"alternatives": 9})).json()
        assert answer["alternatives"] == list(SAMPLES[:4])
        for none in (0, -3):
            assert "alternatives" not in (await client.post("/translate", json=sent | {"alternatives": none})).json()


@pytest.mark.parametrize("path", ["/deeplx/translate", "/translate"])
async def test_deeplxs(path: str) -> None:
    sent = {"text": TEXT, "source_lang": "EN", "target_lang": "JA"}
    async with served(fake_service(answering(*SAMPLES))) as client:
        assert (await client.post(path, json=sent)).json()["alternatives"] == []
        for request in ({"json": sent | {"alternatives": 2}}, {"json": sent, "params": {"alternatives": "2"}}):
            answer = (await client.post(path, **request)).json()  # type: ignore[arg-type]
            assert (answer["data"], answer["alternatives"]) == (GREEDY, list(SAMPLES[:2]))
        assert (await client.post(path, json=sent | {"alternatives": "x"})).json()["code"] == 400


# ---- samples as texts of a call


def test_two_translations_are_the_same_whatever_their_case_punctuation_and_width() -> None:
    same = ("Good morning!", "good  morning", "“Good morning”", "Ｇｏｏｄ morning.", "Good\u200b morning\n")
    assert len({canonical_form(one) for one in same}) == 1
    assert len({canonical_form(one) for one in ("5 €", "5 $", "6 $", "café", "cafe", "<g1>5</g1> $")}) == 6


def test_long_texts_have_no_spare_samples() -> None:
    short, long = ("a" * length for length in (SHORT_CHARACTERS, SHORT_CHARACTERS + 1))
    counts = [
        len(Alternatives(TranslationRequest((text,), "ja", alternatives=2)).request.texts) for text in (short, long)
    ]
    assert counts == [3 + SPARE_SAMPLES, 3]
