"""Several engines on one GPU: requests a second, how busy the GPU is, equal outputs, and what a killed process costs.

    python benchmarks/shared_gpu.py --model DIR --profile NAME --time-limit 1500 --out results/shared-gpu.json \
        --server one=dragoman:kv-cache-memory-bytes=6442450944 \
        --server two=dragoman:replicas=2/gpu+gpu-memory-utilization=0.3 \
        start:two start:one equal:one,one,two answers:one,two:256,768:3 kill-engine:two:256 stop:one

`--server` names a server, as streams.py describes one; a flag `env.NAME=value` is a variable of its environment. Then come the
steps, in their order:

    start:A,B                   start servers, at the same time; they run until they are stopped
    answers:A,B:64,256:3        whole answers: closed loops of 64 and 256 clients, three turns of each server
    streams:A,B:64,256:3        the same with streamed answers
    equal:A,A,B                 the same texts to each, by 16 clients: how many outputs are equal, and of how many different
                                words they are (random weights may give one word over and over, which says nothing)
    kill-engine:A:256           SIGKILL to one engine's process under load
    kill-daemon:A:256           SIGKILL to the daemon of CUDA MPS under load
    kill-mps-server:A:256       SIGKILL to the daemon's server, through which the engines compute
    kill-replica:A:256          SIGKILL to the process of one dragoman server
    stop:A,B                    stop servers

Servers that run side by side need memory beside each other: give each a `gpu-memory-utilization` or a KV cache. In every second
turn the servers take their turns in reverse; all get the same texts. Weights are random and the outputs' lengths forced, as in
streams.py. Each load lasts `--warmup` and `--window` seconds; a request counts if it ended in the window. The GPU's use is
NVML's: the share of time in which a kernel ran.

`--time-limit` bounds the whole run: a load starts only if it can end within it. Results are written after each step, and a step
that fails is noted, so that the next ones still run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from statistics import median
from time import monotonic, time
from typing import Any

import aiohttp
import psutil
from rich.console import Console
from rich.table import Table
from streams import CpuTimes, Server, conduct, window_of

from dragoman.cli.console import error_console
from dragoman.errors import DragomanError
from dragoman_bench.bench.benchmark import Plan, Warmup, prepared, resolve
from dragoman_bench.bench.client import make_target, open_session
from dragoman_bench.bench.measurement import Measurement
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.results import Load, Repeat, RequestRecord
from dragoman_bench.bench.servers import Interrupted, RunningServer, serving
from dragoman_bench.bench.workload import CachedWorkload
from dragoman_bench.cli.subject import make_subject
from dragoman_bench.journey.measure import make_workloads
from dragoman_bench.journey.steps import Step, Subject, target_of
from replicas import Replicas, numbers, process_name

STOP_S = 20.0  # to stop the servers, kept free of the time limit
OVERHEAD_S = 4.0  # of a load: texts, client processes, and the requests that end after it
EQUAL_CLIENTS = 16
LOADS = {"answers": False, "streams": True}
VICTIMS = {
    "kill-engine": "EngineCore",
    "kill-daemon": "nvidia-cuda-mps-control",
    "kill-mps-server": "nvidia-cuda-mps-server",
    "kill-replica": "ServeReplica",
}
BEFORE_KILL_S, AFTER_RECOVERY_S = 8.0, 8.0


@dataclass(frozen=True)
class Work:
    """One step: `verb:servers[:clients[:turns]]`."""

    verb: str
    servers: tuple[str, ...]
    clients: tuple[int, ...] = ()
    turns: int = 1

    @classmethod
    def parse(cls, text: str) -> Work:
        verb, servers, clients, turns, *more = [*text.split(":"), "", "", ""][: max(4, text.count(":") + 1)]
        if verb not in ("start", "stop", "equal", *LOADS, *VICTIMS) or not servers or more:
            raise argparse.ArgumentTypeError(f"{text!r} is not like start:A,B or answers:A,B:64,256:3")
        return cls(verb, tuple(servers.split(",")), tuple(numbers(clients)) if clients else (), int(turns or 1))


@dataclass
class Timeline(CpuTimes):
    """Also notes when the requests of a load begin."""

    zero_s: float = 0.0
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    def update(self, done: int, failed: int, in_flight: int) -> None:
        super().update(done, failed, in_flight)
        if not self.begun.is_set():
            self.zero_s = monotonic()
            self.begun.set()


@dataclass
class Running:
    """A server that runs, and what ends it."""

    server: RunningServer
    subject: Subject
    step: Step
    ending: AsyncExitStack
    engines: int = 1
    victims: Replicas = field(init=False)

    def __post_init__(self) -> None:
        self.victims = Replicas(self.server)

    async def is_whole(self) -> bool:
        """Whether all of its engines are ready."""
        if self.engines > 1:
            return await self.victims.ready() >= self.engines
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
            with suppress(aiohttp.ClientError, TimeoutError):
                async with session.get(f"{self.server.url}/readyz") as answer:
                    return answer.status == 200
        return False


class Experiment:
    """Runs the steps, and writes what they find into a document."""

    def __init__(self, options: argparse.Namespace, found: Measurement, observer: Observer) -> None:
        self.options, self.found, self.document, self.observer = options, found, found.data, observer
        self.end_s: float = options.began_s + options.time_limit - STOP_S
        self.running: dict[str, Running] = {}
        subject = make_subject(options.model, options.profile, "dummy", options.max_model_len)
        sample = make_workloads(subject)["variable"].items(1000, 0)
        longer = options.output_tokens * len(sample) / sum(item.output_tokens or 0 for item in sample)
        low, high = subject.forced or (1.0, 1.0)
        self.subject = replace(subject, forced=(round(low * longer, 3), round(high * longer, 3)))
        self.workload: CachedWorkload = make_workloads(self.subject)["variable"]
        self.texts: dict[int, CachedWorkload] = {}
        found.conditions |= {"workload": self.workload.description, "model": self.subject.describe("dragoman")}

    async def run(self, interrupted: asyncio.Event) -> None:
        verbs = {"start": self.start, "stop": self.stop, "equal": self.equal}
        verbs |= dict.fromkeys(LOADS, self.load) | dict.fromkeys(VICTIMS, self.kill)
        try:
            for number, work in enumerate(self.options.steps):
                if interrupted.is_set():
                    return
                try:
                    await verbs[work.verb](work, number, interrupted)
                except Interrupted:
                    return
                except (DragomanError, aiohttp.ClientError, TimeoutError) as error:
                    self.fail(f"{number}: {work.verb} {','.join(work.servers)}", repr(error), str(error))
                self.write()
        finally:
            await self.stop(Work("stop", tuple(self.running)), 0, interrupted)

    def fail(self, step: str, short: str, message: str) -> None:
        error_console.print(f"{step}: {message}", markup=False)
        self.document["failed"][step] = message or short

    def of(self, name: str) -> Running:
        """Raises `DragomanError` for a server that does not run."""
        if name not in self.running:
            raise DragomanError(f"{name} does not run")
        return self.running[name]

    def has_time(self, needed_s: float) -> bool:
        return monotonic() + needed_s < self.end_s

    # ---- servers

    async def start(self, work: Work, number: int, interrupted: asyncio.Event) -> None:
        results = await asyncio.gather(
            *(self.start_one(name, number, interrupted) for name in work.servers), return_exceptions=True
        )
        for name, failed in zip(work.servers, results, strict=True):
            if isinstance(failed, DragomanError | OSError):
                self.fail(f"{number}: start {name}", repr(failed), str(failed))
            elif failed is not None:
                raise failed

    async def start_one(self, name: str, number: int, interrupted: asyncio.Event) -> None:
        if not self.has_time(30.0):
            self.document["not_measured"].append({"step": number, "server": name})
            return
        server: Server = self.options.servers[name]
        flags = {flag: value for flag, value in server.flags.items() if not flag.startswith("env.")}
        environment = {flag[4:]: value for flag, value in server.flags.items() if flag.startswith("env.")}
        folder = self.options.logs.resolve() / f"{number}-{name}"
        command = server.command(self.subject, flags, folder / "engine.log")
        command = replace(command, name=name, environment={**command.environment, **environment})
        ending = AsyncExitStack()
        self.observer.phase(f"starting {name}", None)
        left_s = min(self.options.start_limit, self.end_s - monotonic())
        running = await ending.enter_async_context(
            serving(command, folder / "server.log", interrupted, deadline_s=left_s)
        )
        step = Step(name, name, "vllm" if server.kind == "vllm" else "dragoman", {}, ())
        engines = await replicas_of(running) if server.kind == "dragoman" else 1
        self.running[name] = Running(running, self.subject, step, ending, engines)
        self.document["servers"][name] = {"start_s": running.start_s, "flags": server.flags, "engines": engines}
        error_console.print(f"{name} answers after {running.start_s:.0f} s, {engines} engine(s)", markup=False)

    async def stop(self, work: Work, number: int, interrupted: asyncio.Event) -> None:
        ended = [self.running.pop(name) for name in work.servers if name in self.running]
        for one in ended:  # all drain at the same time
            with suppress(ProcessLookupError):
                one.server.process.send_signal(signal.SIGTERM)
        await asyncio.gather(*(one.ending.aclose() for one in ended))

    # ---- loads

    async def load(self, work: Work, number: int, interrupted: asyncio.Event) -> None:
        options = self.options
        needed_s = options.warmup + options.window + OVERHEAD_S
        for turn in range(work.turns):
            for clients, name in product(work.clients, work.servers[:: -1 if turn % 2 else 1]):
                where = {"step": number, "server": name, "mode": work.verb, "clients": clients, "turn": turn}
                if interrupted.is_set() or name not in self.running or not self.has_time(needed_s):
                    self.document["not_measured"].append(where)
                    continue
                await self.measure(where, interrupted)

    @asynccontextmanager
    async def bench(
        self, running: Running, texts: int, clients: int, mode: str, duration_s: float
    ) -> AsyncGenerator[Any]:
        """A load that is ready to be measured. `texts`: which; the same for all servers."""
        workload = self.texts.setdefault(texts, replace(self.workload, first_variation=texts, _made={}))
        plan = Plan(
            url=running.server.url,
            target=replace(target_of(running.step, self.subject), stream=LOADS[mode]),
            workload=workload,
            loads=(Load("closed", clients=clients),),
            duration_s=duration_s,
            warmup=Warmup(),
            timeout_s=180.0,
            texts=round(min(self.options.most_rps, 8.0 * clients) * min(duration_s, 20.0)),
            processes=min(self.options.client_processes, -(-clients // 32)),
            sample_every_s=1.0,
        )
        async with prepared(plan) as bench:
            yield bench

    async def measure(self, where: dict[str, Any], interrupted: asyncio.Event) -> None:
        options, running = self.options, self.running[where["server"]]
        clients, mode, turn = where["clients"], where["mode"], where["turn"]
        end_s = options.warmup + options.window
        times = Timeline(self.observer, running.server)
        async with self.bench(running, 10 * clients + 2 * turn + LOADS[mode], clients, mode, end_s) as bench:
            measurement: Repeat | None = await bench.measure(0, 0, times, interrupted)
        running.server.check_alive()
        if measurement is None or measurement.stopped == "interrupted":
            return
        row = (
            where
            | window_of(measurement.records, options.warmup, end_s, times)
            | of_engine(measurement, options.warmup)
        )
        self.document["rows"].append(row)
        self.write()
        error_console.print(
            f"{where['server']}, {clients} {mode}: {row['requests_per_s']:.1f} requests/s, p99 {row['p99_ms'] or 0:.0f} ms, GPU "
            f"{row['gpu_busy_percent']}%, engine {row['engine_cpu_share']}, server {row['server_cpu_share']}, "
            f"{row['errors']} errors, clients {measurement.client.cpu_share:.2f}",
            markup=False,
        )

    # ---- outputs

    async def equal(self, work: Work, number: int, interrupted: asyncio.Event) -> None:
        items = self.workload.items(self.options.equal_texts, 0)
        outputs: list[list[str]] = []
        for name in work.servers:
            running = self.of(name)
            async with open_session() as session:
                url = running.server.url
                target = make_target(await resolve(session, url, target_of(running.step, self.subject)))
                places, found = asyncio.Semaphore(EQUAL_CLIENTS), [""] * len(items)

                async def ask(place: int) -> None:
                    async with places, session.post(url + target.path, json=target.body(items[place])) as answer:  # noqa: B023
                        found[place] = target.whole(await answer.json()).text  # noqa: B023

                await asyncio.gather(*map(ask, range(len(items))))
            outputs.append(found)
        pairs = [(first, second) for first in range(len(outputs)) for second in range(first + 1, len(outputs))]
        self.document["equal"] = [
            {
                "servers": [work.servers[first], work.servers[second]],
                "texts": len(items),
                "equal": sum(a == b for a, b in zip(outputs[first], outputs[second], strict=True)),
                "words": len({word for text in outputs[first] for word in text.split()}),
            }
            for first, second in pairs
        ]
        error_console.print(f"equal outputs: {self.document['equal']}", markup=False)

    # ---- kills

    async def kill(self, work: Work, number: int, interrupted: asyncio.Event) -> None:
        """Kill a process of a server under load: what became of the calls, and when all of its engines were ready again."""
        (name,), (clients,) = work.servers, work.clients
        longest_s = min(self.options.kill_limit, self.end_s - monotonic() - OVERHEAD_S)
        running, stop = self.of(name), asyncio.Event()
        if longest_s < 3 * BEFORE_KILL_S:
            self.document["not_measured"].append({"step": number, "verb": work.verb, "server": name})
            return
        victim = next((one for one in running.server.tree() if VICTIMS[work.verb] in process_name(one)), None)
        if victim is None:
            raise DragomanError(f"{name} has no process {VICTIMS[work.verb]}")
        times = Timeline(self.observer, running.server)
        async with self.bench(running, 7 + number, clients, "answers", longest_s) as bench:
            measuring = asyncio.create_task(bench.measure(0, 0, times, stop))
            await asyncio.wait_for(times.begun.wait(), longest_s)
            began_s = monotonic()
            await asyncio.sleep(self.options.warmup + BEFORE_KILL_S)
            killed_s = monotonic()
            victim.kill()
            seen_broken_s = whole_s = None
            while monotonic() - began_s < longest_s and not interrupted.is_set() and not measuring.done():
                whole = await running.is_whole()
                if not whole and seen_broken_s is None:
                    seen_broken_s = monotonic()
                elif whole and seen_broken_s is not None:
                    whole_s = monotonic()
                    await asyncio.sleep(AFTER_RECOVERY_S)
                    break
                await asyncio.sleep(0.2)
            stop.set()
            measurement: Repeat | None = await measuring
        found: dict[str, Any] = {"verb": work.verb, "server": name, "clients": clients, "process": VICTIMS[work.verb]}
        found["first_not_ready_s"] = round(seen_broken_s - killed_s, 1) if seen_broken_s else None
        found["all_ready_again_s"] = round(whole_s - killed_s, 1) if whole_s else None
        if measurement is not None:
            found |= of_kill(measurement.records, killed_s - times.zero_s, self.options.warmup)
        self.document["kills"].append(found)
        error_console.print(f"{work.verb}: {found}", markup=False)

    def write(self) -> None:
        self.found.write(self.options.out)


async def replicas_of(server: RunningServer) -> int:
    """How many replicas a server reports; 1 where it has none."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
        async with session.get(f"{server.url}/v1/replicas") as answer:
            return len(await answer.json()) if answer.status == 200 else 1


