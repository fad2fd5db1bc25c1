"""ICU messages: parsed into arguments, branches and texts, so that a message and its translation can be compared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

from dragoman_bench.eval.structure import shown

_COMPLEX = frozenset({"plural", "select", "selectordinal"})


@dataclass(frozen=True, slots=True)
class IcuMessage:
    """An ICU message: its arguments in canonical form, in any order, and its texts."""

    arguments: Counter[Hashable]
    texts: tuple[str, ...]


class MessageSyntaxError(Exception):
    """The text is not a message in ICU's syntax."""


def compare_messages(source: str, output: str) -> list[str]:
    """Arguments, types, styles, selectors and `#` of every branch as in the source; a branch has text where it had one."""
    wanted = read_message(source)
    try:
        got = read_message(output)
    except MessageSyntaxError as error:
        return [f"not an ICU message any more: {error}"]
    if wanted.arguments == got.arguments:
        return []
    return [
        f"arguments: lost {shown(list(wanted.arguments - got.arguments))}, "
        f"added {shown(list(got.arguments - wanted.arguments))}"
    ]


def read_message(text: str) -> IcuMessage:
    """Parse ICU MessageFormat (unicode-org.github.io/icu/userguide/format_parse/messages). Raises MessageSyntaxError."""
    message, at = _message(text, 0, plural=False)
    if at < len(text):
        raise MessageSyntaxError(f"a closing brace too many at {at}")
    return message


def _message(text: str, at: int, *, plural: bool) -> tuple[IcuMessage, int]:
    """The message from `at` to its end or to the brace that closes its branch."""
    arguments: Counter[Hashable] = Counter()
    texts: list[str] = []
    start = at
    while at < len(text) and text[at] != "}":
        if text[at] == "'" and text[at + 1 : at + 2] in ("{", "}", "'", *("#" if plural else "")):
            at = at + 2 if text[at + 1] == "'" else text.find("'", at + 1) + 1
            if at == 0:
                raise MessageSyntaxError("a quotation that does not end")
        elif text[at] == "{":
            texts.append(text[start:at])
            argument, inner, at = _argument(text, at + 1)
            arguments[argument] += 1
            texts += inner
            start = at
        else:
            arguments["#"] += plural and text[at] == "#"
            at += 1
    texts.append(text[start:at])
    return IcuMessage(+arguments, tuple(filter(str.strip, texts))), at


def _argument(text: str, at: int) -> tuple[Hashable, list[str], int]:
    head = re.compile(r"\s*([\w.$-]+)\s*(?:,\s*(\w+)\s*)?([,}])").match(text, at)
    if head is None:
        raise MessageSyntaxError(f"no argument at {at}")
    name, kind = head[1], head[2] or ""
    at = head.end()
    if head[3] == "}":
        return (name, kind), [], at
    if kind not in _COMPLEX:
        end = text.find("}", at)
        if end < 0:
            raise MessageSyntaxError(f"{name} does not end")
        return (name, kind, text[at:end].strip()), [], end + 1
    selector = re.compile(r"\s*((?:offset:\d+\s*)?)((?:=\d+|\w+)?)\s*([{}])")
    branches: list[Hashable] = []
    texts: list[str] = []
    while True:
        found = selector.match(text, at)
        if found is None:
            raise MessageSyntaxError(f"no selector at {at}")
        at = found.end()
        if found[3] == "}":
            return (name, kind, tuple(branches)), texts, at
        branch, at = _message(text, at, plural=kind != "select")
        texts += branch.texts
        branches.append((found[1].strip(), found[2], frozenset(branch.arguments.items()), bool(branch.texts)))
        if text[at : at + 1] != "}":
            raise MessageSyntaxError(f"{name} does not end")
        at += 1
