"""A whole answer's text, from all its token ids together.

vLLM detokenises every token of every sequence as it comes, in the process that also answers requests: half of what that
process does for a token, and at hundreds of sequences the limit of what it can do. A caller who waits for the whole answer
has no use for its parts, so vLLM is configured to skip it, and the ids are decoded when the sequence has ended. Streams, stop
strings (vLLM looks for them in text) and tokenizers without a Rust backend are left to vLLM.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer

from dragoman.types import EngineSequence


class Detokenizer:
    """`tokenizer`: the engine's, as vLLM loads it."""

    def __init__(self, tokenizer: Any) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self._backend = backend if isinstance(backend, Tokenizer) else None

    def takes(self, sequence: EngineSequence) -> bool:
        """Whether `text` can stand in for vLLM's own detokenisation of the whole answer."""
        return self._backend is not None and not sequence.sampling.stop

    def text_of(self, answer: Any, *, taken: bool) -> str:
        """Of vLLM's `CompletionOutput`, which has no text where the sequence was `taken` from vLLM."""
        return self.text(answer.token_ids, stopped=answer.finish_reason == "stop") if taken else answer.text

    def text(self, token_ids: Sequence[int], *, stopped: bool) -> str:
        """Without special tokens, and without the token that stopped it (`stopped`) or a character that is not whole at the
        end, as vLLM gives it. A leading space may be missing that a prompt would call for."""
        assert self._backend is not None
        kept = token_ids[:-1] if stopped else token_ids
        return self._backend.decode(list(kept), skip_special_tokens=True).rstrip("\N{REPLACEMENT CHARACTER}")
