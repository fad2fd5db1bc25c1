"""`dragoman tune`: finds the best engine settings for a demand and an SLO on this machine, and writes them with reasons.

stdout has the settings with their reasons, and a sentence as its last line; progress goes to stderr.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import click

from dragoman.errors import ConfigError
from dragoman.gpu import find_gpus
from dragoman_bench.bench.measurement import describe_machine
from dragoman_bench.bench.progress import INTERRUPTED, ProgressLines, interrupts, observed
from dragoman_bench.bench.servers import ServerFault, vllm_uses_gpu
from dragoman_bench.bench.summary import Slo, parse_slo
from dragoman_bench.cli.subject import make_subject
from dragoman_bench.journey.steps import Pace, Subject
from dragoman_bench.tune.demand import Demand, stated_demand, trace_demand
from dragoman_bench.tune.final import BASELINES, parse_baselines
from dragoman_bench.tune.outcome import Concurrency, Tuning
from dragoman_bench.tune.run import TuneJob, tune
from dragoman_bench.tune.trial import Servers, server_command, this_machine

PACE = Pace(duration_s=10.0, warmup_s=2.0)
CPU_PACE = Pace(duration_s=8.0, warmup_s=1.0)
LATENCIES = 2.0
"""The shortest measurement, as a multiple of the SLO's longest limit: a shorter one would end before slow requests."""
MOST_S = 60.0


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """The command's options."""

    trace: tuple[Path, ...]
    clients: int | None
    slo: str | None
    model: str
    profile: str
    load_format: Literal["auto", "safetensors", "dummy"]
    max_model_len: int | None
    baselines: str
    duration: float | None
    repeats: int
    listing: bool
    out: Path


_OPTIONS: list[click.Parameter] = [
    click.Option(["--trace"], type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", multiple=True,
                 help="Recorded traffic (JSONL, as `dragoman traffic export` writes it); more than once for several replicas, "
                      "each of which is such a server."),
    click.Option(["--clients"], type=click.IntRange(1),
                 help="Texts at once at busy times. Replaces the concurrency of a trace."),
    click.Option(["--slo"], metavar="LIMITS", help="For example p95_s=2,itl_ms_p95=40.  [default: throughput decides]"),
    click.Option(["--model"], default="", help="Model folder or hub id.  [default: the packaged phrasebook]"),
    click.Option(["--profile"], default="", help="Prompt profile.  [default: picked from the model's config]"),
    click.Option(["--load-format"], type=click.Choice(["auto", "safetensors", "dummy"]), default="auto", show_default=True,
                 help="dummy: random weights, forced lengths."),
    click.Option(["--max-model-len"], type=click.IntRange(64), help="Tokens that a prompt and its output share."),
    click.Option(["--baselines"], default=",".join(BASELINES), show_default=True, metavar="NAME,...|none",
                 help="What the result is compared with in the final."),
    click.Option(["--duration"], type=click.FloatRange(1), metavar="SECONDS",
                 help=f"Of each measurement.  [default: {PACE.duration_s:g}, on a CPU {CPU_PACE.duration_s:g}, and twice "
                      "the SLO's longest limit at least]"),
    click.Option(["--repeats"], type=click.IntRange(1, 10), default=3, show_default=True,
                 help="Of what is compared, at most; and rounds of the final."),
    click.Option(["--list", "listing"], is_flag=True, help="Print the plan and how long it takes; measure nothing."),
    click.Option(["--out"], type=click.Path(path_type=Path, file_okay=False), default="results/tune", show_default=True,
                 help="Folder: dragoman.toml, report.html, tune.json, and points, which are used again."),
]  # fmt: skip


@click.command("tune", params=_OPTIONS)
def command(**values: Any) -> None:
    """Find the engine settings that serve your traffic best on this machine, with reasons.

    The command measures increasing numbers of concurrent requests (the ladder), tries settings that need a restart, sizes
    memory, and compares the result with vLLM's defaults. Ctrl-C keeps and reports all measurements; the same command
    continues from there.
    """
    options = TuneOptions(**values)
    slo = parse_slo(options.slo) if options.slo is not None else None
    subject = make_subject(options.model, options.profile, options.load_format, options.max_model_len)
    gpus = find_gpus() if vllm_uses_gpu() else None
    job = TuneJob(
        demand=_demand(subject, options),
        machine=describe_machine(gpus.describe() if gpus else ()),
        slo=slo,
        baselines=parse_baselines(options.baselines),
        repeats=options.repeats,
        options={name: getattr(options, name) for name in ("duration", "load_format", "repeats")},
    )
    pace = _pace(PACE if gpus else CPU_PACE, options.duration, slo)
    for line in job.plan_lines(pace):
        click.echo(line, err=not options.listing)
    if not options.listing:
        _finish(options.out, subject, observed(lambda progress: _tune(options, subject, job, pace, progress)))


def _demand(subject: Subject, options: TuneOptions) -> Demand:
    """From traces, or stated. Raises ConfigError where it cannot be read, or says nothing of concurrency."""
    levels = Concurrency(options.clients, options.clients, stated=True) if options.clients is not None else None
    if options.trace:
        return trace_demand(options.trace, subject, levels)
    if levels is None:
        text = "specify a demand: --trace FILE (recorded traffic), or --clients N (texts at once at busy times)"
        raise ConfigError(text, param="clients")
    return stated_demand(subject, levels)


def _pace(pace: Pace, duration_s: float | None, slo: Slo | None) -> Pace:
    longest_s = max((limit.limit_s for limit in slo.limits if limit.metric == "e2e"), default=0.0) if slo else 0.0
    return replace(pace, duration_s=duration_s or max(pace.duration_s, min(MOST_S, LATENCIES * longest_s)))


async def _tune(options: TuneOptions, subject: Subject, job: TuneJob, pace: Pace, progress: ProgressLines) -> Tuning:
    with interrupts() as interrupted:
        servers = Servers(
            subject=subject,
            demand=job.demand,
            pace=pace,
            slo=job.slo,
            folder=options.out,
            conditions={**this_machine(), "content": job.demand.digest},
            progress=progress,
            interrupted=interrupted,
            command=server_command(subject),
        )
        return await tune(servers, job)


def _finish(folder: Path, subject: Subject, tuning: Tuning) -> None:
    """Writes and prints the outcome. Raises ServerFault where nothing could be measured."""
    from dragoman_bench.tune.outputs import summary, write_outcome  # matplotlib takes a second

    if tuning.choices:
        settings, *others = write_outcome(tuning, folder, subject.dragoman)
        click.echo(f"written: {', '.join(map(str, (settings, *others)))}", err=True)
        click.echo(settings.read_text("utf-8"))
    elif not tuning.partial:
        raise ServerFault(f"nothing was measured: {tuning.trials[-1].ending}")
    click.echo(summary(tuning))
    if tuning.partial:
        click.get_current_context().exit(INTERRUPTED)
