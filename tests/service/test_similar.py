"""Similar entries of translation memories over each database: what is found, whose it is, and what it takes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rapidfuzz import fuzz

from dragoman.errors import StorageUnavailable
from dragoman.pipelines.fake import FakePipeline
from dragoman.service import similar as module
from dragoman.service.memories import EDITS, SUGGESTIONS, CallMemory
from dragoman.service.service import TranslationService
from dragoman.service.similar import GROWTH
from dragoman.settings import AuthSettings, CacheSettings, DocumentSettings, MemorySettings, Settings
from dragoman.storage import memories as storage
from dragoman.storage.database import Database
from dragoman.storage.memories import MemoryStore
from dragoman.types import ANONYMOUS, Account, EngineSequence, Example, Translation, TranslationRequest
from tests.serving import HeldPipeline, encoder_of_turns, request_of, service_over, source_of, turns_of
from tests.storage.conftest import postgres_url as postgres_url
from tests.storage.conftest import url as url
from tests.waiting import HANG_S

A, B = Account("a", "a"), Account("b", "b")
SAVE = ("Could not save the file.", "Die Datei konnte nicht gespeichert werden.")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", HANG_S)


@asynccontextmanager
async def serving(url: str, folder: Path, refresh_s: float = 60.0, **memory: Any) -> AsyncGenerator[TranslationService]:
    settings = Settings(
        auth=AuthSettings(refresh_s=refresh_s),
        cache=CacheSettings(max_bytes=0),
        documents=DocumentSettings(folder=str(folder / "documents")),
        memory=MemorySettings(**memory),
    )
    service = service_over(HeldPipeline(source_of), settings, database=Database(url))
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


@pytest.fixture
async def service(url: str, tmp_path: Path) -> AsyncIterator[TranslationService]:
    async with serving(url, tmp_path) as started:
        yield started


async def remember(
    service: TranslationService,
    *entries: tuple[str, str],
    account: Account = A,
    memory: str = "m",
    source: str = "en",
    target: str = "de",
) -> str:
    return await service.memories.add_texts(account.id, memory, source, target, entries, create=True)


async def forget(service: TranslationService, text: str, memory: str = "m", account: Account = A) -> None:
    store = service.memories.store
    page = await store.page(account.id, memory, 1000, find=text)
    for entry in page.entries:
        if entry.text == text:
            await service.memories.changed(store.remove(account.id, memory, entry.id))


async def call(service: TranslationService, account: Account = A, target: str = "de", **options: Any) -> CallMemory:
    found = await service.memories.of_call(request_of(("x",), target, "en", account=account, **options))
    assert found is not None
    return found


async def similar(
    service: TranslationService, text: str, account: Account = A, target: str = "de", **options: Any
) -> tuple[Example, ...]:
    found = await service.memories.of_call(request_of(("x",), target, "en", account=account, **options))
    return () if found is None else await found.similar("en", text)


def sentences(number: int, seed: int = 1) -> list[tuple[str, str]]:
    """Different sentences, of which many are alike."""
    draw = random.Random(seed)
    verbs, things = (
        ("open", "save", "print", "delete", "rename", "close", "move"),
        ("file", "folder", "page", "image", "tab"),
    )
    names = ["".join(draw.choices("abcdefghijklmnoprstuvw", k=draw.randint(3, 9))) for _ in range(number)]
    found: dict[str, str] = {}
    while len(found) < number:
        text = f"Could not {draw.choice(verbs)} the {draw.choice(things)} {draw.choice(names)} of {draw.choice(names)}."
        found[text] = f"({len(found)})"
    return list(found.items())


async def test_the_most_similar_entries_come_first_with_their_similarity(service: TranslationService) -> None:
    open_, exactly = (
        ("Could not open the file.", "Die Datei konnte nicht geöffnet werden."),
        ("Save the files.", "Speichern"),
    )
    await remember(service, SAVE, open_, exactly, ("Good morning.", "Guten Morgen."))
    text = "Could not save the files."
    found = await similar(service, text)
    assert [(one.source, one.translation) for one in found] == [SAVE, open_, exactly]
    assert [one.similarity for one in found] == [pytest.approx(fuzz.ratio(one.source, text)) for one in found]


async def test_number_and_similarity_are_the_servers_or_the_calls(url: str, tmp_path: Path) -> None:
    async with serving(url, tmp_path, examples=1, similarity=90.0) as service:
        await remember(service, SAVE, ("Could not save the page.", "Die Seite"), ("Could not save all.", "Alles"))
        text = "Could not save the files."
        assert [one.source for one in await similar(service, text)] == [SAVE[0]]
        assert len(await similar(service, text, memory_examples=5, memory_similarity=60)) == 3
        assert [one.source for one in await similar(service, text, memory_examples=5)] == [SAVE[0]]
        assert await similar(service, text, memory_similarity=99) == ()
        assert await similar(service, text, memory_examples=0) == ()
        assert await similar(service, text, memories=()) == ()


async def test_an_accounts_entries_are_its_own(service: TranslationService) -> None:
    await remember(service, SAVE, account=A)
    await remember(service, ("Could not save the page.", "Die Seite"), account=B)
    assert [one.source for one in await similar(service, "Could not save the files.", A)] == [SAVE[0]]
    assert [one.source for one in await similar(service, "Could not save the files.", B)] == [
        "Could not save the page."
    ]
    assert await similar(service, "Could not save the files.", ANONYMOUS) == ()


async def test_what_others_have_changes_nothing(service: TranslationService) -> None:
    own = sentences(200)
    await remember(service, *own, account=A)
    texts = [text for text, _ in sentences(30, seed=2)]
    before = [await similar(service, text, A) for text in texts]
    await remember(service, *sentences(300, seed=2), account=B)
    assert [await similar(service, text, B) for text in texts] != before
    assert [await similar(service, text, A) for text in texts] == before
    assert any(before)


async def test_shared_entries_are_examples_for_all_in_one_index(service: TranslationService) -> None:
    page = ("Could not save the page.", "Die Seite")
    await remember(service, SAVE, page, account=ANONYMOUS)
    own = (SAVE[0], "Speichern ging nicht.")
    await remember(service, own, account=A, target="de-AT")
    text = "Could not save the files."
    for account, expected in ((A, [own, page]), (B, [SAVE, page]), (ANONYMOUS, [SAVE, page])):
        assert [(one.source, one.translation) for one in await similar(service, text, account)] == expected
    assert set(service.memories.similar.accounts) == {A.id, ANONYMOUS.id}
    await service.memories.changed(service.memories.store.give(ANONYMOUS.id, "m", B.id))
    for account, expected in ((A, [own]), (B, [SAVE, page]), (ANONYMOUS, [])):
        assert [(one.source, one.translation) for one in await similar(service, text, account)] == expected
    assert set(service.memories.similar.accounts) == {A.id, B.id}


async def test_edits_and_suggestions_of_callers_without_a_key_are_examples_for_no_key(url: str, tmp_path: Path) -> None:
    async with serving(url, tmp_path, shared_edits=True) as service:
        for memory in (EDITS, SUGGESTIONS):
            await remember(service, SAVE, account=ANONYMOUS, memory=memory)
        assert len(await similar(service, "Could not save the files.", ANONYMOUS)) == 1
        assert await similar(service, "Could not save the files.", A) == ()


async def test_suggestions_are_no_examples(service: TranslationService) -> None:
    await remember(service, SAVE, memory=SUGGESTIONS)
    assert await similar(service, "Could not save the files.") == ()


async def test_edits_are_examples_for_the_key_and_without_keys_where_that_is_set(url: str, tmp_path: Path) -> None:
    for shared_edits in (False, True):
        async with serving(url, tmp_path, shared_edits=shared_edits) as service:
            for account in (A, ANONYMOUS):
                await remember(service, SAVE, account=account, memory=EDITS)
                found = await similar(service, "Could not save the files.", account)
                assert bool(found) is (account is A or shared_edits)


async def test_memories_and_directions_of_the_call_alone_and_the_nearest_first(service: TranslationService) -> None:
    first = await remember(service, SAVE)
    second = await remember(service, (SAVE[0], "Speichern ging nicht."), memory="n", target="de-AT")
    await remember(service, SAVE, memory="o", target="fr")
    text = "Could not save the files."
    assert [one.translation for one in await similar(service, text)] == [SAVE[1]]
    assert [one.translation for one in await similar(service, text, target="de-AT")] == ["Speichern ging nicht."]
    for id, translation in ((first, SAVE[1]), (second, "Speichern ging nicht.")):
        assert [one.translation for one in await similar(service, text, memories=(id,))] == [translation]
    await service.memories.changed(service.memories.store.delete(A.id, "m"))
    assert await similar(service, text, memories=(first,)) == ()


async def test_changes_are_seen(service: TranslationService) -> None:
    entries = sentences(50)
    await remember(service, *entries)
    text, _ = entries[7]
    assert (await similar(service, f"{text}..", memory_examples=1))[0].translation == "(7)"
    await remember(service, (text, "new"))
    assert (await similar(service, f"{text}..", memory_examples=1))[0].translation == "new"
    await forget(service, text)
    assert all(one.source != text for one in await similar(service, f"{text}.."))
    await remember(service, (text, "again"), ("Something else entirely.", "Etwas anderes"))
    assert (await similar(service, f"{text}..", memory_examples=1))[0].translation == "again"


async def test_another_servers_changes_are_seen_after_a_while(url: str, tmp_path: Path) -> None:
    async with serving(url, tmp_path) as one, serving(url, tmp_path, refresh_s=0.02) as other:
        await remember(one, SAVE)

        async def until(expected: int) -> None:
            async with asyncio.timeout(HANG_S):
                while True:
                    if len(await similar(other, "Could not save the files.")) == expected:
                        break
                    await asyncio.sleep(0.01)

        await until(1)
        await remember(one, ("Could not save the page.", "Die Seite"))
        await until(2)
        await forget(one, SAVE[0])
        await until(1)


async def test_entries_that_come_one_by_one_are_in_few_indexes(
    service: TranslationService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "TEXT_ROWS", 7)
    entries = sentences(120)
    for begin in (*range(0, 30, 3), *range(30, 120, 30)):
        await remember(service, *entries[begin : begin + (3 if begin < 30 else 30)])
        await similar(service, "Could not save the files.")
    memory = await call(service)
    [version] = await service.memories.store.versions()
    [of_memory] = await service.memories.similar.parts(A.id, {version.id: version.version})
    parts = of_memory["en", "de"]
    assert sum(part.count for part in parts) == 120
    assert all(one.count > GROWTH * other.count for one, other in pairwise(parts))
    for number, (text, _) in enumerate(entries):
        assert (await memory.similar("en", f"{text}.."))[0].translation == f"({number})"


async def test_all_indexes_have_a_bound_and_the_account_that_asked_last_stays(url: str, tmp_path: Path) -> None:
    async with serving(url, tmp_path, index_bytes=2**20) as service:
        text = "Could not save the files."
        for account in (A, B):
            await remember(service, *sentences(5_000), account=account)
        for account in (A, B, A):
            assert await similar(service, text, account)
            indexes = service.memories.similar
            assert indexes.nbytes <= 2**20
            assert indexes.accounts == (account.id,)


async def test_the_index_of_what_is_shared_is_dropped_for_no_account(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "TEXT_ROWS", 200)
    async with serving(url, tmp_path, index_bytes=2**20) as service:
        text = "Could not save the files."
        entries = sentences(2_000)
        await remember(service, *entries, account=ANONYMOUS)
        for account in (A, B):
            await remember(service, *sentences(5_000, seed=2), account=account)
        for account in (A, B, A):
            found = await similar(service, f"{entries[7][0]}..", account)
            assert found[0].translation == "(7)"
            assert await similar(service, text, account)
            indexes = service.memories.similar
            assert set(indexes.accounts) == {account.id, ANONYMOUS.id}
            assert indexes.nbytes <= 1.2 * 2**20


async def test_a_memory_that_has_no_room_is_indexed_in_part(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "TEXT_ROWS", 200)
    async with serving(url, tmp_path, index_bytes=2**20) as service:
        entries = sentences(12_000)
        await remember(service, *entries)
        assert await similar(service, "Could not save the files.")
        assert 2**19 < service.memories.similar.nbytes < 1.2 * 2**20
        await forget(service, entries[3][0])
        assert all(one.source != entries[3][0] for one in await similar(service, f"{entries[3][0]}.."))


async def test_a_call_does_not_wait_long_for_an_index(
    service: TranslationService, monkeypatch: pytest.MonkeyPatch
) -> None:
    await remember(service, SAVE)
    may_read, read = asyncio.Event(), MemoryStore.texts

    async def held(self: MemoryStore, *arguments: Any) -> Any:
        await may_read.wait()
        return await read(self, *arguments)

    monkeypatch.setattr(MemoryStore, "texts", held)
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)
    assert await similar(service, "Could not save the files.") == ()
    may_read.set()
    monkeypatch.setattr(module, "PATIENCE_S", HANG_S)
    assert len(await similar(service, "Could not save the files.")) == 1


async def test_a_database_that_fails_costs_examples_alone(
    service: TranslationService, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StorageUnavailable("down")

    await remember(service, SAVE)
    text = "Could not save the files."
    monkeypatch.setattr(MemoryStore, "texts", fail)
    assert await similar(service, text) == ()
    monkeypatch.undo()
    monkeypatch.setattr(module, "PATIENCE_S", HANG_S)
    assert len(await similar(service, text)) == 1


async def test_marks_are_numbered_as_the_texts_own_where_they_are_the_same(service: TranslationService) -> None:
    await remember(service, ("Press <g1>Start</g1> to go.", "Zum Gehen <g1>Start</g1> drücken."))
    [one] = await similar(service, "Press <g3>Start</g3> to leave.")
    assert (one.source, one.translation) == ("Press <g3>Start</g3> to go.", "Zum Gehen <g3>Start</g3> drücken.")
    assert one.similarity == pytest.approx(fuzz.ratio("Press Start to go.", "Press Start to leave."))
    [one] = await similar(service, "Press Start to leave.<x1/>")
    assert one.source == "Press <g1>Start</g1> to go."


async def test_texts_that_are_long_are_no_examples(service: TranslationService) -> None:
    long, longer = ("word " * 390).strip(), ("word " * 410).strip()
    await remember(service, (long, "lang"), (longer, "länger"), ("A short one.", "Wort " * 500))
    assert [one.translation for one in await similar(service, f"{long} end")] == ["lang"]
    assert await similar(service, f"{longer} end") == ()
    assert await similar(service, "A short two.") == ()


async def test_any_text_can_be_looked_for(service: TranslationService) -> None:
    await remember(service, SAVE, ("a", "ein"), ("日本語です", "Japanisch"))
    await service.memories.add_texts(A.id, "m", "en", "de", [("<x1/>", "<x1/>")])
    for text in ("", " ", "a", "<x1/>", "\ud800", "e" + "\u0301" * 1000, "日本語", "\x00"):
        for one in await similar(service, text, memory_similarity=0):
            assert 0 <= one.similarity <= 100


def brute_force(entries: Iterable[tuple[str, str]], text: str) -> float:
    return max(fuzz.ratio(source, text) for source, _ in entries)


@pytest.mark.parametrize("kind", ["words", "letters"])
async def test_the_best_match_is_found(service: TranslationService, kind: str) -> None:
    """Of texts that are much alike, and of texts without words (as Chinese and Japanese are written)."""
    entries, texts = sentences(3_000), [text for text, _ in sentences(200, seed=2)]
    if kind == "letters":
        draw = random.Random(3)
        made = [
            "".join(chr(0x4E00 + int(draw.paretovariate(0.5)) % 900) for _ in range(draw.randint(8, 30)))
            for _ in range(3_000)
        ]
        entries = [(text, "x") for text in made]
        texts = [f"{text[:2]}的{text[3:-2]}了{text[-1:]}" for text in draw.sample(made, 200)]
    await remember(service, *entries)
    memory = await call(service, memory_examples=1)
    best = [(text, score) for text in texts if (score := brute_force(entries, text)) >= 60]
    found = [await memory.similar("en", text) for text, _ in best]
    hits = [bool(one) and one[0].similarity >= score - 1e-6 for one, (_, score) in zip(found, best, strict=True)]
    assert len(best) > 100
    assert sum(hits) >= 0.95 * len(best)


# ---- texts that differ in a number alone


async def translated(service: TranslationService, *texts: str, **options: Any) -> list[Translation]:
    return await service.calls.translate(request_of(texts, "ja", "en", account=A, **options))


async def test_a_text_that_differs_in_a_number_alone_is_answered_from_the_memory(service: TranslationService) -> None:
    await remember(
        service,
        ("Copied 12 files.", "12個のファイルをコピーしました。"),
        ("Page <g1>3</g1> of it", "その<g1>3</g1>ページ"),
        ("Copied 1 file.", "1個のファイルをコピーしました。"),
        target="ja",
    )
    found = await translated(
        service, "Copied 7 files.", "Copied 2 file.", "Copied 7 of 12 files.", "Copied seven files."
    )
    assert [(one.text, one.memory) for one in found[:1]] == [("7個のファイルをコピーしました。", "whole")]
    assert [one.memory for one in found[1:]] == [None] * 3  # `2 file` is of another plural category than `1 file`
    [one] = await translated(service, "<p>Page <b id='x'>44</b> of it</p><p>Copied 5 files.</p>", format="html")
    assert (one.text, one.remembered) == (
        "<p>その<b id='x'>44</b>ページ</p><p>5個のファイルをコピーしました。</p>",
        2,
    )


async def test_a_number_is_adapted_in_no_text_that_may_not_have_examples(service: TranslationService) -> None:
    entry = ("Copied 12 files.", "12個のファイルをコピーしました。")
    await remember(service, entry, target="ja")
    assert (await translated(service, "Copied 7 files."))[0].memory == "whole"
    for options in ({"memory_examples": 0}, {"memories": ()}):
        assert (await translated(service, "Copied 7 files.", **options))[0].memory is None
    [other] = await service.calls.translate(request_of(("Copied 7 files.",), "ja", "en", account=B))
    assert other.memory is None
    await service.memories.changed(service.memories.store.delete(A.id, "m"))
    await remember(service, entry, memory=SUGGESTIONS, target="ja")
    assert (await translated(service, "Copied 7 files."))[0].memory is None


async def test_prompts_have_the_accounts_entries_and_the_answer_says_which(url: str, tmp_path: Path) -> None:
    """Over the whole way: memory, index, prompt, answer. What another account has is in no prompt."""

    def answer(sequence: EngineSequence) -> str:
        return f"例は{len(turns_of(sequence)) // 2}件です。"

    settings = Settings(
        cache=CacheSettings(max_bytes=0), documents=DocumentSettings(folder=str(tmp_path / "documents"))
    )
    service = service_over(FakePipeline(answer), settings, encoder=encoder_of_turns(), database=Database(url))
    await service.start()
    try:
        own = (SAVE[0], "ファイルを保存できませんでした。")
        other = ("Could not open the file.", "ファイルを開けませんでした。")
        await remember(service, own, other, target="ja")
        await remember(service, ("Could not close the file.", "秘密です。"), account=B, target="ja")
        found: list[Translation] = []
        for account in (A, B, Account("c", "c")):
            text = "Could not delete the file."
            request = TranslationRequest((text,), "ja", "en", account=account)
            [one] = await service.calls.translate(request)
            found.append(one)
        shown = [len(one.examples) for one in found]
        assert shown == [2, 1, 0]
        assert [one.text for one in found] == [f"例は{number}件です。" for number in shown]
        assert max(example.similarity for example in found[0].examples) > 75
        exact = TranslationRequest((SAVE[0],), "ja", "en", account=A)
        [one] = await service.calls.translate(exact)
        assert (one.text, one.examples) == (own[1], ())
    finally:
        await service.stop()
