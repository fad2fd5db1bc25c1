"""The ladder: caps of 1, 2, 4, 8, ... on one engine start, climbed until more at once helps no more.

A cap in front of an engine with more slots behaves like that many slots, so a single start shows the whole curve. Every rung
is the same closed loop of the busy level's clients; those above the cap wait, and waiting counts as latency. A fall or a
broken SLO ends the climb only when a repeat confirms it. Afterwards the rungs that decide the knee are repeated, up to three
times. Knows nothing of the knobs' own trials (`knobs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from dragoman.settings import GRAPH_CEILING
from dragoman_bench.bench.summary import Slo
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.outcome import Ladder, Rung
from dragoman_bench.tune.points import Ask, Knobs, Level, Place, Seen, Setup, Steps, Trial
from dragoman_bench.tune.scale import MOST_REPEATS, Scale

CHECK_FACTOR = 1.5  # times the peak: what the final memory is checked under, and the ladder's engine has slots for
FEWEST_SLOTS = 16
_WHY = "the ladder: caps are climbed in front of an engine with more slots than the peak needs"


def power_of_two(at_least: float) -> int:
    """The smallest that is at least so much."""
    return 1 << max(0, ceil(at_least) - 1).bit_length()


def check_level(demand: Demand) -> Level:
    """More than the peak ever had, and longer texts."""
    return Level(ceil(CHECK_FACTOR * demand.levels.peak), draw="long")


def base_knobs(demand: Demand, place: Place) -> Knobs:
    """The ladder's engine: more slots than are needed, and memory as the server takes it."""
    slots = max(FEWEST_SLOTS, power_of_two(demand.sequences(check_level(demand).clients)))
    on_gpu = place.device == "cuda"
    tokens = max(8192 if on_gpu else 2048, slots)
    return Knobs(slots, tokens, GRAPH_CEILING if on_gpu else None)


def caps(busy: int) -> list[int]:
    """1, 2, 4, ... below the busy level, then that level itself: more clients there are not."""
    return [1 << power for power in range(busy.bit_length()) if 1 << power < busy] + [busy]


def level_of(cap: int, busy: int) -> Level:
    """At the busy level itself a cap would cap nothing."""
    return Level(busy, cap if cap < busy else None)


def climb(demand: Demand, place: Place, slo: Slo | None, repeats: int = MOST_REPEATS) -> Steps[tuple[Ladder, Trial]]:
    """The ladder and the trial it was climbed on; no level is measured more than `repeats` times. An engine that does not
    start, or does not survive the first rung, is tried again with less memory."""
    first, *smaller = (Setup(knobs) for knobs in _smaller(base_knobs(demand, place), place))
    busy = demand.levels.busy
    trial, ended = yield from _Climber("ladder", first, _WHY, busy, slo, repeats).climb()
    for number, setup in enumerate(smaller, 2):
        if trial.seen or trial.outcome in ("skipped", "interrupted"):
            break
        why = f"{_WHY}; with less memory, as {trial.name} failed: {trial.reason}"
        trial, ended = yield from _Climber(f"ladder-{number}", setup, why, busy, slo, repeats).climb()
    return read(trial, busy, slo, ended), trial


@dataclass(frozen=True, slots=True)
class _Climber:
    trial: str
    setup: Setup
    why: str
    busy: int
    slo: Slo | None
    repeats: int

    def climb(self) -> Steps[tuple[Trial, str]]:
        """The trial with all its rungs, and why it ended."""
        trial, ended = Trial(self.trial, "ladder", self.setup, self.why), ""
        for cap in caps(self.busy):
            trial, ended = yield from self._rung(cap)
            if ended:
                break
        ended = ended or f"{self.busy} clients: no more can be at the server at once"
        if trial.outcome == "measured":
            trial = yield from self._repeated(trial, ended)
        return trial, ended

    def _rung(self, cap: int) -> Steps[tuple[Trial, str]]:
        """One rung; why the climb ends at it, if it does."""
        trial = yield self._ask(cap, 0)
        if trial.outcome == "measured":
            trial, ended = yield from self._confirmed(trial, cap)
            if trial.outcome == "measured":
                return trial, ended
        return trial, f"the server did not get beyond {cap} at once: {trial.reason or trial.outcome}"

    def _confirmed(self, trial: Trial, cap: int) -> Steps[tuple[Trial, str]]:
        """Why the climb ends at this rung, if it does; measured again before that is believed."""
        repeat = 1
        while (found := _end_at(trial, cap, self.busy, self.slo))[0] == "doubtful" and repeat < self.repeats:
            trial = yield self._ask(cap, repeat, f"again, before it is believed: {found[1]}")
            if trial.outcome != "measured":
                return trial, ""
            repeat += 1
        return trial, found[1] if found[0] == "sure" else ""

    def _repeated(self, trial: Trial, ended: str) -> Steps[Trial]:
        """The knee and the best rung, until both were measured three times or the knee has moved above them."""
        while trial.outcome == "measured":
            ladder = read(trial, self.busy, self.slo, ended)
            wanted = [rung for rung in ladder.rungs if rung.cap in (ladder.knee, ladder.best)]
            fewest = min(wanted, key=lambda rung: len(rung.seen))
            if len(fewest.seen) >= self.repeats:
                break
            trial = yield self._ask(fewest.cap, len(fewest.seen), _note(ladder))
        return trial

    def _ask(self, cap: int, repeat: int, note: str = "") -> Ask:
        return Ask(self.trial, "ladder", self.setup, level_of(cap, self.busy), self.why, repeat, note)


