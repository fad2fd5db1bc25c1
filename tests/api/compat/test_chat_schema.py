"""Answers by a JSON schema: each leaf is a translation, or copied from the message."""

from __future__ import annotations

import json
import sys
from time import thread_time
from typing import Any

import pytest

from dragoman.api.compat.chat_schema import outline
from dragoman.errors import BodyTooLarge, DragomanError, InvalidRequest, TooManyValues
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
        (None, ['{"a": "Hi.", "b": ' + '{"c": ' * 21 + '"Bye."' + "}" * 22]),
    ],
)
def test_a_schema_that_the_message_does_not_fit_is_refused(schema: Any, parts: list[str]) -> None:
    with pytest.raises(InvalidRequest):
        answer(schema, *parts)


def test_a_long_list_of_copied_values_takes_time_in_proportion() -> None:
    """Appending to one string would take minutes."""
    numbers = list(range(90_000))
    assert answer(None, json.dumps({"a": numbers, "b": "Hi."})) == {"a": numbers, "b": "~Hi."}


def test_a_schema_may_refer_to_itself() -> None:
    """As deep as the message is, up to the depth that answers may have."""
    node = of(text=TEXT, parts=each({"$ref": "#"})) | {"required": ["text"]}
    message = {"text": "Hi.", "parts": [{"text": "Bye.", "parts": []}]}
    assert answer(node, json.dumps(message)) == {"text": "~Hi.", "parts": [{"text": "~Bye.", "parts": []}]}


def test_equal_numbers_of_an_enumeration_are_equal_and_true_is_no_number() -> None:
    schema = of(level={"enum": [1, 2, {"a": [1], "b": None}]}, text=TEXT)
    for level in (1, 1.0, {"b": None, "a": [1]}):
        assert answer(schema, json.dumps({"level": level, "text": "Hi."})) == {"level": level, "text": "~Hi."}
    with pytest.raises(InvalidRequest):
        answer(schema, json.dumps({"level": True, "text": "Hi."}))


# ---- work in proportion to what is sent

MAX_PARSES, TRIES = 200, 3
"""How many times as much CPU time as parsing the schema and the message an answer may take, in the best of some tries. Up to 22
were measured; of a schema that was read again for each value it was thousands."""
NAMES = [f"p{number:05d}" for number in range(30_000)]
EQUAL_HASHES = [number * sys.hash_info.modulus for number in range(1, 10_001)]
NULL = {"type": "null"}


def work(schema: dict[str, Any], message: Any) -> tuple[float, DragomanError | None]:
    """CPU time of an answer, in times that parsing takes, and the error that it ended with."""
    text, whole, times, failure = json.dumps(message), json.dumps([schema, message]), list[float](), None
    while len(times) < TRIES and not any(one < MAX_PARSES for one in times):
        began_s = thread_time()
        schema, _ = json.loads(whole)
        parsed_s = thread_time()
        try:
            outline(schema, [text])
        except DragomanError as error:
            failure = error
        times.append((thread_time() - parsed_s) / (parsed_s - began_s))
    return min(times), failure


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (each(of(a={"enum": list(range(100_000, 170_000))}, b=TEXT)), [{"a": 169_999, "b": "Hi."}] * 7_000),
        (each(of(a={"enum": EQUAL_HASHES}, b=TEXT)), [{"a": EQUAL_HASHES[-1], "b": "Hi."}] * 1_000),
        (each({"anyOf": [NULL] * 999 + [TEXT]}), ["Hi."] * 20_000),
        (each({"type": ["null"] * 9_999 + ["string"]}), ["Hi."] * 20_000),
        (each({"$ref": "#" + "/" * 300_000 + "$defs/a"}) | {"$defs": {"a": TEXT}}, ["Hi."] * 20_000),
        (of(**dict.fromkeys(NAMES, TEXT)), dict.fromkeys(NAMES, "Hi.")),
        (
            of(**{name: {"$ref": "#/$defs/a"} for name in NAMES}) | {"$defs": {"a": {"anyOf": [NULL] * 999 + [TEXT]}}},
            dict.fromkeys(NAMES, "Hi."),
        ),
        (each({"type": "object", "additionalProperties": TEXT}), [{"x" * 100_000: "Hi."}] * 50),
    ],
    ids=["enum", "equal hashes", "anyOf", "types", "long $ref", "required", "shared anyOf", "long names"],
)
def test_an_answer_takes_work_in_proportion_to_what_is_sent(schema: dict[str, Any], message: Any) -> None:
    times, failure = work(schema, message)
    assert failure is None
    assert times < MAX_PARSES


@pytest.mark.parametrize(
    ("schema", "message", "kind"),
    [
        (each({"anyOf": [NULL] * 5_000 + [TEXT]}), ["Hi."] * 5_000, InvalidRequest),
        (each({"$ref": "#" + "/a" * 300_000}), ["Hi."] * 2_000, InvalidRequest),
        (each(of(**dict.fromkeys(NAMES, TEXT)) | {"required": []}), [{NAMES[0]: "Hi."}] * 10_000, TooManyValues),
        (each(of(a={"const": "x" * 100_000}, b=TEXT)), [{"b": "Hi."}] * 10_000, BodyTooLarge),
        (each(of(**{"x" * 100_000: TEXT})), ["Hi."] * 10_000, BodyTooLarge),
        (
            {"$defs": {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(10_000)}, "$ref": "#/$defs/0"},
            "Hi.",
            InvalidRequest,
        ),
        ({"anyOf": [{"$ref": "#"}]}, "Hi.", InvalidRequest),
    ],
    ids=["anyOf", "$ref", "properties of each value", "constants", "names", "chain", "itself"],
)
def test_a_schema_over_a_bound_is_refused_at_once(
    schema: dict[str, Any], message: Any, kind: type[DragomanError]
) -> None:
    times, failure = work(schema, message)
    assert isinstance(failure, kind)
    assert len(failure.message) < 1_000
    assert times < MAX_PARSES


def test_a_deep_schema_is_refused() -> None:
    deep: Any = TEXT
    for _ in range(300):
        deep = {"anyOf": [deep, NULL]}
    with pytest.raises(InvalidRequest):
        outline(deep, ["Hi."])
    nested: Any = 1
    for _ in range(500):
        nested = [nested]
    with pytest.raises(InvalidRequest):
        outline(of(a={"enum": [1, 2]}, b=TEXT), [json.dumps({"a": nested, "b": "Hi."})])
