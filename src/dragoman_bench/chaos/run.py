"""A run: load on a stage, faults in a seeded order, the ledger at the end; and the page of all runs of a results file.

A results file is continued: counts are added, and the next run's seed follows the last one's, so that an hour may be made of
many runs. It is written after each fault, so that of a run that is killed only the last one is missing.
"""

from __future__ import annotations

import asyncio
import copy
import shutil
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from time import monotonic
from typing import Any, cast

from dragoman_bench.bench.measurement import Measurement, with_part
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.tables import Cell, Column, Row, Table, markdown
from dragoman_bench.chaos.clients import DEADLINE_S, Http, MixedLoad, session
from dragoman_bench.chaos.faults import FaultKind, NotInjected, Scene
from dragoman_bench.chaos.ledger import FAULTY, VERDICTS, Ledger
from dragoman_bench.chaos.oracle import ANSWERED, CALLS, CIRCLED, MARKED, completion_call
from dragoman_bench.chaos.stage import REAL, Stage, StageName, staged

KIND = "chaos"
FOLDER = Path(".dragoman/chaos")
"""Has the servers' logs, databases and documents of the last run of each stage."""
CLIENTS, DOCUMENT_CLIENTS = 24, 3
"""If none are asked for; and those that send documents."""
PAUSE_S = (0.5, 2.0)
"""Between a recovery and the next fault, from and to."""
RECOVERS_S = 180.0


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run. `clients`: those that send calls. `model`: of a real engine; `flags`: more of the servers."""

    stage: StageName
    seconds: float
    seed: int
    kinds: Sequence[FaultKind]
    clients: int = CLIENTS
    model: str = ""
    flags: tuple[str, ...] = ()


class ChaosRun:
    """One run over one stage, whose counts are added to `results`, and written to `out`."""

    def __init__(self, plan: RunPlan, results: Measurement, observer: Observer, out: Path | None = None) -> None:
        self._plan = plan
        self._name: StageName = plan.stage
        self._results = results
        self._before = copy.deepcopy(results.data)
        self._out = out
        self._observer = observer
        self._conditions = Measurement.begin(KIND).conditions
        self._ledger = Ledger()
        self._injected: dict[str, list[float | None]] = {}
        self._began_s = monotonic()

    async def run(self, interrupted: asyncio.Event) -> None:
        """Until its time is up or it is interrupted. Raises `StageFault` where a server does not start or end."""
        folder = (FOLDER / self._name).absolute()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._observer.phase(f"{self._name}: starting, in {folder}", None)
        plan = self._plan
        started = staged(plan.stage, folder, self._ledger.outages, *plan.flags, model=plan.model)
        async with started as stage, session() as http:
            load = self._load(stage, Http(http))
            await load.prepare()
            self._began_s = monotonic()
            try:
                async with self._loaded(load):
                    await self._inject(stage, load, interrupted)
                self._ledger.fault = ""
                await load.audit()
            finally:
                self._write(is_partial=interrupted.is_set())

    def _load(self, stage: Stage, http: Http) -> MixedLoad:
        is_vllm = stage.name == "vllm"
        return MixedLoad(
            http,
            self._ledger,
            stage.urls,
            stage.keys,
            self._plan.seed,
            one_server_a_url=stage.name != "replicas",
            calls=(completion_call,) if is_vllm else CALLS,
            rule=ANSWERED if is_vllm else MARKED if stage.name in REAL else CIRCLED,
            stores=not is_vllm,
        )

    @asynccontextmanager
    async def _loaded(self, load: MixedLoad) -> AsyncGenerator[None]:
        """Within: clients send. At its end each gets its last answer."""
        tasks = [asyncio.create_task(load.client(place)) for place in range(self._plan.clients)]
        tasks += [asyncio.create_task(load.documents(place)) for place in range(DOCUMENT_CLIENTS * load.stores)]
        try:
            yield
        finally:
            load.ends.set()
            await asyncio.gather(*tasks)

    async def _inject(self, stage: Stage, load: MixedLoad, interrupted: asyncio.Event) -> None:
        rng, end_s = Random(self._plan.seed), self._began_s + self._plan.seconds
        scene = Scene(stage, load, rng)
        left: list[FaultKind] = []
        await asyncio.sleep(rng.uniform(*PAUSE_S))  # some calls without any fault
        while monotonic() < end_s and not interrupted.is_set():
            if not left:
                left = rng.sample(self._plan.kinds, len(self._plan.kinds))
            fault = left.pop()
            self._observer.phase(f"{stage.name}: {fault.name}", None)
            await self._inject_one(fault, scene)
            await asyncio.sleep(rng.uniform(*PAUSE_S))
            self._write(is_partial=True)
            totals = self._ledger.totals
            faulty = sum(totals[one] for one in FAULTY)
            self._observer.note(
                f"  {totals.total()} requests, {totals['right']} right, {faulty} lost, doubled or wrong"
            )

    async def _inject_one(self, fault: FaultKind, scene: Scene) -> None:
        """A fault is counted if it was injected; if not, calls after it are again those of the one before."""
        before, self._ledger.fault = self._ledger.fault, fault.name
        began_s = monotonic()
        try:
            await fault.inject(scene)
        except NotInjected as error:
            self._ledger.fault = before
            self._observer.note(f"  not injected: {error.message}")
            return
        recovered_s = await self._recovered(scene.load, began_s)
        self._injected.setdefault(fault.name, []).append(recovered_s)

    async def _recovered(self, load: MixedLoad, began_s: float) -> float | None:
        """Seconds from the fault's begin until each server has answered a call rightly; None: it never did."""
        for url in load.urls:
            while await load.call(load.made(load.calls[0], "a"), url) != "right":
                if monotonic() - began_s > RECOVERS_S:
                    self._ledger.count("lost", f"{url} has not recovered")
                    return None
                await asyncio.sleep(0.1)
        return round(monotonic() - began_s, 3)

    def _write(self, *, is_partial: bool) -> None:
        """Add this run's counts to those of the runs before."""
        data = self._results.data = copy.deepcopy(self._before)
        self._results.partial = is_partial
        runs: list[dict[str, Any]] = data.setdefault("runs", [])
        runs.append(
            {
                "stage": self._name,
                "seed": self._plan.seed,
                "clients": self._plan.clients,
                **({"model": Path(self._plan.model).name, "flags": self._plan.flags} if self._name in REAL else {}),
                "seconds": round(monotonic() - self._began_s, 1),
                "interrupted": is_partial,
                "conditions": {name: self._conditions[name] for name in ("started_at", "git_commit", "machine")},
                **{one: self._ledger.totals[one] for one in VERDICTS},
            }
        )
        faults: dict[str, dict[str, Any]] = data.setdefault("faults", {})
        for name in {*self._ledger.verdicts, *self._injected}:
            row = faults.setdefault(f"{self._name}: {name or 'no fault'}", {"recovered_s": [], "codes": {}})
            row["recovered_s"] += self._injected.get(name, [])
            for one in VERDICTS:
                row[one] = row.get(one, 0) + self._ledger.verdicts[name][one]
            row["codes"] = dict(Counter[str](row["codes"]) + self._ledger.codes[name])
        data.setdefault("findings", []).extend(self._ledger.findings)
        self._results.write(self._out)


