"""The ladder: caps of 1, 2, 4, 8, ... requests at once in front of one server, until more at once helps no more.

A cap in front of an engine with more sequences than it needs behaves like that engine with fewer, so one start shows the
whole curve. Each rung is the same closed loop of the busy level's clients; waiting for the cap counts as latency. Lower
performance or a missed SLO ends the climb only when a repeat confirms it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from dragoman_bench.bench.summary import Slo
from dragoman_bench.tune.compare import MOST_REPEATS, Objective
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.outcome import Hardware, Knobs, Ladder, LoadLevel, Measure, Results, Rung, Search, Setup, Trial

CHECK_FACTOR = 1.5
"""Times the peak: the concurrency that memory is checked under, and for which the ladder's engine has sequences."""
GRAPH_CEILING = 1024
"""max_cudagraph_capture_size on a GPU, whatever max_num_seqs is: dragoman's own default."""
_FEWEST_SLOTS = 16
_WHY = "the ladder: caps in front of an engine with more sequences than the peak needs"


def vllm_graph_ceiling(max_num_seqs: int) -> int:
    """max_cudagraph_capture_size that vLLM chooses by itself."""
    return min(2 * max_num_seqs, 512)


def power_of_two(at_least: float) -> int:
    """The smallest that is at least so much."""
    return 1 << max(0, ceil(at_least) - 1).bit_length()


def check_level(demand: Demand) -> LoadLevel:
    """More than the peak, and longer texts."""
    return LoadLevel(ceil(CHECK_FACTOR * demand.levels.peak), draw="long")


def base_knobs(demand: Demand, hardware: Hardware) -> Knobs:
    """The ladder's engine: more sequences than are needed, the server's own memory."""
    slots = max(_FEWEST_SLOTS, power_of_two(demand.sequences(check_level(demand).clients)))
    on_gpu = hardware.device == "cuda"
    return Knobs(slots, max(8192 if on_gpu else 2048, slots), GRAPH_CEILING if on_gpu else None)


def caps(busy: int) -> list[int]:
    """1, 2, 4, ... below the busy level, then that level."""
    return [1 << power for power in range(busy.bit_length()) if 1 << power < busy] + [busy]


def level_of(cap: int, busy: int) -> LoadLevel:
    return LoadLevel(busy, cap if cap < busy else None)


def climb(
    demand: Demand, hardware: Hardware, slo: Slo | None, repeats: int = MOST_REPEATS
) -> Search[tuple[Ladder, Trial]]:
    """The ladder and its trial. An engine that does not start, or crashes on the first rung, is tried with less memory."""
    base, busy = base_knobs(demand, hardware), demand.levels.busy
    smaller = [replace(base, kv_cache_memory_bytes=512 << 20)]
    if hardware.device == "cuda":
        smaller = [replace(base, gpu_memory_utilization=share) for share in (0.7, 0.4)]
    climber = _Climber("ladder", Setup(base), _WHY, busy, slo, repeats)
    trial, ended = yield from climber.climb()
    for number, knobs in enumerate(smaller, 2):
        if trial.results or trial.outcome in ("skipped", "interrupted"):
            break
        why = f"{_WHY}; with less memory, as {trial.name} failed: {trial.reason}"
        climber = replace(climber, trial=f"ladder-{number}", setup=Setup(knobs), why=why)
        trial, ended = yield from climber.climb()
    return read_ladder(trial, busy, slo, ended), trial


