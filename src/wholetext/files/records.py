"""Finds records in JSON, by their structure: objects of a program's data, in which a single word may be a name, not a text.

A record says of what type it is: in a list, beside a code or a number, or with an object that says so too, or has that name.
What is in it belongs to it. Its words under keys such as `style` and `align` are names, and so is `value` beside a label. A
catalogue of texts has no records: its words stay text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from wholetext.files.richtext import TYPES, Path, Values
from wholetext.files.values import reason_to_leave

_KINDS = (*TYPES, "@type", "object", "component", "kind")
_NAME = re.compile(r"[A-Za-z@_][\w.:/-]{0,63}")
_WORD_OF_TYPE = re.compile(r"[a-z][\w.-]{0,63}|[A-Z][a-z0-9]{1,40}(?:[A-Z.]\w{0,40}){1,4}")
_NAMED = (
    "action|align|alignment|animation|background|behavior|class|code|color|colour|direction|display|easing|event|fit|font|format"
    "|group|icon|input|key|kind|language|layout|level|method|mode|operation|operator|orientation|overflow|placement|position"
    "|purpose|ratio|rel|resource|role|shape|size|spacing|state|status|style|tag|target|theme|transition|type|unit|variant|weight"
    "|widget|width"
)
_NAMES_A_NAME = re.compile(
    rf"\A(?:{_NAMED})\Z|(?:[a-z\d][_-]|\A_)(?:{_NAMED})\Z|[a-z](?:{_NAMED.title()})\Z|[a-z]type\Z"
)
_LABELS = frozenset({"label", "title", "text"})
_BESIDE_A_LABEL = frozenset({"id", "key", "name", "slug", "value"})
_SCHEMA_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})


class Records:
    """The records among the values of a file."""

    def __init__(self, values: Values, with_scalars: Collection[Path] = ()) -> None:
        """`with_scalars`: the paths of objects that have values of other types than strings."""
        self._values = values
        self._with_scalars = with_scalars
        self._typed = {path for path, own in values.items() if _is_typed(own)}
        self._with_typed = {path[: -1 - path[-1].startswith("[")] for path in self._typed if path}
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
        if path not in self._typed:
            return False
        return (
            "".join(path[-1:]).startswith("[")
            or path in self._with_scalars
            or path in self._with_typed
            or any(
                (*path, value) in self._values if _tells_kind(key) else _is_code(value)
                for key, value in self._values[path].items()
            )
        )


def _is_typed(own: Mapping[str, str]) -> bool:
    return any(_WORD_OF_TYPE.fullmatch(own[key]) for key in own if _tells_kind(key))


def _tells_kind(key: str) -> bool:
    return key in _KINDS or key.endswith(("Type", "_type"))


def _is_code(value: str) -> bool:
    return reason_to_leave(value) in ("key", "address", "code") and len(value) > 1
