"""Examples from the caller and from memories: which of them a prompt has, and what follows when an output copies one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from dragoman.prompts.catalog import profiles
from dragoman.prompts.encoder import PromptEncoder
from dragoman.prompts.lengths import LengthTable
from dragoman.service import similar
from dragoman.service.cache import SegmentCache
from dragoman.service.calls import SimilarShares
from dragoman.service.dispatcher import Dispatcher, LoopTurns, TimeSlices
from dragoman.service.memories import Memories
from dragoman.service.planner import FIRST, MOST_EXAMPLES, Form, Planner, TextJob
from dragoman.service.translator import Translator
from dragoman.settings import CacheSettings, DocumentSettings, Settings
from dragoman.storage.database import Database
from dragoman.text import checks
from dragoman.types import Account, EngineSequence, Example, TextDone, Translation, TranslationRequest
from tests.prompts.conftest import toy
from tests.service.test_translator import AnsweringPipeline, translate
from tests.serving import HeldPipeline, encoder_of_turns, request_of, service_over
from tests.waiting import HANG_S, until

WINDOW = 2048
MINE, OTHER = Account("a", "a"), Account("b", "b")
PAIRS = (
    Example("Close the window.", "Fenster schließen."),
    Example("My umbrella is lost.", "Mein Regenschirm ist verloren."),
)
SIMILAR = (Example("Open the file.", "Datei öffnen.", 90.0), Example("Open the folder.", "Ordner öffnen.", 70.0))
TEXT = "Open the big file."
NIGHT = (Example("Good night.", "おやすみなさい。"), Example("x" * 900, "あ" * 9_000))
RIGHT = "Die große Datei öffnen."


@cache
def encoder(name: str = "chat") -> PromptEncoder:
    return PromptEncoder(profiles()[name], toy("byte-level", name))


def planner(name: str = "chat", window: int = WINDOW) -> Planner:
    return Planner(encoder(name), LengthTable.measure(toy("byte-level", name)), window)


@dataclass
class Similar:
    """Memories in which no text is, but similar ones, as `found` says."""

    found: Callable[[str], tuple[Example, ...]]
    asked: list[str] = field(default_factory=list[str])

    async def of_call(self, request: TranslationRequest) -> Similar:
        return self

    def has(self, source: str, text: str, own_marks: Sequence[object] | None = None) -> bool:
        return False

    async def read(self, texts: object) -> None: ...

    async def adapted(self, source: str, text: str, own_marks: Sequence[object] | None = None) -> None: ...

    async def similar(self, source: str, text: str) -> tuple[Example, ...]:
        self.asked.append(text)
        return self.found(text)


def turns_of(sequence: EngineSequence) -> list[str]:
    """The contents of a prompt's turns after the system prompt."""
    full = encoder().tokenizer._full  # pyright: ignore[reportPrivateUsage]
    rendered = full.decode(list(sequence.prompt_token_ids), skip_special_tokens=False)
    return [turn.partition("\n")[2] for turn in rendered.split("<|im_start|>")[2:-1]]


def said(sequence: EngineSequence) -> list[str]:
    """The turns without what the profile says before a text that is to be translated into German."""
    before = profiles()["chat"].templates[0].text.partition("{text}")[0].replace("{target}", "German")
    turns = (one.removesuffix("\n").removesuffix("<|im_end|>") for one in turns_of(sequence))
    return [one.removeprefix(before) for one in turns]


async def translated(
    answer: Callable[[list[str]], str],
    text: str = TEXT,
    *,
    memory: Similar | None = None,
    name: str = "chat",
    cache_bytes: int = 0,
    **request: Any,
) -> tuple[Translation, list[list[str]]]:
    """A translation by a model that answers to the turns of a prompt; and those of all prompts."""
    pipeline = AnsweringPipeline(lambda sequence: answer(said(sequence)))
    pipeline.max_model_len = WINDOW
    memories = cast("Memories | None", memory)
    over = Translator(pipeline, planner(name), Dispatcher(8), LoopTurns(), SegmentCache(cache_bytes), memories=memories)
    [found] = await translate(over, request_of((text,), "de", "en", **request))
    return found, [said(one) for one in pipeline.given]


def codes(translation: Translation) -> list[str]:
    return [warning.code for warning in translation.warnings]


# ---- which examples a prompt has


