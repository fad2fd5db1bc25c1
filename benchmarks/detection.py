"""What the detection of languages stops wrongly, what it names rightly, and its CPU time.

    python benchmarks/detection.py                                  # the packaged model's sentences
    python benchmarks/detection.py DIR --programs gnucash-common,gimp-data --out results/detection.json

DIR holds translations by people, as `benchmarks/checks.py` reads them: each is a text of a known language. For each profile the
texts of its languages must not be stopped, and those of other languages must be named (`language_not_served`). A translation
that is equal to its source, or to another English message, is left out; languages that py3langid does not know, and those that
are one with a served language for it, are listed apart. The last line is one JSON document.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from benchmarks.checks import is_short, read_corpus

from dragoman import languages
from dragoman.prompts.catalog import profiles
from dragoman.text import detect
from dragoman.text.detect import Detector
from dragoman_bench.bench.measurement import Measurement

EVALUATION = Path(__file__).parents[1] / "tools" / "phrasebook" / "evaluation"
LIMITS = {True: 0.003, False: 0.001}
"""The share of texts of served languages that may be stopped: of up to four words, and of more."""

Texts = Mapping[str, Sequence[str]]
"""By their language."""


# ---- texts


def packaged_texts() -> Texts:
    """The sentences and the evaluation data of the packaged model, in its four languages."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    with gzip.open(str(resources.files("dragoman.phrasebook") / "sentences.jsonl.gz"), "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            for tag, text in zip(("en", "ja", "ko", "zh"), row, strict=True):
                found[tag][text] = None
    for path in sorted(EVALUATION.glob("*.jsonl")):
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            for tag, texts in row["texts"].items():
                found[tag].update(dict.fromkeys(texts))
    return {tag: list(texts) for tag, texts in found.items()}


def catalogue_texts(folder: Path, programs: Iterable[str], number: int) -> Texts:
    """Of each language up to `number` short and as many longer messages; of English ten times as many."""
    english: dict[str, None] = {}
    others: dict[str, dict[str, None]] = defaultdict(dict)
    for (_, source_language, target), pairs in read_corpus(folder, programs).pairs.items():
        if source_language == "en":
            english.update(dict.fromkeys(pairs))
        others[target].update({translation: None for source, translation in pairs.items() if source != translation})
    found: dict[str, Sequence[str]] = {"en": list(_some(list(english), 10 * number))}
    for tag, texts in sorted(others.items()):
        if languages.primary(tag) != "en":
            found[tag] = list(_some([text for text in texts if text not in english], number))
    return found


def _some(texts: list[str], number: int) -> Iterator[str]:
    random.Random(1).shuffle(texts)
    for short in (True, False):
        yield from [text for text in texts if is_short(text) is short][:number]


# ---- what is found


