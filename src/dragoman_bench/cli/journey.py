"""`dragoman journey`: measures the steps from one worker process to continuous batching, and judges the story's claims.

stdout has the results as Markdown and, as its last line, a summary; progress goes to stderr.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from dragoman.errors import ConfigError
from dragoman_bench.bench.progress import INTERRUPTED, ProgressLines, error_console, interrupts, observed
from dragoman_bench.bench.servers import vllm_uses_gpu
from dragoman_bench.bench.tables import markdown
from dragoman_bench.cli.bench import whole_numbers
from dragoman_bench.cli.subject import make_subject
from dragoman_bench.journey.measure import (
    JourneyResults,
    JourneyRun,
    LoadMeter,
    make_workloads,
    read_folder,
)
from dragoman_bench.journey.page import conclude, verdicts, write_comparison, write_files
from dragoman_bench.journey.steps import (
    BUSY,
    FULL_PACE,
    LEFT_OUT_OF_QUICK,
    MODES,
    QUICK_PACE,
    Leg,
    Pace,
    Step,
    only,
    plan_route,
    plan_versus,
)

T = TypeVar("T")
FAILED = 1


@dataclass(frozen=True, slots=True)
class JourneyOptions:
    """The command's options. `clients` and `defaults` are of `--versus`."""

    model: str
    profile: str
    load_format: Literal["auto", "safetensors", "dummy"]
    max_model_len: int | None
    quick: bool
    out: Path | None
    page: Path | None
    wanted: tuple[str, ...]
    repeats: int | None
    duration: float | None
    versus: bool
    clients: str | None
    defaults: bool
    rendered: Path | None

    @property
    def folder(self) -> Path:
        """Of results."""
        return self.out or Path("results/journey-quick" if self.quick else "results/journey")

    @property
    def pace(self) -> Pace:
        pace = QUICK_PACE if self.quick else FULL_PACE
        return Pace(self.duration or pace.duration_s, pace.warmup_s)


@click.command("journey")
@click.option("--model", default="", help="Model folder or hub id.  [default: the packaged phrasebook]")
@click.option("--profile", default="", help="Prompt profile; absent: picked from the model's config.")
@click.option("--load-format", type=click.Choice(["auto", "safetensors", "dummy"]), default="auto", show_default=True,
              help="dummy: random weights, forced lengths.")  # fmt: skip
@click.option("--max-model-len", type=click.IntRange(64), help="Tokens a prompt and its output share.")
@click.option("--quick", is_flag=True, help="A small journey: under 10 minutes on two CPU cores.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False),
              help="Folder of results.  [default: results/journey, with --quick results/journey-quick]")  # fmt: skip
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False),
              help="The report as a page.  [default: report.html in the folder of results]")  # fmt: skip
@click.option("--only", "wanted", multiple=True, metavar="STEP", help="Measure this step only; may be repeated.")
@click.option("--repeats", type=click.IntRange(1), help="Of each level.  [default: 3, with --quick 2]")
@click.option("--duration", type=click.FloatRange(1), metavar="SECONDS",
              help=f"Of each measurement.  [default: {FULL_PACE.duration_s:g}, quick {QUICK_PACE.duration_s:g}]")  # fmt: skip
@click.option(
    "--versus", is_flag=True, help="Instead: run dragoman and `vllm serve` together and measure them in turn."
)
@click.option("--clients", metavar="N,...", help="Load levels of --versus.  [default: 1,8,25; on a GPU 1,25,128,256]")
@click.option("--defaults", is_flag=True,
              help="Of --versus: each server with its own defaults, not both with the same settings.")  # fmt: skip
@click.option("--render", "rendered", type=click.Path(path_type=Path, exists=True, file_okay=False),
              metavar="FOLDER", help="Instead: write the report of results in a folder, of any machine.")  # fmt: skip
def command(**chosen: Any) -> None:
    """Measure worker processes, static batches, continuous batching with several settings, and `vllm serve` on this machine.

    Each step starts a server, measures it and stops it. Ctrl-C keeps and reports all measurements; --only measures missing
    steps, and --render writes the report of a folder again.
    """
    options = JourneyOptions(**chosen)
    if options.rendered is not None:
        _report(options, read_folder(options.rendered, quick=options.quick), options.rendered)
        return
    gpu = vllm_uses_gpu()
    versus = _versus_steps(options, gpu)
    route = plan_route(gpu, options.quick, options.repeats or (2 if options.quick else 3))
    if versus is not None:
        comparison = _measured(options, versus, JourneyRun.compare)
        click.echo(write_comparison(comparison, options.folder))
        interrupted, failed = comparison.partial, False
    else:
        journey = _measured(options, only(route, options.wanted), JourneyRun.run)
        _report(options, journey, options.folder)
        interrupted, failed = journey.interrupted, bool(journey.failures)
    if interrupted or failed:
        click.get_current_context().exit(INTERRUPTED if interrupted else FAILED)


def _versus_steps(options: JourneyOptions, gpu: bool) -> tuple[Step, Step] | None:
    """The two servers of `--versus`; None for the journey. Raises ConfigError on options that do not go together."""
    if not options.versus:
        for name, value in (("--clients", options.clients), ("--defaults", options.defaults)):
            if value:
                raise ConfigError(f"{name} needs --versus; the journey's steps have their own settings", param=name)
        return None
    if options.defaults and options.max_model_len is not None:
        raise ConfigError(
            "--max-model-len excludes --defaults, which leaves it to each server", param="--max-model-len"
        )
    usual = (BUSY,) if options.quick else (1, BUSY, 128, 256) if gpu else (1, 8, BUSY)
    clients = whole_numbers(options.clients, "--clients") if options.clients else usual
    repeats = max(3, options.repeats or 3)  # pairs are compared
    leg = Leg("variable", tuple(dict.fromkeys(clients)), repeats, MODES)
    return plan_versus(gpu, leg, defaults=options.defaults)


def _measured(
    options: JourneyOptions, steps: tuple[Step, ...], work: Callable[[JourneyRun], Coroutine[Any, Any, T]]
) -> T:
    """Runs `work` with progress on stderr until it ends or is interrupted."""
    subject = make_subject(options.model, options.profile, options.load_format, options.max_model_len)
    workloads = make_workloads(subject)

    async def measure(progress: ProgressLines) -> T:
        with interrupts() as interrupted:
            meter = LoadMeter(workloads, options.pace, progress, interrupted, subject.seed, path=subject.path)
            return await work(JourneyRun(steps, subject, options.folder, meter, progress))

    return observed(measure)


def _report(options: JourneyOptions, journey: JourneyResults, folder: Path) -> None:
    """Writes the report beside the results (the page to `--page` where that is given), and prints it."""
    report = conclude(journey, quick_note=LEFT_OUT_OF_QUICK if options.quick else None)
    paths = write_files(report, folder, options.page)
    error_console.print(f"written: {', '.join(map(str, paths))}", highlight=False, soft_wrap=True)
    click.echo(f"{markdown(verdicts(report))}\n")
    click.echo(report.summary)
