"""Lists in YAML, whose items have an id and a text."""

from __future__ import annotations

import json
import re
from textwrap import dedent

from dragoman.api.compat.chat_outline import Outline, between, dumped, joined
from dragoman.errors import UnclearPrompt
from dragoman.types import Translation

_YAML_ITEM = re.compile(
    r"^(?P<head>[ \t]*- (?P<id_key>id|key|index|n): *(?P<id>[^\n]{1,100}))\n[ \t]+(?P<key>\w{1,40}):[ \t]*",
    re.MULTILINE,
)
_YAML_SHOWN = re.compile(r"^[ \t]*- (?:id|key|index|n):[^\n]*((?:\n[ \t]+\w{1,40}:[^\n]*)+)", re.MULTILINE)
_WRITTEN_TO = re.compile(r"\b(?:into|to|in|under) the [\"'`](\w{1,40})[\"'`] field", re.IGNORECASE)
_NOT_PLAIN = re.compile(
    r"[-+.~=\d?:,\[\]{}#&*!|>'\"%@`\s]|(?:true|false|null|yes|no|on|off|y|n)\Z"
    r"|.*(?:[\x00-\x1f\x7f-\x9f\u2028\u2029]|:\s|:\Z|\s#|\s\Z)|\Z",
    re.DOTALL | re.IGNORECASE,
)
"""What YAML would not read as this string without quotes."""
_YAML_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}
"""Control characters and line ends that JSON has as they are, and YAML has not."""
_YAML_BLOCK = re.compile(r"([|>])[-+]?[ \t]*\n")


def as_yaml(text: str) -> str:
    """A string as a scalar of YAML, in quotes where it needs them."""
    return dumped(text).translate(_YAML_ESCAPES) if _NOT_PLAIN.match(text) else text


def read(message: str, about: str) -> Outline | None:
    """A list of objects with an id and a text, of which the instruction shows or names those of the answer."""
    heads = list(_YAML_ITEM.finditer(message)) if re.match(r"\s*- \w+:", message) else []
    if not heads or message[: heads[0].start()].strip() or len({one["key"] for one in heads}) > 1:
        return None
    key = heads[0]["key"]
    if key not in about and re.search(r"\bfields?\b", about):
        raise UnclearPrompt(f"the message has no field that the instruction names, but {key}", param="messages")
    shown = [re.findall(r"\n[ \t]+(\w{1,40}):", one[1]) for one in _YAML_SHOWN.finditer(about)]
    named = [found[1] for found in _WRITTEN_TO.finditer(about)]
    keys = [one for one in (shown[-1] if shown else [key]) if one != key] or [named[-1] if named else key]
    fields = [f"\n  {one}: " for one in keys]

    def write(translation: Translation) -> str:
        return "".join(f"{one}{as_yaml(translation.text)}" for one in fields)

    def each(made: Outline, place: int, span: tuple[int, int]) -> None:
        made.literal(heads[place]["head"].strip())
        made.translated(_from_yaml(message[span[0] : span[1]].rstrip()))

    return joined(between(heads, len(message)), each, "", "\n", "", Outline(write, is_json=False))


def _from_yaml(text: str) -> str:
    """The string that a scalar of YAML is: plain, in quotes, or a block."""
    if block := _YAML_BLOCK.match(text):
        lines = dedent(text[block.end() :])
        return lines if block[1] == "|" else re.sub(r"(?<!\n)\n(?!\n)", " ", lines).replace("\n\n", "\n")
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text
    return text
