"""Detects the language of a text: by its script if only one served language uses it, else with py3langid.

A language that is not served is named where it is certain: by a script that no served language uses, or by clear odds
(`_judged`). Only a sample of bounded size is read. Scripts are those of the Unicode property Script (UAX #24), named by their
ISO 15924 codes, except `Han` for Han characters without kana, and `Jpan` for kana and the Han characters among them.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, lru_cache
from importlib import resources
from typing import Protocol, cast

import regex
from py3langid.langid import MODEL_FILE, LanguageIdentifier  # pyright: ignore[reportMissingTypeStubs]

from dragoman import languages
from dragoman.errors import ConfigError, UnsupportedLanguage
from dragoman.types import Detection
from wholetext.markup.spans import without_spans

_WIDESPREAD_SCRIPTS = frozenset({"Latn", "Cyrl", "Arab", "Deva"})
"""Scripts of many languages: a text in one of them may be in a language that is not served, even if one alone is served."""

SHARED_SCRIPTS = _WIDESPREAD_SCRIPTS | {"Beng", "Ethi", "Hebr"}
"""Scripts of several languages."""

_SECOND_SCRIPTS = {"sr": "Latn", "uz": "Cyrl", "az": "Cyrl", "ku": "Arab", "pa": "Arab", "mn": "Mong"}
_LABELS = {"fil": "tl", "nb": "no"}  # py3langid's labels where they are not the primary subtag

_NO_RIVALS = frozenset({"zxx", "pcm"})
"""Labels that no text is named by: `zxx` is no language, and technical English looks like Nigerian Pidgin to py3langid."""

_ONE_LANGUAGE = {
    **dict.fromkeys(("nb", "nn"), "no"),
    **dict.fromkeys(("bs", "hr", "sr"), "sh"),
    **dict.fromkeys(("id",), "ms"),
    **dict.fromkeys(("ary", "arz"), "ar"),
    **dict.fromkeys(("wuu", "yue"), "zh"),
    **dict.fromkeys(("sdh",), "ku"),
    **dict.fromkeys(("uzs",), "uz"),
    **dict.fromkeys(("ltg",), "lv"),
    **dict.fromkeys(("gom",), "kok"),
    **dict.fromkeys(("grc",), "el"),
    **dict.fromkeys(("hbo",), "he"),
}
"""Labels that are one language for py3langid's purpose, by ISO 639-3's macrolanguages (and older forms of a language): where
one of them is served, a text in the same script is not said to be in another."""

_COMMON_ODDS = 0.5
_COMMON_MAX_WORDS = 4
"""If all words of a text of up to this length are among a language's most common, that language gets these odds:
py3langid, which was trained on sentences, detects "hello" as Italian."""

_MIN_CHANCE = 1e-30
"""Chances are floats of single precision, and may be 0."""

_AMBIGUOUS = 0.5
"""The confidence where there are only Han characters, all of them written in Chinese and in Japanese."""

_CLEAR_ODDS = (24.0, 15.0, 12.0, 12.0, 8.0)
"""The natural logarithm of the odds, py3langid's for a language that is not served against the best of those that are, from
which on a text is in the former: for texts of one, two, … and of five words or more that are no names. `docs/eval.md` has what
this finds, and what it stops wrongly."""

_DOUBTFUL = 0.45
"""The share of these logarithms from which on the language is in doubt."""

_MIXED_ODDS = 3.0
"""The logarithm of the odds for a served language from which on a part of a text is in it."""

_MIXED_WORDS = 3
_MIXED_PARTS = 16
"""A part of a mixed text has at least so many words, and so many of a text's parts are looked at, the longest first."""

_SURE_OF_LATIN = 0.5
"""Where no served language has the Latin script, the chance from which on a text in it is named."""

_SURE_OF_NAME = 3.0
"""The logarithm of the odds against the usual language of a script from which on a text in it is another."""

_SURE_CHANCE = 0.25
"""py3langid's chance of a language among all, from which on a text is said to be in it."""

_MIN_SMALL = 0.25
"""The share of a text's words that are no names by their form, from which on they count."""

_UNSERVED_SHARE = 0.75
"""The share of a script that no served language has, from which on it decides."""

