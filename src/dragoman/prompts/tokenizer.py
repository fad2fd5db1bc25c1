"""Loads the model's tokenizer twice: unchanged for templates, and without its control tokens for text.

A tokenizer finds its added tokens (`<|im_end|>`, `</s>`, `<think>`) in every text, so that a client could write them.
The options against this (`split_special_tokens`, `encode_special_tokens`) still accept tokens whose `special` is
false. Therefore the control tokens are removed from the JSON of the second tokenizer: from the added tokens, from the
model's vocabulary, and from the merges, which would otherwise make them in models converted from SentencePiece. Runs of
white space (added tokens in Gemma) are kept: they are layout, not control, and the vendor's rendering uses them.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any
from unicodedata import normalize

import orjson
from tokenizers import Tokenizer

from dragoman.errors import ConfigError, UntranslatableText
from dragoman.prompts.vendor import ChatTemplate, Message, chat_template, load_tokenizer

Json = dict[str, Any]
_MOST_CACHED_CHARACTERS = 2000


class TextTokenizer:
    """Encodes text of clients without control tokens, and finds control tokens in templates, which are trusted."""

    def __init__(self, tokenizer: Tokenizer, chat: ChatTemplate | None = None, name: str = "tokenizer") -> None:
        """`tokenizer` loses what was saved with it of truncation and padding."""
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tables = orjson.loads(tokenizer.to_str())
        plain = without_control_tokens(tables)
        without_space = without_prefix(plain)
        self.name = name
        self._chat = chat
        self._full = tokenizer
        self._plain = _tokenizer(plain)
        self._unprefixed = self._plain if without_space is None else _tokenizer(without_space)
        self._added = control_tokens(tables)
        self.added_ids = frozenset(int(token["id"]) for token in self._added.values()) - {unknown_id(tables["model"])}
        """Ids that a text must not have: all added tokens except runs of white space and the unknown token."""
        # Planning counts the same text for its segments, its prompt and its longest output.
        self._cached_count = lru_cache(maxsize=512)(self._count)
        tokens = sorted(self._added, key=len, reverse=True)  # the longest wins, as in the tokenizer
        self._pattern = re.compile(f"({'|'.join(map(re.escape, tokens))})" if tokens else "((?!))")

    @classmethod
    def load(cls, folder: Path, *, name: str = "", trust_remote_code: bool = False) -> TextTokenizer:
        """Load the tokenizer of a checkpoint's folder. Raises `ConfigError` if it has none that can be used.

        `name`: in errors; the folder's by default. `trust_remote_code`: run a tokenizer class that comes with the model.
        """
        tokenizer = load_tokenizer(folder, trust_remote_code=trust_remote_code)
        return cls(tokenizer, chat_template(folder), name or str(folder))

    def count(self, text: str) -> int:
        """The number of tokens of `text`."""
        return self._cached_count(text) if len(text) <= _MOST_CACHED_CHARACTERS else self._count(text)

    def _count(self, text: str) -> int:
        return len(self.encode_text(text))

    def encode_text(self, text: str, *, prefix: bool = True) -> list[int]:
        """Return ids of `text`, none of them in `added_ids`. Without `prefix`, no space is put before it.

        Raises `UntranslatableText` for a text with lone surrogates.
        """
        try:
            return (self._plain if prefix else self._unprefixed).encode(text, add_special_tokens=False).ids
        except (TypeError, UnicodeEncodeError) as fault:
            raise UntranslatableText("the text has a lone surrogate, which is not Unicode text") from fault

    def encode_template(self, text: str) -> list[int]:
        """Return ids of trusted text including control tokens, exactly as the vendor's tokenizer does."""
        return self._full.encode(text, add_special_tokens=False).ids

    @property
    def opening_ids(self) -> tuple[int, ...]:
        """The ids that the tokenizer puts before every text: usually BOS or none."""
        encoding = self._full.encode("a", add_special_tokens=True)
        marked = zip(encoding.ids, encoding.special_tokens_mask, strict=True)
        return tuple(number for number, _ in takewhile(lambda one: one[1], marked))

    @property
    def control_ids(self) -> dict[str, int]:
        """The ids of the control tokens by their text."""
        return {text: int(token["id"]) for text, token in self._added.items()}

    @property
    def backend(self) -> Tokenizer:
        """The vendor's tokenizer, which finds control tokens in every text."""
        return self._full

    def control_id(self, token: str) -> int:
        """Return the id of a control token. Raises `ConfigError` if the tokenizer lacks it."""
        found = self._added.get(token)
        if found is None:
            raise ConfigError(
                f"the tokenizer of {self.name} has no token {token!r}: name the profile of that model with --profile"
            )
        return int(found["id"])

    def has(self, token: str) -> bool:
        return token in self._added

    def absorbs_space(self, token: str) -> tuple[bool, bool]:
        """Whether the token absorbs white space on its left, and on its right."""
        found = self._added[token]
        return bool(found["lstrip"]), bool(found["rstrip"])

    def split(self, template: str) -> list[str]:
        """Split a trusted text at its control tokens, which have the odd indexes of the result."""
        return self._pattern.split(template)

    @property
    def has_chat_template(self) -> bool:
        return self._chat is not None

    def render_chat(
        self, messages: Sequence[Message], arguments: Mapping[str, object], *, generation_prompt: bool = True
    ) -> str:
        """Render with the checkpoint's chat template. Raises `ConfigError` if there is none or it fails."""
        if self._chat is None:
            raise ConfigError(
                f"{self.name} has no chat template: name a profile with --profile, or"
                " write one with a wire format of its own (--profile-file)"
            )
        try:
            return self._chat.render(messages, arguments, generation_prompt=generation_prompt)
        except Exception as fault:  # the vendor's template is code, and may raise anything
            raise ConfigError(f"the chat template of {self.name} fails on a translation turn: {fault}") from fault


