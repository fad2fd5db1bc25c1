"""What several GPUs of one host bring: requests a second, latencies, and the CPU that each process of a service takes.

    python benchmarks/replicas.py --gpus 2 --model DIR --profile NAME --time-limit 570 --out results/replicas.json \
        --plan-results results/replicas

    one             `dragoman serve` on the first GPU
    replicas        `dragoman serve --replicas N`
    vllm            `vllm serve --data-parallel-size N`, with its own defaults
    shared-2        `dragoman serve --replicas 2/gpu`, or of another number; with `-in-turn` after it without CUDA MPS

The services start and run side by side: each engine has a KV cache of `--kv-cache-gib`, so that vLLM does not compute it from
free memory, which the others change. They are measured in turn, with the same texts, in a closed loop of
`--clients` for each GPU (1 stays 1), in the order given, every second turn in reverse. The CPU that the other services take
meanwhile is recorded with each measurement. Weights are random and lengths of the outputs forced.

`--stream` asks for streamed answers. `--kill-s` then loads `replicas` for so many seconds at the first level of `--clients`, and
kills one replica's process with SIGKILL while it works: failed calls, and seconds until all replicas are ready again.

`--time-limit` bounds the whole run: a measurement starts only if it can end within it. Results are written after each
measurement. `--plan-results` gets a file for each service that `dragoman plan --result` reads. `--heavy-call` then measures
a call of thousands of texts against `replicas`, as heavy_call.py does.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic, time
from typing import Any

import aiohttp
import psutil
from rich.table import Table

from dragoman.cli.console import console, error_console
from dragoman.errors import DragomanError
from dragoman_bench.bench.benchmark import PreparedBenchmark, Warmup, prepared
from dragoman_bench.bench.measurement import Measurement
from dragoman_bench.bench.progress import Observer, interrupts, observed
from dragoman_bench.bench.results import Load, Repeat, write_results
from dragoman_bench.bench.servers import Interrupted, RunningServer, serving, vllm_uses_gpu
from dragoman_bench.cli.subject import make_subject
from dragoman_bench.journey.measure import LoadMeter, make_workloads
from dragoman_bench.journey.steps import CPU_KV_CACHE_BYTES, Leg, Pace, Step, Subject, command_of, target_of

SERVICES = ("one", "replicas", "vllm")
SHARED = re.compile(r"shared-(?P<engines>[1-9])(?P<in_turn>-in-turn)?")
CLIENTS_PER_PROCESS = 128
FIRST_OVERHEAD_S = 6.0  # of a measurement: texts, client processes, and the requests that end after it
STOP_S = 12.0  # kept free of the time limit
LISTED_SHARE = 0.005  # of a core: processes that take less are added up


def numbers(text: str) -> list[int]:
    """`1,8,25`, as argparse takes it. Not from in_process.py: client processes would load vLLM with it."""
    return [int(part) for part in text.split(",")]


def process_name(process: psutil.Process) -> str:
    """A title where the process has set one (`ray::ServeReplica:...`, `VLLM::EngineCore`), else its module or program."""
    words = process.cmdline() or [process.name()]
    if "::" in words[0]:
        return words[0].split()[0]
    if "-m" in words[1:-1]:
        return words[words.index("-m") + 1]
    scripts = [Path(word).name for word in words[1:3] if word.endswith(".py")]
    return scripts[0] if scripts else Path(words[0].split()[0]).name


@dataclass
class Service:
    """A running server, the processes seen below it so far, and what was measured of it."""

    step: Step
    server: RunningServer
    bench: PreparedBenchmark
    known: set[psutil.Process] = field(default_factory=set[psutil.Process])
    measured: dict[int, list[Repeat]] = field(default_factory=dict[int, list[Repeat]])

    def cpu_s(self) -> dict[psutil.Process, tuple[str, float]]:
        """Of each process: name and CPU seconds. One that lost its parent is still found, if it was seen before."""
        self.known.update(self.server.tree())
        found: dict[psutil.Process, tuple[str, float]] = {}
        for process in self.known:
            with suppress(psutil.Error):
                times = process.cpu_times()
                found[process] = process_name(process), times.user + times.system
        return found


class CpuUse(Observer):
    """Reads the CPU times of all services when the requests of a measurement begin, and shortly before they end."""

    def __init__(self, inner: Observer, services: Iterable[Service], duration_s: float) -> None:
        self._inner, self._services, self._until_s = inner, list(services), 0.8 * duration_s
        self._measures = False
        self._read: list[tuple[float, dict[str, dict[psutil.Process, tuple[str, float]]]]] = []

    def phase(self, label: str, total: int | None) -> None:
        self._measures = not label.endswith("warm-up")
        self._read.clear()
        self._inner.phase(label, total)

    def update(self, done: int, failed: int, in_flight: int) -> None:
        self._inner.update(done, failed, in_flight)
        now_s, read = monotonic(), self._read
        if self._measures and (not read or (len(read) == 1 and now_s - read[0][0] >= self._until_s)):
            read.append((now_s, {service.step.name: service.cpu_s() for service in self._services}))

    def shares(self, name: str) -> list[dict[str, Any]]:
        """Of a service's processes, the share of a core; the busiest first. Empty where the times were not read."""
        if len(self._read) < 2:
            return []
        (began_s, before), (ended_s, after) = self._read
        found = [
            {"process": title, "pid": process.pid, "share": (cpu_s - before[name].get(process, ("", 0.0))[1])}
            for process, (title, cpu_s) in after[name].items()
        ]
        rows = [{**row, "share": round(row["share"] / (ended_s - began_s), 4)} for row in found]
        listed = sorted((row for row in rows if row["share"] >= LISTED_SHARE), key=lambda row: -row["share"])
        rest = [row["share"] for row in rows if row["share"] < LISTED_SHARE]
        return [*listed, {"process": f"{len(rest)} others", "pid": None, "share": round(sum(rest), 4)}]