_SAMPLE_CHARACTERS = 500
_SAMPLES = 4
_SAMPLES_FOR_LETTERS = 32  # where the first ones have no letters
_PUNCTUATION = string.punctuation + "¡¿…«»“”„"
_LETTER = regex.compile(r"\p{L}")
_NOT_TEXT = regex.compile(r"[\p{Cc}\p{Cs}\p{Co}\p{Cn}]+")
_PARTS = regex.compile(r"[.!?…:;()\[\]\n\"„“”«»‹›]+")
_QUOTED = regex.compile(r"\"[^\"\n]*\"|[„“”][^„“”\n]*[“”]|«[^»\n]*»|»[^«\n]*«|\([^()\n]*\)")
_SMALL_WORD = regex.compile(r"(?<![^\s\p{P}])(?<![@./\\_-])[\p{Ll}\p{Lo}][\p{L}\p{M}'’]+(?![@./\\_-]\w)(?![^\s\p{P}])")
"""A word that is no name by its form, nor a part of an address, a path or an identifier."""


class _Identifier(Protocol):
    @property
    def labels(self) -> list[str]: ...
    def rank(self, text: str) -> list[tuple[str, float]]: ...
    def set_languages(self, langs: Collection[str]) -> None: ...


def prepare() -> None:
    """Load py3langid's model (half a second, 100 MB) before the first detector needs it."""
    _load_identifier()


