"""Engines elsewhere: what they are sent, what becomes of sequences when they fail, and what they say of themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal

import pytest
from tokenizers import Tokenizer, models

from dragoman.cli import doctor
from dragoman.errors import ConfigError, DragomanError, EngineDead, EngineFailed, EngineRejected, EngineRestarting
from dragoman.phrasebook import model_dir
from dragoman.pipelines import remote as module
from dragoman.pipelines.fake import FakePipeline
from dragoman.prompts.tokenizer import TextTokenizer
from dragoman.service.service import TranslationService
from dragoman.service.stack import model_tokens
from dragoman.settings import PipelineSettings, RemoteSettings, Settings, StorageSettings, TrafficSettings
from dragoman.types import Completion, Delta, EngineSequence, Sampling, TokenLogprobs
from tests.pipelines.building import loaded, running
from tests.pipelines.conftest import TOKENIZER, remote
from tests.pipelines.faults import FAULTS, Fault, table
from tests.pipelines.scripted import WINDOW, sequence
from tests.pipelines.upstream import Upstream, listening
from tests.serving import served
from tests.waiting import HANG_S, scaled, until

ROOT = Path(__file__).parents[2]
CONTROL = next(
    (number, token.content) for number, token in TOKENIZER.get_added_tokens_decoder().items() if token.special
)


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with listening(Upstream(TOKENIZER)) as upstream:
        yield upstream


# ---- what they are sent


async def test_prompts_are_token_ids_with_the_profiles_stops(upstream: Upstream) -> None:
    sampling = Sampling(stop_token_ids=(7, 9), stop=("\n\n",), top_k=20, repetition_penalty=1.05)
    async with running(remote(upstream, api_key="a-key", logprobs=True)) as pipeline:
        done = await pipeline.generate(EngineSequence("a", (1, 5, 6), 12, sampling))
    body = upstream.bodies[-1]
    assert body["prompt"] == [1, 5, 6]
    assert (body["stop_token_ids"], body["stop"], body["max_tokens"]) == ([7, 9], ["\n\n"], 12)
    assert (body["temperature"], body["top_k"], body["repetition_penalty"]) == (0.0, 20, 1.05)
    assert (body["min_p"], body["presence_penalty"], body["ignore_eos"]) == (
        0.0,
        0.0,
        False,
    )  # not the engine's defaults
    assert {one["Authorization"] for one in upstream.headers} == {"Bearer a-key"}
    assert done.logprobs == TokenLogprobs(-0.375, -0.5)


async def test_llama_server_says_its_window_and_its_slots() -> None:
    llama = Upstream(TOKENIZER, software="llamacpp")
    async with listening(llama) as upstream, running(remote(upstream, logprobs=True)) as pipeline:
        assert pipeline.max_model_len == WINDOW
        assert [one.slots for one in pipeline.engines] == [4]
        done = await pipeline.generate(EngineSequence("a", (301,), 12, Sampling(repetition_penalty=1.05)))
        assert done.text and done.logprobs == TokenLogprobs(-0.375, -0.5)
    body = upstream.bodies[-1]
    assert (body["repeat_penalty"], body["logprobs"]) == (1.05, 1)  # in its own words


async def test_no_more_sequences_run_there_than_it_has_slots(upstream: Upstream) -> None:
    upstream.gate.clear()
    async with running(remote(upstream, slots=3)) as pipeline:
        tasks = [asyncio.create_task(pipeline.generate(sequence(300 + number))) for number in range(8)]
        await loaded(pipeline, running=3, waiting=5)
        await until(lambda: len(upstream.bodies) == 3, "three requests")
        upstream.gate.set()
        done = await asyncio.gather(*tasks)
    assert [one.text.split()[-1] for one in done] == [str(300 + number) for number in range(8)]


async def test_slots_that_come_free_together_are_all_taken(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES_S", (HANG_S,))  # nothing else wakes what waits
    async with running(remote(upstream, slots=2)) as pipeline, AsyncExitStack() as taken:
        for _ in range(2):
            await taken.enter_async_context(pipeline._engine())  # pyright: ignore[reportPrivateUsage]
        upstream.gate.clear()
        waiting = [asyncio.create_task(pipeline.generate(sequence(300 + number))) for number in range(2)]
        await loaded(pipeline, running=2, waiting=2)
        await taken.aclose()  # both, before anything else runs
        await loaded(pipeline, running=2, waiting=0)
        upstream.gate.set()
        assert len(await asyncio.gather(*waiting)) == 2


async def test_ollama_is_sent_text_in_which_it_finds_no_other_control_tokens(upstream: Upstream) -> None:
    words = TOKENIZER.encode("Where is the station?", add_special_tokens=False).ids
    as_text = TOKENIZER.encode(CONTROL[1][:1], add_special_tokens=False).ids
    spelled = [*as_text, *model_tokens(TextTokenizer(TOKENIZER)).encode(CONTROL[1][1:])]
    async with running(remote(upstream, api="ollama")) as pipeline:
        done = await pipeline.generate(EngineSequence("a", (*words, CONTROL[0], *words), 3, Sampling(stop=("#",))))
        assert done.reason == "length"
        body = upstream.bodies[-1]
        assert body["raw"] is True
        assert TOKENIZER.encode(body["prompt"], add_special_tokens=False).ids.count(CONTROL[0]) == 1
        assert (body["options"]["num_predict"], body["options"]["num_ctx"]) == (3, WINDOW)
        *deltas, last = [item async for item in pipeline.stream(EngineSequence("b", tuple(words), 900))]
        assert isinstance(last, Completion)
        assert "".join(one.text for one in deltas if isinstance(one, Delta)) == last.text != ""
        with pytest.raises(EngineRejected):
            await pipeline.generate(EngineSequence("c", tuple(spelled), 12))


# ---- failures


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
async def test_a_sequence_is_answered_or_ends_with_one_error(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch, fault: Fault, stream: bool
) -> None:
    monkeypatch.setattr(module, "PAUSES_S", (0.01,))
    between_s = scaled(0.2) if stream else 0.001  # of a whole answer the limits of all tokens add up
    timeouts = {"first_token_timeout_s": scaled(0.3), "token_timeout_s": between_s} if fault.then == "nothing" else {}
    async with running(remote(upstream, **timeouts)) as pipeline:
        upstream.faults.extend([fault] * (module.FAILURES_SURVIVED + 1 if fault.each_time else 1))
        one, code = sequence(301), fault.code_of(stream=stream)
        try:
            if stream:
                *_, done = [item async for item in pipeline.stream(one)]
                assert isinstance(done, Completion)
            else:
                done = await pipeline.generate(one)
        except DragomanError as error:
            assert error.code == code
            assert upstream.url not in error.message
        else:
            assert (done.text.split()[-1], code) == ("301", "")
        assert pipeline.stats().running == 0
        assert fault.each_time or not upstream.faults
        upstream.faults.clear()
        for engine in pipeline.engines:
            engine.busy_until_s = 0.0
        assert (await pipeline.generate(sequence(302))).text.endswith("302")


def test_the_table_of_failures_is_that_of_the_docs() -> None:
    assert len(FAULTS) >= 30
    page = (ROOT / "docs/engines.md").read_text(encoding="utf-8")
    assert "\n".join(table()) in page, "python -m tests.pipelines.faults prints the table"


async def test_a_sequence_that_is_cancelled_is_cancelled_there(upstream: Upstream) -> None:
    upstream.gate.clear()
    async with running(remote(upstream)) as pipeline:
        whole = asyncio.create_task(pipeline.generate(sequence(301)))
        await until(lambda: len(upstream.bodies) == 1, "the request")
        whole.cancel()
        await until(lambda: upstream.cancelled == 1, "its end there")
        upstream.gate.set()
        items = pipeline.stream(EngineSequence("b", tuple(range(300, 500)), 900))
        assert isinstance(await anext(items), Delta)
        await items.aclose()
        await until(lambda: upstream.cancelled == 2, "the stream's end there")
        assert pipeline.stats().running == 0


async def test_what_has_two_engines_waits_for_none_that_is_busy(upstream: Upstream) -> None:
    async with listening(Upstream(TOKENIZER)) as busy, running(remote(busy, upstream)) as pipeline:
        busy.faults.append(next(fault for fault in FAULTS if fault.code == "queue_full"))
        done = await asyncio.gather(*(pipeline.generate(sequence(300 + number)) for number in range(4)))
        assert [one.text.split()[-1] for one in done] == [str(300 + number) for number in range(4)]
        assert [one.busy for one in pipeline.stats().remote] == [True, False]
        assert [one.losses for one in pipeline.stats().remote] == [0, 0]


async def test_an_engine_that_does_not_answer_in_time_is_lost(upstream: Upstream) -> None:
    async with running(remote(upstream, first_token_timeout_s=0.05, token_timeout_s=0.0001)) as pipeline:
        upstream.gate.clear()
        task = asyncio.create_task(pipeline.generate(sequence(301)))
        await until(lambda: pipeline.stats().restarts == 1, "the loss")
        upstream.gate.set()
        assert (await task).text.endswith("301")


async def test_a_stream_of_which_something_was_sent_does_not_run_again(upstream: Upstream) -> None:
    upstream.cut_after_first = True
    async with running(remote(upstream)) as pipeline:
        with pytest.raises(EngineFailed):
            _ = [item async for item in pipeline.stream(sequence(301))]


async def test_what_was_in_flight_at_a_lost_engine_runs_on_another_and_it_comes_back() -> None:
    async with AsyncExitStack() as stack:
        stays = await stack.enter_async_context(listening(Upstream(TOKENIZER)))
        dies = Upstream(TOKENIZER)
        leaving = AsyncExitStack()
        await leaving.enter_async_context(listening(dies))
        pipeline = await stack.enter_async_context(running(remote(stays, dies)))
        dies.gate.clear()
        tasks = [asyncio.create_task(pipeline.generate(sequence(300 + number))) for number in range(20)]
        await until(lambda: len(dies.bodies) > 0, "sequences of the engine that dies")
        await leaving.aclose()
        done = await asyncio.gather(*tasks)
        assert [one.text.split()[-1] for one in done] == [str(300 + number) for number in range(20)]
        await pipeline.check_health()
        dies.gate.set()
        dies.bodies.clear()
        await stack.enter_async_context(listening(dies))
        await until(lambda: not any(one.fault for one in pipeline.engines), "its return")
        await asyncio.gather(*(pipeline.generate(sequence(400 + number)) for number in range(8)))
        assert dies.bodies


async def test_sequences_wait_for_the_only_engine(upstream: Upstream) -> None:
    own = AsyncExitStack()
    only = await own.enter_async_context(listening(Upstream(TOKENIZER)))
    async with running(remote(only)) as pipeline:
        await own.aclose()
        task = asyncio.create_task(pipeline.generate(sequence(301)))
        await until(lambda: any(one.fault for one in pipeline.engines), "the loss")
        with pytest.raises(EngineRestarting):
            await pipeline.check_health()
        await own.enter_async_context(listening(only))
        assert (await task).text.endswith("301")
        await own.aclose()


async def test_shutdown_ends_what_is_in_flight(upstream: Upstream) -> None:
    upstream.gate.clear()
    async with running(remote(upstream, slots=2)) as pipeline:
        tasks = [asyncio.create_task(pipeline.generate(sequence(300 + number))) for number in range(4)]
        await loaded(pipeline, running=2, waiting=2)
        await pipeline.shutdown()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in ends] == [EngineDead] * 4
    await loaded(pipeline, running=0, waiting=0)
    with pytest.raises(EngineDead):
        await pipeline.check_health()


# ---- starts


async def test_a_start_without_an_engine_says_why(upstream: Upstream) -> None:
    nowhere = Upstream(TOKENIZER, port=1)
    with pytest.raises(EngineDead, match=r"127\.0\.0\.1:1"):
        await remote(nowhere).start()
    async with running(remote(nowhere, upstream)) as pipeline:
        assert (await pipeline.generate(sequence(301))).text.endswith("301")


async def test_an_engine_with_another_model_or_other_tokens_is_refused(upstream: Upstream) -> None:
    with pytest.raises(ConfigError, match="small"):
        await remote(upstream, model="large").start()
    other = type(TOKENIZER).from_str(TOKENIZER.to_str())
    other.add_special_tokens(["東京"])
    upstream.tokenizer = other
    with pytest.raises(ConfigError, match="--model"):
        await remote(upstream).start()


async def test_an_engine_that_reads_text_as_other_tokens_is_found_by_their_number(upstream: Upstream) -> None:
    prompt = TOKENIZER.encode("Where is the station? Behind the house.", add_special_tokens=False).ids
    async with running(remote(upstream, api="ollama")) as pipeline:
        assert (await pipeline.generate(EngineSequence("a", tuple(prompt), 12))).prompt_tokens == len(prompt)
        upstream.tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
        with pytest.raises(EngineFailed, match="--model"):
            await pipeline.generate(EngineSequence("b", tuple(prompt), 12))


@pytest.mark.parametrize(("api", "lacks"), [("completions", ""), ("ollama", "confidence, token_ids, forced_lengths")])
async def test_what_an_engine_lacks_is_in_answers_in_stats_and_in_the_doctors_report(
    api: Literal["completions", "ollama"], lacks: str
) -> None:
    own = FakePipeline(lambda _: "x", slots=8, max_model_len=1024)
    async with listening(Upstream(Tokenizer.from_file(str(model_dir() / "tokenizer.json")), pipeline=own)) as upstream:
        settings = Settings(
            pipeline=PipelineSettings(name="remote"),
            remote=RemoteSettings(urls=upstream.url, api=api),
            storage=StorageSettings(url=""),
            traffic=TrafficSettings(enabled=False),
        )
        async with served(TranslationService.from_settings(settings)) as http:
            for stream in (False, True):
                body = {"text": "Good evening.", "source": "en", "target": "ja", "stream": stream}
                answer = await http.post("/v1/translate", json=body)
                assert answer.headers.get("X-Engine-Lacks", "") == lacks
            [engine] = (await http.get("/v1/stats")).json()["engine"]["remote"]
            assert ", ".join(engine["lacks"]) == lacks
        [found] = await doctor.engines(settings)
        assert found.state == ("warn" if lacks else "ok")
        assert upstream.url in found.details and lacks in found.details
    [found] = await doctor.engines(settings)
    assert found.state == "fail"


def test_a_file_of_authorities_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ca_file"):
        remote(Upstream(TOKENIZER), ca_file=str(tmp_path / "none.pem"))
