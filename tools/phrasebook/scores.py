"""Scores translations against references: chrF, exact matches, and whether what must be copied was copied.

chrF is sacrebleu's corpus score (Popović 2015), character order 6, no words. Numbers count as copied when a
translation has exactly the digit runs of its reference; tags, placeholders and other copied text when it occurs as
often as in the reference. Nothing here translates.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sacrebleu.metrics.chrf import CHRF

from tools.phrasebook.message import DIRECTIONS, Copied

BANDS = (20, 50, 100, 200)
"""Upper ends of the length bands, in source tokens; longer ones form the last band."""


@dataclass(frozen=True, slots=True)
class Translated:
    """One translation with what it should have been. `tokens` is the length of its source."""

    direction: tuple[str, str]
    reference: str
    answer: str
    tokens: int
    copied: tuple[Copied, ...]


def summarise(translations: Sequence[Translated]) -> dict[str, Any]:
    """Every score of `translations`: in all, by direction, by length band, of copying by kind; and some misses."""
    return {
        "all": quality(translations),
        "directions": {
            f"{source}-{target}": quality([t for t in translations if t.direction == (source, target)])
            for source, target in DIRECTIONS
        },
        "bands": _by(translations, _band),
        "copies": copies(translations),
        "misses": misses(translations),
    }


def misses(translations: Iterable[Translated], limit: int = 20) -> list[dict[str, str]]:
    """The first translations that differ from their reference, to be read."""
    wrong = (t for t in translations if t.answer != t.reference)
    return [
        {"direction": "-".join(t.direction), "reference": t.reference, "answer": t.answer} for t in islice(wrong, limit)
    ]


def quality(translations: Sequence[Translated]) -> dict[str, float | int]:
    """Corpus chrF (0 to 100) and the share of translations that equal their reference; zeros if there are none."""
    if not translations:
        return {"count": 0, "chrf": 0.0, "exact": 0.0}
    answers, references = [t.answer for t in translations], [t.reference for t in translations]
    exact = sum(answer == reference for answer, reference in zip(answers, references, strict=True))
    return {
        "count": len(answers),
        "chrf": round(float(CHRF().corpus_score(answers, [references]).score), 2),
        "exact": round(exact / len(answers), 4),
    }


def copies(translations: Iterable[Translated]) -> dict[str, dict[str, float | int]]:
    """By kind of copied text: how many there were and the share that was copied exactly."""
    total: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for translation in translations:
        for kind, exact in _copied(translation):
            total[kind] += 1
            right[kind] += exact
    return {kind: {"count": count, "exact": round(right[kind] / count, 5)} for kind, count in sorted(total.items())}


def _copied(translation: Translated) -> Iterable[tuple[str, bool]]:
    for item in dict.fromkeys(translation.copied):
        yield item.kind, translation.answer.count(item.text) == translation.reference.count(item.text)
    numbers = _numbers(translation.reference)
    if numbers:
        yield "numbers of a message", numbers == _numbers(translation.answer)


def _numbers(text: str) -> Counter[str]:
    return Counter(re.findall(r"\d+", text))


def _band(translation: Translated) -> str:
    low = 1
    for high in BANDS:
        if translation.tokens <= high:
            return f"{low}-{high}"
        low = high + 1
    return f"over {BANDS[-1]}"


def _by(translations: Sequence[Translated], key: Callable[[Translated], str]) -> dict[str, dict[str, float | int]]:
    groups: dict[str, list[Translated]] = {}
    for translation in sorted(translations, key=lambda t: t.tokens):
        groups.setdefault(key(translation), []).append(translation)
    return {name: quality(group) for name, group in groups.items()}
