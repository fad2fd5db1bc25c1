"""A service behind a real HTTP server, in the test's own event loop."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import httpx
from tokenizers import Tokenizer

from dragoman import phrasebook
from dragoman.api.app import create_app
from dragoman.api.replicas import Replicas
from dragoman.api.server import listen
from dragoman.api.transport import HttpServer, http_config
from dragoman.engine.spec import resolve
from dragoman.pipelines.base import Pipeline
from dragoman.pipelines.fake import FakePipeline
from dragoman.prompts.encoder import PromptEncoder
from dragoman.prompts.lengths import LengthTable
from dragoman.prompts.profile import parse_profile, parse_tables
from dragoman.service import stack
from dragoman.service.service import TranslationService
from dragoman.settings import AdmissionSettings, AuthSettings, CacheSettings, ModelSettings, ServerSettings, Settings
from dragoman.storage.database import Database
from dragoman.storage.keys import Keys
from dragoman.telemetry.traffic.recorder import Recorder
from dragoman.types import Account, Completion, Delta, EngineSequence, Options, TranslationRequest
from tests.waiting import HANG_S

TOKENIZER: list[Tokenizer] = []
PROMPTS: dict[str, tuple[PromptEncoder, LengthTable]] = {}


def model() -> stack.Model:
    return stack.choose_model(ModelSettings())


def prompts() -> tuple[PromptEncoder, LengthTable]:
    """The packaged tokenizer and profile; loaded once, it takes seconds."""
    if not PROMPTS:
        PROMPTS["phrasebook"] = stack.load_prompts(model())
    return PROMPTS["phrasebook"]


def source_of(sequence: EngineSequence) -> str:
    """The text that the phrasebook's prompt carries."""
    if not TOKENIZER:
        TOKENIZER.append(Tokenizer.from_file(str(phrasebook.model_dir() / "tokenizer.json")))
    return TOKENIZER[0].decode(list(sequence.prompt_token_ids[3:-1]))


TURNS = """
name = "turns"
title = "Turns"
mode = "chat"
wire = "<|bos|>{examples}{user}<|sep|>"
control_tokens = ["<|bos|>", "<|sep|>", "<|eos|>"]
stop_tokens = ["<|eos|>"]
examples = { turn = "{user}<|sep|>{answer}<|eos|>" }
templates = [{ text = "{text}" }]
languages = { en = "English", ja = "Japanese" }
"""


def encoder_of_turns() -> PromptEncoder:
    """Prompts that have a place for examples, for the packaged tokenizer."""
    return PromptEncoder(parse_profile(parse_tables(TURNS, "turns"), "turns", lambda _: {}), prompts()[0].tokenizer)


def turns_of(sequence: EngineSequence) -> list[str]:
    """The texts of such a prompt: those of examples with their translations, then the text itself."""
    source_of(sequence)  # which loads the tokenizer
    rendered = TOKENIZER[0].decode(list(sequence.prompt_token_ids), skip_special_tokens=False)
    return [one for one in re.split(r"<\|\w+\|>", rendered) if one]


def request_of(texts: tuple[str, ...], target: str, source: str | None, **values: Any) -> TranslationRequest:
    """A call; `values` are its own, and its options'."""
    options = {one.name: values.pop(one.name) for one in fields(Options) if one.name in values}
    return TranslationRequest(texts, target, source, options=Options(**options), **values)


def echoing(mark: str = "~") -> Callable[[EngineSequence], str]:
    """A fake model that gives each text back with a mark before it."""
    return lambda sequence: mark + source_of(sequence)


def wordy(words: int) -> Callable[[EngineSequence], str]:
    """A fake model that takes long over each text but the warm-up's, which every server waits for."""
    return lambda sequence: "はい" if sequence.id.startswith("warm-up") else " ".join(["word"] * words)


class HeldPipeline(FakePipeline):
    """After `hold`, sequences run until `release` is set, and then answer, or fail if there is a `failure`."""

    def __init__(self, answer: Callable[[EngineSequence], str], *, slots: int = 256) -> None:
        super().__init__(answer, slots=slots)
        self.release = asyncio.Event()
        self.release.set()
        self.failure: Exception | None = None
        self.generations = 0

    def hold(self) -> None:
        self.release.clear()
        self.generations = 0

    async def _decode(self, sequence: EngineSequence) -> AsyncGenerator[Delta | Completion]:
        self.generations += 1
        await self.release.wait()
        if self.failure is not None:
            raise self.failure
        async for item in super()._decode(sequence):
            yield item


def service_over(
    pipeline: Pipeline,
    settings: Settings | None = None,
    recorder: Recorder | None = None,
    database: Database | None = None,
    replica: str = "",
    encoder: PromptEncoder | None = None,
) -> TranslationService:
    """`encoder`: of other prompts than the packaged model's."""
    settings = settings or Settings(cache=CacheSettings(max_bytes=0))
    engine = replace(settings.engine, max_num_seqs=settings.engine.max_num_seqs or 32)
    spec = resolve(str(phrasebook.model_dir()), engine, "cpu")
    return TranslationService(
        settings,
        model(),
        spec,
        pipeline,
        (encoder or prompts()[0], prompts()[1]),
        recorder,
        database=database,
        replica=replica,
    )


def fake_service(
    answer: Callable[[EngineSequence], str] | None = None,
    *,
    server: ServerSettings | None = None,
    admission: AdmissionSettings | None = None,
    step_s: float = 0.0,
    cache_bytes: int = 0,
    replica: str = "",
) -> TranslationService:
    """`cache_bytes` 0: equal texts are generated each for itself, as tests that count sequences expect."""
    settings = Settings(
        server=server or ServerSettings(),
        admission=admission or AdmissionSettings(),
        cache=CacheSettings(max_bytes=cache_bytes),
    )
    return service_over(FakePipeline(answer or echoing(), step_s=step_s), settings, replica=replica)


def slow_service(characters: int = 100_000) -> TranslationService:
    """Each text takes about a second. `characters`: the limit of those in flight."""
    admission = AdmissionSettings(max_in_flight_characters=characters)
    return fake_service(wordy(400), admission=admission, step_s=0.002)


async def keyed_service(
    folder: Path, *accounts: Account, settings: Settings | None = None, step_s: float = 0.0
) -> tuple[TranslationService, Database, dict[str, str]]:
    """A fake service that needs keys unless the settings differ, its database, and a key of each account by its name."""
    database = Database(f"sqlite:///{folder}/dragoman.db")
    await database.open()
    keys = {one.name: (await Keys(database).create(one))[1] for one in accounts}
    settings = settings or Settings(auth=AuthSettings(mode="keys"), cache=CacheSettings(max_bytes=0))
    return service_over(FakePipeline(echoing(), step_s=step_s), settings, database=database), database, keys


@asynccontextmanager
async def served(
    service: TranslationService,
    *,
    stop: bool = True,
    replicas: Replicas | None = None,
) -> AsyncIterator[httpx.AsyncClient]:
    """An HTTP client of `service`, started and listening. `stop` False leaves its pipeline running."""
    app = create_app(service, replicas)
    await service.start()
    listener = listen("127.0.0.1", 0)
    server = HttpServer(http_config(app, service.settings.server))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    port = listener.getsockname()[1]
    try:
        limits = httpx.Limits(max_connections=200)
        address = f"http://127.0.0.1:{port}"  # without TLS: no authorities' certificates to load
        async with httpx.AsyncClient(base_url=address, timeout=HANG_S, limits=limits, verify=False) as client:
            yield client
    finally:
        server.should_exit = True
        await serving
        if stop:
            await service.stop()
