"""The search of settings after the ladder: max_num_seqs, max_num_batched_tokens, extras on request, memory.

Each setting is tried against the best so far. An engine start is expensive, a further measurement on a running server cheap:
a trial of fewer sequences has the memory that they need already, and its memory is checked before its server is stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, exp
from statistics import median
from typing import Literal, get_args

from dragoman.errors import ConfigError
from dragoman_bench.bench.summary import STREAMED, Slo
from dragoman_bench.tune.compare import MOST_REPEATS, Attempt, Best, Context, Objective, skip
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.ladder import GRAPH_CEILING, level_of, measured_rungs, power_of_two
from dragoman_bench.tune.memory import LARGER, check_memory, confirm_memory, sizer
from dragoman_bench.tune.outcome import Choice, Hardware, Ladder, Results, Search, SearchResult, Trial, Value

Extra = Literal["prefix-caching", "priority", "fp8", "data-parallel"]
EXTRAS: tuple[Extra, ...] = get_args(Extra)
TOKEN_VALUES = tuple(1 << power for power in range(8, 16))
"""Of max_num_batched_tokens: 256 to 32768."""
MOST_SLOT_TRIALS = 3
_SELDOM = 0.999  # of steps hold no more than what is taken for usual
_GROUPED = (
    2.0  # arrivals come together more often than in a Poisson process: texts that end together are followed together
)
_CLEARLY = 1.5  # a value less than that below what steps usually hold is seldom felt
_CEILING_REASON = (
    f"steps of up to {GRAPH_CEILING} tokens run as CUDA graphs whatever max_num_seqs is: vLLM's own ceiling is twice "
    "max_num_seqs, and 512 at most"
)


def search_knobs(
    demand: Demand,
    hardware: Hardware,
    slo: Slo | None,
    ladder: Ladder,
    trial: Trial,
    also: Sequence[Extra] = (),
    repeats: int = MOST_REPEATS,
) -> Search[SearchResult]:
    """The best settings; `trial` is the ladder's."""
    demand = measured_demand(demand, trial)
    context = Context(demand, hardware, Objective(slo, ladder.metric), ladder, trial, repeats)
    best = _ladder_engine(context)
    if best.results and not _still_rising(ladder, trial):
        best = yield from choose_slots(context, best)
        best = yield from choose_batched_tokens(context, best)
        best = yield from try_extras(context, best, also)
        best = yield from confirm_memory(context, best)
    return SearchResult(best.choices, best.memory, best.trial.name if best.results else None)


def measured_demand(demand: Demand, trial: Trial) -> Demand:
    """The demand with output lengths and prompt overhead as the trial measured them."""
    ratios = [one.output_tokens_s / one.rps for one in trial.results if one.output_tokens_s and one.rps]
    mean_source = sum(item.source_tokens for item in demand.items) / len(demand.items)
    return demand.measured(median(ratios) / mean_source if ratios else None, trial.prompt_overhead)


def _ladder_engine(context: Context) -> Best:
    """The ladder's engine: without a cap where that was measured, else as its best cap was."""
    ladder, trial = context.ladder, context.ladder_trial
    results = trial.at(context.busy)
    if not results and ladder.best is not None:
        results = trial.at(level_of(ladder.best, ladder.clients))
    reasons = {"max_cudagraph_capture_size": _CEILING_REASON}
    settings = ladder.setup.knobs.settings
    choices = tuple(
        Choice(name, value, reasons.get(name, "as the ladder was measured with")) for name, value in settings.items()
    )
    return Best(choices, results, trial)


def _still_rising(ladder: Ladder, trial: Trial) -> bool:
    """Whether the climb was cut short at its best cap: then nothing shows how many at once are best, and the ladder's engine
    is the answer."""
    highest = max(rung.cap for rung in ladder.rungs if rung.results)
    return trial.outcome != "measured" and ladder.knee == highest < ladder.clients


# max_num_seqs


@dataclass(frozen=True, slots=True)
class _Slots:
    """A value of max_num_seqs, and which cap of the ladder it stands for."""

    value: int
    reason: str


