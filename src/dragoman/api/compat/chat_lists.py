"""Messages that are lists in other forms than JSON and YAML: texts between separators, in elements, behind numbers, times or
keys, or in lines that an instruction counts."""

from __future__ import annotations

import re
from itertools import islice

from dragoman.api.compat.chat_json import SENTENCE, spliced
from dragoman.api.compat.chat_languages import keys, words
from dragoman.api.compat.chat_outline import Outline, between, outlined, plain, wrapped
from dragoman.api.compat.chat_text import HTML, named_lines
from dragoman.api.compat.chat_yaml import as_yaml
from dragoman.errors import UnclearPrompt
from dragoman.types import Translation

_TAGGED = re.compile(
    r"<(?P<name>[A-Za-z][\w-]{0,20})(?P<id>[^<>\n]{0,60})>(?P<text>(?:(?!</?(?P=name)\b)[\s\S]){0,20000}?)</(?P=name)>\s*"
)
_SHOWN_ELEMENT = re.compile(r"<([A-Za-z]\w{0,20})(?: [^<>\n]{0,60})?>[^<>\n]{1,60}</\1>")
_PAIRED = re.compile(
    r"(?P<left>[^\w\s/\"'`]{1,3})(?P<name>\d{1,9})(?P<right>[^\w\s/\"'`]{1,3})(?P<text>[\s\S]{0,20000}?)(?P=left)/(?P=name)(?P=right)\s*"
)
_BOUNDED = re.compile(
    r"(?P<head>\S{2,60}?_)(?:BEGIN|START)(?P<tail>_{0,6}[^\w\s]{0,6})(?P<text>[\s\S]{0,20000}?)(?P=head)(?:END|STOP)(?P=tail)\s*"
)
_TIMED = re.compile(r"(?:\d{1,2}:)?\d{1,2}:\d{2}[.,]\d{1,3}\s*-->\s*[^\n]*\n")
_COUNTED = re.compile(r"\bnumber|\blines?\b|\bindex|\bids?\b|行|编号|番号|번호", re.IGNORECASE)
_ANSWER = re.compile(r"\b(?:translat(?:ions?|ed)|outputs?|answers?|return|respon\w+)\b", re.IGNORECASE)
_KEYS_STAY = re.compile(
    r"\bvalues?\b[\s\S]{0,200}\bkeys?\b|\bkeys?\b[\s\S]{0,200}\bvalues?\b|\.properties\b|\.env\b", re.IGNORECASE
)
_KEY_LINE = re.compile(r"^[ \t]*[\w.-]{1,80}[ \t]*(?P<sep>[=:])[ \t]*(?=[^\s])", re.MULTILINE)
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_NEGATED = re.compile(r"\b(?:without|not|no|never|don't)\b", re.IGNORECASE)


def _one_line(translation: Translation) -> str:
    return " ".join(translation.text.splitlines())


def read(message: str, about: str, most: int) -> Outline | None:
    """The answer to a list of another form; None: the message is none. Raises `UnclearPrompt`."""
    named = (mark for one in words("separator").finditer(about) if (mark := _mark(one)) in message)
    lines = named_lines(message, about)
    if len(lines) > 1:
        raise UnclearPrompt(f"what is between {lines[0]!r} and {lines[1]!r} is not clear", param="messages")
    if (separator := next(iter((*lines, *named)), None)) is not None:
        heads = [re.compile("").match(message, 0), *islice(re.finditer(re.escape(separator), message), most + 1)]
        return outlined(message, between([one for one in heads if one is not None], len(message)))
    for pattern in (_TAGGED, _PAIRED, _BOUNDED):
        if (spans := _elements(message, pattern, most)) is not None:
            return _renamed(outlined(message, spans), about)
    if (timed := _timed(message, most)) is not None:
        return timed
    found = _numbered(message, about, most) or _keyed(message, about, most) or _each_line(message, about, most)
    return _apart(found, about) if found is not None and len(found.texts) > 1 else found


