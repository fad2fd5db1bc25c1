"""The real server for the browser to look at: every part but the model, over the `fake` pipeline, in the tests' own loop.

A byte is a token. What the page's own sentences say in the target language is answered as it is; of any other text, every
word is answered with the target's tag before it, and a placeholder is forgotten, so that there is something to warn of. Other
translations of a text have their number after the tag.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from json import loads
from pathlib import Path

import uvicorn
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from dragoman.api.app import create_app
from dragoman.api.replicas import Replicas
from dragoman.engine.spec import EngineSpec
from dragoman.pipelines.fake import FakePipeline
from dragoman.prompts.encoder import PromptEncoder
from dragoman.prompts.lengths import LengthTable
from dragoman.prompts.profile import Language, Profile, ProfileTemplate
from dragoman.prompts.tokenizer import TextTokenizer
from dragoman.service.planner import ALTERNATIVES_TEMPERATURE
from dragoman.service.service import TranslationService
from dragoman.service.stack import Model
from dragoman.settings import (
    AuthSettings,
    DocumentSettings,
    EngineSettings,
    MemorySettings,
    PipelineSettings,
    ServerSettings,
    Settings,
)
from dragoman.storage.database import Database
from dragoman.text.confidence import ConfidenceModel, uncalibrated
from dragoman.types import EngineSequence, TokenLogprobs

SLOTS = 16
STEP_S = 0.02
LANGUAGES = {"ar": "Arabic", "en": "English", "ja": "Japanese", "ko": "Korean", "zh": "Chinese"}
_CONTROLS = ("<|bos|>", "<|sep|>", "<|eos|>", *(f"<|{tag}|>" for tag in LANGUAGES))


class HoldingPipeline(FakePipeline):
    """A fake engine that a test can hold: then no sequence gets further than its first word."""

    go: asyncio.Event | None = None  # unset: held

    async def _steps(self, first: int, end: int) -> None:
        await super()._steps(first, end)
        if first and self.go:
            await self.go.wait()


@dataclass(frozen=True, slots=True)
class Stage:
    """A server that listens. `service` is in the hands of the test."""

    url: str
    service: TranslationService

    @contextmanager
    def held(self) -> Iterator[None]:
        """Sequences take their slot and say their first word; who waits for a slot, waits on."""
        assert isinstance(self.service.pipeline, HoldingPipeline)
        self.service.pipeline.go = go = asyncio.Event()
        try:
            yield
        finally:
            go.set()

    @property
    def running(self) -> int:
        return self.service.pipeline.stats().running

    @property
    def cancelled(self) -> int:
        """Calls whose client left before they were done."""
        registry = self.service.metrics.registry
        return int(registry.get_sample_value("dragoman_requests_total", {"outcome": "cancelled"}) or 0)


@cache
def tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_tokens([AddedToken(token, special=True, normalized=False) for token in _CONTROLS])
    return made


@cache
def prompts() -> tuple[PromptEncoder, LengthTable]:
    profile = Profile(
        name="stage",
        title="Stage",
        mode="raw",
        templates=(ProfileTemplate("<|bos|><|{source_code}|><|{target_code}|>{text}<|sep|>"),),
        languages={tag: Language(name, tag) for tag, name in LANGUAGES.items()},
        wire="{user}",
        control_tokens=("<|bos|>", "<|{source_code}|>", "<|{target_code}|>", "<|sep|>"),
        stop_tokens=("<|eos|>",),
        max_source_tokens=400,
    )
    text_tokenizer = TextTokenizer(tokenizer(), name="stage")
    return PromptEncoder(profile, text_tokenizer), LengthTable.measure(text_tokenizer)


@cache
def _known() -> tuple[dict[str, str], ...]:
    page = files("dragoman.api.web") / "static" / "sentences.json"
    return tuple(sentence for topic in loads(page.read_text(encoding="utf-8")).values() for sentence in topic)


def answer(sequence: EngineSequence) -> str:
    """What the fake says to a prompt: control tokens, then the text's bytes, then a control token."""
    _, _, target_id, *text_ids, _ = sequence.prompt_token_ids
    target = str(tokenizer().id_to_token(target_id)).strip("<|>")
    text = tokenizer().decode(list(text_ids))
    found = [
        (text.find(said), one[target]) for one in _known() for said in one.values() if target in one and said in text
    ]
    if found:
        return " ".join(words for _, words in sorted(found))
    number = sequence.sampling.seed if sequence.sampling.temperature == ALTERNATIVES_TEMPERATURE else None
    return " ".join(f"{target}{number or ''}:{word}" for word in text.split() if not word.startswith("{"))


def make_service(
    step_s: float = STEP_S,
    database: Database | None = None,
    *,
    profile: str = "stage",
    confidence: ConfidenceModel | None = None,
    logprobs: TokenLogprobs | None = None,
    replica: str = "",
    documents: Path | None = None,
    remembers: bool = False,
) -> TranslationService:
    """Not started. With a database it needs keys, unless it has a folder of `documents`. `logprobs`: of every answer.
    `remembers`: what is edited goes into a memory, where another test finds it."""
    encoder, lengths = prompts()
    engine = EngineSettings(max_num_seqs=SLOTS, max_num_batched_tokens=512, max_model_len=4096)
    settings = Settings(
        pipeline=PipelineSettings(name="fake"),
        server=ServerSettings(max_text_characters=5000),
        auth=AuthSettings(mode="keys" if database and not documents else "auto"),
        documents=DocumentSettings(folder=str(documents or "")),
        memory=MemorySettings(edits=remembers),
    )
    pipeline = HoldingPipeline(answer, step_s=step_s, slots=SLOTS, max_model_len=4096, logprobs=logprobs)
    spec = EngineSpec("stage", "cpu", engine)
    model = Model("stage", "stage", replace(encoder.profile, name=profile), confidence=confidence or uncalibrated())
    return TranslationService(settings, model, spec, pipeline, (encoder, lengths), database=database, replica=replica)


class _Server(uvicorn.Server):
    def handle_exit(self, sig: int, frame: object) -> None:
        raise KeyboardInterrupt  # the signal is pytest's


@asynccontextmanager
async def serving(service: TranslationService, replicas: Replicas | None = None) -> AsyncIterator[Stage]:
    """Listens; starts the service no more than it is."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(create_app(service, replicas), log_config=None, access_log=False, lifespan="off", ws="none")
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield Stage(f"http://127.0.0.1:{listener.getsockname()[1]}/", service)
    finally:
        server.should_exit = server.force_exit = True
        await task
        await service.stop()
