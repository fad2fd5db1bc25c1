"""Results as one HTML page that needs nothing else: no network, no script, styles and charts inline.

The page's own security policy forbids it to load anything. Knows the parts of a report, not how they are computed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Conditions, Load, Results, to_document
from dragoman_bench.report import charts
from dragoman_bench.report.charts import Named, Window
from dragoman_bench.report.charts.style import PAGE_COLOURS, SERIES
from dragoman_bench.report.comparison import against_first, at_a_glance
from dragoman_bench.report.differences import commit, conditions
from dragoman_bench.report.figures import Chart, conditions_line, report_charts
from dragoman_bench.report.flags import notes
from dragoman_bench.report.tables import tables

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the caller's own, before the charts. `html` is put into the page as it is: it must be trusted."""

    title: str
    html: str = ""
    charts: tuple[Chart, ...] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """What is looked at closely. `load` None: the highest load level that most results share."""

    load: Load | None = None
    window: Window = field(default_factory=Window)


def write_report(
    named: Named,
    out: Path,
    title: str = "Benchmark report",
    intro_html: str = "",
    sections: Sequence[Section] = (),
    look: Look | None = None,
) -> None:
    """Writes the page. `intro_html` is put into it as it is. Raises ConfigError: nothing measured, nowhere to write."""
    page = html(named, title, intro_html, sections, look or Look())
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {out}: {error.strerror}", param="out") from error


def html(named: Named, title: str, intro_html: str, sections: Sequence[Section], look: Look) -> str:
    """The whole page. The same results give the same page."""
    check(named)
    load = look.load or charts.shared_load(named)
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.jinja").render(
        title=title,
        intro=Markup(intro_html),
        sections=[{"title": s.title, "html": Markup(s.html), "charts": _drawn(s.charts)} for s in sections],
        summary=conditions_line(named),
        runs=[_run(name, results) for name, results in named.items()],
        conditions=conditions(named),
        notes=notes(named),
        summaries=[t for t in (at_a_glance(named, load), against_first(named)) if t] if len(named) > 1 else [],
        charts=_drawn(report_charts(named, load, look.window)),
        tables=tables(named),
        chip=_chip,
        raw=partial(json.dumps, ensure_ascii=False, indent=2, default=str),
    )


def check(named: Named) -> None:
    """Raises ConfigError where there is nothing to report."""
    if not named:
        raise ConfigError("no results to report")
    if not any(results.points for results in named.values()):
        raise ConfigError(f"nothing was measured in {', '.join(named)}: the results hold no load level")


def _drawn(charts_: Sequence[Chart]) -> list[dict[str, Any]]:
    return [
        {
            "slug": chart.slug,
            "title": chart.title,
            "caption": chart.caption,
            "svg": Markup(charts.svg(chart.draw(), chart.slug, chart.alt)),
        }
        for chart in charts_
    ]


def _run(name: str, results: Results) -> dict[str, Any]:
    told: dict[str, Callable[[Conditions], str]] = {
        "measured": lambda c: c.started_at.replace("T", " ").replace("+00:00", " UTC"),
        "API": lambda c: f"{c.target} at {c.url}",
        "model": lambda c: c.model or "unknown",
        "commit": commit,
    }
    return {
        "name": name,
        "facts": {what: read(results.conditions) for what, read in told.items()},
        "partial": results.partial,
        "raw": to_document(results, rows=False)["conditions"],
    }


def _chip(number: int) -> Markup:
    """The colour that a result has in the charts."""
    colour = SERIES[number % len(SERIES)]
    return Markup('<span class="chip" style="background:var({}, {})"></span>').format(PAGE_COLOURS[colour], colour)
