"""Finds outputs that answer a text, or do what it asks for, instead of translating it.

A question is answered, "Write a poem" becomes a poem, "Reply with OK" becomes "OK": such an output is fluent, in the target
language, and of a fitting length. What gives it away is in its form: it asks nothing although its source does, or asks although
its source does not; it has a list, numbers or sentences that its source does not have; it is a part of its source; or no word
of it is a translation of the verb with which its source asks for a text. Only the last two need words, which are data.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from dragoman import languages
from dragoman.text.comparisons import CheckContext, numbers_added, sentence_ends
from wholetext.markup.segments import sentences
from wholetext.markup.spans import without_spans

_MARKS = "?？؟⸮፧՞\u037e"
"""Question marks. The Greek one is, in most texts, a semicolon; the Armenian one stands in the word that is asked for."""
_GREEK_MARKS = f"{_MARKS};"
_QUESTION = re.compile(r"(?<=[\w\s)\]}>%\"'”’»…。])[?？؟⸮፧\u037e](?![\w=])|՞")
"""A question mark after a word: not that of an option (`-?`), of an address or of a regular expression."""
_MAX_AFTER_MARK = 3
"""Letters and digits after a question mark, at most, that are none of another sentence: an access key, a footnote."""
_RIGHT_TO_LEFT = re.compile(r"[\u0590-\u08ff]")
_BRACKETS = re.compile(r"[(（\[][^()（）\[\]]{0,100}[)）\]]")
_SENTENCES = re.compile(r"(?<=[.!?…؟۔।。！？])\s*|\n+")
_HINT = re.compile(r"[:;：；]\s|[(（]|^(?:perhaps|maybe|whether)\b", re.IGNORECASE)
_LABEL = re.compile(r"[\W_]*[A-Za-z\u00c0-\u024f-]+[\W_]*")
_EDGES = " \t\"'“”«»„‚‘’¡([*_"

_ITEM = re.compile(r"^\s*+(?:[-*•·‣–]|\d{1,2}[.)])\s", re.MULTILINE)
_MIN_ITEMS = 2
_FENCE = "```"
_CLAUSE = re.compile(r"[,;:،、，；：–—(]| -")
"""What joins clauses, which a translation may make sentences of."""
_MAX_SENTENCES_ADDED = 1

_MIN_LETTERS = 2
_WORD = re.compile(r"\w+")
_MIN_WORDS = 3
_MAX_QUOTED = 0.6
"""The most that an output of nothing but words of its source has of its length, where a part of it was taken as an order."""


def is_answered(source: str, output: str, context: CheckContext) -> bool:
    """Whether the output seems to answer the source, or to do what it says. Both are without marks."""
    ours, theirs = without_spans(source).strip(), without_spans(output).strip()
    if _QUESTION.search(ours):
        if is_question(ours) and not asks(theirs, context.target_language):
            return True
    elif _QUESTION.search(theirs) and not asks(ours, context.source_language or "en") and not _has_mark(ours):
        return True
    return (
        _has_list(source, output)
        or _has_sentences_added(ours, theirs, context.target_language)
        or _is_quoted(ours, theirs)
        or bool(numbers_added(source, output, context.source_language))
        or is_request_gone(ours, theirs, context)
    )


# ---- questions


def is_question(text: str) -> bool:
    """Whether a text ends by asking its reader, with a question mark.

    A hint such as "not found: is it installed?" does not, nor does a label of one word, such as "Taxable?".
    """
    return _ends_with_question(text, _MARKS) and not _LABEL.fullmatch(text) and not _HINT.search(_last_sentence(text))


def asks(text: str, language: str) -> bool:
    """Whether a text in this language ends with a question mark, or its last sentence asks by its words."""
    if _ends_with_question(text, _GREEK_MARKS if languages.primary(language) == "el" else _MARKS):
        return True
    pattern = _question_words(language)
    return pattern is not None and pattern.search(_last_sentence(text)) is not None


def _has_mark(text: str) -> bool:
    return any(mark in text for mark in _MARKS)


def _ends_with_question(text: str, marks: str) -> bool:
    """Whether nothing but punctuation, brackets and few characters follow the last question mark."""
    at = max(map(text.rfind, marks))
    if at <= 0:
        return at == 0 and _RIGHT_TO_LEFT.search(text) is not None  # written as it looks: the mark first
    return sum(map(str.isalnum, _BRACKETS.sub("", text[at + 1 :]))) <= _MAX_AFTER_MARK


def _last_sentence(text: str) -> str:
    found = [one for one in _SENTENCES.split(text) if any(map(str.isalpha, one))]
    return found[-1].strip(_EDGES) if found else ""


# ---- what the source does not have


def _has_list(source: str, output: str) -> bool:
    """Whether an output has items or a block of code, and its source, of one line, has none."""
    if _FENCE in output and _FENCE not in source:
        return True
    if "\n" not in output.strip() or "\n" in source.strip():
        return False
    return len(_ITEM.findall(output)) >= _MIN_ITEMS and not _ITEM.search(source)


def _has_sentences_added(source: str, output: str, target: str) -> bool:
    """Whether a source of one sentence has become several: of more than two, or of a question without clauses any."""
    if sentence_ends(source) != 1 or not sentence_ends(source[-2:]):
        return False
    if sentence_ends(output) < 2:
        return False
    added = len(sentences(output, target)) - 1
    if added > _MAX_SENTENCES_ADDED:
        return True
    return added > 0 and _ends_with_question(source, _MARKS) and not _CLAUSE.search(source)


def _is_quoted(source: str, output: str) -> bool:
    """Whether an output has no words but those of its source, and far fewer: "OK" of "Reply with OK"."""
    theirs = _WORD.findall(output.casefold())
    if not theirs or len(output) > _MAX_QUOTED * len(source) or not any(map(str.isalpha, output)):
        return False
    ours = _WORD.findall(source.casefold())
    return len(ours) >= _MIN_WORDS and set(theirs) <= set(ours)


# ---- requests


def is_request_gone(source: str, output: str, context: CheckContext) -> bool:
    """Whether the source asks its reader for a text, and no word of the output says so. Only of requests in English."""
    if context.source_language is None or languages.primary(context.source_language) != "en":
        return False
    if sum(map(str.isalpha, output)) < _MIN_LETTERS:
        return False
    for found in () if _ends_with_question(source, _MARKS) else _requests().finditer(source):
        verb = _verb(found.lastgroup or "", context.target_language)
        if verb is not None and not (verb.search(output) or verb.search(_unaccented(output))):
            return True
    return False


_POLITE = (
    r"(?:(?:please|now|then|next|first|just|kindly|and|finally|also|only|always"
    r"|(?:i (?:want|would like) you|you (?:have|need|are)) to"
    r"|(?:can|could|would|will) you|you (?:must|should|can|will))[ ,]+){0,4}"
)
_OBJECT = (
    r"(?:an?|the|this|these|that|those|all|any|some|each|every|both|your|my|our|me|us|him|her|them|it|its|his|their|only|"
    r"one|two|three|four|five|six|seven|eight|nine|ten|\d+|how|what|why|who|which|whether|when|where|if|with|to|in|from|for|as|"
    r"about|nothing|something|out|up|down|after|before|like|briefly|please|more|also)\b"
)


@cache
def _table(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("dragoman.text").joinpath(f"data/{name}.toml").read_text(encoding="utf-8"))


@cache
def _requests() -> re.Pattern[str]:
    """A pattern for the beginning of a sentence that asks for a text in English; its group is that of the verb."""
    groups: list[str] = []
    for group, words in _table("requests").items():
        verbs = rf"(?:{words['en']})\b(?! *(?:[:=-]|$))" if words["en"] else ""
        nouns = words.get("en_with_object", "")
        before_object = rf"(?:{nouns}) +(?:{_OBJECT}|[\"“'])" if nouns else ""
        groups.append(f"(?P<{group}>{'|'.join(filter(None, (verbs, before_object)))})")
    return re.compile(rf"(?:^|[.!?:]\s+|\n\s*\n\s*){_POLITE}(?:{'|'.join(groups)})", re.IGNORECASE)


_MIN_INNER_CHARACTERS = 4
"""A beginning of so many letters may stand within a word, after a prefix."""


@lru_cache(maxsize=4096)
def _verb(group: str, target: str) -> re.Pattern[str] | None:
    """A pattern for words that translate a group of verbs."""
    stems: str | None = _table("requests")[group].get(languages.primary(target))
    if stems is None:
        return None
    if not languages.uses_spaces(target):
        return re.compile(stems)
    parts = stems.split("|")
    short = "|".join(stem for stem in parts if len(stem) < _MIN_INNER_CHARACTERS)
    inner = [stem for stem in parts if len(stem) >= _MIN_INNER_CHARACTERS]
    return re.compile("|".join([*([rf"(?<![^\W_])(?:{short})"] if short else []), *inner]), re.IGNORECASE)


@lru_cache(maxsize=256)
def _question_words(target: str) -> re.Pattern[str] | None:
    """A pattern for a sentence that asks without a question mark."""
    pattern: str | None = _table("questions").get(languages.primary(target))
    return None if pattern is None else re.compile(pattern, re.IGNORECASE)


def _unaccented(text: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFD", text) if not unicodedata.combining(char))
