"""The cache of segments: what is stored, what shares a generation, what bounds it, and its file."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import stat
import sys
import tracemalloc
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager, closing, suppress
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from dragoman import phrasebook
from dragoman.engine.checkpoint import revision
from dragoman.errors import ConfigError, EngineFailed
from dragoman.pipelines.fake import FakePipeline
from dragoman.service import cache as caching
from dragoman.service.cache import CacheFile, SegmentCache, size_bytes
from dragoman.types import Completion, Delta, EngineSequence, Sampling, Timings, TokenLogprobs
from tests.waiting import HANG_S

MIB = 2**20
CALLER: ContextVar[str] = ContextVar("CALLER", default="")


def sequence(*token_ids: int, max_tokens: int = 50, id: str = "a") -> EngineSequence:
    return EngineSequence(id, token_ids or (1, 2, 3), max_tokens)


class Engine(FakePipeline):
    """Counts what it is asked to generate; answers when it is allowed to."""

    def __init__(self, text: str = "駅です。") -> None:
        super().__init__()
        self.completion = Completion(text, "stop", 3, 4, Timings(0.1, 0.2, 0.3))
        self.began = self.ended = 0
        self.failure: Exception | None = None
        self.callers: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def generate(self, sequence: EngineSequence) -> Completion:
        self.began += 1
        self.callers.append(CALLER.get())
        try:
            await asyncio.sleep(0)
            await self.may_answer.wait()
            if self.failure is not None:
                raise self.failure
            return self.completion
        finally:
            self.ended += 1


async def generate(cache: SegmentCache, one: EngineSequence, engine: FakePipeline) -> Completion:
    key = cache.key(one)
    return await engine.generate(one) if key is None else await cache.generate(key, one, engine)


def stream(cache: SegmentCache, one: EngineSequence, engine: FakePipeline) -> AsyncGenerator[Delta | Completion]:
    return cache.stream(cache.key(one), one, engine, lambda: None)


class Absent(Engine):
    """Fails on what is to be generated."""

    async def generate(self, sequence: EngineSequence) -> Completion:
        raise KeyError


async def store(cache: SegmentCache, one: EngineSequence, completion: Completion) -> None:
    engine = Engine()
    engine.completion = completion
    await generate(cache, one, engine)


async def find(cache: SegmentCache, one: EngineSequence) -> Completion | None:
    """What is stored."""
    try:
        return await generate(cache, one, Absent())
    except KeyError:
        return None


async def looked_up(cache: SegmentCache, one: EngineSequence, engine: Engine) -> tuple[Completion, str]:
    """The completion, and where it came from; only while no other lookup ends."""
    before = cache.stats()
    completion = await generate(cache, one, engine)
    after = cache.stats()
    [hit] = [name for name in ("stored", "in_flight", "misses") if getattr(after, name) > getattr(before, name)]
    return completion, hit.replace("misses", "miss")


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_stored_segment_is_not_generated_again() -> None:
    cache, engine = SegmentCache(MIB), Engine()
    first, missed = await looked_up(cache, sequence(), engine)
    second, hit = await looked_up(cache, sequence(id="b"), engine)
    assert (missed, hit, engine.began) == ("miss", "stored", 1)
    assert first == second == engine.completion
    assert (first.cached, first.timings) == (False, engine.completion.timings)
    assert (second.cached, second.timings) == (True, None)
    stats = cache.stats()
    assert (stats.stored, stats.in_flight, stats.misses, stats.entries) == (1, 0, 1, 1)
    assert stats.bytes == cache.bytes == size_bytes(second)


async def test_what_changes_the_output_is_in_the_key() -> None:
    cache, engine = SegmentCache(MIB), Engine()
    base = sequence()
    others = (
        sequence(1, 2, 4),
        sequence(1, 2),
        replace(base, sampling=Sampling(repetition_penalty=1.1)),
        replace(base, sampling=Sampling(stop=("\n",))),
    )
    for one in (base, *others):
        assert (await looked_up(cache, one, engine))[1] == "miss"
    for one in (base, *others):
        assert (await looked_up(cache, one, engine))[1] == "stored"


async def test_a_stored_output_serves_every_limit_that_it_fits() -> None:
    cache, engine = SegmentCache(MIB), Engine()
    await generate(cache, sequence(max_tokens=50), engine)
    assert (await looked_up(cache, sequence(max_tokens=4), engine))[1] == "stored"
    assert (await looked_up(cache, sequence(max_tokens=3), engine))[1] == "miss"


async def test_only_outputs_that_ended_by_themselves_are_stored() -> None:
    cache, engine = SegmentCache(MIB), Engine()
    for reason in ("length", "repetition"):
        engine.completion = replace(engine.completion, reason=reason)
        await generate(cache, sequence(), engine)
    assert (engine.began, cache.stats().entries) == (2, 0)


@pytest.mark.parametrize(
    ("max_bytes", "change"),
    [(0, {}), (MIB, {"forced": True}), (MIB, {"sampling": Sampling(temperature=0.7)})],
)
async def test_what_is_not_cached_shares_no_generation_either(max_bytes: int, change: dict[str, object]) -> None:
    cache, engine = SegmentCache(max_bytes), Engine()
    one = replace(sequence(), **change)  # type: ignore[arg-type]
    await asyncio.gather(*(generate(cache, one, engine) for _ in range(2)))
    assert (cache.stats().misses, cache.stats().in_flight, engine.began) == (0, 0, 2)
    assert cache.stats().stored == cache.stats().misses == cache.stats().entries == 0


# ---- bounds


async def test_the_least_recently_used_are_dropped() -> None:
    engine = Engine()
    cache = SegmentCache(3 * size_bytes(engine.completion))
    for number in (1, 2, 3, 1, 4):  # 2 is the least recently used when 4 comes
        await generate(cache, sequence(number), engine)
    assert [await find(cache, sequence(number)) is not None for number in (1, 2, 3, 4)] == [True, False, True, True]
    assert cache.bytes == cache.max_bytes


async def test_a_text_larger_than_the_bound_is_not_stored() -> None:
    cache = SegmentCache(1000)
    await generate(cache, sequence(), Engine("a" * 2000))
    assert (cache.bytes, cache.stats().entries) == (0, 0)


async def test_an_entry_that_is_stored_again_counts_once() -> None:
    cache, engine = SegmentCache(MIB), Engine()
    await asyncio.gather(*(generate(cache, sequence(max_tokens=limit), engine) for limit in (5, 50)))
    assert (engine.began, cache.bytes, cache.stats().entries) == (2, size_bytes(engine.completion), 1)


async def test_the_memory_of_entries_is_what_is_counted() -> None:
    cache = SegmentCache(64 * MIB)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(2_000):
            logprobs = TokenLogprobs(-0.001 * number, -0.002 * number)
            text = f"駅は{number}番です。" * 5
            await store(
                cache, sequence(number), Completion(text, "stop", 300 + number, 300 + number, logprobs=logprobs)
            )
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cache.bytes * 0.7 < held < cache.bytes * 1.1


# ---- single-flight


async def test_equal_sequences_in_flight_share_one_generation_in_the_first_ones_context() -> None:
    cache, engine = SegmentCache(MIB), Engine()

    async def call(name: str) -> Completion:
        CALLER.set(name)
        return await generate(cache, sequence(id=name), engine)

    completions = await asyncio.gather(*map(call, ("first", "second", "third")))
    assert [completion.cached for completion in completions] == [False, True, True]
    assert engine.callers == ["first"]
    assert (cache.stats().misses, cache.stats().in_flight) == (1, 2)


class Parts(FakePipeline):
    """Streams the parts that a test puts into it, three of them."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: asyncio.Queue[str] = asyncio.Queue()

    async def stream(self, sequence: EngineSequence) -> AsyncGenerator[Delta | Completion]:
        for _ in range(3):
            yield Delta(await self.parts.get())
        yield Completion("駅です。", "stop", 3, 4)


