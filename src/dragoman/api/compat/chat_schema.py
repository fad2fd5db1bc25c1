"""Answers in JSON by a schema: which of its strings are translations, and where the other values are in the message.

A schema is what `response_format` or the parameters of a function have. Each of its leaves is a translation of a string of the
message, or a value that is copied from it: an id, a number, a flag, one of an enumeration. The message is JSON with the same
nesting, or text, whose parts between separators are a list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from dragoman.api.compat.chat_shapes import fields_of
from dragoman.api.input import MAX_VALUES, parse_json
from dragoman.errors import InvalidJson, InvalidRequest
from dragoman.types import Translation

_MAX_DEPTH = 5
_COPIED_NAMES = ("id", "key", "position", "index")
_COPIED_TYPES: Mapping[str, tuple[type, ...]] = {"integer": (int,), "number": (int, float), "boolean": (bool,)}


def _unfit(place: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"the schema at {place or 'its top'}: {reason}", param="response_format")


@dataclass(slots=True)
class Outline:
    """A JSON answer with gaps for translations: `literals`, each in parts, are one more than `texts`."""

    texts: list[str] = field(default_factory=list[str])
    literals: list[list[str]] = field(default_factory=lambda: [[]])

    def literal(self, text: str) -> None:
        """Append JSON."""
        self.literals[-1].append(text)

    def translated(self, text: str) -> None:
        """Append a gap for the translation of `text`."""
        self.texts.append(text)
        self.literals.append([])

    # ---- the answer

    @property
    def is_json(self) -> bool:
        """An outline's answer is JSON."""
        return True

    @property
    def end(self) -> str:
        """What stands after the last translation."""
        return "".join(self.literals[-1])

    def piece(self, index: int, text: str, translation: Translation) -> str:
        """What the answer has for a text, with what stands before it."""
        return "".join(self.literals[index]) + _dumped(translation.text)


def outline(schema: Mapping[str, Any] | None, parts: Sequence[str]) -> Outline:
    """The answer by a schema to a message of these parts. None: any JSON, which then has the message's own form.

    Raises `InvalidRequest` where the schema has a leaf that is neither a translation nor copied from the message.
    """
    made = Outline()
    value = _value(parts)
    if schema is None:
        if not isinstance(value, dict):
            raise InvalidRequest(
                "response_format is json_object, and the message is no JSON object whose strings could be translated: "
                "give the answer's form with json_schema",
                param="response_format",
            )
        _Filler({}, made).copy_form(cast(object, value), "", 0)
    else:
        _Filler(schema, made).fill(schema, value, "", 0)
    if not made.texts:
        raise _unfit("", "nothing in the message is to be translated")
    return made


def _value(parts: Sequence[str]) -> object:
    """The message's JSON, or its text, or the list of its parts."""
    if len(parts) > 1:
        return list(parts)
    if parts[0].lstrip()[:1] in ("{", "["):
        try:
            return cast(object, parse_json(parts[0].encode(), MAX_VALUES))
        except InvalidJson:
            pass
    return parts[0]