def read(trial: Trial, busy: int, slo: Slo | None, ended: str = "the climb was not finished") -> Ladder:
    """The ladder as far as the trial was measured: also of one that was interrupted."""
    seen = {cap: repeats for cap in caps(busy) if (repeats := trial.at(level_of(cap, busy)))}
    scale = Scale.over(slo, list(seen.values()))
    rungs = [_rung(cap, seen, scale, ended) for cap in caps(busy)]
    knee, best, because = _knee(seen, scale)
    return Ladder(busy, trial.setup, tuple(rungs), scale.metric, knee, best, ended, because)


def _rung(cap: int, seen: dict[int, tuple[Seen, ...]], scale: Scale, ended: str) -> Rung:
    if cap not in seen:
        return Rung(cap, (), "not measured", ended)
    below = [lower for lower in seen if lower < cap]
    verdict = scale.compare(seen[cap], seen[below[-1]]) if below else "first"
    return Rung(cap, seen[cap], verdict)


def _knee(seen: dict[int, tuple[Seen, ...]], scale: Scale) -> tuple[int | None, int | None, str]:
    """The smallest cap that is equal to the best, the best, and why. Rungs that break the SLO where others attain it are
    neither."""
    if not seen:
        return None, None, "nothing was measured"
    sound = [cap for cap in seen if not scale.broken(seen[cap])] if scale.metric == "goodput_rps" else []
    eligible = sound or list(seen)
    best = max(eligible, key=lambda cap: (scale.median(seen[cap]), -cap))
    knee = next(cap for cap in eligible if cap == best or scale.compare(seen[cap], seen[best]) == "equal")
    if knee == best:
        return knee, best, f"{scale.told(seen[best])} at {best} at once is the most"
    told = f"{scale.told(seen[knee])} at {knee} at once is within the spread of the most, {scale.told(seen[best])} at {best}"
    return knee, best, told


def _end_at(trial: Trial, cap: int, busy: int, slo: Slo | None) -> tuple[str, str]:
    """Whether the climb ends here: `sure`, `doubtful` (a repeat may tell) or `no`, and why."""
    seen = {c: repeats for c in caps(busy) if (repeats := trial.at(level_of(c, busy)))}
    here, below = seen[cap], [seen[c] for c in seen if c < cap]
    if not below or cap == busy:
        return "no", ""
    scale = Scale.over(slo, below)
    sure = "sure" if len(here) > 1 else "doubtful"
    if scale.metric == "goodput_rps":
        if missed := scale.broken(here):
            return sure, f"the SLO breaks at {cap} at once: {missed}"
        if scale.doubtful(here):
            return "doubtful", f"the SLO is missed at {cap} at once, by little"
    best = max(below, key=scale.median)
    if scale.compare(here, best) == "lower":
        return sure, f"more at once is worse: {scale.told(here)} at {cap} at once, {scale.told(best)} below it"
    return "no", ""


def _note(ladder: Ladder) -> str:
    if ladder.knee != ladder.best:
        return f"again: {ladder.knee} and {ladder.best} at once lie close together"
    return f"again: what is measured later is held against {ladder.knee} at once"


def _smaller(knobs: Knobs, place: Place) -> Sequence[Knobs]:
    """The same, and what is tried where that does not start."""
    if place.device == "cpu":
        return knobs, replace(knobs, kv_cache_memory_bytes=512 << 20)
    return knobs, replace(knobs, gpu_memory_utilization=0.7), replace(knobs, gpu_memory_utilization=0.4)
