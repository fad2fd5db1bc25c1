"""A simulated engine: real schedules of steps, no server and no clock.

Steps decode every running sequence and give what room is left to prompts (chunked prefill, decodes first); a step takes a
base time, a time for each token, and more where its tokens exceed the graph ceiling. The KV cache is handed out in blocks;
where it runs out the youngest sequence is preempted and computed again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from dragoman_bench.bench.results import RequestRecord, band_of
from dragoman_bench.tune.points import Knobs, Level, Place

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Model:
    """What a machine and a model on it cost. Times in seconds."""

    place: Place
    base_s: float
    decode_s: float  # for each sequence that decodes in a step
    prompt_s: float  # for each prompt token in a step
    crowd_s: float = 0.0  # more for each sequence beyond `crowd`: more at once can be worse
    crowd: int = 1 << 30
    eager_s: float = 0.0  # of a step with more tokens than the graph ceiling
    weights_bytes: int = 8 * GIB
    bytes_per_token: int = 147_456
    window: int = 2048
    block: int = 16
    default_cache_bytes: int = 4 * GIB  # on a CPU

    def cache_tokens(self, knobs: Knobs) -> int:
        """What is left for the cache; below nought where the weights do not fit."""
        if self.place.device == "cpu":
            return (knobs.kv_cache_memory_bytes or self.default_cache_bytes) // self.bytes_per_token
        activations = (knobs.max_num_batched_tokens or 2048) * 200_000
        given = (knobs.gpu_memory_utilization or 0.9) * self.place.memory_bytes
        return int((given - self.weights_bytes - activations) // self.bytes_per_token)

    def ceiling(self, knobs: Knobs) -> int:
        return knobs.max_cudagraph_capture_size or min(2 * (knobs.max_num_seqs or 256), 512)


GPU = Model(Place("cuda", 140 * GIB, 1), base_s=0.0144, decode_s=0.00012, prompt_s=0.00005, eager_s=0.009)
CPU = Model(Place("cpu", 24 * GIB), 0.012, 0.0022, 0.00018, weights_bytes=GIB, bytes_per_token=12_288, block=128)


@dataclass(slots=True, eq=False)
class _Sequence:
    index: int
    client: int
    intended_s: float
    source: int
    prompt: int
    output: int
    blocks: int = 0
    computed: int = 0  # prompt tokens, and after a preemption output tokens too, that are in the cache
    made: int = 0
    first_s: float | None = None
    gaps: list[float] = field(default_factory=list[float])
    last_s: float = 0.0

    @property
    def target(self) -> int:
        return self.prompt + self.made

    @property
    def decoding(self) -> bool:
        return self.made > 0 and self.computed >= self.target - 1


@dataclass(slots=True)
class Simulation:
    """One measurement: a closed loop of clients on an engine."""

    model: Model
    knobs: Knobs
    level: Level
    sizes: Iterator[tuple[int, int, int]]  # source, prompt, output
    slowness: float = 1.0
    duration_s: float = 12.0
    now_s: float = 0.0
    preemptions: int = 0
    free: int = 0  # blocks
    least_free: int = 0
    count: int = 0
    all_gaps: list[float] = field(default_factory=list[float])
    outside: deque[_Sequence] = field(default_factory=deque[_Sequence])
    waiting: deque[_Sequence] = field(default_factory=deque[_Sequence])
    running: list[_Sequence] = field(default_factory=list[_Sequence])
    records: list[RequestRecord] = field(default_factory=list[RequestRecord])

    def run(self) -> None:
        self.free = self.least_free = self.blocks
        for client in range(self.level.clients):
            self._send(client)
        while self.waiting or self.running:
            self._step()

    @property
    def blocks(self) -> int:
        return self.model.cache_tokens(self.knobs) // self.model.block

    def _send(self, client: int) -> None:
        if self.now_s >= self.duration_s:
            return
        source, prompt, output = next(self.sizes)
        self.outside.append(_Sequence(self.count, client, self.now_s, source, prompt, output))
        self.count += 1
        self._enter()

    def _enter(self) -> None:
        """The cap in front of the engine."""
        cap = self.level.cap or self.level.clients
        while self.outside and len(self.waiting) + len(self.running) < cap:
            self.waiting.append(self.outside.popleft())

    def _step(self) -> None:
        room = self.knobs.max_num_batched_tokens or 2048
        decodes = [one for one in self.running if one.decoding]
        grown = [(one, 1) for one in decodes[:room] if self._hold(one, 1)]
        left = room - len(grown)
        for one in [one for one in self.running if not one.decoding]:
            chunk = min(left, one.target - one.computed)
            if chunk and self._hold(one, chunk):
                grown.append((one, chunk))
                left -= chunk
        while self.waiting and left and len(self.running) < (self.knobs.max_num_seqs or 256):
            one = self.waiting[0]
            if self.free < self._blocks(one.target):
                break
            chunk = min(left, one.target)
            self.running.append(self.waiting.popleft())
            self._hold(one, chunk)
            grown.append((one, chunk))
            left -= chunk
        self._pass(len(decodes), room - left - len(decodes))
        self._grow([(one, chunk) for one, chunk in grown if one.blocks])

    def _pass(self, decodes: int, prompts: int) -> None:
        model = self.model
        taken = model.base_s + decodes * model.decode_s + prompts * model.prompt_s
        taken += max(0, decodes - model.crowd) * model.crowd_s
        if decodes + prompts > model.ceiling(self.knobs):
            taken += model.eager_s
        self.now_s += taken * self.slowness

    def _grow(self, grown: list[tuple[_Sequence, int]]) -> None:
        for one, chunk in grown:
            one.computed += chunk
            if one.computed < one.target:
                continue
            one.made += 1
            if one.first_s is None:
                one.first_s = self.now_s
            else:
                one.gaps.append(self.now_s - one.last_s)
                self.all_gaps.append(one.gaps[-1])
            one.last_s = self.now_s
        self.least_free = min(self.least_free, self.free)
        for one in [one for one in self.running if one.made >= one.output]:
            self.running.remove(one)
            self._release(one)
            self.records.append(self._record(one))
            self._send(one.client)
        self._enter()

    def _hold(self, one: _Sequence, tokens: int) -> bool:
        """Room for so many more of it; the youngest go where there is none."""
        if one not in self.running:
            return False
        more = self._blocks(one.computed + tokens) - one.blocks
        while self.free < more:
            youngest = self.running.pop()
            self._release(youngest)
            youngest.computed = 0
            self.waiting.appendleft(youngest)
            self.preemptions += 1
            if youngest is one:
                return False
        self.free -= more
        one.blocks += more
        return True

    def _release(self, one: _Sequence) -> None:
        self.free += one.blocks
        one.blocks = 0

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.model.block)

    def _record(self, one: _Sequence) -> RequestRecord:
        gaps = sorted(one.gaps)
        return RequestRecord(
            index=one.index,
            text=one.index,
            intended_s=one.intended_s,
            sent_s=one.intended_s,
            first_token_s=one.first_s,
            done_s=self.now_s,
            source_tokens=one.source,
            source_characters=4 * one.source,
            band=band_of(one.source),
            output_tokens=one.made,
            status=200,
            itl_count=len(gaps),
            itl_mean_s=sum(gaps) / len(gaps) if gaps else None,
            itl_p95_s=gaps[int(0.95 * len(gaps))] if gaps else None,
            itl_max_s=gaps[-1] if gaps else None,
        )
