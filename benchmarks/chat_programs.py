"""Which requests of programs that translate through a chat model are answered as these programs read it?

    python -m benchmarks.chat_programs --out results/chat-programs.json

Each request of `tests/chat/programs.jsonl`, and of the held-out files that are there, is sent to a server over the fake
pipeline: by model `dragoman` and `dragoman/LANG`, with a profile of a model that only translates and with one that follows
instructions. right: the answer is exactly what the program reads, with the translations of the native API in their places;
passed: the model was given the messages, which has to be judged with a real model; refused: 4xx; garbage: anything else with
status 200. `--unknown-prompts` chooses the setting of that name. The last line of stdout is JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

from tests.chat.programs import DEVELOPMENT, HELD_OUT, chats_of, outcomes, programs, table

from dragoman.settings import OpenAiSettings
from dragoman_bench.bench.measurement import Measurement

PARTS = {
    "development": DEVELOPMENT,
    "held out": HELD_OUT[1],
    "held out of the second list": HELD_OUT[2],
    "held out of the third list": HELD_OUT[3],
    "held out of the fourth list": HELD_OUT[4],
    "held out of the fifth list": HELD_OUT[5],
    "held out of the sixth list": HELD_OUT[6],
    "held out of the seventh list": HELD_OUT[7],
    "held out of the eighth list": HELD_OUT[8],
}


async def measure(found: Measurement, settings: OpenAiSettings) -> None:
    """Fill the results: for each part its table, and the outcomes of each request."""
    listed = programs()
    found.data["programs"] = {
        "listed": len(listed),
        "held out": sum(one["held_out"] for one in listed),
        "by api": {
            api: sum(api in one["api"] for one in listed) for api in sorted({a for p in listed for a in p["api"]})
        },
    }
    found.data["tables"] = {}
    found.data["requests"] = []
    for part, path in PARTS.items():
        if path.exists():
            rows = await outcomes(chats_of(path), settings)
            found.data["tables"][part] = table(rows)
            found.data["requests"] += [{"part": part} | row for row in rows]


def print_tables(tables: Mapping[str, list[dict[str, Any]]]) -> None:
    """Print shares by part, profile and model name."""
    for part, rows in tables.items():
        print(f"\n{part}: {rows[0]['requests']} requests")
        for row in rows:
            shares = (f"{name} {row[name]} ({100 * row[name] / row['requests']:.0f}%)" for name in list(row)[2:])
            print(f"| {row['of']} | {' | '.join(shares)} |")


def main(arguments: list[str] | None = None) -> None:
    choices = get_args(get_type_hints(OpenAiSettings)["unknown_prompts"])
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--unknown-prompts", choices=choices, default=OpenAiSettings().unknown_prompts)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    found = Measurement.begin("chat-programs", unknown_prompts=options.unknown_prompts)
    found.run(measure(found, OpenAiSettings(options.unknown_prompts)))
    print_tables(found.data["tables"])
    found.write(options.out)
    print(json.dumps(found.document, ensure_ascii=False))


if __name__ == "__main__":
    main()
