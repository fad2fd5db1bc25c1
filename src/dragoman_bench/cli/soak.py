"""`python -m dragoman_bench.cli.soak`: a server under a steady load, and whether what it holds grows."""

from __future__ import annotations

import signal
from pathlib import Path

import click

from dragoman_bench.bench.measurement import Measurement, read_text, write_text
from dragoman_bench.bench.progress import ProgressLines, error_console, interrupts, run_async
from dragoman_bench.bench.tables import markdown
from dragoman_bench.chaos.soak import KIND, Soak, conditions, has_failed, shown_in, table
from dragoman_bench.cli.chaos import FILE, exit_with, run_program


@click.command("soak")
@click.option("--seconds", type=click.FloatRange(30), default=1200.0, show_default=True, help="Of load.")
@click.option("--per-s", type=click.FloatRange(0.1), default=20.0, show_default=True, help="Calls a second.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of what clients send, and when.")
@click.option("--out", type=FILE, help="Results file (JSON).")
@click.option("--page", type=FILE, help="Write the table into this Markdown page, between its marks.")
@click.option("--render", is_flag=True, help="Run nothing: only write --page from --out.")
def command(seconds: float, per_s: float, seed: int, out: Path | None, page: Path | None, render: bool) -> None:
    """Run a server over the fake engine under calls of all kinds, sample what its processes hold, and fit lines.

    Exit code 1: something was lost, doubled, wrong or mixed up. Ctrl-C ends the run; what it has counted is kept.
    """
    if render and out is None:
        raise click.UsageError("--render needs --out")
    results = Measurement.read(out) if render and out is not None else Measurement.begin(KIND)
    if not render:
        run_async(_run(results, Soak(results, per_s, seconds, seed, ProgressLines(error_console)), out))
    click.echo(f"{conditions(results)}\n\n{markdown(table(results))}")
    if page is not None:
        write_text(page, shown_in(read_text(page, "page"), results), "page")
    if not render:
        exit_with(results, has_failed=has_failed(results))


async def _run(results: Measurement, soak: Soak, out: Path | None) -> None:
    with interrupts(signal.SIGINT, signal.SIGTERM) as interrupted:
        try:
            await soak.run(interrupted)
        finally:
            results.partial = interrupted.is_set()
            results.write(out)


if __name__ == "__main__":
    run_program(command)