@dataclass(frozen=True, slots=True)
class _Filler:
    root: Mapping[str, Any]
    made: Outline

    def fill(self, given: Any, value: object, place: str, depth: int) -> None:
        """Append what the part of the schema at `place` has for a value of the message."""
        schema = self._resolved(given, place)
        if depth > _MAX_DEPTH:
            raise _unfit(place, f"it is nested more than {_MAX_DEPTH} deep")
        if value is None and _takes_null(schema) and not self._is_fixed(schema, place):
            self.made.literal("null")
        elif "const" in schema or "enum" in schema:
            self._copy_choice(schema, value, place)
        elif (type_ := _type(schema, place)) == "object":
            self._fill_object(schema, value, place, depth)
        elif type_ == "array":
            self._fill_list(schema, value, place, depth)
        elif type_ == "string":
            if not isinstance(value, str):
                raise _unfit(place, "the message has no string for it")
            self.made.translated(value)
        else:
            is_copied = isinstance(value, _COPIED_TYPES.get(type_, ()))
            if not is_copied or isinstance(value, bool) != (type_ == "boolean"):
                raise _unfit(place, f"the message has no {type_} that could be copied")
            self.made.literal(_dumped(value))

    def copy_form(self, value: object, name: str, depth: int) -> None:
        """Append a value of the message as it is, with its strings translated, but for ids."""
        items, entries = _items(value), fields_of(value)
        if isinstance(value, str) and name not in _COPIED_NAMES:
            self.made.translated(value)
        elif (items or entries) and depth == _MAX_DEPTH:
            raise InvalidRequest(f"the message is nested more than {_MAX_DEPTH} deep", param="messages")
        elif items:
            self._join("[", "]", (("", name, item) for item in items), depth)
        elif entries:
            self._join("{", "}", ((f"{_dumped(key)}: ", key, item) for key, item in entries.items()), depth)
        else:
            self.made.literal(_dumped(value))

    def _join(self, begin: str, end: str, items: Iterable[tuple[str, str, object]], depth: int) -> None:
        self.made.literal(begin)
        for number, (before, name, item) in enumerate(items):
            self.made.literal((", " if number else "") + before)
            self.copy_form(item, name, depth + 1)
        self.made.literal(end)

    def _fill_object(self, schema: Mapping[str, Any], value: object, place: str, depth: int) -> None:
        properties: dict[str, Any] = fields_of(schema.get("properties"))
        if not properties and (others := fields_of(schema.get("additionalProperties"))):
            properties = dict.fromkeys(fields_of(value), others)
        self.made.literal("{")
        for number, (name, item) in enumerate(self._values(schema, properties, value, place)):
            self.made.literal((", " if number else "") + f"{_dumped(name)}: ")
            within = f"{place}.{name}" if place else name
            if name in _COPIED_NAMES and isinstance(item, str):
                self.made.literal(_dumped(item))
            else:
                self.fill(properties[name], item, within, depth + 1)
        self.made.literal("}")

    def _values(
        self, schema: Mapping[str, Any], properties: Mapping[str, Any], value: object, place: str
    ) -> Iterator[tuple[str, object]]:
        """Each property that the answer has, with the message's value for it.

        One property that the message does not name takes what is left: the one string or list of an object, or the
        message itself.
        """
        entries = fields_of(value)
        required = properties if (names := _items(schema.get("required"))) is None else names
        missing = [
            name
            for name in properties
            if name not in entries and name in required and not self._is_fixed(properties[name], place)
        ]
        unnamed = [name for name, one in entries.items() if name not in properties and _has_text(one)]
        rest: object = value if _has_text(value) else entries[unnamed[0]] if len(unnamed) == 1 else None
        if len(missing) > 1 or (missing and rest is None):
            raise _unfit(place, f"the message has no value for {', '.join(missing[:5])}")
        for name in properties:
            if name in entries:
                yield name, entries[name]
            elif name in missing:
                yield name, rest
            elif name in required:
                yield name, None

    def _is_fixed(self, given: Any, place: str) -> bool:
        schema = self._resolved(given, place)
        return len(_choices(schema, place)) == 1

    def _fill_list(self, schema: Mapping[str, Any], value: object, place: str, depth: int) -> None:
        items = _items(value)
        self.made.literal("[")
        for number, item in enumerate([value] if items is None else items):
            self.made.literal(", " if number else "")
            self.fill(schema.get("items", {}), item, f"{place}[]", depth + 1)
        self.made.literal("]")

    def _copy_choice(self, schema: Mapping[str, Any], value: object, place: str) -> None:
        choices = _choices(schema, place)
        chosen = choices[0] if len(choices) == 1 else value
        if chosen not in choices:
            raise _unfit(place, "the message has none of its values")
        self.made.literal(_dumped(chosen))

    def _resolved(self, given: Any, place: str) -> Mapping[str, Any]:
        """The schema without references, and the one that is not null of several."""
        takes_null = False
        for _ in range(_MAX_DEPTH * 2):
            if not isinstance(given, dict):
                raise _unfit(place, "it is not an object")
            schema = cast(dict[str, Any], given)
            if isinstance(reference := schema.get("$ref"), str):
                given = self.root
                for step in reference.removeprefix("#").strip("/").split("/"):
                    given = cast(dict[str, Any], given).get(step) if isinstance(given, dict) else None
            elif isinstance(several := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"), list):
                kept = [one for one in cast(list[Any], several) if one != {"type": "null"}]
                if len(kept) != 1:
                    raise _unfit(place, "it is one of several")
                takes_null |= len(kept) < len(cast(list[Any], several))
                given = kept[0]
            else:
                return {**schema, "nullable": True} if takes_null else schema
        raise _unfit(place, "its references do not end")


def _items(value: object) -> list[object] | None:
    return cast(list[object], value) if isinstance(value, list) else None


def _choices(schema: Mapping[str, Any], place: str) -> list[object]:
    """The values that a constant or an enumeration has; [] for what is neither."""
    choices = _items([schema["const"]] if "const" in schema else schema.get("enum", []))
    if choices is None:
        raise _unfit(place, "its enum is not a list")
    return choices


def _takes_null(schema: Mapping[str, Any]) -> bool:
    return schema.get("nullable") is True or "null" in (_items(schema.get("type")) or ())


def _has_text(value: object) -> bool:
    return isinstance(value, str | list)


def _type(schema: Mapping[str, Any], place: str) -> str:
    given: Any = schema.get("type", "object" if "properties" in schema else None)
    kept = [one for one in cast(list[Any], given) if one != "null"] if isinstance(given, list) else [given]
    if len(kept) != 1 or not isinstance(kept[0], str):
        raise _unfit(place, "it has not one type")
    return kept[0]


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
