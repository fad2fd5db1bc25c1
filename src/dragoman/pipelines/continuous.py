"""`continuous`, the product: `AsyncEngine` in the event loop, restarted when it crashes.

Every sequence is submitted immediately, and the engine decides at each step which run: one that ends leaves its slot to one
that waits, while all others go on decoding.

Crash recovery: translations are idempotent, so a sequence that was in flight when the engine crashed waits for the restart
and runs again. Sequences that arrive during a restart wait as well; how many may, and for how long, is admission's to decide.
When too many starts fail in a row, the pipeline gives up and everything ends with `EngineDead`. An engine that hangs is killed,
which is a crash like others.

Those that were in flight at two crashes are suspects. They run by halves, while others go on (`suspects.py`); each run of the
engine begins with a sequence that it has completed before, so that no text is blamed for an engine that is broken. Only the one
that crashes the engine when it has a run alone fails, with `CrashingText`, and is refused to its owner for an hour. If none
does, it is their number: half as many run at the same time, for an hour. That cannot be where at most one ran.

Crashes are counted for an owner's text, not for a call: a client that gives up at each crash and sends its text again would
otherwise never be a suspect. For the same reason a sequence whose caller has left counts as in flight until the engine has
completed another one: a client may give up before it is known that the engine hangs. The search is for texts, too: of equal
sequences one runs, and the others wait for its verdict.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from array import array
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from time import monotonic

from dragoman.errors import CrashingText, DragomanError, EngineDead, EngineFailed, EngineHung, EngineRestarting
from dragoman.pipelines.base import Engine
from dragoman.pipelines.suspects import SuspectSearch
from dragoman.types import Completion, Delta, EngineSequence
from dragoman.wire import EngineStats

LONGEST_PAUSE_S = 30.0
MAX_FAILED_STARTS = 3
"""In a row; then the pipeline gives up."""
CRASHES_SURVIVED = 1
"""By one text: it runs again after the first crash, and is a suspect after the second."""
REFUSED_S = 3600.0
"""For so long a text that has crashed the engine is refused to its owner, and a crash at which it was in flight is known."""
MOST_RECORDS = 10_000
MOST_LEFT = 1_000
"""Texts whose callers have left since the engine completed one, which are known to have been in flight."""
HALVED_S = 3600.0
"""For so long fewer sequences run at the same time, after a crash that none of them causes alone."""
log = logging.getLogger("dragoman.pipelines")


def pause_s(failed: int, first_s: float) -> float:
    """Before a start, after so many failed ones: none at first, then twice as long each time."""
    return min(first_s * (2**failed - 1), LONGEST_PAUSE_S)


@dataclass(eq=False, slots=True)
class _Attempts:
    """One sequence over the runs of the engine that it needs. `digest`: of its owner's text, once it was asked for."""

    sequence: EngineSequence
    submitted_s: float = field(default_factory=monotonic)
    lost_s: float = 0.0  # until the present run took it
    digest: bytes | None = None

    def completed(self, completion: Completion) -> Completion:
        """With the time that was lost to crashes counted as waiting."""
        timings = completion.timings
        if timings is None or not self.lost_s:
            return completion
        return replace(completion, timings=replace(timings, queue_s=timings.queue_s + self.lost_s))


@dataclass(eq=False, slots=True)
class _CrashRecord:
    """Of an owner's text since it was last completed: the crashes at which it was in flight, and whether it is refused."""

    until_s: float
    crashes: int = 0
    is_refused: bool = False


@dataclass(eq=False, slots=True)
class _EngineRun:
    """The engine from one start to one crash. `crash` is set once, with the reason.

    `left`: texts whose callers have left since the engine last completed one, which may be why it crashes. `suspects`: those in
    flight that are searched. `alone`: the suspect that had the run from its start, beside what proves that the engine works;
    only then can nothing else be why it crashes, nor a sequence whose caller has left.
    """

    crash: asyncio.Future[EngineDead] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    in_flight: set[_Attempts] = field(default_factory=set[_Attempts])
    left: dict[bytes, _Attempts] = field(default_factory=dict[bytes, _Attempts])  # by digest; the oldest first
    suspects: set[bytes] = field(default_factory=set[bytes])
    alone: bytes | None = None
    submitted: int = 0
    completed: int = 0


