"""Builds what translates with one model from the settings: profile, tokenizer, output lengths, pipeline, cache, database.

Heavy libraries are imported here when they are needed, so that `dragoman --help` stays quick. Knows no HTTP.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from dragoman import phrasebook
from dragoman.engine import checkpoint, forkserver, process
from dragoman.engine.checkpoint import read_config, revision
from dragoman.engine.spec import LEAST_RECORDED, EngineSpec, device, resolve
from dragoman.errors import ConfigError
from dragoman.gpu import Fresh, find_gpus
from dragoman.guard import MARK_PREFIX
from dragoman.pipelines.base import Pipeline, PipelineFactory
from dragoman.prompts import catalog, check
from dragoman.prompts.encoder import PromptEncoder
from dragoman.prompts.lengths import LengthTable, character_ratio
from dragoman.prompts.profile import Profile
from dragoman.prompts.tokenizer import TextTokenizer
from dragoman.prompts.vendor import chat_template
from dragoman.service.cache import CacheFile, SegmentCache
from dragoman.settings import (
    DEFAULT_SLOTS,
    PIPELINES,
    WITHOUT_ENGINE,
    EngineSettings,
    ModelSettings,
    RemoteSettings,
    Settings,
    StorageSettings,
)
from dragoman.sharedgpu import SharedGpu
from dragoman.telemetry.metrics import GpuCollector, Metrics, StatsCollector
from dragoman.telemetry.traffic import summary as traffic
from dragoman.text import confidence
from dragoman.text.confidence import ConfidenceModel, uncalibrated
from dragoman.wire import Stats

if TYPE_CHECKING:
    from dragoman.pipelines.remote_apis import ModelTokens
    from dragoman.service.accounts import AccountStore
    from dragoman.service.memories import Memories
    from dragoman.service.memory_jobs import MemoryJobs
    from dragoman.storage.database import Database
    from dragoman.storage.glossaries import Glossaries
    from dragoman.storage.memories import MemoryLimits, MemoryStore

log = logging.getLogger("dragoman.service")


@dataclass(frozen=True, slots=True)
class Model:
    """A model with the name that clients see and its profile."""

    path: str
    name: str
    profile: Profile
    created_unix_s: int = 0  # time of its config.json; for a hub id, when this process resolved it
    trust_remote_code: bool = False
    confidence: ConfidenceModel = field(default_factory=uncalibrated)


def choose_model(settings: ModelSettings, *, trust_remote_code: bool = False) -> Model:
    """Resolve the model and its profile. Raises `ConfigError`. Reads no weights."""
    path = _model_path(settings)
    config = read_config(path)
    file = Path(settings.profile_file) if settings.profile_file else None
    profile = catalog.select(
        path,
        config,
        settings.profile or None,
        file,
        has_chat_template=lambda: chat_template(checkpoint.prompt_files(path)) is not None,
    )
    name = settings.name or ("phrasebook" if not settings.path else Path(path).name)
    config_file = Path(path) / "config.json"
    created_unix_s = config_file.stat().st_mtime if config_file.is_file() else time.time()
    return Model(
        path,
        name,
        profile,
        created_unix_s=int(created_unix_s),
        trust_remote_code=trust_remote_code,
        confidence=_confidence(settings.confidence_file, path),
    )


def _model_path(settings: ModelSettings) -> str:
    return settings.path or str(phrasebook.model_dir())


def _confidence(named: str, model: str) -> ConfidenceModel:
    """The fitted confidence that is named, or that is in the model's folder; else that of any model. Raises `ConfigError`."""
    file = Path(named) if named else Path(model) / confidence.FILE
    if named or file.is_file():
        return confidence.load(file)
    return uncalibrated(character_ratio)


def engine_spec(settings: Settings) -> EngineSpec:
    """Resolve every number of the engine's settings for this machine and model."""
    model, engine = _model_path(settings.model), settings.engine
    if settings.pipeline.name == "remote":
        return _spec_of_remote(model, engine, settings.remote)
    auto = engine.kv_cache_memory_bytes == "auto"
    sequence_tokens = traffic.long_sequence(Path(settings.traffic.folder), LEAST_RECORDED) if auto else None
    gpus = find_gpus() if device() == "cuda" else None
    smallest_mib = min((gpu.memory_mib for gpu in gpus.describe()), default=None) if gpus is not None else None
    gpu_bytes = int(smallest_mib * 2**20) if smallest_mib is not None else None
    return resolve(model, engine, device(), sequence_tokens=sequence_tokens, gpu_bytes=gpu_bytes)


def weights(settings: Settings) -> int | None:
    """Return the number of weights of the settings' model; None: unknown. Raises `ConfigError`."""
    model = settings.model.path or str(phrasebook.model_dir())
    return checkpoint.parameters(model, read_config(model))


def runs_on_gpu() -> bool:
    """Whether an engine of this installation runs on a GPU here."""
    return device() == "cuda"


