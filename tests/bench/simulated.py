"""Results for tests of what reads results: made-up records of three ways to serve, summarised by the real code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from dragoman.gpu import Gpu
from dragoman_bench.bench.measurement import Machine
from dragoman_bench.bench.results import (
    ClientUse,
    Conditions,
    GpuSample,
    Load,
    Point,
    Repeat,
    RequestRecord,
    Results,
    ServerSample,
    Stopped,
)
from dragoman_bench.bench.summary import Observed, Slo, bucket_counts, parse_slo, spreads, summarise
from tests.bench.making import record

SLO = "e2e_s=1"


@dataclass(frozen=True, slots=True)
class Server:
    """Works on `slots` requests at once, each for as long as it has tokens; `idle_s` is lost with each."""

    slots: int
    idle_s: float = 0.0
    streams: bool = True


def point(server: Server, clients: int, *, requests: int = 150, repeats: int = 3, slo: Slo | None = None) -> Point:
    made = tuple(measurement(server, clients, requests, repeat, slo) for repeat in range(repeats))
    return Point(Load("closed", clients=clients), made, spreads(made))


def measurement(server: Server, clients: int, requests: int, repeat: int, slo: Slo | None = None) -> Repeat:
    """Each client sends again when its answer has come; one repeat is slower than another."""
    free_s, records = [0.0] * clients, list[RequestRecord]()
    for index in range(requests):
        tokens = 10 + index * 37 % 190
        slowdown = max(1.0, clients / server.slots) * (1 + repeat / 50)
        e2e_s = (0.004 * tokens + server.idle_s) * slowdown
        intended_s, free_s[index % clients] = free_s[index % clients], free_s[index % clients] + e2e_s
        first = {"first_token_s": intended_s + e2e_s / tokens, "itl_count": tokens - 1, "itl_mean_s": e2e_s / tokens}
        made = record(index, intended_s=intended_s, e2e_s=e2e_s, source_tokens=tokens, output_tokens=tokens)
        records.append(replace(made, **first) if server.streams else made)
    busy = min(clients, server.slots)
    samples = tuple(ServerSample(t, busy, clients - busy, 0.7, 0, t) for t in (0.0, 0.1, 0.2))
    return measured(records, repeat, server=samples, gpu=(GpuSample(0.1, 0, 93.0, 40_000.0),), slo=slo)


def measured(
    records: Iterable[RequestRecord],
    repeat: int = 0,
    *,
    stopped: Stopped = "finished",
    server: tuple[ServerSample, ...] = (),
    gpu: tuple[GpuSample, ...] = (),
    slo: Slo | None = None,
) -> Repeat:
    """Records as a measurement, with the summary that the real code gives them."""
    rows = tuple(records)
    window_s = max(record.done_s for record in rows)
    gaps = bucket_counts(g for r in rows if (g := r.itl_mean_s) is not None for _ in range(r.itl_count))
    observed = Observed(rows, window_s, stopped, dict(gaps), server, gpu)
    use = ClientUse(1, 0.12, 0.001)
    summary = summarise(observed, slo)
    return Repeat(
        *(rows, window_s, stopped, dict(gaps), server, gpu),
        repeat=repeat,
        started_at="2025-01-02T03:04:05+00:00",
        distinct_texts=len(rows),
        client=use,
        summary=summary,
    )


def conditions(**changes: Any) -> Conditions:
    machine = Machine("Linux 6.8", "x86_64", "Some CPU", 16, 128.0, (Gpu(0, "NVIDIA H200", 143_771.0, "570.1"),))
    base = Conditions(
        started_at="2025-01-02T03:04:05+00:00",
        machine=machine,
        server_is_local=True,
        python="3.11.9",
        packages={"dragoman": "0.1.0", "vllm": "0.26.0", "torch": "2.11.0"},
        git_commit="0123456789abcdef0123456789abcdef01234567",
        url="http://127.0.0.1:8000",
        target="dragoman",
        model="Qwen/Qwen3-4B",
        server={"pipeline": "continuous", "engine": {"max_num_seqs": 64, "gpu_memory_utilization": 0.3}},
        workload="phrasebook texts, 10-200 tokens, en-ja:3 en-ko:1",
        loads=(Load("closed", clients=1), Load("closed", clients=8), Load("closed", clients=25)),
        slo=SLO,
        seed=0,
        options={"requests": 150, "duration_s": None, "repeats": 3, "timeout_s": 60.0},
    )
    return replace(base, **changes)


SERVERS = {
    "one at a time": Server(1, idle_s=0.06, streams=False),
    "static batches of 16": Server(16, idle_s=0.05, streams=False),
    "continuous": Server(64),
}


def three_ways(levels: tuple[int, ...] = (1, 8, 25), *, requests: int = 150, repeats: int = 3) -> dict[str, Results]:
    """One at a time, in static batches, continuously."""
    slo, found = parse_slo(SLO), dict[str, Results]()
    loads = tuple(Load("closed", clients=clients) for clients in levels)
    for name, one in SERVERS.items():
        points = tuple(point(one, level, requests=requests, repeats=repeats, slo=slo) for level in levels)
        server = {"pipeline": name, "engine": {"max_num_seqs": one.slots, "gpu_memory_utilization": 0.3}}
        found[name] = Results(conditions(server=server, loads=loads), points)
    return found