class StreamReplay:
    """What a stream has sent already, which cannot be taken back, against what the present run generates.

    Greedy decoding generates the same again, except near ties between tokens, which another batch may decide differently.
    """

    def __init__(self, sequence: EngineSequence) -> None:
        self._sequence = sequence
        self._sent: list[str] = []
        self._to_repeat = ""  # of what was sent, by the present run

    def restart(self) -> None:
        """A run begins. Raises `EngineFailed` when it cannot be expected to repeat what was sent."""
        if self._sent and self._sequence.sampling.temperature > 0:
            raise EngineFailed("the engine crashed in the middle of this stream, which is sampled: send the text again")
        self._to_repeat = "".join(self._sent)

    def delta(self, delta: Delta) -> Delta | None:
        """The new part of it, if any. Raises `EngineFailed` when the run differs from what was sent."""
        if self._to_repeat:
            repeated = min(len(self._to_repeat), len(delta.text))
            if delta.text[:repeated] != self._to_repeat[:repeated]:
                raise self._differs()
            self._to_repeat = self._to_repeat[repeated:]
            if repeated == len(delta.text):
                return None
            delta = Delta(delta.text[repeated:])
        self._sent.append(delta.text)
        return delta

    def check_end(self) -> None:
        """The run ended. Raises `EngineFailed` when it did before all that was sent."""
        if self._to_repeat:
            raise self._differs()

    def _differs(self) -> EngineFailed:
        return EngineFailed(
            "the engine crashed in the middle of this stream, and its new run differs: send the text again"
        )