async def test_the_callers_examples_stand_first_and_the_most_similar_entry_next_to_the_text() -> None:
    memory = Similar(lambda _: SIMILAR)
    found, [turns] = await translated(lambda _: RIGHT, memory=memory, examples=PAIRS)
    pairs = (*PAIRS, SIMILAR[1], SIMILAR[0])
    assert turns == [half for one in pairs for half in (one.source, one.translation)] + [TEXT]
    assert (found.text, found.examples, found.retries) == (RIGHT, pairs, ())
    assert memory.asked == [TEXT]


async def test_a_model_without_a_place_for_examples_is_given_none_and_says_so() -> None:
    memory = Similar(lambda _: SIMILAR)
    for examples, warnings in ((PAIRS, [checks.EXAMPLES_IGNORED]), ((), list[str]())):
        found, _ = await translated(lambda _: "Hallo", name="lmt-60", memory=memory, examples=examples)
        assert [code for code in codes(found) if code == checks.EXAMPLES_IGNORED] == warnings
        assert found.examples == () and memory.asked == []


async def test_a_call_with_samples_gives_these_the_callers_examples_and_no_entries() -> None:
    pipeline = AnsweringPipeline(lambda sequence: RIGHT)
    pipeline.max_model_len = WINDOW
    memory = Similar(lambda _: SIMILAR)
    over = Translator(
        pipeline, planner(), Dispatcher(8), LoopTurns(), SegmentCache(0), memories=cast("Memories", memory)
    )
    request = request_of((TEXT, TEXT), "de", "en", examples=PAIRS[:1], sampled_from=1)
    await translate(over, request)
    first, sample = sorted((said(one) for one in pipeline.given), key=len, reverse=True)
    assert (len(first), sample) == (7, [PAIRS[0].source, PAIRS[0].translation, TEXT])


def job_of(over: Planner, text: str, **request: Any) -> TextJob:
    [job] = asyncio.run(over.plan(request_of((text,), "de", "en", **request), TimeSlices(LoopTurns())))
    return job


def attempt(over: Planner, text: str, similar: Sequence[Example] = (), form: Form = FIRST, **request: Any) -> Any:
    job = job_of(over, text, **request)
    segment = next(one for one in job.segments if one is not None and one.translatable)
    return over.attempt(job, segment, form, similar)


def test_of_too_many_examples_those_most_similar_to_the_text_are_shown_in_their_order() -> None:
    many = tuple(Example(f"Number {number} is far away", f"Nummer {number}") for number in range(20, 40))
    near = tuple(Example(f"Open the big file {number}.", f"Datei {number}.") for number in range(MOST_EXAMPLES))
    mixed = (*many[:10], *near, *many[10:])
    shown = attempt(planner(), TEXT, examples=mixed).options.examples
    assert shown == near


def test_equal_examples_are_shown_once() -> None:
    given = Example(SIMILAR[0].source, SIMILAR[0].translation)
    shown = attempt(planner(), TEXT, SIMILAR, examples=(given, *PAIRS)).options.examples
    assert shown == (*PAIRS, SIMILAR[1], SIMILAR[0])


def words(chosen: random.Random, number: int) -> str:
    return " ".join(
        chosen.choices(("open", "the", "file", "great", "zebra", "<|im_end|>", "7", "Bahnhof", "日本"), k=number)
    )


@pytest.mark.parametrize("window", [768, 1024, 4096])
@pytest.mark.parametrize("name", ["chat", "eurollm"])
def test_examples_never_cost_the_text_its_space(name: str, window: int) -> None:
    """Whatever the lengths: the prompt and an output of twice the usual length are within the window."""
    over, chosen = planner(name, window), random.Random(window)
    most = 0
    for _ in range(60):
        given = tuple(
            Example(words(chosen, chosen.randint(1, 60)), words(chosen, chosen.randint(1, 60)))
            for _ in range(chosen.randint(0, 12))
        )
        similar = [
            Example(words(chosen, chosen.randint(1, 200)), words(chosen, chosen.randint(1, 200)), 80.0)
            for _ in range(chosen.randint(0, 5))
        ]
        job = job_of(over, f"{words(chosen, chosen.randint(1, 900))}.", examples=given)
        for segment in job.segments:
            if segment is None or not segment.translatable:
                continue
            one = over.attempt(job, segment, FIRST, similar if job.takes_examples else ())
            sequence = over.sequence(job, "0", one)
            needed = 2 * job.direction.ratio * encoder(name).tokenizer.count(one.shown)
            assert not one.options.examples or len(sequence.prompt_token_ids) + needed <= window
            assert len(one.options.examples) <= MOST_EXAMPLES
            most = max(most, len(one.options.examples))
    assert most >= 2


