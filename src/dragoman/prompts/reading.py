"""Profiles from TOML. Unknown keys, wrong types and missing keys are refused by name; knows nothing of which profiles exist.

A file may say `extends = "<name>"`: it then takes every top-level key it does not set from that profile.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from dragoman.errors import ConfigError
from dragoman.prompts.profile import Language, Match, ModelSize, Profile, Template
from dragoman.types import Sampling

Tables = Mapping[str, Any]
Base = Callable[[str], Tables]


def read_profile(path: Path, base: Base) -> Profile:
    """Raises `ConfigError` for a file that cannot be read or is not a profile. `base` gives the tables of one extended."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise ConfigError(f"profile {path}: cannot be read: {fault}") from fault
    return parse_profile(parse_tables(text, str(path)), str(path), base)


def parse_tables(text: str, where: str) -> Tables:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise ConfigError(f"profile {where}: not TOML: {fault}") from fault


def parse_profile(tables: Tables, where: str, base: Base) -> Profile:
    merged = dict(_extended(tables, where, base))
    merged["languages"] = _languages(merged.get("languages"))
    for key, known, at in _keys(merged):
        if key not in known:
            raise ConfigError(f"profile {where}: {unknown_key(key, known)}{at}")
    try:
        # JSON: there a list may stand for a tuple while every other type must be exactly right.
        return _adapter().validate_json(json.dumps(merged, default=str), strict=True)
    except ValidationError as fault:
        first = fault.errors(include_url=False)[0]
        path = ".".join(str(step) for step in first["loc"])
        raise ConfigError(f"profile {where}: {path}: {first['msg']}") from fault


def unknown_key(key: str, known: frozenset[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
    return f"unknown key {key!r}; {hint}"


@cache
def _adapter() -> TypeAdapter[Profile]:
    return TypeAdapter(Profile)


def _extended(tables: Tables, where: str, base: Base) -> Tables:
    if "extends" not in tables:
        return tables
    name = tables["extends"]
    if not isinstance(name, str):
        raise ConfigError(f"profile {where}: extends: must be the name of a profile")
    own = {key: value for key, value in tables.items() if key != "extends"}
    return {**_extended(base(name), name, base), **own}


def _languages(value: Any) -> Any:
    """`de = "German"` is short for `de = { en = "German", code = "de" }`."""
    if not isinstance(value, dict):
        return value
    named = ((tag, {"en": one} if isinstance(one, str) else one) for tag, one in cast("dict[str, Any]", value).items())
    return {tag: {"code": tag, **cast("Tables", one)} if isinstance(one, dict) else one for tag, one in named}


def _keys(tables: Tables) -> Iterator[tuple[str, frozenset[str], str]]:
    """Every key that must be a field, the fields it may be, and where it stands."""
    nested: tuple[tuple[str, type, list[Any]], ...] = (
        ("", Profile, [tables]),
        ("templates", Template, _items(tables.get("templates"))),
        ("models", ModelSize, _items(tables.get("models"))),
        ("languages", Language, _items(tables.get("languages"))),
        ("match", Match, [tables.get("match")]),
        ("sampling", Sampling, [tables.get("sampling")]),
    )
    for table_name, made, found in nested:
        known = frozenset(one.name for one in fields(made))
        for table in found:
            for key in cast("Tables", table) if isinstance(table, dict) else ():
                yield key, known, f" (in {table_name})" if table_name else ""


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("Tables", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []
