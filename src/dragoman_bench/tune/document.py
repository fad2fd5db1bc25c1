"""A tune's outcome as JSON and back: `read_tuning(write_tuning(t)) == t`.

The contract between a tune and what is made of it later (reports, another tool). Raw measurements lie beside it, in the files
that its `Seen` name. Knows nothing of what the numbers mean.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import members
from dragoman_bench.tune.outcome import Tuning

SCHEMA = 1

_ADAPTER = TypeAdapter(Tuning)


def write_tuning(tuning: Tuning, path: Path) -> None:
    """Raises ConfigError where the file cannot be written."""
    text = json.dumps(to_document(tuning), ensure_ascii=False, indent=1) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}", param="out") from error


def read_tuning(path: Path) -> Tuning:
    """Raises ConfigError on a file that is missing, not a tune's outcome, or of another schema version."""
    try:
        return from_document(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{path} is not a tune's outcome: {where}: {first['msg']}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not a tune's outcome: {error}") from error


def to_document(tuning: Tuning) -> dict[str, Any]:
    """JSON-ready."""
    return {"schema": SCHEMA, **_ADAPTER.dump_python(tuning, mode="json")}


def from_document(document: object) -> Tuning:
    """The inverse of `to_document`. Raises ValueError (pydantic's ValidationError is one)."""
    told = dict(members(document))
    schema = told.pop("schema", None)
    if schema != SCHEMA:
        raise ValueError(f"schema {schema}, this version reads {SCHEMA}")
    return _ADAPTER.validate_python(told)
