"""The ends of a text within a message: lines of signs, labels, quotes, notes and context around it are not its own."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import islice

from dragoman.api.compat.chat_labels import (
    FIRST_LABEL,
    HEAD,
    LABELS,
    LAST_LABEL,
    MAX_COLONS,
    TAIL,
    has_inner_label,
    label_kind,
    said,
    spaced,
)
from dragoman.api.compat.chat_languages import words

_END_LINE = re.compile(r"\n[^\w\n]{0,10}END(?: OF)? [A-Z_ ]{3,40}[^\w\n]{0,10}\s*\Z")
_END_BLOCKS = re.compile(r"(?:\n\s*<(?P<block>\w{3,40})>(?:(?!</?(?P=block)>)[\s\S]){0,3000}</(?P=block)>\s*){1,4}\Z")
_WHOLE_QUOTE = re.compile(r"\s*[\"“「『«„`]([^\"“”「」『』«»„`]{1,20000})[\"”」』»“`]\s*")


@dataclass(frozen=True, slots=True)
class SplitMessage:
    """A message as instruction and text. `is_marked`: it has marks of both ends (a fence, quotes, a tag)."""

    before: str
    text: str
    after: str = ""
    is_marked: bool = False

    @property
    def about(self) -> str:
        """The instruction."""
        around = " … " if self.is_marked and self.after.strip() else "\n\n"
        return f"{self.before[:HEAD]}{around}{self.after[-TAIL:]}"


def trimmed(part: SplitMessage) -> SplitMessage:
    """Without what stands around the text too: lines of signs, labels, a last note, quotes, context behind it."""
    if part.is_marked:
        first = part.text.lstrip()[:200].partition("\n")[0]
        inner = _INNER.search(part.text, 0, HEAD) if ":" in first and said("context", first) else None
        part = replace(part, text=part.text[inner.end() :]) if inner is not None else part
        return _without_frame(part)
    for step in (without_end, _without_frame, _without_label, without_end, _without_frame, without_quotes):
        part = step(part)
    return part


def without_end(part: SplitMessage) -> SplitMessage:
    """Without a label of the answer, a last note, or context behind the text."""
    text, after = part.text, part.after
    if (following := _next_label(part.before, text)) is not None:
        text, after = text[:following].rstrip(), text[following:] + after
    for ending in (_END_LINE, _END_BLOCKS, LAST_LABEL, words("end_note"), _LAST_RULES, LAST_LABEL):
        tail = text[-TAIL:]
        found = ending.search(tail)
        if found is None or (ending is _END_BLOCKS and not said("context", spaced(found["block"]))):
            continue
        if ending is _LAST_RULES and not _is_of_answer(found):
            continue
        if ending is LAST_LABEL and label_kind(found["name"]) not in ("answer", "language"):
            continue
        at = max(len(text) - TAIL, 0) + found.start()
        text, after = text[:at].rstrip(), text[at:] + after
    text = text.rstrip() if text.endswith("\n") else text
    return part if text == part.text else replace(part, text=text, after=after)


def _is_of_answer(found: re.Match[str]) -> bool:
    """Whether a last list, or an example, says what the answer is: texts end with rules, notes and requirements too."""
    if label_kind(found["name"]) not in ("answer", "context"):
        return False
    if found["example"] is not None:
        return said("asks", found["example"])
    lines = (re.sub(r"^[\s*•\d.)、-]+", "\n", line) for line in found[0].splitlines()[1:])
    return any(
        said("solely", line) and (said("end_note", line) or (said("asks", line) and said("answered", line)))
        for line in lines
    )


def _next_label(before: str, text: str) -> int | None:
    """Where the next label begins that is written as the one of the text is, in capitals or with signs."""
    label = LABELS.search(before, before.rstrip().rfind("\n") + 1)
    if label is None or not (label["style"] or label["name"].isupper()):
        return None
    for one in islice(LABELS.finditer(text, 0, HEAD), MAX_COLONS):
        is_same = one["style"] == label["style"] and one["name"].isupper() == label["name"].isupper()
        is_kind = label_kind(one["name"]) is not None or spaced(one["name"]).endswith(f" {label['name'].split()[-1]}")
        if is_same and is_kind:
            return one.start()
    return None


def _without_label(part: SplitMessage) -> SplitMessage:
    """Without a label before the text."""
    label = FIRST_LABEL.match(part.text)
    if label is None or has_inner_label(part.text[label.end() :]):
        return part
    kind = label_kind(label["name"])
    if kind == "text" or (kind == "language" and part.after.strip()):
        return replace(part, before=part.before + label[0], text=part.text[label.end() :].lstrip("\r\n"))
    return part


def _without_frame(part: SplitMessage) -> SplitMessage:
    """Without signs, or lines of them, around the text, or such a line before it."""
    if (framed := FRAMED.fullmatch(part.text)) is not None:
        return replace(part, text=framed["text"].strip(), is_marked=True)
    first = _SIGNS.match(part.text)
    if first is None or _FRONT_MATTER.match(part.text) is not None:
        return part
    signs, name, text = first["signs"], first["name"], part.text[first.end() :]
    if len(signs) < 2 if name is None else not (said("text", name) or _BEGINS.match(name) or said("asks", name)):
        return part
    closing = rf"(?:{re.escape(signs.translate(_MIRRORED)[::-1])}|{re.escape(signs)})"
    rest = r"[^\n]{0,60}" if name is not None else ""
    last = re.search(rf"(?:\n|\A)[ \t]*{closing}{rest}\s*\Z", text[-200:])
    is_begin = len(signs) > 2 and part.before.strip() if name is None else name.isupper() or signs in "[【"
    if last is None and (part.is_marked or not is_begin):
        return part
    at = max(len(text) - 200, 0) + last.start() if last is not None else len(text)
    return replace(part, before=part.before + first[0], text=text[:at].strip("\r\n"), after=text[at:] + part.after)


_MIRRORED = str.maketrans("<>[](){}【】", "><][)(}{】【")
FRAMED = re.compile(r"\s*<{2,5}(?P<text>[^<>]{1,20000})>{2,5}\s*")
_SIGNS = re.compile(
    r"\s*(?P<signs>[^\w\s\"'`“«「.!?]{1,200})[ \t]*+(?:(?P<name>[^\W\d][\w ]{2,40}?)[ \t]*+[^\w\s]{1,40})?[ \t]*+\n"
)
_FRONT_MATTER = re.compile(r"\s*---[ \t]*\n(?:[\w-]+:[^\n]*\n){1,50}---")
_BEGINS = re.compile(r"(?:begin|start)\b", re.IGNORECASE)
_LAST_RULES = re.compile(
    r"\n[ \t#*\[]{0,8}(?P<name>[^\s:：][^\n:：]{1,59}?)[ \t*\]]*+[:：]"
    r"(?:[ \t]*(?:\n[ \t]*)?(?P<example>[\[{][^\n]*+)|[ \t*]*(?:\n[ \t]*(?:[-*•]|\d{1,2}[.)、])[^\n]*+)++)\s*\Z"
)
"""A label with a list of rules, or an example in JSON, to the end."""
_INNER = re.compile(
    r"^(?:texts?|[\w ]{0,20}(?:text|line|sentence)) to (?:be )?translated?:[ \t]*", re.IGNORECASE | re.MULTILINE
)


def without_quotes(part: SplitMessage) -> SplitMessage:
    """Without the quotation marks around the whole text."""
    found = _WHOLE_QUOTE.fullmatch(part.text)
    return replace(part, text=found[1], is_marked=True) if found is not None else part