def read_ladder(trial: Trial, busy: int, slo: Slo | None, ended: str = "the climb was not finished") -> Ladder:
    """The ladder as far as the trial was measured."""
    results = measured_rungs(trial, busy)
    objective = Objective.over(slo, list(results.values()))
    rungs: list[Rung] = []
    below: Results = ()
    for cap in caps(busy):
        if cap not in results:
            rungs.append(Rung(cap, (), "not measured", ended))
        else:
            rungs.append(Rung(cap, results[cap], objective.compare(results[cap], below) if below else "first"))
            below = results[cap]
    if not results:
        return Ladder(busy, trial.setup, tuple(rungs), objective.metric, None, None, ended, "nothing was measured")
    best = max(results, key=lambda cap: (*objective.rank(results[cap]), -cap))
    knee = next(cap for cap in results if cap == best or objective.compare(results[cap], results[best]) == "equal")
    because = f"{objective.describe(results[best])} at {best} at once is the most"
    if knee != best:
        because = (
            f"{objective.describe(results[knee])} at {knee} at once is within the spread of the most, "
            f"{objective.describe(results[best])} at {best}"
        )
    return Ladder(busy, trial.setup, tuple(rungs), objective.metric, knee, best, ended, because)


def measured_rungs(trial: Trial, busy: int) -> dict[int, Results]:
    """The results of each cap that was measured, from the lowest."""
    return {cap: results for cap in caps(busy) if (results := trial.at(level_of(cap, busy)))}


@dataclass(frozen=True, slots=True)
class _Climber:
    trial: str
    setup: Setup
    why: str
    busy: int
    slo: Slo | None
    repeats: int

    def climb(self) -> Search[tuple[Trial, str]]:
        """The trial with all its rungs, and why the climb ended."""
        trial, ended = Trial(self.trial, "ladder", self.setup, self.why), ""
        for cap in caps(self.busy):
            trial, ended = yield from self._rung(cap)
            if trial.outcome != "measured":
                return trial, f"the server did not get beyond {cap} at once: {trial.reason or trial.outcome}"
            if ended:
                break
        ended = ended or f"{self.busy} clients: no more requests can be at the server"
        return (yield from self._repeated(trial, ended)), ended

    def _rung(self, cap: int) -> Search[tuple[Trial, str]]:
        """One rung, and why the climb ends at it, if it does; measured again before that is believed."""
        trial = yield self._measure(cap, 0)
        repeat = 1
        while trial.outcome == "measured":
            sure, reason = self._end_at(trial, cap)
            if sure or not reason:
                return trial, reason
            if repeat >= self.repeats:
                return trial, ""
            trial = yield self._measure(cap, repeat, f"again, to confirm it: {reason}")
            repeat += 1
        return trial, ""

    def _end_at(self, trial: Trial, cap: int) -> tuple[bool, str]:
        """Why the climb ends here (empty: it goes on), and whether that is sure or a repeat may change it."""
        results = measured_rungs(trial, self.busy)
        here, below = results[cap], [results[lower] for lower in results if lower < cap]
        if not below or cap == self.busy:
            return True, ""
        objective, sure = Objective.over(self.slo, below), len(here) > 1 or self.repeats == 1
        if objective.metric == "goodput_rps" and (missed := objective.missed(here)):
            return sure, f"the SLO is missed with {cap} requests at once ({missed})"
        if objective.metric == "goodput_rps" and not objective.rank(here)[0]:
            return False, f"the SLO is missed by little with {cap} requests at once"
        best = max(below, key=objective.rank)
        if objective.compare(here, best) == "lower":
            return sure, f"more at once is worse: {objective.describe(here)} at {cap}, {objective.describe(best)} below"
        return True, ""

    def _repeated(self, trial: Trial, ended: str) -> Search[Trial]:
        """The knee and the best rung are measured `repeats` times: everything later is compared with them."""
        while trial.outcome == "measured":
            ladder = read_ladder(trial, self.busy, self.slo, ended)
            decisive = [rung for rung in ladder.rungs if rung.cap in (ladder.knee, ladder.best)]
            fewest = min(decisive, key=lambda rung: len(rung.results))
            if len(fewest.results) >= self.repeats:
                break
            note = f"again: later trials are compared with {fewest.cap} at once"
            trial = yield self._measure(fewest.cap, len(fewest.results), note)
        return trial

    def _measure(self, cap: int, repeat: int, note: str = "") -> Measure:
        return Measure(self.trial, "ladder", self.setup, level_of(cap, self.busy), self.why, repeat, note)
