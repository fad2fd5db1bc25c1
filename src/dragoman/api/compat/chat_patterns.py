"""Messages of programs as patterns: literal text with variables, matched in time proportional to the message.

A pattern is the whole message. Its variables: `{to}` and `{from}` are languages, `{text}` is what is to be translated,
`{terms}` is a glossary and `{pairs}` one whose lines all have an arrow, `{any}` and `{line}` (up to the end of a line) are not
used, and every other one is a word. In a line of a glossary, `{source}` and `{translation}` are a term and its translation.
`{=a|b|}` is one of several literals. A blank stands for blanks, and a line break for white space with at least one. Case is
ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dragoman.languages import MAX_TAG_CHARACTERS

_PART = re.compile(r"\{(\w+)\}|\{=([^{}]*)\}")
_MAX_ANY = (
    20_000  # characters of what a pattern has besides languages and text, such as a page's summary, before the text
)
_MAX_AFTER = 5_000  # and of all that stands after it
_MAX_LINE = 300
_MAX_BLANK = 80  # characters of white space that stand for a blank or a line break
_LANGUAGE = rf"[^\n]{{0,{MAX_TAG_CHARACTERS}}}?"
_LONG = rf"[\s\S]{{0,{_MAX_ANY}}}?"
_SHORT = r"[^\n]{1,200}?"
_VARIABLES = {
    "to": _LANGUAGE,
    "from": _LANGUAGE,
    "any": _LONG,
    "terms": _LONG,
    "line": rf"[^\n]{{0,{_MAX_LINE}}}",
    "source": _SHORT,
    "translation": _SHORT,
    "pairs": r"(?:[^\n]{1,200}->[^\n]{0,300}\n){1,1000}+",
}
_WORD = r"\w{1,40}"
_STRONG = 40  # bytes of literal text from which no text of a user has it all by chance


@dataclass(frozen=True, slots=True)
class Pattern:
    """A message as a program writes it."""

    before: re.Pattern[str]
    after: re.Pattern[str] | None  # what follows the text; None: nothing does, or there is no text
    has_text: bool
    is_strong: bool  # so that it is an instruction even with a language that is none
    starts: frozenset[str]  # the characters, in small letters, with which such messages begin; empty: any

    @classmethod
    def of(cls, pattern: str) -> Pattern:
        """Raises `ValueError` for one in which a variable follows the text at once."""
        before, has_text, after = pattern.strip().partition("{text}")
        if after[:1] == "{":
            raise ValueError(f"nothing tells where the text ends: {pattern[:60]!r}")
        literal = len(re.sub(r"\s", "", _PART.sub("", pattern)).encode())
        return cls(
            re.compile(_regex(before) + ("" if has_text else "$"), re.I),
            re.compile(_regex(after) + "$", re.I) if after else None,
            bool(has_text),
            literal >= _STRONG,
            frozenset(_starts(pattern.strip())),
        )

    def may_start(self, character: str) -> bool:
        """Whether a message that begins with this character, in small letters, may have this form."""
        return not self.starts or character in self.starts

    def match(self, message: str) -> Mapping[str, str] | None:
        """The values of the variables; None where the message, without white space around it, does not have this form.

        A line break after it may be left: an instruction whose text is empty ends with one.
        """
        head = self.before.match(message)
        if head is None:
            return None
        values = head.groupdict()
        if not self.has_text:
            return _stripped(values)
        if self.after is None:
            return _stripped(values) | {"text": message[head.end() :].rstrip()}
        for at in range(len(message), max(head.end(), len(message) - _MAX_AFTER) - 1, -1):
            if (tail := self.after.match(message, at)) is not None:
                named = tail.groupdict()
                is_same = all(values.get(name, value) == value for name, value in named.items())
                return _stripped(values | named) | {"text": message[head.end() : at].rstrip()} if is_same else None
        return None


def _starts(pattern: str) -> set[str]:
    part = _PART.match(pattern)
    if part is None:
        return {pattern[:1].lower()}
    if part[2] is None:
        return set()
    rest = _starts(pattern[part.end() :])
    return {start for choice in part[2].split("|") for start in ({choice[0].lower()} if choice.strip() else rest)}


def _stripped(values: Mapping[str, str]) -> dict[str, str]:
    return {name: value.strip() for name, value in values.items()}


def _regex(pattern: str) -> str:
    """The regular expression of a part of a pattern.

    What is before a literal ends where the literal is found first: the group of both is atomic, so nothing is tried again.
    """
    parts = _PART.split(pattern)
    made, seen = [_literal(parts[0])], set[str]()
    for name, choices, literal in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        if choices is not None:
            made.append(f"(?:{'|'.join(map(_literal, choices.split('|')))})" + _literal(literal))
        elif name in seen:
            made.append(f"(?P={name})" + _literal(literal))
        else:
            value = _VARIABLES.get(name, _WORD)
            group = f"(?:{value})" if name in ("any", "line") else f"(?P<{name}>{value})"
            seen |= {name} - {"any", "line"}
            is_atomic = name != "line" and bool(literal.strip())
            made.append(f"(?>{group}{_literal(literal)})" if is_atomic else group + _literal(literal))
    return "".join(made)


def _literal(literal: str) -> str:
    def blank(found: str) -> str:
        return (
            rf"[^\S\n]{{0,{_MAX_BLANK}}}+\n\s{{0,{_MAX_BLANK}}}+" if "\n" in found else rf"[^\S\n]{{1,{_MAX_BLANK}}}+"
        )

    return "".join(blank(part) if part.isspace() else re.escape(part) for part in re.split(r"(\s+)", literal) if part)