def _mark(separator: re.Match[str]) -> str:
    """The signs that an instruction calls a separator."""
    return next(
        one for name in ("mark", "zh", "before", "kept", "left", "shown", "by", "around") if (one := separator[name])
    )


def _apart(found: Outline, about: str) -> Outline:
    """The list with the separator between its lines that an instruction wants in the answer.

    Raises `UnclearPrompt` for one that is not on a line of its own.
    """
    for one in SENTENCE.finditer(about):
        named = words("separator").search(one[0])
        if named is None or _ANSWER.search(one[0]) is None or words("not").search(one[0]) is not None:
            continue
        mark = _mark(named).strip("*`") or named[0]
        if re.search(rf"^[ \t]*{re.escape(mark)}[ \t]*$", about, re.MULTILINE) is None and "line" not in one[0].lower():
            raise UnclearPrompt(f"where {mark!r} is wanted in the answer is not clear", param="messages")
        for literals in found.literals[1:-1]:
            literals[:] = ["".join(literals).replace("\n", f"\n{mark}\n", 1)]
    return found


def _keyed(message: str, about: str, most: int) -> Outline | None:
    """Lines of keys and values, where an instruction says that the keys stay."""
    if _KEYS_STAY.search(about) is None:
        return None
    heads = list(islice(_KEY_LINE.finditer(message), most + 1))
    lines = [line for line in message.splitlines() if line.strip()]
    if not heads or len(heads) != len(lines):
        return None
    ends = [message.find("\n", head.end()) for head in heads]
    spans = [(head.end(), end if end >= 0 else len(message)) for head, end in zip(heads, ends, strict=True)]
    is_quoted = all(message[start:end].rstrip().endswith('"') and message[start] == '"' for start, end in spans)
    if is_quoted:
        return spliced(message, None)
    if any(message[start:end].strip()[:1] in ('"', "'", "|", ">", "[", "{") for start, end in spans):
        raise UnclearPrompt("the values of the message's keys are not plain text", param="messages")
    is_yaml = all(head["sep"] == ":" for head in heads)
    return outlined(message, spans, (lambda one: as_yaml(one.text)) if is_yaml else _one_line)


def _elements(message: str, pattern: re.Pattern[str], most: int) -> list[tuple[int, int]] | None:
    """The texts of elements of one name, each with an id, that are the whole message."""
    spans, names, at = list[tuple[int, int]](), set[str](), len(message) - len(message.lstrip())
    while at < len(message) and len(spans) <= most:
        found = pattern.match(message, at)
        if found is None:
            return None
        groups = found.groupdict()
        names.add(re.sub(r"\d+", "", groups.get("name") or groups["head"]))
        has_id = groups.get("id") is None or groups["id"].strip() or any(map(str.isdigit, groups["name"]))
        if (
            len(names) > 1
            or (groups.get("name") or "").lower() in HTML
            or not (has_id or next(iter(names)).lower() in ("text", "item", "segment", "line", "s", "t"))
        ):
            return None
        spans.append(found.span("text"))
        at = found.end()
    return spans or None


def _renamed(made: Outline, about: str) -> Outline:
    """The elements under the name that the instruction has for translated ones, or shows for those of the answer."""
    name = re.search(r"<(\w*[^\W\d])[ >]", "".join(made.literals[0]))
    shown = (
        found
        for one in SENTENCE.finditer(about)
        if words("answered").search(one[0])
        for found in _SHOWN_ELEMENT.finditer(one[0])
    )
    named = [*(found[1] for found in shown), *re.findall(r"<(\w*translat\w*)[ >]", about)]
    wanted = [one for one in named if name is not None and one != name[1] and one.lower() not in HTML]
    if name is not None and wanted and f"<{name[1]}" in about:
        made.literals = [
            [re.sub(rf"(</?){name[1]}\b", rf"\1{wanted[-1]}", one) for one in parts] for parts in made.literals
        ]
    return made


