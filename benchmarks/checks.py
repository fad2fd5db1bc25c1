"""What the checks of an output find, what they flag wrongly, and their CPU time.

    python benchmarks/checks.py                                   # packaged sentences in four languages
    python benchmarks/checks.py DIR --languages fr,de,es --programs gramps,freeciv-data --out results/checks-languages.json

DIR holds translations by people, a folder for each program: gettext catalogues (`.mo` and `.po`, of which the path names the
language), or TSV files: text, translation, source and target language. A translation is right
by definition, so that each finding is a false alarm. Left out are messages that a catalogue has in English while most other
languages translate them, and those with plural forms, of which one may lack the number. The source itself, another message,
one with half of the source's words and a translation into another language of the same script are wrong outputs, which have
to be found. Close languages are listed apart. Checks are timed in CPU time of this process. The last line is one JSON
document.
"""

from __future__ import annotations

import argparse
import ast
import gettext
import gzip
import json
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from dragoman import languages
from dragoman.prompts.catalog import profiles
from dragoman.text import answers, checks, commentary, comparisons
from dragoman.text.comparisons import CheckContext
from dragoman.text.detect import Detector, scripts_of
from dragoman_bench.bench.measurement import Measurement
from wholetext.markup.spans import without_spans

PACKAGED = ("en", "ja", "ko", "zh")
SERVED = (*PACKAGED, "de", "fr", "es", "it", "pt", "nl", "pl", "ru", "tr", "vi", "id", "ar")
SHORT_WORDS = 4
MIN_LETTERS = 3
MAX_CHARACTERS = 400
MIN_SHARED = 0.5
TRANSLATED_IN = 2
"""A message that is equal to its source counts as not translated if this many times as many languages translate it."""
LANGUAGE_CODES = frozenset({checks.WRONG_LANGUAGE, checks.SOURCE_COPIED, checks.REFUSAL, checks.COMMENTARY})
CLOSE = ({"da", "nb", "nn"}, {"cs", "sk"}, {"hr", "bs", "sr"}, {"id", "ms"}, {"es", "gl", "pt"})
"""Close languages, which are listed apart."""

CASES = {
    "right": "the right translation (false alarms)",
    "right, any check": "the same, findings of any check",
    "right, answered": "the same, `answered`",
    "question": "the right translation of a question, `answered`",
    "copied": "the source itself",
    "source's language": "another message in the source's language",
    "similar": "a message with half of the source's words",
    "other language": "a right translation into another language",
    "close language": "the same, into a close language",
}

Pair = tuple[str, str, CheckContext]
Check = Callable[[str, str, CheckContext], object]

TIMED: dict[str, Check] = {
    "all": checks.findings,
    "answered": answers.is_answered,
    "empty_output": lambda source, output, _: comparisons.is_empty(source, output),
    "refusal": lambda source, output, _: commentary.is_refusal(source, output),
    "repetition": lambda source, output, _: comparisons.repeats(source, output),
    "source_copied": comparisons.is_copied,
    "wrong_language": comparisons.is_wrong_language,
    "sentences_dropped": lambda source, output, _: comparisons.too_few_sentences(
        *comparisons.both_sentence_ends(source, output)
    ),
    "commentary": lambda source, output, context: commentary.has_commentary(source, output, context.target_language),
    "placeholders_lost": lambda source, output, _: comparisons.placeholders_lost(source, output),
    "numbers_changed": lambda source, output, _: comparisons.numbers_lost(source, output),
    "line_breaks_lost": lambda source, output, _: comparisons.line_breaks_kept(source, output),
}


# ---- translations by people


@dataclass(slots=True)
class Corpus:
    """Messages and their translations: (program, source language, target language) -> source -> translation."""

    pairs: dict[tuple[str, str, str], dict[str, str]] = field(default_factory=lambda: defaultdict(dict))

    def of(self, target: str) -> list[tuple[str, str, str, str]]:
        """Program, source language, source and translation of each pair into a language."""
        return [
            (program, source_language, source, translation)
            for (program, source_language, language), found in self.pairs.items()
            if language == target
            for source, translation in found.items()
        ]

    def targets(self) -> list[str]:
        return sorted({target for _, _, target in self.pairs})

    def leave_out_untranslated(self) -> int:
        """Remove messages that a catalogue has in the source's language, and count them.

        Such a message is equal to its source, and most other languages have a translation: it is no name.
        """
        equal, translated = Counter[str](), Counter[str]()
        for found in self.pairs.values():
            for source, translation in found.items():
                (equal if is_equal(source, translation) else translated)[source] += 1
        left = 0
        for found in self.pairs.values():
            untranslated = [
                source
                for source, translation in found.items()
                if is_equal(source, translation) and translated[source] >= TRANSLATED_IN * equal[source]
            ]
            for source in untranslated:
                del found[source]
            left += len(untranslated)
        return left


