"""dragoman.toml from a tune: ready for `dragoman serve`, each value under its reason, the measured figures above all.

What the tune decided comes from its recommendation, or from the best of what an interrupted one found. What it was told
(which model, how long a window) is put in as it was told, so that the file serves what was measured. Knows the settings'
names and bounds, nothing of how a value was found.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from textwrap import wrap

from dragoman.errors import ConfigError
from dragoman.settings import Option, options
from dragoman_bench.tune.figures import figures
from dragoman_bench.tune.outcome import Choice, Tuning
from dragoman_bench.tune.points import Knobs, Value

COLUMNS = 100
_AS_TOLD = "as it was tuned with"
_FLAGS = {"model": "model.path", "model-name": "model.name", "pipeline": "pipeline.name"}


def write_config(tuning: Tuning, path: Path, told: Mapping[str, Value] | None = None) -> None:
    """`told`: by settings path, what the measured servers were told beside the knobs (`as_settings` makes it of flags).

    Raises ConfigError where nothing was measured or the file cannot be written.
    """
    text = config_text(tuning, told or {})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}", param="out") from error


def config_text(tuning: Tuning, told: Mapping[str, Value]) -> str:
    """The file's text. Raises ConfigError: nothing measured, or a value that the settings do not take."""
    chosen = choices(tuning)
    if not chosen:
        raise ConfigError("nothing was measured, so there is nothing to recommend")
    decided = {choice.path for choice in chosen}
    kept = [Choice(path, value, _AS_TOLD) for path, value in told.items() if path not in decided]
    known = options()
    for choice in (*kept, *chosen):
        _check(choice, known)
    places = {path: place for place, path in enumerate(known)}
    sections = list(dict.fromkeys(_section(path) for path in known))
    ordered = sorted(
        (*kept, *chosen), key=lambda one: (sections.index(_section(one.path)), one in kept, places[one.path])
    )
    text = "\n".join([*_head(tuning), *_tables(ordered)]) + "\n"
    tomllib.loads(text)  # what is written can be read: anything else is a fault of this module
    return text


def choices(tuning: Tuning) -> tuple[Choice, ...]:
    """The recommendation's; without one the best knobs found so far, else those of the ladder's server."""
    if tuning.recommendation is not None:
        return tuning.recommendation.choices
    if tuning.finding is not None:
        return _of_knobs(tuning.finding.knobs, tuning.finding.reasons)
    if tuning.ladder is not None and tuning.ladder.knee is not None:
        return _of_knobs(
            tuning.ladder.setup.knobs, {}, "as the ladder was measured with; the search did not get further"
        )
    return ()


def as_settings(flags: Mapping[str, Value]) -> dict[str, Value]:
    """Flags of `dragoman serve` by the path of their setting; the model's own default (an empty value) is left out.

    Raises ConfigError for a flag that is no setting.
    """
    return {_path(flag): value for flag, value in flags.items() if value != ""}


def _path(flag: str) -> str:
    if flag in _FLAGS:
        return _FLAGS[flag]
    found = [path for path, option in options().items() if option.key == flag.replace("-", "_")]
    if len(found) != 1:
        raise ConfigError(f"--{flag} is no setting of its own", param=flag)
    return found[0]


def _of_knobs(knobs: Knobs, reasons: Mapping[str, str], otherwise: str = "the best found so far") -> tuple[Choice, ...]:
    return tuple(
        Choice(f"engine.{name}", value, reasons.get(name, otherwise)) for name, value in knobs.settings.items()
    )


def _check(choice: Choice, known: Mapping[str, Option]) -> None:
    option = known.get(choice.path)
    if option is None:
        raise ConfigError(f"{choice.path} is no setting", param=choice.path)
    option.parse(choice.value, "recommended")


def _head(tuning: Tuning) -> Iterator[str]:
    yield from _comment(f"Written by `dragoman tune`, {tuning.started_at}. `dragoman serve` reads it where it stands.")
    yield "#"
    for line in figures(tuning):
        first, *rest = wrap(line, COLUMNS - 4, break_long_words=False, break_on_hyphens=False)
        yield f"# - {first}"
        yield from (f"#   {more}" for more in rest)


def _tables(chosen: Iterable[Choice]) -> Iterator[str]:
    for section, group in groupby(chosen, key=lambda choice: _section(choice.path)):
        yield f"\n[{section}]"
        said = ""
        for choice in group:
            if choice.why != said:
                yield from ([""] if said else [])
                yield from _comment(choice.why)
            said = choice.why
            yield f"{choice.path.partition('.')[2]} = {toml(choice.value)}"


def toml(value: Value) -> str:
    """A value as TOML writes it: JSON's strings and numbers are TOML's too, DEL aside."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _section(path: str) -> str:
    return path.partition(".")[0]


def _comment(text: str) -> list[str]:
    lines = wrap(" ".join(text.split()), COLUMNS - 2, break_long_words=False, break_on_hyphens=False)
    return [f"# {line}" for line in lines]
