"""Streams beside whole answers, and beside `vllm serve`, at many clients: requests a second, latencies, gaps, CPU of the server.

    PYTHONPATH=src python benchmarks/streams.py --model DIR --profile NAME --clients 256,768 \
        --servers dragoman,vllm,vllm:api-server-count=4,vllm:api-server-count=4+stream-interval=auto \
        --time-limit 540 --out results/streams-1.8b.json

The servers run in turn on the same card, each started once for all of its loads: `dragoman serve` and `vllm serve` with their
own defaults (but for the model's window, and without `vllm serve`'s log of accesses), and with the flags after a colon.
`dragoman@DIR` runs the source tree DIR instead of this one. `elsewhere` is one `vllm serve` that is measured twice at each load: directly, and
through a dragoman without an engine in front of it (`--engine-url`). `stream-interval=auto` is the number of tokens that an event of the
first `dragoman` had, at the first number of clients: equally many events.

Each load is one closed loop: `--warmup` seconds, then `--windows` windows of `--window` seconds at the same load. A request
belongs to the window in which it ended. Given are the windows' medians and ranges. Weights are random and the outputs' lengths
forced: they vary with those of the texts, 10 to 200 tokens, and have the mean `--output-tokens`. All servers get the same texts. CPU is of the server's processes
without vLLM's engine, and of the engine's.

`--time-limit` bounds the whole run: a server or a load starts only if it can end within it. Results are written after each load.
The last line of stdout is the JSON document without its windows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from bisect import bisect_left
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from time import monotonic, time
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

import dragoman
from dragoman.cli.console import error_console
from dragoman.errors import DragomanError
from dragoman_bench.bench.benchmark import Plan, Warmup, prepared
from dragoman_bench.bench.measurement import Measurement
from dragoman_bench.bench.progress import Observer, interrupts, observed
from dragoman_bench.bench.results import Load, RequestRecord
from dragoman_bench.bench.servers import (
    Interrupted,
    RunningServer,
    ServerCommand,
    dragoman_serve,
    serving,
    vllm_uses_gpu,
)
from dragoman_bench.bench.summary import nearest_rank
from dragoman_bench.cli.subject import make_subject
from dragoman_bench.journey.measure import make_workloads
from dragoman_bench.journey.steps import CPU_KV_CACHE_BYTES, Step, Subject, command_of, target_of
from replicas import numbers, process_name

STOP_S = 15.0  # to stop a server, kept free of the time limit
START_S = {True: 100.0, False: 60.0}  # of a server, with a GPU and without: one starts only if so much is left
OVERHEAD_S = 6.0  # of a load: texts, client processes, and the requests that end after it
ENGINE = ("EngineCore", "Worker")  # in the titles of vLLM's processes
MODES = ("answers", "streams")


@dataclass(frozen=True)
class Server:
    """One server of `--servers`: `kind[@tree][:flag=value[+flag=value]]`."""

    name: str
    kind: str
    tree: str
    flags: dict[str, str]

    @classmethod
    def parse(cls, name: str) -> Server:
        program, _, given = name.partition(":")
        kind, _, tree = program.partition("@")
        flags = dict(one.partition("=")[::2] for one in given.split("+") if one)
        if kind not in ("dragoman", "vllm", "elsewhere") or (tree and kind != "dragoman") or not all(flags.values()):
            raise argparse.ArgumentTypeError(
                f"{name!r} is not like dragoman, dragoman@DIR, elsewhere or vllm:flag=value+flag=value"
            )
        return cls(name, kind, tree, flags)

    def command(self, subject: Subject, flags: dict[str, str], engine_log: Path) -> ServerCommand:
        kind = "dragoman" if self.kind == "dragoman" else "vllm"
        own: dict[str, Any] = {"disable-uvicorn-access-log": True} if kind == "vllm" else {}
        if not vllm_uses_gpu():
            own["kv-cache-memory-bytes"] = CPU_KV_CACHE_BYTES
        command = command_of(Step(self.name, self.name, kind, {**own, **flags}, ()), subject, engine_log)
        return self.placed(command)

    def front_of(self, url: str, subject: Subject, engine_log: Path) -> ServerCommand:
        """A dragoman without an engine, in front of the `vllm serve` at `url`."""
        known = {name: value for name, value in subject.dragoman.items() if name in ("model", "profile")}
        flags = {**known, "engine-url": url, "remote-slots": 1024}
        return self.placed(dragoman_serve(self.name, flags, engine_log))

    def placed(self, command: ServerCommand) -> ServerCommand:
        """With its source tree. A server works in the folder of its log, where relative paths would be others."""
        own_tree, given = Path(dragoman.__file__).parents[1], os.environ.get("PYTHONPATH", "").split(os.pathsep)
        paths = [Path(one).resolve() for one in (self.tree or own_tree, *filter(None, given))]
        return replace(command, environment={**command.environment, "PYTHONPATH": os.pathsep.join(map(str, paths))})


def cpu_s(server: RunningServer) -> tuple[float, float]:
    """CPU seconds so far of a server's processes without its engine's, and of the engine's."""
    own_s = engine_s = 0.0
    for process in server.tree():
        with suppress(psutil.Error):
            times = process.cpu_times()
            if any(title in process_name(process) for title in ENGINE):
                engine_s += times.user + times.system
            else:
                own_s += times.user + times.system
    return own_s, engine_s


