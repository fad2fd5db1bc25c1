"""Sentences of the hand-written corpus with one word replaced by another of its kind, in every language.

A word of `data/words` that a line names once in each language becomes a slot, where the languages' grammar allows another
word: the English article and plural, the Korean particle after it, and no counter or measure word that belongs to the noun.
So each word of the vocabulary is read in many sentences, and each sentence with many words.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from dragoman.phrasebook import LANGUAGES
from tools.phrasebook.grammar import PAIRS, Sound, capitalised, final_sound, indefinite, particle
from tools.phrasebook.lines import Row

COUNTED = frozenset({"animal", "furniture", "job", "tool", "city_place", "clothes", "transport", "fruit", "vegetable"})
"""Kinds whose nouns have a plural and an article."""
UNCOUNTED = frozenset(
    {"drink", "food", "language", "city", "country", "sport", "color", "day", "month", "material", "school"}
)
"""Kinds whose words stand without an article."""
_ENGLISH, _JAPANESE, _KOREAN, _CHINESE = range(4)
_PARTICLES = sorted({form for pair in PAIRS for form in pair}, key=len, reverse=True)
_OPENED = {closed: pair for pair in PAIRS for closed in pair}
_JA_COUNTED = re.compile(r"[0-9一二三四五六七八九十何数](?:匹|本|枚|台|冊|頭|羽|着|足|杯|軒|個|人|つ)")
_ZH_CLASSIFIERS = "只条本张把杯碗瓶件双辆台棵朵座间头匹家位名份块片支根套栋架艘首部句节门顿"
_KO_COUNTED = re.compile(r"(?:마리|권|자루|켤레|벌|잔|그루|송이|대|명|채)")


@dataclass(frozen=True, slots=True)
class Slot:
    """A place of a line where the words of a kind can stand. `heads` and `tails` are what is around it, by language."""

    row: Row
    word: Row
    heads: tuple[str, ...]
    tails: tuple[str, ...]
    article: bool
    plural: bool


@dataclass(frozen=True, slots=True)
class Substituted:
    """`texts` by language, and the word's own text in each, as it stands there."""

    texts: tuple[str, ...]
    words: tuple[str, ...]


class Substitution:
    """Draws lines with a word replaced. Deterministic for equal rows and draws."""

    def __init__(self, lines: Iterable[Row], words: Iterable[Row]) -> None:
        usable = [word for word in words if word.topic in COUNTED | UNCOUNTED and _is_plain(word)]
        self._by_kind: dict[str, list[Row]] = {}
        by_english: dict[str, list[tuple[Row, bool]]] = {}
        for word in usable:
            self._by_kind.setdefault(word.topic, []).append(word)
            english = word.standard[_ENGLISH].lower()
            by_english.setdefault(english, []).append((word, False))
            if word.topic in COUNTED:
                by_english.setdefault(plural(english), []).append((word, True))
        self.slots = [slot for line in lines for slot in _slots(line, by_english)]

    def draw(self, rng: Random) -> Substituted:
        """A line with another word in one of its slots."""
        slot = rng.choice(self.slots)
        return fill(slot, rng.choice(self._by_kind[slot.word.topic]))


def _is_plain(word: Row) -> bool:
    """A word that is written the same wherever it stands."""
    return all(re.fullmatch(r"[^\s().,!?…~]+(?: [^\s().,!?…~]+)*", text) for text in word.standard)


def plural(noun: str) -> str:
    """Regular, and the irregular nouns of everyday kinds."""
    irregular = {
        "mouse": "mice",
        "sheep": "sheep",
        "fish": "fish",
        "deer": "deer",
        "goose": "geese",
        "child": "children",
    }
    if noun in irregular:
        return irregular[noun]
    for ending, form in (
        ("man", "men"),
        ("wife", "wives"),
        ("knife", "knives"),
        ("leaf", "leaves"),
        ("wolf", "wolves"),
    ):
        if noun.endswith(ending):
            return noun.removesuffix(ending) + form
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    if noun.endswith(("potato", "tomato", "mango")) or re.search(r"(?:s|x|z|ch|sh)$", noun):
        return noun + "es"
    return noun if noun.endswith(("pants", "jeans", "shorts", "glasses", "scissors")) else noun + "s"


