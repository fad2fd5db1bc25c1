"""The files of a tune: `dragoman.toml` with a reason for each value, `report.html`, `tune.md` and `tune.json`."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from textwrap import wrap

from dragoman.errors import ConfigError
from dragoman_bench.bench.tables import bullets, escaped, markdown, write_text
from dragoman_bench.report.page import Section, write_page
from dragoman_bench.tune.charts import charts
from dragoman_bench.tune.outcome import Tuning, Value, read_tuning, write_tuning
from dragoman_bench.tune.tables import all_tables, conditions_lines, course, remarks, sentence, summary

_COLUMNS = 100
_SETTINGS = {"model": "model.path", "profile": "model.profile", "model-name": "model.name", "pipeline": "pipeline.name"}
"""Flags of `dragoman serve` that are not settings of the `[engine]` table."""
_SECTIONS = {
    "recommended": "The settings, and why",
    "final": "Compared with the baselines",
    "rungs": "The ladder",
    "memory": "Memory",
    "trials": "The search",
    "conditions": "Conditions",
}
"""Of the page, by the slug of their table."""
_FOOTER = (
    "Goodput counts the requests that finished within the SLO. Percentiles are nearest-rank: latencies that were observed. "
    "Latency counts from the intended send, with the time that a request waits because of the cap. Results are called equal "
    "where their medians are closer together than their repeats differ; 10 % stands for the spread of what was measured once."
)


def write_outcome(tuning: Tuning, folder: Path, flags: Mapping[str, Value]) -> tuple[Path, ...]:
    """The files, the settings first. `flags`: of the measured `dragoman serve` beside the settings that were searched.
    Raises ConfigError where they cannot be written, or nothing was measured."""
    config = config_text(tuning, flags)
    settings, page, text, document = (
        folder / name for name in ("dragoman.toml", "report.html", "tune.md", "tune.json")
    )
    write_tuning(tuning, document)
    write_report_page(tuning, page, config)
    write_text(text, tune_markdown(tuning), "out")
    write_text(settings, config, "out")
    return settings, page, text, document


# dragoman.toml


def config_text(tuning: Tuning, flags: Mapping[str, Value]) -> str:
    """The settings file: what was searched, each value under its reason, and what the servers were started with.

    Raises ConfigError where nothing was measured.
    """
    if not tuning.choices:
        raise ConfigError("nothing was measured, so there is nothing to recommend")
    chosen = [(f"engine.{one.name}", one.value, one.reason) for one in tuning.choices]
    given = {_setting(flag): value for flag, value in flags.items() if value != ""}  # empty: the server's default
    kept = [
        (path, value, "as in the tune") for path, value in given.items() if path not in {path for path, *_ in chosen}
    ]
    lines = sorted((*chosen, *kept), key=lambda line: _section(line[0]) != "model")  # the model first
    text = "\n".join([*_head(tuning), *_sections(lines)]) + "\n"
    tomllib.loads(text)
    return text


def _setting(flag: str) -> str:
    return _SETTINGS.get(flag, f"engine.{flag.replace('-', '_')}")


def _section(path: str) -> str:
    return path.partition(".")[0]


def _head(tuning: Tuning) -> Iterator[str]:
    yield from _comment(f"Written by `dragoman tune`, {tuning.started_at}: `dragoman serve --config` reads this file.")
    yield "#"
    for line in _findings(tuning):
        first, *rest = wrap(line, _COLUMNS - 4, break_long_words=False, break_on_hyphens=False)
        yield f"# - {first}"
        yield from (f"#   {more}" for more in rest)


def _findings(tuning: Tuning) -> Iterator[str]:
    """What was found, for what, and from which measurements."""
    yield summary(tuning)
    yield from conditions_lines(tuning)
    if tuning.ladder is not None and tuning.ladder.knee is not None:
        yield f"The ladder's knee is at {tuning.ladder.knee} requests at once. {sentence(tuning.ladder.because)}"
    if tuning.recommendation is not None:
        yield sentence(tuning.recommendation.because)
    yield from remarks(tuning)


def _sections(lines: Iterable[tuple[str, Value, str]]) -> Iterator[str]:
    for section, group in groupby(lines, key=lambda line: _section(line[0])):
        yield f"\n[{section}]"
        previous = ""
        for path, value, reason in group:
            if reason != previous:
                yield from ([""] if previous else [])
                yield from _comment(reason)
            previous = reason
            yield f"{path.partition('.')[2]} = {toml_value(value)}"


def toml_value(value: Value) -> str:
    """JSON's strings and numbers are TOML's too, except for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: str) -> list[str]:
    lines = wrap(" ".join(text.split()), _COLUMNS - 2, break_long_words=False, break_on_hyphens=False)
    return [f"# {line}" for line in lines]


# tune.md


def tune_markdown(tuning: Tuning) -> str:
    """The whole outcome; parts that were not reached are missing."""
    parts = ["# dragoman tune", f"**{escaped(summary(tuning))}**"]
    if tuning.recommendation is not None:
        parts.append(escaped(sentence(tuning.recommendation.because)))
    parts.append(bullets((*conditions_lines(tuning), course(tuning))))
    parts += [markdown(found) for slug, found in all_tables(tuning).items() if slug != "conditions"]
    notes = list(remarks(tuning))
    if notes:
        parts.append(f"## To bear in mind\n\n{bullets(notes)}")
    return "\n\n".join(parts) + "\n"


# report.html


def write_report_page(tuning: Tuning, path: Path, config: str = "") -> None:
    """One page that needs no network. `config`: the text of dragoman.toml, to be shown. Raises ConfigError where it cannot be
    written."""
    answer = [summary(tuning)]
    if tuning.recommendation is not None:
        answer.append(sentence(tuning.recommendation.because))
    if config:
        answer.append("Serve with it: `dragoman serve --config dragoman.toml`.")
    sections = [Section(paragraphs=tuple(answer), frame="answer")]
    if notes := tuple(remarks(tuning)):
        sections.append(Section("Read with care", bullets=notes, frame="care"))
    drawn, tables = charts(tuning), all_tables(tuning)
    for slug, title in _SECTIONS.items():
        if slug not in tables:
            continue
        text = (sentence(tuning.ladder.because),) if slug == "rungs" and tuning.ladder is not None else ()
        folded = (("dragoman.toml", config),) if slug == "recommended" and config else ()
        chart = (drawn[slug],) if slug in drawn else ()
        sections.append(Section(title, text, chart, (tables[slug],), details=folded))
    title, lead = f"{tuning.model}: what to serve it with", " ".join(conditions_lines(tuning))
    write_page(path, title, lead, sections, _FOOTER)


def rewrite_reports(folder: Path) -> None:
    """report.html and tune.md again, from a folder's tune.json. Raises ConfigError."""
    tuning, settings = read_tuning(folder / "tune.json"), folder / "dragoman.toml"
    write_report_page(tuning, folder / "report.html", settings.read_text("utf-8") if settings.is_file() else "")
    write_text(folder / "tune.md", tune_markdown(tuning), "out")


if __name__ == "__main__":  # python -m dragoman_bench.tune.outputs FOLDER ...
    for name in sys.argv[1:]:
        rewrite_reports(Path(name))