def of_engine(measurement: Repeat, from_s: float) -> dict[str, Any]:
    """What NVML and the server reported after the warm-up."""
    busy = [one.utilisation_percent for one in measurement.gpu if one.t_s >= from_s]
    samples = [one for one in measurement.server if one.t_s >= from_s]
    preemptions = [one.preemptions for one in measurement.server if one.preemptions is not None]
    usage = [one.kv_cache_usage for one in samples if one.kv_cache_usage is not None]
    running = [one.running for one in samples if one.running is not None]
    return {
        "gpu_busy_percent": round(sum(busy) / len(busy), 1) if busy else None,
        "running_sequences": median(running) if running else None,
        "kv_cache_usage_max": round(max(usage), 3) if usage else None,
        "preemptions": preemptions[-1] - preemptions[0] if preemptions else None,
        "distinct_texts": measurement.distinct_texts,
        "client_cpu_share": measurement.client.cpu_share,
    }


def of_kill(records: Sequence[RequestRecord], killed_s: float, warmup_s: float) -> dict[str, Any]:
    """Answers in each second before and after a kill at `killed_s` of the load."""
    errors = [record.error for record in records if record.error not in (None, "unfinished")]
    ended = [record.done_s for record in records if record.completed]
    by_second = [0] * (int(max(ended, default=0.0)) + 1)
    for at_s in ended:
        by_second[int(at_s)] += 1
    first, last = int(warmup_s), int(killed_s)
    return {
        "killed_at_s": round(killed_s, 1),
        "answered": len(ended),
        "failed": len(errors),
        "errors": errors[:10],
        "rps_before": round(sum(by_second[first:last]) / max(last - first, 1), 1),
        "rps_of_last_seconds": round(sum(by_second[-6:-1]) / 5, 1),
        "slowest_s": round(max((record.e2e_s for record in records if record.completed), default=0.0), 1),
        "answers_by_second": " ".join(map(str, by_second)),
    }


