"""Translation memories over a real database and the fake pipeline: what is answered from them, and what is not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import BodyTooLarge, InvalidMemory, StorageUnavailable, UnsupportedLanguage
from dragoman.service import memories as module
from dragoman.service.alternatives import SPARE_SAMPLES
from dragoman.service.memories import EDITS, SUGGESTIONS, checked
from dragoman.service.service import TranslationService
from dragoman.settings import AuthSettings, CacheSettings, DocumentSettings, MemorySettings, Settings
from dragoman.storage.collections import SERVER
from dragoman.storage.database import Database
from dragoman.storage.memories import MemoryStore
from dragoman.types import ANONYMOUS, Account, EngineSequence, TextDone, Translation, TranslationRequest
from tests.service.test_document_jobs import create, done, text_of
from tests.serving import HeldPipeline, request_of, service_over, source_of
from tests.waiting import HANG_S, until

ME = ANONYMOUS.id
A, B = Account("a", "a"), Account("b", "b")


def kana(sequence: EngineSequence) -> str:
    return re.sub(r"[A-Za-z]+(?![^<]*>)", "かな", source_of(sequence))


class Pipeline(HeldPipeline):
    """Notes what the model is given."""

    def __init__(self) -> None:
        super().__init__(kana)
        self.given: list[str] = []

    async def _decode(self, sequence: EngineSequence):  # type: ignore[no-untyped-def]
        if not sequence.id.startswith("warm-up"):
            self.given.append(source_of(sequence))
        async for item in super()._decode(sequence):
            yield item


@asynccontextmanager
async def serving(folder: Path, refresh_s: float = 60.0, **memory: Any) -> AsyncIterator[TranslationService]:
    settings = Settings(
        auth=AuthSettings(refresh_s=refresh_s),
        cache=CacheSettings(max_bytes=0),
        documents=DocumentSettings(folder=str(folder / "documents")),
        memory=MemorySettings(**memory),
    )
    service = service_over(Pipeline(), settings, database=Database(f"sqlite:///{folder}/dragoman.db"))
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[TranslationService]:
    async with serving(tmp_path) as started:
        yield started


async def remember(
    service: TranslationService,
    entries: Iterable[tuple[str, str]],
    source: str = "en",
    target: str = "ja",
    account: str = ME,
    memory: str = "m",
) -> str:
    return await service.memories.add_texts(account, memory, source, target, entries, create=True)


async def translated(service: TranslationService, *texts: str, **options: Any) -> tuple[list[Translation], list[str]]:
    """The translations, and what the model was given for them."""
    given: list[str] = service.pipeline.given  # type: ignore[attr-defined]
    given.clear()
    request = request_of(texts, options.pop("target", "ja"), options.pop("source", "en"), **options)
    return await service.calls.translate(request), [*given]


async def test_an_equal_text_is_answered_with_the_person_s_translation(service: TranslationService) -> None:
    await remember(service, [("Where is the train station?", "駅はどこ？")])
    [whole, other], given = await translated(service, " Where is the train station?\n", "Where is the station?")
    assert (whole.text, whole.memory, whole.remembered, whole.cached) == (" 駅はどこ？\n", "whole", 1, 0)
    assert (whole.warnings, whole.confidence, whole.usage.characters, whole.usage.prompt_tokens) == ((), None, 29, 0)
    assert (other.memory, other.remembered) == (None, 0)
    assert given == ["Where is the station?"]


async def test_the_alternatives_of_a_text_in_it_are_the_models(service: TranslationService) -> None:
    await remember(service, [("Where is the train station?", "駅はどこ？")])
    [one], given = await translated(service, "Where is the train station?", alternatives=1)
    assert (one.text, one.memory) == ("駅はどこ？", "whole")
    assert given == ["Where is the train station?"] * (1 + SPARE_SAMPLES)
    assert [other.memory for other in one.alternatives] == [None]


async def test_a_text_that_differs_in_anything_is_not_in_it(service: TranslationService) -> None:
    await remember(service, [("Yes, please.", "はい")], account=B.id)
    texts = ("yes, please.", "Yes, please", "Yes,  please.", "Yes, please!", "Yes, please. Now.")
    found, given = await translated(service, *texts, account=B)
    assert [one.memory for one in found] == [None] * 5
    assert len(given) == 5
    for options in ({"target": "ko"}, {"source": "ko"}, {"account": A}, {"memories": ()}):
        [one], _ = await translated(service, "Yes, please.", **({"account": B} | options))
        assert one.memory is None, options


async def test_blocks_and_paragraphs_are_matched_within_a_text(service: TranslationService) -> None:
    await remember(
        service, [("Good morning.", "おはよう。"), ("Press <g1>Start</g1> or wait.", "<g1>開始</g1>を押すか待つ。")]
    )
    html = '<p>Good morning.</p><p class="a">Press <b id="x">Start</b> or wait.</p><p>See you.</p>'
    [found], given = await translated(service, html, format="html")
    assert found.text == '<p>おはよう。</p><p class="a"><b id="x">開始</b>を押すか待つ。</p><p>かな かな.</p>'
    assert (found.memory, found.remembered, given) == ("part", 2, ["See you."])
    [found], given = await translated(service, "- Good morning.\n- See you.\n\nGood morning.\n")
    assert found.text == "- おはよう。\n- かな かな.\n\nおはよう。\n"
    assert (found.memory, found.remembered, given) == ("part", 2, ["See you."])
    [found], _ = await translated(service, "Press **Start** or wait.", format="markdown")
    assert (found.text, found.memory) == ("**開始**を押すか待つ。", "whole")


async def test_a_text_with_other_marks_is_not_in_it(service: TranslationService) -> None:
    await remember(service, [("Press <g1>Start</g1> or wait.", "<g1>開始</g1>を押すか待つ。")])
    for html in (
        "Press Start or wait.",
        "Press <b>Start or</b> wait.",
        "Press <b><i>St</i>art</b> or wait.",
        "Press <b>Start</b><br> or wait.",
        'Press <b title="Begin here">Start</b> or wait.',  # a value in the tag is to be translated
    ):
        [found], _ = await translated(service, html, format="html")
        assert found.memory is None, html
        assert found.text.count("<") == html.count("<")
    [found], _ = await translated(service, "Press <k>Start</k> or wait.")  # tags of a plain text are kept like others
    assert (found.text, found.memory) == ("<k>開始</k>を押すか待つ。", "whole")


async def test_placeholders_are_words_of_a_text(service: TranslationService) -> None:
    await remember(service, [("Hello {name}, see https://a.example.", "{name}さん、https://a.example を見て。")])
    [one], _ = await translated(service, "Hello {name}, see https://a.example.")
    assert (one.text, one.memory) == ("{name}さん、https://a.example を見て。", "whole")
    [one], _ = await translated(service, "<p>Hello {name}, see https://a.example.</p>", format="html")
    assert (one.text, one.memory) == ("<p>{name}さん、https://a.example を見て。</p>", "whole")
    [one], _ = await translated(service, "Hello {name}, see https://b.example.")
    assert one.memory is None


async def test_what_a_person_wrote_is_escaped_where_it_stands(service: TranslationService) -> None:
    await remember(service, [("Salt & pepper", "塩 & <胡椒>")])
    [one], _ = await translated(service, "<p>Salt &amp; pepper</p>", format="html")
    assert (one.text, one.memory) == ("<p>塩 &amp; &lt;胡椒></p>", "whole")


async def test_it_stands_before_the_glossary_and_other_options(service: TranslationService) -> None:
    await remember(service, [("THE QUEUE IS FULL", "満杯"), ("The queue is full.", "満杯です。")])
    options = {"glossary": {"queue": "列"}, "keep": ("full",), "instructions": ("Be brief.",), "strict": True}
    [upper, one], given = await translated(service, "THE QUEUE IS FULL", "The queue is full.", **options)
    assert ((upper.text, one.text), given) == (("満杯", "満杯です。"), [])
    assert (one.warnings, one.failed, one.memory) == ((), False, "whole")


async def test_a_long_text_is_found_as_a_whole(service: TranslationService) -> None:
    text = " ".join(f"This is sentence number {number} of the text." for number in range(120))
    await remember(service, [(text, "長い文。")])
    [found, _], given = await translated(service, text, f"{text} More.")
    assert (found.text, found.remembered) == ("長い文。", 1)
    assert len(given) > 1


async def test_a_stream_has_it_too(service: TranslationService) -> None:
    await remember(service, [("Good morning.", "おはよう。")])
    request = TranslationRequest(("Good morning.", "- Good morning.\n- See you."), "ja", "en")
    deltas: dict[int, str] = {0: "", 1: ""}
    async with aclosing(service.calls.events(request, streamed=True)) as events:
        async for event in events:
            if isinstance(event, TextDone):
                assert event.translation.text == deltas[event.index]
                assert event.translation.memory == ("whole", "part")[event.index]
            elif hasattr(event, "text"):
                deltas[event.index] += event.text
    assert deltas == {0: "おはよう。", 1: "- おはよう。\n- かな かな."}


async def test_the_text_before_one_from_the_memory_is_still_context(service: TranslationService) -> None:
    await remember(service, [("Good morning.", "おはよう。")])
    texts = ("We met at noon.", "Good morning.", "It was late then.")
    found, given = await translated(service, *texts, follows=(False, True, True))
    assert [one.memory for one in found] == [None, "whole", None]
    assert len(given) == 2


async def test_the_detected_language_is_the_direction(service: TranslationService) -> None:
    await remember(service, [("Where is the train station, please?", "駅はどこ？")])
    [found], _ = await translated(service, "Where is the train station, please?", source=None)
    assert (found.text, found.source, found.memory) == ("駅はどこ？", "en", "whole")


async def test_regions_of_one_language_serve_each_other_and_the_nearest_first(service: TranslationService) -> None:
    await remember(service, [("Hello.", "やあ。"), ("Lift.", "エレベーター。")], "en-GB", "ja-JP")
    await remember(service, [("Hello.", "こんにちは。")], "en", "ja")
    [hello, lift], _ = await translated(service, "Hello.", "Lift.")
    assert (hello.text, lift.text) == ("こんにちは。", "エレベーター。")
    await remember(service, [("こんにちは。", "Howdy.")], "ja", "en-US")
    await remember(service, [("こんにちは。", "Hallo.")], "ja", "en-GB")
    [found], _ = await translated(service, "こんにちは。", source="ja", target="en-US")
    assert found.text == "Howdy."
    await remember(service, [("Hello.", "你好")], "en", "zh-TW")  # another script
    [found], _ = await translated(service, "Hello.", target="zh-Hans")
    assert found.memory is None


async def test_of_several_memories_the_last_change_counts_unless_one_is_named(service: TranslationService) -> None:
    first = await remember(service, [("Hello.", "やあ。")], memory="1")
    second = await remember(service, [("Hello.", "こんにちは。")], memory="2")
    [found], _ = await translated(service, "Hello.")
    assert found.text == "こんにちは。"
    [found], _ = await translated(service, "Hello.", memories=(first,))
    assert found.text == "やあ。"
    await service.memories.changed(service.memories.store.delete(ME, second))
    [found], _ = await translated(service, "Hello.")
    assert found.text == "やあ。"
    [found], _ = await translated(service, "Hello.", memories=(second,))
    assert found.memory is None


async def test_shared_memories_answer_all_after_their_own(service: TranslationService) -> None:
    store, memories = service.memories.store, service.memories
    text = "Where is the train station?"
    shared = await remember(service, [(text, "共有"), ("Yes.", "はい")], account=B.id)
    await remember(service, [(text, "自分")], account=A.id)
    await remember(service, [("No.", "いいえ")], account=B.id, memory="n")
    await memories.changed(store.give(B.id, shared, SERVER))
    for account, expected in ((A, ["自分", "はい"]), (B, ["共有", "はい"]), (ANONYMOUS, ["共有", "はい"])):
        found, given = await translated(service, text, "Yes.", account=account)
        assert ([one.text for one in found], given) == (expected, [])
    await remember(service, [(text, "新しい")], account=ME)  # the last to be changed, and not the caller's own
    for account, options, expected in (
        (A, {}, "自分"),
        (B, {}, "新しい"),
        (A, {"memories": (shared,)}, "新しい"),
        (A, {"memories": ()}, None),
    ):
        [one], _ = await translated(service, text, account=account, **options)
        assert (one.text if one.memory else None) == expected
    [one], _ = await translated(service, "No.", account=A)
    assert one.memory is None
    await memories.changed(store.give(SERVER, "m", B.id))
    for account, memory in ((A, None), (B, "whole"), (ANONYMOUS, None)):
        [one], _ = await translated(service, "Yes.", account=account)
        assert one.memory == memory


async def test_an_own_entry_is_used_before_a_shared_one_in_a_nearer_direction(service: TranslationService) -> None:
    await remember(service, [("Yes.", "はい")], target="ja", account=ME)
    await remember(service, [("Yes.", "ええ")], target="ja-JP", account=A.id)
    for account, expected in ((A, "ええ"), (B, "はい")):
        [one], _ = await translated(service, "Yes.", account=account)
        assert one.text == expected


async def test_what_the_server_s_callers_edit_and_suggest_answers_none_with_a_key(service: TranslationService) -> None:
    for memory in (EDITS, SUGGESTIONS):
        id = await remember(service, [("Yes.", "はい")], memory=memory)
        for options in ({}, {"memories": (id,)}):
            for account, expected in ((ANONYMOUS, "whole"), (A, None)):
                [one], _ = await translated(service, "Yes.", account=account, **options)
                assert one.memory == expected
        await service.memories.changed(service.memories.store.delete(ME, id))


async def test_a_memory_that_is_renamed_is_shared_by_its_new_name(service: TranslationService) -> None:
    await remember(service, [("Yes.", "はい")], memory=EDITS)
    await service.memories.changed(service.memories.store.rename(ME, EDITS, "approved"))
    [one], _ = await translated(service, "Yes.", account=A)
    assert one.memory == "whole"


async def test_an_entry_that_was_deleted_is_translated_by_the_model(service: TranslationService) -> None:
    await remember(service, [("Good morning.", "おはよう。"), ("Good night.", "おやすみ。")])
    await translated(service, "Good morning.")
    page = await service.memories.store.page(ME, "m", 10)
    for entry in page.entries:
        await service.memories.changed(service.memories.store.remove(ME, "m", entry.id))
    for text, options in (
        ("Good morning.", {}),
        ("- Good morning.\n- Good night.", {}),
        ("<p>Good night.</p>", {"format": "html"}),
    ):
        [found], given = await translated(service, text, **options)
        assert (found.memory, len(given)) == (None, text.count("Good"))


async def test_many_entries_are_known_sorted_whether_read_at_once_or_one_by_one(
    service: TranslationService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 20)
    monkeypatch.setattr(module, "ADD_BATCH", 30)
    for begin, end in ((0, 100), (100, 103), (103, 110), (110, 200)):
        await remember(service, [(f"Text {number}.", f"文 {number}。") for number in range(begin, end)])
        found, given = await translated(service, *(f"Text {number}." for number in range(end)), "Text.")
        assert [one.text for one in found[:-1]] == [f"文 {number}。" for number in range(end)]
        assert given == ["Text."]


async def test_another_server_s_entries_are_known_after_a_while(tmp_path: Path) -> None:
    async with serving(tmp_path) as one, serving(tmp_path, refresh_s=0.02) as other:
        await remember(one, [("Good morning.", "おはよう。")])
        async with asyncio.timeout(HANG_S):
            while True:
                [found], _ = await translated(other, "Good morning.")
                if found.memory is not None:
                    break
                await asyncio.sleep(0.01)
        await remember(one, [("Good morning.", "おはよ。")])
        [found], _ = await translated(other, "Good morning.")  # a text that is known is read each time
        assert found.text == "おはよ。"


async def fail(*_: object) -> None:
    raise StorageUnavailable("down")


async def test_a_database_that_fails_costs_no_translation(
    service: TranslationService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as other:
        await remember(other, [("Good morning.", "おはよう。"), ("Good night.", "おやすみ。")])
    await service.memories.refresh()
    monkeypatch.setattr(MemoryStore, "digests", fail)
    [found], _ = await translated(service, "Good morning.")
    assert found.memory is None
    monkeypatch.undo()
    await translated(service, "Good morning.")
    monkeypatch.setattr(MemoryStore, "find", fail)
    [found, parts], _ = await translated(service, "Good morning.", "- Good morning.\n- Good night.")
    assert (found.memory, parts.memory, found.text, parts.text) == (
        None,
        None,
        "かな かな.",
        "- かな かな.\n- かな かな.",
    )


async def test_a_memory_is_named_without_the_database_and_a_new_name_counts_at_once(
    service: TranslationService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as other:
        id = await remember(other, [("Good morning.", "おはよう。")], account=A.id)
        with monkeypatch.context() as patched:
            patched.setattr(MemoryStore, "id_of", fail)
            with pytest.raises(StorageUnavailable):  # this server has not read the versions since
                await service.memories.id_of(A.id, id)
        assert await service.memories.id_of(A.id, id) == id
        await service.memories.refresh()
        monkeypatch.setattr(MemoryStore, "id_of", fail)
        assert await service.memories.id_of(A.id, "m") == await service.memories.id_of(A.id, id) == id
        with pytest.raises(StorageUnavailable):
            await service.memories.id_of(B.id, id)
        await service.memories.changed(service.memories.store.rename(A.id, id, "renamed"))
        assert await service.memories.id_of(A.id, "renamed") == id
        with pytest.raises(StorageUnavailable):
            await service.memories.id_of(A.id, "m")


async def test_a_memory_that_was_just_made_is_named_before_a_shared_one(
    service: TranslationService, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = await remember(service, [("Good morning.", "おはよう。")])
    assert await service.memories.id_of(A.id, "m") == shared
    monkeypatch.setattr(MemoryStore, "versions", fail)
    own = await remember(service, [("Good night.", "おやすみ。")], account=A.id)
    assert await service.memories.id_of(A.id, "m") == own
    assert await service.memories.id_of(B.id, "m") == shared


@pytest.mark.parametrize("failing", [("digests", "find"), ("versions", "digests", "find"), ("find",)])
async def test_what_a_server_has_stored_it_knows_though_the_database_fails_in_the_next_instant(
    service: TranslationService, monkeypatch: pytest.MonkeyPatch, failing: tuple[str, ...]
) -> None:
    await remember(service, [("Good night.", "おやすみなさい。")], account=A.id)
    store = MemoryStore.add

    async def add(*arguments: Any, **options: Any) -> str:
        stored = await store(*arguments, **options)
        for name in failing:
            monkeypatch.setattr(MemoryStore, name, fail)
        return stored

    monkeypatch.setattr(MemoryStore, "add", add)
    await remember(service, [("Good morning.", "おはよう。"), ("Good night.", "おやすみ。")], account=A.id)
    [found, again, parts], given = await translated(
        service, "Good morning.", "Good night.", "- Good night.\n- Good morning.", account=A
    )
    assert [one.text for one in (found, again, parts)] == ["おはよう。", "おやすみ。", "- おやすみ。\n- おはよう。"]
    assert given == []
    [other], _ = await translated(service, "Good morning.", account=B)
    assert other.memory is None


async def stored(service: TranslationService) -> None:
    """Wait until the server has stored an entry."""
    own = service.memories._own  # pyright: ignore[reportPrivateUsage]
    await until(lambda: bool(own), "an entry that is stored")


def break_database(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("versions", "digests", "find"):
        monkeypatch.setattr(MemoryStore, name, fail)


async def test_what_is_stored_in_a_new_memory_while_the_versions_are_read_is_known_at_once(
    service: TranslationService, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, storing = MemoryStore.versions, list[asyncio.Task[str]]()

    async def versions(store: MemoryStore) -> Any:
        found = await real(store)  # without the memory
        storing.append(asyncio.create_task(remember(service, [("Good morning.", "おはよう。")])))
        await stored(service)
        break_database(monkeypatch)
        return found

    monkeypatch.setattr(MemoryStore, "versions", versions)
    await service.memories.refresh()
    await asyncio.gather(*storing)
    [found], _ = await translated(service, "Good morning.")
    assert found.text == "おはよう。"


async def test_a_memory_that_is_new_while_others_are_read_fails_no_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as other:
        for memory in ("m", "n"):
            await remember(other, [("Good morning.", "おはよう。")], account=A.id, memory=memory)
    real, storing = MemoryStore.digests, list[asyncio.Task[str]]()
    async with serving(tmp_path) as service:

        async def digests(store: MemoryStore, *given: Any) -> Any:
            if not storing:
                new = remember(service, [("Good night.", "おやすみ。")], account=A.id, memory="new")
                storing.append(asyncio.create_task(new))
                await stored(service)
            return await real(store, *given)

        monkeypatch.setattr(MemoryStore, "digests", digests)
        [found], _ = await translated(service, "Good morning.", account=A)
        assert found.text == "おはよう。"
        await asyncio.gather(*storing)
        [found], _ = await translated(service, "Good night.", account=A)
        assert found.text == "おやすみ。"


async def test_what_is_stored_while_a_large_memory_is_sorted_is_known_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    async with serving(tmp_path) as other:
        await remember(other, [(f"Text {number}.", "文。") for number in range(5)], account=A.id)
    real, loop = module._known, asyncio.get_running_loop()  # pyright: ignore[reportPrivateUsage]
    storing = list[asyncio.Task[str]]()
    async with serving(tmp_path) as service:

        async def store() -> None:
            storing.append(asyncio.create_task(remember(service, [("Good morning.", "おはよう。")], account=A.id)))
            await stored(service)
            break_database(monkeypatch)

        def known(rows: Iterable[Any]) -> Any:  # in a thread
            asyncio.run_coroutine_threadsafe(store(), loop).result()
            return real(rows)

        monkeypatch.setattr(module, "_known", known)
        await translated(service, "Text 1.", account=A)
        await asyncio.gather(*storing)
        [found], _ = await translated(service, "Good morning.", account=A)
        assert found.text == "おはよう。"


async def test_what_was_deleted_or_stored_long_ago_is_not_known_without_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as service:
        memory = await remember(service, [("Good morning.", "おはよう。")])
        [entry] = (await service.memories.store.page(ME, memory, 10)).entries
        await service.memories.changed(service.memories.store.remove(ME, memory, entry.id))
        monkeypatch.setattr(MemoryStore, "find", fail)
        [found], _ = await translated(service, "Good morning.")
        assert found.memory is None
    monkeypatch.undo()
    async with serving(tmp_path, refresh_s=0.01) as service:
        await remember(service, [("Good morning.", "おはよう。")])
        await asyncio.sleep(0.02)  # the time that is meant
        monkeypatch.setattr(MemoryStore, "find", fail)
        [found], _ = await translated(service, "Good morning.")
        assert found.memory is None


async def test_entries_that_a_server_knows_itself_are_bounded(
    service: TranslationService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_OWN", 3)
    for number in range(5):
        await remember(service, [(f"Text {number}.", f"文 {number}。")])
    monkeypatch.setattr(MemoryStore, "find", fail)
    found, _ = await translated(service, *(f"Text {number}." for number in range(5)))
    assert [one.memory for one in found] == [None, None, "whole", "whole", "whole"]


async def test_what_a_person_edits_in_a_document_is_answered_from_then_on(service: TranslationService) -> None:
    documents = service.documents
    document = await done(documents, await create(documents, "# Can I *pay* now?\n\nThe old map.\n", "a.md"))
    await documents.contents.edit(document, 0, "いま<g1>払え</g1>ますか？")
    again = await done(documents, await create(documents, "The old map.\n\n# Can I **pay** now?\n", "b.md"))
    segments = (await documents.contents.segments(again)).segments
    assert [(one.translation, one.memory, one.edited) for one in segments] == [
        ("かな かな かな.", False, False),
        ("いま<g1>払え</g1>ますか？", True, False),
    ]
    assert await text_of(documents, again) == "かな かな かな.\n\n# いま**払え**ますか？\n"
    [found], _ = await translated(service, "<p>Can I <i>pay</i> now?</p>", format="html")
    assert found.text == "<p>いま<i>払え</i>ますか？</p>"
    assert [one.name for one in await service.memories.store.list(ME)] == [EDITS]


@pytest.mark.acceptance
async def test_edits_are_stored_only_where_the_operator_wants_that(tmp_path: Path) -> None:
    async with serving(tmp_path, edits=False) as service:
        document = await done(service.documents, await create(service.documents, "The old map.\n"))
        await service.documents.contents.edit(document, 0, "古い地図。")
        assert await service.memories.store.list(ME) == ()


@pytest.mark.acceptance
async def test_an_edit_is_kept_where_the_memory_is_full(tmp_path: Path) -> None:
    async with serving(tmp_path, max_entries_per_key=1) as service:
        document = await done(service.documents, await create(service.documents, "The old map.\n\nThe new map.\n"))
        await service.documents.contents.edit(document, 0, "古い地図。")
        [changed] = await service.documents.contents.edit(document, 1, "新しい地図。")
        assert changed.translation == "新しい地図。"
        [old, new], _ = await translated(service, "The old map.", "The new map.")
        assert (old.memory, new.memory) == ("whole", None)
        with pytest.raises(BodyTooLarge):
            await remember(service, [("More.", "もっと。")])


# ---- entries


def test_an_entry_has_its_marks_in_the_order_of_the_text() -> None:
    entry = checked("EN_us", "ja", " <g3>A</g3> <x1/> ", "<x1/><g3>あ</g3>", has_marks=True)
    assert (entry.source, entry.target) == ("en-US", "ja")
    assert (entry.text, entry.translation) == ("<g1>A</g1> <x2/>", "<x2/><g1>あ</g1>")


@pytest.mark.parametrize(
    ("text", "translation", "has_marks"),
    [
        ("", "あ", True),
        (" \n", "あ", True),
        ("A", " ", True),
        ("A" * 20_001, "あ", True),
        ("A\x00", "あ", True),
        ("A", "あ\ud800", True),
        ("<g1>A</g1>", "あ", True),
        ("A", "あ<x1/>", True),
        ("<g1>A</g1><g2>B</g2>", "<g2><g1>あ</g1></g2>", True),
        ("<g1>A", "<g1>あ", True),
        ("<x1/>A<x1/>", "<x1/>あ<x1/>", True),
        ("<g1>A</g1>", "<g1>あ</g1>", False),
        ("A", "あ< x1 />", False),
    ],
)
def test_what_is_not_stored(text: str, translation: str, has_marks: bool) -> None:
    with pytest.raises(InvalidMemory):
        checked("en", "ja", text, translation, has_marks=has_marks)


def test_languages_are_known_and_differ() -> None:
    with pytest.raises(UnsupportedLanguage):
        checked("xx-nothing", "ja", "A", "あ", has_marks=True)
    with pytest.raises(InvalidMemory):
        checked("en", "EN", "A", "あ", has_marks=True)