def _remote_urls(settings: RemoteSettings) -> list[str]:
    """Raises `ConfigError` for what is no engine's URL."""
    urls = [one.strip().rstrip("/") for one in settings.urls.split(",") if one.strip()]
    wrong = next((one for one in urls if not one.startswith(("http://", "https://"))), "" if urls else "nothing")
    if any("@" in one for one in urls):
        raise ConfigError("remote.urls: an address with a password is shown: use remote.api_key", param="remote.urls")
    if wrong:
        raise ConfigError(
            f"remote.urls: {wrong!r} is not the URL of an engine, such as http://gpu:8000", param="remote.urls"
        )
    return urls


def _spec_of_remote(model: str, engine: EngineSettings, remote: RemoteSettings) -> EngineSpec:
    """What is known here of engines elsewhere: slots, and the checkpoint's window."""
    slots = (remote.slots or DEFAULT_SLOTS) * len(_remote_urls(remote))
    window = engine.max_model_len or checkpoint.window(read_config(model))
    return EngineSpec(model, "cpu", replace(engine, max_num_seqs=slots, max_model_len=window))


def _build_fake(settings: Settings, spec: EngineSpec, _: Path | None) -> Pipeline:
    from dragoman.pipelines.continuous import ContinuousPipeline
    from dragoman.pipelines.fake import FakePipeline, circling
    from dragoman.pipelines.fake_process import FakeEnginePlan, FakeEngineProcess

    tokenizer = text_tokenizer(_model_path(settings.model), settings.engine.trust_remote_code).backend
    own, max_model_len = settings.pipeline, spec.engine.max_model_len or 1024
    step_s, stream_interval_s = own.fake_step_ms / 1000, settings.engine.stream_interval_ms / 1000
    if own.fake_process:
        plan = FakeEnginePlan(tokenizer.to_str(), spec.slots, max_model_len, step_s, stream_interval_s)
        return ContinuousPipeline(FakeEngineProcess(plan, hang_timeout_s=own.hang_timeout_s), name="fake")
    return FakePipeline(
        circling(tokenizer),
        step_s=step_s,
        slots=spec.slots,
        max_model_len=max_model_len,
        stream_interval_s=stream_interval_s,
    )


def _build_continuous(settings: Settings, spec: EngineSpec, log_file: Path | None) -> Pipeline:
    log.info("importing vLLM")
    began_s = monotonic()
    with process.streams_to_file(log_file) if log_file else nullcontext():  # vllm prints while it is imported
        from dragoman.engine.async_engine import AsyncEngine
    from dragoman.pipelines.continuous import ContinuousPipeline

    engine = AsyncEngine(
        spec,
        log_file,
        shutdown_timeout_s=settings.server.drain_timeout_s,
        import_s=monotonic() - began_s,
        hang_timeout_s=settings.pipeline.hang_timeout_s,
        gpu=SharedGpu.of_environment(),
    )
    return ContinuousPipeline(engine)


def _build_remote(settings: Settings, spec: EngineSpec, _: Path | None) -> Pipeline:
    from dragoman.pipelines.remote import RemotePipeline
    from dragoman.pipelines.remote_apis import API_OF

    tokenizer = text_tokenizer(_model_path(settings.model), settings.engine.trust_remote_code)
    api = API_OF[settings.remote.api](model_tokens(tokenizer), logprobs=spec.engine.token_logprobs)
    return RemotePipeline(
        settings.remote, [(url, api) for url in _remote_urls(settings.remote)], window=spec.engine.max_model_len
    )


def model_tokens(tokenizer: TextTokenizer) -> ModelTokens:
    """Return what an engine elsewhere and this server must have in common."""
    from dragoman.pipelines.remote_apis import ModelTokens

    return ModelTokens(tokenizer.backend, tokenizer.control_ids, tokenizer.opening_ids)


BUILT_IN: Mapping[str, PipelineFactory] = {
    "continuous": _build_continuous,
    "fake": _build_fake,
    "remote": _build_remote,
}


def build_pipeline(settings: Settings, spec: EngineSpec) -> Pipeline:
    """Build the pipeline that the settings name, without starting it: a built-in one, or one that a package registers.

    Raises `ConfigError` where the package cannot be imported.
    """
    name = settings.pipeline.name
    log_file = None if name in WITHOUT_ENGINE else forkserver.prepare(settings)
    if name in BUILT_IN:
        return BUILT_IN[name](settings, spec, log_file)
    (entry,) = metadata.entry_points(group=PIPELINES, name=name)  # the settings have checked the name
    try:
        build: PipelineFactory = entry.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"pipeline.name = {name!r}: its entry point {entry.value} cannot be imported: {error}"
        ) from error
    return build(settings, spec, log_file)


