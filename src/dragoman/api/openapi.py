"""How OpenAPI describes what routes may answer, and the parameters of those that read them themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

Schema = Mapping[str, Any]
Answers = dict[int | str, dict[str, Any]]
TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": TEXT}
FLAG: Schema = {"type": "boolean"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
FILE: Schema = {"type": "string", "format": "binary"}
TEXT_OR_TEXTS: Schema = {"anyOf": [TEXT, {**TEXTS, "minItems": 1}]}

_JSON = "application/json"
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_DESCRIPTIONS = {
    400: "A parameter is missing, or has a value that is not supported",
    401: "The server needs a key, and the request has none or a wrong one",
    403: "The key may not do this, is not valid, or has used up its characters of this month",
    404: "There is nothing of this name or id",
    409: "Another one has this name",
    413: "Too large a body or text, or too many of them",
    415: "The format that `Accept` names is not offered",
    421: "The Host header is not a name of this server",
    422: "JSON or entries of the wrong shape",
    429: "The queue is full, or the key's quota or rate is exceeded; see Retry-After",
    456: "The key has used up its characters of this month",
    500: "The server failed on this request",
    503: "Starting, draining, the engine has crashed, or the database does not answer",
    504: "The deadline that the request named has passed",
}


def example(schema: Schema, value: object) -> Schema:
    """The schema with an example."""
    return {**schema, "example": value}


def choice(*values: str) -> Schema:
    """One of these texts."""
    return {**TEXT, "enum": list(values)}


def array(items: Schema) -> Schema:
    """A list of these."""
    return {"type": "array", "items": items}


def object_of(properties: Mapping[str, Schema], *optional: str) -> Schema:
    """A JSON object with these properties and no others; all but the `optional` ones are there."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def body(properties: Mapping[str, Schema], *required: str) -> dict[str, Any]:
    """A request body: JSON, or a form."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in (_JSON, *_FORMS)}}}


def upload(properties: Mapping[str, Schema], *required: str) -> dict[str, Any]:
    """A request body: a form with a file."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


def query(properties: Mapping[str, Schema], *required: str) -> dict[str, Any]:
    """Parameters of the query; a list is a name that is repeated."""
    return {
        "parameters": [
            {"name": name, "in": "query", "required": name in required, "schema": schema}
            for name, schema in properties.items()
        ]
    }


def failures(error: type[BaseModel] | Schema, *statuses: int) -> Answers:
    """Errors with these statuses, and with those that every route may have."""
    shape = {"model": error} if isinstance(error, type) else {"content": {_JSON: {"schema": error}}}
    return {status: {"description": _DESCRIPTIONS[status], **shape} for status in sorted({421, 500, 503, *statuses})}


def answers(ok: Schema, error: Schema, *statuses: int, created: bool = False) -> Answers:
    """What a foreign API's route may answer: with `ok`, or with an `error` of 400 or one of the statuses."""
    success = {"description": "Created" if created else "OK", "content": {_JSON: {"schema": ok}}}
    return {201 if created else 200: success, **failures(error, 400, *statuses)}