async def test_callers_that_follow_get_what_was_generated_and_then_each_part() -> None:
    cache, engine = SegmentCache(MIB), Parts()
    texts: dict[str, list[str]] = {"first": [], "joined": [], "left": [], "stored": []}

    async def follow(name: str) -> Completion:
        async with aclosing(stream(cache, sequence(id=name), engine)) as items:
            async for item in items:
                if isinstance(item, Completion):
                    return item
                texts[name].append(item.text)
        raise AssertionError

    first = asyncio.create_task(follow("first"))
    for part in "駅で":
        engine.parts.put_nowait(part)
        await settle()
    joined, left = asyncio.create_task(follow("joined")), asyncio.create_task(follow("left"))
    await settle()
    left.cancel()
    await settle()
    engine.parts.put_nowait("す。")
    assert [(await one).cached for one in (first, joined, asyncio.create_task(follow("stored")))] == [False, True, True]
    assert texts == {"first": ["駅", "で", "す。"], "joined": ["駅で", "す。"], "left": ["駅で"], "stored": []}
    stats = cache.stats()
    assert (stats.misses, stats.in_flight, stats.stored) == (1, 2, 1)


async def test_a_stream_that_is_closed_between_two_parts_ends_the_generation_that_no_other_follows() -> None:
    pipeline, cache = FakePipeline(lambda _: "a b c", step_s=0.001), SegmentCache(MIB)
    await pipeline.start()
    items = stream(cache, sequence(), pipeline)
    assert await anext(items) == Delta("a")
    await items.aclose()
    assert pipeline.stats().running == 0
    assert await generate(cache, sequence(), pipeline) == Completion("a b c", "stop", 3, 3)


