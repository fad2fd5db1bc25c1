"""Reports as one HTML page or as Markdown: sections of text, charts and tables.

A page needs nothing else: no network, no script, styles and charts inline, and its own security policy forbids it to load
anything. Results and charts come first; settings and conditions last.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from dragoman_bench.bench.results import Load, to_document
from dragoman_bench.bench.tables import Table, bullets, escaped, markdown, write_text
from dragoman_bench.report import charts, timelines
from dragoman_bench.report.charts import point_medians
from dragoman_bench.report.conditions import conditions, measured_when, shared, side_by_side, summary_line
from dragoman_bench.report.named import Named, any_has, check, shared_load
from dragoman_bench.report.style import PAGE_COLOURS, SERIES, Chart, save_png, svg
from dragoman_bench.report.tables import against_first, all_tables, at_a_glance, notes
from dragoman_bench.report.timelines import Window

README_CHARTS = ("throughput", "latency", "timeline")
UNLIKE = "These results were not measured under the same conditions"
UNLIKE_NOTE = "What differs here is not what was compared, and may be the reason for a difference."
FOOTER = (
    "Percentiles are nearest-rank: latencies that were observed. Latency counts from the intended send. Results are called "
    "equal where their medians are closer together than their repeats differ."
)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: heading (none where `title` is empty), charts, text, tables, a list, and preformatted text.

    Text between backticks is shown as code. `frame` draws a box around it. `details` are folded: summary and text.
    """

    title: str = ""
    paragraphs: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    bullets: tuple[str, ...] = ()
    code: str = ""
    frame: Literal["", "answer", "alert", "care"] = ""
    details: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """What is looked at closely. `load` None: the highest load level that most results share."""

    load: Load | None = None
    window: Window = field(default_factory=Window)