def is_equal(source: str, translation: str) -> bool:
    return source.casefold() == translation.casefold()


def read_corpus(folder: Path, programs: Iterable[str]) -> Corpus:
    """The translations below `folder`; of all programs where none is named. Exits where there are none."""
    corpus, wanted = Corpus(), set(programs)
    for path in sorted(folder.rglob("*")):
        program = path.relative_to(folder).parts[0]
        if path.suffix not in READERS or (wanted and program not in wanted):
            continue
        for source_language, target, source, translation in READERS[path.suffix](path):
            if is_fit(source) and is_fit(translation):
                pair = without_mnemonic(source), without_mnemonic(translation)
                corpus.pairs[program, source_language, target].setdefault(*pair)
    if not corpus.pairs:
        raise SystemExit(f"{folder} has no translations in .mo, .po or .tsv files of these programs.")
    return corpus


Row = tuple[str, str, str, str]


def read_mo(path: Path) -> Iterator[Row]:
    """Entries without plural forms: one form is right for some numbers alone, and may lack the number."""
    if target := language_of(path):
        try:
            with path.open("rb") as file:
                catalogue: dict[Any, Any] = vars(gettext.GNUTranslations(file))["_catalog"]
        except (LookupError, ValueError, OSError) as error:
            print(f"{path} is left out: {error!r}")
            return
        for source, translation in catalogue.items():
            if not isinstance(source, tuple):
                yield "en", target, source.rpartition("\x04")[2], translation


_PO_FIELD = re.compile(r'^(msgid|msgstr) ((?:"(?:[^"\\\n]|\\.)*"\s*)+)', re.MULTILINE)


def read_po(path: Path) -> Iterator[Row]:
    """Entries that are not marked as fuzzy, and without plural forms."""
    if target := language_of(path):
        for entry in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
            if "#, fuzzy" in entry:
                continue
            found = {name: ast.literal_eval(f"({text})") for name, text in _PO_FIELD.findall(entry)}
            if found.get("msgid") and found.get("msgstr"):
                yield "en", target, found["msgid"], found["msgstr"]


def read_tsv(path: Path) -> Iterator[Row]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            source, translation, source_language, target = line.split("\t")
            yield languages.normalise(source_language), languages.normalise(target), source, translation


READERS = {".mo": read_mo, ".po": read_po, ".tsv": read_tsv}


def language_of(path: Path) -> str | None:
    """The language that a catalogue's path names: `fr/LC_MESSAGES/gimp.mo`, `po/sr@latin.po`."""
    name = path.parent.parent.name if path.parent.name == "LC_MESSAGES" else path.stem
    base, _, variant = name.partition("@")
    if variant not in ("", "latin") or not re.fullmatch(r"[a-z]{2,3}(_[A-Z]{2})?", base):
        return None
    return languages.find(base.replace("_", "-") + ("-Latn" if variant else ""))


def is_fit(text: object) -> bool:
    """Whether it is one line with words that a message's translation can be compared by."""
    if not isinstance(text, str) or "\n" in text.strip() or "|" in text or not 0 < len(text) <= MAX_CHARACTERS:
        return False
    return sum(map(str.isalpha, without_spans(text))) >= MIN_LETTERS


def without_mnemonic(text: str) -> str:
    """Without the sign before the letter that chooses a menu's item: `_File`, `&File`."""
    found = re.findall(r"[_&](?=\w)", text)
    return (text.replace(found[0], "", 1) if len(found) == 1 else text).strip()


# ---- right and wrong outputs


@dataclass(frozen=True, slots=True)
class Sample:
    """An output and what it is. `case` is one of `CASES`."""

    case: str
    source: str
    output: str
    context: CheckContext
    pair: str = ""  # of a close language: target and the output's language

    @property
    def is_short(self) -> bool:
        return is_short(self.source)


def is_short(source: str) -> bool:
    return len(source.split()) <= SHORT_WORDS


