"""What it costs to find the similar entries of a translation memory, and how often the best one is found.

    python benchmarks/similar.py                                        # recombined sentences of the packaged model
    python benchmarks/similar.py DIR --out results/similar-cpu.json     # messages of catalogues (.mo) and their recombinations

DIR holds catalogues of human translations: their messages, and texts made of the halves of two, until there are as many entries
as wanted, of 60 characters in the mean. Looked for are other such texts. Recall is the share of texts with an entry of at least
60 % similarity for which the entry that was found first is as similar as the best of all entries. The last line is one JSON
document.
"""

from __future__ import annotations

import argparse
import gettext
import gzip
import json
import random
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from rapidfuzz import fuzz, process

from dragoman.storage.folding import folded
from dragoman.text.similar import Builder, Query, SimilarTexts, TextEntry
from dragoman_bench.bench.measurement import Measurement

MEAN_CHARACTERS, LONG_CHARACTERS = 60, 500
LEAST = 60.0
TO_REACH = {"mean_ms": 1.0, "p99_ms": 5.0, "long_p99_ms": 15.0, "recall": 0.95, "index_mb": 150.0}


def packaged() -> Iterator[str]:
    with gzip.open(str(resources.files("dragoman.phrasebook") / "sentences.jsonl.gz"), "rt", encoding="utf-8") as lines:
        yield from (json.loads(line)[0] for line in lines)


def catalogues(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("de/**/*.mo")):
        with path.open("rb") as file:
            messages: dict[Any, str] = vars(gettext.GNUTranslations(file))["_catalog"]
        yield from (key for key in messages if isinstance(key, str) and key and "\x04" not in key)


def recombined(sources: list[str], number: int, draw: random.Random) -> list[str]:
    """The texts, and beginnings of some with ends of others, of `MEAN_CHARACTERS` in the mean."""
    found = dict.fromkeys(text for text in sources if 12 <= len(text) <= 2 * MEAN_CHARACTERS)
    words = [text.split() for text in found]
    while len(found) < number:
        one, other = draw.choice(words), draw.choice(words)
        text = " ".join([*one[: draw.randint(1, len(one))], *other[draw.randint(0, len(other) - 1) :]])
        if MEAN_CHARACTERS * 0.7 <= len(text) <= MEAN_CHARACTERS * 1.5:
            found[text] = None
    texts = [*found]
    draw.shuffle(texts)
    return texts[:number]


def timed(index: SimilarTexts, texts: list[str]) -> tuple[list[float], list[float]]:
    """CPU time of each look-up in milliseconds, and the best similarity that it found."""
    left_out, took_ms, best = np.zeros(len(index), np.bool_), list[float](), list[float]()
    for text in texts:
        began = time.thread_time()
        found = index.find(Query(text, folded(text)), 3, LEAST, left_out)
        took_ms.append((time.thread_time() - began) * 1000)
        best.append(found[0].similarity if found else 0.0)
    return took_ms, best


def measure(sources: list[str], options: argparse.Namespace) -> dict[str, float]:
    draw = random.Random(1)
    texts = recombined(sources, options.entries + options.texts, draw)
    entries, wanted = texts[: options.entries], texts[options.entries :]
    began = time.process_time()
    builder = Builder()
    builder.add(TextEntry(number, folded(text), text, text[::-1]) for number, text in enumerate(entries))
    index = builder.done()
    build_s = time.process_time() - began
    took_ms, best = timed(index, wanted)
    truth = [
        process.extractOne(text, entries, scorer=fuzz.ratio, score_cutoff=LEAST) for text in wanted[: options.truths]
    ]
    hits = [found >= one[1] - 1e-6 for found, one in zip(best, truth, strict=False) if one is not None]
    long = [" ".join(draw.choices(wanted, k=LONG_CHARACTERS // MEAN_CHARACTERS))[:LONG_CHARACTERS] for _ in wanted]
    long_ms, _ = timed(index, long)
    return {
        "entries": len(index),
        "mean_characters": round(float(np.mean([*map(len, entries)])), 1),
        "build_cpu_s": round(build_s, 2),
        "index_mb": round(index.nbytes / 1e6, 1),
        "texts": len(wanted),
        "mean_ms": round(float(np.mean(took_ms)), 3),
        "p99_ms": round(float(np.percentile(took_ms, 99)), 3),
        "long_p99_ms": round(float(np.percentile(long_ms, 99)), 3),
        "similar": len(hits),
        "recall": round(sum(hits) / max(len(hits), 1), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--entries", type=int, default=200_000)
    parser.add_argument("--texts", type=int, default=1_000, help="that are looked for")
    parser.add_argument("--truths", type=int, default=400, help="of these, that are compared with all entries")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sources = [*(catalogues(options.folder) if options.folder else packaged())]
    results = Measurement.begin("similar", source="catalogues" if options.folder else "packaged sentences")
    results.data["figures"] = measure(sources, options)
    results.data["to_reach"] = TO_REACH
    results.write(options.out)
    print(json.dumps(results.document, ensure_ascii=False))


if __name__ == "__main__":
    main()
