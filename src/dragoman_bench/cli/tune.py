"""`dragoman tune`: finds the engine settings that serve a demand best under an SLO here, and writes them with their reasons.

stdout gets the outcome as Markdown and one sentence as its last line; progress goes to stderr.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import monotonic
from typing import Any, Literal, TypeVar

import click
import psutil

from dragoman.errors import ConfigError
from dragoman.gpu import find_gpus
from dragoman_bench.bench.progress import INTERRUPTED, Observer, error_console, interrupts, observed
from dragoman_bench.bench.results import Machine, describe_machine, installed_packages
from dragoman_bench.bench.servers import ServerFault
from dragoman_bench.bench.summary import Slo, parse_slo
from dragoman_bench.cli.subject import make_subject
from dragoman_bench.journey.steps import Pace, Subject
from dragoman_bench.tune.demand import Demand, parse_clients, prompt_shape, stated_demand, trace_demand
from dragoman_bench.tune.final import BASELINES, parse_baselines
from dragoman_bench.tune.knobs import EXTRAS, parse_extras
from dragoman_bench.tune.outcome import Hardware, Tuning
from dragoman_bench.tune.progress import TuneProgress
from dragoman_bench.tune.search import TuneJob, measurement_s, plan_lines, tune
from dragoman_bench.tune.store import Fingerprints, TrialStore, machine_facts
from dragoman_bench.tune.trial import BY_HAND, Servers, server_command
from dragoman_bench.tune.watch import watch

FAILED = 1
DEFAULT_OUT = Path("results/tune")
PACE = Pace(duration_s=10.0, warmup_s=2.0)
CPU_PACE = Pace(duration_s=8.0, warmup_s=1.0)
LATENCIES = 2.0
"""A measurement lasts so many times the SLO's longest limit, at least: else it ends before slow requests do."""
MOST_S = 60.0
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """The command's options; `watch_url` and below are of `--watch`."""

    trace: Path | None
    clients: str | None
    slo: str | None
    model: str
    profile: str
    load_format: Literal["auto", "safetensors", "dummy"]
    max_model_len: int | None
    also: str
    baselines: str
    duration: float | None
    repeats: int
    time_limit: float | None
    listing: bool
    out: Path
    resume: bool
    watch_url: str | None
    every: float | None
    api_key: str | None
    as_json: bool


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--trace", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
                 help="Recorded traffic (JSONL, as `dragoman traffic export` writes it)."),
    click.option("--clients", metavar="LOW-BUSY",
                 help="Texts at once, usually and at busy times: 2-25. Replaces the concurrency of a trace."),
    click.option("--slo", metavar="LIMITS", help="For example p95_s=2,itl_ms_p95=40.  [default: throughput decides]"),
    click.option("--model", default="", help="Model folder or hub id.  [default: the packaged phrasebook]"),
    click.option("--profile", default="", help="Prompt profile.  [default: picked from the model's config]"),
    click.option("--load-format", type=click.Choice(["auto", "safetensors", "dummy"]), default="auto", show_default=True,
                 help="dummy: random weights, forced lengths."),
    click.option("--max-model-len", type=click.IntRange(64), help="Tokens that a prompt and its output share."),
    click.option("--also", default="", metavar="NAME,...", help=f"Settings to try as well: {', '.join(EXTRAS)}."),
    click.option("--baselines", default=",".join(BASELINES), show_default=True, metavar="NAME,...|none",
                 help="What the result is compared with in the final."),
    click.option("--duration", type=click.FloatRange(1), metavar="SECONDS",
                 help=f"Of each measurement.  [default: {PACE.duration_s:g}, on a CPU {CPU_PACE.duration_s:g}, and twice "
                      "the SLO's longest limit at least]"),
    click.option("--repeats", type=click.IntRange(1, 10), default=3, show_default=True,
                 help="Of what is compared, at most; and rounds of the final."),
    click.option("--time-limit", type=click.FloatRange(1), metavar="SECONDS",
                 help="Begin nothing that would not end within it, the final's first round excepted."),
    click.option("--list", "listing", is_flag=True, help="Print the plan and how long it takes; measure nothing."),
    click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT_OUT, show_default=True,
                 help="Folder: dragoman.toml, report.html, tune.json, tune.md, points."),
    click.option("--resume/--fresh", default=True, show_default=True,
                 help="Keep what was measured under the same conditions, or measure all again."),
    click.option("--watch", "watch_url", metavar="URL",
                 help="Instead: does the configuration of this running server still fit its traffic?"),
    click.option("--every", type=click.FloatRange(1), metavar="SECONDS", help="With --watch: look repeatedly."),
    click.option("--api-key", envvar="DRAGOMAN_BENCH_API_KEY", show_envvar=True, help="With --watch."),
    click.option("--json", "as_json", is_flag=True, help="With --watch: one JSON document a look."),
)  # fmt: skip


def _with_options(function: F) -> F:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@click.command("tune")
@_with_options
def command(**values: Any) -> None:
    """Find the engine settings that serve your traffic best on this machine, and say why.

    Climbs a ladder of concurrency, tries settings that need a restart, sizes memory, and compares the result with vLLM's
    defaults. Ctrl-C keeps what was measured and reports it; the same command continues from there.
    """
    options = TuneOptions(**values)
    slo = parse_slo(options.slo) if options.slo is not None else None
    if options.watch_url is not None:
        _watch(options.watch_url, options, slo)
        return
    subject = make_subject(options.model, options.profile, options.load_format, options.max_model_len)
    pace = _pace(options, slo)
    job = _job(options, subject, pace, slo)
    for line in plan_lines(job, job.estimate(measurement_s(pace))):
        click.echo(line, err=not options.listing)
    if not options.listing:
        _finish(options.out, subject, observed(lambda observer: _tune(options, subject, job, pace, observer)))