def choose_slots(context: Context, best: Best) -> Search[Best]:
    """The best with max_num_seqs decided: a cap of the ladder as a real value, the knee first, until one meets what the
    ladder's best cap showed. Fewer sequences need less memory, so they win ties."""
    ladder, trial = context.ladder, context.ladder_trial
    bar = trial.at(level_of(ladder.best or ladder.clients, ladder.clients))
    bar_text = f"the ladder's best cap {context.objective.describe(bar)}"
    large, tried, worse, decided = best, dict[int, Best](), list[str](), False
    for slots in _slot_candidates(context):
        attempt, sized = _slot_attempt(context, large, slots)
        trial, verdict = yield from attempt.against(context, bar)
        if trial.outcome == "did_not_start":
            why = f"{trial.name} {trial.ending}; again, with as much memory as the ladder's engine"
            knobs = replace(large.knobs, max_num_seqs=slots.value)
            attempt = replace(attempt, name=f"{attempt.name}-more-memory", knobs=knobs, why=why)
            sized = large.choose(Choice("max_num_seqs", slots.value, slots.reason))
            sized = replace(sized, memory=sizer(context).size(slots.value, LARGER[0]))
            trial, verdict = yield from attempt.against(context, bar)
        if trial.outcome in ("interrupted", "skipped") and not trial.results:
            if not tried:
                reason = f"{slots.reason}; not measured as max_num_seqs: {trial.reason}"
                best, decided = large.choose(Choice("max_num_seqs", slots.value, reason)), True
            break
        if verdict == "failed":
            worse.append(f"{slots.value} {trial.ending}")
            continue
        if attempt.wins(verdict):
            trial = yield from attempt.repeated(context, trial)
        results = trial.at(context.busy)
        text = context.objective.describe(results)
        chosen = Choice("max_num_seqs", slots.value, f"{text}; {slots.reason}; {bar_text}")
        tried[slots.value] = replace(sized.choose(chosen), results=results, trial=trial)
        if attempt.wins(context.objective.compare(results, bar)):
            best, decided = tried[slots.value], True
            memory = best.memory
            if memory is not None and memory.value == getattr(best.knobs, memory.setting):
                best = yield from check_memory(context, best, attempt)
            break
        worse.append(f"{slots.value} is worse than its cap: {text}")
    if not decided:
        best = _best_of(context, large, list(tried.values()), "; ".join([*worse, bar_text]))
    yield from _not_tried(context, best, tried)
    return best


def _best_of(context: Context, large: Best, tried: list[Best], text: str) -> Best:
    """Where no real value reaches the ladder's best cap: the best of those that were measured, the ladder's engine among
    them if it was measured without a cap."""
    uncapped = context.ladder_trial.at(context.busy)
    measured = [*([replace(large, results=uncapped)] if uncapped else []), *tried]
    found = max(measured or [large], key=lambda one: context.objective.rank(one.results))
    if found.trial.name != large.trial.name:
        return found
    shown = f", {context.objective.describe(uncapped)} with {context.ladder.clients} clients" if uncapped else ""
    reason = f"as the ladder was measured with{shown}" + (f"; {text}" if tried else "")
    return found.choose(Choice("max_num_seqs", found.slots, reason))


def _slot_candidates(context: Context) -> list[_Slots]:
    """Caps that meet the SLO and are as good as the best, the knee first; where more at once always helped, first as many
    sequences as the peak has. The ladder's own number of sequences is no candidate: it was measured."""
    ladder, objective = context.ladder, context.objective
    if ladder.knee is None or ladder.best is None:
        return []
    rungs = measured_rungs(context.ladder_trial, ladder.clients)
    equal = [
        cap
        for cap in rungs
        if cap < ladder.clients
        and objective.rank(rungs[cap])[0]
        and (cap in (ladder.knee, ladder.best) or objective.compare(rungs[cap], rungs[ladder.best]) != "lower")
    ]
    ordered = sorted(equal, key=lambda cap: (cap != ladder.knee, cap != ladder.best, cap))
    found = [_Slots(_sequences(context, cap), _as_cap(context, cap, rungs[cap])) for cap in ordered]
    if ladder.knee == ladder.clients:
        peak = context.demand.levels.peak
        text = objective.describe(rungs[ladder.clients])
        reason = f"more at once helped up to all {ladder.clients} clients ({text}); sequences for the peak of {peak}"
        found.insert(0, _Slots(power_of_two(context.demand.sequences(peak)), reason))
    large, values = ladder.setup.knobs.max_num_seqs or 1, dict[int, str]()
    for slots in found:
        values.setdefault(sizer(context).slots_that_fit(slots.value), slots.reason)
    return [_Slots(value, reason) for value, reason in values.items() if value < large][:MOST_SLOT_TRIALS]


