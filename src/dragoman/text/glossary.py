"""Finds the terms of a glossary that occur in a text, and those whose translation an output lacks.

Inflected words are found by rules about endings, without a dictionary: `server` in "servers", `city` in "cities", `Haus` in
"Häuser", `книга` in "книгами". A false match in a source gives the model a term that it does not need; a missed match in
an output is a false warning. Therefore endings in sources must be listed for the language, if it has a list, and outputs
are searched more tolerantly.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from wholetext.markup.marks import MARK, plain

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
"""Endings that may follow the whole word, for languages with few of them; for others any letters may."""
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
"""A word's last letter, and what may replace it, for some languages; for others any letters may."""


def folded(text: str) -> str:
    """Return the word in lower case, without accents and in normal width."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKC", text).casefold()
    letters = (char for char in unicodedata.normalize("NFD", text) if not "\u0300" <= char <= "\u036f")
    return unicodedata.normalize("NFC", "".join(letters))


# ---- in a source


class _Node:
    """A node in the tree of terms. `words`: the next words by lookup key; `entry`: the term that ends at this node."""

    __slots__ = ("entry", "words")

    def __init__(self) -> None:
        self.words: dict[str, dict[str, _Node]] | None = None  # most places have none: half of the memory
        self.entry: Term | None = None

    def after(self, word: str) -> _Node:
        """Return the node for the next word of a term, and create it if necessary."""
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

    Building it for 100,000 terms takes a second: do it once for many texts, and not on the event loop.
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
        """Return each term that occurs in a text, with or without marks, in the text's order; of overlapping ones the longest.

        A term in lower case is found in any case; another one in its own. Linear in the text.
        """
        words = _TOKEN.findall(unicodedata.normalize("NFC", plain(text)))
        return tuple(dict.fromkeys(entry for _, _, entry in self._find(words)))

    def spans(self, text: str, *, any_case: bool = False) -> list[tuple[int, int, str]]:
        """Return start, end and translation of each term in a text, in order; nothing for a text that is not in NFC.

        `any_case`: ignore the case of all terms, as for a text that was in capitals.
        """
        if not unicodedata.is_normalized("NFC", text):
            return []
        tokens = [found.span() for found in _TOKEN.finditer(MARK.sub(lambda mark: " " * len(mark[0]), text))]
        words = [text[start:stop] for start, stop in tokens]
        return [
            (tokens[first][0], tokens[last][1], translation)
            for first, last, (_, translation) in self._find(words, any_case)
        ]

    def _find(self, words: list[str], any_case: bool = False) -> Iterator[tuple[int, int, Term]]:
        """Yield the first and last word of each term, and the term."""
        at = 0
        while at < len(words):
            entry, length = self._longest(words, at, any_case)
            if entry is not None:
                yield at, at + length - 1, entry
            at += length

    def _longest(self, words: list[str], start: int, any_case: bool) -> tuple[Term | None, int]:
        """Return the longest term that begins at a word, with its number of words; (None, 1) if there is none."""
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
        """Return nodes for the words of which `word` is a form: the same word first, then other case, then inflected."""
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
    """Return the lookup keys of a term's word: the word, and the word without its last letter and with a star."""
    key = folded(word)
    return [key, f"{key[:-1]}*"] if len(key) > 3 else [key]


def _keys_of_text(word: str) -> Iterator[str]:
    """Return keys of the words of which this may be a form, the likeliest first: at most 20 for any length."""
    key = folded(word)
    clitic = _CLITICS.match(key)
    for one in (key, key[clitic.end() :]) if clitic else (key,):
        for length in range(len(one), max(len(one) - 5, 0), -1):
            yield one[:length]
            if length > 2:
                yield f"{one[:length]}*"


def _is_form(word: str, term: str, language: str) -> bool:
    """Whether a word of a text is the term's word or an inflected form of it."""
    if word == term:
        return True
    if term == term.lower():
        word = word.lower()
    if word == term:
        return True
    clitic = _CLITICS.match(word)
    return _is_inflected(word, term, language) or (bool(clitic) and _is_form(word[clitic.end() :], term, language))


def _is_inflected(word: str, term: str, language: str) -> bool:
    """Whether the word is the term's word with another ending."""
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
    """Whether two letters are equal without their accents, as in Haus and Häuser."""
    return one == other or (folded(one) == folded(other) and one[:1].islower() == other[:1].islower())


# ---- in an output


def missing(output: str, terms: Iterable[Term]) -> tuple[Term, ...]:
    """Return the terms whose translation does not occur in the output, in any form. The output may have marks."""
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
"""A pattern for the space between two words of a term, where one other word may be."""


@lru_cache(maxsize=4096)
def _pattern(translation: str) -> re.Pattern[str]:
    """Return a pattern for a folded translation: longer words by their stem, a single word also within compounds.

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
    """Return a pattern for the part of a word that its forms have in common."""
    if not any(map(str.isalpha, word)):
        return rf"(?<!\d){re.escape(word)}(?!\d)" if word.isdigit() else re.escape(word)
    if _HANGUL.fullmatch(word):
        return re.escape(word)
    if len(word) >= 5 and word.isalpha():
        return re.escape(word[: max(len(word) - 2, 4)])
    clitics = r"\b" + (f"(?:{_CLITICS.pattern})?" if "\u0590" <= word[0] <= "\u06ff" else "")
    return rf"{clitics}{re.escape(word)}" + (r"\w{0,3}\b" if len(word) > 2 else r"\b")
