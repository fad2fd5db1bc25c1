"""The final: what the search found against the baselines, in rounds whose order turns, so that drift affects all alike.

Baselines are what one serves with without tuning: `vllm serve` with its defaults, vLLM's defaults for embedded engines, the
story's settings. All servers are up together where memory allows (one that idles slows no other); else they are started one
after another, round by round. A candidate that does not start or crashes is out, with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from math import floor

import psutil

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Machine
from dragoman_bench.bench.servers import Interrupted, ServerFault
from dragoman_bench.tune.ladder import vllm_graph_ceiling
from dragoman_bench.tune.outcome import (
    FINALIST,
    Candidate,
    Final,
    FinalEntry,
    Hardware,
    Knobs,
    LevelResult,
    LoadLevel,
    Memory,
    Metric,
    Outcome,
    Setup,
    Trial,
)
from dragoman_bench.tune.store import ServerFacts
from dragoman_bench.tune.trial import BY_HAND, CannotTranslate, Servers, TrialServer, lacks_memory

BASELINES = ("vllm-serve", "embedder", "story")
SIMPLEST_FIRST = ("vllm-serve", "embedder", FINALIST, "story")
"""Defaults decide nothing, so they are the simplest; another's tuned values are no simpler than one's own."""
_VLLM_UTILIZATION = 0.92  # vLLM's default of gpu_memory_utilization
_SHARED = 0.96  # of a GPU's memory: the rest is of drivers and contexts
_IDLE_WARMUP = 0.5  # of a measurement's length: a server that idled beside others has cold caches
_HEADROOM = 1.25  # of free memory over what the largest server takes, before one more is started
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Sharing:
    """Whether all servers are up together, with a note. `share`: of a GPU's memory, for each."""

    together: bool
    note: str
    share: float | None = None


@dataclass(frozen=True, slots=True)
class FinalPlan:
    """Every round measures `busy`, the first one `low` as well (None: it is the busy level)."""

    candidates: tuple[Candidate, ...]
    busy: LoadLevel
    low: LoadLevel | None
    rounds: int
    metric: Metric
    sharing: Sharing

    def levels(self, turn: int) -> tuple[LoadLevel, ...]:
        return (self.busy, self.low) if turn == 0 and self.low is not None else (self.busy,)


def parse_baselines(text: str) -> tuple[str, ...]:
    """`vllm-serve,story`, or `none`. Raises ConfigError naming what is unknown."""
    words = [word.strip() for word in text.split(",") if word.strip() and word.strip() != "none"]
    for word in words:
        if word not in BASELINES:
            raise ConfigError(
                f"unknown baseline {word!r}: use none, or some of {', '.join(BASELINES)}", param="baselines"
            )
    return tuple(name for name in BASELINES if name in words)


def candidates(
    finalist: Knobs, baselines: Sequence[str], hardware: Hardware, machine: Machine, kv_cache_bytes: int | None
) -> tuple[Candidate, ...]:
    """The finalist, then the baselines. `kv_cache_bytes`: for each where there is no GPU, since defaults would take the
    memory that the others need."""
    made = [Candidate(FINALIST, "what the search found", Setup(finalist), finalist, SIMPLEST_FIRST.index(FINALIST))]
    made += [_baseline(name, hardware, machine) for name in BASELINES if name in baselines]
    if hardware.device == "cpu" and kv_cache_bytes is not None:
        made = [_with_memory(one, kv_cache_memory_bytes=kv_cache_bytes) for one in made]
    return tuple(made)


def sharing_of(count: int, hardware: Hardware, memory: Memory | None, trials: Sequence[Trial]) -> Sharing:
    """Of a GPU's memory each gets an equal share, where that holds the model and the cache that the demand needs. On a CPU
    it is checked while servers start: only then is it known what one takes."""
    if hardware.device == "cpu":
        return Sharing(True, "all servers were up together, each with the same KV cache")
    share = floor(_SHARED / count * 100) / 100
    needed = _needed_bytes(hardware, memory, trials)
    if needed is not None and needed > share * hardware.memory_bytes:
        alone = f"{count} do not fit beside each other ({needed / _GIB:.1f} GiB each)"
        return Sharing(False, f"one server was up at a time, with the memory that it asks for: {alone}")
    note = f"all servers were up together, each with {share:.0%} of the GPU's memory"
    return Sharing(True, f"{note}; speed does not depend on it while nothing is preempted", share)


async def run_final(servers: Servers, plan: FinalPlan) -> Final:
    """The first round whatever the time; further rounds as the time limit allows. Raises ConfigError where results cannot be
    written."""
    if plan.sharing.together:
        try:
            return await _FinalRun(_with_longer_warmup(servers), plan).all_together()
        except _NotEnoughMemory as fault:
            note = f"one server was up at a time, with the memory that it asks for: {fault}"
            plan = replace(plan, sharing=Sharing(False, note))
            servers.progress.note(note)
    return await _FinalRun(servers, plan).one_by_one()


class _NotEnoughMemory(Exception):
    """Not all servers can be up together. The message says why."""


