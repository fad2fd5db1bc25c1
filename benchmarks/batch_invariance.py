"""Does a translation depend on the batch? Each text alone, then the same texts among 24 others, on a running server.

    dragoman serve &
    PYTHONPATH=. python benchmarks/batch_invariance.py --texts 500 --out results/batch-invariance.json

Held-out phrasebook messages of all lengths, in all directions, greedy decoding. A batch changes the shapes of the matrix
products and so the order of floating-point additions: where two tokens are almost equally likely, the choice can change.
Prints the share of equal translations and each pair that differs; the last line of stdout is one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import random
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from typing import Any

import aiohttp
from tools.phrasebook.generator import Generator

from dragoman.phrasebook import LANGUAGES

CONCURRENT = 25


def held_out(count: int, seed: int) -> list[dict[str, str]]:
    """Messages of one to ten sentences, directions in turn."""
    generator = Generator("heldout", seed)
    directions = list(permutations(LANGUAGES, 2))
    bodies: list[dict[str, str]] = []
    for number in range(count):
        source, target = directions[number % len(directions)]
        texts = dict(generator.message().texts)
        bodies.append({"text": texts[source], "source": source, "target": target, "expected": texts[target]})
    return bodies


async def translate(session: aiohttp.ClientSession, body: dict[str, str]) -> str:
    request = {name: body[name] for name in ("text", "source", "target")}
    async with session.post("/v1/translate", json=request) as answer:
        answer.raise_for_status()
        return (await answer.json())["translations"][0]["text"]


async def in_batch(session: aiohttp.ClientSession, bodies: list[dict[str, str]], seed: int) -> list[str]:
    """All texts in another order, `CONCURRENT` in flight all the time."""
    order = list(range(len(bodies)))
    random.Random(seed).shuffle(order)
    answers = [""] * len(bodies)

    async def client() -> None:
        while order:
            index = order.pop()
            answers[index] = await translate(session, bodies[index])

    await asyncio.gather(*(client() for _ in range(CONCURRENT)))
    return answers


async def ready(session: aiohttp.ClientSession) -> None:
    """Returns when the server is ready, which a server that was just started is not yet."""
    while True:
        with suppress(aiohttp.ClientConnectionError):
            async with session.get("/readyz") as answer:
                if answer.status == 200:
                    return
        await asyncio.sleep(1)


async def compare(url: str, texts: int, seed: int) -> dict[str, Any]:
    bodies = held_out(texts, seed)
    async with aiohttp.ClientSession(url) as session:
        await ready(session)
        async with session.get("/v1/stats") as answer:
            server = await answer.json()
        alone = [await translate(session, body) for body in bodies]
        again = [await translate(session, body) for body in bodies]
        batched = await in_batch(session, bodies, seed)
    differ = [
        {**body, "alone": one, "amid": other}
        for body, one, other in zip(bodies, alone, batched, strict=True)
        if one != other
    ]
    return {
        "conditions": {
            "machine": platform.platform(),
            "server": {name: server[name] for name in ("model", "pipeline", "device", "settings")},
            "concurrent": CONCURRENT,
            "texts": texts,
            "seed": seed,
        },
        "equal_share": 1 - len(differ) / texts,
        "equal_share_alone_twice": sum(a == b for a, b in zip(alone, again, strict=True)) / texts,
        "exact_alone": sum(a == body["expected"] for a, body in zip(alone, bodies, strict=True)) / texts,
        "exact_amid": sum(a == body["expected"] for a, body in zip(batched, bodies, strict=True)) / texts,
        "differ": differ,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    result = asyncio.run(compare(options.url, options.texts, options.seed))
    if options.out:
        options.out.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(
        f"{result['equal_share']:.1%} of {options.texts} translations are the same among {CONCURRENT - 1} others as alone"
    )
    for pair in result["differ"]:
        print(f"  {pair['source']}-{pair['target']}: {pair['alone']!r} / {pair['amid']!r}")
    print(json.dumps({name: value for name, value in result.items() if name != "differ"}))


if __name__ == "__main__":
    main()
