"""`dragoman tune`: finds the engine settings that serve a demand best under an SLO here, and writes them with their reasons.

stdout gets the outcome as Markdown and, as its last line, one sentence; progress goes to stderr.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import click

from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.servers import ServerFault
from dragoman_bench.bench.summary import Slo, parse_slo
from dragoman_bench.cli.observing import INTERRUPTED, error_console, interrupts, observed
from dragoman_bench.cli.subject import make_subject
from dragoman_bench.cli.tuning import Bench, here, make_demand, open_workshop
from dragoman_bench.journey.steps import Pace, Subject
from dragoman_bench.tune import watch
from dragoman_bench.tune.config_file import as_settings
from dragoman_bench.tune.contenders import BASELINES, parse_baselines
from dragoman_bench.tune.estimate import Estimate
from dragoman_bench.tune.extras import EXTRAS, parse_extras
from dragoman_bench.tune.markdown import markdown, summary
from dragoman_bench.tune.meter import measurement_s
from dragoman_bench.tune.outcome import Tuning
from dragoman_bench.tune.outputs import write_outcome
from dragoman_bench.tune.planned import planned
from dragoman_bench.tune.points import Place
from dragoman_bench.tune.search import Job, estimated, tune
from dragoman_bench.tune.workshop import BY_HAND

FAILED = 1
DEFAULT_OUT = Path("results/tune")
PACE = Pace(duration_s=10.0, warmup_s=2.0)
CPU_PACE = Pace(duration_s=8.0, warmup_s=1.0)
F = TypeVar("F", bound=Callable[..., Any])

_DEMAND: tuple[Callable[[Any], Any], ...] = (
    click.option("--trace", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
                 help="Recorded traffic (JSONL, as `dragoman traffic export` writes it)."),
    click.option("--clients", metavar="LOW-BUSY", help="Texts at once, usually and at busy times: 2-25. Overrules a trace."),
    click.option("--slo", metavar="LIMITS", help="For example p95_s=2,itl_ms_p95=40.  [default: throughput decides]"),
)  # fmt: skip
_MODEL: tuple[Callable[[Any], Any], ...] = (
    click.option("--model", default="", help="Model folder or hub id.  [default: the packaged phrasebook]"),
    click.option("--profile", default="", help="Prompt profile; absent: picked from the model's config."),
    click.option("--load-format", type=click.Choice(["auto", "safetensors", "dummy"]), default="auto", show_default=True,
                 help="dummy: random weights, forced lengths."),
    click.option("--max-model-len", type=click.IntRange(64), help="Tokens a prompt and its output share."),
)  # fmt: skip
_SEARCH: tuple[Callable[[Any], Any], ...] = (
    click.option("--also", default="", metavar="NAME,...", help=f"Tried too: {', '.join(EXTRAS)}."),
    click.option("--baselines", default=",".join(BASELINES), show_default=True, metavar="NAME,...|none",
                 help="Whom the finalist must beat."),
    click.option("--duration", type=click.FloatRange(1), metavar="SECONDS",
                 help=f"Of each measurement.  [default: {PACE.duration_s:g}, on a CPU {CPU_PACE.duration_s:g}]"),
    click.option("--repeats", type=click.IntRange(1, 10), default=3, show_default=True,
                 help="Of what is compared, at most; and rounds of the final."),
    click.option("--time-limit", type=click.FloatRange(1), metavar="SECONDS",
                 help="Begin nothing that would not end within it."),
    click.option("--list", "listing", is_flag=True, help="Tell the plan and how long it takes; measure nothing."),
)  # fmt: skip
_OUTCOME: tuple[Callable[[Any], Any], ...] = (
    click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT_OUT, show_default=True,
                 help="Folder: dragoman.toml, report.html, tune.json, tune.md, points."),
    click.option("--resume/--fresh", default=True, show_default=True,
                 help="Keep what was measured under the same conditions, or measure all again."),
)  # fmt: skip
_WATCH: tuple[Callable[[Any], Any], ...] = (
    click.option("--watch", "watched", metavar="URL", help="Instead: does this running server still fit its traffic?"),
    click.option("--every", type=click.FloatRange(1), metavar="SECONDS", help="Of --watch: look again and again."),
    click.option("--api-key", envvar="DRAGOMAN_BENCH_API_KEY", show_envvar=True, help="Of --watch."),
    click.option("--json", "as_json", is_flag=True, help="Of --watch: one JSON document a look."),
)  # fmt: skip


def _with_options(function: F) -> F:
    for option in reversed((*_DEMAND, *_MODEL, *_SEARCH, *_OUTCOME, *_WATCH)):
        function = option(function)
    return function


@click.command("tune")
@_with_options
def command(**chosen: Any) -> None:
    """Find the engine settings that serve your traffic best on this machine, and say why.

    Climbs a ladder of concurrency, tries what needs restarts, sizes memory from need, and holds the result against vLLM's
    defaults. Ctrl-C keeps what was measured and reports it; the same command again goes on.
    """
    slo = parse_slo(chosen["slo"]) if chosen["slo"] is not None else None
    if chosen["watched"] is not None:
        _watch(chosen, slo)
    else:
        _tune(chosen, slo)


def _watch(chosen: dict[str, Any], slo: Slo | None) -> None:
    async def go(interrupted: asyncio.Event | None = None) -> bool:
        fits = True
        async for look in watch.watch(chosen["watched"], slo, chosen["every"], interrupted, chosen["api_key"]):
            document = watch.to_document(look)
            click.echo(json.dumps(document, ensure_ascii=False) if chosen["as_json"] else watch.told(look))
            fits = look.verdict != "does not fit"
        return fits

    async def again_and_again() -> bool:
        with interrupts() as interrupted:
            return await go(interrupted)

    if not asyncio.run(go() if chosen["every"] is None else again_and_again()):
        click.get_current_context().exit(FAILED)


def _tune(chosen: dict[str, Any], slo: Slo | None) -> None:
    also, baselines = parse_extras(chosen["also"]), parse_baselines(chosen["baselines"])
    subject = make_subject(chosen["model"], chosen["profile"], chosen["load_format"], chosen["max_model_len"])
    place, machine = here()
    demand = make_demand(subject, chosen["profile"], chosen["trace"], chosen["clients"])
    pace = _pace(chosen, place)
    options = {"duration_s": pace.duration_s, "warmup_s": pace.warmup_s, "seed": subject.seed, "also": list(also)}
    options |= {name: chosen[name] for name in ("load_format", "repeats", "time_limit")}
    job = Job(demand, place, machine, slo, also, baselines, chosen["repeats"], options)
    estimate = estimated(job, measurement_s(pace))
    for line in planned(job, estimate):
        click.echo(line, err=not chosen["listing"])
    if not chosen["listing"]:
        _finish(chosen["out"], subject, observed(lambda observer: _go(chosen, job, subject, pace, estimate, observer)))


def _pace(chosen: dict[str, Any], place: Place) -> Pace:
    pace = CPU_PACE if place.device == "cpu" else PACE
    return replace(pace, duration_s=chosen["duration"] or pace.duration_s)


async def _go(
    chosen: dict[str, Any], job: Job, subject: Subject, pace: Pace, estimate: Estimate, observer: Observer
) -> Tuning:
    limit_s = chosen["time_limit"]
    deadline_s = None if limit_s is None else monotonic() + limit_s
    bench = Bench(pace, job.slo, chosen["out"], not chosen["resume"], deadline_s)
    with interrupts() as interrupted:
        return await tune(open_workshop(subject, job.demand, bench, estimate, observer, interrupted), job)


def _finish(folder: Path, subject: Subject, tuning: Tuning) -> None:
    """Writes and tells the outcome, and leaves as it went. Raises ServerFault where nothing could be measured."""
    interrupted = tuning.partial_because == BY_HAND
    if tuning.ladder is None or tuning.ladder.knee is None:
        if not interrupted:
            raise ServerFault(f"nothing was measured: {tuning.trials[-1].reason or tuning.trials[-1].outcome}")
        click.echo(summary(tuning))
        click.get_current_context().exit(INTERRUPTED)
    paths = write_outcome(tuning, folder, as_settings(subject.dragoman))
    error_console.print(f"written: {', '.join(map(str, paths))}", highlight=False, soft_wrap=True)
    click.echo(markdown(tuning))
    click.echo(summary(tuning))
    if interrupted:
        click.get_current_context().exit(INTERRUPTED)