def next_seed(results: Measurement, seed: int) -> int:
    """The seed of a run that continues these results."""
    return seed + len(results.data.get("runs", []))


def has_failed(results: Measurement) -> bool:
    """Whether anything was lost, doubled, wrong or mixed up in any run."""
    return any(run[one] for run in results.data.get("runs", []) for one in FAULTY)


_SERVERS: Mapping[StageName, str] = {
    "one": "one server, SQLite",
    "pair": "two servers, one PostgreSQL",
    "replicas": "two replicas, SQLite",
    "real": "one server, vLLM's engine",
    "vllm": "`vllm serve`",
}


def table(results: Measurement) -> Table:
    """A row for each kind of fault and stage."""
    rows = list[Row]()
    for label, row in sorted(results.data.get("faults", {}).items()):
        stage, _, name = label.partition(": ")
        recovered = [one for one in row["recovered_s"] if one is not None]
        times = [f"{median(recovered):.1f}", f"{max(recovered):.1f}"] if recovered else ["–", "–"]
        counts = [sum(row[one] for one in VERDICTS), *(row[one] for one in ("right", "refused", "failed", "left"))]
        faulty = [row["lost"], row["duplicated"], row["wrong"] + row["mixed_up"]]
        injected = str(len(row["recovered_s"])) if name != "no fault" else "–"
        words = (
            _SERVERS[cast("StageName", stage)],
            name,
            injected,
            *(f"{one:,}" for one in (*counts, *faulty)),
            *times,
        )
        rows.append(Row(tuple(map(Cell, words))))
    names = ("times", "requests", "right", "refused", "failed", "left by the client", "lost", "doubled", "wrong")
    columns = (*map(Column, names), Column("recovery s, median"), Column("worst"))
    return Table("", (Column("servers", "left"), Column("fault", "left"), *columns), tuple(rows), heads=2)


def shown_in(page: str, results: Measurement) -> str:
    """Return a page's text with the results between its marks. Raises ConfigError if it has none.

    There are parts for the fake engine, for vLLM's, and for `vllm serve` beside it.
    """
    stages = {run["stage"] for run in results.data["runs"]}
    name = "beside" if "vllm" in stages else "real" if stages <= {*REAL} else "results"
    return with_part(page, name, f"{conditions(results)}\n\n{markdown(table(results))}")


def conditions(results: Measurement) -> str:
    """What ran, in sentences."""
    runs = results.data["runs"]
    seconds, requests = sum(one["seconds"] for one in runs), sum(one[verdict] for one in runs for verdict in VERDICTS)
    faults = sum(len(one["recovered_s"]) for one in results.data["faults"].values())
    of_runs = [one.get("conditions", results.conditions) for one in runs]
    places = dict.fromkeys(f"{one['started_at'][:10]} on {_named(one['machine'])}" for one in of_runs)
    models = dict.fromkeys(
        " ".join([one["model"] or "the packaged model", *one["flags"]]) for one in runs if "model" in one
    )
    of_model = f" over {' and '.join(models)}," if models else ""
    clients = " or ".join(dict.fromkeys(str(one["clients"]) for one in runs))
    return (
        f"{requests:,} requests and {faults:,} faults in {seconds / 60:.0f} minutes, runs: {len(runs)},{of_model} "
        f"{' and '.join(places)}, which other programs used too; {clients} clients, {DOCUMENT_CLIENTS} more that send "
        f"documents; a call's deadline is {DEADLINE_S:.0f} s."
    )


def _named(machine: dict[str, Any]) -> str:
    gpus = "".join(f" and an {gpu['name']}" for gpu in machine["gpus"])
    return f"{machine['cpu']} with {machine['cores']} cores{gpus}"
