"""Answers in JSON by a schema: which of its strings are translations, and where the other values are in the message.

A schema is what `response_format` or the parameters of a function have. Each of its leaves is a translation of a string of the
message, or a value that is copied from it: an id, a number, a flag, one of an enumeration. The message is JSON with the same
nesting, or text, whose parts between separators are a list.

Each part of a schema is read once, however many values it is for, and what is done for all values has a bound: a short schema
for each of many short values would otherwise be hours of work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from dragoman.api.compat.chat_outline import PARAM, Outline, dumped, fields_of
from dragoman.api.compat.chat_text import message_json
from dragoman.errors import InvalidRequest, TooManyValues

_MAX_DEPTH = 5
MAX_FORM_DEPTH = 20  # of a message whose form the answer has
_MAX_REFERENCES = 10  # one after the other, until there is a schema
_MAX_POINTER_STEPS = 100  # of one `$ref`
_MAX_ALTERNATIVES = 1_000  # of one `anyOf`
_MAX_STEPS = 500_000  # values that are filled, with the properties that are looked for in each of them
COPIED_NAMES = ("id", "key", "position", "index")
_COPIED_TYPES: Mapping[str, tuple[type, ...]] = {"integer": (int,), "number": (int, float), "boolean": (bool,)}
_NO_SCHEMA: Mapping[str, Any] = {}

Place = tuple[str, ...]
"""Names of properties and `[]`, from the top."""


def _unfit(place: Place, reason: str) -> InvalidRequest:
    return InvalidRequest(f"the schema at {_shown(place)}: {reason}", param=PARAM)


def _shown(place: Place) -> str:
    names = [name if len(name) <= 100 else f"{name[:100]}…" for name in place]
    return ".".join(names).replace(".[]", "[]") or "its top"


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
                param=PARAM,
            )
        copy_form(made, cast(object, value))
    else:
        _Filler(_Schemas(schema), made).fill(schema, value, (), 0)
    if not made.texts:
        raise _unfit((), "nothing in the message is to be translated")
    return made


def _value(parts: Sequence[str]) -> object:
    """The message's JSON, or its text, or the list of its parts."""
    if len(parts) > 1:
        return list(parts)
    parsed = message_json(parts[0])
    return parts[0] if parsed is None else parsed


# ---- the message's own form


def copy_form(made: Outline, value: object, name: str = "", depth: int = 0) -> None:
    """Append a value of the message as it is, with its strings translated, but for ids."""
    items, entries = _items(value), fields_of(value)
    if isinstance(value, str) and (name not in COPIED_NAMES or depth < 2):
        made.translated(value)
    elif (items or entries) and depth == MAX_FORM_DEPTH:
        raise InvalidRequest(f"the message is nested more than {MAX_FORM_DEPTH} deep", param="messages")
    elif items or entries:
        pairs = ((f"{dumped(key)}: ", key, item) for key, item in entries.items())
        made.literal("{" if entries else "[")
        for number, (before, inner, item) in enumerate(
            pairs if entries else (("", name, item) for item in items or ())
        ):
            made.literal((", " if number else "") + before)
            copy_form(made, item, inner, depth + 1)
        made.literal("}" if entries else "]")
    else:
        made.literal(dumped(value))


# ---- the schema


@dataclass(frozen=True, slots=True)
class _Schema:
    """A part of the schema, read once, however many values of the message it is for.

    `heads`: its properties' names as JSON, with a colon. `choices`: the values of a constant or an enumeration, as JSON.
    """

    type: str | None  # None: it has not one type
    takes_null: bool
    properties: Mapping[str, Any]
    heads: Mapping[str, str]
    required: Collection[str]
    others: Mapping[str, Any]  # of properties that are not named; {}: none
    items: Any
    choices: Mapping[str, None] | None

    @classmethod
    def of(cls, given: Mapping[str, Any], place: Place) -> _Schema:
        """Raises `InvalidRequest` for an enumeration that is no list."""
        properties = fields_of(given.get("properties"))
        names = _items(given.get("required"))
        return cls(
            _type(given),
            given.get("nullable") is True or "null" in (_items(given.get("type")) or ()),
            properties,
            {name: f"{dumped(name)}: " for name in properties},
            properties if names is None else frozenset(name for name in names if isinstance(name, str)),
            fields_of(given.get("additionalProperties")),
            given.get("items", _NO_SCHEMA),
            _choices(given, place),
        )

    @property
    def is_fixed(self) -> bool:
        """It has one value, whatever the message has."""
        return self.choices is not None and len(self.choices) == 1