def step_of(name: str, options: argparse.Namespace) -> Step:
    """The service's command line, as the journey's steps describe it."""
    flags: dict[str, str | int | float | bool] = {}
    if vllm_uses_gpu():
        flags["kv-cache-memory-bytes"] = int(options.kv_cache_gib * 2**30)
        flags["gpu-memory-utilization"] = 0.1  # vLLM wants so much free at the start, whatever the cache's size
    elif not options.fake:
        flags["kv-cache-memory-bytes"] = CPU_KV_CACHE_BYTES
    if options.fake:
        flags |= {"pipeline": "fake", "fake-step-ms": 20}
    if name == "replicas":
        flags["replicas"] = options.gpus
    elif shared := SHARED.fullmatch(name):
        flags |= {"replicas": f"{shared['engines']}/gpu", "mps": "off" if shared["in_turn"] else "auto"}
    elif name == "vllm":
        flags["data-parallel-size"] = options.gpus
    return Step(name, name, "vllm" if name == "vllm" else "dragoman", flags, (), shaped=name != "vllm")


class Comparison:
    """Starts the services and measures them in turn, into the rows of a document."""

    def __init__(self, options: argparse.Namespace, found: Measurement, observer: Observer) -> None:
        self.options, self.found, self.document, self.observer = options, found, found.data, observer
        self.end_s: float = options.began_s + options.time_limit - STOP_S
        self.services: list[Service] = []
        self.overhead_s = FIRST_OVERHEAD_S

    def levels(self, name: str) -> list[int]:
        """Clients in all: those of `--clients` for each GPU, except that 1 stays 1; `one` has further levels."""
        gpus = 1 if name == "one" else self.options.gpus
        common = [clients if clients == 1 else clients * gpus for clients in self.options.clients]
        return list(dict.fromkeys([*common, *(self.options.clients_one if name == "one" else ())]))

    async def run(self, interrupted: asyncio.Event) -> None:
        """Until all is measured, the time is over, or `interrupted` is set."""
        options = self.options
        subject = make_subject(options.model, options.profile, "dummy", options.max_model_len)
        pace = Pace(options.duration, options.warmup)
        workloads = make_workloads(subject)
        all_levels = sorted({clients for name in options.services for clients in self.levels(name)})
        leg = Leg("variable", tuple(all_levels), options.turns)
        meter = LoadMeter(workloads, pace, self.observer, interrupted, subject.seed, path=subject.path)
        self.found.conditions["workload"] = workloads["variable"].description
        async with AsyncExitStack() as stack:
            self.observer.phase(f"starting {', '.join(options.services)}", None)
            servers = await asyncio.gather(*(self.started(name, subject, meter, stack) for name in options.services))
            for server, name in zip(servers, options.services, strict=True):
                if server is not None and not interrupted.is_set():
                    step = step_of(name, options)
                    plan = meter.plan(
                        server.url, target_of(step, subject), leg, "streamed" if options.stream else "plain"
                    )
                    bench = await stack.enter_async_context(prepared(plan))
                    self.services.append(Service(step, server, bench))
            await self.measure_all(meter)
            replicas = next((service for service in self.services if service.step.name == "replicas"), None)
            if options.kill_s and replicas and not interrupted.is_set():
                await self.kill(replicas, meter)
            if options.heavy_call and replicas and not interrupted.is_set():
                await self.heavy_call(replicas, interrupted)
            for service in self.services:  # all end at the same time
                with suppress(ProcessLookupError):
                    service.server.process.send_signal(signal.SIGTERM)

    async def started(
        self, name: str, subject: Subject, meter: LoadMeter, stack: AsyncExitStack
    ) -> RunningServer | None:
        """None: it did not start, which is noted, or the run was interrupted."""
        step, folder = step_of(name, self.options), self.options.logs.resolve() / name
        command = command_of(step, subject, folder / "engine.log")
        if vllm_uses_gpu() and not self.options.fake:
            devices = range(1 if name == "one" else self.options.gpus)
            visible = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, devices))}
            command = replace(command, environment={**command.environment, **visible})
        left_s = max(self.end_s - monotonic(), 1.0)
        log = folder / "server.log"
        try:
            server = await stack.enter_async_context(serving(command, log, meter.interrupted, deadline_s=left_s))
        except Interrupted:
            return None
        except DragomanError as error:
            error_console.print(f"{name} is left out: {error}", markup=False)
            self.document["not_started"][name] = str(error)
            return None
        self.document["services"][name] = {"start_s": server.start_s, "flags": step.flags}
        error_console.print(f"{name} answers after {server.start_s:.0f} s at {server.url}", markup=False)
        self.write()
        return server

    def turns(self) -> Iterator[tuple[int, int, Service]]:
        """(turn, clients, service): each level of all services before the next level."""
        for turn in range(self.options.turns):
            services = self.services[:: -1 if turn % 2 else 1]
            levels = {service.step.name: self.levels(service.step.name) for service in services}
            for place in range(max(map(len, levels.values()), default=0)):
                for service in services:
                    if place < len(levels[service.step.name]):
                        yield turn, levels[service.step.name][place], service

    async def measure_all(self, meter: LoadMeter) -> None:
        for turn, clients, service in self.turns():
            expected_s = self.options.warmup + self.options.duration + self.overhead_s
            if meter.interrupted.is_set():
                return
            if monotonic() + expected_s > self.end_s:
                self.document["not_measured"].append({"turn": turn, "clients": clients, "service": service.step.name})
                continue
            began_s = monotonic()
            await self.measure(service, clients, turn, meter)
            spent_s = monotonic() - began_s - self.options.warmup - self.options.duration
            self.overhead_s = max(self.overhead_s, spent_s)

    async def measure(self, service: Service, clients: int, turn: int, meter: LoadMeter) -> None:
        options, bench, name = self.options, service.bench, service.step.name
        load = Load("closed", clients=clients)
        processes = options.client_processes or max(1, clients // CLIENTS_PER_PROCESS)
        number = bench.plan.loads.index(load)  # decides the texts: the same for all services with that many clients
        plan = replace(
            bench.plan,
            loads=(load,) * len(bench.plan.loads),
            warmup=Warmup(duration_s=options.warmup),
            repeats=options.turns,
            processes=min(processes, clients),
        )
        use = CpuUse(_Named(self.observer, name), self.services, options.duration)
        measurement = await replace(bench, plan=plan).measure(number, turn, use, meter.interrupted)
        service.server.check_alive()
        if measurement is None or measurement.stopped == "interrupted":
            return
        service.measured.setdefault(clients, []).append(measurement)
        self.add_row(service, clients, turn, measurement, use)
        if options.plan_results is not None:
            results = meter.gather(bench, service.measured, {"label": name})
            options.plan_results.mkdir(parents=True, exist_ok=True)
            write_results(results, options.plan_results / f"{name}.json")

    async def kill(self, service: Service, meter: LoadMeter) -> None:
        """Kill one replica while all are at work, and record what became of the calls, and how long one was missing."""
        clients, kill_s = self.levels("replicas")[0], self.options.kill_s
        if monotonic() + kill_s + self.overhead_s > self.end_s:
            self.document["not_measured"].append({"service": "replicas", "clients": clients, "killed": True})
            return
        load, bench = Load("closed", clients=clients), service.bench
        processes, same = max(1, clients // CLIENTS_PER_PROCESS), (load,) * len(bench.plan.loads)
        plan = replace(bench.plan, loads=same, duration_s=kill_s, processes=processes)
        number, replicas = bench.plan.loads.index(load), Replicas(service.server)
        work = asyncio.create_task(
            replace(bench, plan=plan).measure(number, 0, _Named(self.observer, "killed"), meter.interrupted)
        )
        await asyncio.sleep(self.options.warmup + kill_s / 10)
        began_s = monotonic()
        replicas.kill_one()
        again = await replicas.until_ready(self.options.gpus, self.end_s, meter.interrupted)
        found: dict[str, Any] = {"clients": clients, "duration_s": kill_s}
        found["all_ready_again_s"] = round(monotonic() - began_s, 1) if again else None
        measurement = await work
        if measurement is not None:
            errors = [record.error for record in measurement.records if record.error not in (None, "unfinished")]
            summary = measurement.summary
            found |= {"rps": summary.rps, "e2e": asdict(summary.e2e) if summary.e2e else None, "failed": len(errors)}
            found |= {"answered": sum(record.error is None for record in measurement.records), "errors": errors[:10]}
        self.document["killed"] = found
        self.write()
        error_console.print(f"one of {self.options.gpus} killed: {found}", markup=False)

    def add_row(self, service: Service, clients: int, turn: int, measurement: Repeat, use: CpuUse) -> None:
        summary, name = measurement.summary, service.step.name
        failed = sum(record.error not in (None, "unfinished") for record in measurement.records)
        idle = [one.step.name for one in self.services if one is not service]
        row = {
            "service": name,
            "gpus": 1 if name == "one" else self.options.gpus,
            "clients": clients,
            "turn": turn,
            "rps": summary.rps,
            "e2e": asdict(summary.e2e) if summary.e2e else None,
            "failed": failed,
            "cpu": use.shares(name),
            "idle_services_cpu": {one: round(sum(row["share"] for row in use.shares(one)), 4) for one in idle},
            "client": asdict(measurement.client),
        }
        self.document["measurements"].append(row)
        busiest = row["cpu"][0] if row["cpu"] else {"process": "?", "share": 0.0}
        p99_s = summary.e2e.p99_s if summary.e2e else float("nan")
        error_console.print(
            f"{name}, {clients} clients: {summary.rps:.1f} requests/s, p99 {p99_s:.2f} s, {failed} failed; "
            f"{busiest['process']} {busiest['share']:.0%}, busiest client process {measurement.client.cpu_share:.0%}",
            markup=False,
        )
        self.write()

    async def heavy_call(self, service: Service, interrupted: asyncio.Event) -> None:
        """What heavy_call.py measures, as far as the time suffices."""
        import heavy_call

        options, found = self.options, Measurement.begin("heavy-call")
        modes = [heavy_call.Split(0, 1), *heavy_call.splits(options.heavy_splits)]
        given = argparse.Namespace(
            **{name: getattr(options, name) for name in ("model", "profile", "max_model_len")},
            url=service.server.url,
            api_key="",
            texts=options.heavy_texts,
            modes=modes,
            seed=1,
            priority="bulk",
            rate=4.0,
            alone=options.heavy_alone,
            repeats=options.heavy_turns,
        )
        self.observer.phase("heavy call", None)
        work = asyncio.create_task(heavy_call.run(given, found))
        stop = asyncio.create_task(interrupted.wait())
        left_s = max(self.end_s - monotonic(), 0.0)
        await asyncio.wait({work, stop}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        found.partial = not work.done()
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
        if found.data.get("turns"):
            found.data["summary"] = heavy_call.summary_of(found.data["turns"])
        self.document["heavy_call"] = found.document
        self.write()

    def write(self) -> None:
        self.found.write(self.options.out)


@dataclass
class Replicas:
    """The replicas of a server: their processes, and what each one's port of operators answers."""

    server: RunningServer
    killed: set[psutil.Process] = field(default_factory=set[psutil.Process])

    def processes(self) -> set[psutil.Process]:
        return {one for one in self.server.tree() if "ServeReplica" in _name_or_none(one)}

    def kill_one(self) -> None:
        """SIGKILL to the process of one replica, with no warning to it or to Ray."""
        victim = min(self.processes(), key=lambda process: process.pid)
        victim.kill()
        self.killed.add(victim)

    async def until_ready(self, number: int, end_s: float, interrupted: asyncio.Event) -> bool:
        """Wait until so many that were not killed are ready; False if that was not seen in time."""
        while monotonic() < end_s and not interrupted.is_set():
            if len(self.processes() - self.killed) >= number and await self.ready() >= number:
                return True
            await asyncio.sleep(0.25)
        return False

    async def ready(self) -> int:
        """How many are ready."""
        found = 0
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
            with suppress(aiohttp.ClientError, TimeoutError):
                async with session.get(f"{self.server.url}/v1/replicas") as answer:
                    targets = await answer.json()
                for target in targets:
                    async with session.get(f"http://{target['targets'][0]}/readyz") as answer:
                        found += answer.status == 200
        return found


def _name_or_none(process: psutil.Process) -> str:
    """Empty for a process that has ended."""
    with suppress(psutil.Error):
        return process_name(process)
    return ""


@dataclass
class _Named(Observer):
    """Shows a service's name before each phase."""

    inner: Observer
    name: str

    def phase(self, label: str, total: int | None) -> None:
        self.inner.phase(f"{self.name}: {label}", total)

    def update(self, done: int, failed: int, in_flight: int) -> None:
        self.inner.update(done, failed, in_flight)


def table(document: dict[str, Any]) -> Table:
    """A row for each measurement."""
    made = Table(title="Services in turn, in one run")
    for name in ("service", "clients", "turn", "requests/s", "p50 s", "p95 s", "p99 s", "failed", "shares of a core"):
        made.add_column(name)
    for row in document["measurements"]:
        e2e = row["e2e"] or {}
        seconds = (f"{e2e[name]:.3f}" if name in e2e else "" for name in ("p50_s", "p95_s", "p99_s"))
        shares = ", ".join(f"{one['process']} {one['share']:.2f}" for one in row["cpu"][:6])
        numbers_ = (row["service"], str(row["clients"]), str(row["turn"]), f"{row['rps']:.1f}")
        made.add_row(*numbers_, *seconds, str(row["failed"]), shares)
    return made


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--services", default=",".join(SERVICES), help=f"default: {','.join(SERVICES)}")
    parser.add_argument("--model", default="", help="default: the packaged phrasebook's shape")
    parser.add_argument("--profile", default="")
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--kv-cache-gib", type=float, default=16, help="of each engine on a GPU")
    parser.add_argument("--clients", type=numbers, default=[256, 25, 1], help="for each GPU, in this order; 1 stays 1")
    parser.add_argument("--clients-one", type=numbers, default=[], help="further levels of `one`, for dragoman plan")
    parser.add_argument("--client-processes", type=int, help=f"default: one for {CLIENTS_PER_PROCESS} clients")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--duration", type=float, default=8.0, help="seconds of a measurement")
    parser.add_argument("--warmup", type=float, default=2.0, help="seconds before each measurement")
    parser.add_argument("--time-limit", type=float, default=3600.0, help="seconds of the whole run")
    parser.add_argument("--fake", action="store_true", help="engines that compute nothing: for a trial of this script")
    parser.add_argument("--stream", action="store_true", help="streamed answers")
    parser.add_argument("--kill-s", type=float, default=0.0, help="then load for so long and kill a replica; 0: no")
    parser.add_argument("--heavy-call", action="store_true", help="then measure heavy_call.py's modes on `replicas`")
    parser.add_argument("--heavy-texts", type=int, default=5000)
    parser.add_argument("--heavy-splits", default="50x8")
    parser.add_argument("--heavy-turns", type=int, default=1)
    parser.add_argument("--heavy-alone", type=float, default=8.0, help="seconds of interactive calls alone")
    parser.add_argument("--logs", type=Path, default=Path(".dragoman/replicas"))
    parser.add_argument("--out", type=Path, help="results file (JSON)")
    parser.add_argument("--plan-results", type=Path, help="folder of a file for each service, for dragoman plan")
    options = parser.parse_args()
    options.services = [name for name in options.services.split(",") if name]
    if unknown := {name for name in options.services if name not in SERVICES and not SHARED.fullmatch(name)}:
        parser.error(f"no service {', '.join(sorted(unknown))}; there are {', '.join(SERVICES)}, shared-2")
    options.began_s = monotonic() - (time() - psutil.Process().create_time())
    return options


def main() -> None:
    options = parsed()
    named = ("gpus", "kv_cache_gib", "duration", "warmup", "turns", "fake", "stream")
    chosen = {name: getattr(options, name) for name in named}
    found = Measurement.begin("replicas", all_services_ran_at_the_same_time=True, **chosen)
    document = found.data
    document |= {"services": {}, "not_started": {}, "not_measured": [], "measurements": []}

    async def measure(observer: Observer) -> None:
        with interrupts() as interrupted:
            try:
                await Comparison(options, found, observer).run(interrupted)
            finally:
                found.partial = interrupted.is_set() or bool(document["not_measured"] or document["not_started"])
                found.write(options.out)

    try:
        observed(measure)
    except DragomanError as error:
        error_console.print(str(error), markup=False)
    if not document["measurements"]:
        raise SystemExit("nothing was measured")
    console.print(table(document))


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