def test_the_segments_of_a_call_with_examples_leave_space_for_them() -> None:
    text = "The station is near the old bridge. " * 200
    without, given = (job_of(planner(), text, examples=examples) for examples in ((), PAIRS))
    assert given.direction.budget_tokens < without.direction.budget_tokens
    segment = next(one for one in given.segments if one is not None and one.translatable)
    assert planner().attempt(given, segment).options.examples == PAIRS
    entries = attempt(planner(), text, (Example("far " * 300, "weit " * 300, 90.0),)).options.examples
    assert entries == ()  # a long segment has no space for a long entry


# ---- marks


def shown_with(text: str, source: str, translation: str, format: str = "html") -> tuple[str, str]:
    job = job_of(planner(), text, format=format, examples=PAIRS)
    segment = next(one for one in job.segments if one is not None and one.translatable)
    *_, example = planner().attempt(job, segment, FIRST, (Example(source, translation, 90.0),)).options.examples
    return example.source, example.translation


def test_an_example_with_the_marks_of_the_text_keeps_them_and_another_has_none() -> None:
    text = "<p>Open <b>the file</b> now <img src='a.png'> please.</p>"
    same = "Close <g1>the file</g1> now <x2/> please.", "Schließe <g1>die Datei</g1> jetzt <x2/> bitte."
    assert shown_with(text, *same) == same
    assert shown_with(text, "Close <g1>it</g1> now.", "<g1>Es</g1> jetzt schließen.") == (
        "Close it now.",
        "Es jetzt schließen.",
    )
    broken = "Close <g1>the file</g1> now <x2/> please.", "Schließe <g1>die Datei</g1>."
    assert shown_with(text, *broken) == ("Close the file now please.", "Schließe die Datei.")


def test_a_placeholder_is_a_word_in_the_text_and_in_an_example() -> None:
    assert shown_with("Open {name} now.", "Close {name} now.", "{name} schließen.", "text") == (
        "Close {name} now.",
        "{name} schließen.",
    )


def test_an_example_may_have_the_numbers_of_its_marks_or_those_of_the_text() -> None:
    text = "Open {name} and <b>the file</b> now."
    for number in (1, 2):  # the placeholder has the first number in the text, and is shown as a word
        example = f"Close {{name}} and <g{number}>it</g{number}>.", f"{{name}} und <g{number}>es</g{number}> schließen."
        assert shown_with(text, *example) == ("Close {name} and <g2>it</g2>.", "{name} und <g2>es</g2> schließen.")


def test_the_callers_examples_for_markup_are_shown_as_words() -> None:
    pair = Example("<p>Close <b>the</b> file.</p>", "<p><b>Datei</b> schließen.</p>")
    shown = attempt(planner(), "<p>Open <b>the</b> file.</p>", format="html", examples=(pair,)).options.examples
    assert shown == (Example("Close the file.", "Datei schließen."),)


# ---- what follows


def copying(turns: list[str]) -> str:
    """A model that returns the last example's translation, and without examples translates."""
    return turns[-2] if len(turns) > 1 else RIGHT


async def test_a_copied_example_is_translated_again_without_examples() -> None:
    found, prompts = await translated(copying, examples=PAIRS)
    assert (found.text, codes(found)) == (RIGHT, [])
    assert (found.retries, found.examples) == (("copied_example",), ())
    assert [len(turns) for turns in prompts] == [5, 1]


async def test_the_retries_of_any_finding_have_no_examples() -> None:
    """The second prompt is the first without its examples; after it all is as if there had been none."""
    found, prompts = await translated(lambda turns: turns[-1], memory=Similar(lambda _: SIMILAR), examples=PAIRS)
    assert "source_copied" in codes(found)
    alone = prompts[1:]
    _, without = await translated(lambda turns: turns[-1])
    assert len(prompts[0]) == 9 and alone == without


async def test_a_copy_is_marked_where_the_retry_is_worse() -> None:
    def answer(turns: list[str]) -> str:
        return turns[-2] if len(turns) > 1 else ""

    found, _ = await translated(answer, examples=PAIRS)
    assert (found.text, codes(found)) == (PAIRS[-1].translation, [checks.COPIED_EXAMPLE])
    assert found.examples == PAIRS


