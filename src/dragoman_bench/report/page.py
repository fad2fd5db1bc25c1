"""Writes reports as one HTML page with sections of text, charts and tables.

A page has its styles and charts inline and no scripts, and its content security policy forbids it to load anything. Results
and charts come first, settings and conditions last.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from dragoman_bench.bench.measurement import write_text
from dragoman_bench.bench.results import Load
from dragoman_bench.bench.tables import Table, points_table
from dragoman_bench.report.charts import report_charts
from dragoman_bench.report.named import Named, shared_load
from dragoman_bench.report.style import PAGE_COLOURS, Chart, save_png, series, svg
from dragoman_bench.report.tables import against_first, conditions_table, notes, summary_line, unlike

README_CHARTS = ("throughput", "latency", "timeline")
FOOTER = (
    "Percentiles are nearest-rank: latencies that were observed. Latency counts from the intended send. Results are called "
    "equal where their medians are closer together than their repeats differ."
)


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page: heading (unless `title` is empty), charts, text, tables and a list.

    Text between backticks is shown as code. `frame` draws a box around the section. `details` has folded texts with a summary.
    """

    title: str = ""
    paragraphs: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    bullets: tuple[str, ...] = ()
    frame: Literal["", "answer", "alert", "care"] = ""
    details: tuple[tuple[str, str], ...] = ()


def write_page(path: Path, title: str, lead: str, sections: Sequence[Section], footer: str = "") -> None:
    """Write a page of sections. Raises ConfigError if it cannot be written."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def coded(text: str) -> Markup:
        return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))

    def drawing(chart: Chart) -> Markup:
        return Markup(svg(chart.draw(), chart.slug, chart.alt))

    def chip(number: int) -> Markup:
        colour = series(number)  # as in the charts
        return Markup('<span class="chip" style="background:var({}, {})"></span>').format(PAGE_COLOURS[colour], colour)

    environment.filters["coded"] = coded
    page = environment.get_template("page.html.jinja").render(
        title=title, lead=lead, sections=sections, footer=footer, chip=chip, drawing=drawing
    )
    write_text(path, page, "out")


def report_sections(named: Named, load: Load | None = None) -> list[Section]:
    """Return the sections of a report. `load` is shown in detail; None: the highest that most results have. Raises ConfigError
    if nothing was measured."""
    load = load or shared_load(named)
    sections: list[Section] = []
    if differing := unlike(named):
        text = f"What differs here may be the reason for a difference. {', '.join(differing)}: see Conditions."
        sections.append(Section("These results were not measured under the same conditions", (text,), frame="alert"))
    sections.append(Section("Charts", charts=tuple(report_charts(named, load))))
    compared, points = against_first(named), points_table(named, "Throughput and latency")
    sections.append(Section("All points", tables=(compared, points) if compared else (points,)))
    remarks = tuple(notes(named))
    if remarks:
        sections.append(Section("Read with care", bullets=remarks, frame="care"))
    return [*sections, Section("Conditions", tables=(conditions_table(named),))]


def report_lead(named: Named) -> str:
    """Describe what is compared, and the common conditions."""
    return f"{len(named)} result{'' if len(named) == 1 else 's'}: {', '.join(named)}. {summary_line(named)}"


def save_pngs(named: Named, folder: Path, load: Load) -> dict[str, Path]:
    """Save the main charts as PNGs with title, caption and conditions. Return the paths by slug. Raises ConfigError."""
    made = {chart.slug: chart for chart in report_charts(named, load) if chart.slug in README_CHARTS}
    paths = {slug: folder / f"{slug}.png" for slug in made}
    for slug, chart in made.items():
        save_png(chart.draw(), paths[slug], chart.title, f"{chart.caption} {summary_line(named)}")
    return paths
