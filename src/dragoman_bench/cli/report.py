"""`dragoman report`: results files as a page, as Markdown, as pictures."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman_bench.report import (
    README_CHARTS,
    Look,
    Window,
    load_labelled,
    read_named,
    report_charts,
    save_pngs,
    write_markdown,
    write_report,
)

FILE = click.Path(path_type=Path)


@click.command("report")
@click.argument("results", nargs=-1, required=True, type=FILE)
@click.option("--out", default="report.html", type=FILE, show_default=True, help="The page.")
@click.option("--png", type=FILE, metavar="DIR", help="Also the main charts as PNG, for a README.")
@click.option("--markdown", type=FILE, help="Also the tables as Markdown, with the PNGs if any.")
@click.option("--title", default="Benchmark report", show_default=True)
@click.option("--load", metavar="LABEL", help="Load level shown in detail, such as '8 clients'. [default: the highest]")
@click.option("--timeline", "requests", type=click.IntRange(1, 400), default=80, show_default=True, metavar="N",
              help="Requests in the chart of single requests.")  # fmt: skip
@click.option("--timeline-from", type=float, metavar="S", help="Its first second. [default: the middle of the run]")
def command(
    results: tuple[Path, ...],
    out: Path,
    png: Path | None,
    markdown: Path | None,
    title: str,
    load: str | None,
    requests: int,
    timeline_from: float | None,
) -> None:
    """Make a report of one or more RESULTS files, which `dragoman bench` wrote. The first is what others are compared with."""
    named = read_named(results)
    look = Look(load_labelled(named, load), Window(requests, timeline_from))
    write_report(named, out, title, look=look)
    written = [out]
    drawn = [c for c in report_charts(named, look.load, look.window) if c.slug in README_CHARTS] if png else []
    images = list(save_pngs(named, png, drawn).values()) if png else []
    if markdown:
        write_markdown(named, markdown, title, list(zip(drawn, images, strict=True)), look)
        written.append(markdown)
    for path in (*written, *images):
        click.echo(f"wrote {path}")