def _slots(line: Row, by_english: dict[str, list[tuple[Row, bool]]]) -> Iterator[Slot]:
    if _JA_COUNTED.search(line.standard[_JAPANESE]) or _KO_COUNTED.search(line.standard[_KOREAN]):
        return
    english = line.standard[_ENGLISH]
    tokens = [(match.start(), match.end()) for match in re.finditer(r"[A-Za-z][A-Za-z'-]*", english)]
    for size in (3, 2, 1):
        for first in range(len(tokens) - size + 1):
            start, end = tokens[first][0], tokens[first + size - 1][1]
            found = by_english.get(english[start:end].lower(), [])
            if len(found) == 1:  # of one kind alone
                slot = _slot(line, *found[0], start, end)
                if slot is not None:
                    yield slot


def _slot(line: Row, word: Row, is_plural: bool, start: int, end: int) -> Slot | None:
    english = line.standard[_ENGLISH]
    head, tail = english[:start], english[end:]
    article = re.search(r"\b(an?) $", head, re.IGNORECASE)
    if (article and word.topic in UNCOUNTED) or english.lower().count(english[start:end].lower()) > 1:
        return None
    if article:
        head = head[: article.start()]
    heads, tails = [head], [tail]
    for index in (_JAPANESE, _KOREAN, _CHINESE):
        around = line.standard[index].split(word.standard[index])
        if len(around) != 2:
            return None
        heads.append(around[0])
        tails.append(around[1])
    if not _ends_word(tails[_KOREAN]) or (heads[_KOREAN] and heads[_KOREAN][-1] not in " \n"):
        return None
    if heads[_CHINESE] and heads[_CHINESE][-1] in _ZH_CLASSIFIERS:
        return None
    if min(map(len, word.standard[1:])) == 1 and not _stands_alone(word, heads, tails):
        return None
    return Slot(line, word, tuple(heads), tuple(tails), article is not None, is_plural)


def _ends_word(tail: str) -> bool:
    """Whether a Korean word may end before `tail`: a particle, a space, punctuation or nothing follows."""
    return (
        not tail
        or not ("가" <= tail[0] <= "힣")
        or _particle_of(tail) is not None
        or tail.startswith(("에", "의", "도"))
    )


def _particle_of(tail: str) -> str | None:
    found = next((form for form in _PARTICLES if tail.startswith(form)), None)
    rest = tail[len(found) :] if found else ""
    return found if found and (not rest or not ("가" <= rest[0] <= "힣") or len(found) > 1) else None


_HAN = re.compile(r"[\u4e00-\u9fff\u30a0-\u30ff]")


def _stands_alone(word: Row, heads: list[str], tails: list[str]) -> bool:
    """Whether a word of one character is no part of a longer one: no Han character or katakana beside it in Japanese."""
    if len(word.standard[_CHINESE]) == 1:
        return False
    head, tail = heads[_JAPANESE][-1:], tails[_JAPANESE][:1]
    return not (_HAN.match(head or " ") or _HAN.match(tail or " "))


def fill(slot: Slot, word: Row) -> Substituted:
    """The slot's line with `word`."""
    english = word.standard[_ENGLISH]
    english = plural(english) if slot.plural else english
    placed = indefinite(english) if slot.article else english
    head = slot.heads[_ENGLISH]
    if not head or re.search(r"[.?!]\s$", head):
        placed = capitalised(placed)
    korean = word.standard[_KOREAN]
    tail = slot.tails[_KOREAN]
    if (form := _particle_of(tail)) is not None:
        tail = particle(*_OPENED[form], final_sound(korean) or Sound.VOWEL) + tail[len(form) :]
    texts = (
        head + placed + slot.tails[_ENGLISH],
        slot.heads[_JAPANESE] + word.standard[_JAPANESE] + slot.tails[_JAPANESE],
        slot.heads[_KOREAN] + korean + tail,
        slot.heads[_CHINESE] + word.standard[_CHINESE] + slot.tails[_CHINESE],
    )
    return Substituted(texts, (english, *(word.standard[index] for index in range(1, len(LANGUAGES)))))
