"""`dragoman report`: writes results files as a page, and its main charts as PNGs."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman_bench.report.named import read_named, shared_load
from dragoman_bench.report.page import FOOTER, report_lead, report_sections, save_pngs, write_page

FILE = click.Path(path_type=Path)


@click.command("report")
@click.argument("results", nargs=-1, required=True, type=FILE)
@click.option("--out", default="report.html", type=FILE, show_default=True, help="The page.")
@click.option("--png", type=FILE, metavar="DIR", help="Also the main charts as PNG, for a README.")
def command(results: tuple[Path, ...], out: Path, png: Path | None) -> None:
    """Make a report of one or more RESULTS files from `dragoman bench`. All others are compared with the first."""
    named = read_named(results)
    shown = shared_load(named)
    write_page(out, "Benchmark report", report_lead(named), report_sections(named, shown), FOOTER)
    written = [out, *(save_pngs(named, png, shown).values() if png else ())]
    for path in written:
        click.echo(f"wrote {path}")