@dataclass(slots=True)
class Count:
    """Texts of one language and one length. `named`: as one that is not served, `rightly`: by its own name."""

    texts: int = 0
    named: int = 0
    rightly: int = 0
    doubted: int = 0

    def add(self, other: Count) -> None:
        for name in ("texts", "named", "rightly", "doubted"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


Counts = dict[tuple[str, bool], Count]
"""By language, and by whether the texts are short."""


def count(detector: Detector, texts: Texts, shown: str) -> Counts:
    counts: Counts = defaultdict(Count)
    for tag, of_language in texts.items():
        for text in of_language:
            found, one = detector.detect(text), counts[tag, is_short(text)]
            one.texts += 1
            one.named += not found.is_served
            one.doubted += found.doubt is not None
            one.rightly += not found.is_served and same_label(found.language or "und", tag)
            if shown and (found.is_served is (shown == "missed")):
                print(tag, repr(text), found, sep="\t")
    return counts


def same_label(one: str, other: str) -> bool:
    return detect.one_language(detect.label_of(one)) == detect.one_language(detect.label_of(other))


def kind_of(tag: str, served: Sequence[str]) -> str:
    """Whether a language is served, is not, is one with a served one for the identifier, or unknown to it."""
    if languages.match(tag, tuple(served)) is not None or languages.primary(tag) in map(languages.primary, served):
        return "served"
    scripts = detect.scripts_of(tag)
    if any(same_label(tag, one) and not scripts.isdisjoint(detect.scripts_of(one)) for one in served):
        return "as served"
    known = detect.label_of(tag) in detect.labels() and not scripts.isdisjoint(
        detect.scripts_of(languages.primary(tag))
    )
    return "not served" if known else "unknown"


def summed(counts: Counts, tags: Iterable[str], short: bool) -> Count:
    total = Count()
    for tag in tags:
        total.add(counts[tag, short])
    return total


def measure(served: Sequence[str], texts: Texts, shown: dict[str, str]) -> dict[str, Any]:
    detector = Detector(served)
    groups: dict[str, list[str]] = defaultdict(list)
    for tag in texts:
        groups[kind_of(tag, served)].append(tag)
    result: dict[str, Any] = {}
    for kind, tags in groups.items():
        counts = count(detector, {tag: texts[tag] for tag in tags}, shown.get(kind, ""))
        result[kind] = {
            "short": asdict(summed(counts, tags, True)),
            "longer": asdict(summed(counts, tags, False)),
            "languages": {
                tag: {"short": _row(counts[tag, True]), "longer": _row(counts[tag, False])} for tag in sorted(tags)
            },
        }
    return result


def _row(one: Count) -> list[int]:
    """Texts, named, named rightly, doubted."""
    return [one.texts, one.named, one.rightly, one.doubted]


def cpu_us(detector: Detector, texts: Sequence[str]) -> float:
    """Microseconds of CPU time for a text."""
    started = time.process_time()
    for text in texts:
        detector.detect(text)
    return round((time.process_time() - started) / len(texts) * 1e6, 1)


def times(texts: Texts) -> dict[str, float]:
    """Of a detection by the packaged model's detector, in microseconds of CPU time; the median of three."""
    detector, rng = Detector(tuple(profiles()["phrasebook"].languages)), random.Random(1)
    samples = {
        tag: [rng.choice(of_language) for _ in range(1_000)] for tag, of_language in texts.items() if of_language
    }
    samples = {
        tag: chosen for tag, chosen in samples.items() if tag in ("en", "ja", "ko", "zh", "de", "fr", "ru", "tr")
    }
    samples["en, 100,000 characters"] = [" ".join(samples["en"] * 10)[:100_000]] * 20
    return {name: sorted(cpu_us(detector, chosen) for _ in range(3))[1] for name, chosen in samples.items()}


# ---- the command


def print_table(name: str, result: dict[str, Any]) -> None:
    print(f"\n{name}\n\n| texts | up to 4 words | | more | |\n|---|---:|---:|---:|---:|")
    for kind, found in result.items():
        cells = [
            f"{found[length]['texts']:,} | {100 * found[length]['named'] / max(found[length]['texts'], 1):.2f}%"
            for length in ("short", "longer")
        ]
        print(f"| {kind} | {' | '.join(cells)} |")
    for short, limit in LIMITS.items():
        found = result.get("served", {}).get("languages", {})
        over = {tag: one["short" if short else "longer"][:2] for tag, one in found.items()}
        over = {tag: one for tag, one in over.items() if one[1] > limit * one[0]}
        print(f"stopped over {100 * limit:.1f}%, {'up to 4 words' if short else 'more'}: {over or 'none'}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="translations; default: packaged sentences")
    parser.add_argument(
        "--programs", type=lambda text: text.split(","), default=[], help="folders of DIR; default: all"
    )
    parser.add_argument(
        "--profiles", type=lambda text: text.split(","), default=["phrasebook"], help="whose languages are served"
    )
    parser.add_argument("--number", type=int, default=500, help="short and as many longer messages for each language")
    parser.add_argument("--show", choices=("stopped", "missed"), help="print what is stopped wrongly, or not named")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    languages.prepare()  # as a server does when it starts
    detect.prepare()
    found = Measurement.begin("detection", programs=options.programs, number=options.number)
    packaged = packaged_texts()
    texts = catalogue_texts(options.folder, options.programs, options.number) if options.folder else packaged
    shown = {"stopped": {"served": "stopped"}, "missed": {"not served": "missed"}}.get(options.show, {})
    results = {"packaged": measure(tuple(profiles()["phrasebook"].languages), packaged, shown)}
    for name in options.profiles if options.folder else ():
        results[name] = measure(tuple(profiles()[name].languages), texts, shown)
    for name, result in results.items():
        print_table(name, result)
    found.data = {"results": results, "cpu_us": times({**texts, **packaged})}
    print(found.data["cpu_us"])
    found.write(options.out)
    print(json.dumps(found.document, ensure_ascii=False))


if __name__ == "__main__":
    main()
