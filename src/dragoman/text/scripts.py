"""Which writing systems a text uses, by the Unicode property Script (UAX #24). Knows no language."""

from __future__ import annotations

from functools import lru_cache

import regex

_NAMED = {
    "Latn": "Latin",
    "Cyrl": "Cyrillic",
    "Han": "Han",
    "Hira": "Hiragana",
    "Kana": "Katakana",
    "Hang": "Hangul",
    "Arab": "Arabic",
    "Armn": "Armenian",
    "Beng": "Bengali",
    "Deva": "Devanagari",
    "Ethi": "Ethiopic",
    "Geor": "Georgian",
    "Grek": "Greek",
    "Gujr": "Gujarati",
    "Guru": "Gurmukhi",
    "Hebr": "Hebrew",
    "Khmr": "Khmer",
    "Knda": "Kannada",
    "Laoo": "Lao",
    "Mlym": "Malayalam",
    "Mong": "Mongolian",
    "Mymr": "Myanmar",
    "Orya": "Oriya",
    "Sinh": "Sinhala",
    "Taml": "Tamil",
    "Telu": "Telugu",
    "Thaa": "Thaana",
    "Thai": "Thai",
    "Tibt": "Tibetan",
}
OTHER = "Zzzz"

_RUN = regex.compile(
    "|".join(rf"(?P<{code}>\p{{Script={name}}}+)" for code, name in _NAMED.items()) + rf"|(?P<{OTHER}>\p{{L}})"
)
# A Latin name that a word of another script is attached to, as in "Google Chromeの" or "Chrome을", is a guest there.
_GUEST = regex.compile(
    r"(?<![\p{Latin}\d])(?:[\p{Latin}\d]++ ){0,3}[\p{Latin}\d]++(?=[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}])"
)

_HAN = regex.compile(r"\p{Unified_Ideograph}")
_HONG_KONG = frozenset("裏着綫衞麪羣峯啲咗嚟嘅喺嘢")
"""Everyday characters of Hong Kong that Big5 lacks; Japanese has some of them."""

_UNITED = {"Hans": "Han", "Hant": "Han", "Hani": "Han", "Kore": "Hang", "Aran": "Arab", "Cyrs": "Cyrl"}
_DENSITY = {"Han": 3, "Hira": 3, "Kana": 3, "Hang": 3}
"""How much more of a word a character of these scripts is than a letter is."""

_LEAST_KANA = 0.05
"""Japanese has this share of kana among its kana and Han at the least; Chinese borrows a single の."""


def of_language(script: str) -> frozenset[str]:
    """The scripts, as `weigh` names them, of a language that is written in an ISO 15924 script such as Jpan or Hant."""
    return frozenset({"Jpan", "Han"}) if script == "Jpan" else frozenset({_UNITED.get(script, script)})


def weigh(text: str) -> dict[str, int]:
    """Script -> how much of the text is in it, in letters; a character of a dense script counts for several.

    Kana and the Han characters beside them are one script, `Jpan`; Han characters alone are `Han`.
    """
    weights: dict[str, int] = {}
    for run in _RUN.finditer(_GUEST.sub("", text)):
        script = run.lastgroup or OTHER
        weights[script] = weights.get(script, 0) + (run.end() - run.start()) * _DENSITY.get(script, 1)
    kana = weights.pop("Hira", 0) + weights.pop("Kana", 0)
    han = weights.get("Han", 0)
    if kana > _LEAST_KANA * (kana + han):
        weights.pop("Han", None)
        weights["Jpan"] = kana + han
    return weights


def only(text: str, script: str) -> str:
    """The text with the letters of other scripts left out."""
    return _RUN.sub(lambda run: run.group() if run.lastgroup == script else " ", text)


def han_fit(text: str) -> tuple[float, float, float]:
    """The share of the text's Han characters that Simplified Chinese, Traditional Chinese and Japanese write.

    Each national character set is its own script's list: GB 2312, Big5 and JIS X 0208.
    """
    han = _HAN.findall(text)
    if not han:
        return 0.0, 0.0, 0.0
    simplified = sum(_encodes(char, "gb2312") for char in han)
    traditional = sum(char in _HONG_KONG or _encodes(char, "big5") for char in han)
    japanese = sum(_encodes(char, "shift_jis") for char in han)
    return simplified / len(han), traditional / len(han), japanese / len(han)


@lru_cache(maxsize=8192)
def _encodes(char: str, encoding: str) -> bool:
    try:
        char.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
