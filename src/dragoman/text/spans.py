"""What a translation must carry over letter for letter: placeholders, tags, URLs and e-mail addresses.

Finds them; knows nothing of shielding them, of cutting around them or of what to say when one is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# Every part is bounded or anchored, so that a scan stays linear on hostile text.
_URL = r"(?:\b(?:https?|ftp)://|\bwww\.)[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]{1,2048}"
_EMAIL = r"(?<![\w.+-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}"
_TAG = r"</?[A-Za-z][\w.-]{0,63}(?::[\w.-]{1,63})?(?:\s[^<>]{0,400})?/?>"
_BRACES = r"\{\{[^{}\n]{1,64}\}\}|\$\{[^{}\n]{1,64}\}|\{[!-z|~]{0,64}\}"
_PRINTF = (
    r"(?<![\d%])%(?:\d{1,2}\$|\(\w{1,64}\))?[-+#0]{0,3}\d{0,3}(?:\.\d{1,3})?(?:hh|h|ll|l|z)?[sdiufFgGxXc@](?![A-Za-z])"
)

FIXED = re.compile("|".join((_URL, _EMAIL, _TAG, _BRACES, _PRINTF)), re.ASCII)
"""One span that must survive, as it may stand in a text; `spans` gives URLs without the sentence's punctuation."""


def spans(text: str) -> Iterator[tuple[int, int]]:
    """The start and end of each fixed span, in order and not overlapping."""
    for found in FIXED.finditer(text):
        yield found.start(), found.start() + len(_without_punctuation(found.group()))


def without_spans(text: str) -> str:
    """The text with a space in place of each fixed span."""
    parts: list[str] = []
    end = 0
    for start, stop in spans(text):
        parts += (text[end:start], " ")
        end = stop
    return "".join((*parts, text[end:]))


def has_letters(text: str) -> bool:
    """Whether there is anything to translate: a letter of any script outside the fixed spans."""
    if not any(map(str.isalpha, text)):
        return False
    return any(map(str.isalpha, without_spans(text)))


def _without_punctuation(span: str) -> str:
    """A URL ends before the sentence's own punctuation, and before a bracket that was opened outside it."""
    if span[0] in "<{$%":
        return span
    while span[-1] in ".,;:!?'*)]":
        if (span[-1] == ")" and span.count("(") >= span.count(")")) or (
            span[-1] == "]" and span.count("[") >= span.count("]")
        ):
            break
        span = span[:-1]
    return span