def write_page(path: Path, title: str, lead: str, sections: Sequence[Section], footer: str = "") -> None:
    """Writes a page of sections, in their order. Raises ConfigError where it cannot be written."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["coded"] = _coded
    page = environment.get_template("page.html.jinja").render(
        title=title, lead=lead, sections=sections, footer=footer, chip=_chip, drawing=_drawing
    )
    write_text(path, page, "out")


def write_report(
    named: Named,
    out: Path,
    title: str = "Benchmark report",
    lead: str = "",
    first: Sequence[Section] = (),
    last: Sequence[Section] = (),
    look: Look | None = None,
) -> None:
    """A page of results, with further sections `first` and `last`. Raises ConfigError: nothing measured, or the page
    cannot be written."""
    check(named)
    look = look or Look()
    load = look.load or shared_load(named)
    found = conditions(named)
    unlike = [one for one in found if one.role == "unlike"]
    sections = list(first)
    if unlike:
        differing = f"{UNLIKE_NOTE} {', '.join(one.name for one in unlike)}: see Conditions."
        sections.append(Section(UNLIKE, (differing,), frame="alert"))
    if len(named) > 1:
        compared = tuple(table for table in (at_a_glance(named, load), against_first(named)) if table)
        sections.append(Section("At a glance", tables=compared))
    sections.append(Section("Charts", charts=tuple(report_charts(named, load, look.window))))
    sections.append(Section("All points", tables=tuple(all_tables(named))))
    remarks = tuple(notes(named))
    if remarks:
        sections.append(Section("Read with care", bullets=remarks, frame="care"))
    sections += [*last, _conditions_section(named)]
    names = f"{len(named)} result{'' if len(named) == 1 else 's'}: {', '.join(named)}. {summary_line(named)}"
    write_page(out, title, lead or names, sections, FOOTER)


def _conditions_section(named: Named) -> Section:
    found = conditions(named)
    compared = [one for one in found if one.role == "compared"]
    unlike = [one for one in found if one.role == "unlike"]
    made: list[Table] = []
    if unlike:
        made.append(side_by_side(unlike, named, "Conditions that differ", "unlike", UNLIKE_NOTE))
    if compared:
        made.append(side_by_side(compared, named, "Settings that were compared", "compared"))
    recorded = tuple(
        (
            f"All conditions of {name}, as recorded",
            json.dumps(to_document(results, rows=False)["conditions"], ensure_ascii=False, indent=2, default=str),
        )
        for name, results in named.items()
    )
    tables = (*made, shared(found, named), measured_when(named))
    return Section("Conditions", tables=tables, details=recorded)


def write_markdown(
    named: Named,
    out: Path,
    title: str = "Benchmark report",
    images: Sequence[tuple[Chart, Path]] = (),
    look: Look | None = None,
) -> None:
    """The same tables as Markdown, for documentation; images are linked relative to it. Raises ConfigError."""
    write_text(out, as_markdown(named, title, images, out.parent, look or Look()), "markdown")


def as_markdown(named: Named, title: str, images: Sequence[tuple[Chart, Path]], folder: Path, look: Look) -> str:
    """The whole document."""
    check(named)
    load = look.load or shared_load(named)
    compared = [at_a_glance(named, load), against_first(named)] if len(named) > 1 else []
    section = _conditions_section(named)
    unlike = any(one.role == "unlike" for one in conditions(named))
    parts = [f"# {escaped(title)}"]
    if unlike:
        parts.append(f"> [!WARNING]\n> **{UNLIKE}.** {UNLIKE_NOTE}")
    parts += [markdown(table) for table in compared if table]
    for chart, path in images:
        link = Path(os.path.relpath(path, folder)).as_posix()
        parts.append(f"## {escaped(chart.title)}\n\n![{escaped(chart.alt)}](<{link}>)\n\n{escaped(chart.caption)}")
    parts += [markdown(table) for table in all_tables(named)]
    remarks = notes(named)
    parts += [f"## Read with care\n\n{bullets(remarks)}"] if remarks else []
    parts += [markdown(table) for table in section.tables]
    return "\n\n".join(parts) + "\n"


def save_pngs(named: Named, folder: Path, drawn: Sequence[Chart]) -> dict[str, Path]:
    """Each chart as a PNG with title, caption and conditions; paths by slug. Raises ConfigError."""
    line = summary_line(named)
    paths = {chart.slug: folder / f"{chart.slug}.png" for chart in drawn}
    for chart in drawn:
        save_png(chart.draw(), paths[chart.slug], chart.title, f"{chart.caption} {line}")
    return paths


def report_charts(named: Named, load: Load | None = None, window: Window | None = None) -> list[Chart]:
    """Those that there is data for. `load`: where single requests are looked at; else the highest that most share."""
    shown = load or shared_load(named)
    return [*_rate_charts(named), *_latency_charts(named, shown), *_time_charts(named, shown, window or Window())]


def _rate_charts(named: Named) -> Iterator[Chart]:
    bars = "Bars are medians of the repeats, whiskers their lowest and highest."
    yield Chart(
        slug="throughput",
        title="Throughput by load",
        caption=f"What completed inside the measurement. {bars}",
        alt="Bar chart of requests and output tokens a second by load level. "
        + point_medians(named, "rps", " requests/s"),
        draw=lambda: charts.throughput(named),
    )
    if any_has(named, "goodput_rps"):
        yield Chart(
            slug="goodput",
            title="Goodput by load",
            caption=f"Filled: requests a second that met the SLO; outlined: all that completed. {bars}",
            alt="Bar chart of requests a second within the SLO. " + point_medians(named, "goodput_rps", " requests/s"),
            draw=lambda: charts.goodput(named),
        )


def _latency_charts(named: Named, load: Load) -> Iterator[Chart]:
    if not any_has(named, "e2e_p95_s"):
        return
    yield Chart(
        slug="latency",
        title="Latency by load",
        caption="End to end, from the intended send, of completed requests. Medians of the repeats, whiskers lowest to "
        "highest.",
        alt="Line charts of latency percentiles by load level. 95th percentile: "
        + point_medians(named, "e2e_p95_s", " s"),
        draw=lambda: charts.latency(named),
    )
    yield Chart(
        slug="latency-by-length",
        title=f"Latency by length of text, {load.label}",
        caption="Where short texts take as long as long ones, they wait for them.",
        alt="Latency percentiles of short, medium and long texts. The table of latency by length has its numbers.",
        draw=lambda: charts.latency_by_band(named, load),
    )


def _time_charts(named: Named, load: Load, window: Window) -> Iterator[Chart]:
    yield Chart(
        slug="timeline",
        title=f"Request by request, {load.label}",
        caption="One row a request, from send to answer, coloured by the length of its text; panels differ in time scale. "
        "Rows that end together waited for one another: where those are of all lengths, the short ones were held up.",
        alt="Timeline of consecutive requests, one bar each from send to end, a panel a result.",
        draw=lambda: timelines.timeline(named, load, window),
    )
    if timelines.has_samples(named, load):
        yield Chart(
            slug="over-time",
            title=f"Server and GPU over time, {load.label}",
            caption="The repeat of median throughput. Lines are means, bands reach from the lowest to the highest sample.",
            alt="Running and waiting requests, KV cache usage and GPU utilisation over time, a row a result.",
            draw=lambda: timelines.over_time(named, load),
        )
    if charts.has_gaps(named, load):
        yield Chart(
            slug="inter-token-latency",
            title=f"Inter-token latency, {load.label}",
            caption="Gaps between the events of streamed answers, all repeats together. A second hump is what stalls a "
            "stream.",
            alt="Histogram of the gaps between streamed events. The table of streaming has its percentiles.",
            draw=lambda: charts.inter_token_latency(named, load),
        )


def _coded(text: str) -> Markup:
    """Text between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _drawing(chart: Chart) -> Markup:
    return Markup(svg(chart.draw(), chart.slug, chart.alt))


def _chip(series: int) -> Markup:
    """The colour that a result has in the charts."""
    colour = SERIES[series % len(SERIES)]
    return Markup('<span class="chip" style="background:var({}, {})"></span>').format(PAGE_COLOURS[colour], colour)
