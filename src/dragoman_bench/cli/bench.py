"""`dragoman bench`: load-tests a translation server and reports the numbers with the conditions of the measurement.

stdout has the table and, with --json, one JSON document as its last line; progress goes to stderr.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import click

from dragoman.errors import ConfigError
from dragoman_bench.bench.benchmark import Plan, Warmup, prepared
from dragoman_bench.bench.client import KINDS, TargetOptions
from dragoman_bench.bench.progress import INTERRUPTED, Observer, interrupts, observed
from dragoman_bench.bench.results import Load, Results, without_rows, write_results
from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.bench.tables import results_markdown
from dragoman_bench.bench.workload import (
    GeneratedWorkload,
    PhrasebookTexts,
    Workload,
    parse_pairs,
    read_workload,
    token_counter,
)
from dragoman_bench.cli.options import api_key_option

DEFAULT_PAIRS = "en-ja:3,en-ko:1,zh-en:1"
DEFAULT_REQUESTS = 100
POSITIVE = click.FloatRange(0, min_open=True)
FILE = click.Path(path_type=Path, dir_okay=False)


# fmt: off
@click.command("bench")
@click.option("--url", default="http://127.0.0.1:8000", show_default=True, help="The server to measure.")
@click.option("--target", type=click.Choice(KINDS), default="dragoman", show_default=True, help="Its API.")
@click.option("--stream", is_flag=True,
              help="Request streamed answers; TTFT and inter-token latency are measured too.")
@api_key_option("Not stored with results.")
@click.option("--model", help="Model name for OpenAI-compatible servers.  [default: the first it lists]")
@click.option("--workload", default="variable", show_default=True, metavar="uniform|variable|FILE",
              help="Generated texts of one length or of many, or a JSONL file.")
@click.option("--pairs", metavar="MIX",
              help=f"Language pairs of generated texts, with weights.  [default: {DEFAULT_PAIRS}]")
@click.option("--tokens", metavar="N|LOW..HIGH", help="Source tokens.  [default: 60 uniform, 10..200 variable]")
@click.option("--tokenizer", type=FILE, help="tokenizer.json that counts source tokens.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed sends the same texts.")
@click.option("--concurrency", metavar="N,...", help="Closed loop: clients, one load level each.  [default: 8]")
@click.option("--rate", metavar="R,...", help="Open loop: requests per second, one load level each.")
@click.option("--arrivals", type=click.Choice(["poisson", "constant"]), default="poisson", show_default=True,
              help="Arrival process of --rate.")
@click.option("--replay", is_flag=True,
              help="Open loop: send a trace (`dragoman traffic export`) at its recorded times.")
@click.option("--requests", type=click.IntRange(1),
              help=f"Requests of each measurement.  [default: {DEFAULT_REQUESTS}]")
@click.option("--duration", type=POSITIVE, metavar="SECONDS", help="Length of each measurement instead.")
@click.option("--warmup", default="10", show_default=True, metavar="N|Ns",
              help="Requests, or seconds with an s, before each measurement; not counted.")
@click.option("--repeats", type=click.IntRange(1), default=1, show_default=True,
              help="Measurements of each load level; 3 and more show a spread.")
@click.option("--timeout", type=POSITIVE, default=60.0, show_default=True, metavar="SECONDS",
              help="Of one request, from its intended send.")
@click.option("--client-processes", type=click.IntRange(1), default=1, show_default=True,
              help="Processes that send requests.")
@click.option("--slo", metavar="LIMITS",
              help="For example p95_s=2,ttft_ms_p95=300 (over all requests) or e2e_s=2 (for each).")
@click.option("--out", type=FILE, help="Results file (JSON, compressed where it ends in .gz).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document as the last line of stdout.")
def command(out: Path | None, as_json: bool, **options: Any) -> None:
    """Load-test a translation server: dragoman, an OpenAI-compatible server, LibreTranslate or DeepL.

    Latency counts from the intended send time of a request. Failures are counted, never dropped. Ctrl-C stops and keeps all
    measurements.
    """
    plan = make_plan(options)

    async def measure(observer: Observer) -> Results:
        async with prepared(plan) as bench:
            with interrupts(signal.SIGINT) as interrupted:
                return await bench.run(observer, interrupted)

    results = observed(measure)
    if out is not None:
        write_results(results, out)
    click.echo(results_markdown(results))
    if as_json:
        click.echo(json.dumps(without_rows(results), ensure_ascii=False))
    if results.partial:
        click.get_current_context().exit(INTERRUPTED)
# fmt: on


def make_plan(options: Mapping[str, Any]) -> Plan:
    """Make a plan of the command's options, by their parameters' names. Raises ConfigError."""
    requests, duration_s = options["requests"], options["duration"]
    if requests is not None and duration_s is not None:
        raise ConfigError("--requests and --duration exclude each other", param="duration")
    if requests is None and duration_s is None and not options["replay"]:
        requests = DEFAULT_REQUESTS
    target = TargetOptions(options["target"], options["stream"], options["api_key"], options["model"])
    return Plan(
        url=options["url"],
        target=target,
        workload=_workload(options),
        loads=load_levels(options),
        requests=requests,
        duration_s=duration_s,
        warmup=parse_warmup(options["warmup"]),
        repeats=options["repeats"],
        timeout_s=options["timeout"],
        slo=parse_slo(options["slo"]) if options["slo"] is not None else None,
        seed=options["seed"],
        processes=options["client_processes"],
    )


def _workload(options: Mapping[str, Any]) -> Workload:
    tokens_of, tokens_are = token_counter(options["tokenizer"])
    texts, name = partial(PhrasebookTexts, tokens_of=tokens_of), options["workload"]
    if name not in ("uniform", "variable"):
        return read_workload(Path(name), tokens_of, texts(options["seed"]))
    low, high = interval(options["tokens"] or ("60" if name == "uniform" else "10..200"), "--tokens")
    return GeneratedWorkload(
        name=name,
        low=round(low),
        high=round(high),
        pairs=parse_pairs(options["pairs"] if options["pairs"] is not None else DEFAULT_PAIRS),
        texts=texts,
        tokens_of=tokens_of,
        tokens_are=tokens_are,
        seed=options["seed"],
    )


def load_levels(options: Mapping[str, Any]) -> tuple[Load, ...]:
    """Return the load levels of a run: a sweep over clients or rates, or one replay. Raises ConfigError."""
    given = [f"--{name}" for name in ("concurrency", "rate", "replay") if options[name]]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} exclude each other", param=given[1])
    if options["rate"]:
        return tuple(Load(options["arrivals"], rate_rps=value) for value in numbers(options["rate"], "--rate"))
    if options["replay"]:
        return (Load("replay"),)
    clients = whole_numbers(options["concurrency"] or "8", "--concurrency")
    return tuple(Load("closed", clients=value) for value in clients)


def parse_warmup(text: str) -> Warmup:
    """Parse a warm-up: `20` requests, `10s` seconds, `0` none. Raises ConfigError."""
    if text in ("0", "0s"):
        return Warmup()
    if text.endswith("s"):
        return Warmup(duration_s=numbers(text[:-1], "--warmup")[0])
    return Warmup(requests=whole_numbers(text, "--warmup")[0])


def interval(text: str, option: str) -> tuple[float, float]:
    """Parse `low..high`, or one number for both. Raises ConfigError with the option's name."""
    low, dots, high = text.partition("..")
    ends = numbers(low, option)[0], numbers(high if dots else low, option)[0]
    if ends[0] > ends[1]:
        raise ConfigError(f"{option} {text!r}: the first number must not be above the second", param=option)
    return ends


def whole_numbers(text: str, option: str) -> tuple[int, ...]:
    """Parse whole numbers such as `1,2,4,8`. Raises ConfigError with the option's name."""
    found = numbers(text, option)
    if any(value != int(value) for value in found):
        raise ConfigError(f"{option} {text!r}: the numbers must be whole", param=option)
    return tuple(map(int, found))


def numbers(text: str, option: str) -> tuple[float, ...]:
    """Parse one or more numbers above 0, separated by commas. Raises ConfigError with the option's name."""
    try:
        found = tuple(float(term) for term in text.split(",") if term.strip())
    except ValueError:
        found = ()
    if not found or not all(0 < value < inf for value in found):
        raise ConfigError(f"{option} {text!r}: specify one or more numbers above 0", param=option)
    return found