@dataclass
class CpuTimes(Observer):
    """CPU seconds of a server's processes over the time of a load, as its requests are sent."""

    inner: Observer
    server: RunningServer
    began_s: float = 0.0
    read: list[tuple[float, float, float]] = field(default_factory=list[tuple[float, float, float]])

    def phase(self, label: str, total: int | None) -> None:
        self.began_s = monotonic()
        self.read.clear()
        self.inner.phase(f"{self.server.command.name}: {label}", total)

    def update(self, done: int, failed: int, in_flight: int) -> None:
        self.inner.update(done, failed, in_flight)
        if not self.read or monotonic() - self.began_s - self.read[-1][0] >= 0.5:
            self.read.append((monotonic() - self.began_s, *cpu_s(self.server)))

    def between(self, began_s: float, ended_s: float) -> tuple[float, float] | None:
        """(server, engine) CPU seconds a second between two times of the load; None where they were not read."""
        times = [at_s for at_s, *_ in self.read]
        first, last = bisect_left(times, began_s), min(bisect_left(times, ended_s), len(times) - 1)
        if last <= first:
            return None
        (from_s, *before), (to_s, *after) = self.read[first], self.read[last]
        own, engine = ((later - earlier) / (to_s - from_s) for earlier, later in zip(before, after, strict=True))
        return own, engine


def percentile_ms(values_s: Sequence[float | None], percent: float) -> float | None:
    known = [value for value in values_s if value is not None]
    return round(1000 * nearest_rank(known, percent), 2) if known else None


def window_of(records: Sequence[RequestRecord], began_s: float, ended_s: float, cpu: CpuTimes) -> dict[str, Any]:
    """One window in numbers."""
    ended = [one for one in records if began_s <= one.done_s < ended_s and one.error != "unfinished"]
    good = [one for one in ended if one.completed]
    shares, rps = cpu.between(began_s, ended_s), len(good) / (ended_s - began_s)
    tokens = sum(one.output_tokens or 0 for one in good)
    events = sum(one.itl_count + 1 for one in good if one.first_token_s is not None)
    return {
        "requests": len(good),
        "errors": len(ended) - len(good),
        "requests_per_s": round(rps, 2),
        "output_tokens_per_s": round(tokens / (ended_s - began_s), 1),
        "p50_ms": percentile_ms([one.e2e_s for one in good], 50),
        "p99_ms": percentile_ms([one.e2e_s for one in good], 99),
        "ttft_p50_ms": percentile_ms([one.ttft_s for one in good], 50),
        "ttft_p99_ms": percentile_ms([one.ttft_s for one in good], 99),
        "time_per_token_p50_ms": percentile_ms([one.tpot_s for one in good], 50),
        "longest_gap_p50_ms": percentile_ms([one.itl_max_s for one in good], 50),
        "longest_gap_p99_ms": percentile_ms([one.itl_max_s for one in good], 99),
        "tokens_per_event": round(tokens / events, 2) if events else None,
        "server_cpu_share": round(shares[0], 3) if shares else None,
        "engine_cpu_share": round(shares[1], 3) if shares else None,
        "server_cpu_ms_per_request": round(1000 * shares[0] / rps, 3) if shares and rps else None,
    }


