"""How OpenAPI shows routes that read their parameters themselves: from a JSON object, a form or the query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
TEXT: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
TEXT_OR_TEXTS: Schema = {"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]}

_JSON = "application/json"
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_DESCRIPTIONS = {
    400: "A parameter is missing or not supported",
    401: "No key, or one that is not valid",
    403: "A key that is not valid, or that may not do this",
    413: "Too large a body or text, or too many texts",
    421: "The Host header is not a name of this server",
    429: "The queue is full, or the key's quota or rate is exceeded",
    500: "The server failed on this request",
    503: "Starting, draining, or the database does not answer",
    504: "The deadline that the request named has passed",
}


def example(schema: Schema, value: object) -> Schema:
    """The schema with an example."""
    return {**schema, "example": value}


def array(items: Schema) -> Schema:
    """A list of these."""
    return {"type": "array", "items": items}


def object_of(properties: Mapping[str, Schema], *optional: str) -> Schema:
    """A JSON object with these properties and no others; all but the `optional` ones are there."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def body(properties: Mapping[str, Schema], *required: str, forms: bool = True) -> dict[str, Any]:
    """A request body: JSON, and with `forms` a form."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    kinds = (_JSON, *_FORMS) if forms else (_JSON,)
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}


def query(properties: Mapping[str, Schema], *required: str) -> dict[str, Any]:
    """Parameters of the query; a list is a name that is repeated."""
    return {
        "parameters": [
            {"name": name, "in": "query", "required": name in required, "schema": schema}
            for name, schema in properties.items()
        ]
    }


def answers(ok: Schema, error: Schema, *statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route may answer: with `ok`, or with an `error` of one of the statuses, or of those that every route has."""
    failed = {
        status: {"description": _DESCRIPTIONS[status], "content": {_JSON: {"schema": error}}}
        for status in sorted({400, 421, 500, 503, *statuses})
    }
    return {200: {"description": "OK", "content": {_JSON: {"schema": ok}}}, **failed}
