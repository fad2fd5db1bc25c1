"""A tune's outcome in a few lines, each with its numbers: for the head of a file, a terminal, the top of a page.

Knows how numbers read; tables and charts are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dragoman_bench.bench.results import Spread
from dragoman_bench.bench.summary import spread_of
from dragoman_bench.bench.tables import about, number
from dragoman_bench.bench.tables import seconds as duration
from dragoman_bench.tune.outcome import Final, Metric, Recommendation, Standing, Tuning
from dragoman_bench.tune.points import Seen

METRIC_NAMES: dict[Metric, str] = {"goodput_rps": "goodput", "rps": "throughput"}
_KIBI = 1024


def spread(seen: Sequence[Seen], read: Callable[[Seen], float | None]) -> Spread | None:
    """Over the repeats; None where one of them lacks the number."""
    values = [value for one in seen if (value := read(one)) is not None]
    return spread_of(values) if values and len(values) == len(seen) else None


def ranged(found: Spread | None, times: float = 1.0, unit: str = "") -> str:
    """`54.1 (53.2..55.0)`, or the number alone where it was measured once; a dash where there is none."""
    if found is None:
        return "–"
    told = f"{number(found.median * times)}{unit}"
    return told if found.repeats < 2 else f"{told} ({number(found.low * times)}..{number(found.high * times)})"


def size(value: float) -> str:
    """`1.5 GiB`, `256 MiB`."""
    size_, units = float(abs(value)), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size_ >= _KIBI and len(units) > 1:
        size_, units = size_ / _KIBI, units[1:]
    return f"{'-' if value < 0 else ''}{size_:.4g} {units[0]}"


def figures(tuning: Tuning) -> Iterator[str]:
    """What was found, for what, and from which numbers, in whole sentences."""
    if tuning.recommendation is not None:
        yield sentence(tuning.recommendation.headline)
    if tuning.partial:
        yield f"Not finished ({tuning.partial_because or 'interrupted'}): this is the best of what was measured until then."
    yield from conditions(tuning)
    if tuning.ladder is not None and tuning.ladder.knee is not None:
        yield f"The ladder's knee is at {tuning.ladder.knee} requests at once. {sentence(tuning.ladder.because)}"
    if tuning.final is not None:
        yield from _standings(tuning.final, tuning.demand.levels.busy)
    if tuning.recommendation is not None:
        yield from _by_itself(tuning.recommendation, tuning)
        yield from map(sentence, tuning.recommendation.caveats)


def conditions(tuning: Tuning) -> Iterator[str]:
    """Model and machine; demand; what was aimed at."""
    machine = tuning.machine
    gpus = ", ".join(gpu.name for gpu in machine.gpus)
    where = gpus or f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib:g} GiB"
    versions = ", ".join(f"{name} {version}" for name, version in tuning.packages.items())
    yield f"Model {tuning.model} on {where}; {versions}." if versions else f"Model {tuning.model} on {where}."
    yield f"Demand: {tuning.demand.description}; {levels(tuning)}."
    yield f"SLO: {tuning.slo}." if tuning.slo else "No SLO was stated: throughput decides."


def levels(tuning: Tuning) -> str:
    found = tuning.demand.levels
    how = "as stated" if found.stated else "as recorded"
    return f"{found.low} texts at once usually, {found.busy} when busy, {found.peak} at most ({how})"


def sentence(text: str) -> str:
    """With a capital, where the first word is not spelt its own way (`vLLM`), and a full stop."""
    text = text.strip()
    first = text.split(" ", 1)[0]
    told = text[:1].upper() + text[1:] if first.islower() else text
    return told if not told or told.endswith((".", "!", "?")) else f"{told}."


def course(tuning: Tuning) -> str:
    """What the tune cost, in a sentence."""
    skipped = sum(trial.outcome == "skipped" for trial in tuning.trials)
    told = [f"{tuning.starts} engine start{'s' if tuning.starts != 1 else ''} for the search"]
    if skipped:
        told.append(f"{skipped} point{'s' if skipped != 1 else ''} skipped with a reason")
    if tuning.took_s is not None:
        told.append(f"it took {about(tuning.took_s)}")
    if tuning.estimate_s is not None:
        told.append(f"{about(tuning.estimate_s)} had been estimated")
    return sentence(", ".join(told))


def _standings(final: Final, busy: int) -> Iterator[str]:
    for standing in final.standings:
        yield sentence(f"{standing.contender.title}, {busy} clients: {standing_told(standing, final.metric)}")


def _by_itself(found: Recommendation, tuning: Tuning) -> Iterator[str]:
    if found.seen and tuning.final is not None:
        numbers = _numbers(found.seen, tuning.final.metric)
        yield f"What is recommended, by itself with its memory, {tuning.demand.levels.busy} clients: {numbers}."


def standing_told(standing: Standing, metric: Metric) -> str:
    """Goodput or throughput and tail, or why there is none."""
    if not standing.busy:
        return standing.reason or standing.outcome.replace("_", " ")
    return _numbers(standing.busy, metric)


def _numbers(seen: Sequence[Seen], metric: Metric) -> str:
    rate = ranged(spread(seen, lambda one: getattr(one, metric)), 1, "")
    tail = spread(seen, lambda one: one.e2e_p95_s)
    told = f"{METRIC_NAMES[metric]} {rate} req/s"
    return told if tail is None else f"{told}, p95 {duration(float(f'{tail.median:.3g}'))}"
