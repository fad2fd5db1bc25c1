"""Which writing systems a text uses, by the Unicode property Script (UAX #24). Knows no language."""

from __future__ import annotations

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
_GUEST = regex.compile(r"(?:[\p{Latin}\d]+ ){0,3}[\p{Latin}\d]+(?=[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}])")

_UNITED = {"Hans": "Han", "Hant": "Han", "Hani": "Han", "Kore": "Hang", "Aran": "Arab", "Cyrs": "Cyrl"}
_WORDS_A_CHARACTER = {"Han": 3, "Hira": 3, "Kana": 3, "Hang": 3}
"""How much more of a word a character of these scripts is than a letter is."""


def of_language(script: str) -> frozenset[str]:
    """The scripts, as `weigh` names them, of a language that is written in an ISO 15924 script such as Jpan or Hant."""
    return frozenset({"Hira", "Kana", "Han"}) if script == "Jpan" else frozenset({_UNITED.get(script, script)})


def weigh(text: str) -> dict[str, int]:
    """Script -> how much of the text is in it, in letters; a character of a dense script counts for several."""
    weights: dict[str, int] = {}
    for run in _RUN.finditer(_GUEST.sub("", text)):
        script = run.lastgroup or OTHER
        weights[script] = weights.get(script, 0) + (run.end() - run.start()) * _WORDS_A_CHARACTER.get(script, 1)
    return weights
