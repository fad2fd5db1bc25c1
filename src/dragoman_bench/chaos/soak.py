"""A soak: a server under the same load for a long time, and whether what it holds grows.

What clients store has a bound, so that the database need not grow: documents are deleted, and memories have the same few
entries, again and again. The cache is small enough to be full soon.
Sampled from outside: memory, open files and connections, and threads of the server's process and of those below it, and the
bytes of its database. In the first half of the warm-up more comes at once, so that what has a bound reaches it: pools of
threads and connections, caches, windows. After the warm-up, the first third, a line is fitted to the means of ten blocks of
samples, which depend on each other less than samples do. The slope is flat if it is within two standard errors of none. Memory
that grows and is given back later makes the error large: a longer run decides.
"""

from __future__ import annotations

import asyncio
import math
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from random import Random
from time import monotonic

import numpy as np
import psutil

from dragoman_bench.bench.measurement import Measurement, with_part
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.tables import Cell, Column, Row, Table, markdown
from dragoman_bench.chaos.clients import Http, MixedLoad, session
from dragoman_bench.chaos.ledger import FAULTY, VERDICTS, Ledger
from dragoman_bench.chaos.oracle import CALLS
from dragoman_bench.chaos.run import FOLDER
from dragoman_bench.chaos.stage import ChaosServer, staged

KIND = "soak"
BLOCKS = 10
WARM_UP = 1 / 3
DOCUMENT_CLIENTS = 1
BURST, BURST_DOCUMENT_CLIENTS = 3.0, 8
"""In the first half of the warm-up: times as many calls a second, and clients that send documents."""
ENTRIES, FIRST_ENTRY = 50, 10**9
"""Entries of each key's memory, and the number of the first one's text, which no other call has."""
FLAGS = ("--cache-max-bytes=1000000",)


@dataclass(frozen=True, slots=True)
class Sample:
    """What a server's processes hold. Documents' workers come and go: theirs is not counted. `load`: the machine's, over the
    last minute, in processes that run."""

    at_s: float
    memory_mib: float
    handles: int
    threads: int
    database_mib: float
    load: float


@dataclass(frozen=True, slots=True)
class Slope:
    """Of a line through samples, with its standard error, each for an hour; and the mean."""

    mean: float
    per_hour: float
    error: float

    @property
    def is_flat(self) -> bool:
        rounding = 1e-9 * abs(self.mean)
        return abs(self.per_hour) <= 2 * self.error + rounding


def slope(at_s: Sequence[float], values: Sequence[float]) -> Slope:
    """Fit a line to the means of `BLOCKS` blocks. Raises `ValueError` for fewer samples than blocks."""
    if len(values) < BLOCKS:
        raise ValueError(f"{len(values)} samples are too few for {BLOCKS} blocks")
    hours = np.array([block.mean() for block in np.array_split(np.array(at_s) / 3600, BLOCKS)])
    means = np.array([block.mean() for block in np.array_split(np.array(values, dtype=float), BLOCKS)])
    centred = hours - hours.mean()
    spread = float((centred**2).sum())
    per_hour = float((centred * means).sum()) / spread
    rest = means - means.mean() - per_hour * centred
    return Slope(float(means.mean()), per_hour, math.sqrt(float((rest**2).sum()) / (BLOCKS - 2) / spread))


def sample(server: ChaosServer, folder: Path, began_s: float) -> Sample:
    """Look at a server's processes and its database."""
    memory, handles, threads = 0, 0, 0
    for process in (server.root, *server.root.children(recursive=True)):
        with suppress(psutil.Error):
            if "wholetext.files.worker" in " ".join(process.cmdline()):
                continue
            memory += process.memory_info().rss
            handles += process.num_fds()
            threads += process.num_threads()
    database = sum(one.stat().st_size for one in folder.glob("dragoman.db*"))
    return Sample(
        round(monotonic() - began_s, 1), memory / 2**20, handles, threads, database / 2**20, psutil.getloadavg()[0]
    )