class Detector:
    """Detects one of the languages `served` (tags), or a language that is not. Loads py3langid's model unless `prepare` has.

    Thread-safe.
    """

    def __init__(self, served: Sequence[str]) -> None:
        self.served = tuple(served)
        self._identifier = _load_identifier()
        self._common = _load_common_words()
        self._labels = {tag: label_of(tag) for tag in self.served}
        self._by_script: dict[str, list[str]] = {}
        for tag in self.served:
            for script in sorted(scripts_of(tag)):
                self._by_script.setdefault(script, []).append(tag)
        self._rivals = {script: self._labels_not_served(script) for script in SHARED_SCRIPTS}
        self._by_scripts = self._narrowed()

    def detect(self, text: str) -> Detection:
        """Return the most likely served language and its probability, or a language that is not served. Never raises."""
        sample = _sample(text)
        if not _LETTER.search(sample):
            return Detection(None, 0.0, has_letters=False)
        weights = script_weights(sample)
        script = self._deciding_script(sample, weights)
        candidates = self._by_script.get(script)
        share = weights.get(script, 0) / max(sum(weights.values()), 1)
        if not candidates:
            return self._in_unserved_script(sample, script, share)
        if script == "Han":
            return self._among_han(sample, candidates, share)
        if len(candidates) == 1 and script not in _WIDESPREAD_SCRIPTS and not self._rivals.get(script):
            return Detection(candidates[0], share)
        return self._identify(sample, candidates, script)

    def _deciding_script(self, sample: str, weights: Mapping[str, int]) -> str:
        """Return the script with the most text. Where served languages have one of two scripts, names do not decide."""
        script = max(weights, key=weights.__getitem__, default=_OTHER)
        other = max((one for one in weights if one != script), key=weights.__getitem__, default=None)
        if other is None or (script in self._by_script) is (other in self._by_script):
            return script
        served, unserved = (script, other) if script in self._by_script else (other, script)
        if weights[unserved] >= _UNSERVED_SHARE * (weights[served] + weights[unserved]):
            return unserved
        words = _words_of(sample, served)
        return served if served not in _CASED_SCRIPTS or _SMALL_WORD.search(words) else unserved

    def _in_unserved_script(self, sample: str, script: str, share: float) -> Detection:
        """Name the likeliest language of a script that no served language has."""
        words, usual = _words_of(sample, script), _usual_language(script)
        if script in _CASED_SCRIPTS and not _WORD.search(words):  # the letters of a formula
            return Detection(None, 0.0)
        if script not in SHARED_SCRIPTS:
            return Detection(usual, share, is_served=False) if usual else Detection(None, 0.0)
        odds = {label: chance for label, chance in self._identifier.rank(f" {words} ") if label in self._rivals[script]}
        odds = {label: odds[label] for label in odds if label in self._with_common_words(words)} or odds
        label, whole = next(iter(odds), ""), sum(odds.values())
        if not whole or (script == "Latn" and odds[label] < _SURE_OF_LATIN * whole):
            return Detection(None, 0.0)
        if usual in odds and _log_odds(odds, label, (usual,), words) < _SURE_OF_NAME:
            label = usual
        return Detection(_tag_of(label, script), share * odds[label] / whole, is_served=False)

    def _identify(self, sample: str, candidates: list[str], script: str) -> Detection:
        words = _words_of(sample, script)
        ranked = self._identifier.rank(f" {words} ")  # the first and the last word have edges, too
        odds = dict(ranked)
        labels = {self._labels[tag] for tag in candidates}
        rival = max((odds[label] for label in odds.keys() - labels), default=0.0)
        common = self._with_common_words(words)
        served = {label: odds.get(label, 0.0) + _COMMON_ODDS * (label in common) for label in labels}
        best = max(served.values())
        chosen = [tag for tag in candidates if served[self._labels[tag]] == best]
        # One label may stand for several tags (pt-BR and pt-PT): then the script and the order decide.
        chosen.sort(key=lambda tag: script not in _script_names(languages.script(tag)))
        whole = sum(served.values()) + rival
        found = Detection(chosen[0], best / whole if whole else 0.0)
        if script not in self._rivals or odds.keys().isdisjoint(labels):
            return found
        rivals = self._rivals[script]
        unserved = next((label for label, _ in ranked if label in (rivals & common or rivals)), None)
        if unserved is None or odds[unserved] <= best:
            return found
        return self._judged(sample, script, odds, unserved, found)

    def _judged(
        self, sample: str, script: str, odds: Mapping[str, float], unserved: str, served: Detection
    ) -> Detection:
        """Decide between a language that is not served, the likeliest, and the best of those that are."""
        tag, words = _tag_of(unserved, script), _words_of(sample, script)
        labels = {self._labels[one] for one in self._by_script[script]}
        if words.isupper():
            sample, words = sample.lower(), words.lower()
        small = _SMALL_WORD.findall(words)
        number = (
            len(small) + 1 if _MIN_SMALL * len(words.split()) <= len(small) < len(words.split()) else len(small) or 1
        )
        found, clear = _log_odds(odds, unserved, labels, words), _CLEAR_ODDS[min(number, len(_CLEAR_ODDS)) - 1]
        is_common = unserved in self._with_common_words(words)
        if found < clear * _DOUBTFUL and not is_common:
            return served
        doubtful = replace(served, doubt=tag)
        if found < clear * (_DOUBTFUL if is_common else 1.0) or (not is_common and odds[unserved] < _SURE_CHANCE):
            return doubtful
        parts = [" ".join(small), *_long_parts(sample, script)]
        if any(self._log_odds_of(part, unserved, labels) < -_MIXED_ODDS for part in parts):
            return doubtful
        return Detection(tag, odds[unserved], is_served=False)

    def _log_odds_of(self, words: str, label: str, others: Collection[str]) -> float:
        return _log_odds(dict(self._identifier.rank(f" {words} ")), label, others, words) if words else 0.0

    def _labels_not_served(self, script: str) -> frozenset[str]:
        """Return the labels of languages of a script that are not served there, nor are the same as one that is."""
        served = {self._labels[tag] for tag in self._by_script.get(script, ())}
        served |= {one_language(label) for label in served}
        return frozenset(
            label
            for label in self._identifier.labels
            if script in _scripts_of_label(label) and served.isdisjoint((label, one_language(label)))
        )

    def likelier(self, words: str, tag: str) -> list[tuple[str, float]]:
        """Return the languages that are likelier than the tag's for these words of one script, the likeliest first.

        Each has its label and how many times as likely it is. Candidates are the served languages of that script and
        English; there are none if the tag's language is unknown or not served.
        """
        identifier = self._by_scripts.get(scripts_of(tag))
        if identifier is None:
            return []
        ranked = identifier.rank(f" {words} ")
        own = label_of(tag)
        place = next((place for place, (label, _) in enumerate(ranked) if label == own), 0)
        chance = max(ranked[place][1], _MIN_CHANCE)
        return [(label, other / chance) for label, other in ranked[:place]]

    def _narrowed(self) -> dict[frozenset[str], _Identifier]:
        """Make an identifier for each set of scripts that several languages share: fewer languages are faster."""
        narrowed: dict[frozenset[str], _Identifier] = {}
        for scripts in {scripts_of(tag) for tag in self.served}:
            labels = {label_of(tag) for tag in (*self.served, "en") if not scripts.isdisjoint(scripts_of(tag))}
            known = labels.intersection(self._identifier.labels)
            if len(known) > 1 and not scripts.isdisjoint(SHARED_SCRIPTS):
                narrowed[scripts] = copy(self._identifier)
                narrowed[scripts].set_languages(known)
        return narrowed

    def _with_common_words(self, text: str) -> set[str]:
        """Return the languages in which all words of a short text are among the most common ones."""
        words = {word.strip(_PUNCTUATION) for word in text.casefold().replace("’", "'").split()} - {""}
        if not words or len(words) > _COMMON_MAX_WORDS:
            return set()
        return {label for label, common in self._common.items() if words <= common}

    def _among_han(self, sample: str, candidates: list[str], share: float) -> Detection:
        """Decide a text of Han characters without kana: Chinese, unless its characters are used only in Japan."""
        simplified, traditional, japanese = han_fit(sample)
        chinese = [tag for tag in candidates if languages.script(tag) != "Jpan"]
        only_japan = japanese > max(simplified, traditional)
        if not chinese and japanese < max(simplified, traditional):
            return Detection("zh" if simplified >= traditional else "zh-Hant", share, is_served=False)
        if not chinese or (only_japan and len(chinese) < len(candidates)):
            tag = next(tag for tag in candidates if tag not in chinese)
            return Detection(tag, share * japanese)
        if len({self._labels[tag] for tag in chinese}) > 1:
            return self._identify(sample, chinese, "Han")
        script = "Hant" if traditional > simplified else "Hans"
        tag = next((tag for tag in chinese if languages.script(tag) == script), chinese[0])
        doubtful = japanese == max(simplified, traditional, japanese) and len(chinese) < len(candidates)
        return Detection(tag, share * (_AMBIGUOUS if doubtful else 1.0))


