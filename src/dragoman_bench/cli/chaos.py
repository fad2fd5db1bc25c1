"""`python -m dragoman_bench.cli.chaos`, which `make chaos` runs: faults under load, and a ledger of every call."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path

import click

from dragoman.errors import DragomanError
from dragoman_bench.bench.measurement import Measurement, read_text, write_text
from dragoman_bench.bench.progress import INTERRUPTED, ProgressLines, error_console, interrupts, run_async
from dragoman_bench.bench.tables import markdown
from dragoman_bench.chaos.faults import FAULTS, kinds_of
from dragoman_bench.chaos.run import CLIENTS, KIND, ChaosRun, RunPlan, has_failed, next_seed, shown_in, table
from dragoman_bench.chaos.stage import STAGES, StageName

FOUND = 1
FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("chaos")
@click.option("--servers", "stages", type=click.Choice(STAGES), multiple=True, default=("one",), show_default=True,
              help="Over the fake engine: one on SQLite, a pair on one PostgreSQL, or one address with two replicas. "
                   "real: one over vLLM's engine; vllm: `vllm serve`, for comparison. Several in turn.")  # fmt: skip
@click.option(
    "--seconds", type=click.FloatRange(1), default=60.0, show_default=True, help="Of faults, for each of --servers."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the order of faults and of what clients send.")
@click.option("--fault", "faults", type=click.Choice([one.name for one in FAULTS]), multiple=True,
              help="Inject only these, where they exist; several.")  # fmt: skip
@click.option("--clients", type=click.IntRange(1), default=CLIENTS, show_default=True, help="That send calls at once.")
@click.option("--model", default="", help="Of real and vllm; empty: the packaged one.")
@click.option("--server-flags", default="", metavar="FLAGS", help="More flags of each server, such as "
              "'--load-format=dummy --max-model-len=2048'.")  # fmt: skip
@click.option("--out", type=FILE, help="Results file (JSON). One that exists is continued.")
@click.option("--page", type=FILE, help="Write the table into this Markdown page, between its marks.")
@click.option("--render", is_flag=True, help="Run nothing: only write --page from --out.")
def command(
    stages: tuple[StageName, ...],
    seconds: float,
    seed: int,
    faults: tuple[str, ...],
    clients: int,
    model: str,
    server_flags: str,
    out: Path | None,
    page: Path | None,
    render: bool,
) -> None:
    """Run servers under load, inject faults, and compare each answer, and what is stored and charged at the end, with a ledger.

    Exit code 1: something was lost, doubled, wrong or mixed up. Ctrl-C ends a run; what it has counted is kept.
    """
    results = Measurement.read(out) if out is not None and out.is_file() else Measurement.begin(KIND)
    try:
        if not render:
            kinds = {stage: kinds_of(stage, faults) for stage in stages}  # of all, before one runs for nothing
            found = str(Path(model).resolve()) if model and Path(model).is_dir() else model
            first = next_seed(results, seed)
            plans = [
                RunPlan(stage, seconds, first + place, kinds[stage], clients, found, tuple(shlex.split(server_flags)))
                for place, stage in enumerate(stages)
            ]
            run_async(_run(results, plans, out))
    finally:
        for finding in results.data.get("findings", []):
            error_console.print(finding, highlight=False, soft_wrap=True)
    click.echo(markdown(table(results)))
    if page is not None:
        write_text(page, shown_in(read_text(page, "page"), results), "page")
    if not render:
        exit_with(results, has_failed=has_failed(results))


def exit_with(results: Measurement, *, has_failed: bool) -> None:
    """End the command with the exit code of what was found, or of an interruption, if there is one."""
    if has_failed:
        click.get_current_context().exit(FOUND)
    if results.partial:
        click.get_current_context().exit(INTERRUPTED)


async def _run(results: Measurement, plans: list[RunPlan], out: Path | None) -> None:
    with interrupts(signal.SIGINT, signal.SIGTERM) as interrupted:
        for plan in plans:
            if interrupted.is_set():
                break
            try:
                await ChaosRun(plan, results, ProgressLines(error_console), out).run(interrupted)
            finally:
                results.partial = interrupted.is_set()
                results.write(out)


def run_program(command: click.Command) -> None:
    """Run a command as a program; an error is one line, with the exit code 2."""
    try:
        command()
    except DragomanError as error:
        error_console.print(f"error: {error.message}", style="red", highlight=False, soft_wrap=True)
        raise SystemExit(2) from None


if __name__ == "__main__":
    run_program(command)
