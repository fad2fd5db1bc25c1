"""Terms of a glossary: which of them a text has, and which translations an output lacks.

Words are compared with tolerance for inflection, by rules about endings instead of a dictionary: `server` is found in
"servers", `city` in "cities", `Haus` in "Häuser", `книга` in "книгами". A rule that finds too much in a source shows the
model a term that it does not need; one that finds too little in an output reports a term that is there. Therefore
endings of sources are checked against those of the language where it is listed, and outputs are searched more tolerantly.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from dragoman.text.marks import MARK, plain

Term = tuple[str, str]
"""A term and its translation."""

_WITHOUT_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff"
)
"""Thai, Lao, Burmese, Khmer, kana and Han: scripts that do not separate words."""
_TOKEN = re.compile(rf"[{_WITHOUT_SPACES}]|[^\W{_WITHOUT_SPACES}]+|[^\w\s]")
_UNSPACED = re.compile(rf"[{_WITHOUT_SPACES}]")
_HANGUL = re.compile("[\uac00-\ud7a3]+")
_CLITICS = re.compile("(?:[وف]?(?:ال|لل|بال|كال|[بلك])|[وف]|[והבלמשכ]{1,2})(?=\\w{3})")
"""Articles, prepositions and conjunctions that Arabic and Hebrew write as a part of the word."""

_ENDINGS: Mapping[str, frozenset[str]] = {
    "en": frozenset(("s", "es")),
    "de": frozenset(("e", "en", "er", "ern", "es", "n", "s", "ens", "em", "se", "sen")),
    "nl": frozenset(("s", "en", "n", "e", "eren", "den", "ten")),
    "fr": frozenset(("s", "x", "e", "es")),
    "es": frozenset(("s", "es", "a", "as", "os")),
    "pt": frozenset(("s", "es", "a", "as", "os")),
    "it": frozenset(("i", "e", "hi", "he")),
}
"""What may follow the whole word, in languages with few endings. Elsewhere, any letters."""
_VERB_ENDINGS = frozenset(("d", "ed", "ing"))
_SWAPS: Mapping[str, frozenset[tuple[str, str]]] = {
    "en": frozenset((("y", "ies"), ("e", "ing"))),
    "de": frozenset((("e", "en"),)),
    "nl": frozenset[tuple[str, str]](),
    "fr": frozenset((("l", "ux"), ("f", "ve"), ("f", "ves"))),
    "es": frozenset((("z", "ces"), ("o", "a"), ("o", "as"))),
    "pt": frozenset((("l", "is"), ("m", "ns"), ("o", "a"), ("o", "as"))),
    "it": frozenset((last, new) for last in "aoe" for new in ("i", "e", "a") if last != new),
}
"""A word's last letter, and what may stand in its place. Elsewhere, any letters."""


def folded(text: str) -> str:
    """Lower case, without accents and differences of width."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKC", text).casefold()
    letters = (char for char in unicodedata.normalize("NFD", text) if not "\u0300" <= char <= "\u036f")
    return unicodedata.normalize("NFC", "".join(letters))


# ---- in a source


class _Node:
    """A place in the tree of terms. `words`: next words by what is looked up; `entry`: the term that ends here."""

    __slots__ = ("entry", "words")

    def __init__(self) -> None:
        self.words: dict[str, dict[str, _Node]] | None = None  # most places have none: half of the memory
        self.entry: Term | None = None

    def after(self, word: str) -> _Node:
        """The place after one more word of a term."""
        if self.words is None:
            self.words = {}
        first, *others = _keys_of_term(word)
        same = self.words.setdefault(first, {})
        found = same.get(word)
        if found is None:
            found = same[word] = _Node()
            for key in others:
                self.words.setdefault(key, {})[word] = found
        return found


class Glossary:
    """The terms of one direction. `source` is the language tag of the terms.

    Made once for many texts: 100,000 terms take a second, which is not for the event loop.
    """

    def __init__(self, entries: Mapping[str, str], source: str) -> None:
        self._language = source.partition("-")[0].lower()
        self._root = _Node()
        for term, translation in entries.items():
            node = self._root
            for word in _TOKEN.findall(unicodedata.normalize("NFC", term)):
                node = node.after(word)
            if node is not self._root:
                node.entry = node.entry or (term, translation)

    def occurring(self, text: str) -> tuple[Term, ...]:
        """The terms that a text (with marks or without) has, each once, in the text's order. The longest one wins.

        A term in lower case is found in any case; another one in its own. Linear in the text.
        """
        words = _TOKEN.findall(unicodedata.normalize("NFC", plain(text)))
        return tuple(dict.fromkeys(entry for _, _, entry in self._found(words)))

    def spans(self, text: str, *, any_case: bool = False) -> list[tuple[int, int, str]]:
        """Start and end of each term in a text, in order, and its translation. None of a text that is not in NFC.

        `any_case`: the text says nothing of its words' case, so that every term is found in any.
        """
        if not unicodedata.is_normalized("NFC", text):
            return []
        tokens = [found.span() for found in _TOKEN.finditer(MARK.sub(lambda mark: " " * len(mark[0]), text))]
        words = [text[start:stop] for start, stop in tokens]
        return [
            (tokens[first][0], tokens[last][1], translation)
            for first, last, (_, translation) in self._found(words, any_case)
        ]

    def _found(self, words: list[str], any_case: bool = False) -> Iterator[tuple[int, int, Term]]:
        """First and last word of each term, and the term."""
        at = 0
        while at < len(words):
            entry, length = self._longest(words, at, any_case)
            if entry is not None:
                yield at, at + length - 1, entry
            at += length

    def _longest(self, words: list[str], start: int, any_case: bool) -> tuple[Term | None, int]:
        """The longest term that begins at a word, with its number of words; (None, 1) where none does."""
        best: tuple[Term | None, int] = (None, 1)
        nodes = [self._root]
        at = start
        while nodes and at < len(words):
            nodes = [after for node in nodes for after in self._after(node, words[at], any_case)]
            at += 1
            ended = next((node.entry for node in nodes if node.entry), None)
            if ended is not None:
                best = ended, at - start
        return best

    def _after(self, node: _Node, word: str, any_case: bool) -> Iterator[_Node]:
        """Nodes of the words that `word` is a form of: the same word first, then other case, then inflected."""
        if node.words is None:
            return
        seen: set[str] = set()
        for key in _keys_of_text(word):
            candidates = node.words.get(key)
            if candidates is None:
                continue
            for term, after in sorted(candidates.items(), key=lambda item: item[0] != word):
                if term not in seen and _is_form(word, term.lower() if any_case else term, self._language):
                    seen.add(term)
                    yield after


def _keys_of_term(word: str) -> list[str]:
    """What a term's word is looked up by: itself, and itself without its last letter, marked with a star."""
    key = folded(word)
    return [key, f"{key[:-1]}*"] if len(key) > 3 else [key]


