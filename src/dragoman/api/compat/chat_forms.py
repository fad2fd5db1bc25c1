"""Forms of programs' messages and answers that the reading does not find by itself: how a message holds its texts, and how the
program reads their translations. `chat_forms.toml` has them, with their sources."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any, cast

from dragoman.api.compat.chat_outline import Outline, between, dumped, fields_of, joined
from dragoman.api.compat.chat_text import parsed_json
from dragoman.errors import TooManyTexts, UnclearPrompt
from dragoman.types import Translation


@dataclass(frozen=True, slots=True)
class ProgramForm:
    """How a program's messages hold texts, and how it reads their translations: an entry of `chat_forms.toml`."""

    name: str
    source: str
    has: tuple[str, ...]
    each: str
    begin: str = ""
    join: str = ""
    end: str = ""
    list: str | None = None
    text: str = "text"
    item: str | None = None
    cut: tuple[str, str] | None = None

    def outline(self, message: str, most: int) -> Outline:
        """The answer to a message. Raises `UnclearPrompt` for one that has another form, and `TooManyTexts`."""
        items = self._items(message, most) if self.item is not None else self._entries(message)
        if not items:
            raise UnclearPrompt(
                f"the message has the instruction of {self.name}, and its texts cannot be read", param="messages"
            )
        if len(items) > most:
            raise TooManyTexts(f"over {most} texts in one call", param="messages")
        first = re.search(r"\{(?:translation|source)", self.each)
        at = first.start() if first is not None else 0

        def write(translation: Translation) -> str:
            return _fill(self.each[at:], {"translation": translation.text, "source": translation.source})

        def each(made: Outline, _: int, item: tuple[object, str]) -> None:
            made.literal(_fill(self.each[:at], {"id": item[0], "text": item[1]}))
            made.translated(item[1])

        made = Outline(write, is_json=self.begin[:1] in ("{", "["))
        return joined(items, each, self.begin, self.join, self.end, made)

    def _entries(self, message: str) -> Sequence[tuple[object, str]]:
        entries = fields_of(parsed_json(message))
        listed: object = entries.get(self.list) if self.list is not None else list(entries.values())
        items = cast(list[object], listed) if isinstance(listed, list) else []
        ids: Sequence[object] = list(entries) if self.list is None else range(len(items))
        found = [
            (fields_of(one).get("id", id), fields_of(one).get(self.text)) for id, one in zip(ids, items, strict=False)
        ]
        texts = [(id, text) for id, text in found if isinstance(text, str)]
        return texts if len(texts) == len(found) else []

    def _items(self, message: str, most: int) -> Sequence[tuple[object, str]]:
        before, after = (self.item or "").split("{text}")
        pattern = (
            re.escape(before)
            .replace(re.escape("{id}"), r"(?P<id>[\w-]{1,80})")
            .replace(r"\\\n", r"[ \t]*\n")
            .replace(r"\ ", " ")
        )
        heads = list(islice(re.finditer(rf"^{pattern}", message, re.MULTILINE), most + 1))
        texts = [message[start:end].rstrip() for start, end in between(heads, len(message))]
        if not heads or message[: heads[0].start()].strip() or not all(text.endswith(after.strip()) for text in texts):
            return []
        return [(head["id"], text.removesuffix(after.strip()).strip()) for head, text in zip(heads, texts, strict=True)]


_PLACEHOLDER = re.compile(r"\{(id|text|translation|source)(?::(\w+))?\}")
_NOTATIONS: Mapping[str | None, Callable[[object], str]] = {
    None: str,
    "json": dumped,
    "key": lambda value: dumped(str(value)),
    "attribute": lambda value: escape(str(value)),
    "line": lambda value: "<br>".join(str(value).splitlines()),
}
"""How a placeholder of an answer is written: `{translation:json}`."""


def _fill(form: str, values: Mapping[str, object]) -> str:
    return _PLACEHOLDER.sub(lambda found: _NOTATIONS[found[2]](values[found[1]]), form)


@cache
def forms() -> tuple[ProgramForm, ...]:
    """Those of the file."""
    data: Mapping[str, list[dict[str, Any]]] = tomllib.loads(
        Path(__file__).with_name("chat_forms.toml").read_text("utf-8")
    )
    return tuple(map(_form, data["form"]))


def _form(entry: dict[str, Any]) -> ProgramForm:
    fields: dict[str, Any] = entry | {name: tuple(entry[name]) for name in ("has", "cut") if name in entry}
    return ProgramForm(**fields)
