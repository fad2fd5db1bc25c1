"""Results for tests of what reads results: a small simulation of three ways to serve, summarised by the real code.

Deterministic. The times are the simulation's, not a machine's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from dragoman.gpu import Gpu
from dragoman.wire import length_band
from dragoman_bench.bench.results import (
    ClientUse,
    Conditions,
    GpuSample,
    Load,
    Machine,
    Measurement,
    Point,
    RequestRecord,
    Results,
    ServerSample,
    Stopped,
)
from dragoman_bench.bench.summary import Observed, Slo, bucket_counts, parse_slo, spreads, summarise

STEP_S = 0.004  # one decoding step, whatever runs in it
SLO = "e2e_s=1"


@dataclass(slots=True)
class _Request:
    index: int
    client: int
    intended_s: float
    tokens: int
    left: int
    first_token_s: float | None = None


@dataclass(slots=True)
class Server:
    """`slots` sequences at a time; `holds` waits with new ones, and with answers, until a whole batch is done."""

    slots: int
    holds: bool = False
    idle_s: float = 0.0  # between two batches
    streams: bool = True
    samples: list[ServerSample] = field(default_factory=list[ServerSample])
    gpu: list[GpuSample] = field(default_factory=list[GpuSample])


def closed_loop(server: Server, clients: int, requests: int, seed: int) -> list[RequestRecord]:
    """`requests` requests by `clients` clients, step by step."""
    random = Random(seed)
    waiting = [_new(number, number, 0.0, random) for number in range(min(clients, requests))]
    sent, now_s, batch, records = len(waiting), 0.0, list[_Request](), list[RequestRecord]()
    sampled_s, busy_s = 0.0, 0.0
    while waiting or batch:
        if waiting and (not batch or not server.holds):
            now_s += server.idle_s if not batch else 0.0
            free = server.slots - len(batch)
            batch, waiting = batch + waiting[:free], waiting[free:]
        now_s += STEP_S
        busy_s += STEP_S
        for request in batch:
            request.left = max(0, request.left - 1)
            request.first_token_s = request.first_token_s or now_s
        done = [request for request in batch if not request.left]
        if server.holds and len(done) < len(batch):
            done = []
        for request in done:
            records.append(_record(request, now_s, server))
            if sent < requests:
                waiting.append(_new(sent, request.client, now_s, random))
                sent += 1
        batch = [request for request in batch if request not in done]
        while sampled_s <= now_s:
            used = len(batch) / max(1, server.slots)
            server.samples.append(ServerSample(sampled_s, len(batch), len(waiting), 0.7 * used, 0, busy_s))
            server.gpu.append(GpuSample(sampled_s, 0, 93.0 if batch else 2.0, 40_000.0))
            sampled_s += 0.05
    return sorted(records, key=lambda record: record.index)


def point(make: Any, clients: int, *, requests: int = 150, repeats: int = 3, slo: Slo | None = None) -> Point:
    """`make()` gives a fresh server for each repeat."""
    measured = tuple(measurement(make(), clients, requests, repeat, slo) for repeat in range(repeats))
    return Point(Load("closed", clients=clients), measured, spreads(measured))


def measurement(server: Server, clients: int, requests: int, repeat: int, slo: Slo | None = None) -> Measurement:
    records = closed_loop(server, clients, requests, seed=repeat + 1)
    return measured(records, repeat, server=tuple(server.samples), gpu=tuple(server.gpu), slo=slo)


def measured(
    records: Iterable[RequestRecord],
    repeat: int = 0,
    *,
    stopped: Stopped = "finished",
    server: tuple[ServerSample, ...] = (),
    gpu: tuple[GpuSample, ...] = (),
    slo: Slo | None = None,
) -> Measurement:
    """Records as a measurement, with the summary that the real code gives them."""
    rows = tuple(records)
    window_s = max(record.done_s for record in rows)
    gaps = bucket_counts(g for r in rows if (g := r.itl_mean_s) is not None for _ in range(r.itl_count))
    observed = Observed(rows, window_s, stopped, dict(gaps), server, gpu)
    use = ClientUse(1, 0.12, 0.001)
    summary = summarise(observed, slo)
    return Measurement(
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


SERVERS: dict[str, Any] = {
    "one at a time": lambda: Server(1, idle_s=0.06, streams=False),
    "static batches of 16": lambda: Server(16, holds=True, idle_s=0.05, streams=False),
    "continuous": lambda: Server(64),
}


def three_ways(levels: tuple[int, ...] = (1, 8, 25), *, requests: int = 150, repeats: int = 3) -> dict[str, Results]:
    """One at a time, in static batches, continuously."""
    slo, found = parse_slo(SLO), dict[str, Results]()
    loads = tuple(Load("closed", clients=clients) for clients in levels)
    for name, make in SERVERS.items():
        points = tuple(point(make, level, requests=requests, repeats=repeats, slo=slo) for level in levels)
        server = {"pipeline": name, "engine": {"max_num_seqs": make().slots, "gpu_memory_utilization": 0.3}}
        found[name] = Results(conditions(server=server, loads=loads), points)
    return found


def _new(index: int, client: int, intended_s: float, random: Random) -> _Request:
    tokens = random.randint(10, 200)
    return _Request(index, client, intended_s, tokens, round(tokens * random.uniform(0.8, 1.3)))


def _record(request: _Request, now_s: float, server: Server) -> RequestRecord:
    output = max(2, request.tokens)
    first_s = request.first_token_s if server.streams else None
    gap_s = None if first_s is None else (now_s - first_s) / (output - 1)
    return RequestRecord(
        index=request.index,
        text=request.index,
        intended_s=request.intended_s,
        sent_s=request.intended_s + 0.0005,
        first_token_s=first_s,
        done_s=now_s,
        source_tokens=request.tokens,
        band=length_band(request.tokens),
        output_tokens=output,
        status=200,
        finish_reason="stop",
        itl_count=0 if gap_s is None else output - 1,
        itl_mean_s=gap_s,
    )