def _timed(message: str, most: int) -> Outline | None:
    """Subtitles, whose numbers and times stay."""
    times = list(islice(_TIMED.finditer(message), most + 1)) if "-->" in message[:2_000] else []
    if not times or message[: times[0].start()].replace("WEBVTT", "").strip(" \t\r\n0123456789"):
        return None
    ends = [len(message[: one.start()].rstrip().rstrip("0123456789")) for one in times[1:]]
    return outlined(message, [(one.end(), end) for one, end in zip(times, [*ends, len(message)], strict=True)])


def _numbered(message: str, about: str, most: int) -> Outline | None:
    """Lines that each begin with a number of one form; a line without one belongs to the item before it."""
    first = words("numbered").match(message)
    if first is None or not (
        first["sep"].strip() or "\t" in first["sep"] or first["right"] or (first["left"] and _COUNTED.search(about))
    ):
        return None
    around = [re.escape(first[name]) for name in ("left", "word")], [re.escape(first["right"] + first["sep"].strip())]
    pattern = re.compile(
        rf"^[ \t]{{0,8}}{''.join(around[0])}(?P<id>\d{{1,9}}){around[1][0]}[ \t]{{0,8}}", re.MULTILINE | re.IGNORECASE
    )
    heads, last = list[re.Match[str]](), -1
    for found in islice(pattern.finditer(message), 2 * most):
        if int(found["id"]) > last:
            heads.append(found)
            last = int(found["id"])
    if not heads or (len(heads) < 2 and _COUNTED.search(about) is None):
        return None
    spans = between(heads, len(message))
    *others, last = (message[start:end].strip() for start, end in spans)
    if others and _BLANK_LINE.search(last) is not None and not any(map(_BLANK_LINE.search, others)):
        raise UnclearPrompt("what follows the message's list is not clear", param="messages")
    is_single = not any("\n" in message[start:end].strip() for start, end in spans)
    return outlined(message, _without_separator(message, spans), _one_line if is_single else plain)


def _without_separator(message: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The items without the line of signs with which each but the last ends."""
    lines = [message[start:end].rstrip().rpartition("\n")[2] for start, end in spans[:-1]]
    if len(lines) < 2 or len(set(lines)) > 1 or re.match(r"[ \t]*[^\w\s]{2}", lines[0]) is None:
        return spans
    return [(start, message.rindex(lines[0], start, end)) for start, end in spans[:-1]] + spans[-1:]


def _each_line(message: str, about: str, most: int) -> Outline | None:
    if "\n" not in message.strip() or words("lines").search(about) is None:
        return None
    spans = [found.span() for found in islice(re.finditer(r"[^\n]+", message), most + 1)]
    if all(end - start > 1 and message[start] == message[end - 1] == '"' for start, end in spans):
        spans = [(start + 1, end - 1) for start, end in spans]
    return outlined(message, spans, _one_line)


def in_a_tag(message: str, about: str, found: Outline | None) -> Outline | None:
    """The answer in the tag that the instruction wants around it."""
    named = (one["tag"] or one["word"] for one in words("wrapped").finditer(about) if _NEGATED.search(one[0]) is None)
    tag = next((one for one in named if f"<{one}>" in about and f"<{one}>" not in message), None)
    if tag is not None and about.count(f"<{tag}>") > 1 and re.search(rf"</{tag}>|<{tag}>\W? tags?\b", about) is None:
        return found  # places of a form
    if tag is None or (found is None and "transl" not in tag.lower() and tag.lower() not in keys()["answer"]):
        return found
    if found is None:
        found = outlined(message, [(0, len(message))])
    line = "\n" if len(found.texts) > 1 or f"<{tag}>\n" in about else ""
    return wrapped(found, f"<{tag}>{line}", f"{line}</{tag}>")
