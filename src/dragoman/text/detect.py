"""Detects the language of a text: by its script if only one served language uses it, else with py3langid.

Only a sample of bounded size is read. Scripts are those of the Unicode property Script (UAX #24), named by their ISO 15924
codes, except `Han` for Han characters without kana, and `Jpan` for kana and the Han characters among them.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Collection, Sequence
from copy import copy
from functools import cache, lru_cache
from importlib import resources
from typing import Protocol, cast

import regex
from py3langid.langid import MODEL_FILE, LanguageIdentifier  # pyright: ignore[reportMissingTypeStubs]

from dragoman import languages
from dragoman.errors import ConfigError
from dragoman.text.spans import without_spans
from dragoman.types import Detection

_WIDESPREAD_SCRIPTS = frozenset({"Latn", "Cyrl", "Arab", "Deva"})
"""Scripts of many languages: a text in one of them may be in a language that is not served, even if one alone is served."""

SHARED_SCRIPTS = _WIDESPREAD_SCRIPTS | {"Beng", "Ethi", "Hebr"}
"""Scripts of several languages."""

_SECOND_SCRIPTS = {"sr": "Latn", "uz": "Cyrl", "az": "Cyrl", "ku": "Arab", "pa": "Arab", "mn": "Mong"}
_LABELS = {"fil": "tl", "nb": "no"}  # py3langid's labels where they are not the primary subtag

_COMMON_ODDS = 0.5
_COMMON_MAX_WORDS = 4
"""If all words of a text of up to this length are among a language's most common, that language gets these odds:
py3langid, which was trained on sentences, detects "hello" as Italian."""

_MIN_CHANCE = 1e-30
"""Chances are floats of single precision, and may be 0."""

_AMBIGUOUS = 0.5
"""The confidence where there are only Han characters, all of them written in Chinese and in Japanese."""

_SAMPLE_CHARACTERS = 500
_SAMPLES = 4
_SAMPLES_FOR_LETTERS = 32  # where the first ones have no letters
_PUNCTUATION = string.punctuation + "¡¿…«»“”„"
_LETTER = regex.compile(r"\p{L}")
_NOT_TEXT = regex.compile(r"[\p{Cc}\p{Cs}\p{Co}\p{Cn}]+")


class _Identifier(Protocol):
    @property
    def labels(self) -> list[str]: ...
    def rank(self, text: str) -> list[tuple[str, float]]: ...
    def set_languages(self, langs: Collection[str]) -> None: ...


def prepare() -> None:
    """Load py3langid's model (half a second, 100 MB) before the first detector needs it."""
    _load_identifier()


class Detector:
    """Detects one of the languages `served` (tags). Loads py3langid's model unless `prepare` has. Thread-safe."""

    def __init__(self, served: Sequence[str]) -> None:
        self.served = tuple(served)
        self._identifier = _load_identifier()
        self._common = _load_common_words()
        self._labels = {tag: label_of(tag) for tag in self.served}
        self._by_script: dict[str, list[str]] = {}
        for tag in self.served:
            for script in sorted(scripts_of(tag)):
                self._by_script.setdefault(script, []).append(tag)
        self._by_scripts = self._narrowed()

    def detect(self, text: str) -> Detection:
        """Return the most likely served language and its probability. Never raises."""
        sample = _sample(text)
        if not _LETTER.search(sample):
            return Detection(None, 0.0, has_letters=False)
        weights = script_weights(sample)
        script = max(weights, key=weights.__getitem__, default=_OTHER)
        candidates = self._by_script.get(script)
        if not candidates:
            return Detection(None, 0.0)
        share = weights[script] / sum(weights.values())
        if script == "Han":
            return self._among_han(sample, candidates, share)
        if len(candidates) == 1 and script not in _WIDESPREAD_SCRIPTS:
            return Detection(candidates[0], share)
        return self._identify(sample, candidates, script)

    def _identify(self, sample: str, candidates: list[str], script: str) -> Detection:
        words = _RUN.sub(lambda run: run.group() if run.lastgroup == script else " ", sample)
        odds = dict(self._identifier.rank(f" {words} "))  # the first and the last word have edges, too
        labels = {self._labels[tag] for tag in candidates}
        rival = max((odds[label] for label in odds.keys() - labels), default=0.0)
        common = self._with_common_words(words)
        served = {label: odds.get(label, 0.0) + _COMMON_ODDS * (label in common) for label in labels}
        best = max(served.values())
        chosen = [tag for tag in candidates if served[self._labels[tag]] == best]
        # One label may stand for several tags (pt-BR and pt-PT): then the script and the order decide.
        chosen.sort(key=lambda tag: script not in _script_names(languages.script(tag)))
        whole = sum(served.values()) + rival
        return Detection(chosen[0], best / whole if whole else 0.0)

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


@cache
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
# A Latin name with a word of another script attached, as in "Google Chromeの" or "Chrome을".
_LATIN_NAME = regex.compile(
    r"(?<![\p{Latin}\d])(?:[\p{Latin}\d]++ ){0,3}[\p{Latin}\d]++(?=[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}])"
)

_HAN = regex.compile(r"\p{Unified_Ideograph}")
_HONG_KONG = frozenset("裏着綫衞麪羣峯啲咗嚟嘅喺嘢")
"""Everyday characters of Hong Kong that Big5 lacks; Japanese has some of them."""

_UNITED = {"Hans": "Han", "Hant": "Han", "Hani": "Han", "Kore": "Hang", "Aran": "Arab", "Cyrs": "Cyrl"}
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


def script_weights(text: str) -> dict[str, int]:
    """Return how much of the text is in each script, in letters; a character of a dense script counts as several.

    Kana and the Han characters beside them are one script, `Jpan`; Han characters alone are `Han`.
    """
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
