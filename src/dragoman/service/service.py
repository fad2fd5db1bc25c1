"""The service: one model behind admission control, from its start to its drain, and what it reports about itself.

Everything above this (HTTP APIs, the command line) sees `TranslationService` alone.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY

from dragoman import __version__, heap, languages
from dragoman.engine.process import leave_worker_cores
from dragoman.engine.spec import EngineSpec
from dragoman.errors import (
    DragomanError,
    EngineDead,
    Forbidden,
    Starting,
    StorageUnavailable,
    UnknownGlossary,
    UnknownMemory,
)
from dragoman.pipelines.base import Pipeline
from dragoman.prompts.encoder import PromptEncoder
from dragoman.prompts.lengths import LengthTable
from dragoman.service import stack
from dragoman.service.accounts import Accounts, keys_required
from dragoman.service.admission import Admission, default_limit
from dragoman.service.cache import SegmentCache
from dragoman.service.calls import Calls
from dragoman.service.dispatcher import Dispatcher, LoopTurns, TimeSlices
from dragoman.service.planner import Planner
from dragoman.service.translator import Translator
from dragoman.settings import Settings
from dragoman.telemetry.metrics import Metrics, RateWindow, StorageCollector, StorageGauges
from dragoman.telemetry.requests import CallRegistry
from dragoman.telemetry.tracing import Tracing
from dragoman.telemetry.traffic.recorder import Recorder
from dragoman.text import confidence, detect
from dragoman.types import Translation, TranslationRequest
from dragoman.wire import RecorderStats, StartupPhase, Stats

if TYPE_CHECKING:
    from dragoman.service.documents import Documents
    from dragoman.service.memories import Memories
    from dragoman.service.memory_jobs import MemoryJobs
    from dragoman.storage.database import Database
    from dragoman.storage.glossaries import Glossaries

log = logging.getLogger("dragoman.service")

_SCRAPE_READ_S = 1.0


class TranslationService:
    """Translates with one model between `start` and `stop`. Built by `from_settings`; by the constructor in tests."""

    def __init__(
        self,
        settings: Settings,
        model: stack.Model,
        spec: EngineSpec,
        pipeline: Pipeline,
        prompts: tuple[PromptEncoder, LengthTable] | None = None,
        recorder: Recorder | None = None,
        tracing: Tracing | None = None,
        cache: SegmentCache | None = None,
        database: Database | None = None,
        replica: str = "",
    ) -> None:
        self.settings = settings
        self.replica = replica  # name of this server among several behind one address; empty: it is the only one
        self.model = model
        self.spec = spec
        self.pipeline = pipeline
        self.rates = RateWindow()
        self.metrics = Metrics(replica)
        self.recorder = recorder
        self.tracing = tracing
        self._database = database
        self._glossaries = stack.glossaries(database) if database else None
        self._memories = stack.memories(database, settings) if database else None
        self._memory_jobs = stack.memory_jobs(self._memories, settings) if self._memories else None
        auth = settings.auth
        self.accounts = Accounts(
            stack.account_store(database) if database and auth.mode != "none" else None,
            required=keys_required(auth, settings.server),
            refresh_s=auth.refresh_s,
        )
        turns = LoopTurns()
        registry = CallRegistry(
            languages.tagger(tuple(model.profile.languages)),
            lambda: TimeSlices(turns),
            text_observers=[one.text_ended for one in (self.rates, self.metrics, recorder) if one is not None],
            call_observers=[self.metrics.call_ended],
            keep_text=recorder is not None and settings.traffic.record_text,
        )
        self.admission = Admission(
            settings.admission.max_in_flight_characters or default_limit(spec.slots),
            self.rates.characters_per_s,
        )
        self.calls = Calls(self.accounts, self.admission, registry, turns)
        self.cache = cache or SegmentCache(settings.cache.max_bytes, is_of_key=settings.cache.scope == "key")
        self._documents = self._with_documents(database) if database and settings.documents.folder else None
        self._prompts = prompts
        self.engine_lacks: tuple[str, ...] = ()
        """What an engine elsewhere has not, and one of this process has (`RemoteEngineStats`): known from the start on."""
        self._started_s = monotonic()
        self._ready = False
        stack.watch(self.metrics, spec, self.stats, lambda: self._ready)
        self._storage = StorageGauges()
        if database is not None:
            database.observe = self.metrics.storage_ended
            self.metrics.registry.register(StorageCollector(lambda: self._storage))

    def _with_documents(self, database: Database) -> Documents:
        from dragoman.service.documents import Documents, ServerParts

        parts = ServerParts(self.calls, self.glossaries, self.memories, self.metrics)
        return Documents(parts, database, self.settings, self.replica)

    @classmethod
    def from_settings(cls, settings: Settings, replica: str = "") -> TranslationService:
        """Choose model, engine settings and pipeline, and start nothing yet.

        `replica` is the name of this server among several behind one address. Raises `ConfigError`.
        """
        model = stack.choose_model(settings.model, trust_remote_code=settings.engine.trust_remote_code)
        tracing = Tracing(settings.tracing, model.name) if settings.tracing.endpoint else None
        spec = stack.engine_spec(settings)
        recorder = Recorder(settings.traffic, replica) if settings.traffic.enabled else None
        cache = stack.build_cache(settings, model, spec)
        pipeline = stack.build_pipeline(settings, spec)
        return cls(
            settings,
            model,
            spec,
            pipeline,
            recorder=recorder,
            tracing=tracing,
            cache=cache,
            database=stack.database(settings.storage),
            replica=replica,
        )

    # ---- start, drain, stop

    async def start(self) -> None:
        """Open the database, load engine and tokenizer concurrently, translate a warm-up text, and open admission.

        Raises what any of these fails with, as soon as it does; all is closed then.
        """
        try:
            if self._database is not None:
                await self._database.open()
            await self.accounts.open()
            if self._memories is not None:
                await self._memories.open()
            if self._documents is not None:
                await self._documents.open()
            encoder, lengths = await self._load_and_start()
            await self._warm_up(encoder, lengths)
        except BaseException:
            await self.stop()
            raise
        if self.recorder is not None:  # after the engine has forked its processes, which would inherit a thread's locks
            self.recorder.start()
        self.cache.start()  # likewise
        if self.tracing is not None:  # likewise
            self.tracing.start()
        self.admission.open()
        if self._documents is not None:
            self._documents.start()
        log.info("ready: %s, pipeline %s, on %s", self.model.name, self.pipeline.name, self.spec.device)

    async def _load_and_start(self) -> tuple[PromptEncoder, LengthTable]:
        """Load the prompts while the engine starts, and wait for both. A failure of the one cancels the other."""
        loading = asyncio.create_task(self._load_prompts())
        starting = asyncio.create_task(self.pipeline.start())
        try:
            done, _ = await asyncio.wait({loading, starting}, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
            return loading.result()
        finally:
            loading.cancel()
            starting.cancel()
            await asyncio.gather(loading, starting, return_exceptions=True)

    async def _load_prompts(self) -> tuple[PromptEncoder, LengthTable]:
        if self._prompts is None:
            await asyncio.to_thread(languages.prepare)
            await asyncio.to_thread(detect.prepare)
            self._prompts = await asyncio.to_thread(stack.load_prompts, self.model)
        return self._prompts

    async def _warm_up(self, encoder: PromptEncoder, lengths: LengthTable) -> None:
        """Create the translator, and translate one text."""
        forced = self.spec.engine.load_format == "dummy"
        planner = Planner(encoder, lengths, self.pipeline.max_model_len, forced_lengths=forced)
        # Engines elsewhere report theirs once they answer.
        remote = self.pipeline.stats().remote
        slots = sum(one.slots for one in remote) or self.spec.slots
        self.engine_lacks = tuple(dict.fromkeys(lack for one in remote for lack in one.lacks))
        # A few sequences wait in the engine, so that a slot that becomes free is taken at its next step.
        share = self.settings.admission.interactive_share
        dispatcher = Dispatcher(slots, queued=max(slots // 8, 1), interactive_share=share)
        translator = self.calls.translator = Translator(
            self.pipeline, planner, dispatcher, self.calls.turns, self.cache, self.model.confidence, self._memories
        )
        served = self.model.profile.languages
        directions = ((a, b) for a in ("en", *served) for b in served if a != b and self.model.profile.serves(a, b))
        source, target = next(directions)
        warm_up = TranslationRequest(("Good morning.",), target, source, request_id="warm-up")
        async for _ in translator.events(warm_up):
            pass
        self.cache.clear()  # the first call of this text is measured like any other

    def freeze_heap(self) -> None:
        """Exclude what is on the heap from garbage collection, and leave the cores of vLLM's workers to them.

        To be called after the start, in a process that does nothing else.
        """
        heap.freeze_heap()
        if self.spec.device == "cpu":
            leave_worker_cores()

    async def drain(self) -> bool:
        """Admit nothing more and wait for what is in flight, `drain_timeout_s` at most. True if all of it finished."""
        self.admission.drain()
        if self._documents is not None:  # they go on in another server, or after the next start
            await self._documents.stop()
        try:
            await asyncio.wait_for(self.admission.drained(), self.settings.server.drain_timeout_s)
        except TimeoutError:
            log.warning("drain timed out with %d calls in flight", self.admission.calls)
            return False
        return True

    async def stop(self) -> None:
        """Shut the engine down. Calls that are still in flight fail with `EngineDead`."""
        self.admission.drain()
        if self._documents is not None:
            await self._documents.stop()
        await self.pipeline.shutdown()
        await self.cache.close()
        await self.accounts.close()
        if self._memory_jobs is not None:
            await self._memory_jobs.close()
        if self._memories is not None:
            await self._memories.close()
        if self._database is not None:
            await self._database.close()
        if self.recorder is not None:
            await asyncio.to_thread(self.recorder.close)

    async def check_ready(self) -> None:
        """Raise `Starting`, `Draining`, `EngineRestarting` or `EngineDead` unless requests are served now."""
        try:
            self.admission.check_open()
        except Starting:
            raise Starting(f"the engine is starting: {_phase_now(self.pipeline.stats().startup)}") from None
        await self.pipeline.check_health()

    async def lost(self) -> EngineDead:
        """Wait until the engine has crashed and will not restart; return the reason."""
        return await self.pipeline.crashed()

    # ---- work

    @property
    def glossaries(self) -> Glossaries:
        """Return the stored glossaries. Raises `UnknownGlossary` if the server has no database."""
        if self._glossaries is None:
            raise UnknownGlossary("this server stores no glossaries: its storage.url is empty")
        return self._glossaries

    @property
    def memories(self) -> Memories:
        """Return the translation memories. Raises `UnknownMemory` if the server has no database."""
        if self._memories is None:
            raise UnknownMemory("this server stores no translation memories: its storage.url is empty")
        return self._memories

    @property
    def memory_jobs(self) -> MemoryJobs:
        """Return the imports and exports of memories as jobs. Raises `UnknownMemory` if the server has no database."""
        if self._memory_jobs is None:
            raise UnknownMemory("this server stores no translation memories: its storage.url is empty")
        return self._memory_jobs

    @property
    def takes_suggestions(self) -> bool:
        """Whether LibreTranslate's clients may suggest translations."""
        return self.settings.memory.suggestions and self._memories is not None

    @property
    def translates_documents(self) -> bool:
        """Whether it has what it needs for documents."""
        return self._documents is not None

    @property
    def takes_examples(self) -> bool:
        """Whether the model's prompts have a place for examples; false until they are loaded."""
        return self._prompts is not None and self._prompts[0].takes_examples

    @property
    def max_file_bytes(self) -> int:
        """The largest file that a client may send, of any kind."""
        return self.settings.documents.max_bytes

    @property
    def documents(self) -> Documents:
        """Return the documents. Raises `Forbidden` if the server has no database, or no folder for them."""
        if self._documents is None:
            raise Forbidden("documents are not translated by this server: its storage.url or documents.folder is empty")
        return self._documents

    def confidence_inputs(self, translation: Translation) -> list[dict[str, float]]:
        """Return the inputs of a translation's confidence for each segment; none if the engine reports no log-probabilities."""
        return [confidence.inputs(one) for one in translation.features]

    # ---- what it reports

    async def exposition(self) -> bytes:
        """Return dragoman's and vLLM's metrics in Prometheus' text format."""
        try:
            await self.check_ready()
        except DragomanError:
            self._ready = False
        else:
            self._ready = True
        if self._database is not None:
            self._storage = await self._storage_gauges(self._database)
        return self.metrics.exposition(REGISTRY)

    async def _storage_gauges(self, database: Database) -> StorageGauges:
        """Return what a scrape shows of the database; without the documents in flight where it does not answer at once."""
        waiting, in_flight, documents = database.waiting, None, self._documents
        if documents is not None:
            with suppress(StorageUnavailable, TimeoutError):
                async with asyncio.timeout(_SCRAPE_READ_S):
                    in_flight = await documents.count_in_flight()
        return StorageGauges(
            is_up=self.metrics.is_storage_up,
            waiting=waiting,
            documents=in_flight,
            folder_bytes=documents.folder_bytes if documents is not None else None,
            folder_bytes_limit=self.settings.documents.max_folder_bytes if documents is not None else None,
            keys=self.accounts.count_by_condition(),
        )

    def stats(self) -> Stats:
        """Return what `GET /v1/stats` reports: the engine and admission now, and rates over the last minute."""
        engine, admission, spec = self.pipeline.stats(), self.admission, self.spec
        known: dict[str, object] = {"kv_cache_bytes_per_token": spec.kv_bytes_per_token}
        if engine.dtype is None and spec.engine.dtype != "auto":
            known["dtype"] = spec.engine.dtype
        engine = engine.model_copy(update=known)
        return Stats(
            state="restarting" if engine.restarting and admission.state == "serving" else admission.state,
            replica=self.replica,
            version=__version__,
            model=self.model.name,
            profile=self.model.profile.name,
            template_difference=self._prompts[0].difference if self._prompts else None,
            pipeline=self.pipeline.name,
            device=spec.device,
            cpu_instruction_sets=list(spec.cpu_instruction_sets),
            uptime_s=monotonic() - self._started_s,
            in_flight=admission.calls,
            in_flight_texts=self.calls.registry.in_flight,
            in_flight_characters=admission.characters,
            max_in_flight_characters=admission.limit,
            refused=self.calls.refused,
            engine=engine,
            cache=self.cache.stats(),
            last_minute=self.rates.summary(),
            recorder=self.recorder.stats() if self.recorder is not None else RecorderStats(),
            settings={"engine": asdict(spec.engine), "pipeline": asdict(self.settings.pipeline)},
        )


def _phase_now(phases: list[StartupPhase]) -> str:
    """Describe the phase of the start: its name, the seconds in it, and the seconds that it usually takes."""
    if not phases:
        return "import vLLM"
    phase = phases[-1]
    usual = "" if phase.usual_s is None else f", the last time it took {phase.usual_s:.0f} s"
    return f"{phase.name} for {phase.duration_s:.0f} s{usual}"
