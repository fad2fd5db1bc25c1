"""`dragoman journey`: the whole story, measured on this machine and model, with a verdict on each of its claims.

stdout gets the findings as Markdown and, as its last line, a summary; progress goes to stderr.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from dragoman.errors import ConfigError
from dragoman_bench.bench.progress import INTERRUPTED, Observer, error_console, interrupts, observed
from dragoman_bench.bench.tables import about
from dragoman_bench.cli.bench import whole_numbers
from dragoman_bench.cli.subject import make_subject
from dragoman_bench.journey.measure import LoadMeter, make_workloads
from dragoman_bench.journey.page import JourneyReport, as_markdown, conclude, write_files
from dragoman_bench.journey.route import (
    FULL_PACE,
    LEFT_OUT_OF_QUICK,
    QUICK_PACE,
    Terms,
    only,
    plan_route,
    plan_versus,
)
from dragoman_bench.journey.run import (
    JourneyDisplay,
    JourneyResults,
    JourneyRun,
    RemainingTime,
    ResultsFolder,
    read_folder,
    this_machine,
    vllm_uses_gpu,
)
from dragoman_bench.journey.steps import MODES, Mode, Pace, Step, Subject
from dragoman_bench.journey.versus import Comparison, compare_servers, write_comparison

FAILED = 1
OF_BOTH = ("max-num-batched-tokens", "max-cudagraph-capture-size")  # engine flags of both servers of --versus


@dataclass(frozen=True, slots=True)
class JourneyOptions:
    """The command's options. `clients`, `modes`, `defaults` and the two limits in tokens are of `--versus`."""

    model: str
    profile: str
    load_format: Literal["auto", "safetensors", "dummy"]
    max_model_len: int | None
    quick: bool
    out: Path | None
    page: Path | None
    resume: bool
    wanted: tuple[str, ...]
    listing: bool
    skip_vllm_serve: bool
    gpu_levels: bool | None
    repeats: int | None
    repeats_elsewhere: int
    duration: float | None
    time_limit: float | None
    versus: bool
    clients: str | None
    modes: str | None
    defaults: bool
    max_num_batched_tokens: int | None
    max_cudagraph_capture_size: int | None
    rendered: Path | None


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
@click.option("--resume/--fresh", default=True, show_default=True,
              help="Keep what was measured under the same conditions, or measure all again.")  # fmt: skip
@click.option("--only", "wanted", multiple=True, metavar="STEP", help="Measure this step only; may be repeated.")
@click.option("--list", "listing", is_flag=True, help="List the steps and how long they take; measure nothing.")
@click.option("--skip-vllm-serve", is_flag=True, help="Leave `vllm serve` out.")
@click.option("--gpu-levels/--no-gpu-levels", default=None, help="64, 128 and 256 clients too.  [default: on a GPU]")
@click.option("--repeats", type=click.IntRange(1), help="At levels that claims use.  [default: 3, with --quick 2]")
@click.option("--repeats-elsewhere", type=click.IntRange(1), default=1, show_default=True, help="At other levels.")
@click.option("--duration", type=click.FloatRange(1), metavar="SECONDS",
              help=f"Of each measurement.  [default: {FULL_PACE.duration_s:g}, quick {QUICK_PACE.duration_s:g}]")  # fmt: skip
@click.option("--time-limit", type=click.FloatRange(1), metavar="SECONDS",
              help="Begin no step that would not end within it.")  # fmt: skip
@click.option(
    "--versus", is_flag=True, help="Instead: run dragoman and `vllm serve` together and measure them in turn."
)
@click.option("--clients", metavar="N,...", help="Load levels of --versus.  [default: 1,8,25; on a GPU 1,25,128,256]")
@click.option("--mode", "modes", metavar="MODE,...",
              help="Answers of --versus.  [default: plain,streamed: TTFT and inter-token latency too]")  # fmt: skip
@click.option("--defaults", is_flag=True,
              help="Of --versus: each server with its own defaults, not both with the same settings.")  # fmt: skip
@click.option("--max-num-batched-tokens", type=click.IntRange(1), metavar="TOKENS",
              help="Of both servers of --versus: tokens in one step.  [default: 2048; on a GPU 8192]")  # fmt: skip
@click.option("--max-cudagraph-capture-size", type=click.IntRange(0), metavar="TOKENS",
              help="Of both servers of --versus: the largest step that runs as a CUDA graph.  [GPU: 1024]")  # fmt: skip
@click.option("--render", "--retell", "rendered",  # words: example (the name of earlier versions)
              type=click.Path(path_type=Path, exists=True, file_okay=False),
              metavar="FOLDER", help="Instead: write the report of results in a folder, of any machine.")  # fmt: skip
def command(**chosen: Any) -> None:
    """Measure the whole story here: workers, static batches, continuous batching, its settings, `vllm serve`.

    Each step starts a server, measures it and ends it. Ctrl-C keeps what was measured and reports it; the same command
    again measures what is missing.
    """
    options = JourneyOptions(**chosen)
    if options.rendered is not None:
        journey = read_folder(options.rendered, quick=options.quick)
        _report(conclude(journey, quick_note=_note(options)), options.rendered, options.page)
        return
    terms = _terms(options)
    pace = _pace(options)
    versus = _versus_steps(options, terms)
    route = plan_route(terms)
    steps = only(route, options.wanted)
    if options.listing:
        _list(versus or steps, pace)
        return
    subject = make_subject(options.model, options.profile, options.load_format, options.max_model_len)
    if versus is not None:
        _versus(options, versus, subject, pace)
    else:
        _journey(options, route, steps, subject, pace)


