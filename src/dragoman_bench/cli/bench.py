"""`dragoman bench`: load-test a translation server, and say what was measured under which conditions.

stdout gets the table and, with --json, one JSON document as its last line; progress goes to stderr.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from dragoman.errors import ConfigError
from dragoman_bench.bench import forms
from dragoman_bench.bench.benchmark import ClientMaximum, Plan, find_client_maximum, prepared
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.results import Results, to_document, write_results
from dragoman_bench.bench.results_table import markdown
from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.bench.targets import KINDS, STREAMING, USER_TEMPLATE, Sampling, TargetOptions
from dragoman_bench.bench.texts import PhrasebookTexts, token_counter
from dragoman_bench.bench.workload import MadeUp, Reading, Workload, parse_pairs, read_workload
from dragoman_bench.cli.observing import INTERRUPTED, interrupts, observed

DEFAULT_PAIRS = "en-ja:3,en-ko:1,zh-en:1"
DEFAULT_REQUESTS = 100
F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, tuple[Callable[[Any], Any], ...]] = {
    "The server": (
        click.option("--url", default="http://127.0.0.1:8000", show_default=True, help="The server to measure."),
        click.option(
            "--target", type=click.Choice(KINDS), default="dragoman", show_default=True, help="The API it speaks."
        ),
        click.option(
            "--stream", is_flag=True, help="Ask for streamed answers: TTFT and inter-token latency are measured."
        ),
        click.option("--api-key", envvar="DRAGOMAN_BENCH_API_KEY", show_envvar=True, help="Never stored with results."),
        click.option("--model", help="Of an OpenAI-compatible server; absent: the first it lists."),
        click.option("--system-prompt", help="Chat only; may name {source_name}, {target_name}."),
        click.option(
            "--user-prompt", "--prompt-template", "user_prompt", default=USER_TEMPLATE, help="Must hold {text}."
        ),
        click.option("--max-tokens", type=click.IntRange(1), default=1024, show_default=True, help="OpenAI only."),
        click.option("--temperature", type=click.FloatRange(0), default=0.0, show_default=True, help="OpenAI only."),
    ),
    "What is sent": (
        click.option(
            "--workload",
            default="variable",
            show_default=True,
            metavar="uniform|variable|FILE",
            help="Text or JSONL file.",
        ),
        click.option("--pairs", metavar="MIX", help=f"Language pairs with weights.  [made-up texts: {DEFAULT_PAIRS}]"),
        click.option("--tokens", metavar="N|LOW..HIGH", help="Source tokens.  [uniform: 60; variable: 10..200]"),
        click.option(
            "--texts", type=click.IntRange(1), default=1000, show_default=True, help="Made up with --duration."
        ),
        click.option(
            "--tokenizer", type=click.Path(path_type=Path, dir_okay=False), help="tokenizer.json to measure with."
        ),
        click.option(
            "--force-output-ratio", metavar="LOW..HIGH", help="Force output lengths (servers with dummy weights)."
        ),
        click.option("--seed", type=int, default=0, show_default=True),
    ),
    "The load": (
        click.option("--concurrency", metavar="N,...", help="Closed loop: clients, one level each.  [default: 8]"),
        click.option("--rate", metavar="R,...", help="Open loop: requests a second, one level each."),
        click.option("--arrivals", type=click.Choice(["poisson", "constant"]), default="poisson", show_default=True),
        click.option("--ramp", metavar="A..B", help="Open loop whose rate goes from A to B over --duration."),
        click.option("--replay", is_flag=True, help="Send a trace (`dragoman traffic export`) at its own times."),
        click.option(
            "--time-scale", type=click.FloatRange(0, min_open=True), default=1.0, help="Of --replay; 0.5: faster."
        ),
        click.option("--requests", type=click.IntRange(1), help=f"Of each measurement.  [default: {DEFAULT_REQUESTS}]"),
        click.option(
            "--duration", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Instead of --requests."
        ),
        click.option(
            "--warmup", default="10", show_default=True, metavar="N|Ns", help="Requests or seconds, not counted."
        ),
        click.option(
            "--repeats", type=click.IntRange(1), default=1, show_default=True, help="3 and more tell a spread."
        ),
        click.option(
            "--timeout", type=click.FloatRange(0, min_open=True), default=60.0, show_default=True, metavar="SECONDS"
        ),
        click.option("--stop-when-saturated/--no-stop-when-saturated", "saturation", default=True, help="Open loops."),
        click.option(
            "--saturation-after", type=click.FloatRange(1), default=20.0, show_default=True, metavar="SECONDS"
        ),
    ),
    "How it is judged and observed": (
        click.option(
            "--slo", metavar="LIMITS", help="For example p95_s=2,ttft_ms_p95=300 (over all) or e2e_s=2 (each)."
        ),
        click.option(
            "--stats", default="auto", show_default=True, metavar="auto|none|URL", help="The server's own numbers."
        ),
        click.option("--gpus", default="auto", show_default=True, metavar="auto|none|I,..."),
        click.option("--sample-every-ms", type=click.IntRange(10), default=100, show_default=True),
    ),
    "The client itself": (
        click.option("--client-processes", type=click.IntRange(1), default=1, show_default=True),
        click.option(
            "--max-connections", type=click.IntRange(1), help="Waiting for one counts as latency.  [unlimited]"
        ),
        click.option(
            "--client-maximum", type=click.FloatRange(0, min_open=True), metavar="RPS", help="As found before."
        ),
        click.option(
            "--find-client-maximum", is_flag=True, help="Measure this client against a server that does nothing."
        ),
    ),
    "What comes out": (
        click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Results file (JSON)."),
        click.option("--json", "as_json", is_flag=True, help="One JSON document as the last line of stdout."),
    ),
}


def _with_options(function: F) -> F:
    for options in reversed(_OPTIONS.values()):
        for option in reversed(options):
            function = option(function)
    return function


class _Sectioned(click.Command):
    """Help under the headings of `_OPTIONS`, whose order is that of the parameters."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [row for parameter in self.get_params(ctx) if (row := parameter.get_help_record(ctx)) is not None]
        for heading, options in _OPTIONS.items():
            with formatter.section(heading):
                formatter.write_dl(rows[: len(options)])
            del rows[: len(options)]
        with formatter.section("Other"):
            formatter.write_dl(rows)