# ---- a tokenizer's JSON without control tokens

_UNREACHABLE_SCORE = -1e9


def most_tokens(text: str) -> int:
    """A number that no tokenizer's count of a text exceeds: its bytes in the longest of Unicode's forms, and a space."""
    return (len(text) if text.isascii() else len(normalize("NFKD", text).encode("utf-8", "surrogatepass"))) + 1


def _tokenizer(tables: Json) -> Tokenizer:
    return Tokenizer.from_str(orjson.dumps(tables).decode())


def is_layout(token: Mapping[str, Any]) -> bool:
    """Whether an added token is only white space, which text may contain."""
    return not token["special"] and not str(token["content"]).replace("▁", " ").strip()


def control_tokens(tokenizer: Mapping[str, Any]) -> dict[str, Json]:
    """Return the added tokens of a tokenizer's JSON that are not layout, by their text."""
    return {str(token["content"]): token for token in tokenizer["added_tokens"] if not is_layout(token)}


def unknown_id(model: Mapping[str, Any]) -> int | None:
    """Return the id of the token for unknown characters, or None."""
    if "unk_id" in model:
        return model["unk_id"]
    return model["vocab"].get(model.get("unk_token"))


def without_control_tokens(tokenizer: Json) -> Json:
    """Return the tokenizer's JSON without any added token except layout. `tokenizer` is not changed."""
    plain = {**tokenizer, "truncation": None, "padding": None, "post_processor": None}
    plain["model"] = dict(tokenizer["model"])
    added: list[Json] = tokenizer["added_tokens"]
    control = {str(token["content"]): int(token["id"]) for token in added if not is_layout(token)}
    layout = [token for token in added if is_layout(token)]
    model: Json = plain["model"]
    if model["type"] == "Unigram":
        model["vocab"] = _unigram_vocabulary(model["vocab"], set(control.values()))
    else:
        if "merges" in model:
            model["merges"] = _merges(model["merges"], control.keys() & model["vocab"].keys())
        model["vocab"] = _vocabulary(model["vocab"], control, layout, model.get("unk_token"))
    # An added token that the vocabulary lacks would be renumbered.
    known = {entry[0] for entry in model["vocab"]} if model["type"] == "Unigram" else set(model["vocab"])
    plain["added_tokens"] = [token for token in layout if token["content"] in known]
    return plain


def without_prefix(tokenizer: Json) -> Json | None:
    """Return the JSON without the space that some tokenizers put before text; None if this one puts none.

    SentencePiece tokenizers put a space before the text. Some of them also put one after a control token (`legacy`,
    `prepend_scheme`).
    """
    changed = copy.copy(tokenizer)
    changed["normalizer"] = _no_prefix(tokenizer.get("normalizer"))
    changed["pre_tokenizer"] = _no_prefix(tokenizer.get("pre_tokenizer"))
    return None if changed == tokenizer else changed


def _no_prefix(step: Json | None) -> Json | None:
    if step is None or step["type"] == "Prepend":
        return None
    step = dict(step)
    for inner in ("normalizers", "pretokenizers"):
        if inner in step:
            step[inner] = [one for one in map(_no_prefix, step[inner]) if one is not None]
    if "prepend_scheme" in step:
        step["prepend_scheme"] = "never"
    if step.get("add_prefix_space"):
        step["add_prefix_space"] = False
    return step


def _vocabulary(
    vocab: dict[str, int], control: dict[str, int], layout: list[Json], unknown: str | None
) -> dict[str, int]:
    kept = {entry: number for entry, number in vocab.items() if entry not in control or entry == unknown}
    # Layout tokens outside the model's vocabulary would be renumbered on loading.
    return {str(token["content"]): int(token["id"]) for token in layout} | kept


def _unigram_vocabulary(vocab: list[list[Any]], control: set[int]) -> list[list[Any]]:
    """Make control tokens of a unigram vocabulary unusable by their name and score; ids are positions, so they stay."""
    return [
        [f"\ufdd0{number}", _UNREACHABLE_SCORE] if number in control else entry for number, entry in enumerate(vocab)
    ]


def _merges(merges: list[Any], control: set[str]) -> list[Any]:
    """Remove merges that use or make a control token."""

    def makes_control(merge: Any) -> bool:
        left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
        return left in control or right in control or left + right in control

    return [merge for merge in merges if not makes_control(merge)] if control else merges