def samples_of(corpus: Corpus, targets: list[str], number: int, detector: Detector) -> Iterator[Sample]:
    """For each language, `number` short and as many longer messages with their right translations and wrong outputs."""
    rng = random.Random(1)
    translations: dict[str, dict[str, str]] = {}
    for target in targets:
        translations[target] = {source: translation for _, _, source, translation in corpus.of(target)}
    similar = SimilarMessages(source for found in translations.values() for source in found)
    for target in targets:
        rows = corpus.of(target)
        rng.shuffle(rows)
        scripts = scripts_of(target)
        others = [one for one in targets if not scripts.isdisjoint(scripts_of(one)) and not same(one, target)]
        outputs = {
            "other language": [one for one in others if not is_close(one, target)],
            "close language": [one for one in others if is_close(one, target)],
        }
        questions = [row for row in rows if answers.is_question(without_spans(row[2]).strip())]
        for _, source_language, source, translation in questions[: 2 * number]:
            yield Sample("question", source, translation, CheckContext(source_language, target, detector))
        for short in (True, False):
            of_length = [row for row in rows if is_short(row[2]) is short]
            for _, source_language, source, translation in of_length[:number]:
                context = CheckContext(source_language, target, detector)
                yield Sample("right", source, translation, context)
                yield Sample("copied", source, source, context)
                if not scripts.isdisjoint(scripts_of(source_language)):
                    yield Sample("source's language", source, rng.choice(of_length)[2], context)
                    if (found := similar.find(source)) is not None:
                        yield Sample("similar", source, found, context)
                for case, listed in outputs.items():
                    other = rng.choice(listed) if listed else ""
                    if output := translations.get(other, {}).get(source):
                        yield Sample(case, source, output, context, f"{target}: {other}" * (case == "close language"))


def same(one: str, other: str) -> bool:
    return languages.primary(one) == languages.primary(other)


def is_close(one: str, other: str) -> bool:
    return any({languages.primary(one), languages.primary(other)} <= few for few in CLOSE)


class SimilarMessages:
    """Finds a message that shares at least half of its words with another one."""

    def __init__(self, messages: Iterable[str]) -> None:
        self._by_word: dict[str, list[tuple[str, frozenset[str]]]] = defaultdict(list)
        for message in sorted(set(messages)):
            words = self._words(message)
            for word in words:
                self._by_word[word].append((message, words))

    def find(self, source: str) -> str | None:
        words = self._words(source)
        rare = sorted(words, key=lambda word: (len(self._by_word[word]), word))[:2]
        for message, own in (one for word in rare for one in self._by_word[word][:200]):
            if own != words and len(own & words) >= MIN_SHARED * len(own | words):
                return message
        return None

    @staticmethod
    def _words(message: str) -> frozenset[str]:
        return frozenset(re.findall(r"[^\W\d_]+", message.casefold()))


def flagged(sample: Sample) -> tuple[bool, bool, bool]:
    """Whether the output is found to be no translation, or for a question its answer; whether any check has a finding, and
    whether `answered` is one."""
    codes = {one.code for one in checks.findings(sample.source, sample.output, sample.context)}
    is_answered = checks.ANSWERED in codes
    is_wrong = is_answered if sample.case == "question" else not LANGUAGE_CODES.isdisjoint(codes)
    return is_wrong, bool(codes), is_answered


@dataclass(slots=True)
class Share:
    """How many outputs there were, and how many were flagged."""

    outputs: int = 0
    flagged: int = 0

    def add(self, is_flagged: bool) -> None:
        self.outputs += 1
        self.flagged += is_flagged

    def __str__(self) -> str:
        if not self.outputs:
            return ""
        share = 100 * self.flagged / self.outputs
        return f"{share:.2f}%" if share < 2 else f"{share:.1f}%"


Shares = dict[tuple[str, str, bool], Share]
"""(case, target or pair of close languages or "", whether the source is short) -> share."""


def measure(samples: Iterable[Sample], shown: str | None) -> Shares:
    """The shares of all outputs and of each language. `shown`: the case of which what goes against it is printed."""
    shares: Shares = defaultdict(Share)
    for sample in samples:
        is_wrong, is_any, is_answered = flagged(sample)
        key = sample.pair or sample.context.target_language
        for name in (key, ""):
            shares[sample.case, name, sample.is_short].add(is_wrong)
            if sample.case == "right":
                shares["right, any check", name, sample.is_short].add(is_any)
                shares["right, answered", name, sample.is_short].add(is_answered)
        if sample.case == shown and is_wrong is (sample.case in ("right", "question")):
            print(sample.context.target_language, repr(sample.source), repr(sample.output), sep="\t")
    return shares


def print_tables(shares: Shares) -> None:
    """Markdown: all languages together, each alone, and the close pairs."""
    print("\n| output | up to 4 words | more |\n|---|---:|---:|")
    for case, meaning in CASES.items():
        print(f"| {meaning} | {shares[case, '', True]} | {shares[case, '', False]} |")
    cases = ("right", "copied", "source's language", "similar", "other language")
    print("\n| target | " + " | ".join(cases) + " |\n|---|" + "---:|" * len(cases))
    for target in sorted({name for case, name, _ in shares if case == "right" and name}):
        print(
            f"| {target} | "
            + " | ".join(f"{shares[c, target, True]} / {shares[c, target, False]}" for c in cases)
            + " |"
        )
    print("\n| target: output | up to 4 words | more |\n|---|---:|---:|")
    for pair in sorted({name for case, name, _ in shares if case == "close language" and name}):
        print(f"| {pair} | " + " | ".join(str(shares["close language", pair, short]) for short in (True, False)) + " |")