def build_cache(settings: Settings, model: Model, spec: EngineSpec) -> SegmentCache:
    """Build the cache of segments, and open its file if the settings name one. Raises `ConfigError`."""
    own = settings.cache
    file = _cache_file(settings, model, spec) if own.file and own.max_bytes else None
    return SegmentCache(own.max_bytes, file, is_of_key=own.scope == "key")


def _cache_file(settings: Settings, model: Model, spec: EngineSpec) -> CacheFile:
    own, engine = settings.cache, spec.engine
    fingerprint = [revision(model.path), model.profile.name, spec.device, engine.dtype, engine.quantization]
    if engine.kv_cache_dtype != "auto":
        fingerprint.append(engine.kv_cache_dtype)
    if settings.pipeline.name == "remote":
        fingerprint += [settings.remote.urls, settings.remote.model]
    return CacheFile(Path(own.file), own.file_max_bytes, json.dumps(fingerprint))


@lru_cache(maxsize=1)
def text_tokenizer(model: str, trust_remote_code: bool) -> TextTokenizer:
    """Load a checkpoint's tokenizer, once for the prompts and for a pipeline that has no engine here: of 150,000 tokens it
    takes two seconds. Raises `ConfigError`."""
    return TextTokenizer.load(checkpoint.prompt_files(model), name=model, trust_remote_code=trust_remote_code)


def load_prompts(model: Model) -> tuple[PromptEncoder, LengthTable]:
    """Load the tokenizer, and build the encoder and the table of output lengths. Warns if the checkpoint's template differs."""
    tokenizer = text_tokenizer(model.path, model.trust_remote_code)
    difference = check.compare(model.profile, tokenizer)
    if difference is not None:
        log.warning(
            "profile %s and the checkpoint's own chat template disagree; translations may suffer.\n%s",
            model.profile.name,
            difference,
        )
    encoder = PromptEncoder(model.profile, tokenizer, str(difference or ""))
    return encoder, LengthTable.measure(tokenizer)


def database(settings: StorageSettings) -> Database | None:
    """Return the database that the settings name, not opened yet; None if they name none. Raises `ConfigError`."""
    if not settings.url:
        return None
    from dragoman.storage.database import Database

    return Database(settings.url)


def glossaries(database: Database) -> Glossaries:
    """Return the stored glossaries of a database."""
    from dragoman.storage.glossaries import Glossaries

    return Glossaries(database)


def memory_limits(settings: Settings) -> MemoryLimits:
    """Return what the memories of one owner may have."""
    from dragoman.storage.memories import MemoryLimits

    return MemoryLimits(settings.memory.max_entries_per_key, settings.memory.max_bytes_per_key)


def memory_store(database: Database, settings: Settings) -> MemoryStore:
    """Return the stored translation memories of a database."""
    from dragoman.storage.memories import MemoryStore

    return MemoryStore(database, memory_limits(settings))


def memories(database: Database, settings: Settings) -> Memories:
    """Return the translation memories of a database, not opened yet."""
    from dragoman.service.memories import ExampleRules, Memories
    from dragoman.service.similar import SimilarIndexes
    from dragoman.service.uploads import Uploads
    from wholetext.files.worker import Workers

    own, at_once = settings.documents, min(os.cpu_count() or 1, 4)
    workers = Workers(own.worker_memory_bytes, own.worker_timeout_s, at_once, (MARK_PREFIX,))
    uploads = Uploads(_files_folder(settings) / "imports")
    memory, store = settings.memory, memory_store(database, settings)
    rules = ExampleRules(memory.examples, memory.similarity, memory.shared_edits)
    similar = SimilarIndexes(store, memory.index_bytes)
    return Memories(store, workers, uploads, memory_limits(settings), rules, similar, settings.auth.refresh_s)


def _files_folder(settings: Settings) -> Path:
    """The folder for files of clients; where documents have none, one of this user's temporary folder."""
    return Path(settings.documents.folder or Path(tempfile.gettempdir(), f"dragoman-{os.getuid()}"))


def memory_jobs(memories: Memories, settings: Settings) -> MemoryJobs:
    """Return the imports and exports of translation memories as jobs."""
    from dragoman.service.memory_jobs import MemoryJobs

    return MemoryJobs(memories, settings.documents.max_jobs_per_key)


def account_store(database: Database) -> AccountStore:
    """Return the accounts of a database with their usage."""
    from dragoman.service.accounts import AccountStore
    from dragoman.storage.keys import Keys
    from dragoman.storage.usage import UsageLedger

    return AccountStore(Keys(database), UsageLedger(database))


def watch(metrics: Metrics, spec: EngineSpec, stats: Callable[[], Stats], is_ready: Callable[[], bool]) -> None:
    """Register collectors that read a service's statistics and its GPUs at each scrape."""
    metrics.registry.register(StatsCollector(stats, is_ready))
    if spec.device == "cuda" and (gpus := find_gpus()) is not None:
        metrics.registry.register(GpuCollector(gpus.describe(), Fresh(gpus.read)))