def _keys_of_text(word: str) -> Iterator[str]:
    """Keys of the terms that the word may be a form of, the likeliest first: at most 20, however long it is."""
    key = folded(word)
    clitic = _CLITICS.match(key)
    for one in (key, key[clitic.end() :]) if clitic else (key,):
        for length in range(len(one), max(len(one) - 5, 0), -1):
            yield one[:length]
            if length > 2:
                yield f"{one[:length]}*"


def _is_form(word: str, term: str, language: str) -> bool:
    """Whether a text's word is the term's, or an inflected form of it."""
    if word == term:
        return True
    if term == term.lower():
        word = word.lower()
    if word == term:
        return True
    clitic = _CLITICS.match(word)
    return _is_inflected(word, term, language) or (bool(clitic) and _is_form(word[clitic.end() :], term, language))


def _is_inflected(word: str, term: str, language: str) -> bool:
    """Whether the word is the term's with other letters at its end."""
    length = len(term)
    ending = word[length:]
    if _HANGUL.fullmatch(term):  # particles
        return word.startswith(term) and len(ending) <= 4
    if not term.isalpha() or length < 3 or _UNSPACED.match(term):
        return False
    if ending and _same_letters(word[:length], term):
        if language in _ENDINGS:
            return ending in _ENDINGS[language] or (language == "en" and length > 3 and ending in _VERB_ENDINGS)
        return len(ending) <= (2 if length < 5 else 3)
    if _same_letters(word[: length - 1], term[:-1]) and length > 3:
        ending = word[length - 1 :]
        if language in _SWAPS:
            return (term[-1], ending) in _SWAPS[language]
        return length > 4 and len(ending) <= 3
    return False


def _same_letters(one: str, other: str) -> bool:
    """The same but for accents, as in Haus and Häuser."""
    return one == other or (folded(one) == folded(other) and one[:1].islower() == other[:1].islower())


# ---- in an output


def missing(output: str, terms: Iterable[Term]) -> tuple[Term, ...]:
    """Those of the terms whose translation the output (with marks or without) lacks, in whatever form."""
    text = folded(plain(output)).replace("_", " ")
    compact = re.sub(r"\s+", "", text)
    return tuple(term for term in terms if not _has(text, compact, term[1]))


def _has(text: str, compact: str, translation: str) -> bool:
    wanted = folded(translation).replace("_", " ")
    if not wanted.strip():
        return True
    if _UNSPACED.search(wanted):
        return re.sub(r"\s+", "", wanted).rstrip("ー") in compact
    return _pattern(wanted).search(text) is not None


_BETWEEN = r"\W+(?:\w+\W+)?"
"""Between two words of a term; one other word may come in between."""


@lru_cache(maxsize=4096)
def _pattern(translation: str) -> re.Pattern[str]:
    """Finds a folded translation in any form: longer words by their stem, and inside compounds if it is one word.

    The first of several words is found at the start of a word only, or the search would be quadratic.
    """
    words = re.findall(r"\w+|[^\w\s]", translation)
    parts = [r"\b"] if len(words) > 1 and words[0].isalnum() else []
    for before, word in zip([None, *words], words, strict=False):
        if before is not None:
            parts.append(r"\w*" + _BETWEEN if before.isalnum() and word.isalnum() else r"\s*")
        parts.append(_forms(word))
    return re.compile("".join(parts))


def _forms(word: str) -> str:
    """A pattern for one word, as far as its forms have it in common."""
    if not any(map(str.isalpha, word)):
        return rf"(?<!\d){re.escape(word)}(?!\d)" if word.isdigit() else re.escape(word)
    if _HANGUL.fullmatch(word):
        return re.escape(word)
    if len(word) >= 5 and word.isalpha():
        return re.escape(word[: max(len(word) - 2, 4)])
    clitics = r"\b" + (f"(?:{_CLITICS.pattern})?" if "\u0590" <= word[0] <= "\u06ff" else "")
    return rf"{clitics}{re.escape(word)}" + (r"\w{0,3}\b" if len(word) > 2 else r"\b")