def this_hardware() -> tuple[Hardware, Machine]:
    """Where servers are started. Memory is one GPU's, or the machine's where vLLM's CPU build is installed."""
    gpus = find_gpus() if _has_cuda_build() else None
    machine = describe_machine(gpus.describe() if gpus else ())
    if machine.gpus:
        return Hardware("cuda", round(machine.gpus[0].memory_mib * 2**20), len(machine.gpus)), machine
    return Hardware("cpu", psutil.virtual_memory().total), machine


def make_demand(subject: Subject, trace: Path | None, clients: str | None) -> Demand:
    """From a trace, or stated. Raises ConfigError where it cannot be read, or says nothing of concurrency."""
    levels = parse_clients(clients) if clients is not None else None
    if trace is not None:
        return trace_demand(trace, subject, prompt_shape(subject), levels)
    if levels is None:
        text = "specify a demand: --trace FILE (recorded traffic), or --clients 2-25 (texts at once, usually and when busy)"
        raise ConfigError(text, param="clients")
    return stated_demand(subject, prompt_shape(subject), levels)


def _has_cuda_build() -> bool:
    try:
        return "+cpu" not in version("vllm")
    except PackageNotFoundError:
        return False


def _pace(options: TuneOptions, slo: Slo | None) -> Pace:
    pace = PACE if _has_cuda_build() else CPU_PACE
    longest_s = max((limit.limit_s for limit in slo.limits if limit.metric == "e2e"), default=0.0) if slo else 0.0
    duration_s = max(pace.duration_s, min(MOST_S, LATENCIES * longest_s))
    return replace(pace, duration_s=options.duration or duration_s)


def _job(options: TuneOptions, subject: Subject, pace: Pace, slo: Slo | None) -> TuneJob:
    also, baselines = parse_extras(options.also), parse_baselines(options.baselines)
    hardware, machine = this_hardware()
    return TuneJob(
        demand=make_demand(subject, options.trace, options.clients),
        hardware=hardware,
        machine=machine,
        slo=slo,
        also=also,
        baselines=baselines,
        repeats=options.repeats,
        time_limit_s=options.time_limit,
        options={
            "duration_s": pace.duration_s,
            "warmup_s": pace.warmup_s,
            "seed": subject.seed,
            "also": list(also),
            "load_format": options.load_format,
            "repeats": options.repeats,
            "time_limit": options.time_limit,
        },
    )


def make_servers(
    subject: Subject, job: TuneJob, pace: Pace, folder: Path, progress: TuneProgress, interrupted: asyncio.Event
) -> Servers:
    """Servers of this machine; what is measured goes to `folder`, and is taken from there by the next run."""
    stream = job.slo is not None and job.slo.needs_stream
    machine = machine_facts(job.machine, installed_packages())
    store = TrialStore(folder, Fingerprints(subject, job.demand, pace, stream, machine))
    return Servers(
        subject=subject,
        demand=job.demand,
        pace=pace,
        slo=job.slo,
        store=store,
        progress=progress,
        interrupted=interrupted,
        command=server_command(subject),
    )


async def _tune(options: TuneOptions, subject: Subject, job: TuneJob, pace: Pace, observer: Observer) -> Tuning:
    progress = TuneProgress(error_console, observer, job.estimate(measurement_s(pace)))
    with interrupts() as interrupted:
        servers = make_servers(subject, job, pace, options.out, progress, interrupted)
        servers = replace(servers, store=replace(servers.store, fresh=not options.resume), clock=monotonic)
        return await tune(servers, job)


def _finish(folder: Path, subject: Subject, tuning: Tuning) -> None:
    """Writes and prints the outcome. Raises ServerFault where nothing could be measured."""
    from dragoman_bench.tune.outputs import tune_markdown, write_outcome  # matplotlib takes a second
    from dragoman_bench.tune.tables import summary

    interrupted = tuning.partial_because == BY_HAND
    if not tuning.choices and not interrupted:
        last = tuning.trials[-1]
        raise ServerFault(f"nothing was measured: {last.reason or last.outcome}")
    if tuning.choices:
        paths = write_outcome(tuning, folder, subject.dragoman)
        click.echo(f"written: {', '.join(map(str, paths))}", err=True)
        click.echo(tune_markdown(tuning))
    click.echo(summary(tuning))
    if interrupted:
        click.get_current_context().exit(INTERRUPTED)


def _watch(url: str, options: TuneOptions, slo: Slo | None) -> None:
    async def looks(interrupted: asyncio.Event | None = None) -> bool:
        fits = True
        async for look in watch(url, slo, options.every, interrupted, options.api_key):
            click.echo(json.dumps(look.document, ensure_ascii=False) if options.as_json else look.lines)
            fits = look.verdict != "does not fit"
        return fits

    async def until_interrupted() -> bool:
        with interrupts() as interrupted:
            return await looks(interrupted)

    if not asyncio.run(looks() if options.every is None else until_interrupted()):
        click.get_current_context().exit(FAILED)
