"""The translator over the fake pipeline: every retry, every warning, order, bounds, failures and cancellation."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from copy import copy
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest

from dragoman.errors import DeadlineExceeded, EngineDead, UnsupportedLanguage
from dragoman.pipelines.fake import FakePipeline
from dragoman.prompts.encoder import PromptEncoder
from dragoman.service import dispatcher, outputs
from dragoman.service.cache import SegmentCache
from dragoman.service.dispatcher import Dispatcher, LoopTurns, TimeSlices
from dragoman.service.planner import Planner
from dragoman.service.translator import Translator
from dragoman.text import checks
from dragoman.text.confidence import RECENT, ConfidenceModel, Regression
from dragoman.types import (
    Completion,
    CompletionReason,
    Delta,
    EngineSequence,
    Planned,
    TextDelta,
    TextDone,
    TextFormat,
    TokenLogprobs,
    Translation,
    TranslationRequest,
)
from tests.serving import prompts, request_of, source_of
from tests.waiting import scaled, until
from wholetext.markup.segments import Segment, cut

LONG = "The station is near the old bridge. " * 400
ENGLISH = "Where is the train station, please?"


class AnsweringPipeline(FakePipeline):
    """Answers with `answer`, noting what it was given and how many ran at the same time."""

    def __init__(self, answer: Callable[[EngineSequence], str | Completion], *, step_s: float = 0.0) -> None:
        super().__init__(step_s=step_s)
        self.given: list[EngineSequence] = []
        self.at_once = self.most_at_once = 0
        self._of = answer

    async def stream(self, sequence: EngineSequence) -> AsyncGenerator[Delta | Completion]:
        self.given.append(sequence)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            answer = self._of(sequence)
            completion = answer if isinstance(answer, Completion) else completed(answer)
            for number, word in enumerate(completion.text.split(" ")):
                yield Delta(word if number == 0 else f" {word}")
                await asyncio.sleep(0)
            yield completion
        finally:
            self.at_once -= 1

    async def generate(self, sequence: EngineSequence) -> Completion:
        async for item in self.stream(sequence):
            if isinstance(item, Completion):
                found = item
        return found


def completed(text: str, reason: CompletionReason = "stop") -> Completion:
    return Completion(text, reason, 10, len(text.split()))


def translator(
    pipeline: FakePipeline,
    slots: int = 8,
    cache_bytes: int = 0,
    confidence: ConfidenceModel | None = None,
    *,
    queued: int = 1,
    encoder: PromptEncoder | None = None,
) -> Translator:
    packaged, lengths = prompts()
    planner = Planner(encoder or packaged, lengths, pipeline.max_model_len)
    cache = SegmentCache(cache_bytes)
    return Translator(pipeline, planner, Dispatcher(slots, queued=queued), LoopTurns(), cache, confidence)


async def translate(over: Translator, request: TranslationRequest) -> list[Translation]:
    """The texts of a whole answer, in their order."""
    events = [event async for event in over.events(request)]
    assert events[0] == Planned()
    done = {event.index: event.translation for event in events if isinstance(event, TextDone)}
    assert len(events) == 1 + len(done) == 1 + len(request.texts)
    return [done[index] for index in range(len(request.texts))]


async def stream(over: Translator, request: TranslationRequest) -> AsyncGenerator[TextDelta | TextDone]:
    """The events of a stream after the first, which says that all texts are planned."""
    async with aclosing(over.events(request, streamed=True)) as events:
        assert await anext(events) == Planned()
        async for event in events:
            assert not isinstance(event, Planned)
            yield event


async def translated(
    answer: Callable[[EngineSequence], str | Completion], text: str, source: str | None = "en", target: str = "ja"
) -> tuple[Translation, AnsweringPipeline]:
    pipeline = AnsweringPipeline(answer)
    [translation] = await translate(translator(pipeline), TranslationRequest((text,), target, source))
    return translation, pipeline


def codes(translation: Translation) -> list[str]:
    return [warning.code for warning in translation.warnings]


# ---- retries


async def test_an_output_that_reached_its_limit_is_retried_with_twice_the_limit() -> None:
    translation, pipeline = await translated(
        lambda sequence: "駅はどこにありますか。" if sequence.id.endswith("again") else completed("駅", "length"),
        ENGLISH,
    )
    assert (translation.text, translation.finish_reason, codes(translation)) == ("駅はどこにありますか。", "stop", [])
    assert translation.retries == (checks.LENGTH_LIMIT,)
    first, second = pipeline.given
    assert second.max_tokens == 2 * first.max_tokens
    assert second.prompt_token_ids == first.prompt_token_ids


async def test_an_output_that_reaches_its_limit_twice_is_returned_with_a_warning() -> None:
    translation, pipeline = await translated(lambda _: completed("駅", "length"), ENGLISH)
    assert (translation.text, translation.finish_reason) == ("駅", "length")
    assert codes(translation) == [checks.LENGTH_LIMIT]
    assert len(pipeline.given) == 2


async def test_lost_line_breaks_are_retried_line_by_line() -> None:
    translation, pipeline = await translated(
        lambda sequence: source_of(sequence).replace("\n", " ").replace("line", "行"),
        "line one\nline two\n\n line three",
    )
    assert translation.text == "行 one\n行 two\n\n 行 three"
    assert translation.retries == (checks.LINE_BREAKS_LOST,)
    assert codes(translation) == []
    assert len(pipeline.given) == len({sequence.id for sequence in pipeline.given}) == 1 + 2 + 1


async def test_dropped_sentences_are_retried_in_smaller_segments() -> None:
    text = " ".join(
        f"This is sentence {word} of the letter." for word in ("one", "two", "three", "four", "five", "six")
    )

    def answer(sequence: EngineSequence) -> str:
        source = source_of(sequence).replace("sentence", "文")
        return source if source.count(".") < 6 else source.split(".")[0] + "."

    translation, pipeline = await translated(answer, text)
    assert translation.text == text.replace("sentence", "文")
    assert translation.retries == (checks.SENTENCES_DROPPED,)
    assert codes(translation) == []
    assert len(pipeline.given) > 2


# ---- warnings


@pytest.mark.parametrize(
    ("text", "answer", "code", "missing"),
    [
        ("The code is 4711 for 1985.", "暗号は4711です。", checks.NUMBERS_CHANGED, ("1985",)),
        (ENGLISH, "駅はどこですか、" * 40, checks.REPETITION, ()),
        (ENGLISH, ENGLISH, checks.SOURCE_COPIED, ()),
    ],
)
async def test_a_doubtful_translation_has_a_warning_with_a_code(
    text: str, answer: str, code: str, missing: tuple[str, ...]
) -> None:
    translation, _ = await translated(lambda _: answer, text)
    assert codes(translation) == [code]
    assert translation.warnings[0].missing == missing


async def test_sentences_that_a_retry_does_not_bring_back_are_a_warning() -> None:
    text = " ".join(f"Sentence number {word} is here." for word in ("one", "two", "three", "four", "five", "six"))
    translation, _ = await translated(lambda _: "文", text)
    assert checks.SENTENCES_DROPPED in codes(translation)


async def test_a_repetition_that_the_engine_stopped_is_one_warning() -> None:
    translation, _ = await translated(lambda _: completed("駅はどこですか、" * 40, "repetition"), ENGLISH)
    assert (translation.finish_reason, codes(translation)) == ("repetition", [checks.REPETITION])


async def test_a_text_of_an_undetermined_language_is_returned_as_it_is() -> None:
    text = "ᚠᚢᚦᚨᚱᚲ"
    translation, pipeline = await translated(lambda _: "x", text, source=None)
    assert (translation.text, translation.finish_reason) == (text, "unchanged")
    assert codes(translation) == [checks.LANGUAGE_UNDETERMINED]
    assert not pipeline.given


@pytest.mark.parametrize(("text", "source"), [("12 + 3", "en"), ("  \n", "en"), ("こんにちは", "ja"), ("12", None)])
async def test_a_text_with_nothing_to_translate_is_unchanged_without_a_warning(text: str, source: str | None) -> None:
    translation, pipeline = await translated(lambda _: "x", text, source)
    assert (translation.text, translation.finish_reason, codes(translation)) == (text, "unchanged", [])
    assert not pipeline.given


# ---- segments


async def test_a_long_text_is_joined_in_order_whatever_finishes_first() -> None:
    translation, pipeline = await translated(lambda sequence: source_of(sequence).replace("station", "駅"), LONG)
    assert translation.text == LONG.replace("station", "駅")
    assert len(pipeline.given) > 8
    assert translation.usage.prompt_tokens == 10 * len(pipeline.given)
    assert 1 < pipeline.most_at_once <= 9


async def test_a_call_of_many_texts_never_has_more_sequences_than_slots_and_keeps_their_order() -> None:
    pipeline = AnsweringPipeline(lambda sequence: "~" + source_of(sequence).replace("is", ""))
    texts = tuple(f"This is text number {number}." for number in range(200))
    found = await translate(translator(pipeline, slots=4), TranslationRequest(texts, "ja", "en"))
    assert [one.text.split()[-1] for one in found] == [f"{number}." for number in range(200)]
    assert 1 < pipeline.most_at_once <= 5


async def test_prompts_are_encoded_as_slots_become_free() -> None:
    held = asyncio.Event()
    encoded = 0
    pipeline = AnsweringPipeline(lambda _: "x")
    plain = pipeline.generate

    async def generate(sequence: EngineSequence) -> Completion:
        nonlocal encoded
        encoded += 1
        await held.wait()
        return await plain(sequence)

    pipeline.generate = generate  # type: ignore[method-assign]
    texts = tuple(f"Text {number}" for number in range(50))
    call = asyncio.create_task(translate(translator(pipeline, slots=3), TranslationRequest(texts, "ja", "en")))
    for _ in range(200):
        await asyncio.sleep(0)
    assert encoded == 4  # three slots, and one that waits in the engine
    held.set()
    assert len(await call) == 50


async def test_a_long_text_is_split_and_encoded_with_pauses_between_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "SLICE_S", 0.0)
    steps = most_steps = 0

    def counted(*arguments: Any) -> Iterator[Segment]:
        nonlocal steps
        for segment in cut(*arguments):
            steps += 1
            yield segment

    def answer(sequence: EngineSequence) -> str:
        nonlocal steps
        steps += 1
        return source_of(sequence).replace("station", "駅")

    monkeypatch.setattr("dragoman.service.planner.cut", counted)
    call = asyncio.create_task(translated(answer, LONG * 10))
    while not call.done():
        most_steps, steps = max(most_steps, steps), 0
        await asyncio.sleep(0)
    _, pipeline = await call
    assert len(pipeline.given) > 80
    assert most_steps <= 11  # two segments before the first pause, and the nine that the engine has


async def test_a_failure_ends_the_call_and_frees_its_sequences() -> None:
    def answer(sequence: EngineSequence) -> str:
        if "number 7." in source_of(sequence):
            raise EngineDead("crashed")
        return "x"

    pipeline = AnsweringPipeline(answer)
    texts = tuple(f"This is text number {number}." for number in range(50))
    with pytest.raises(EngineDead):
        await translate(translator(pipeline), TranslationRequest(texts, "ja", "en"))
    assert pipeline.at_once == 0
    assert len(pipeline.given) < 50


async def test_a_translation_says_how_many_of_its_segments_cost_no_generation() -> None:
    pipeline = AnsweringPipeline(lambda _: "駅はどこにありますか。")
    over = translator(pipeline, cache_bytes=2**20)
    found = await translate(over, TranslationRequest((ENGLISH, ENGLISH, "12"), "ja", "en"))
    found += await translate(
        over, TranslationRequest((ENGLISH, f"{ENGLISH}\n\nGood morning to all of you."), "ja", "en")
    )
    assert [one.cached for one in found] == [0, 1, 0, 1, 1]
    assert [one.usage.completion_tokens > 0 for one in found] == [True, False, False, False, True]
    assert len(pipeline.given) == 2


async def test_a_segment_that_was_retried_was_generated_though_the_first_attempt_was_cached() -> None:
    pipeline = AnsweringPipeline(lambda _: ENGLISH)
    over = translator(pipeline, cache_bytes=2**20)
    first, second = [(await translate(over, TranslationRequest((ENGLISH,), "ja", "en")))[0] for _ in range(2)]
    assert (first.retries, second.retries) == ((checks.SOURCE_COPIED,), (checks.SOURCE_COPIED,))
    assert (first.cached, second.cached) == (0, 0)


async def test_a_cancelled_call_frees_its_sequences() -> None:
    pipeline = FakePipeline(lambda _: " ".join(["word"] * 500), step_s=0.01)
    await pipeline.start()
    call = asyncio.create_task(translate(translator(pipeline), TranslationRequest((LONG,), "ja", "en")))
    while pipeline.stats().running < 8:  # noqa: ASYNC110
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (pipeline.stats().running, pipeline.stats().waiting) == (0, 0)


async def test_an_unknown_language_is_refused_before_any_work() -> None:
    pipeline = AnsweringPipeline(lambda _: "x")
    with pytest.raises(UnsupportedLanguage):
        await translate(translator(pipeline), TranslationRequest((ENGLISH,), "tlh", "en"))
    assert not pipeline.given


# ---- streams


async def streamed(
    answer: Callable[[EngineSequence], str | Completion], *texts: str, strict: bool = False, cache_bytes: int = 0
) -> tuple[dict[int, str], dict[int, Translation], AnsweringPipeline]:
    pipeline = AnsweringPipeline(answer)
    deltas: dict[int, str] = {}
    done: dict[int, Translation] = {}
    request = TranslationRequest(texts, "ja", "en", strict=strict)
    async for event in stream(translator(pipeline, cache_bytes=cache_bytes), request):
        if isinstance(event, TextDelta):
            assert event.index not in done
            deltas[event.index] = deltas.get(event.index, "") + event.text
        else:
            assert isinstance(event, TextDone)
            done[event.index] = event.translation
    return deltas, done, pipeline


async def test_the_deltas_of_a_text_joined_are_its_translation() -> None:
    deltas, done, pipeline = await streamed(
        lambda sequence: f" {source_of(sequence).replace('station', '駅')} \n", LONG, " one\n\n2\n\nthree ", "12"
    )
    assert deltas == {index: one.text for index, one in done.items()}
    assert done[0].text == LONG.replace("station", "駅")
    assert done[1].text == " one\n\n2\n\nthree "
    assert done[2].finish_reason == "unchanged"
    assert 1 < pipeline.most_at_once <= 9


async def test_a_streamed_segment_is_not_retried_and_has_twice_the_limit() -> None:
    _, done, pipeline = await streamed(lambda _: completed("駅", "length"), ENGLISH)
    assert codes(done[0]) == [checks.LENGTH_LIMIT]
    [sequence] = pipeline.given
    _, plain = await translated(lambda _: "駅", ENGLISH)
    assert sequence.max_tokens == 2 * plain.given[0].max_tokens


async def test_a_stream_joins_an_equal_segment_in_flight_and_gets_its_text_as_it_comes() -> None:
    pipeline = FakePipeline(lambda _: "駅は どこに ありますか。", step_s=0.01)
    await pipeline.start()
    over = translator(pipeline, cache_bytes=2**20)
    request = TranslationRequest((ENGLISH,), "ja", "en")

    async def events(begun: asyncio.Event, wait: asyncio.Event | None = None) -> list[TextDelta | TextDone]:
        found: list[TextDelta | TextDone] = []
        if wait is not None:
            await wait.wait()
        async for event in stream(over, request):
            found.append(event)
            begun.set()
        return found

    begun = asyncio.Event()
    first, joined = await asyncio.gather(events(begun), events(asyncio.Event(), begun))
    stored = await events(begun)
    assert [one.text for one in first if isinstance(one, TextDelta)] == ["駅は", " どこに", " ありますか。"]
    for found in (joined, stored):
        text = "".join(one.text for one in found if isinstance(one, TextDelta))
        assert text == "駅は どこに ありますか。"
        assert isinstance(found[-1], TextDone)
        assert (found[-1].translation.text, found[-1].translation.cached) == (text, 1)
    assert len(joined) > 2  # not as a whole
    assert len(stored) == 2
    assert pipeline.stats().finished == 1


async def test_a_strict_stream_emits_texts_that_are_whole_and_passed_and_retries_the_others() -> None:
    def answer(sequence: EngineSequence) -> str:
        if "train" not in source_of(sequence):
            return source_of(sequence)
        return "駅はどこに ありますか。" if sequence.id.endswith("again") else source_of(sequence)

    copied = "Please send the letter to my old address."
    deltas, done, _ = await streamed(answer, ENGLISH, copied, "12", strict=True)
    assert deltas == {0: "駅はどこに ありますか。", 2: "12"}
    assert (done[0].failed, done[0].retries) == (False, (checks.SOURCE_COPIED,))
    assert (done[1].failed, codes(done[1])) == (True, [checks.SOURCE_COPIED])


async def test_an_error_of_the_engine_ends_a_stream_with_it() -> None:
    def answer(_: EngineSequence) -> str:
        raise EngineDead("crashed")

    with pytest.raises(EngineDead):
        await streamed(answer, ENGLISH, ENGLISH)


# ---- consumers: slow, in other tasks, gone (PEP 789)


async def slow_pipeline(words: int, step_s: float = 0.002) -> FakePipeline:
    pipeline = FakePipeline(lambda _: " ".join(["駅"] * words), step_s=step_s)
    await pipeline.start()
    return pipeline


@pytest.mark.parametrize("texts", [(ENGLISH,), (ENGLISH, "Where is the other station?")])
@pytest.mark.parametrize("cache_bytes", [0, 2**20])
async def test_a_deadline_that_expires_while_the_client_reads_slowly_ends_the_call_at_its_next_step(
    texts: tuple[str, ...], cache_bytes: int
) -> None:
    deadline_s = scaled(0.1)
    pipeline = await slow_pipeline(400, deadline_s / 40)
    over = translator(pipeline, cache_bytes=cache_bytes)
    events = over.events(TranslationRequest(texts, "ja", "en", deadline_s=deadline_s), streamed=True)
    assert await anext(events) == Planned()
    assert isinstance(await anext(events), TextDelta)
    loop = asyncio.get_running_loop()
    passed = loop.create_future()
    loop.call_later(2 * deadline_s, passed.set_result, None)  # in which this task, the consumer, is not cancelled
    await passed
    with pytest.raises(DeadlineExceeded):
        async for _ in events:
            pass
    assert pipeline.stats().running == 0
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0


@pytest.mark.parametrize("texts", [(ENGLISH,), (ENGLISH, "Where is the other station?")])
async def test_each_event_may_be_taken_by_another_task(texts: tuple[str, ...]) -> None:
    over = translator(await slow_pipeline(3), cache_bytes=2**20)
    events = over.events(TranslationRequest(texts, "ja", "en", deadline_s=60.0), streamed=True)

    async def take() -> object:
        return await anext(events, None)

    taken: list[object] = []
    while (event := await asyncio.create_task(take())) is not None:
        taken.append(event)
    assert sum(isinstance(event, TextDone) for event in taken) == len(texts)
    assert sum(isinstance(event, TextDelta) for event in taken) >= 3


@pytest.mark.parametrize("texts", [(ENGLISH,), (ENGLISH, "Where is the other station?")])
@pytest.mark.parametrize("cache_bytes", [0, 2**20])
@pytest.mark.parametrize("number", [1, 2])
async def test_a_client_that_leaves_between_two_events_leaves_nothing_running(
    texts: tuple[str, ...], cache_bytes: int, number: int
) -> None:
    pipeline = await slow_pipeline(400)
    over = translator(pipeline, cache_bytes=cache_bytes)
    before = asyncio.all_tasks()
    events = over.events(TranslationRequest(texts, "ja", "en", deadline_s=60.0), streamed=True)
    for _ in range(number):
        await anext(events)
    await asyncio.create_task(events.aclose())
    assert pipeline.stats().running == 0
    assert asyncio.all_tasks() == before
    assert over._dispatcher.submitted == {"interactive": 0, "bulk": 0}  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("cache_bytes", [0, 2**20])
async def test_a_client_that_does_not_read_holds_no_slot_once_the_engine_has_ended(cache_bytes: int) -> None:
    pipeline = await slow_pipeline(5)
    over = translator(pipeline, cache_bytes=cache_bytes)
    events = over.events(TranslationRequest((ENGLISH,), "ja", "en"), streamed=True)
    assert [type(await anext(events)) for _ in range(2)] == [Planned, TextDelta]
    submitted = over._dispatcher.submitted  # pyright: ignore[reportPrivateUsage]
    assert submitted["interactive"] == 1
    await until(lambda: submitted["interactive"] == 0, "a free slot")
    rest = [event async for event in events]
    assert isinstance(rest[-1], TextDone)
    assert submitted["interactive"] == 0


async def test_a_stream_that_joins_another_holds_a_slot_while_the_sequence_runs() -> None:
    pipeline = await slow_pipeline(100)
    over = translator(pipeline, cache_bytes=2**20)
    first, joined = (over.events(TranslationRequest((ENGLISH,), "ja", "en"), streamed=True) for _ in range(2))
    for events in (first, joined):
        assert [type(await anext(events)) for _ in range(2)] == [Planned, TextDelta]
    await first.aclose()
    submitted = over._dispatcher.submitted  # pyright: ignore[reportPrivateUsage]
    assert (submitted["interactive"], pipeline.stats().running) == (1, 1)
    assert isinstance([event async for event in joined][-1], TextDone)
    assert submitted["interactive"] == 0


async def test_a_call_of_one_segment_adds_no_task() -> None:
    pipeline = AnsweringPipeline(lambda _: "駅はどこにありますか。")
    tasks = asyncio.all_tasks()
    during: list[set[asyncio.Task[object]]] = []
    plain = pipeline.generate

    async def generate(sequence: EngineSequence) -> Completion:
        during.append(asyncio.all_tasks())
        return await plain(sequence)

    pipeline.generate = generate  # type: ignore[method-assign]
    await translate(translator(pipeline), TranslationRequest((ENGLISH,), "ja", "en"))
    assert during == [tasks]


# ---- the bound on attempts


def wrong(sequence: EngineSequence, how: int) -> str | Completion:
    """A wrong output, of a kind that depends on the prompt: whatever is retried may be wrong in another way."""
    source = source_of(sequence)
    kinds: tuple[Callable[[], str | Completion], ...] = (
        lambda: "",
        lambda: source,
        lambda: completed("駅", "length"),
        lambda: "駅 駅 " * 60,
        lambda: re.sub(r"<[^>]*>", "", source).replace("e", "駅"),
        lambda: re.sub(r"\d+", "7", source).replace("e", "駅"),
        lambda: source.replace("\n", " ").replace("e", "駅"),
        lambda: f"Here is the translation:\n\n{source.replace('e', '駅')}",
        lambda: "I cannot help with that.",
    )
    return kinds[(crc32(sequence.id.encode()) + how) % len(kinds)]()


@pytest.mark.parametrize("how", range(9))
@pytest.mark.parametrize(
    ("text", "format"),
    [
        (ENGLISH, "text"),
        ("Pay 12 dollars {now} to room 7.\nThen go to https://a.example/b and wait.", "text"),
        ("<p>" + "Click <b>here</b> for 3 of <i>the</i> {name}. It is <u>not</u> late. " * 12 + "</p>", "html"),
        ("The old bridge is near the station and the church of room 12. " * 20, "text"),
    ],
)
async def test_the_attempts_at_a_segment_are_bounded_by_its_pieces(how: int, text: str, format: TextFormat) -> None:
    pipeline = AnsweringPipeline(lambda sequence: wrong(sequence, how))
    over = translator(pipeline)
    request = TranslationRequest((text,), "ja", "en", format=format)
    [job] = await over.planner.plan(request, TimeSlices(LoopTurns()))
    most = sum(outputs.most_attempts(over.planner, job, one) for one in job.segments if one and one.translatable)
    await translate(over, request)
    assert len(pipeline.given) <= most


# ---- confidence

FITTED = ConfidenceModel(Regression(0.0, {"mean_surprise": -2.0, "retried": -8.0}), threshold=0.4)


def answered(mean_logprob: float, text: str = "駅はどこにありますか。") -> Completion:
    return replace(completed(text), logprobs=TokenLogprobs(mean_logprob, 2 * mean_logprob))


@pytest.mark.parametrize("strict", [False, True])
async def test_below_the_threshold_a_translation_has_a_warning_and_nothing_else_changes(strict: bool) -> None:
    pipeline = AnsweringPipeline(lambda _: answered(-2.0))
    request = TranslationRequest((ENGLISH,), "ja", "en", strict=strict)
    [found] = await translate(translator(pipeline, confidence=FITTED), request)
    assert (codes(found), found.failed, found.retries) == ([checks.LOW_CONFIDENCE], False, ())
    assert found.confidence == pytest.approx(0.1998, abs=1e-4)
    assert len(pipeline.given) == 1


async def test_above_the_threshold_there_is_no_warning() -> None:
    request = TranslationRequest((ENGLISH,), "ja", "en")
    [sure] = await translate(translator(AnsweringPipeline(lambda _: answered(-0.1)), confidence=FITTED), request)
    assert (codes(sure), sure.confidence_kind) == ([], "calibrated")


async def test_without_calibration_a_translation_is_ranked_among_those_of_the_pair() -> None:
    """The same output is among the best or the worst by what the model is used to."""

    async def last_of(usual: float) -> Translation:
        means = iter([usual] * RECENT + [-1.0])
        service = translator(AnsweringPipeline(lambda _: answered(next(means))))
        found = await translate(service, TranslationRequest((ENGLISH,) * RECENT, "ja", "en"))
        assert {one.confidence_kind for one in found} == {"rank"}
        [last] = await translate(service, TranslationRequest((ENGLISH,), "ja", "en"))
        return last

    best, worst = await last_of(-3.0), await last_of(-0.05)
    assert worst.confidence is not None and best.confidence is not None
    assert worst.confidence < 0.08 < 0.9 < best.confidence
    assert (codes(worst), codes(best)) == ([checks.LOW_CONFIDENCE], [])


async def test_what_the_cache_has_is_not_counted_again_in_the_ranks() -> None:
    means = iter([-1.0, -1.0, -0.2])
    service = translator(AnsweringPipeline(lambda _: answered(next(means))), cache_bytes=10_000)
    ranks: list[float | None] = []
    for text in (ENGLISH, *(f"{ENGLISH}!",) * 40, f"{ENGLISH}?"):
        [found] = await translate(service, TranslationRequest((text,), "ja", "en"))
        ranks.append(found.confidence)
    assert ranks[1] == ranks[40]


async def test_without_probabilities_and_without_a_translation_the_confidence_is_unknown() -> None:
    request = TranslationRequest((ENGLISH, "42"), "ja", "en")
    pipeline = AnsweringPipeline(lambda _: "駅はどこにありますか。")
    found = await translate(translator(pipeline, confidence=FITTED), request)
    assert [one.confidence for one in found] == [None, None]


async def test_a_cached_translation_has_the_confidence_of_the_one_that_was_made() -> None:
    pipeline = AnsweringPipeline(lambda _: answered(-2.0))
    service = translator(pipeline, cache_bytes=10_000, confidence=FITTED)
    request = TranslationRequest((ENGLISH,), "ja", "en")
    [[made], [cached]] = [await translate(service, request) for _ in range(2)]
    assert (cached.cached, cached.confidence, codes(cached)) == (1, made.confidence, codes(made))


async def test_a_retried_segment_is_less_certain() -> None:
    pipeline = AnsweringPipeline(
        lambda sequence: answered(-0.1) if sequence.id.endswith("again") else answered(-0.1, "駅 駅 " * 40)
    )
    [found] = await translate(translator(pipeline, confidence=FITTED), TranslationRequest((ENGLISH,), "ja", "en"))
    assert found.retries
    assert found.confidence is not None
    assert found.confidence < 0.1


async def test_a_pair_of_tags_in_a_streamed_text_is_put_back() -> None:
    deltas, _, _ = await streamed(
        lambda _: "<g1>Hier</g1> klicken, < g2 >jetzt</g2>.", "Click <0>here</0> right <b>now</b>."
    )
    assert deltas[0] == "<0>Hier</0> klicken, <b>jetzt</b>."


# ---- texts in capitals

CAPITALS = "OPEN {name} ON THE DASHBOARD"


async def of_capitals(
    answer: str, *, profile: bool = True, **request: Any
) -> tuple[Translation, Translation, list[str]]:
    """The translation of `CAPITALS`, the one that is streamed, and the texts that the model was given."""
    pipeline = AnsweringPipeline(lambda _: answer)
    encoder = copy(prompts()[0])
    if not profile:
        encoder.profile = replace(encoder.profile, capitals_as_sentences=False)
    over = translator(pipeline, encoder=encoder)
    asked = request_of((CAPITALS,), "en", "ko", **request)  # a language with capitals that the model can write
    [whole] = await translate(over, asked)
    events = [event async for event in stream(over, asked)]
    streamed = events[-1]
    assert isinstance(streamed, TextDone)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == streamed.translation.text
    return whole, streamed.translation, [source_of(one) for one in pipeline.given]


async def test_a_text_in_capitals_is_given_as_a_sentence_and_comes_back_in_capitals() -> None:
    whole, streamed, given = await of_capitals("Please show {name} on it.")
    assert {whole.text, streamed.text} == {"PLEASE SHOW {name} ON IT."}
    assert set(given) == {"Open {name} on the dashboard"}
    assert not whole.warnings and not whole.retries


async def test_a_profile_that_does_not_say_so_is_given_the_capitals() -> None:
    whole, _, given = await of_capitals("Please show {name} on it.", profile=False)
    assert (whole.text, set(given)) == ("Please show {name} on it.", {CAPITALS})


async def test_a_term_of_the_glossary_is_found_in_capitals_and_keeps_its_own_case() -> None:
    glossary = {"Dashboard": "myBoard", "open": "launch"}
    whole, streamed, given = await of_capitals("Please launch {name} on the myBoard.", glossary=glossary)
    assert {whole.text, streamed.text} == {"PLEASE launch {name} ON THE myBoard."}
    assert set(given) == {"launch {name} on the myBoard"}


async def test_a_copy_of_a_text_in_capitals_is_found() -> None:
    whole, _, _ = await of_capitals("Open {name} on the dashboard")
    assert checks.SOURCE_COPIED in {warning.code for warning in whole.warnings}
