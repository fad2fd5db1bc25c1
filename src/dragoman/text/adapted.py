"""Adapts a person's translation to a text that differs from its source in one number alone.

That is done where nothing but the digits can differ: the number is the only one, and stands alone, on each side, and both
numbers are of one plural category in both languages. What may follow from how a number is read is left to the model: a suffix
that is joined to it, an article or a particle beside it.
"""

from __future__ import annotations

import re

from dragoman import languages
from wholetext.markup.plurals import plural_category

_NUMBER = re.compile(r"<(?:/?g|x)\d{1,5}/?>|(\d+)")
"""A mark, or a number."""
_MOST_DIGITS = 6  # above there are categories of their own, and separators
_JOINED_BEFORE = re.compile(r"(?:[^\W\d_]['’._:/‐‑-]?|[-‐‑−–+.,_/\\])$")
_JOINED_AFTER = re.compile(r"['’._:/‐‑-]?[^\W\d_]|[‐‑–_/\\]|[.,:]\S")
_AGREES_BEFORE = {
    "en": ("a", "an"),
    "es": ("y", "e", "o", "u"),
    "hu": ("a", "az"),
    "it": (
        "il",
        "lo",
        "la",
        "i",
        "gli",
        "le",
        "al",
        "allo",
        "dal",
        "dallo",
        "del",
        "dello",
        "nel",
        "nello",
        "sul",
        "sullo",
    ),
}
"""Words before a number that depend on how it is read, by language."""
_AGREES_AFTER = {"ko": re.compile(r"[은는이가을를과와으로라였]")}
"""What depends on how the number before it is read: particles."""


def number_of(text: str) -> tuple[str, str, str] | None:
    """Return what is before the text's number, the number, and what is after it; None unless it has exactly one.

    Without leading zeros, and of ASCII's digits.
    """
    found = [one for one in _NUMBER.finditer(text) if one[1]]
    if len(found) != 1 or not found[0][1].isascii() or len(found[0][1]) > _MOST_DIGITS:
        return None
    number = found[0][1]
    if number[0] == "0" and number != "0":
        return None
    return text[: found[0].start()], number, text[found[0].end() :]


def adapted(source: str, target: str, text: str, stored: str, translation: str) -> str | None:
    """Return the translation of a stored text for another one; None unless they differ in one number that can be put in."""
    wanted, own, into = number_of(text), number_of(stored), number_of(translation)
    if wanted is None or own is None or into is None:
        return None
    is_same = (wanted[0], wanted[2]) == (own[0], own[2]) and own[1] == into[1] != wanted[1]
    if not is_same or not _stands_alone(source, *own) or not _stands_alone(target, *into):
        return None
    for language in (source, target):
        category = plural_category(language, int(own[1]))
        if category is None or category != plural_category(language, int(wanted[1])):
            return None
    return f"{into[0]}{wanted[1]}{into[2]}"


def _stands_alone(language: str, before: str, _: str, after: str) -> bool:
    """Whether what is around a number does not depend on it. Letters of scripts without case and spaces may be beside it."""
    language = languages.primary(language)
    joined = _JOINED_BEFORE.search(before), _JOINED_AFTER.match(after)
    if any(found and (_is_cased(found[0]) or not _has_letter(found[0])) for found in joined):
        return False
    words = before.split()
    if words and before[-1:].isspace() and words[-1].lower() in _AGREES_BEFORE.get(language, ()):
        return False
    particle = _AGREES_AFTER.get(language)
    return particle is None or particle.match(after) is None


def _is_cased(text: str) -> bool:
    return text.lower() != text.upper()


def _has_letter(text: str) -> bool:
    return any(letter.isalpha() for letter in text)