async def test_parts_that_came_while_the_caller_did_something_else_are_joined() -> None:
    cache, engine = SegmentCache(MIB), Parts()
    items = stream(cache, sequence(), engine)
    engine.parts.put_nowait("駅")
    assert await anext(items) == Delta("駅")
    for part in ("で", "す。"):
        engine.parts.put_nowait(part)
    await settle()
    assert await anext(items) == Delta("です。")
    assert await anext(items) == Completion("駅です。", "stop", 3, 4)


@pytest.mark.parametrize("leaving", [0, 1])
async def test_a_caller_that_is_cancelled_does_not_cancel_what_another_waits_for(leaving: int) -> None:
    cache, engine = SegmentCache(MIB), Engine()
    engine.may_answer.clear()
    calls = [asyncio.create_task(generate(cache, sequence(), engine)) for _ in range(2)]
    await settle()
    calls[leaving].cancel()
    await settle()
    assert (calls[leaving].cancelled(), engine.ended) == (True, 0)
    engine.may_answer.set()
    assert await calls[1 - leaving] == engine.completion
    assert engine.began == 1


async def test_a_generation_ends_before_its_last_caller_does() -> None:
    cache, engine = SegmentCache(MIB), Engine()
    engine.may_answer.clear()
    calls = [asyncio.create_task(generate(cache, sequence(), engine)) for _ in range(2)]
    await settle()
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)
    assert engine.ended == 1
    engine.may_answer.set()
    assert (await looked_up(cache, sequence(), engine))[1] == "miss"


async def test_a_caller_that_comes_while_a_generation_is_being_cancelled_starts_its_own() -> None:
    cache, engine = SegmentCache(MIB), Engine()
    engine.may_answer.clear()
    leaving = asyncio.create_task(generate(cache, sequence(), engine))
    await settle()
    leaving.cancel()
    await asyncio.sleep(0)  # it has cancelled the generation, which has not ended
    engine.may_answer.set()
    assert await generate(cache, sequence(), engine) == engine.completion
    assert leaving.cancelled()