# ---- packaged sentences, and time


def packaged_pairs(number: int, sentences: int) -> list[Pair]:
    rng = random.Random(1)
    with gzip.open(str(resources.files("dragoman.phrasebook") / "sentences.jsonl.gz"), "rt", encoding="utf-8") as lines:
        rows: list[list[str]] = [json.loads(line) for line in lines]
    detector = Detector(SERVED)
    pairs: list[Pair] = []
    for _ in range(number):
        chosen = rng.sample(rows, sentences)
        one, other = rng.sample(range(len(PACKAGED)), 2)
        source, output = (" ".join(row[place] for row in chosen) for place in (one, other))
        pairs.append((source, output, CheckContext(PACKAGED[one], PACKAGED[other], detector)))
    return pairs


def cpu_us(check: Check, pairs: list[Pair]) -> float:
    """Microseconds of CPU time for a pair."""
    started = time.process_time()
    for source, output, context in pairs:
        check(source, output, context)
    return round((time.process_time() - started) / len(pairs) * 1e6, 2)


def time_checks(pairs: list[Pair], repeats: int) -> dict[str, float]:
    measured = {
        name: sorted(cpu_us(check, pairs) for _ in range(repeats))[repeats // 2] for name, check in TIMED.items()
    }
    for name, value in measured.items():
        print(f"{name:>24} {value:8.1f} µs")
    return measured


# ---- the command


def measure_packaged(options: argparse.Namespace) -> dict[str, Any]:
    pairs = packaged_pairs(options.pairs, options.sentences)
    found = [checks.findings(*pair) for pair in pairs]
    alarms = Counter(one.code for findings in found for one in findings)
    with_alarms = sum(map(bool, found))
    print(f"{with_alarms} of {len(pairs)} clean pairs have a finding: {dict(alarms)}")
    return {
        "served": SERVED,
        "pairs": options.pairs,
        "sentences": options.sentences,
        "cpu_us": time_checks(pairs, options.repeats),
        "pairs_with_a_finding": with_alarms,
        "findings": dict(alarms),
    }


def measure_corpus(options: argparse.Namespace) -> dict[str, Any]:
    corpus = read_corpus(options.folder, options.programs)
    untranslated = corpus.leave_out_untranslated()
    targets = [target for target in corpus.targets() if not options.languages or target in options.languages]
    served = tuple(profiles()[options.profile].languages)
    samples = list(samples_of(corpus, targets, options.number, Detector(served)))
    shares = measure(samples, options.show)
    print_tables(shares)
    right = [(one.source, one.output, one.context) for one in samples if one.case == "right"]
    return {
        "programs": sorted({program for program, _, _ in corpus.pairs}),
        "targets": targets,
        "served": served,
        "pairs": len(right),
        "left_in_source_language": untranslated,
        "cpu_us": time_checks(right, options.repeats),
        "shares": [
            {
                "case": case,
                "of": name,
                "short": (shares[case, name, True].flagged, shares[case, name, True].outputs),
                "longer": (shares[case, name, False].flagged, shares[case, name, False].outputs),
            }
            for case, name in dict.fromkeys((case, name) for case, name, _ in shares)
        ],
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="translations; default: packaged sentences")
    parser.add_argument("--languages", type=lambda text: text.split(","), default=[], help="targets; default: all")
    parser.add_argument(
        "--programs", type=lambda text: text.split(","), default=[], help="folders of DIR; default: all"
    )
    parser.add_argument("--profile", default="chat", help="whose languages are served")
    parser.add_argument("--number", type=int, default=150, help="short and as many longer messages for each language")
    parser.add_argument("--show", choices=sorted(CASES), help="print the outputs of this case that are judged wrongly")
    parser.add_argument("--pairs", type=int, default=20_000, help="of packaged sentences")
    parser.add_argument("--sentences", type=int, default=1, help="packaged ones in a text")
    parser.add_argument("--repeats", type=int, default=3, help="of the timing; the median is reported")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    languages.prepare()  # as a server does when it starts
    found = Measurement.begin("checks")
    found.data = measure_corpus(options) if options.folder else measure_packaged(options)
    found.write(options.out)
    print(json.dumps(found.document, ensure_ascii=False))


if __name__ == "__main__":
    main()
