"""`dragoman report`: results files as a page, as Markdown, as pictures."""

from __future__ import annotations

import os
from pathlib import Path

import click

from dragoman_bench.bench.tables import write_text
from dragoman_bench.report.named import read_named, shared_load
from dragoman_bench.report.page import FOOTER, report_lead, report_sections, save_pngs, sections_markdown, write_page

FILE = click.Path(path_type=Path)


@click.command("report")
@click.argument("results", nargs=-1, required=True, type=FILE)
@click.option("--out", default="report.html", type=FILE, show_default=True, help="The page.")
@click.option("--png", type=FILE, metavar="DIR", help="Also the main charts as PNG, for a README.")
@click.option("--markdown", type=FILE, help="Also the tables as Markdown, with the PNGs if any.")
@click.option("--title", default="Benchmark report", show_default=True)
@click.option("--load", metavar="LABEL", help="Load level shown in detail, such as '8 clients'. [default: the highest]")
def command(
    results: tuple[Path, ...], out: Path, png: Path | None, markdown: Path | None, title: str, load: str | None
) -> None:
    """Make a report of one or more RESULTS files, which `dragoman bench` wrote. The first is what others are compared with."""
    named = read_named(results)
    shown = shared_load(named, load)
    sections, lead = report_sections(named, shown), report_lead(named)
    write_page(out, title, lead, sections, FOOTER)
    images = save_pngs(named, png, shown) if png else {}
    written = [out, *images.values()]
    if markdown:
        links = {slug: Path(os.path.relpath(path, markdown.parent)).as_posix() for slug, path in images.items()}
        write_text(markdown, sections_markdown(title, lead, sections, links), "markdown")
        written.append(markdown)
    for path in written:
        click.echo(f"wrote {path}")
