"""Slots whose value is written in each language's own way: times, dates, prices, spans, measures, countries.

The forms are the everyday ones of a message, not CLDR's formal ones. Nothing here knows about patterns or splits;
every function draws one value.
"""

from collections.abc import Callable, Mapping
from functools import cache
from random import Random

from tools.phrasebook import cldr
from tools.phrasebook.values import Value, localised


@cache
def _listed(kind: str) -> tuple[Value, ...]:
    texts = {
        "weekday": cldr.weekdays,
        "month": cldr.months,
        "date": cldr.dates,
        "country": cldr.countries,
        "language": cldr.spoken_languages,
    }[kind]()
    return tuple(localised(kind, text) for text in texts)


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
    return lambda rng: rng.choice(_listed(kind))


LISTED_KINDS = ("weekday", "month", "country", "language")
"""Kinds whose every value is a word of its own to learn."""

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


def listed_values(kind: str) -> tuple[Value, ...]:
    """All values of one of LISTED_KINDS."""
    return _listed(kind)
