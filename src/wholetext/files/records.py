"""Finds records in JSON, by their structure: objects of a program's data, in which a single word may be a name, not a text.

A record says of what type it is: in a list, beside a code, or beside an object of that name. What is in it belongs to it.
Its words under keys such as `style` and `align` are names, and so is `value` beside a label. A catalogue of texts has no
records: its words stay text.
"""

from __future__ import annotations

import re

from wholetext.files.richtext import TYPES, Path, Values
from wholetext.files.values import reason_to_leave

_KINDS = (*TYPES, "@type", "object", "component", "kind")
_NAME = re.compile(r"[A-Za-z@_][\w.:/-]{0,63}")
_WORD_OF_TYPE = re.compile(r"[a-z][\w.-]{0,63}|[A-Z][a-z0-9]{1,40}(?:[A-Z.]\w{0,40}){1,4}")
_NAMED = (
    "align|alignment|background|class|color|colour|direction|display|format|group|icon|input|key|kind|language|layout|level"
    "|method|mode|operator|orientation|placement|position|purpose|rel|role|shape|size|spacing|state|style|tag|target|theme"
    "|type|variant|weight|width"
)
_NAMES_A_NAME = re.compile(
    rf"\A(?:{_NAMED})\Z|(?:[a-z\d][_-]|\A_)(?:{_NAMED})\Z|[a-z](?:{_NAMED.title()})\Z|[a-z]type\Z"
)
_LABELS = frozenset({"label", "title", "text"})
_BESIDE_A_LABEL = frozenset({"id", "key", "name", "slug", "value"})
_SCHEMA_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})


class Records:
    """The records among the values of a file."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._known: dict[Path, bool] = {}

    def names(self, parent: Path, key: str, value: str) -> bool:
        """Whether a string of the object at `parent` is a name."""
        if key == "type" and value in _SCHEMA_TYPES:
            return True
        if not _NAME.fullmatch(value):
            return False
        is_named = key in _KINDS or _NAMES_A_NAME.search(key) is not None
        is_labelled = key in _BESIDE_A_LABEL and not _LABELS.isdisjoint(self._values.get(parent, ()))
        if key == "id" and "-" in value and "".join(parent[-1:]).startswith("["):
            return True
        return (is_named or is_labelled) and self._is_in_record(parent)

    def _is_in_record(self, path: Path) -> bool:
        if path not in self._known:
            is_record = self._is_record(path)
            self._known[path] = is_record or (bool(path) and self._is_in_record(path[:-1]))
        return self._known[path]

    def _is_record(self, path: Path) -> bool:
        own = self._values.get(path)
        if own is None or not any(_WORD_OF_TYPE.fullmatch(own[key]) for key in own if _tells_kind(key)):
            return False
        return "".join(path[-1:]).startswith("[") or any(
            (*path, value) in self._values if _tells_kind(key) else _is_code(value) for key, value in own.items()
        )


def _tells_kind(key: str) -> bool:
    return key in _KINDS or key.endswith("Type")


def _is_code(value: str) -> bool:
    return reason_to_leave(value) in ("key", "address", "code") and len(value) > 1
