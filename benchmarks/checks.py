"""The CPU time of all checks of a request of one sentence, and their false alarms, over the packaged sentences.

    python benchmarks/checks.py
    python benchmarks/checks.py --sentences 4 --pairs 20000 --out results/checks.json

A pair is a source of so many sentences in one of four languages and its reference in another: a clean translation, so that
every finding is a false alarm. Each check is timed alone and all of them together, with the detector of 16 served languages
and without one, in CPU time of this process. Needs a quiet machine. The last line of stdout is one JSON document.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

from dragoman import languages
from dragoman.text import checks, commentary, comparisons
from dragoman.text.comparisons import CheckContext
from dragoman.text.detect import Detector
from dragoman_bench.bench.results import describe_machine, git_commit

LANGUAGES = ("en", "ja", "ko", "zh")
SERVED = (*LANGUAGES, "de", "fr", "es", "it", "pt", "nl", "pl", "ru", "tr", "vi", "id", "ar")

Pair = tuple[str, str, CheckContext]
Check = Callable[[str, str, CheckContext], object]

CHECKS: dict[str, Check] = {
    "all": checks.findings,
    "all_without_detector": lambda source, output, context: checks.findings(
        source, output, replace(context, detector=None)
    ),
    "empty_output": lambda source, output, _: comparisons.is_empty(source, output),
    "refusal": lambda source, output, _: commentary.is_refusal(source, output),
    "repetition": lambda source, output, _: comparisons.repeats(source, output),
    "source_copied": comparisons.is_copied,
    "wrong_language": comparisons.is_wrong_language,
    "sentences_dropped": lambda source, output, _: comparisons.sentences_dropped(source, output),
    "commentary": lambda source, output, context: commentary.has_commentary(source, output, context.target_language),
    "placeholders_lost": lambda source, output, _: comparisons.placeholders_lost(source, output),
    "numbers_changed": lambda source, output, _: comparisons.numbers_lost(source, output),
    "line_breaks_lost": lambda source, output, _: comparisons.line_breaks_kept(source, output),
}


def pairs_of(number: int, sentences: int) -> list[Pair]:
    rng = random.Random(1)
    with gzip.open(str(resources.files("dragoman.phrasebook") / "sentences.jsonl.gz"), "rt", encoding="utf-8") as lines:
        rows: list[list[str]] = [json.loads(line) for line in lines]
    detector = Detector(SERVED)
    pairs: list[Pair] = []
    for _ in range(number):
        chosen = rng.sample(rows, sentences)
        one, other = rng.sample(range(len(LANGUAGES)), 2)
        source, output = (" ".join(row[place] for row in chosen) for place in (one, other))
        pairs.append((source, output, CheckContext(LANGUAGES[one], LANGUAGES[other], detector)))
    return pairs


def cpu_us(check: Check, pairs: list[Pair]) -> float:
    """Microseconds of CPU time for a pair."""
    started = time.process_time()
    for source, output, context in pairs:
        check(source, output, context)
    return round((time.process_time() - started) / len(pairs) * 1e6, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--sentences", type=int, default=1, help="in a text")
    parser.add_argument("--repeats", type=int, default=3, help="the median is reported")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    languages.prepare()  # as a server does when it starts
    pairs = pairs_of(options.pairs, options.sentences)
    alarms: Counter[str] = Counter(
        one.code for source, output, context in pairs for one in checks.findings(source, output, context)
    )
    with_alarms = sum(bool(checks.findings(source, output, context)) for source, output, context in pairs)
    measured: dict[str, float] = {
        name: sorted(cpu_us(check, pairs) for _ in range(options.repeats))[options.repeats // 2]
        for name, check in CHECKS.items()
    }
    for name, value in measured.items():
        print(f"{name:>24} {value:8.1f} µs")
    print(f"{with_alarms} of {len(pairs)} clean pairs have a finding: {dict(alarms)}")
    document: dict[str, Any] = {
        "conditions": {
            "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": asdict(describe_machine()),
            "git_commit": git_commit(),
            "pairs": options.pairs,
            "sentences": options.sentences,
            "served": SERVED,
        },
        "cpu_us": measured,
        "pairs_with_a_finding": with_alarms,
        "findings": dict(alarms),
    }
    if options.out:
        options.out.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(document, ensure_ascii=False))


if __name__ == "__main__":
    main()