def _choices(given: Mapping[str, Any], place: Place) -> Mapping[str, None] | None:
    if "const" not in given and "enum" not in given:
        return None
    choices = [given["const"]] if "const" in given else _items(given["enum"])
    if choices is None:
        raise _unfit(place, "its enum is not a list")
    return dict.fromkeys(_canonical(choice, place) for choice in choices)


def _canonical(value: object, place: Place) -> str:
    """JSON that equal values have in common. A string: numbers of equal hashes are easy to choose."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return dumped(value)
    except RecursionError:
        raise _unfit(place, "a value that would be copied is nested too deeply") from None


def _type(given: Mapping[str, Any]) -> str | None:
    type_: Any = given.get("type", "object" if "properties" in given else None)
    kept = [one for one in cast(list[Any], type_) if one != "null"] if isinstance(type_, list) else [type_]
    return kept[0] if len(kept) == 1 and isinstance(kept[0], str) else None


class _Schemas:
    """The parts of a schema, without references, and with the one that is not null of several. Each is read once."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._known: dict[int, _Schema] = {}  # by identity, as the root keeps all of them

    def read(self, given: Any, place: Place, references: int = 0) -> _Schema:
        """`references`: how many led here. Raises `InvalidRequest` where they do not lead to one schema."""
        if not isinstance(given, Mapping):
            raise _unfit(place, "it is not an object")
        identity = id(cast(object, given))
        if (known := self._known.get(identity)) is not None:
            return known
        if references > _MAX_REFERENCES:
            raise _unfit(place, "its references do not end")
        self._known[identity] = schema = self._followed(cast(Mapping[str, Any], given), place, references + 1)
        return schema

    def _followed(self, given: Mapping[str, Any], place: Place, references: int) -> _Schema:
        if isinstance(reference := given.get("$ref"), str):
            return self.read(self._at(reference, place), place, references)
        several = _items(given.get("anyOf") or given.get("oneOf") or given.get("allOf"))
        if several is None:
            return _Schema.of(given, place)
        if len(several) > _MAX_ALTERNATIVES:
            raise _unfit(place, f"it is one of {len(several)}; this server reads {_MAX_ALTERNATIVES}")
        kept = [one for one in several if one != {"type": "null"}]
        if len(kept) != 1:
            raise _unfit(place, "it is one of several")
        schema = self.read(kept[0], place, references)
        return replace(schema, takes_null=schema.takes_null or len(kept) < len(several))

    def _at(self, reference: str, place: Place) -> object:
        """What a reference within the schema leads to; None where there is nothing."""
        steps = reference.removeprefix("#").strip("/").split("/", _MAX_POINTER_STEPS)
        if len(steps) > _MAX_POINTER_STEPS:
            raise _unfit(place, f"a reference has over {_MAX_POINTER_STEPS} steps")
        found: object = self._root
        for step in steps if steps != [""] else ():
            found = fields_of(found).get(step)
        return found