class Soak:
    """One server, calls of all kinds at random times, and a client that sends documents."""

    def __init__(self, results: Measurement, per_s: float, seconds: float, seed: int, observer: Observer) -> None:
        self._results = results
        self._per_s = per_s
        self._seconds = seconds
        self._seed = seed
        self._observer = observer
        self._ledger = Ledger()

    async def run(self, interrupted: asyncio.Event) -> None:
        """Until its time is up or it is interrupted. Raises `StageFault` where the server does not start or end."""
        folder = (FOLDER / "soak").absolute()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._observer.phase(f"starting, in {folder}", None)
        async with staged("one", folder, self._ledger.outages, *FLAGS) as stage, session() as http:
            load = MixedLoad(Http(http), self._ledger, stage.urls, stage.keys, self._seed, kept_share=0.0)
            await load.prepare()
            began_s, samples = monotonic(), list[Sample]()
            burst = replace(load, ends=asyncio.Event())
            asyncio.get_running_loop().call_later(self._seconds * WARM_UP / 2, burst.ends.set)
            tasks = [asyncio.create_task(load.documents(place)) for place in range(DOCUMENT_CLIENTS)]
            tasks += [asyncio.create_task(burst.documents(place)) for place in range(BURST_DOCUMENT_CLIENTS)]
            tasks.append(asyncio.create_task(self._send(load, self._per_s)))
            tasks.append(asyncio.create_task(self._send(burst, self._per_s * (BURST - 1))))
            try:
                while monotonic() < began_s + self._seconds and not interrupted.is_set():
                    await asyncio.sleep(max(self._seconds / 300, 1.0))
                    samples.append(await asyncio.to_thread(sample, stage.servers[0], folder, began_s))
                    totals = self._ledger.totals
                    self._observer.note(f"  {totals.total()} requests, {samples[-1].memory_mib:.0f} MiB")
            finally:
                load.ends.set()
                burst.ends.set()
                ended_s = monotonic()
                try:
                    await asyncio.gather(*tasks)
                    await load.audit()
                finally:
                    self._write(ended_s - began_s, samples)

    def _write(self, elapsed_s: float, samples: list[Sample]) -> None:
        totals = self._ledger.totals
        self._results.data.update(
            per_s=self._per_s,
            seconds=round(elapsed_s, 1),
            seed=self._seed,
            **{one: totals[one] for one in VERDICTS},
            codes=dict(sum(self._ledger.codes.values(), Counter[str]())),
            findings=self._ledger.findings,
            samples=[asdict(one) for one in samples],
        )

    async def _send(self, load: MixedLoad, per_s: float) -> None:
        """Calls at random times, whatever becomes of those before."""
        rng, calls, places, entries = (
            Random(f"{self._seed} soak {per_s}"),
            set[asyncio.Task[object]](),
            count(),
            count(),
        )
        *unlimited, limited = sorted(load.keys)
        keys = (*unlimited * 5, limited)  # whose quota is soon used up: then its calls are no load
        next_s = monotonic()
        while not load.ends.is_set():
            next_s += rng.expovariate(per_s)
            await asyncio.sleep(next_s - monotonic())
            key, choice, number = keys[next(places) % len(keys)], rng.randrange(len(CALLS) + 1), next(load.numbers)
            sent = (
                load.call(CALLS[choice](key, number, load.rule), load.url(0))
                if choice < len(CALLS)
                else load.store_and_translate(key, FIRST_ENTRY + next(entries) % ENTRIES)
            )
            task: asyncio.Task[object] = asyncio.create_task(sent)
            calls.add(task)
            task.add_done_callback(calls.discard)
        await asyncio.gather(*calls)


def has_failed(results: Measurement) -> bool:
    """Whether anything was lost, doubled, wrong or mixed up."""
    return any(results.data.get(one) for one in FAULTY)


def table(results: Measurement) -> Table:
    """A row for each of what was sampled."""
    samples = [Sample(**one) for one in results.data["samples"]]
    kept = [one for one in samples if one.at_s >= WARM_UP * samples[-1].at_s]
    if len(kept) < BLOCKS:  # of a run that was interrupted
        kept = []
    rows = list[Row]()
    for label, name in (
        ("memory, MiB", "memory_mib"),
        ("open files and connections", "handles"),
        ("threads", "threads"),
        ("database, MiB", "database_mib"),
    ):
        words = (label, "–", "–", "–", "–")
        if kept:
            found = slope([one.at_s for one in kept], [getattr(one, name) for one in kept])
            numbers = f"{found.mean:,.1f}", f"{round(found.per_hour, 2) + 0.0:+.2f}", f"{found.error:.2f}"
            words = (label, *numbers, "yes" if found.is_flat else "no")
        rows.append(Row(tuple(map(Cell, words))))
    columns = (*map(Column, ("mean", "slope per hour", "its standard error")), Column("flat within two"))
    return Table("", (Column("of the server's processes", "left"), *columns), tuple(rows), heads=1)


def shown_in(page: str, results: Measurement) -> str:
    """Return a page's text with the results between its marks. Raises ConfigError if it has none."""
    return with_part(page, KIND, f"{conditions(results)}\n\n{markdown(table(results))}")


def conditions(results: Measurement) -> str:
    """What ran, in a sentence."""
    data, machine = results.data, results.conditions["machine"]
    requests, wrong = sum(data[one] for one in VERDICTS), data["wrong"] + data["mixed_up"]
    verdicts = ", ".join(f"{data[one]:,} {one}" for one in ("right", "refused", "failed", "lost"))
    codes = ", ".join(f"{code} {times:,}" for code, times in sorted(data["codes"].items()))
    loads = [one["load"] for one in data["samples"]] or [0.0]
    return (
        f"{requests:,} requests in {data['seconds'] / 60:.0f} minutes at {data['per_s']:g} calls a second and a client that "
        f"sends documents, {results.conditions['started_at'][:10]}, on {machine['cpu']} with {machine['cores']} cores, which "
        f"these clients and other programs used too (a load of {sum(loads) / len(loads):.1f} in the mean, {max(loads):.1f} at "
        f"most): {verdicts}, {data['duplicated']:,} doubled, {wrong:,} wrong ({codes or 'no error'}); "
        f"{len(data['samples'])} samples, of which the first third is warm-up."
    )