def summary_of(windows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of each number: median, lowest, highest; None where a window lacks it. Errors are added up."""
    found: dict[str, Any] = {}
    for name in windows[0]:
        values = [window[name] for window in windows]
        found[name] = None if None in values else [median(values), min(values), max(values)]
    return {**found, "errors": sum(window["errors"] for window in windows)}


class Streams:
    """Starts the servers in turn and measures their loads, into the rows of a document."""

    def __init__(self, options: argparse.Namespace, found: Measurement, observer: Observer) -> None:
        self.options, self.found, self.document, self.observer = options, found, found.data, observer
        self.end_s: float = options.began_s + options.time_limit
        self.load_s: float = options.warmup + options.windows * options.window
        subject = make_subject(options.model, options.profile, "dummy", options.max_model_len)
        sample = make_workloads(subject)["variable"].items(1000, 0)
        longer = options.output_tokens * len(sample) / sum(item.output_tokens or 0 for item in sample)
        low, high = subject.forced or (1.0, 1.0)
        self.subject = replace(subject, forced=(round(low * longer, 3), round(high * longer, 3)))
        self.workload = make_workloads(self.subject)["variable"]
        found.conditions |= {"workload": self.workload.description, "model": self.subject.describe("dragoman")}

    async def run(self, interrupted: asyncio.Event) -> None:
        for number, server in enumerate(self.options.servers):
            needed_s = START_S[vllm_uses_gpu()] + self.load_s + OVERHEAD_S + STOP_S
            if interrupted.is_set() or monotonic() + needed_s > self.end_s:
                self.document["not_measured"].append({"server": server.name})
                continue
            try:
                await self.measure_server(number, server, interrupted)
            except Interrupted:
                return
            except DragomanError as error:
                error_console.print(f"{server.name}: {error}", markup=False)
                self.document["failed"][server.name] = str(error)
            self.write()

    async def measure_server(self, number: int, server: Server, interrupted: asyncio.Event) -> None:
        folder = self.options.logs.resolve() / f"{number}-{server.kind}"
        flags = {name: self.interval() if value == "auto" else value for name, value in server.flags.items()}
        command = server.command(self.subject, flags, folder / "engine.log")
        self.observer.phase(f"starting {server.name}", None)
        left_s = self.end_s - STOP_S - monotonic()
        async with serving(command, folder / "server.log", interrupted, deadline_s=left_s) as running:
            self.document["servers"][server.name] = {"start_s": running.start_s, "flags": flags}
            error_console.print(f"{server.name} answers after {running.start_s:.0f} s", markup=False)
            if server.kind != "elsewhere":
                await self.measure_loads({server.name: (server.kind, running)}, interrupted)
                return
            front = server.front_of(running.url, self.subject, folder / "front.log")
            async with serving(front, folder / "front-server.log", interrupted, deadline_s=left_s) as dragoman_running:
                asked = {"vllm, directly": ("vllm", running), "dragoman, elsewhere": ("dragoman", dragoman_running)}
                await self.measure_loads(asked, interrupted)

    async def measure_loads(self, asked: dict[str, tuple[str, RunningServer]], interrupted: asyncio.Event) -> None:
        """Each load of each server, by its name in the rows, with its kind: at each load in turn."""
        loads = [
            (place, clients, mode) for place, clients in enumerate(self.options.clients) for mode in self.options.modes
        ]
        for place, clients, mode in loads:
            for name, (kind, running) in asked.items():
                if interrupted.is_set():
                    return
                if monotonic() + self.load_s + OVERHEAD_S + STOP_S > self.end_s:
                    self.document["not_measured"].append({"server": name, "clients": clients, "mode": mode})
                    continue
                texts = 2 * place + MODES.index(mode)
                await self.measure(name, kind, running, texts, clients, mode, interrupted)
                running.check_alive()

    def interval(self) -> str:
        """Tokens of an event of the first dragoman."""
        rows = (
            row for row in self.document["rows"] if row["server"].startswith("dragoman") and row["mode"] == "streams"
        )
        row = next(rows, None)
        if row is None or row["tokens_per_event"] is None:
            raise DragomanError("stream-interval=auto needs streams of a dragoman before it")
        return str(max(1, round(row["tokens_per_event"][0])))

    async def measure(
        self,
        name: str,
        kind: str,
        running: RunningServer,
        texts: int,
        clients: int,
        mode: str,
        interrupted: asyncio.Event,
    ) -> None:
        """`texts`: which; the same for all servers."""
        options, load = self.options, Load("closed", clients=clients)
        step = Step(name, name, "vllm" if kind == "vllm" else "dragoman", {}, ())
        plan = Plan(
            url=running.url,
            target=replace(target_of(step, self.subject), stream=mode == "streams"),
            workload=replace(self.workload, first_variation=texts),
            loads=(load,),
            duration_s=self.load_s,
            warmup=Warmup(),
            timeout_s=120.0,
            texts=round(min(options.most_rps, 5.0 * clients) * self.load_s),
            processes=min(options.client_processes, clients),
            sample_every_s=2.0,  # statistics take the server's time
        )
        cpu = CpuTimes(self.observer, running)
        async with prepared(plan) as bench:
            measurement = await bench.measure(0, 0, cpu, interrupted)
        if measurement is None or measurement.stopped == "interrupted":
            return
        starts_s = [options.warmup + number * options.window for number in range(options.windows)]
        windows = [window_of(measurement.records, at_s, at_s + options.window, cpu) for at_s in starts_s]
        row = {"server": name, "mode": mode, "clients": clients, **summary_of(windows)}
        row |= {"distinct_texts": measurement.distinct_texts, "client_cpu_share": measurement.client.cpu_share}
        self.document["rows"].append({**row, "windows": windows})
        rps, p99_ms = (row[name][0] if row[name] else 0.0 for name in ("requests_per_s", "p99_ms"))
        error_console.print(f"{name}, {clients} {mode}: {rps:.1f} requests/s, p99 {p99_ms:.0f} ms", markup=False)
        self.write()

    def write(self) -> None:
        self.found.write(self.options.out)


COLUMNS = {
    "requests_per_s": "requests/s",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "ttft_p50_ms": "TTFT p50 ms",
    "longest_gap_p99_ms": "longest gap p99 ms",
    "output_tokens_per_s": "tokens/s",
    "tokens_per_event": "tokens/event",
    "server_cpu_ms_per_request": "CPU ms/request",
    "server_cpu_share": "of a core",
}


def table(document: dict[str, Any]) -> Table:
    """A row for each load of each server: the windows' medians, of requests/s their range too."""
    made = Table(title="Servers in turn, in one run")
    for name in ("server", "clients", "mode", *COLUMNS.values(), "errors"):
        made.add_column(name)
    for row in document["rows"]:
        shown = [f"{row[name][0]:,.4g}" if row[name] else "" for name in COLUMNS]
        if row["requests_per_s"]:
            shown[0] += " ({:,.4g} to {:,.4g})".format(*row["requests_per_s"][1:])
        made.add_row(row["server"], str(row["clients"]), row["mode"], *shown, str(row["errors"]))
    return made


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    servers = "dragoman,vllm,vllm:api-server-count=4,vllm:api-server-count=4+stream-interval=auto"
    parser.add_argument("--servers", default=servers, help=f"default: {servers}")
    parser.add_argument("--model", default="", help="default: the packaged phrasebook's shape")
    parser.add_argument("--profile", default="")
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--clients", type=numbers, default=[256, 768], help="in this order; default: 256,768")
    parser.add_argument("--modes", default=",".join(MODES), help=f"default: {','.join(MODES)}")
    parser.add_argument("--client-processes", type=int, default=6)
    parser.add_argument("--warmup", type=float, default=6.0, help="seconds of each load before its windows")
    parser.add_argument("--window", type=float, default=10.0, help="seconds")
    parser.add_argument("--windows", type=int, default=2)
    parser.add_argument("--output-tokens", type=float, default=106.0, help="mean of a request")
    parser.add_argument(
        "--most-rps", type=float, default=400.0, help="so many different texts a second; then they repeat"
    )
    parser.add_argument("--time-limit", type=float, default=3600.0, help="seconds of the whole run")
    parser.add_argument("--logs", type=Path, default=Path(".dragoman/streams"))
    parser.add_argument("--out", type=Path, help="results file (JSON)")
    options = parser.parse_args()
    try:
        options.servers = [Server.parse(name) for name in options.servers.split(",") if name]
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    options.modes = [mode for mode in options.modes.split(",") if mode]
    if unknown := set(options.modes) - set(MODES):
        parser.error(f"no mode {', '.join(sorted(unknown))}; there are {', '.join(MODES)}")
    options.began_s = monotonic() - (time() - psutil.Process().create_time())
    return options


def conduct(
    found: Measurement, out: Path | None, run: Callable[[Observer, asyncio.Event], Coroutine[Any, Any, None]]
) -> None:
    """Run an experiment with progress until its end or an interruption, and write what it found, also where it fails."""

    async def measure(observer: Observer) -> None:
        with interrupts() as interrupted:
            try:
                await run(observer, interrupted)
            finally:
                found.partial = interrupted.is_set() or bool(found.data["not_measured"] or found.data["failed"])
                found.write(out)

    try:
        observed(measure)
    except DragomanError as error:
        error_console.print(str(error), markup=False)


def main() -> None:
    options = parsed()
    named = ("warmup", "window", "windows", "client_processes", "output_tokens", "most_rps")
    found = Measurement.begin("streams", **{name: getattr(options, name) for name in named})
    document = found.data
    document |= {"servers": {}, "failed": {}, "not_measured": [], "rows": []}

    conduct(found, options.out, lambda observer, interrupted: Streams(options, found, observer).run(interrupted))
    if not document["rows"]:
        raise SystemExit("nothing was measured")
    Console(width=180).print(table(document))
    rows = [{name: value for name, value in row.items() if name != "windows"} for row in document["rows"]]
    print(json.dumps({**found.document, "rows": rows}))


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