@click.command("bench", cls=_Sectioned)
@_with_options
def command(out: Path | None, as_json: bool, find_client_maximum: bool, **chosen: Any) -> None:
    """Load-test a translation server: dragoman, an OpenAI-compatible one, LibreTranslate, DeepL.

    Latency counts from when a request was meant to be sent. Failures are counted, never dropped. Ctrl-C keeps what was
    measured.
    """
    plan = _plan(chosen)
    if find_client_maximum:
        _tell_maximum(observed(partial(_maximum, plan)), out, as_json)
        return
    results = observed(partial(_benchmark, plan))
    if out is not None:
        write_results(results, out)
    click.echo(markdown(results))
    if as_json:
        click.echo(json.dumps(to_document(results, rows=False), ensure_ascii=False))
    if results.partial:
        click.get_current_context().exit(INTERRUPTED)


async def _benchmark(plan: Plan, observer: Observer) -> Results:
    async with prepared(plan) as bench:
        with interrupts(signal.SIGINT) as interrupted:
            return await bench.run(observer, interrupted)


async def _maximum(plan: Plan, observer: Observer) -> ClientMaximum:
    with interrupts(signal.SIGINT) as interrupted:
        return await find_client_maximum(plan, observer, interrupted)


def _tell_maximum(maximum: ClientMaximum, out: Path | None, as_json: bool) -> None:
    document = json.dumps(asdict(maximum))
    if out is not None:
        out.write_text(document + "\n", encoding="utf-8")
    click.echo("| clients | req/s | client CPU |\n| ---: | ---: | ---: |")
    for step in maximum.steps:
        click.echo(f"| {step.clients} | {step.rps:g} | {step.cpu_share:.0%} |")
    most = "more than" if maximum.lower_bound else "at most"
    click.echo(f"\nThis client sends {most} {maximum.rps:g} requests a second ({maximum.processes} processes).")
    if maximum.lower_bound:
        click.echo("It was not kept busy: the server was the limit.")
    if as_json:
        click.echo(document)


