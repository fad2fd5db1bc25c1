"""`dragoman report`: results files as a page, as Markdown, as pictures."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman.cli.console import console
from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Load
from dragoman_bench.report import (
    README_CHARTS,
    Look,
    charts,
    read_named,
    report_charts,
    save_pngs,
    write_markdown,
    write_report,
)
from dragoman_bench.report.charts import Named, Window
from dragoman_bench.report.page import check


def _load(named: Named, label: str | None) -> Load | None:
    """The load level of that label."""
    if label is None:
        return None
    loads = charts.loads_of(named)
    for load in loads:
        if load.label == label:
            return load
    raise ConfigError(f"no load level {label!r}: there is {', '.join(load.label for load in loads)}", param="load")


@click.command("report")
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", default="report.html", type=click.Path(path_type=Path), show_default=True, help="The page.")
@click.option(
    "--png", type=click.Path(path_type=Path), metavar="DIR", help="Also the main charts as PNG, for a README."
)
@click.option("--markdown", type=click.Path(path_type=Path), help="Also the tables as Markdown, with the PNGs if any.")
@click.option("--title", default="Benchmark report", show_default=True)
@click.option(
    "--load", metavar="LABEL", help="Load level to look at closely, such as '8 clients'. [default: the highest]"
)
@click.option(
    "--timeline",
    "shown",
    type=click.IntRange(1, 400),
    default=80,
    show_default=True,
    metavar="N",
    help="Requests in the chart of single requests.",
)
@click.option("--timeline-from", type=float, metavar="S", help="Its first second. [default: the middle of the run]")
def command(
    results: tuple[Path, ...],
    out: Path,
    png: Path | None,
    markdown: Path | None,
    title: str,
    load: str | None,
    shown: int,
    timeline_from: float | None,
) -> None:
    """Make a report of one or more RESULTS files, which `dragoman bench` wrote. The first is what others are compared with."""
    named = read_named(results)
    check(named)
    look = Look(_load(named, load), Window(shown, timeline_from))
    write_report(named, out, title, look=look)
    written = [out]
    images: list[Path] = []
    drawn = [c for c in report_charts(named, look.load, look.window) if c.slug in README_CHARTS] if png else []
    if png:
        images = list(save_pngs(named, png, drawn).values())
    if markdown:
        write_markdown(named, markdown, title, list(zip(drawn, images, strict=True)), look)
        written.append(markdown)
    for path in (*written, *images):
        console.print(f"wrote {path}", highlight=False, soft_wrap=True, markup=False)