def table(document: dict[str, Any]) -> Table:
    """The median and range of the turns of each load."""
    made = Table(title="Servers in turn, in one run")
    for name in (
        "mode",
        "clients",
        "server",
        "requests/s",
        "p99 ms",
        "GPU busy %",
        "engines' cores",
        "turns",
        "errors",
    ):
        made.add_column(name)
    groups: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for row in document["rows"]:
        groups.setdefault((row["mode"], row["clients"], row["server"]), []).append(row)
    for (mode, clients, server), rows in sorted(groups.items()):
        rates = [row["requests_per_s"] for row in rows]
        middles = (
            median(row[name] or 0.0 for row in rows) for name in ("p99_ms", "gpu_busy_percent", "engine_cpu_share")
        )
        shown = f"{median(rates):.1f} ({min(rates):.1f} to {max(rates):.1f})"
        errors = sum(row["errors"] for row in rows)
        made.add_row(mode, str(clients), server, shown, *(f"{one:.4g}" for one in middles), str(len(rows)), str(errors))
    return made


def named_server(text: str) -> tuple[str, Server]:
    name, _, server = text.partition("=")
    return name, Server.parse(server)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("steps", nargs="+", type=Work.parse, metavar="STEP")
    parser.add_argument("--server", dest="named", action="append", type=named_server, default=[], metavar="NAME=SERVER")
    parser.add_argument("--model", default="", help="default: the packaged phrasebook's shape")
    parser.add_argument("--profile", default="")
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--client-processes", type=int, default=6, help="at most; one for 32 clients")
    parser.add_argument("--warmup", type=float, default=4.0, help="seconds of each load before its window")
    parser.add_argument("--window", type=float, default=8.0, help="seconds")
    parser.add_argument("--output-tokens", type=float, default=106.0, help="mean of a request")
    parser.add_argument("--equal-texts", type=int, default=200)
    parser.add_argument(
        "--kill-limit", type=float, default=150.0, help="seconds of a load in which a process is killed"
    )
    parser.add_argument("--start-limit", type=float, default=300.0, help="seconds of a server's start")
    parser.add_argument(
        "--most-rps", type=float, default=500.0, help="so many different texts a second; then they repeat"
    )
    parser.add_argument("--time-limit", type=float, default=3600.0, help="seconds of the whole run")
    parser.add_argument("--logs", type=Path, default=Path(".dragoman/shared-gpu"))
    parser.add_argument("--out", type=Path, help="results file (JSON)")
    options = parser.parse_args()
    options.servers = dict(options.named)
    if unknown := {name for step in options.steps for name in step.servers} - options.servers.keys():
        parser.error(f"no server {', '.join(sorted(unknown))}: name it with --server")
    options.began_s = monotonic() - (time() - psutil.Process().create_time())
    return options


def main() -> None:
    options = parsed()
    named = ("warmup", "window", "client_processes", "output_tokens", "most_rps")
    found = Measurement.begin("shared-gpu", **{name: getattr(options, name) for name in named})
    document = found.data
    document |= {"servers": {}, "failed": {}, "not_measured": [], "equal": [], "kills": [], "rows": []}

    conduct(found, options.out, lambda observer, interrupted: Experiment(options, found, observer).run(interrupted))
    Console(width=150).print(table(document))


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