def _plan(chosen: dict[str, Any]) -> Plan:
    """The plan that the options ask for. Raises ConfigError."""
    loads = forms.loads(
        chosen["concurrency"],
        chosen["rate"],
        chosen["ramp"],
        chosen["replay"],
        arrivals=chosen["arrivals"],
        time_scale=chosen["time_scale"],
    )
    return Plan(
        url=chosen["url"],
        target=_target(chosen),
        workload=_workload(chosen),
        loads=loads,
        requests=_requests(chosen),
        duration_s=chosen["duration"],
        warmup=forms.warmup(chosen["warmup"]),
        repeats=chosen["repeats"],
        timeout_s=chosen["timeout"],
        slo=parse_slo(chosen["slo"]) if chosen["slo"] is not None else None,
        seed=chosen["seed"],
        texts=chosen["texts"],
        processes=chosen["client_processes"],
        connections=chosen["max_connections"],
        stats=None if chosen["stats"] == "none" else chosen["stats"],
        gpus=forms.gpus(chosen["gpus"]),
        sample_every_s=chosen["sample_every_ms"] / 1000,
        saturation_after_s=chosen["saturation_after"] if chosen["saturation"] else None,
        client_maximum_rps=chosen["client_maximum"],
    )


def _requests(chosen: dict[str, Any]) -> int | None:
    requests, duration = chosen["requests"], chosen["duration"]
    if requests is not None and duration is not None and not chosen["ramp"]:
        raise ConfigError("--requests and --duration exclude each other", param="duration")
    if requests is None and duration is None and not chosen["replay"]:
        return None if chosen["ramp"] else DEFAULT_REQUESTS
    return cast(int | None, requests)


def _target(chosen: dict[str, Any]) -> TargetOptions:
    if chosen["force_output_ratio"] is not None and chosen["target"] not in STREAMING:
        raise ConfigError(f"{chosen['target']} cannot be told output lengths", param="force_output_ratio")
    return TargetOptions(
        kind=chosen["target"],
        stream=chosen["stream"],
        api_key=chosen["api_key"],
        model=chosen["model"],
        system=chosen["system_prompt"],
        user=chosen["user_prompt"],
        sampling=Sampling(chosen["max_tokens"], chosen["temperature"]),
        forced=True if chosen["force_output_ratio"] is not None else None,
    )


def _workload(chosen: dict[str, Any]) -> Workload:
    tokens_of, tokens_are = token_counter(chosen["tokenizer"])
    texts = partial(PhrasebookTexts, tokens_of=tokens_of)
    ratio, seed, name = forms.output_ratio(chosen["force_output_ratio"]), chosen["seed"], chosen["workload"]
    if name not in ("uniform", "variable"):
        pairs = parse_pairs(chosen["pairs"]) if chosen["pairs"] is not None else None
        return read_workload(Path(name), Reading(pairs, tokens_of, texts, seed, ratio))
    pairs = parse_pairs(chosen["pairs"] if chosen["pairs"] is not None else DEFAULT_PAIRS)
    low, high = forms.interval(chosen["tokens"] or ("60" if name == "uniform" else "10..200"), "--tokens")
    return MadeUp(name, round(low), round(high), pairs, texts, tokens_of, tokens_are, seed, ratio)
