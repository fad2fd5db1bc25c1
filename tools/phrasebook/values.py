"""Values for slots, in every language: copied letter by letter, or written in each language's own way.

Copied values (names, codes, addresses, placeholders) read the same everywhere; half of the names are spelled at random, so
that a model has to learn copying. Times, dates, prices and measures have the everyday forms of a message, not CLDR's formal
ones; weekdays, months, countries and languages come from CLDR through babel. The words are in `data/values.toml`.
"""

import datetime
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from babel import Locale
from babel.dates import format_skeleton

from dragoman.phrasebook import LANGUAGES
from tools.phrasebook import data_dir
from tools.phrasebook.grammar import Sound, final_sound, indefinite


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


_WITH_ARTICLE = frozenset({"US", "GB", "NL", "PH", "CZ"})
_EVERYDAY = {
    ("en", "TR"): "Turkey",
    ("en", "CZ"): "Czech Republic",
    ("en", "MM"): "Myanmar",
    ("ja", "US"): "アメリカ",
    ("ja", "MM"): "ミャンマー",
    ("ko", "KR"): "한국",
    ("ko", "MM"): "미얀마",
    ("zh", "MM"): "缅甸",
    ("en", "bn"): "Bengali",
    ("ko", "my"): "미얀마어",
}
"""Everyday names of countries and languages that replace CLDR's."""


def _country(code: str, language: str) -> str:
    name = _EVERYDAY.get((language, code)) or Locale.parse(language).territories[code]
    return f"the {name}" if language == "en" and code in _WITH_ARTICLE else name


def _spoken_language(code: str, language: str) -> str:
    return _EVERYDAY.get((language, code)) or Locale.parse(language).languages[code]


def _weekday(day: int, language: str) -> str:
    return str(Locale.parse(language).days["format"]["wide"][day])


def _month(month: int, language: str) -> str:
    # Chinese wide names are spelled 三月; the short ones, 3月, are how a message writes them.
    width = "abbreviated" if language == "zh" else "wide"
    return str(Locale.parse(language).months["format"][width][month])


def _date(day: int, language: str) -> str:
    """A day of a leap year, as month and day."""
    return format_skeleton("MMMMd", datetime.date(2024, 1, 1) + datetime.timedelta(days=day), locale=language)


_LISTED: Mapping[str, tuple[Callable[[], Iterable[Any]], Callable[[Any, str], str]]] = {
    "weekday": (lambda: range(7), _weekday),
    "month": (lambda: range(1, 13), _month),
    "date": (lambda: range(366), _date),
    "country": (lambda: stock().lists["countries"], _country),
    "language": (lambda: stock().lists["spoken_languages"], _spoken_language),
}
LISTED_KINDS = ("weekday", "month", "country", "language")
"""Kinds whose every value is a word of its own to learn."""


@cache
def listed_values(kind: str) -> tuple[Value, ...]:
    """All values of one of LISTED_KINDS, or of "date"."""
    keys, name = _LISTED[kind]
    return tuple(localised(kind, {language: name(key, language) for language in LANGUAGES}) for key in keys())


@cache
def _time(hour: int, minute: int) -> Value:
    """`hour` on the 24-hour clock. Chinese names the part of the day more finely than morning and afternoon."""
    late = hour >= 12
    twelve = hour - 12 * (hour > 12)
    part = "上午" if not late else "下午" if hour < 19 else "晚上"
    texts = {
        "en": f"{twelve}:{minute:02d} {'PM' if late else 'AM'}" if minute else f"{twelve} {'PM' if late else 'AM'}",
        "ja": f"午{'後' if late else '前'}{twelve}時" + (f"{minute}分" if minute else ""),
        "ko": f"오{'후' if late else '전'} {twelve}시" + (f" {minute}분" if minute else ""),
        "zh": f"{part}{twelve}点" + (f"{minute}分" if minute else ""),
    }
    return localised("time", texts)