def _versus_steps(options: JourneyOptions, terms: Terms) -> tuple[Step, Step] | None:
    """The two servers of `--versus`; None for the journey. Raises ConfigError on options that do not go together."""
    both = {name: value for name in OF_BOTH if (value := getattr(options, name.replace("-", "_"))) is not None}
    given = [*both, *(name for name in ("clients", "modes", "defaults") if getattr(options, name))]
    if not options.versus:
        for name in given:
            flag = "--mode" if name == "modes" else f"--{name}"
            raise ConfigError(f"{flag} needs --versus; the journey's steps have their own settings", param=flag)
        return None
    if options.defaults:
        for name in both:
            raise ConfigError(f"--{name} excludes --defaults, which leaves it to each server", param=f"--{name}")
        both = {"max-model-len": options.max_model_len} if options.max_model_len is not None else {}
    clients = whole_numbers(options.clients, "--clients") if options.clients else ()
    return plan_versus(terms, clients, both, modes=_modes(options.modes), defaults=options.defaults)


def _modes(form: str | None) -> tuple[Mode, ...]:
    """`plain,streamed` as modes, each once. Raises ConfigError."""
    names = MODES if form is None else tuple(dict.fromkeys(name.strip() for name in form.split(",")))
    for name in names:
        if name not in MODES:
            raise ConfigError(f"--mode {form}: {name!r} is not a mode; modes are {', '.join(MODES)}", param="--mode")
    return tuple(mode for mode in MODES if mode in names)


def _terms(options: JourneyOptions) -> Terms:
    gpu, high = vllm_uses_gpu(), options.gpu_levels
    return Terms(
        gpu=gpu,
        quick=options.quick,
        high_levels=gpu if high is None else high,
        repeats=options.repeats or (2 if options.quick else 3),
        elsewhere=options.repeats_elsewhere,
        vllm_serve=not options.skip_vllm_serve,
    )


def _pace(options: JourneyOptions) -> Pace:
    pace = QUICK_PACE if options.quick else FULL_PACE
    return Pace(options.duration or pace.duration_s, pace.warmup_s, pace.timeout_s)


def _folder(options: JourneyOptions) -> Path:
    return options.out or Path("results/journey-quick" if options.quick else "results/journey")


def _list(steps: tuple[Step, ...], pace: Pace) -> None:
    remaining = RemainingTime(pace, [(step, step.legs) for step in steps])
    for step in steps:
        levels = "; ".join(
            f"{leg.workload} at {', '.join(f'{n.clients}×{n.repeats}' for n in leg.levels)} clients"
            for leg in step.legs
        )
        click.echo(f"{step.name:16} {step.title}: {levels} ({about(remaining.step_s(step, step.legs))})")
    click.echo(f"{len(steps)} steps, {about(remaining.total_s)}, if servers start as they usually do.")


def _journey(
    options: JourneyOptions, route: tuple[Step, ...], steps: tuple[Step, ...], subject: Subject, pace: Pace
) -> None:
    workloads = make_workloads(subject)
    folder = ResultsFolder(_folder(options), subject, workloads, pace, this_machine())

    async def measure(observer: Observer) -> JourneyResults:
        display = JourneyDisplay(error_console, observer)
        with interrupts() as interrupted:
            run = JourneyRun(
                steps=route,
                chosen=frozenset(step.name for step in steps),
                subject=subject,
                folder=folder,
                meter=LoadMeter(workloads, pace, display, interrupted, subject.seed, path=subject.path),
                display=display,
                fresh=not options.resume,
                time_limit_s=options.time_limit,
            )
            return await run.run()

    journey = observed(measure)
    _report(conclude(journey, quick_note=_note(options)), folder.path, options.page)
    if journey.interrupted or journey.failures:
        click.get_current_context().exit(INTERRUPTED if journey.interrupted else FAILED)


def _note(options: JourneyOptions) -> str | None:
    return LEFT_OUT_OF_QUICK if options.quick else None


def _report(report: JourneyReport, folder: Path, page: Path | None) -> None:
    """Writes the report beside the results (the page to `page` where that is given), and prints it."""
    paths = write_files(report, folder, page)
    error_console.print(f"written: {', '.join(map(str, paths))}", highlight=False, soft_wrap=True)
    click.echo(as_markdown(report))
    click.echo(report.summary)


def _versus(options: JourneyOptions, steps: tuple[Step, Step], subject: Subject, pace: Pace) -> None:
    folder, workloads = _folder(options), make_workloads(subject)

    async def measure(observer: Observer) -> Comparison:
        display = JourneyDisplay(error_console, observer)
        with interrupts() as interrupted:
            meter = LoadMeter(workloads, pace, display, interrupted, subject.seed, path=subject.path)
            return await compare_servers(steps, subject, folder, meter, display)

    comparison = observed(measure)
    click.echo(write_comparison(comparison, folder))
    if comparison.partial:
        click.get_current_context().exit(INTERRUPTED)
