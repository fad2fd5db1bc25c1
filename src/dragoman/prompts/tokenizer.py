"""The model's tokenizer, twice: as the vendor made it, for templates; and unable to make control tokens, for text.

Knows no profile and no prompt. `plain` says how the second is made from the first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from tokenizers import Tokenizer

from dragoman.errors import ConfigError, UntranslatableText
from dragoman.prompts.plain import is_layout, unknown_id, without_control_tokens, without_prefix

Message = Mapping[str, object]


class ChatTemplate(Protocol):
    """What a transformers tokenizer offers for rendering a conversation."""

    def apply_chat_template(self, conversation: list[Message], **arguments: Any) -> Any: ...


class TextTokenizer:
    """Encodes text that anybody may have written, and finds control tokens in templates, which we wrote."""

    def __init__(self, tokenizer_json: str, chat: ChatTemplate | None = None, name: str = "tokenizer") -> None:
        tables = json.loads(tokenizer_json)
        plain = without_control_tokens(tables)
        bare = without_prefix(plain)
        self.name = name
        self._chat = chat
        self._full = Tokenizer.from_str(json.dumps({**tables, "truncation": None, "padding": None}))
        self._plain = Tokenizer.from_str(json.dumps(plain))
        self._bare = self._plain if bare is None else Tokenizer.from_str(json.dumps(bare))
        self._added: dict[str, dict[str, Any]] = {
            str(token["content"]): token for token in tables["added_tokens"] if not is_layout(token)
        }
        self.added_ids = frozenset(int(token["id"]) for token in self._added.values()) - {unknown_id(tables["model"])}
        """Ids that no text may become: every added token but runs of white space and the token for unknown characters."""
        tokens = sorted(self._added, key=len, reverse=True)  # the longest wins, as in the tokenizer
        self._pattern = re.compile(f"({'|'.join(map(re.escape, tokens))})" if tokens else "((?!))")

    @classmethod
    def load(cls, model: str | Path, *, trust_remote_code: bool = False) -> TextTokenizer:
        """From a model folder or a hub id. Raises `ConfigError` where there is no fast tokenizer to be had."""
        from transformers import AutoTokenizer  # here, because it takes seconds and only this needs it

        try:
            loaded = cast(Any, AutoTokenizer).from_pretrained(str(model), trust_remote_code=trust_remote_code)
        except (OSError, ValueError, KeyError, ImportError) as fault:
            raise ConfigError(f"no tokenizer could be loaded from {model}: {str(fault).splitlines()[0]}") from fault
        backend = getattr(loaded, "backend_tokenizer", None)
        if not isinstance(backend, Tokenizer):
            raise ConfigError(f"the tokenizer of {model} has no fast form (tokenizer.json); dragoman needs one")
        chat = cast("ChatTemplate", loaded) if getattr(loaded, "chat_template", None) else None
        return cls(backend.to_str(), chat, str(model))

    def count(self, text: str) -> int:
        """Tokens of `text` as the model would read it."""
        return len(self.encode_text(text))

    def encode_text(self, text: str, *, prefix: bool = True) -> list[int]:
        """Ids of `text`, none of them in `added_ids`. Without `prefix`, no space is put before it.

        Raises `UntranslatableText` for a text with lone surrogates.
        """
        try:
            return (self._plain if prefix else self._bare).encode(text, add_special_tokens=False).ids
        except (TypeError, UnicodeEncodeError) as fault:
            raise UntranslatableText("the text has a lone surrogate, which is not Unicode text") from fault

    def encode_template(self, text: str) -> list[int]:
        """Ids of trusted text, control tokens and all, exactly as the vendor's tokenizer gives them."""
        return self._full.encode(text, add_special_tokens=False).ids

    @property
    def opening_ids(self) -> tuple[int, ...]:
        """What the tokenizer puts before any text of its own accord: usually BOS or nothing."""
        encoding = self._full.encode("a", add_special_tokens=True)
        opening: list[int] = []
        for number, special in zip(encoding.ids, encoding.special_tokens_mask, strict=True):
            if not special:
                break
            opening.append(number)
        return tuple(opening)

    def control_id(self, token: str) -> int:
        """Raises `ConfigError` when the tokenizer lacks the token."""
        found = self._added.get(token)
        if found is None:
            raise ConfigError(
                f"the tokenizer of {self.name} has no token {token!r}: is this the profile of that model?"
            )
        return int(found["id"])

    def has(self, token: str) -> bool:
        return token in self._added

    def swallows(self, token: str) -> tuple[bool, bool]:
        """Whether the token takes in white space on its left, and on its right."""
        found = self._added[token]
        return bool(found["lstrip"]), bool(found["rstrip"])

    def split(self, template: str) -> list[str]:
        """A trusted text cut at its control tokens, which stand at the odd places."""
        return self._pattern.split(template)

    @property
    def has_chat_template(self) -> bool:
        return self._chat is not None

    def render_chat(
        self, messages: Sequence[Message], arguments: Mapping[str, object], *, generation_prompt: bool = True
    ) -> str:
        """The checkpoint's own rendering. Raises `ConfigError` when it has no chat template or that refuses."""
        if self._chat is None:
            raise ConfigError(f"{self.name} has no chat template: name a profile, or give one with a wire in a file")
        try:
            rendered = self._chat.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=generation_prompt, **arguments
            )
        except Exception as fault:  # the vendor's template is code, and may raise anything
            raise ConfigError(f"the chat template of {self.name} refuses a translation turn: {fault}") from fault
        return str(rendered)
