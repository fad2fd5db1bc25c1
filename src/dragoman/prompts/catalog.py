"""Loads the packaged profiles (`catalog/*.toml`), and selects the profile for a checkpoint."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dragoman import languages
from dragoman.errors import ConfigError
from dragoman.prompts.profile import Profile, Tables, parse_profile, parse_tables, read_profile
from dragoman.types import Example

GENERIC = "chat"
MARKER = "dragoman_profile"  # a key of config.json by which a checkpoint names its profile


@cache
def profiles() -> Mapping[str, Profile]:
    """Return all packaged profiles, by name."""
    return MappingProxyType({name: parse_profile(tables, name, _tables_of) for name, tables in _catalog().items()})


def select(
    model: str,
    config: Mapping[str, Any],
    named: str | None = None,
    file: Path | None = None,
    *,
    has_chat_template: Callable[[], bool] = lambda: False,
) -> Profile:
    """Select the profile for a checkpoint; `config` is its config.json. Raises `ConfigError`.

    The first of these decides: a user's file, the name of a profile, the checkpoint's own marker, its name, its
    architecture and vocabulary. Otherwise it is the generic chat profile, if the checkpoint has a chat template.
    """
    if file is not None:
        return read_profile(file, _tables_of)
    if named:
        return _named(named, "given")
    if config.get(MARKER):
        return _named(str(config[MARKER]), f"{MARKER} in config.json")
    by_name = _by_name(model, config)
    if by_name is not None:
        return by_name
    likely = [profile for profile in profiles().values() if _fits_config(profile, config)]
    if len(likely) == 1:
        return likely[0]
    if likely:
        raise ConfigError(
            f"{model} may be one of several models that need different prompts: name the profile with --profile"
            f" ({', '.join(profile.name for profile in likely)}; {GENERIC} for a general instruct model)"
        )
    if has_chat_template():
        return profiles()[GENERIC]
    raise ConfigError(
        f"no profile fits {model}, and it has no chat template: name a profile with --profile"
        f" ({_known()}) or describe its prompts in a TOML file (--profile-file)"
    )


def _named(name: str, origin: str) -> Profile:
    found = profiles().get(name)
    if found is None:
        raise ConfigError(f"no profile {name!r} ({origin}); there are {_known()}")
    return found


def _known() -> str:
    return ", ".join(sorted(profiles()))


def _by_name(model: str, config: Mapping[str, Any]) -> Profile | None:
    """Match the name of the folder or hub id, then the name in config.json, if the architecture does not contradict it."""
    for name in (Path(model).name, str(config.get("_name_or_path", ""))):
        for profile in profiles().values():
            if any(re.search(pattern, name, re.IGNORECASE) for pattern in profile.match.names) and (
                "architectures" not in config or _fits_architecture(profile, config)
            ):
                return profile
    return None


def _fits_architecture(profile: Profile, config: Mapping[str, Any]) -> bool:
    wanted = profile.match.architectures
    return not wanted or bool(set(wanted) & set(config.get("architectures") or ()))


def _fits_config(profile: Profile, config: Mapping[str, Any]) -> bool:
    """Match config.json alone, which is possible only for profiles that list vocabulary sizes."""
    text_model: Mapping[str, Any] = config.get("text_config") or config  # multimodal models keep it apart
    return text_model.get("vocab_size") in profile.match.vocab_sizes and _fits_architecture(profile, config)


def _tables_of(name: str) -> Tables:
    found = _catalog().get(name)
    if found is None:
        raise ConfigError(f"extends: no profile {name!r}; there are {', '.join(sorted(_catalog()))}")
    return found


@cache
def reworded_examples(source: str | None, target: str) -> tuple[Example, ...]:
    """Return what a prompt in the second form shows before its text; nothing where a language has none of it."""
    sources, targets = _example_texts(source), _example_texts(target)
    return tuple(Example(*pair) for pair in zip(sources, targets, strict=True)) if sources and targets else ()


def _example_texts(tag: str | None) -> Sequence[str]:
    """The texts in a language, or in its language without a region; they are in the order of all others."""
    texts = _all_example_texts()
    if tag is None or tag in texts:
        return texts.get(tag or "", ())
    primary = languages.primary(tag)
    return texts.get(primary, ()) if languages.script(tag) == languages.script(primary) else ()


@cache
def _all_example_texts() -> Mapping[str, Sequence[str]]:
    return tomllib.loads((files("dragoman.prompts") / "data" / "examples.toml").read_text(encoding="utf-8"))


@cache
def _catalog() -> Mapping[str, Tables]:
    texts = sorted(
        (entry.name.removesuffix(".toml"), entry.read_text(encoding="utf-8"))
        for entry in (files("dragoman.prompts") / "catalog").iterdir()
        if entry.name.endswith(".toml")
    )
    return {name: parse_tables(text, name) for name, text in texts}
