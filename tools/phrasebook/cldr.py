"""Names of weekdays, months, dates, countries and languages in four languages, from CLDR through babel.

Only well-known countries and languages are listed, and a few CLDR names are replaced by the everyday one. Everything
is computed once a process: babel is slow beside a generator of sentences.
"""

import datetime
from functools import cache

from babel import Locale
from babel.dates import format_skeleton

from dragoman.phrasebook import LANGUAGES
from tools.phrasebook.values import stock

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


@cache
def _locale(language: str) -> Locale:
    return Locale.parse(language)


def _country(code: str, language: str) -> str:
    name = _EVERYDAY.get((language, code)) or _locale(language).territories[code]
    return f"the {name}" if language == "en" and code in _WITH_ARTICLE else name


@cache
def countries() -> tuple[dict[str, str], ...]:
    return tuple({language: _country(code, language) for language in LANGUAGES} for code in stock().lists["countries"])


@cache
def spoken_languages() -> tuple[dict[str, str], ...]:
    return tuple(
        {language: _EVERYDAY.get((language, code)) or _locale(language).languages[code] for language in LANGUAGES}
        for code in stock().lists["spoken_languages"]
    )


@cache
def weekdays() -> tuple[dict[str, str], ...]:
    return tuple(
        {language: str(_locale(language).days["format"]["wide"][day]) for language in LANGUAGES} for day in range(7)
    )


@cache
def months() -> tuple[dict[str, str], ...]:
    def name(language: str, month: int) -> str:
        # Chinese wide names are spelled 三月; the short ones, 3月, are how a message writes them.
        width = "abbreviated" if language == "zh" else "wide"
        return str(_locale(language).months["format"][width][month])

    return tuple({language: name(language, month) for language in LANGUAGES} for month in range(1, 13))


@cache
def dates() -> tuple[dict[str, str], ...]:
    """Every day of a leap year, as month and day."""
    first = datetime.date(2024, 1, 1)
    days = (first + datetime.timedelta(days=offset) for offset in range(366))
    return tuple({language: format_skeleton("MMMMd", day, locale=language) for language in LANGUAGES} for day in days)
