"""Sentences of a text of one line, by sentencex, held to what we need of it: nothing lost, no panic, linear time.

sentencex 1.0 raises on lone surrogates, panics on some white space after an initial, loses characters around line
breaks, and is quadratic in the length of a Chinese, Japanese or quotation-ridden text. So it sees a copy of equal
length that is free of the first three, a window at a time. Knows nothing of budgets.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import cast

import sentencex  # pyright: ignore[reportMissingTypeStubs]

from dragoman import languages

_sentencex = cast(
    "Callable[[str, str], list[str]]",
    sentencex.segment,  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
)
_WINDOW_CHARACTERS = 2048
_ODD_SPACE = re.compile(r"[^\S ]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def sentences(text: str, language: str | None) -> list[str]:
    """The sentences, each with the white space after it; joined they are `text`. English's rules serve the unknown."""
    plain = _SURROGATE.sub("\ufffd", _ODD_SPACE.sub(" ", text))
    tag = languages.primary(language) if language else "en"
    ends = [0]
    at = 0
    while at < len(plain):
        window = plain[at : at + _WINDOW_CHARACTERS]
        parts = _segment(tag, window)
        if at + len(window) < len(plain):
            parts.pop()  # its end may lie beyond the window
        start = at
        for part in parts:
            at += len(part)
            ends.append(at)
        if at == start:
            at += len(window)  # a sentence longer than the window goes on in the next one
    if ends[-1] < len(text):
        ends.append(len(text))
    return [text[start:end] for start, end in pairwise(ends) if start < end]


def _segment(tag: str, window: str) -> list[str]:
    try:
        parts = _sentencex(tag, window)
    except BaseException as error:
        # A panic in Rust is no Exception in Python, so that it would pass every handler of a server.
        if type(error).__name__ != "PanicException":
            raise
        return [window]
    return parts if "".join(parts) == window else [window]
