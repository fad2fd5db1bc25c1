"""The text of a sequence's token ids: of a whole answer from all of them together, of a stream from those of each event.

vLLM detokenises every token of every sequence as it comes, in the process that also answers requests: half of what that
process does for a token, and at hundreds of sequences the limit of what it can do. Where it reports log-probabilities it
decodes each token a second time. So vLLM is configured to skip it, and the ids are decoded when the sequence has ended, or
with the event of a stream. Stop strings (vLLM looks for them in text) and tokenizers without a Rust backend are left to vLLM.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from dragoman.types import EngineSequence

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"


class Detokenizer:
    """`tokenizer`: the engine's, as vLLM loads it."""

    def __init__(self, tokenizer: Any) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self._backend = backend if isinstance(backend, Tokenizer) else None

    def takes(self, sequence: EngineSequence) -> bool:
        """Whether `text` and `stream` can stand in for vLLM's own detokenisation."""
        return self._backend is not None and not sequence.sampling.stop

    def text_of(self, answer: Any, *, taken: bool) -> str:
        """Of vLLM's `CompletionOutput`, which has no text where the sequence was `taken` from vLLM."""
        return self.text(answer.token_ids, stopped=answer.finish_reason == "stop") if taken else answer.text

    def text(self, token_ids: Sequence[int], *, stopped: bool) -> str:
        """Without special tokens, and without the token that stopped it (`stopped`) or a character that is not whole at the
        end, as vLLM gives it. A leading space may be missing that a prompt would call for."""
        assert self._backend is not None
        kept = token_ids[:-1] if stopped else token_ids
        return self._backend.decode(list(kept), skip_special_tokens=True).rstrip(_UNFINISHED)

    def stream(self) -> TextStream:
        """The text of a new stream."""
        assert self._backend is not None
        return TextStream(self, self._backend)


class TextStream:
    """The text of a stream's tokens as they come; in the end it is `Detokenizer.text` of all of them."""

    def __init__(self, detokenizer: Detokenizer, backend: Tokenizer) -> None:
        self._detokenizer = detokenizer
        self._backend = backend
        self._decoder = DecodeStream(skip_special_tokens=True)
        self._token_ids: list[int] = []
        self._parts: list[str] = []

    def add(self, token_ids: Sequence[int]) -> str:
        """The text of further tokens; empty where they end within a character."""
        self._token_ids += token_ids
        try:
            part = self._decoder.step(self._backend, list(token_ids)) or ""
        except Exception as error:  # the library raises a bare Exception for every fault
            # The text so far is none of the text with these tokens, of which some tokenizers are capable: as vLLM does,
            # go on without what was before.
            if not str(error).startswith("Invalid prefix"):
                raise
            self._decoder = DecodeStream(skip_special_tokens=True)
            part = self._decoder.step(self._backend, list(token_ids)) or ""
        self._parts.append(part)
        return part

    def end(self, token_ids: Sequence[int], *, stopped: bool) -> str:
        """The rest of the text, with the last tokens."""
        self._token_ids += token_ids
        before, whole = "".join(self._parts), self._detokenizer.text(self._token_ids, stopped=stopped)
        if not whole.startswith(before):  # after an invalid prefix: what was sent cannot be taken back
            return ""
        return whole[len(before) :]