async def test_a_failure_reaches_all_callers_and_is_not_kept() -> None:
    cache, engine = SegmentCache(MIB), Engine()
    engine.failure = EngineFailed("broken")
    results = await asyncio.gather(*(generate(cache, sequence(), engine) for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [EngineFailed] * 3
    assert engine.began == 1
    engine.failure = None
    assert (await looked_up(cache, sequence(), engine))[1] == "miss"


async def test_a_failure_that_no_caller_waits_for_is_not_reported() -> None:
    cache = SegmentCache(MIB)
    reported = list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    began = asyncio.Event()

    class Failing(Engine):
        async def generate(self, sequence: EngineSequence) -> Completion:
            began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise EngineFailed("broken") from None
            raise AssertionError

    call = asyncio.create_task(generate(cache, sequence(), Failing()))
    await began.wait()
    call.cancel()
    await asyncio.wait([call])
    del call
    gc.collect()
    await settle()
    assert reported == []


async def test_over_a_pipeline_a_cancelled_call_frees_the_engines_slot() -> None:
    pipeline, cache = FakePipeline(step_s=3600.0, slots=1), SegmentCache(MIB)
    await pipeline.start()
    call = asyncio.create_task(generate(cache, sequence(), pipeline))
    await settle()
    assert pipeline.stats().running == 1
    call.cancel()
    await asyncio.wait([call])
    assert pipeline.stats().running == 0


# ---- the file


@asynccontextmanager
async def filed(path: Path, fingerprint: str = "model", max_bytes: int = MIB) -> AsyncGenerator[SegmentCache]:
    """A server's cache with a file; on leaving, what it stored is written."""
    cache = SegmentCache(MIB, CacheFile(path, max_bytes, fingerprint))
    cache.start()
    try:
        yield cache
    finally:
        await cache.close()


async def test_a_file_keeps_segments_over_a_restart(tmp_path: Path) -> None:
    path, engine = tmp_path / "folder" / "cache.sqlite", Engine()
    async with filed(path) as cache:
        assert (await looked_up(cache, sequence(), engine))[1] == "miss"
    async with filed(path) as cache:
        calls = (generate(cache, sequence(), engine) for _ in range(2))
        results = await asyncio.gather(*calls)
        assert [(completion, completion.cached) for completion in results] == [(engine.completion, True)] * 2
        assert (cache.stats().stored, cache.stats().in_flight) == (1, 1)
        assert cache.stats().entries == 1
    async with filed(path) as cache:
        assert await find(cache, sequence()) == engine.completion
        assert (await looked_up(cache, sequence(max_tokens=3), engine))[1] == "miss"
    assert engine.began == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_file_keeps_the_probabilities_of_tokens(tmp_path: Path) -> None:
    made = Completion("駅", "stop", 3, 4, logprobs=TokenLogprobs(-0.5, -1.5))
    async with filed(tmp_path / "cache.sqlite") as cache:
        await store(cache, sequence(), made)
    async with filed(tmp_path / "cache.sqlite") as cache:
        found = await find(cache, sequence())
    assert found is not None
    assert found.logprobs == made.logprobs


async def test_a_file_of_an_older_format_is_emptied(tmp_path: Path) -> None:
    path, engine = tmp_path / "cache.sqlite", Engine()
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE entries (number INTEGER PRIMARY KEY, key BLOB, text TEXT)")
        database.execute("INSERT INTO entries (text) VALUES ('old')")
        database.commit()
    async with filed(path) as cache:
        assert (await looked_up(cache, sequence(), engine))[1] == "miss"
    async with filed(path) as cache:
        assert await find(cache, sequence()) == engine.completion


async def test_a_file_of_another_model_has_nothing(tmp_path: Path) -> None:
    path, engine = tmp_path / "cache.sqlite", Engine()
    async with filed(path, "one") as cache:
        await generate(cache, sequence(), engine)
    async with filed(path, "other") as cache:
        assert await find(cache, sequence()) is None


def test_a_checkpoint_that_is_replaced_has_another_revision(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    before = revision(str(tmp_path))
    assert revision(str(tmp_path)) == before
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    assert revision(str(tmp_path)) != before
    assert revision(str(phrasebook.model_dir())) != before


async def test_a_full_file_loses_its_oldest_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching, "_MAX_BATCH", 50)
    path, max_bytes = tmp_path / "cache.sqlite", 200_000
    async with filed(path, max_bytes=max_bytes) as cache:
        for number in range(300):
            await store(cache, sequence(number), Completion("a" * 2000, "stop", 1, 1))
    async with filed(path) as cache:
        found = [await find(cache, sequence(number)) is not None for number in range(300)]
    assert found == sorted(found)  # the newest are there
    assert 30 < sum(found) < 100
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT SUM(length(text)) FROM entries").fetchone()[0] <= max_bytes


def _folder(path: Path) -> None:
    path.mkdir()


def _text(path: Path) -> None:
    path.write_text("this is not a database, and longer than the header of one\n" * 10)


@pytest.mark.parametrize("make", [_folder, _text])
def test_a_file_that_cannot_be_opened_is_an_error_of_the_settings(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "cache")
    with pytest.raises(ConfigError) as error:
        CacheFile(tmp_path / "cache", MIB, "model")
    assert error.value.param == "cache.file"


async def test_a_file_that_fails_costs_its_entries_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, engine = tmp_path / "cache.sqlite", Engine()
    async with filed(path) as cache:
        await generate(cache, sequence(), engine)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = DELETE")
        database.execute("DROP TABLE entries")
    file = CacheFile(path, MIB, "model")
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE entries")
    cache = SegmentCache(MIB, file)
    cache.start()
    async with asyncio.timeout(HANG_S):
        for number in range(3):
            assert (await looked_up(cache, sequence(number), engine))[1] == "miss"
            assert (await looked_up(cache, sequence(number), engine))[1] == "stored"
        await cache.close()
    assert len([record for record in caplog.records if "failed" in record.message]) == 1


async def test_a_fault_in_the_files_thread_leaves_no_read_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(caching, "_select", fail)
    engine = Engine()
    cache = SegmentCache(MIB, CacheFile(tmp_path / "cache.sqlite", MIB, "model"))
    cache.start()
    async with asyncio.timeout(HANG_S):
        for number in range(3):
            assert (await looked_up(cache, sequence(number), engine))[1] == "miss"
        await cache.close()


async def test_a_closed_file_is_not_waited_for(tmp_path: Path) -> None:
    engine = Engine()
    async with filed(tmp_path / "cache.sqlite") as cache:
        pass
    async with asyncio.timeout(HANG_S):
        assert (await looked_up(cache, sequence(), engine))[1] == "miss"


@pytest.mark.parametrize("is_of_key", [False, True])
def test_with_the_scope_of_a_key_nothing_is_shared_between_accounts(is_of_key: bool) -> None:
    cache = SegmentCache(2**20, is_of_key=is_of_key)
    keys = {cache.key(replace(sequence(1), owner=owner)) for owner in ("a", "b", "a")}
    assert len(keys) == (2 if is_of_key else 1)


async def test_what_is_stored_or_in_flight_needs_no_engine_also_where_only_the_file_has_it(tmp_path: Path) -> None:
    file = CacheFile(tmp_path / "cache.db", MIB, "model")
    cache, engine = SegmentCache(MIB, file), Engine()
    cache.start()
    one, other = sequence(1), sequence(2)
    key, other_key = cache.key(one), cache.key(other)
    assert key is not None
    assert other_key is not None
    assert not await cache.needs_no_engine(key, one)
    assert not await cache.needs_no_engine(None, one)
    generating = asyncio.create_task(cache.generate(key, one, engine))
    await asyncio.sleep(0)
    assert await cache.needs_no_engine(key, one)
    await generating
    assert await cache.needs_no_engine(key, one)
    await cache.close()
    cache = SegmentCache(MIB, CacheFile(tmp_path / "cache.db", MIB, "model"))
    cache.start()
    assert await cache.needs_no_engine(key, one)
    assert not await cache.needs_no_engine(key, replace(one, max_tokens=1))
    assert not await cache.needs_no_engine(other_key, other)
    await cache.close()


@pytest.mark.parametrize("text", ["Where is it?", "Où ?", "駅はどこですか？", "駅 😀", "\ud800"])
def test_the_size_of_an_entry_is_the_same_after_its_text_is_serialised(text: str) -> None:
    completion = Completion("".join([*text]), "stop", 3, 4)
    before = size_bytes(completion)
    with suppress(orjson.JSONEncodeError):  # of half a pair
        orjson.dumps(completion.text)  # which has Python keep the UTF-8 with it
    assert size_bytes(completion) == before
    assert before >= sys.getsizeof(completion.text) + caching.ENTRY_BYTES


async def test_the_cache_keeps_within_its_bound_where_what_is_stored_is_serialised() -> None:
    cache, engine = SegmentCache(50 * (caching.ENTRY_BYTES + 500)), Engine()
    for number in range(1_000):
        one = sequence(number)
        engine.completion = Completion(f"{number} " + "ⓐⓑⓒ" * 20, "stop", 3, 4)
        orjson.dumps((await generate(cache, one, engine)).text)
    entries = cache.stats().entries
    assert entries * (caching.ENTRY_BYTES + 300) <= cache.max_bytes
    assert cache.bytes <= cache.max_bytes
