"""A tokenizer's JSON without its control tokens: what makes it safe to encode text that anybody may have written.

A tokenizer looks for its added tokens (`<|im_end|>`, `</s>`, `<think>`) in whatever it is given, so a user could write them.
Options that promise otherwise (`split_special_tokens`, `encode_special_tokens`) still let through tokens whose `special` is
false. Here the control tokens are taken out of the tokenizer: out of its added tokens, out of the model's vocabulary, and
with them the merges by which a model made from SentencePiece could still arrive at them.

Runs of white space (Gemma has them as added tokens) stay: they are layout, not control, and the vendor's rendering uses
them. Knows the JSON of the `tokenizers` library and nothing else.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

_UNREACHABLE_SCORE = -1e9


def is_layout(token: Mapping[str, Any]) -> bool:
    """Whether an added token is only white space, which text may become."""
    return not token["special"] and not str(token["content"]).replace("▁", " ").strip()


def unknown_id(model: Mapping[str, Any]) -> int | None:
    """The id a model gives to characters it has no piece for."""
    if "unk_id" in model:
        return model["unk_id"]
    return model["vocab"].get(model.get("unk_token"))


def without_control_tokens(tokenizer: Json) -> Json:
    """The tokenizer's JSON, unable to produce the id of any added token but layout. `tokenizer` is not changed."""
    plain = {**tokenizer, "truncation": None, "padding": None, "post_processor": None}
    plain["model"] = dict(tokenizer["model"])
    added: list[Json] = tokenizer["added_tokens"]
    control = {str(token["content"]): int(token["id"]) for token in added if not is_layout(token)}
    layout = [token for token in added if is_layout(token)]
    model: Json = plain["model"]
    if model["type"] == "Unigram":
        model["vocab"] = _unigram_pieces(model["vocab"], set(control.values()))
    else:
        if "merges" in model:
            model["merges"] = _merges(model["merges"], control.keys() & model["vocab"].keys())
        model["vocab"] = _vocabulary(model["vocab"], control, layout, model.get("unk_token"))
    known = _pieces(model)
    plain["added_tokens"] = [token for token in layout if token["content"] in known]
    return plain


def without_prefix(tokenizer: Json) -> Json | None:
    """The JSON without the space that some tokenizers put before text, or None where there is nothing to take away.

    SentencePiece tokenizers mark the start of the text with a space; after a control token there is no start, and whether
    the mark comes again differs between them (`legacy`, `prepend_scheme`).
    """
    bare = copy.copy(tokenizer)
    bare["normalizer"] = _no_prefix(tokenizer.get("normalizer"))
    bare["pre_tokenizer"] = _no_prefix(tokenizer.get("pre_tokenizer"))
    return None if bare == tokenizer else bare


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
    kept = {piece: number for piece, number in vocab.items() if piece not in control or piece == unknown}
    # Layout tokens outside the model's vocabulary would be renumbered on loading.
    return {str(token["content"]): int(token["id"]) for token in layout} | kept


def _unigram_pieces(pieces: list[list[Any]], control: set[int]) -> list[list[Any]]:
    """Ids are positions, so a control piece stays, under a name and a score that no segmentation prefers."""
    return [
        [f"\ufdd0{number}", _UNREACHABLE_SCORE] if number in control else piece for number, piece in enumerate(pieces)
    ]


def _merges(merges: list[Any], control: set[str]) -> list[Any]:
    if not control:
        return merges
    return [merge for merge in merges if not _touches(merge, control)]


def _touches(merge: Any, control: set[str]) -> bool:
    left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
    return left in control or right in control or left + right in control


def _pieces(model: Json) -> set[str]:
    """The model's own pieces: an added token that is none of them would be renumbered."""
    return {piece[0] for piece in model["vocab"]} if model["type"] == "Unigram" else set(model["vocab"])