def _sequences(context: Context, cap: int) -> int:
    """The cap as max_num_seqs: a text that is cut is several sequences, so as many as ran on average under that cap."""
    results = context.ladder_trial.at(level_of(cap, context.ladder.clients))
    running = [result.mean_running for result in results if result.mean_running is not None]
    return max(cap, ceil(median(running) - 0.01)) if running else cap


def _as_cap(context: Context, cap: int, results: Results) -> str:
    name = "is the knee of the ladder" if cap == context.ladder.knee else "is as good as the ladder's best"
    return f"{cap} at once {name} ({context.objective.describe(results)})"


def _slot_attempt(context: Context, large: Best, slots: _Slots) -> tuple[Attempt, Best]:
    """The trial of a value with the memory that it needs, and the settings that it stands for."""
    sized = large.choose(Choice("max_num_seqs", slots.value, slots.reason)).sized(sizer(context).size(slots.value))
    why = f"{slots.reason}, with the memory that {slots.value} sequences need"
    return Attempt(f"slots-{slots.value}", "slots", sized.knobs, why, wins_ties=True), sized


def _not_tried(context: Context, best: Best, tried: dict[int, Best]) -> Search[None]:
    """Records the caps that were not tried as max_num_seqs."""
    for rung in context.ladder.rungs:
        if rung.cap in tried or rung.cap == best.slots:
            continue
        reason = f"not climbed to: {rung.skipped}"
        if rung.results:
            reason = f"the ladder's cap of {rung.cap} stands for it: {context.objective.describe(rung.results)}"
        yield skip(f"slots-{rung.cap}", "slots", replace(best.knobs, max_num_seqs=rung.cap), reason)


# max_num_batched_tokens


@dataclass(frozen=True, slots=True)
class StepTokens:
    """Tokens of one step: the most that it can hold (all prompts of the peak's texts together), and what it usually holds at
    the measured rate and step time (None: the server does not report its step time)."""

    most: int
    usual: int | None


def step_tokens(context: Context, best: Best) -> StepTokens:
    demand, peak = context.demand, context.demand.levels.peak
    most = demand.prompt_tokens(peak)
    steps_s = [one.decode_s_per_token for one in best.results if one.decode_s_per_token is not None]
    if not steps_s:
        return StepTokens(most, None)
    arrivals = median(one.rps for one in best.results) * median(steps_s)
    together = min(max(1, _poisson_quantile(_GROUPED * arrivals, _SELDOM)), peak)
    decoding = min(best.slots, demand.sequences(demand.levels.busy))
    return StepTokens(most, min(most, demand.prompt_tokens(together) + decoding))


def choose_batched_tokens(context: Context, best: Best) -> Search[Best]:
    """The best with max_num_batched_tokens decided: larger and smaller values, each way while it gets better. An SLO on
    tokens is helped by smaller steps, which are tried first."""
    start = best.knobs.max_num_batched_tokens
    if start is None:
        return best
    name, steps = "max_num_batched_tokens", step_tokens(context, best)
    tried, reason = {start}, ""
    for way in _ways(context, best, steps, start):
        for value in way:
            tried.add(value)
            gain = "larger steps would finish prompts sooner" if value > start else "smaller steps delay others less"
            why = f"a step usually holds up to {steps.usual or steps.most:,} tokens: {gain}"
            knobs = replace(best.knobs, max_num_batched_tokens=value)
            attempt = Attempt(f"tokens-{value}", "batched_tokens", knobs, why)
            before = f"{best.knobs.max_num_batched_tokens}: {context.objective.describe(best.results)}"
            trial, verdict = yield from attempt.against(context, best.results)
            if not attempt.wins(verdict):
                reason = _no_better(context, value, trial, before)
                break
            best = yield from _adopt(context, best, attempt, trial, Choice(name, value, f"better than {before}"))
        if best.knobs.max_num_batched_tokens != start:
            break
    if best.knobs.max_num_batched_tokens == start:
        usual = f"steps usually hold up to {steps.usual:,} tokens, {steps.most:,} at most" if steps.usual else ""
        reason = "; ".join(filter(None, (reason, usual))) or "as the ladder was measured with"
        best = best.choose(Choice(name, start, reason))
    for value in TOKEN_VALUES:
        if value not in tried:
            knobs = replace(best.knobs, max_num_batched_tokens=value)
            yield skip(f"tokens-{value}", "batched_tokens", knobs, _why_not(value, start, best, steps))
    return best