class ContinuousPipeline:
    """The contract over an engine that can be started again after `shutdown`, and that this pipeline starts and stops."""

    def __init__(self, engine: Engine, *, name: str = "continuous", first_pause_s: float = 1.0) -> None:
        self.name = name
        self._engine = engine
        self._first_pause_s = first_pause_s
        self._run: _EngineRun | None = None
        self._ended: EngineDead | None = EngineDead("the engine is not running")  # why nothing can be served any more
        self._settled = asyncio.Event()  # cleared from a crash until the engine runs again, or is given up
        self._settled.set()
        self._given_up = asyncio.Event()
        self._supervisor: asyncio.Task[None] | None = None
        self._crash_reason = ""
        self._turns: deque[asyncio.Future[None]] = deque()  # of sequences that wait to be submitted
        self._restarts = self._hangs = 0
        self._proof: EngineSequence | None = None  # that the engine has completed
        self._is_proving = False
        self._search: SuspectSearch[bytes] | None = None  # of texts, by digest
        self._searching: dict[bytes, asyncio.Task[None]] = {}  # what runs suspects whose callers have left
        self._proving = set[asyncio.Task[None]]()
        self._records: dict[bytes, _CrashRecord] = {}  # by keyed digest; the oldest first
        self._secret = secrets.token_bytes(32)
        self._crashing = 0
        self._crash_load = 0  # most sequences in flight at a crash that made suspects of this search
        self._slot_limit: int | None = None
        self._limited_until_s = 0.0
        self._max_model_len: int | None = None

    @property
    def max_model_len(self) -> int:
        return self._engine.max_model_len if self._max_model_len is None else self._max_model_len

    async def start(self) -> None:
        """The first start is not repeated: its usual cause of failure is a setting."""
        await self._engine.start()
        self._max_model_len = self._engine.max_model_len
        self._given_up.clear()
        self._supervisor = asyncio.create_task(self._supervise(self._begin_run()), name="dragoman-engine-supervisor")

    # ---- sequences

    async def generate(self, sequence: EngineSequence) -> Completion:
        with self._attempts(sequence) as attempts:
            return await self._generate(attempts)

    async def _generate(self, attempts: _Attempts) -> Completion:
        while True:
            run = await self._running_engine(attempts)
            with self._in_flight(run, attempts):
                return attempts.completed(await self._engine.generate(attempts.sequence))

    async def stream(self, sequence: EngineSequence) -> AsyncGenerator[Delta | Completion]:
        """Deltas that were sent before a crash are not sent again. `EngineFailed` when the new run contradicts them."""
        replay = StreamReplay(sequence)
        completion: Completion | None = None
        with self._attempts(sequence) as attempts:
            while completion is None:
                replay.restart()
                run = await self._running_engine(attempts)
                with self._in_flight(run, attempts):
                    async with aclosing(self._engine.stream(sequence)) as items:
                        async for item in items:
                            if isinstance(item, Completion):
                                replay.check_end()
                                completion = item
                            elif new := replay.delta(item):
                                yield new
            yield attempts.completed(completion)

    @contextmanager
    def _attempts(self, sequence: EngineSequence) -> Generator[_Attempts]:
        """Within: a sequence's attempts.

        A suspect goes on for the search when its caller leaves, or its stream cannot: its caller may send it again, and would
        crash the engine again.
        """
        attempts = _Attempts(sequence)
        try:
            yield attempts
        finally:
            if self._search is not None and self._digest(attempts) in self._search:
                self._go_on_for_search(attempts)

    @contextmanager
    def _in_flight(self, run: _EngineRun, attempts: _Attempts) -> Generator[None]:
        """Within: a sequence is in a run of the engine. A crash that it may survive ends the context, and no more."""
        run.in_flight.add(attempts)
        run.submitted += 1
        if self._search is not None and self._digest(attempts) in self._search:
            run.suspects.add(self._digest(attempts))
        try:
            yield
            self._note_completed(run, attempts)
        except EngineDead as crash:
            self._on_crash(run, crash)
            if self._ended is not None:
                raise
            self._check_refused(attempts)
        except (asyncio.CancelledError, GeneratorExit):
            self._note_left(run, attempts)
            raise
        except Exception:  # the engine's answer to it
            self._search_ended(attempts)
            raise
        finally:
            run.in_flight.discard(attempts)
            if run.suspects:
                run.suspects.discard(self._digest(attempts))
            if self._search is not None:
                self._wake_all()
            elif self._turns and self._settled.is_set():
                self._wake_next()

    def _note_completed(self, run: _EngineRun, attempts: _Attempts) -> None:
        run.completed += 1
        run.left.clear()
        if self._proof is None:
            self._proof = attempts.sequence
        if (record := self._record(attempts)) is not None and not record.is_refused:
            del self._records[self._digest(attempts)]
        self._search_ended(attempts)

    def _note_left(self, run: _EngineRun, attempts: _Attempts) -> None:
        digest = self._digest(attempts)
        run.left.pop(digest, None)
        run.left[digest] = attempts
        if len(run.left) > MOST_LEFT:
            del run.left[next(iter(run.left))]

    def _check_refused(self, attempts: _Attempts) -> None:
        if (record := self._record(attempts)) is not None and record.is_refused:
            raise CrashingText("this text has crashed the engine within the last hour; do not send it again")

    async def _running_engine(self, attempts: _Attempts) -> _EngineRun:
        """The engine's present run, after a restart or for its turn if need be.

        Raises `EngineDead` when there will be none, and `CrashingText` for a sequence that is refused, also since it waits: its
        caller may have sent it again while it was searched for.
        """
        while True:
            self._check_refused(attempts)
            if self._may_run(attempts):
                break
            turn = asyncio.get_running_loop().create_future()
            self._turns.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake_next()
                raise
            finally:
                with suppress(ValueError):
                    self._turns.remove(turn)
            attempts.lost_s = monotonic() - attempts.submitted_s
        if self._ended is not None or self._run is None:
            raise EngineDead(self._ended.message if self._ended else "the engine is not running")
        return self._run

    def _may_run(self, attempts: _Attempts) -> bool:
        """Whether a sequence may be submitted now, or must not wait any more."""
        if not self._settled.is_set():
            return False
        run, search = self._run, self._search
        if run is None or self._ended is not None:
            return True
        if search is not None:
            if self._is_proving:
                return False
            if (digest := self._digest(attempts)) in search:
                may_begin = digest in search.group and digest not in run.suspects
                return may_begin and not (search.is_alone and run.in_flight)
            if search.is_alone:
                return False
        if self._slot_limit is not None and monotonic() >= self._limited_until_s:
            log.warning("the engine has its slots again")
            self._slot_limit = None
        return self._slot_limit is None or len(run.in_flight) < self._slot_limit

    def _wake_next(self) -> None:
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _wake_all(self) -> None:
        for turn in self._turns:
            if not turn.done():
                turn.set_result(None)
        self._turns.clear()

    # ---- the search for what crashes the engine

    def _digest(self, attempts: _Attempts) -> bytes:
        """By what an owner's text is known: keyed, so that nobody who reads it can guess the text."""
        if attempts.digest is None:
            sequence = attempts.sequence
            text = sequence.owner.encode() + b"\0" + array("I", sequence.prompt_token_ids).tobytes()
            attempts.digest = blake2b(text, key=self._secret, digest_size=16).digest()
        return attempts.digest

    def _record(self, attempts: _Attempts) -> _CrashRecord | None:
        """What is known of a sequence's text, which costs nothing while nothing is known of any."""
        self._forget_expired()
        return self._records.get(self._digest(attempts)) if self._records else None

    def _forget_expired(self) -> None:
        while self._records and self._records[oldest := next(iter(self._records))].until_s <= monotonic():
            del self._records[oldest]

    def _keep_record(self, digest: bytes, *, crashes: int = 0, is_refused: bool = False) -> None:
        self._records.pop(digest, None)
        self._records[digest] = _CrashRecord(monotonic() + REFUSED_S, crashes, is_refused)
        while len(self._records) > MOST_RECORDS:
            del self._records[next(iter(self._records))]

    def _count_crash(self, texts: Iterable[bytes]) -> list[bytes]:
        """Count a crash for these texts; return those that it makes suspects."""
        self._forget_expired()
        suspects = list[bytes]()
        for digest in texts:
            record = self._records.get(digest)
            if record is not None and record.is_refused:
                continue
            crashes = 1 + (record.crashes if record is not None else 0)
            self._keep_record(digest, crashes=crashes)
            if crashes > CRASHES_SURVIVED:
                suspects.append(digest)
        return suspects

    def _note_crash(self, run: _EngineRun) -> None:
        """Blame what was in flight: the group that is searched, and of all else, two crashes make suspects.

        Also of what ran beside the group: another one that crashes the engine would have all of the group searched for it.
        """
        search = self._search
        in_flight = {self._digest(one): one for one in run.in_flight}
        ran = dict(sorted((run.left | in_flight).items(), key=lambda item: item[1].submitted_s))
        others = [digest for digest in ran if search is None or digest not in search]
        if search is not None and any(digest in ran for digest in search.group):
            convicted = search.crash(ran, is_proven=run.completed > 0 and run.alone in search.group)
            if convicted is not None:
                self._convict(ran[convicted])
        suspects = self._count_crash(others)
        if suspects:
            self._crash_load = max(self._crash_load if search is not None else 0, len(run.in_flight))
        if search is not None:
            search.add(suspects)
        elif suspects:
            log.warning("%d texts were in flight at two crashes: they run by halves", len(suspects))
            self._search = SuspectSearch(suspects)
        for digest in suspects:
            if digest not in in_flight:  # its caller has left
                self._go_on_for_search(ran[digest])
        self._check_search()

    def _convict(self, attempts: _Attempts) -> None:
        self._crashing += 1
        self._keep_record(self._digest(attempts), is_refused=True)
        log.error("the sequence %s crashes the engine alone: it is refused for an hour", attempts.sequence.id)
        self._end_task(self._digest(attempts))

    def _search_ended(self, attempts: _Attempts) -> None:
        """A sequence has ended in the engine, whatever its end was: if its text was a suspect, it is none any more."""
        if self._search is not None and (digest := self._digest(attempts)) in self._search:
            self._search.end(digest)
            self._end_task(digest)
            self._check_search()
            self._wake_all()

    def _check_search(self) -> None:
        """When all suspects have ended and none crashed the engine alone, it was their number, if several ran."""
        search = self._search
        if search is None or not search.is_over:
            return
        self._search = None
        if search.has_convicted or self._ended is not None or self._crash_load <= 1:
            return
        limit = max(min(self._crash_load, self._slot_limit or self._crash_load) // 2, 1)
        self._slot_limit, self._limited_until_s = limit, monotonic() + HALVED_S
        log.error(
            "the engine crashed with %d sequences in flight, and none of them crashes it alone: "
            "for an hour at most %d run at the same time; lower engine.max_num_seqs",
            self._crash_load,
            limit,
        )

    def _go_on_for_search(self, attempts: _Attempts) -> None:
        """Have a suspect run that no caller waits for."""
        if (digest := self._digest(attempts)) not in self._searching:
            self._searching[digest] = asyncio.create_task(self._generate_for_search(attempts))

    async def _generate_for_search(self, attempts: _Attempts) -> None:
        with suppress(DragomanError):
            await self._generate(attempts)

    def _end_task(self, digest: bytes) -> None:
        """End what runs a text for the search, of which the end is known."""
        task = self._searching.pop(digest, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    def _end_search(self) -> None:
        """There will be no engine any more to search with."""
        self._search = None
        for digest in [*self._searching]:
            self._end_task(digest)

    async def _prove(self, run: _EngineRun, proof: EngineSequence) -> None:
        """Have a run of a search complete what the engine has completed before, and nothing else meanwhile."""
        run.submitted += 1
        try:
            await self._engine.generate(replace(proof, id=f"{proof.id}.proof-{self._restarts}"))
            run.completed += 1
        except EngineDead as crash:
            self._on_crash(run, crash)
        except DragomanError as error:
            log.warning("what the engine had completed before fails: %s", error.message)
        finally:
            if self._run is run:
                self._is_proving = False
                self._wake_all()

    # ---- crash and restart

    def _begin_run(self) -> _EngineRun:
        self._run = run = _EngineRun()
        self._ended = None
        if self._search is not None and self._search.is_alone:
            [run.alone] = self._search.group
        self._is_proving = self._search is not None and self._proof is not None
        if self._is_proving and self._proof is not None:
            task = asyncio.create_task(self._prove(run, self._proof))
            self._proving.add(task)
            task.add_done_callback(self._proving.discard)
        self._settled.set()
        self._wake_all()
        return run

    def _on_crash(self, run: _EngineRun, crash: EngineDead) -> None:
        """Several sequences notice a crash: the first counts."""
        if run.crash.done() or self._ended is not None:
            return
        self._settled.clear()
        self._crash_reason = crash.message
        log.warning("%s; restarting it (%d sequences in flight will run again)", crash.message, len(run.in_flight))
        run.crash.set_result(crash)
        self._note_crash(run)

    async def _supervise(self, run: _EngineRun) -> None:
        """Restart the engine after each crash, until shutdown or until it cannot be started."""
        failed = 0  # starts in a row
        while True:
            await self._until_crash(run)
            # A run that took sequences and completed none is no better than a start that failed.
            failed = failed + 1 if run.submitted and not run.completed else 0
            while failed < MAX_FAILED_STARTS and not await self._restart(failed):
                failed += 1
            if failed >= MAX_FAILED_STARTS:
                self._ended = EngineDead(
                    f"the engine crashed and could not be restarted ({failed} starts failed in a row)"
                )
                log.error("%s; giving up", self._ended.message)
                self._end_search()
                self._given_up.set()
                self._settled.set()
                self._wake_all()
                return
            self._restarts += 1
            self._hangs += isinstance(run.crash.result(), EngineHung)
            run = self._begin_run()

    async def _until_crash(self, run: _EngineRun) -> None:
        watcher = asyncio.create_task(self._engine.crashed())
        try:
            await asyncio.wait({watcher, run.crash}, return_when=asyncio.FIRST_COMPLETED)
            if not run.crash.done():
                self._on_crash(run, watcher.result())
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)

    async def _restart(self, failed: int) -> bool:
        """One attempt, after a pause that grows with the failed ones. Whether the engine runs."""
        began_s = monotonic()
        try:
            await self._engine.shutdown()
            await asyncio.sleep(pause_s(failed, self._first_pause_s))
            await self._engine.start()
        except DragomanError as error:
            log.error("start %d of %d failed: %s", failed + 1, MAX_FAILED_STARTS, error.message)
        except Exception:  # of whatever kind: waiting sequences must not wait for ever
            log.exception("start %d of %d failed", failed + 1, MAX_FAILED_STARTS)
        else:
            log.info("the engine runs again after %.1f s", monotonic() - began_s)
            return True
        self._crash_reason = "the engine crashed, and its last start failed"
        return False

    # ---- the rest of the contract

    def stats(self) -> EngineStats:
        """Over all runs of the engine; what waits for its restart counts as waiting."""
        stats = self._engine.stats()
        return stats.model_copy(
            update={
                "waiting": stats.waiting + len(self._turns),
                "slot_limit": self._slot_limit,
                "crashing_sequences": self._crashing,
                "restarts": self._restarts,
                "hangs": self._hangs,
                "restarting": not self._settled.is_set(),
            }
        )

    async def check_health(self) -> None:
        if self._settled.is_set() and self._ended is None and self._run is not None:
            try:
                return await self._engine.check_health()
            except EngineDead as crash:
                self._on_crash(self._run, crash)
        if self._ended is not None:
            raise EngineDead(self._ended.message)
        raise EngineRestarting(f"{self._crash_reason}; it is being restarted, and calls wait for it")

    async def crashed(self) -> EngineDead:
        """When its restart was given up."""
        await self._given_up.wait()
        return self._ended or EngineDead("the engine crashed")

    async def shutdown(self) -> None:
        self._ended = EngineDead("the engine was shut down")
        self._settled.set()
        self._wake_all()
        tasks = [*self._proving, *self._searching.values()]
        self._end_search()
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            tasks.append(supervisor)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._engine.shutdown()
