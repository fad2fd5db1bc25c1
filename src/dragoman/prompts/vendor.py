"""A checkpoint's tokenizer and chat template, read from the files that its vendor publishes.

They are read with `tokenizers` and jinja2 alone, and are what transformers' `AutoTokenizer` makes of the same files: its
import takes seconds and brings torch. `tokenizer.json` is the tokenizer; `tokenizer_config.json` adds tokens that are not in
it. A tokenizer that is in no `tokenizer.json`, or is code of the checkpoint's own, is left to transformers, where that is
installed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from tokenizers import AddedToken, Tokenizer

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from jinja2 import Environment, Template

Message = Mapping[str, object]
Json = dict[str, Any]

_NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""Keys of `tokenizer_config.json`, by whose names a chat template writes a token."""
_PROPERTIES = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")


class ChatTemplate:
    """A checkpoint's template of conversations in Jinja."""

    def __init__(self, source: str, tokens: Mapping[str, str] | None = None) -> None:
        """`tokens`: the control tokens that the template writes, by their names, such as `bos_token`."""
        self._source = source
        self._tokens = dict(tokens or {})

    @cached_property
    def _template(self) -> Template:
        return _environment().from_string(self._source)

    def render(self, messages: Sequence[Message], arguments: Mapping[str, object], *, generation_prompt: bool) -> str:
        """The template is code of the vendor, in a sandbox: it may raise anything."""
        given = {**self._tokens, "tools": None, "documents": None, **arguments}
        return self._template.render(messages=list(messages), add_generation_prompt=generation_prompt, **given)


def chat_template(folder: Path) -> ChatTemplate | None:
    """Return the chat template that a checkpoint's folder has, or None. Raises `ConfigError` for a file that cannot be read."""
    config = _config(folder)
    source = config.get("chat_template")
    if isinstance(source, list):  # several by their names
        named = cast("list[Json]", source)
        source = next((one["template"] for one in named if one.get("name") == "default"), None)
    file = folder / "chat_template.jinja"
    if file.is_file():
        source = file.read_text(encoding="utf-8")
    tokens = {name: _token(config[name]).content for name in _NAMED if config.get(name)}
    return ChatTemplate(source, tokens) if isinstance(source, str) else None


def load_tokenizer(folder: Path, *, trust_remote_code: bool = False) -> Tokenizer:
    """Load the tokenizer of a checkpoint's folder. Raises `ConfigError` if it has none that can be used.

    `trust_remote_code`: run a tokenizer class that comes with the model.
    """
    config = _config(folder)
    file = folder / "tokenizer.json"
    if not file.is_file() or (trust_remote_code and "AutoTokenizer" in config.get("auto_map", ())):
        return _by_transformers(folder, trust_remote_code)
    try:
        tokenizer = Tokenizer.from_file(str(file))
        _add_tokens(tokenizer, config)
    except Exception as fault:  # the library raises nothing more exact, and the config may be of any form
        raise ConfigError(
            f"{file} and tokenizer_config.json cannot be read as a tokenizer: {_first_line(fault)}"
        ) from fault
    return tokenizer


def _add_tokens(tokenizer: Tokenizer, config: Json) -> None:
    """Add the tokens of `tokenizer_config.json` that `tokenizer.json` lacks or has with other properties."""
    own = {token.content: repr(token) for token in tokenizer.get_added_tokens_decoder().values()}
    listed: dict[str, Any] = config.get("added_tokens_decoder") or {}
    tokens = [_token(listed[number]) for number in sorted(listed, key=int)]
    missing = [token for token in tokens if repr(token) != own.get(token.content)]
    known = {*own, *(token.content for token in tokens)}
    extra: Any = config.get("extra_special_tokens") or config.get("additional_special_tokens") or ()
    named: list[Any] = [config[name] for name in _NAMED if config.get(name)]
    named += cast("Json", extra).values() if isinstance(extra, dict) else extra
    for token in map(_token, named):
        if token.content not in known:
            known.add(token.content)
            missing.append(token)
    if missing:
        tokenizer.add_tokens(missing)


def _token(given: Any) -> AddedToken:
    """A token from its text, or from its text with its properties."""
    found = cast("Json", given) if isinstance(given, dict) else {"content": str(given)}
    properties: Any = {"special": True, "normalized": False}
    return AddedToken(**properties | {name: found[name] for name in _PROPERTIES if name in found})


def _by_transformers(folder: Path, trust_remote_code: bool) -> Tokenizer:
    try:
        from transformers import AutoTokenizer
    except ImportError as fault:
        raise ConfigError(
            f"{folder} has no tokenizer.json: save one there with transformers' AutoTokenizer, or install transformers,"
            " which dragoman[cpu] and dragoman[cuda] bring"
        ) from fault
    try:
        loaded = cast(Any, AutoTokenizer).from_pretrained(str(folder), trust_remote_code=trust_remote_code)
    except (OSError, ValueError, KeyError, ImportError) as fault:
        raise ConfigError(f"cannot load a tokenizer from {folder}: {_first_line(fault)}") from fault
    backend = getattr(loaded, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise ConfigError(f"the tokenizer of {folder} has no fast form (tokenizer.json); dragoman needs one")
    return backend


def _config(folder: Path) -> Json:
    """`tokenizer_config.json`; of checkpoints before it listed the added tokens, with `special_tokens_map.json`."""
    config = _json(folder / "tokenizer_config.json")
    return config if "added_tokens_decoder" in config else config | _json(folder / "special_tokens_map.json")


def _json(file: Path) -> Json:
    if not file.is_file():
        return {}
    try:
        found: object = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise ConfigError(f"{file} cannot be read: {_first_line(fault)}") from fault
    if not isinstance(found, dict):
        raise ConfigError(f"{file} is not a JSON object")
    return cast(Json, found)


def _first_line(fault: Exception) -> str:
    return (str(fault).splitlines() or [type(fault).__name__])[0]


# ---- Jinja as chat templates are written for


def _environment() -> Environment:
    """Jinja with what transformers adds for chat templates. Imported here: commands that render none need not wait for it."""
    from jinja2 import nodes
    from jinja2.exceptions import TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}` marks what a model writes, for training; it renders what is in it."""

        tags: ClassVar[set[str]] = {"generation"}  # pyright: ignore[reportIncompatibleVariableOverride]

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json  # Jinja's own escapes HTML
    functions = cast("Json", environment.globals)
    functions |= {"raise_exception": raise_exception, "strftime_now": _strftime_now}
    return environment


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)
