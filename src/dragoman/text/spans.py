"""Fixed spans: what a translation must copy exactly, such as placeholders, tags, URLs and e-mail addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Every part is bounded or anchored, so that a scan is linear for any text.
_URL = r"(?:\b(?:https?|ftp)://|\bwww\.)[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]{1,2048}"
_EMAIL = r"(?<![\w.+-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}"
_TAG = r"</?[A-Za-z][\w.-]{0,63}(?::[\w.-]{1,63})?(?:\s[^<>]{0,400})?/?>"
_BRACES = r"\{\{[^{}\n]{1,64}\}\}|\$\{[^{}\n]{1,64}\}|\{[!-z|~]{0,64}\}"
_PRINTF = (
    r"(?<![\d%])%(?:\d{1,2}\$|\(\w{1,64}\))?[-+#0]{0,3}\d{0,3}(?:\.\d{1,3})?(?:hh|h|ll|l|z)?[sdiufFgGxXc@](?![A-Za-z])"
)
_FIXED = re.compile("|".join((_URL, _EMAIL, _TAG, _BRACES, _PRINTF)), re.ASCII)

MAX_SPAN_CHARACTERS = 2100

_SIGNS = ("{", "<", "%", "@", "://", "www.")
"""Every span has one of them. Most texts have none, and need no scan."""


def spans(text: str) -> Iterator[tuple[int, int]]:
    """The start and end of each fixed span, in order and not overlapping."""
    if not any(sign in text for sign in _SIGNS):
        return
    for found in _FIXED.finditer(text):
        yield found.start(), _end_of_span(text, found.start(), found.end())


def without_spans(text: str) -> str:
    """The text with a space in place of each fixed span."""
    return " ".join(_between_spans(text))


def has_letters(text: str) -> bool:
    """Whether there is something to translate: a letter of any script outside of the fixed spans."""
    if not any(map(str.isalpha, text)):
        return False
    return any(any(map(str.isalpha, part)) for part in _between_spans(text))


def _between_spans(text: str) -> Iterator[str]:
    end = 0
    for start, stop in spans(text):
        yield text[end:start]
        end = stop
    yield text[end:]


def _end_of_span(text: str, start: int, end: int) -> int:
    """A URL ends before the sentence's punctuation, and before a closing bracket that is not opened in it."""
    if text[start] in "<{$%":
        return end
    excess = {")": _excess(text, "()", start, end), "]": _excess(text, "[]", start, end)}
    while (last := text[end - 1]) in ".,;:!?'*)]":
        if last in excess:
            if excess[last] <= 0:
                break
            excess[last] -= 1
        end -= 1
    return end


def _excess(text: str, brackets: str, start: int, end: int) -> int:
    """How many more closing than opening brackets there are."""
    opening, closing = brackets
    return text.count(closing, start, end) - text.count(opening, start, end)
