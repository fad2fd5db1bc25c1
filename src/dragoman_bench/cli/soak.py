"""`python -m dragoman_bench.cli.soak`: a server under a steady load, and whether what it holds grows."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import click

from dragoman.errors import DragomanError
from dragoman_bench.bench.measurement import Measurement, read_text, write_text
from dragoman_bench.bench.progress import INTERRUPTED, ProgressLines, error_console, interrupts, run_async
from dragoman_bench.bench.tables import markdown
from dragoman_bench.chaos.soak import KIND, Soak, conditions, has_failed, table

FOUND = 1
FILE = click.Path(path_type=Path, dir_okay=False)
BEGIN, END = "<!-- soak: begin -->", "<!-- soak: end -->"


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
    shown = f"{conditions(results)}\n\n{markdown(table(results))}"
    click.echo(shown)
    if page is not None:
        text = re.sub(
            f"{re.escape(BEGIN)}.*{re.escape(END)}",
            lambda _: f"{BEGIN}\n{shown}\n{END}",
            read_text(page, "page"),
            flags=re.DOTALL,
        )
        write_text(page, text, "page")
    if has_failed(results):
        click.get_current_context().exit(FOUND)
    if results.partial:
        click.get_current_context().exit(INTERRUPTED)


async def _run(results: Measurement, soak: Soak, out: Path | None) -> None:
    with interrupts(signal.SIGINT, signal.SIGTERM) as interrupted:
        try:
            await soak.run(interrupted)
        finally:
            results.partial = interrupted.is_set()
            results.write(out)


def main() -> None:
    """Run the command; an error is one line, with the exit code 2."""
    try:
        command()
    except DragomanError as error:
        error_console.print(f"error: {error.message}", style="red", highlight=False, soft_wrap=True)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