def label_of(tag: str) -> str:
    """Return py3langid's label of a language."""
    primary = languages.primary(tag)
    return _LABELS.get(primary, primary)


def one_language(label: str) -> str:
    """Return a name for all labels that are one language for py3langid's purpose."""
    return _ONE_LANGUAGE.get(label, label)


def labels() -> frozenset[str]:
    """Return the labels of all languages that py3langid knows."""
    return frozenset(_load_identifier().labels)


@cache
def _scripts_of_label(label: str) -> frozenset[str]:
    """Return the scripts of a language that py3langid knows; none for what no text is named by."""
    try:
        return frozenset() if label in _NO_RIVALS else scripts_of(label)
    except UnsupportedLanguage:
        return frozenset()


@cache
def _tag_of(label: str, script: str) -> str:
    """Return the tag of a label's language; it names the script where that is not the language's usual one."""
    tag = languages.normalise(label)
    return tag if script in _script_names(languages.script(tag)) else f"{tag}-{script}"


def _log_odds(odds: Mapping[str, float], label: str, others: Collection[str], words: str) -> float:
    """Return the natural logarithm of how many times as likely a label is as the best of others, for these words.

    py3langid gives chances at a temperature, the square root of the bytes, and counts a letter of several bytes several times:
    both are undone.
    """
    letters = "".join(filter(str.isalpha, words))
    density = len(letters.encode()) / max(len(letters), 1) or 1.0
    best = max((odds.get(other, 0.0) for other in others), default=0.0)
    ratio = math.log(max(odds.get(label, 0.0), _MIN_CHANCE) / max(best, _MIN_CHANCE))
    return ratio * math.sqrt(len(f" {words} ".encode(errors="replace"))) / density


def _long_parts(sample: str, script: str) -> list[str]:
    """Return the words of the longest sentences, quotations and brackets; none where the text has one part."""
    parts = [part for part in map(str.strip, _PARTS.split(sample)) if part]
    if len(parts) < 2:
        return []
    parts.append(_QUOTED.sub(" ", sample))
    long = [words for part in parts if len((words := _words_of(part, script)).split()) >= _MIXED_WORDS]
    return sorted(long, key=len, reverse=True)[:_MIXED_PARTS]


@cache
def _load_identifier() -> _Identifier:
    # Not limited with `set_languages`: among all languages that it knows, a language that is not served is recognised.
    load = cast("Callable[..., _Identifier]", LanguageIdentifier.from_model_file)  # pyright: ignore[reportUnknownMemberType]
    try:
        return load(MODEL_FILE, norm_probs=True)
    except OSError as error:  # it unpacks its model into a temporary file
        raise ConfigError(
            f"the language detector cannot write its temporary file of 68 MB: {error.strerror or error}; set TMPDIR to a "
            "folder with that much space"
        ) from None