@dataclass(slots=True)
class _Filler:
    schemas: _Schemas
    made: Outline
    steps: int = 0

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > _MAX_STEPS:
            raise TooManyValues(
                f"the schema's properties and the message's values are over {_MAX_STEPS:,} together", param=PARAM
            )

    def fill(self, given: Any, value: object, place: Place, depth: int) -> None:
        """Append what the part of the schema at `place` has for a value of the message."""
        self._count(1)
        schema = self.schemas.read(given, place)
        if depth > _MAX_DEPTH:
            raise _unfit(place, f"it is nested more than {_MAX_DEPTH} deep")
        if value is None and schema.takes_null and not schema.is_fixed:
            self.made.literal("null")
        elif schema.choices is not None:
            self._copy_choice(schema.choices, value, place)
        elif schema.type == "object":
            self._fill_object(schema, value, place, depth)
        elif schema.type == "array":
            self._fill_list(schema, value, place, depth)
        elif schema.type == "string":
            if not isinstance(value, str):
                raise _unfit(place, "the message has no string for it")
            self.made.translated(value)
        else:
            self._copy_value(schema.type, value, place)

    def _copy_value(self, type_: str | None, value: object, place: Place) -> None:
        if type_ is None:
            raise _unfit(place, "it has not one type")
        is_copied = isinstance(value, _COPIED_TYPES.get(type_, ()))
        if not is_copied or isinstance(value, bool) != (type_ == "boolean"):
            raise _unfit(place, f"the message has no {type_[:40]} that could be copied")
        self.made.literal(dumped(value))

    def _copy_choice(self, choices: Mapping[str, None], value: object, place: Place) -> None:
        chosen = next(iter(choices)) if len(choices) == 1 else _canonical(value, place)
        if chosen not in choices:
            raise _unfit(place, "the message has none of its values")
        self.made.literal(chosen)

    def _fill_object(self, schema: _Schema, value: object, place: Place, depth: int) -> None:
        properties, required = schema.properties, schema.required
        if not properties and schema.others:
            properties = required = dict.fromkeys(fields_of(value), schema.others)
        self.made.literal("{")
        for number, (name, item) in enumerate(self._values(required, properties, value, place)):
            self.made.literal(", " if number else "")
            self.made.literal(schema.heads.get(name) or f"{dumped(name)}: ")
            if name in COPIED_NAMES and isinstance(item, str):
                self.made.literal(dumped(item))
            else:
                self.fill(properties[name], item, (*place, name), depth + 1)
        self.made.literal("}")

    def _values(
        self, required: Collection[str], properties: Mapping[str, Any], value: object, place: Place
    ) -> Iterator[tuple[str, object]]:
        """Each property that the answer has, with the message's value for it.

        One property that the message does not name takes what is left: the one string or list of an object, or the
        message itself.
        """
        entries = fields_of(value)
        self._count(len(properties) + len(entries))
        missing = [
            name
            for name in properties
            if name not in entries and name in required and not self.schemas.read(properties[name], place).is_fixed
        ]
        unnamed = [name for name, one in entries.items() if name not in properties and _has_text(one)]
        lists = [name for name in unnamed if isinstance(entries[name], list)]
        if len(lists) == 1 and len(missing) == 1 and self.schemas.read(properties[missing[0]], place).type == "array":
            unnamed = lists
        rest: object = value if _has_text(value) else entries[unnamed[0]] if len(unnamed) == 1 else None
        if len(missing) > 1 or (missing and rest is None):
            raise _unfit(place, f"the message has no value for {', '.join(name[:100] for name in missing[:5])}")
        for name in properties:
            if name in entries:
                yield name, entries[name]
            elif name in required:
                yield name, rest if name in missing else None

    def _fill_list(self, schema: _Schema, value: object, place: Place, depth: int) -> None:
        items = _items(value)
        self.made.literal("[")
        for number, item in enumerate([value] if items is None else items):
            self.made.literal(", " if number else "")
            self.fill(schema.items, item, (*place, "[]"), depth + 1)
        self.made.literal("]")


def _items(value: object) -> list[object] | None:
    return cast(list[object], value) if isinstance(value, list) else None


def _has_text(value: object) -> bool:
    return isinstance(value, str | list)
