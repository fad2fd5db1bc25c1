"""What other weights of the packaged model cost: requests a second over HTTP, and the time from start to ready.

    python benchmarks/packaged_model.py --before FOLDER --out results/packaged-model-cpu.json

`--before` is a folder with other weights of it, for example of an older version. In each turn `dragoman serve` is started with
the one and then with the other (the order changes every turn), and the same texts, never sent before, are sent to both in a
closed loop from this process, which uses the machine's CPU too. Outputs are the models' own, and so are their lengths: output
tokens a second are given beside requests a second. The last lines of stdout are a JSON document: medians and ranges over the
turns. `ratio` is of the packaged model to the other in the same turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
from in_process import conditions_of, parser_of, run_until_interrupted, spread, workload, write

from dragoman.cli.console import error_console
from dragoman.phrasebook import model_dir
from dragoman_bench.bench.servers import dragoman_serve, serving
from dragoman_bench.bench.workload import Item

FIGURES = ("ready_s", "rps", "output_tokens_per_s", "tokens_per_answer")
Rows = list[dict[str, Any]]


def described(folder: Path) -> dict[str, Any]:
    """Shape and size of a model's folder."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return {
        "layers": config["num_hidden_layers"],
        "hidden_size": config["hidden_size"],
        "vocabulary": config["vocab_size"],
        "weights_bytes": (folder / "model.safetensors").stat().st_size,
    }


async def _output_tokens(session: aiohttp.ClientSession, url: str) -> tuple[int, int]:
    """Of all sequences that ended, and how many they were."""
    async with session.get(f"{url}/v1/stats") as answer:
        stats = await answer.json()
    return stats["engine"]["completion_tokens"], stats["engine"]["finished"]


async def requests_per_s(
    session: aiohttp.ClientSession, url: str, items: Iterator[Item], options: argparse.Namespace
) -> float:
    """Of a closed loop; answers before the warm-up's end do not count."""
    start_s = monotonic() + options.warmup
    end_s = start_s + options.duration
    ended = 0

    async def client() -> None:
        nonlocal ended
        while monotonic() < end_s:
            item = next(items, None)
            if item is None:
                raise SystemExit(f"more than {options.most_rps:g} requests a second: specify a larger --most-rps")
            body = {"text": item.text, "source": item.source, "target": item.target}
            async with session.post(f"{url}/v1/translate", json=body) as answer:
                answer.raise_for_status()
                await answer.read()
            ended += start_s <= monotonic() < end_s

    async with asyncio.TaskGroup() as group:
        for _ in range(options.clients[0]):
            group.create_task(client())
    return ended / options.duration


async def measure(name: str, folder: Path, texts: list[Item], options: argparse.Namespace) -> dict[str, float]:
    """One start of a server, and one closed loop."""
    logs: Path = options.logs.resolve()
    flags = {"model": str(folder), "profile": "phrasebook", "traffic": "false", "cache-max-bytes": 64 * 2**20}
    command = dragoman_serve(name, flags, logs / f"{name}.engine.log")
    async with aiohttp.ClientSession() as session, serving(command, logs / f"{name}.log", asyncio.Event()) as server:
        rps = await requests_per_s(session, server.url, iter(texts), options)
        tokens, sequences = await _output_tokens(session, server.url)
    per_answer = tokens / sequences
    return {
        "ready_s": server.start_s,
        "rps": rps,
        "output_tokens_per_s": rps * per_answer,
        "tokens_per_answer": per_answer,
    }


async def run(options: argparse.Namespace, document: dict[str, Any]) -> None:
    """Fills `document` turn by turn, so that an interrupt keeps what was measured."""
    work = replace(workload(options), ratio=None)  # real outputs
    folders = {"packaged": model_dir(), "before": options.before}
    document["conditions"] = conditions_of(options, work) | {
        "clients": options.clients[0],
        "models": {name: described(folder) for name, folder in folders.items()},
    }
    document["turns"] = turns = Rows()
    count = round(options.most_rps * (options.warmup + options.duration))
    for turn in range(options.repeats):
        texts = work.items(count, turn)
        row: dict[str, Any] = {"turn": turn}
        for name in folders if turn % 2 == 0 else reversed(folders):
            row[name] = await measure(name, folders[name], texts, options)
        row["ratio"] = row["packaged"]["rps"] / row["before"]["rps"]
        turns.append(row)
        error_console.print(row)


def summary_of(turns: Rows) -> dict[str, Any]:
    """Each figure's median and range, by model."""
    if not turns:
        return {}
    models = {
        name: {figure: spread([row[name][figure] for row in turns]) for figure in FIGURES}
        for name in ("packaged", "before")
    }
    return models | {"ratio": spread([row["ratio"] for row in turns])}


def main() -> None:
    parser = parser_of(__doc__, ".dragoman/packaged-model")
    parser.add_argument(
        "--before",
        type=lambda text: Path(text).resolve(),
        required=True,
        help="folder of the other weights",
        metavar="FOLDER",
    )
    parser.add_argument("--most-rps", type=float, default=400.0, help="requests a second for which texts are made")
    parser.set_defaults(clients=[25], duration=20.0, warmup=5.0)
    options = parser.parse_args()
    document: dict[str, Any] = {"kind": "packaged-model"}
    run_until_interrupted(run(options, document), document)
    document["summary"] = summary_of(document.get("turns", []))
    write(document, options.out)
    print(json.dumps(document["summary"], indent=1))


if __name__ == "__main__":
    main()