@dataclass(slots=True)
class _Entry:
    """A candidate as it is started here, and what is known of it so far."""

    candidate: Candidate
    outcome: Outcome = "measured"
    reason: str = ""
    busy: list[LevelResult] = field(default_factory=list[LevelResult])
    low: list[LevelResult] = field(default_factory=list[LevelResult])
    facts: ServerFacts | None = None

    @property
    def name(self) -> str:
        return f"final-{self.candidate.name}"

    def end(self, outcome: Outcome, reason: str) -> None:
        self.outcome, self.reason = outcome, reason


class _FinalRun:
    def __init__(self, servers: Servers, plan: FinalPlan) -> None:
        self._servers = servers
        self._plan = plan
        share = plan.sharing.share
        self._entries = [
            _Entry(one if share is None else _with_memory(one, gpu_memory_utilization=share)) for one in plan.candidates
        ]

    async def all_together(self) -> Final:
        """Raises _NotEnoughMemory where not all can be up."""
        running: dict[str, TrialServer] = {}
        async with AsyncExitStack() as stack:
            for entry in self._entries:
                if all(self._stored(entry, turn) for turn in range(self._plan.rounds)):
                    continue
                if self._servers.interrupted.is_set():
                    entry.end("interrupted", BY_HAND)
                    continue
                _check_memory(list(running.values()))
                if server := await self._start(entry, stack):
                    running[entry.name] = server
            return await self._rounds(running)

    async def one_by_one(self) -> Final:
        return await self._rounds(None)

    async def _rounds(self, running: dict[str, TrialServer] | None) -> Final:
        """`running` None: a server is started for each of its turns."""
        rounds = 0
        for turn in range(self._plan.rounds):
            left = [entry for entry in self._entries if entry.outcome == "measured"]
            missing = [entry for entry in left if not self._stored(entry, turn)]
            stopped = self._stopped(turn, len(missing), starts=running is None)
            if not left or stopped:
                break
            for place in range(len(self._entries)):
                entry = self._entries[(place + turn) % len(self._entries)]  # each is first, second, last equally often
                if entry.outcome == "measured":
                    async with AsyncExitStack() as stack:
                        server = running.get(entry.name) if running is not None else None
                        if running is None and not self._stored(entry, turn):
                            server = await self._start(entry, stack)
                        await self._measure(entry, server, turn)
            if stopped := self._stopped(turn, 0, starts=False):
                break
            rounds += 1
        return self._final(rounds)

    def _stopped(self, turn: int, missing: int, *, starts: bool) -> str:
        """Why no further round is begun; the first one is begun whatever the time."""
        if self._servers.interrupted.is_set():
            stopped = BY_HAND
        elif turn == 0 or not missing:
            return ""
        else:
            stopped = self._servers.stopped(starts=missing if starts else 0, measurements=missing)
        if stopped:
            self._servers.progress.note(f"the final ended after {turn} of {self._plan.rounds} rounds: {stopped}")
            for entry in self._entries:
                if entry.outcome == "measured" and not entry.busy:
                    entry.end("interrupted" if stopped == BY_HAND else "skipped", stopped)
        return stopped

    def _stored(self, entry: _Entry, turn: int) -> bool:
        """Whether an earlier run has measured all of a candidate's turn."""
        setup, levels = entry.candidate.setup, self._plan.levels(turn)
        return all(self._servers.stored(entry.name, setup, level, self._repeat(level, turn)) for level in levels)

    def _repeat(self, level: LoadLevel, turn: int) -> int:
        return turn if level == self._plan.busy else 0

    async def _measure(self, entry: _Entry, server: TrialServer | None, turn: int) -> None:
        for level in self._plan.levels(turn):
            result = await self._result(entry, server, level, turn)
            if result is None:
                return
            (entry.busy if level == self._plan.busy else entry.low).append(result)

    async def _result(
        self, entry: _Entry, server: TrialServer | None, level: LoadLevel, turn: int
    ) -> LevelResult | None:
        servers, setup, repeat = self._servers, entry.candidate.setup, self._repeat(level, turn)
        stored = servers.stored(entry.name, setup, level, repeat)
        if stored is not None:
            result, entry.facts = stored
            servers.progress.measured(result, entry.name, stored=True)
            servers.progress.estimate.measured("final")
            return result
        if server is None or entry.outcome != "measured":
            return None
        note = f"round {turn + 1} of {self._plan.rounds}"
        try:
            result = await servers.measure(entry.name, setup, "final", server, level, repeat, note)
        except ServerFault as fault:
            self._fail(entry, "failed_under_load", servers.reason(entry.name, fault))
            return None
        if result is not None:
            entry.facts = server.facts
            servers.progress.measured(result, entry.name)
        return result

    async def _start(self, entry: _Entry, stack: AsyncExitStack) -> TrialServer | None:
        """None where it is out now. Raises _NotEnoughMemory where memory is what it lacks beside the others."""
        servers = self._servers
        servers.progress.starting(entry.name, entry.candidate.title)
        try:
            server = await stack.enter_async_context(servers.running(entry.name, entry.candidate.setup))
        except ServerFault as fault:
            reason = servers.reason(entry.name, fault)
            if self._plan.sharing.together and lacks_memory(reason):
                raise _NotEnoughMemory(f"{entry.candidate.title} did not start beside the others ({reason})") from fault
            self._fail(entry, "did_not_start", reason)
        except CannotTranslate as fault:
            self._fail(entry, "failed_under_load", str(fault))
        except Interrupted:
            entry.end("interrupted", BY_HAND)
        else:
            servers.progress.estimate.started("final", server.facts.start_s)
            return server
        return None

    def _fail(self, entry: _Entry, outcome: Outcome, reason: str) -> None:
        entry.end(outcome, reason)
        self._servers.progress.ended(Trial(entry.name, "final", entry.candidate.setup, "", outcome, reason))

    def _final(self, rounds: int) -> Final:
        together, note = self._plan.sharing.together, self._plan.sharing.note
        entries = tuple(_final_entry(entry, alone=not together) for entry in self._entries)
        preempted = [one.candidate.title for one in entries if any(result.preemptions for result in one.busy)]
        if preempted:
            note += f"; requests were preempted, and so slowed, in {', '.join(preempted)}"
        return Final(entries, rounds, together, note, self._plan.metric)


