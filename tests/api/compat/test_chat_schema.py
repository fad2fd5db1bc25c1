"""Answers by a JSON schema: each leaf is a translation, or copied from the message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.api.compat.chat_schema import outline
from dragoman.errors import InvalidRequest
from dragoman.types import Translation

TEXT = {"type": "string"}
INTEGER = {"type": "integer"}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def each(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def answer(schema: dict[str, Any] | None, *parts: str) -> Any:
    made = outline(schema, parts)
    pieces = (made.piece(n, text, Translation(f"~{text}", "en", False, "stop")) for n, text in enumerate(made.texts))
    return json.loads("".join(pieces) + made.end)


ITEMS = json.dumps([{"id": 1, "key": "a.b", "text": 'Say "hi".'}, {"id": 2, "key": "c", "text": "Bye\n"}])
MENU = json.dumps({"title": "Menu", "size": 3, "items": {"open": "Open", "id": "x1", "all": ["One", "Two"]}})


@pytest.mark.parametrize(
    ("schema", "parts", "expected"),
    [
        (TEXT, ["Hi."], "~Hi."),
        (of(translation=TEXT), ["Hi."], {"translation": "~Hi."}),
        (each(TEXT), ["Hi.", "Bye."], ["~Hi.", "~Bye."]),
        (of(lines=each(TEXT)), ['["Hi.", "Bye."]'], {"lines": ["~Hi.", "~Bye."]}),
        (
            of(items=each(of(id=INTEGER, translated=TEXT, key=TEXT))),
            [ITEMS],
            {
                "items": [
                    {"id": 1, "translated": '~Say "hi".', "key": "a.b"},
                    {"id": 2, "translated": "~Bye\n", "key": "c"},
                ]
            },
        ),
        (
            of(title=TEXT, size=INTEGER, items=of(open=TEXT, id=TEXT, all=each(TEXT))),
            [MENU],
            {"title": "~Menu", "size": 3, "items": {"open": "~Open", "id": "x1", "all": ["~One", "~Two"]}},
        ),
        (
            {"type": "object", "additionalProperties": TEXT},
            ['{"a": "Hi.", "b": "Bye."}'],
            {"a": "~Hi.", "b": "~Bye."},
        ),
        (
            {
                "$ref": "#/$defs/One",
                "$defs": {"One": of(text={"anyOf": [TEXT, {"type": "null"}]}, kind={"const": "x"})},
            },
            ["Hi."],
            {"text": "~Hi.", "kind": "x"},
        ),
        (of(tone={"enum": ["a", "b"]}, text=TEXT), ['{"tone": "b", "text": "Hi."}'], {"tone": "b", "text": "~Hi."}),
        (
            of(text=TEXT, note={"anyOf": [TEXT, {"type": "null"}]}, tone={"type": ["string", "null"]}),
            ['{"text": "Hi.", "note": null, "tone": null}'],
            {"text": "~Hi.", "note": None, "tone": None},
        ),
        (
            {"$defs": {"One": TEXT}, **of(text={"allOf": [{"$ref": "#/$defs/One"}], "description": "…"})},
            ["Hi."],
            {"text": "~Hi."},
        ),
        ({**of(text=TEXT), "required": None}, ["Hi."], {"text": "~Hi."}),
        (None, [MENU], {"title": "~Menu", "size": 3, "items": {"open": "~Open", "id": "x1", "all": ["~One", "~Two"]}}),
    ],
)
def test_an_answer_by_a_schema(schema: Any, parts: list[str], expected: Any) -> None:
    assert answer(schema, *parts) == expected


DEEP: Any = TEXT
for _ in range(6):
    DEEP = of(a=DEEP)


@pytest.mark.parametrize(
    ("schema", "parts"),
    [
        (of(translation=TEXT, explanation=TEXT), ["Hi."]),
        (of(translation=TEXT, confidence={"type": "number"}), ["Hi."]),
        (of(probe={"type": "string", "enum": ["schema_ok"]}), ["Hi."]),
        (of(tone={"enum": ["a", "b"]}, text=TEXT), ["Hi."]),
        (of(count=INTEGER, text=TEXT), ['{"count": "3", "text": "Hi."}']),
        (of(text={"anyOf": [TEXT, INTEGER]}), ["Hi."]),
        (of(text=TEXT, tone={"enum": 5}), ["Hi."]),
        (of(text=TEXT, note=TEXT), ['{"text": "Hi.", "note": null}']),
        (each(of(id=INTEGER, text=TEXT)), ["Hi.", "Bye."]),
        ({"$ref": "#"}, ["Hi."]),
        ({"$ref": "#/$defs/none"}, ["Hi."]),
        (DEEP, ["Hi."]),
        ({}, ["Hi."]),
        (None, ["Hi."]),
        (None, ["[1, 2]"]),
        (None, ['{"a": 1}']),
        (None, ['{"a": "Hi.", "b": {"c": {"d": {"e": {"f": {"g": "Bye."}}}}}}']),
    ],
)
def test_a_schema_that_the_message_does_not_fit_is_refused(schema: Any, parts: list[str]) -> None:
    with pytest.raises(InvalidRequest):
        answer(schema, *parts)


def test_a_long_list_of_copied_values_takes_time_in_proportion() -> None:
    """Appending to one string would take minutes."""
    numbers = list(range(90_000))
    assert answer(None, json.dumps({"a": numbers, "b": "Hi."})) == {"a": numbers, "b": "~Hi."}
