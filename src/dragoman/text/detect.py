"""Which of the served languages a text is in: by its script where that tells, else by py3langid among those that fit.

Knows nothing of a model, and nothing of the languages that are not served but that there are some.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Protocol, cast

import regex
from py3langid.langid import MODEL_FILE, LanguageIdentifier  # pyright: ignore[reportMissingTypeStubs]

from dragoman import languages
from dragoman.errors import UnsupportedLanguage
from dragoman.text import scripts
from dragoman.text.spans import without_spans

_SHARED_SCRIPTS = frozenset({"Latn", "Cyrl", "Arab", "Deva"})
"""Scripts of many languages: that only one of them is served says little about a text."""

_SECOND_SCRIPTS = {"sr": "Latn", "uz": "Cyrl", "az": "Cyrl", "ku": "Arab", "pa": "Arab", "mn": "Mong"}
_LABELS = {"fil": "tl", "nb": "no"}  # py3langid's labels where they are not the primary subtag

_HINT_ODDS = 10.0
"""A hinted language is taken for so many times as likely as the text alone makes it: it decides short texts only."""

_COMMON_ODDS = 0.5
_COMMON_MOST_WORDS = 4
"""So few words, all among a language's commonest, get it these odds: py3langid, which learnt from sentences, takes
"hello" for Italian."""

_AMBIGUOUS = 0.5
"""The confidence where only Han characters are seen, all of them written in Chinese and in Japanese."""

_SAMPLE_CHARACTERS = 2000
_SAMPLE_PARTS = 4
_PUNCTUATION = string.punctuation + "¡¿…«»“”„"
_LETTER = regex.compile(r"\p{L}")
_NOT_TEXT = regex.compile(r"[\p{Cc}\p{Cs}\p{Co}\p{Cn}]+")


class _Identifier(Protocol):
    def rank(self, text: str) -> list[tuple[str, float]]: ...


@dataclass(frozen=True, slots=True)
class Detection:
    """`language` is an entry of the served; None when the text has no letters, or is in a script of none of them.

    `confidence` (0-1) weighs the language against the unserved ones too: near 0 when the text seems to be in one.
    """

    language: str | None
    confidence: float


NOTHING = Detection(None, 0.0)


class Detector:
    """Detects among `served` (tags). Loads the identifier's model (half a second, 100 MB); threads may share it."""

    def __init__(self, served: Sequence[str]) -> None:
        self._served = tuple(served)
        self._identifier = _load_identifier()
        self._common = _load_common_words()
        self._labels = {tag: _LABELS.get(languages.primary(tag), languages.primary(tag)) for tag in self._served}
        self._written_in: dict[str, list[str]] = {}
        for tag in self._served:
            for script in sorted(_scripts(tag)):
                self._written_in.setdefault(script, []).append(tag)

    def detect(self, text: str, hint: str | None = None) -> Detection:
        """Never raises, whatever the text. `hint` (a tag, as of the user's locale) tips a text that could be either."""
        sample = _sample(text)
        weights = scripts.weigh(sample)
        script = max(weights, key=weights.__getitem__, default=scripts.OTHER)
        candidates = self._written_in.get(script)
        if not candidates:
            return NOTHING
        share = weights[script] / sum(weights.values())
        preferred = self._preferred(hint)
        if script == "Han":
            return self._among_han(sample, candidates, preferred, share)
        if len(candidates) == 1 and script not in _SHARED_SCRIPTS:
            return Detection(candidates[0], share)
        return self._identify(sample, candidates, preferred, script)

    def _preferred(self, hint: str | None) -> str | None:
        try:
            return languages.match(hint, self._served) if hint else None
        except UnsupportedLanguage:
            return None

    def _identify(self, sample: str, candidates: list[str], preferred: str | None, script: str) -> Detection:
        words = scripts.only(sample, script)
        odds = dict(self._identifier.rank(f" {words} "))  # at its edges, too, a word is a word
        labels = {self._labels[tag] for tag in candidates}
        rival = max((odds[label] for label in odds.keys() - labels), default=0.0)
        common = self._commonly_said_in(words)
        served = {label: odds.get(label, 0.0) + _COMMON_ODDS * (label in common) for label in labels}
        if preferred in candidates:
            served[self._labels[preferred]] *= _HINT_ODDS
        best = max(served.values())
        chosen = [tag for tag in candidates if served[self._labels[tag]] == best]
        # One label may stand for several tags (pt-BR and pt-PT): then the hint, the script, the order say which.
        chosen.sort(key=lambda tag: (tag != preferred, script not in scripts.of_language(languages.script(tag))))
        whole = sum(served.values()) + rival
        return Detection(chosen[0], best / whole if whole else 0.0)

    def _commonly_said_in(self, text: str) -> set[str]:
        words = {word.strip(_PUNCTUATION) for word in text.casefold().replace("’", "'").split()} - {""}
        if not words or len(words) > _COMMON_MOST_WORDS:
            return set()
        return {label for label, common in self._common.items() if words <= common}

    def _among_han(self, sample: str, candidates: list[str], preferred: str | None, share: float) -> Detection:
        """Han characters alone: Chinese, unless the hint says Japanese or a character is Japan's own."""
        simplified, traditional, japanese = scripts.han_fit(sample)
        fit = {"Hans": simplified, "Hant": traditional, "Jpan": japanese}
        best = max(fit.values())
        if preferred in candidates and fit.get(languages.script(preferred)) == best:
            return Detection(preferred, share)
        chinese = [tag for tag in candidates if languages.script(tag) != "Jpan"]
        only_japan = japanese > max(simplified, traditional)
        if not chinese or (only_japan and len(chinese) < len(candidates)):
            tag = next(tag for tag in candidates if tag not in chinese)
            return Detection(tag, share * japanese)
        if len({self._labels[tag] for tag in chinese}) > 1:
            return self._identify(sample, chinese, preferred, "Han")
        script = "Hant" if traditional > simplified else "Hans"
        tag = next((tag for tag in chinese if languages.script(tag) == script), chinese[0])
        doubtful = japanese == best and len(chinese) < len(candidates)
        return Detection(tag, share * (_AMBIGUOUS if doubtful else 1.0))


def _load_identifier() -> _Identifier:
    # Not narrowed by py3langid's own `set_languages`: seen among all it knows, a language that is not served shows.
    load = cast("Callable[..., _Identifier]", LanguageIdentifier.from_model_file)  # pyright: ignore[reportUnknownMemberType]
    return load(MODEL_FILE, norm_probs=True)


def _load_common_words() -> dict[str, frozenset[str]]:
    table = resources.files("dragoman.text").joinpath("data/common_words.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in table.splitlines())
    return {label: frozenset(words.split()) for label, words in rows}


def _scripts(tag: str) -> frozenset[str]:
    second = _SECOND_SCRIPTS.get(languages.normalise(tag))  # a tag that names its script has no second one
    return scripts.of_language(languages.script(tag)) | ({second} if second else set[str]())


def _sample(text: str) -> str:
    """The text's words, or for a long text some from several places, without what is no word: the cost is bounded."""
    if len(text) <= _SAMPLE_CHARACTERS:
        return _words(text)
    size = _SAMPLE_CHARACTERS // _SAMPLE_PARTS
    step = (len(text) - size) // (_SAMPLE_PARTS - 1)
    words = _words(" ".join(text[at : at + size] for at in range(0, len(text) - size + 1, step)))
    if _LETTER.search(words):
        return words
    first = _LETTER.search(text)
    return _words(text[first.start() : first.start() + size]) if first else ""


def _words(text: str) -> str:
    return _NOT_TEXT.sub(" ", without_spans(text))
