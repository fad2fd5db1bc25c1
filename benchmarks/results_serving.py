"""The results page's sections on serving: against `vllm serve`, what feeding and our own stack cost, the recorder."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from results_format import RESULTS, note, ranged, spread, table, where

OWN_SHARE = 0.97  # of the engine's own throughput, that should be left behind our stack


def duels() -> str:
    """dragoman's number over `vllm serve`'s, pair by pair."""
    sections = (
        (
            "versus-h200",
            "One H200 alone, Qwen3-4B shape, random weights with forced lengths, dragoman's defaults for both: max_num_seqs 256, steps of up to "
            "8192 tokens, CUDA graphs up to 1024; memory 0.4 each; vLLM 0.26; turns of 8 s. dragoman lets new prompts join the running batch every 8 "
            "steps (`results/prefill-interval-h200.json`, below), which is how it feeds the engine and none of the engine's settings.",
        ),
        (
            "versus-h200-each-step",
            "The same settings on another machine of the kind, before dragoman did that: each prompt joined at the next step, as in `vllm serve`.",
        ),
        (
            "versus-h200-graphs-512",
            "Before that, with vLLM's own ceiling of 512 tokens on CUDA graphs for both; 256 clients alone, four turns of 10 s.",
        ),
        (
            "versus-h200-forked",
            "Earlier still, before dragoman spawned its engine process: forked from the server, the scheduler's process spent more CPU time on every "
            "step (a sampling profile of both showed the one difference: `popen_fork` on a server's thread here, `spawn` there) and left the "
            "GPU idle for longer between steps.",
        ),
        (
            "versus-cpu",
            "2 cores, phrasebook shape, random weights with forced lengths, max_num_seqs 64, 1 GiB of KV cache each.",
        ),
        (
            "versus-cpu-real",
            "2 cores, the phrasebook model with its own output lengths. This is not equal work: dragoman cuts texts over the model's limit and "
            "translates again what came back with sentences missing, which `vllm serve` does not.",
        ),
    )
    parts = [
        "## dragoman against `vllm serve`\n",
        "`dragoman journey --versus`: both servers up with the same settings, one client, measured in turn (A B, B A, A B). The ratio is "
        "dragoman's number over `vllm serve`'s in the same turn: median and range, of three turns where no note says otherwise.\n",
    ]
    for folder, told in sections:
        path = RESULTS / folder / "versus.json"
        if not path.is_file():
            continue
        document = json.loads(path.read_text(encoding="utf-8"))
        by_level: dict[int, dict[str, list[float]]] = {}
        for one in document["ratios"]:
            if one.get("mode", "plain") != "plain":
                continue
            by_level.setdefault(one["clients"], {})[one["metric"]] = one["ratios"]
        ours, theirs = (_rates(path.parent, name) for name in document["names"])
        heads = ("clients", "dragoman, req/s", "`vllm serve`, req/s", "ratio", "99th percentile of latency, ratio")
        rows = [
            (
                str(clients),
                _told(ours, clients),
                _told(theirs, clients),
                ranged(found["requests a second"]),
                ranged(found["99th percentile of latency"]),
            )
            for clients, found in sorted(by_level.items())
        ]
        parts.append(f"**{folder}.** {told}\n\n{table(heads, rows)}")
        parts += note(path.with_name("note.md"))
    return "\n".join(parts)


def _rates(folder: Path, name: str) -> dict[int, list[float]]:
    """A contender's requests a second by clients; empty where its results were not kept."""
    for path in folder.glob(f"versus.{name}.json*"):
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return {
            point["load"]["clients"]: [one["summary"]["rps"] for one in point["repeats"]]
            for point in json.loads(text)["points"]
        }
    return {}


def _told(rates: dict[int, list[float]], clients: int) -> str:
    return ranged(rates[clients]) if clients in rates else "–"