def _final_entry(entry: _Entry, *, alone: bool) -> FinalEntry:
    """`alone`: what the GPU held was this server's."""
    facts = entry.facts
    held = [one.gpu_memory_mib for one in (*entry.busy, *entry.low) if one.gpu_memory_mib is not None]
    return FinalEntry(
        candidate=entry.candidate,
        outcome=entry.outcome,
        reason=entry.reason,
        busy=tuple(entry.busy),
        low=tuple(entry.low),
        start_s=facts.start_s if facts else None,
        kv_cache=facts.kv_cache if facts else None,
        gpu_memory_mib=max(held, default=None) if alone else None,
    )


def _with_longer_warmup(servers: Servers) -> Servers:
    pace = servers.pace
    return replace(servers, pace=replace(pace, warmup_s=max(pace.warmup_s, _IDLE_WARMUP * pace.duration_s)))


def _check_memory(servers: list[TrialServer]) -> None:
    """Raises _NotEnoughMemory where one more server, as large as the largest, would leave the machine without memory."""
    largest = max((server.server.memory_bytes() for server in servers), default=0)
    free = psutil.virtual_memory().available
    if largest * _HEADROOM > free:
        raise _NotEnoughMemory(f"{free / _GIB:.1f} GiB are free, and a server takes {largest / _GIB:.1f}")


def _baseline(name: str, hardware: Hardware, machine: Machine) -> Candidate:
    on_gpu, simplicity = hardware.device == "cuda", SIMPLEST_FIRST.index(name)
    if name == "story":
        title = "the story's 16/8192/0.3" if on_gpu else "the story's 16/8192"
        seqs, tokens, memory = 16, 8192, 0.3
    elif name == "embedder":
        title, seqs, tokens, memory = "vLLM's embedder defaults", 128, 2048, _VLLM_UTILIZATION
    else:
        title, memory = "`vllm serve` with its defaults", _VLLM_UTILIZATION
        seqs, tokens = serve_defaults(hardware, machine)
    # vLLM's own graph ceiling, as dragoman's default would be another
    knobs = Knobs(seqs, tokens, vllm_graph_ceiling(seqs), memory) if on_gpu else Knobs(seqs, tokens)
    setup = Setup(Knobs(), "vllm") if name == "vllm-serve" else Setup(knobs)
    return Candidate(name, title, setup, knobs, simplicity)


def serve_defaults(hardware: Hardware, machine: Machine) -> tuple[int, int]:
    """max_num_seqs and max_num_batched_tokens that `vllm serve` chooses (vLLM 0.32, EngineArgs.get_batch_defaults)."""
    if hardware.device == "cpu":
        return 128, 2048
    a100 = any("a100" in gpu.name.lower() for gpu in machine.gpus)
    if hardware.memory_bytes >= 160 * _GIB:
        return 1024, 16384
    return (1024, 8192) if hardware.memory_bytes >= 70 * _GIB and not a100 else (256, 2048)


def _with_memory(candidate: Candidate, **memory: int | float) -> Candidate:
    knobs = replace(candidate.setup.knobs, **memory)
    return replace(candidate, setup=replace(candidate.setup, knobs=knobs))


def _needed_bytes(hardware: Hardware, memory: Memory | None, trials: Sequence[Trial]) -> float | None:
    """What one server takes with the cache that the demand needs; None where no server reports enough."""
    for trial in trials:
        cache, used = trial.kv_cache, trial.gpu_memory_utilization
        if memory is None or cache is None or cache.bytes_per_token is None or used is None:
            continue
        beside_cache = used * hardware.memory_bytes - cache.tokens * cache.bytes_per_token
        return beside_cache + memory.wanted_tokens * cache.bytes_per_token
    return None