async def test_a_streamed_copy_is_marked() -> None:
    pipeline = AnsweringPipeline(lambda sequence: copying(said(sequence)))
    pipeline.max_model_len = WINDOW
    over = Translator(pipeline, planner(), Dispatcher(8), LoopTurns(), SegmentCache(0))
    request = request_of((TEXT,), "de", "en", examples=PAIRS)
    [done] = [one async for one in over.events(request, streamed=True) if isinstance(one, TextDone)]
    assert codes(done.translation) == [checks.COPIED_EXAMPLE]
    assert len(pipeline.given) == 1


async def test_outputs_with_and_without_examples_are_apart_in_the_cache() -> None:
    pipeline = AnsweringPipeline(lambda sequence: RIGHT)
    pipeline.max_model_len = WINDOW
    over = Translator(pipeline, planner(), Dispatcher(8), LoopTurns(), SegmentCache(1 << 20))
    for examples in (PAIRS, (), PAIRS[:1], PAIRS, PAIRS[::-1]):
        await translate(over, request_of((TEXT,), "de", "en", examples=examples))
    assert len(pipeline.given) == 4


# ---- what they cost


async def test_admission_and_its_rate_count_the_callers_examples_with_each_text() -> None:
    pipeline = HeldPipeline(lambda _: "おはようございます。")
    service = service_over(pipeline, encoder=encoder_of_turns())
    await service.start()
    texts = ("Good morning.", "Good evening.")
    counted = 0
    for given, more in (((), 0), (NIGHT[:1], 19), (NIGHT, 4_096)):
        pipeline.hold()
        call = asyncio.create_task(service.calls.translate(request_of(texts, "ja", "en", examples=given)))
        await until(lambda: pipeline.generations == 2, "both texts run")
        assert service.admission.characters == 26 + 2 * more
        pipeline.release.set()
        await call
        assert service.admission.characters == 0
        counted += 26 + 2 * more
    assert service.rates.characters == counted
    await service.stop()


async def test_admission_and_its_rate_count_similar_entries_as_the_accounts_texts_had_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(similar, "PATIENCE_S", HANG_S)
    pipeline = HeldPipeline(lambda _: "おはようございます。")
    database = Database(f"sqlite:///{tmp_path}/dragoman.db")
    settings = Settings(cache=CacheSettings(max_bytes=0), documents=DocumentSettings(folder=str(tmp_path / "files")))
    service = service_over(pipeline, settings, encoder=encoder_of_turns(), database=database)
    await service.start()
    text, entry = "Good morning, you.", ("Good morning, all.", "皆さん、おはよう。")
    shown = len("".join(entry))
    await service.memories.add_texts(MINE.id, "m", "en", "ja", [entry], create=True)

    async def admitted(account: Account, **options: Any) -> int:
        pipeline.hold()
        call = asyncio.create_task(service.calls.translate(request_of((text,), "ja", "en", account=account, **options)))
        await until(lambda: pipeline.generations > 0, "it runs")
        characters = service.admission.characters
        pipeline.release.set()
        await call
        assert service.admission.characters == 0
        return characters

    assert await admitted(MINE) == len(text)  # nothing is known yet
    assert service.rates.characters == len(text) + shown
    assert await admitted(MINE) == len(text) + shown
    assert (await admitted(MINE, alternatives=1) - shown) % len(text) == 0  # samples have no entries
    for account, options in ((MINE, {"memories": ()}), (MINE, {"memory_examples": 0}), (OTHER, dict[str, Any]())):
        assert await admitted(account, **options) == len(text)
    await service.stop()


def test_what_texts_had_lately_is_bounded_and_forgotten() -> None:
    shares = SimilarShares()
    text = "x" * 100
    short, long = (request_of((one,), "ja", "en", account=MINE) for one in (text, 1_000 * text))
    shares.note(short, 0, 300)
    assert (shares.loads(short, 0), shares.loads(short, 7), shares.loads(long, 0)) == ([400], [407], [104_096])
    for _ in range(20):
        shares.note(short, 0, 100)
    assert 200 < shares.loads(short, 0)[0] < 320
    for _ in range(200):
        shares.note(short, 0, 0)
    assert shares.loads(short, 0) == [100]
