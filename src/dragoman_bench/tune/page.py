"""A tune's outcome as one HTML page that needs nothing else: no network, no script, styles and charts inline.

It wears the bench report's clothes. Knows the parts of the page, not how they are computed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from dragoman.errors import ConfigError
from dragoman_bench.report import Chart
from dragoman_bench.report.style import svg
from dragoman_bench.tune import tables
from dragoman_bench.tune.charts import charts
from dragoman_bench.tune.figures import conditions, sentence
from dragoman_bench.tune.markdown import remarks, summary
from dragoman_bench.tune.outcome import Ladder, Tuning
from dragoman_bench.tune.tables import Table

_TEMPLATE = "tuning.html.jinja"
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class _Part:
    """`slug` must differ from those of charts and tables: all are ids in one page."""

    slug: str
    title: str
    tables: tuple[Table, ...] = ()
    said: str = ""
    chart: dict[str, Any] | None = None
    file: str = ""


def write_page(tuning: Tuning, path: Path, config: str = "") -> None:
    """`config`: the text of dragoman.toml, to be shown. Raises ConfigError where the page cannot be written."""
    page = html(tuning, config)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}", param="out") from error


def html(tuning: Tuning, config: str = "") -> str:
    """The whole page. The same outcome gives the same page."""
    loader = ChoiceLoader([PackageLoader("dragoman_bench.tune"), PackageLoader("dragoman_bench.report")])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"coded": _coded, "breakable": _breakable}
    found = tuning.recommendation
    return environment.get_template(_TEMPLATE).render(
        title=f"{tuning.model}: what to serve it with",
        conditions=list(conditions(tuning)),
        headline=summary(tuning),
        because=sentence(found.because) if found else "",
        better=found is not None and found.better,
        recommended=tables.recommended(tuning),
        remarks=list(remarks(tuning)),
        parts=list(_parts(tuning, config)),
    )


def _parts(tuning: Tuning, config: str) -> Iterator[_Part]:
    drawn = {slug: _drawn(chart) for slug, chart in charts(tuning).items()}
    settings = tables.recommended(tuning)
    if settings.rows:
        yield _Part("settings", "The settings, and why", (settings,), file=config)
    if tuning.final is not None:
        table = tables.final(tuning, tuning.final)
        yield _Part("against", "Against the baselines", (table,), chart=drawn.get("final"))
    if tuning.ladder is not None:
        table = tables.ladder(tuning.ladder)
        yield _Part("climb", "The ladder", (table,), _knee(tuning.ladder), drawn.get("ladder"))
    if tuning.memory is not None:
        yield _Part("cache", "Memory", (tables.memory(tuning, tuning.memory),), chart=drawn.get("memory"))
    search = tables.trials(tuning)
    if search is not None:
        yield _Part("points", "The search", (search,))
    yield _Part("terms", "Conditions", (tables.conditions(tuning),))


def _knee(found: Ladder) -> str:
    if found.knee is None:
        return "No knee was found."
    return f"The knee is at {found.knee} requests at once. {sentence(found.because)}"


def _drawn(chart: Chart) -> dict[str, Any]:
    picture = Markup(svg(chart.draw(), chart.slug, chart.alt))
    return {"slug": chart.slug, "title": chart.title, "caption": chart.caption, "svg": picture}


def _coded(text: str) -> Markup:
    """What stands between backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def _breakable(text: Markup) -> Markup:
    """Settings' names may go on in a new line after an underscore."""
    return Markup(str(text).replace("_", "_<wbr>"))
