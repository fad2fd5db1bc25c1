"""Plural categories of whole numbers, by CLDR 47's rules, for the languages of the catalogue.

Rules for millions and more are left out: Romance languages have a category for them, in which no message is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wholetext import languages

Rules = Mapping[str, Callable[[int], bool]]
"""By category: whether a number is of it. The first one counts; a number of none is `other`."""

_ONE: Rules = {"one": lambda n: n == 1}
_TO_ONE: Rules = {"one": lambda n: n <= 1}
_EAST_SLAVIC: Rules = {
    "one": lambda n: n % 10 == 1 and n % 100 != 11,
    "few": lambda n: 2 <= n % 10 <= 4 and not 12 <= n % 100 <= 14,
    "many": lambda n: True,
}
_SOUTH_SLAVIC: Rules = {name: rule for name, rule in _EAST_SLAVIC.items() if name != "many"}
_CZECH: Rules = {**_ONE, "few": lambda n: 2 <= n <= 4}
_BY_LANGUAGES: Mapping[str, Rules] = {
    "bo id ja jv km ko lo ms my tg th vi yue zh": {},
    "af az bg ca da de el en eo es et eu fi gl hu it ka kk ky ml mn mr nb ne nl nn no ps sq sv sw ta te tr ug ur uz": _ONE,
    "am bn fa fr gu hi hy kn pa pt si zu": _TO_ONE,
    "be ru uk": _EAST_SLAVIC,
    "bs hr sr": _SOUTH_SLAVIC,
    "cs sk": _CZECH,
    "is mk": {"one": _EAST_SLAVIC["one"]},
    "he": {**_ONE, "two": lambda n: n == 2},
    "pl": {**_ONE, "few": _EAST_SLAVIC["few"], "many": lambda n: True},
    "fil": {"one": lambda n: n % 10 not in (4, 6, 9)},
    "ro": {**_ONE, "few": lambda n: n == 0 or 1 <= n % 100 <= 19},
    "lt": {
        "one": lambda n: n % 10 == 1 and not 11 <= n % 100 <= 19,
        "few": lambda n: n % 10 >= 2 and not 11 <= n % 100 <= 19,
    },
    "lv": {"zero": lambda n: n % 10 == 0 or 11 <= n % 100 <= 19, "one": lambda n: n % 10 == 1},
    "sl": {
        "one": lambda n: n % 100 == 1,
        "two": lambda n: n % 100 == 2,
        "few": lambda n: 3 <= n % 100 <= 4,
    },
    "ar": {
        "zero": lambda n: n == 0,
        **_ONE,
        "two": lambda n: n == 2,
        "few": lambda n: 3 <= n % 100 <= 10,
        "many": lambda n: n % 100 >= 11,
    },
    "cy": {
        "zero": lambda n: n == 0,
        **_ONE,
        "two": lambda n: n == 2,
        "few": lambda n: n == 3,
        "many": lambda n: n == 6,
    },
    "ga": {**_ONE, "two": lambda n: n == 2, "few": lambda n: 3 <= n <= 6, "many": lambda n: 7 <= n <= 10},
    "mt": {
        **_ONE,
        "two": lambda n: n == 2,
        "few": lambda n: n == 0 or 3 <= n % 100 <= 10,
        "many": lambda n: 11 <= n % 100 <= 19,
    },
}
_RULES = {tag: rules for tags, rules in _BY_LANGUAGES.items() for tag in tags.split()}


def plural_categories(target: str) -> tuple[str, ...]:
    """Return the language's plural categories of whole numbers."""
    return (*_RULES.get(languages.primary(target), ()), "other")


def plural_category(language: str, number: int) -> str | None:
    """Return the category of a whole number, below a million; None: the language's rules are not known here."""
    rules = _RULES.get(languages.primary(language))
    if rules is None:
        return None
    return next((category for category, holds in rules.items() if holds(number)), "other")