def intervals() -> str:
    """What it is worth that prompts wait for each other."""
    parts: list[str] = []
    for path in sorted(RESULTS.glob("prefill-interval-*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        told = found["conditions"]
        repeats, ceiling = found["summary"][0]["rps"]["repeats"], found["summary"][0]["ceiling"]
        heads = (
            "clients",
            "new prompts every",
            "requests a second",
            "ratio",
            "median latency",
            "99th percentile",
            "ratio",
        )
        graphs = f"CUDA graphs up to {ceiling} tokens" if ceiling else "no CUDA graphs"
        parts.append(
            f"**{path.stem}.** `python benchmarks/prefill_interval.py`, {where(told['machine'])}; {told['workload']}; `AsyncLLM` in process, "
            f"{graphs}, {repeats} turns of {told['duration_s']:g} s. The ratios are to an interval "
            "of one step in the same turn.\n\n"
            f"{table(heads, map(_interval, found['summary']), numbers=2)}"
        )
        parts += note(path.with_suffix(".note.md"))
    return "\n".join(["## Prompts that wait for each other\n", *parts]) if parts else ""


def _interval(one: dict[str, Any]) -> tuple[str, ...]:
    rates, latencies = (spread(one["rps"]), spread(one["rps_ratio"])), (_ms(one["p50_s"]), _ms(one["p99_s"]))
    return (str(one["clients"]), str(one["interval"]), *rates, *latencies, spread(one["p99_s_ratio"]))


def _ms(one: dict[str, float]) -> str:
    return f"{one['median'] * 1000:.0f} ms ({one['low'] * 1000:.0f}..{one['high'] * 1000:.0f})"


def overhead() -> str:
    parts = ["## What our own stack costs\n"]
    for path in sorted(RESULTS.glob("overhead-*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        told, machine = found["conditions"], found["conditions"]["machine"]
        parts.append(
            f"**{path.stem}.** `python benchmarks/overhead.py`, {where(machine)}; {told['workload']}; {told['repeats']} turns of "
            f"{told['duration_s']:g} s.\n"
        )
        if "fake" in found:
            heads = {"rps": "requests a second", "client_cpu_share": "client's share of a core"}
            parts.append(
                "No engine behind it (`--pipeline fake`): HTTP, admission, prompts, guards, and the answer. The client runs on the same cores.\n\n"
                + _by_clients(heads, found["fake"]["summary"])
            )
        if "engine" in found:
            heads = {"http_rps": "through HTTP, req/s", "in_process_rps": "in process, req/s", "ratio": "ratio"}
            parts.append(
                "Through HTTP against the same sequences handed to `AsyncLLM` in process, in turn, two engines with equal settings:\n\n"
                + _by_clients(heads, found["engine"]["summary"])
            )
            parts.append(_asked_of_ourselves(found["engine"]["summary"]))
        parts += note(path.with_suffix(".note.md"))
    return "\n".join(parts)


def _by_clients(heads: dict[str, str], summary: list[dict[str, Any]]) -> str:
    """`heads`: of the columns, by their names in the summary."""
    return table(
        ("clients", *heads.values()), [(str(one["clients"]), *(spread(one[name]) for name in heads)) for one in summary]
    )


def _asked_of_ourselves(levels: list[dict[str, Any]]) -> str:
    below = [str(one["clients"]) for one in levels if one["ratio"]["median"] < OWN_SHARE]
    told = (
        f"With {', '.join(below)} client{'s' if below != ['1'] else ''} the median is below the {OWN_SHARE} that we ask of ourselves."
        if below
        else f"No median is below the {OWN_SHARE} that we ask of ourselves."
    )
    return told + "\n"


def recorder() -> str:
    path = RESULTS / "recorder-cost.json"
    if not path.is_file():
        return ""
    found = json.loads(path.read_text(encoding="utf-8"))
    told, numbers = found["conditions"], found["found"]
    rows = [
        f"| {name} | {spread(one['on'])} | {spread(one['off'])} | {spread(one['on_over_off_by_round'], 4)} | {one['on_is']} |"
        for name, one in numbers.items()
    ]
    return (
        "## What the traffic recorder costs\n\n"
        f"`python benchmarks/recorder_cost.py`: {told['pipeline']} pipeline, {told['clients']} clients, {told['rounds']} rounds of on, off, off, on, "
        f"{told['seconds']:g} s each.\n\n| | with it | without | ratio, by round | with it is |\n| --- | --- | --- | --- | --- |\n"
        + "\n".join(rows)
        + "\n"
    )