def _load_common_words() -> dict[str, frozenset[str]]:
    table = resources.files("dragoman.text").joinpath("data/common_words.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in table.splitlines())
    return {label: frozenset(words.split()) for label, words in rows}


def _sample(text: str) -> str:
    """Return the text, or parts from several places of a long one, without fixed spans and invalid characters."""
    if len(text) <= _SAMPLES * _SAMPLE_CHARACTERS:
        return _words(text)
    sample = _words(_parts(text, _SAMPLES))
    if not _LETTER.search(sample):
        sample = _words(_parts(text, _SAMPLES_FOR_LETTERS))
    return sample


def _parts(text: str, number: int) -> str:
    step = max((len(text) - _SAMPLE_CHARACTERS) // (number - 1), _SAMPLE_CHARACTERS)
    starts = range(0, len(text) - _SAMPLE_CHARACTERS + 1, step)
    return " ".join(text[start : start + _SAMPLE_CHARACTERS] for start in starts)


def _words(text: str) -> str:
    return _NOT_TEXT.sub(" ", without_spans(text))


# ---- scripts

_CODES = (
    "Latn Cyrl Han Hira Kana Hang Arab Armn Beng Deva Ethi Geor Grek Gujr Guru Hebr Khmr Knda Laoo Mlym Mong Mymr Orya Sinh"
    " Taml Telu Thaa Thai Tibt"
)
_NAMED = tuple(_CODES.split())
_OTHER = "Zzzz"

_RUN = regex.compile("|".join(rf"(?P<{code}>\p{{Script={code}}}+)" for code in _NAMED) + rf"|(?P<{_OTHER}>\p{{L}})")
_CASED_SCRIPTS = frozenset({"Latn", "Cyrl", "Grek", "Armn"})
_WORD = regex.compile(r"\p{L}\p{M}*\p{L}")
# A Latin name with a word of another script attached, as in "Google Chromeの" or "Chrome을".
_LATIN_NAME = regex.compile(
    r"(?<![\p{Latin}\d])(?:[\p{Latin}\d]++ ){0,3}[\p{Latin}\d]++(?=[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}])"
)

_HAN = regex.compile(r"\p{Unified_Ideograph}")
_HONG_KONG = frozenset("裏着綫衞麪羣峯啲咗嚟嘅喺嘢")
"""Everyday characters of Hong Kong that Big5 lacks; Japanese has some of them."""

_UNITED = {"Hans": "Han", "Hant": "Han", "Hani": "Han", "Kore": "Hang", "Aran": "Arab", "Cyrs": "Cyrl"}
_ISO_SCRIPTS = {"Han": "Hani", "Hang": "Kore"}
_DENSITY = {"Han": 3, "Hira": 3, "Kana": 3, "Hang": 3}
"""How many letters of an alphabet a character of these scripts stands for."""

_MIN_KANA = 0.05
"""The share of kana among kana and Han from which a text is Japanese; Chinese borrows a single の."""


def _script_names(script: str) -> frozenset[str]:
    """Return this module's names of the scripts that an ISO 15924 script such as Jpan or Hant consists of."""
    return frozenset({"Jpan", "Han"}) if script == "Jpan" else frozenset({_UNITED.get(script, script)})


def scripts_of(tag: str) -> frozenset[str]:
    """Return this module's names of the scripts in which the language is written."""
    second = _SECOND_SCRIPTS.get(languages.normalise(tag))  # a tag that names its script has no second one
    return _script_names(languages.script(tag)) | ({second} if second else set[str]())


@lru_cache(maxsize=256)
def word_pattern(tag: str) -> regex.Pattern[str]:
    """Return a pattern that matches a word in the scripts of the language."""
    names = "".join(rf"\p{{Script={script}}}" for script in sorted(scripts_of(tag).intersection(_NAMED)))
    return regex.compile(rf"[{names}][{names}\p{{M}}]*(?:['’][{names}\p{{M}}]+)*")


def _words_of(text: str, script: str) -> str:
    """Return the text with spaces for the letters of other scripts."""
    if script == "Latn" and text.isascii():  # all letters are of the script: half of the time of a detection is saved
        return text
    return _RUN.sub(lambda run: run.group() if run.lastgroup == script else " ", text)


@cache
def _usual_language(script: str) -> str | None:
    """Return the language that CLDR has for a script alone; None if it has none."""
    return languages.of_script(_ISO_SCRIPTS.get(script, script))


def script_weights(text: str) -> dict[str, int]:
    """Return how much of the text is in each script, in letters; a character of a dense script counts as several.

    Kana and the Han characters beside them are one script, `Jpan`; Han characters alone are `Han`.
    """
    if text.isascii():
        letters = sum(map(str.isalpha, text))
        return {"Latn": letters} if letters else {}
    weights: dict[str, int] = {}
    for run in _RUN.finditer(_LATIN_NAME.sub("", text)):
        script = run.lastgroup or _OTHER
        weights[script] = weights.get(script, 0) + (run.end() - run.start()) * _DENSITY.get(script, 1)
    kana = weights.pop("Hira", 0) + weights.pop("Kana", 0)
    han = weights.get("Han", 0)
    if kana > _MIN_KANA * (kana + han):
        weights.pop("Han", None)
        weights["Jpan"] = kana + han
    return weights


def han_fit(text: str) -> tuple[float, float, float]:
    """Return the shares of the text's Han characters that Simplified Chinese, Traditional Chinese and Japanese use.

    A character counts as used if it is in GB 2312, Big5 or JIS X 0208.
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
