"""Profiles from TOML. Unknown keys, wrong types and missing keys are refused by name; knows nothing of which profiles exist.

A file may say `extends = "<name>"`: it then takes every top-level key it does not set from that profile.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, cast

from dragoman.errors import ConfigError
from dragoman.prompts.profile import Language, Match, ModelSize, Profile, Template
from dragoman.sampling import Sampling

Tables = Mapping[str, Any]


def read_profile(path: Path, base: Callable[[str], Tables]) -> Profile:
    """Raises `ConfigError` for a file that cannot be read or is not a profile. `base` gives the profile extended."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as fault:
        raise ConfigError(f"profile {path}: {fault.strerror}") from fault
    return parse_profile(parse_tables(text, str(path)), str(path), base)


def parse_tables(text: str, where: str) -> Tables:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise ConfigError(f"profile {where}: not TOML: {fault}") from fault


def parse_profile(tables: Tables, where: str, base: Callable[[str], Tables]) -> Profile:
    merged = dict(_extended(tables, where, base))
    nested: dict[str, Callable[[Any, str], Any]] = {
        "templates": lambda value, at: tuple(_build(Template, one, at) for one in _list(value, dict, at)),
        "models": lambda value, at: tuple(_build(ModelSize, one, at) for one in _list(value, dict, at)),
        "languages": _languages,
        "match": lambda value, at: _build(Match, value, at),
        "sampling": lambda value, at: _build(Sampling, value, at),
    }
    for key, parse in nested.items():
        if key in merged:
            merged[key] = parse(merged[key], f"{where}: {key}")
    return _build(Profile, merged, where)


def _extended(tables: Tables, where: str, base: Callable[[str], Tables]) -> Tables:
    if "extends" not in tables:
        return tables
    name = tables["extends"]
    if not isinstance(name, str):
        raise ConfigError(f"profile {where}: extends must be a string")
    own = {key: value for key, value in tables.items() if key != "extends"}
    return {**_extended(base(name), name, base), **own}


def _languages(value: Any, at: str) -> dict[str, Language]:
    """`de = "German"`, or `zh = { en = "Chinese", zh = "中文", code = "zh-Hans" }`. The code is the tag unless said."""
    if not isinstance(value, dict):
        raise ConfigError(f"profile {at}: must be a table")
    languages: dict[str, Language] = {}
    for tag, entry in cast("dict[str, Any]", value).items():
        named: Any = {"en": entry} if isinstance(entry, str) else entry
        languages[tag] = _build(Language, named, f"{at}.{tag}", code=tag)
    return languages


def _build[T](made: type[T], table: Any, at: str, **defaults: Any) -> T:
    """One dataclass from one table: keys are its fields, types are those of its fields."""
    if not isinstance(table, dict):
        raise ConfigError(f"profile {at}: must be a table")
    values: dict[str, Any] = {**defaults, **cast("dict[str, Any]", table)}
    known = {one.name: one for one in fields(made)}  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            raise ConfigError(f"profile {at}: {unknown_key(key, known)}")
    for name, one in known.items():
        if name in values:
            values[name] = _typed(values[name], str(one.type), f"{at}: {name}")
        elif one.default is MISSING and one.default_factory is MISSING:
            raise ConfigError(f"profile {at}: {name!r} is missing")
    return made(**values)


def unknown_key(key: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(known))}"
    return f"unknown key {key!r}{hint}"


def _typed(value: Any, annotation: str, at: str) -> Any:
    """`value` as the field's annotation asks, or a `ConfigError`. Values already built pass."""
    scalars: dict[str, type | tuple[type, ...]] = {
        "str": str, "str | None": str, "bool": bool, "int": int, "int | None": int, "float": (int, float),
    }  # fmt: skip
    if annotation in scalars:
        wanted = scalars[annotation]
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise ConfigError(f"profile {at}: must be {_words(annotation)}, not {value!r}")
        return float(value) if annotation == "float" else value
    if annotation in ("tuple[str, ...]", "tuple[int, ...]"):
        return tuple(_list(value, str if "str" in annotation else int, at))
    choices = _CHOICES.get(annotation)
    if choices is not None and value not in choices:
        raise ConfigError(f"profile {at}: must be one of {', '.join(choices)}, not {value!r}")
    if annotation.startswith("Mapping") and not isinstance(value, dict):
        raise ConfigError(f"profile {at}: must be a table")
    return value


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "Mode": ("chat", "structured", "raw"),
    "NameLanguage": ("en", "zh"),
    "Literal['template', 'tokenizer']": ("template", "tokenizer"),
    'Literal["template", "tokenizer"]': ("template", "tokenizer"),
}


def _words(annotation: str) -> str:
    names = {"str": "a string", "bool": "true or false", "int": "a whole number", "float": "a number"}
    return names[annotation.partition(" ")[0]]


def _list(value: Any, kind: type, at: str) -> list[Any]:
    if not isinstance(value, list) or not all(isinstance(one, kind) for one in cast("list[Any]", value)):
        raise ConfigError(f"profile {at}: must be a list of {kind.__name__}s, not {value!r}")
    return cast("list[Any]", value)