def _draw_time(rng: Random) -> Value:
    hour = rng.choice((*range(6, 12), *range(13, 24)))
    return _time(hour, rng.choice((0, 0, 0, 30, 30, 15, 45, 5 * rng.randint(1, 11))))


_CURRENCIES: Mapping[str, tuple[int, int, int, dict[str, str]]] = {
    # currency: lowest and highest amount, step, and the form in each language
    "USD": (2, 500, 1, {"en": "${}", "ja": "{}ドル", "ko": "{}달러", "zh": "{}美元"}),
    "EUR": (2, 500, 1, {"en": "{} euros", "ja": "{}ユーロ", "ko": "{}유로", "zh": "{}欧元"}),
    "JPY": (100, 20_000, 50, {"en": "{} yen", "ja": "{}円", "ko": "{}엔", "zh": "{}日元"}),
    "KRW": (1_000, 200_000, 500, {"en": "{} won", "ja": "{}ウォン", "ko": "{}원", "zh": "{}韩元"}),
    "CNY": (5, 2_000, 1, {"en": "{} yuan", "ja": "{}元", "ko": "{}위안", "zh": "{}元"}),
}


def _draw_price(rng: Random) -> Value:
    low, high, step, forms = _CURRENCIES[rng.choice(tuple(_CURRENCIES))]
    amount = step * round(low * (high / low) ** rng.random() / step)
    texts = {language: form.format(f"{amount:,}") for language, form in forms.items()}
    return localised("price", texts, split_key=str(amount))


_COUNTED: Mapping[str, tuple[range, dict[str, str]]] = {
    "digit": (range(2, 10), {"en": "{}", "ja": "{}", "ko": "{}", "zh": "{}"}),
    "minutes": (range(2, 61), {"en": "{} minutes", "ja": "{}分", "ko": "{}분", "zh": "{}分钟"}),
    "hours": (range(2, 25), {"en": "{} hours", "ja": "{}時間", "ko": "{}시간", "zh": "{}个小时"}),
    "days": (range(2, 31), {"en": "{} days", "ja": "{}日間", "ko": "{}일", "zh": "{}天"}),
    "weeks": (range(2, 13), {"en": "{} weeks", "ja": "{}週間", "ko": "{}주", "zh": "{}周"}),
    "people": (range(2, 21), {"en": "{} people", "ja": "{}人", "ko": "{}명", "zh": "{}个人"}),
    "temperature": (range(2, 41), {"en": "{} degrees", "ja": "{}度", "ko": "{}도", "zh": "{}度"}),
    "meters": (range(50, 1000, 50), {"en": "{} meters", "ja": "{}メートル", "ko": "{}미터", "zh": "{}米"}),
    "kilometers": (range(2, 51), {"en": "{} kilometers", "ja": "{}キロ", "ko": "{}킬로미터", "zh": "{}公里"}),
}


@cache
def _counted(unit: str, kind: str) -> tuple[Value, ...]:
    amounts, forms = _COUNTED[unit]
    return tuple(
        localised(kind, {language: form.format(amount) for language, form in forms.items()}) for amount in amounts
    )


def _draw_counted(kind: str) -> Callable[[Random], Value]:
    return lambda rng: rng.choice(_counted(kind, kind))


def _draw_distance(rng: Random) -> Value:
    return rng.choice(_counted(rng.choice(("meters", "kilometers")), "distance"))


def _draw_listed(kind: str) -> Callable[[Random], Value]:
    return lambda rng: rng.choice(listed_values(kind))


_LOCALISED: Mapping[str, Callable[[Random], Value]] = {
    "time": _draw_time,
    "price": _draw_price,
    "distance": _draw_distance,
    "date": _draw_listed("date"),
    **{kind: _draw_listed(kind) for kind in LISTED_KINDS},
    **{kind: _draw_counted(kind) for kind in _COUNTED if kind not in ("meters", "kilometers")},
}
LOCALISED_KINDS = frozenset(_LOCALISED)


def draw_localised(kind: str, rng: Random) -> Value:
    """A random value of `kind`, one of LOCALISED_KINDS."""
    return _LOCALISED[kind](rng)
