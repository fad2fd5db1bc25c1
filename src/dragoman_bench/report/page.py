"""Reports as one HTML page or as Markdown: sections of text, charts and tables.

A page needs nothing else: no network, no script, styles and charts inline, and its own security policy forbids it to load
anything. Results and charts come first; settings and conditions last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from dragoman_bench.bench.results import Load
from dragoman_bench.bench.tables import Table, bullets, escaped, markdown, write_text
from dragoman_bench.report.charts import REQUESTS_SHOWN, report_charts
from dragoman_bench.report.named import Named, shared_load
from dragoman_bench.report.style import PAGE_COLOURS, Chart, save_png, series, svg
from dragoman_bench.report.tables import (
    UNLIKE,
    UNLIKE_NOTE,
    against_first,
    all_tables,
    at_a_glance,
    condition_tables,
    conditions,
    notes,
    summary_line,
)

README_CHARTS = ("throughput", "latency", "timeline")
FOOTER = (
    "Percentiles are nearest-rank: latencies that were observed. Latency counts from the intended send. Results are called "
    "equal where their medians are closer together than their repeats differ."
)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: heading (none where `title` is empty), charts, text, tables and a list.

    Text between backticks is shown as code. `frame` draws a box around it. `details` are folded: summary and text.
    """

    title: str = ""
    paragraphs: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    bullets: tuple[str, ...] = ()
    frame: Literal["", "answer", "alert", "care"] = ""
    details: tuple[tuple[str, str], ...] = ()


def write_page(path: Path, title: str, lead: str, sections: Sequence[Section], footer: str = "") -> None:
    """Writes a page of sections, in their order. Raises ConfigError where it cannot be written."""
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


def sections_markdown(
    title: str, lead: str, sections: Sequence[Section], images: Mapping[str, str] = MappingProxyType({})
) -> str:
    """The same as a Markdown document, without folded text. `images`: links of the charts that are to be shown, by slug."""
    parts = [f"# {escaped(title)}", escaped(lead)]
    for section in sections:
        if section.frame == "alert":
            parts.append(f"> [!WARNING]\n> **{escaped(section.title)}.** {' '.join(map(escaped, section.paragraphs))}")
            continue
        if section.title and (
            section.paragraphs or section.bullets or not all(table.title for table in section.tables)
        ):
            parts.append(f"## {escaped(section.title)}")
        parts += map(escaped, section.paragraphs)
        for chart in (chart for chart in section.charts if chart.slug in images):
            image = f"![{escaped(chart.alt)}](<{images[chart.slug]}>)"
            parts += [f"## {escaped(chart.title)}", image, escaped(chart.caption)]
        parts += map(markdown, section.tables)
        parts += [bullets(section.bullets)] if section.bullets else []
    return "\n\n".join(parts) + "\n"


def report_sections(
    named: Named,
    load: Load | None = None,
    requests: int = REQUESTS_SHOWN,
    first: Sequence[Section] = (),
    last: Sequence[Section] = (),
) -> list[Section]:
    """A report of results, with further sections `first` and `last`. `load` is looked at closely: one label's, else the
    highest that most results share. Raises ConfigError where nothing was measured."""
    load = load or shared_load(named)
    sections = list(first)
    unlike = [one.name for one in conditions(named) if one.role == "unlike"]
    if unlike:
        sections.append(Section(UNLIKE, (f"{UNLIKE_NOTE} {', '.join(unlike)}: see Conditions.",), frame="alert"))
    if len(named) > 1:
        compared = tuple(table for table in (at_a_glance(named, load), against_first(named)) if table)
        sections.append(Section("At a glance", tables=compared))
    sections.append(Section("Charts", charts=tuple(report_charts(named, load, requests))))
    sections.append(Section("All points", tables=tuple(all_tables(named))))
    remarks = tuple(notes(named))
    if remarks:
        sections.append(Section("Read with care", bullets=remarks, frame="care"))
    return [*sections, *last, Section("Conditions", tables=condition_tables(named))]


def report_lead(named: Named) -> str:
    """What is compared, and the conditions that all share."""
    return f"{len(named)} result{'' if len(named) == 1 else 's'}: {', '.join(named)}. {summary_line(named)}"


def save_pngs(named: Named, folder: Path, load: Load) -> dict[str, Path]:
    """The main charts as PNGs with title, caption and conditions; paths by slug. Raises ConfigError."""
    made = {chart.slug: chart for chart in report_charts(named, load) if chart.slug in README_CHARTS}
    paths = {slug: folder / f"{slug}.png" for slug in made}
    for slug, chart in made.items():
        save_png(chart.draw(), paths[slug], chart.title, f"{chart.caption} {summary_line(named)}")
    return paths
