"""Values for slots, and the slots that are copied letter by letter: names, codes, addresses, placeholders.

A copied value reads the same in every language. The stock of words comes from `data/values.toml`; half of the names
are spelled at random, so that a model has to learn copying. Nothing here knows about patterns or splits.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random

from dragoman.phrasebook import LANGUAGES
from tools.phrasebook import data_dir
from tools.phrasebook.english import indefinite
from tools.phrasebook.particles import Sound, final_sound


@dataclass(frozen=True, slots=True)
class Value:
    """What fills a slot, in every language.

    `split_key` decides the split of a value that is held out by itself; None for values that are held out only in
    combination with a pattern. `sound` is how the Korean text ends.
    """

    kind: str
    texts: tuple[str, ...]
    en_a: str
    copied: bool = False
    split_key: str | None = None
    sound: Sound = Sound.VOWEL


def localised(kind: str, texts: Mapping[str, str], en_a: str | None = None, split_key: str | None = None) -> Value:
    """A value whose text differs by language."""
    ordered = tuple(texts[language] for language in LANGUAGES)
    return Value(kind, ordered, en_a or indefinite(ordered[0]), split_key=split_key, sound=_sound(texts["ko"]))


def copied(kind: str, text: str, split_key: str | None = None) -> Value:
    """A value that reads the same everywhere, held out by its text unless another key is given."""
    sound = Sound.UNKNOWN if kind == "placeholder" else _sound(text)
    key = text if split_key is None else split_key
    return Value(kind, (text,) * len(LANGUAGES), indefinite(text), copied=True, split_key=key, sound=sound)


def _sound(text: str) -> Sound:
    return final_sound(text) or Sound.UNKNOWN


@dataclass(frozen=True, slots=True)
class Stock:
    """The words of `values.toml`, by list name."""

    lists: Mapping[str, tuple[str, ...]] = field(repr=False)

    def pick(self, rng: Random, name: str) -> str:
        words = self.lists[name]
        return words[int(rng.random() * len(words))]


@cache
def stock(path: Path | None = None) -> Stock:
    source = path or data_dir() / "values.toml"
    lists = tomllib.loads(source.read_text(encoding="utf-8"))
    return Stock({name: tuple(words) for name, words in lists.items()})


def _syllables(rng: Random, words: Stock, count: int) -> str:
    parts = (words.pick(rng, "onsets") + words.pick(rng, "vowels") + words.pick(rng, "codas") for _ in range(count))
    return "".join(parts)


def _name(rng: Random, words: Stock) -> str:
    if rng.random() < 0.5:
        return words.pick(rng, "names")
    return _syllables(rng, words, rng.choice((1, 2, 2, 2, 3))).capitalize()


def _company(rng: Random, words: Stock) -> str:
    stem = words.pick(rng, "companies") if rng.random() < 0.5 else _syllables(rng, words, 2).capitalize()
    return f"{stem} {words.pick(rng, 'company_suffixes')}" if rng.random() < 0.3 else stem


def _number(rng: Random, low: int, high: int) -> str:
    """Log-uniform in [low, high], the way numbers occur in messages."""
    digits = len(str(int(low * (high / low) ** rng.random())))
    return str(rng.randint(max(low, 10 ** (digits - 1)), min(high, 10**digits - 1)))


def _room(rng: Random, _: Stock) -> str:
    return f"{rng.randint(1, 30)}{rng.randint(1, 30):02d}"


def _code(rng: Random, _: Stock) -> str:
    letters = "".join(rng.choices("ABCDEFGHJKLMNPQRSTUVWXYZ", k=rng.choice((1, 2, 2, 3))))
    digits = "".join(rng.choices("0123456789", k=rng.randint(3, 6)))
    return f"{letters}{rng.choice(('-', '-', ''))}{digits}"


def _word(rng: Random, words: Stock) -> str:
    return words.pick(rng, "words") if rng.random() < 0.7 else _syllables(rng, words, 2)


def _domain(rng: Random, words: Stock) -> str:
    if rng.random() < 0.4:
        return words.pick(rng, "domains")
    return f"{_syllables(rng, words, 2)}.{words.pick(rng, 'top_levels')}"


def _url(rng: Random, words: Stock) -> str:
    path = "".join(f"/{_word(rng, words)}" for _ in range(rng.choice((0, 1, 1, 2))))
    query = f"?id={rng.randint(10, 99999)}" if path and rng.random() < 0.2 else ""
    return f"https://{rng.choice(('', '', 'www.'))}{_domain(rng, words)}{path}{query}"


def _email(rng: Random, words: Stock) -> str:
    local = _word(rng, words) if rng.random() < 0.5 else _name(rng, words).lower()
    tail = rng.choice(("", "", f".{_syllables(rng, words, 2)}", str(rng.randint(2, 99))))
    return f"{local}{tail}@{_domain(rng, words)}"


def _phone(rng: Random, _: Stock) -> str:
    groups = rng.choice(((3, 4), (3, 3, 4), (2, 4, 4), (3, 4, 4)))
    digits = "-".join("".join(rng.choices("0123456789", k=size)) for size in groups)
    return f"+{rng.choice((1, 33, 44, 49, 81, 82, 86))} {digits}" if rng.random() < 0.2 else digits


def _version(rng: Random, _: Stock) -> str:
    return ".".join(str(rng.randint(0, top)) for top in rng.choice(((9, 20), (12, 30, 20), (5, 15, 9))))


def _file(rng: Random, words: Stock) -> str:
    stem = _word(rng, words)
    tail = rng.choice(("", f"_v{rng.randint(2, 9)}", f"_{_word(rng, words)}", f"-{rng.randint(2, 2030)}"))
    return f"{stem}{tail}.{words.pick(rng, 'file_types')}"


def _placeholder(rng: Random, words: Stock) -> str:
    index, name = rng.randint(0, 9), words.pick(rng, "placeholder_names")
    if rng.random() < 0.2:
        name = _syllables(rng, words, 2)
    forms = (f"{{{index}}}", f"{{{name}}}", f"{{{{{name}}}}}", f"${{{name}}}", "%s", "%d", f"%({name})s")
    return rng.choice((*forms, f'<x id="{index}"></x>', f"%{index + 1}$s", f"{{{index}}}", f"{{{name}}}"))


_PERCENT = (1, 100)
_INT = (2, 999)
_COPIED: Mapping[str, Callable[[Random, Stock], str]] = {
    "name": _name,
    "company": _company,
    "int": lambda rng, _: _number(rng, *_INT),
    "room": _room,
    "code": _code,
    "url": _url,
    "email": _email,
    "phone": _phone,
    "version": _version,
    "percent": lambda rng, _: _number(rng, *_PERCENT) + "%",
    "file": _file,
    "placeholder": _placeholder,
}
COPIED_KINDS = frozenset(_COPIED)
_NUMBER_KINDS = frozenset({"int", "room", "percent"})


def draw_copied(kind: str, rng: Random, words: Stock) -> Value:
    """A random copied value of `kind`. Numbers are held out by their digits, whatever their kind."""
    text = _COPIED[kind](rng, words)
    if kind == "placeholder":
        return copied(kind, text, split_key="")
    return copied(kind, text, split_key=text.rstrip("%") if kind in _NUMBER_KINDS else text)