def _ways(context: Context, best: Best, steps: StepTokens, start: int) -> list[list[int]]:
    used = steps.usual or steps.most
    up = [value for value in TOKEN_VALUES if value > start and value // 2 < used]
    down = [value for value in reversed(TOKEN_VALUES) if best.slots <= value < min(start, used / _CLEARLY)]
    ceiling = best.knobs.max_cudagraph_capture_size
    if ceiling in down:
        down = [value for value in down if value <= ceiling]  # a step that fits a CUDA graph gains most
    slo = context.objective.slo
    on_tokens = slo is not None and any(limit.metric in STREAMED for limit in slo.limits)
    return [down, up] if on_tokens else [up, down]


def _why_not(value: int, start: int, best: Best, steps: StepTokens) -> str:
    used, ceiling = steps.usual or steps.most, best.knobs.max_cudagraph_capture_size
    if value < best.slots:
        return f"{best.slots} sequences may take a token each in one step"
    if value > start and value // 2 >= used:
        return f"a step seldom holds more than {used:,} tokens"
    if used / _CLEARLY <= value < start:
        return f"a step seldom holds more than {used:,} tokens, so it would be the same as {start}"
    if ceiling and ceiling < value < start:
        return f"smaller steps gain most where they fit a CUDA graph: {ceiling} stands for all below {start}"
    return "values nearer to the ladder's were no better, or the other way was"


def _poisson_quantile(rate: float, share: float) -> int:
    count, term = 0, exp(-rate)
    total = term
    while total < share and count < 10 * (rate + 10):
        count += 1
        term *= rate / count
        total += term
    return count


# extras


@dataclass(frozen=True, slots=True)
class _Change:
    """What an extra changes; `unavailable` says why it cannot be tried here."""

    setting: str
    value: Value
    why: str
    unavailable: str = ""
    caveat: str = ""


def parse_extras(text: str) -> tuple[Extra, ...]:
    """`prefix-caching,fp8`. Raises ConfigError naming what is unknown."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in EXTRAS:
            raise ConfigError(f"unknown setting {word!r}: use some of {', '.join(EXTRAS)}", param="also")
    return tuple(extra for extra in EXTRAS if extra in words)


def try_extras(context: Context, best: Best, extras: Sequence[Extra]) -> Search[Best]:
    """The best with every extra that made it better, one trial each."""
    for extra in extras:
        change = _change(extra, context.hardware)
        choice = Choice(change.setting, change.value, change.why)
        knobs = best.choose(choice).knobs
        if change.unavailable:
            yield skip(extra, "optional", knobs, change.unavailable)
            continue
        attempt = Attempt(extra, "optional", knobs, change.why)
        trial, verdict = yield from attempt.against(context, best.results)
        if attempt.wins(verdict):
            reason = f"better than without it: {context.objective.describe(best.results)}{change.caveat}"
            best = yield from _adopt(context, best, attempt, trial, replace(choice, reason=reason))
    return best


def _change(extra: Extra, hardware: Hardware) -> _Change:
    if extra == "prefix-caching":
        return _Change("enable_prefix_caching", False, "prompts share little, and looking prefixes up takes time")
    if extra == "priority":
        return _Change("scheduling_policy", "priority", "short texts first, where texts wait for a sequence")
    if extra == "fp8":
        unavailable = "" if hardware.device == "cuda" else "there is no GPU, and vLLM has no fp8 on a CPU"
        caveat = ". Translations may differ: check their quality"
        return _Change("quantization", "fp8", "weights of half the size are read in half the time", unavailable, caveat)
    unavailable = "" if hardware.gpus > 1 else "a second copy of the model needs a second GPU"
    copies = max(2, hardware.gpus)
    return _Change("data_parallel_size", copies, f"a copy of the model on each of {copies} GPUs", unavailable)


def _adopt(context: Context, best: Best, attempt: Attempt, trial: Trial, choice: Choice) -> Search[Best]:
    """The attempt as the best, measured in full, and its memory checked again where the best has sized memory."""
    trial = yield from attempt.repeated(context, trial)
    results = trial.at(context.busy)
    choice = replace(choice, reason=f"{context.objective.describe(results)}; {choice.reason}")
    best = replace(best.choose(choice), results=results, trial=trial)
    return (yield from check_memory(context, best, attempt)) if best.memory is not None else best


def _no_better(context: Context, value: int, trial: Trial, before: str) -> str:
    results = trial.at(context.busy)
    if not results:
        return f"{value} {trial.ending}"
    return f"no better with {value}: {context.objective.describe(results)}; with {before}"
