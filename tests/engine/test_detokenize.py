"""Decoding an answer at its end, held against vLLM's own decoding token by token."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from dragoman.engine.detokenize import Detokenizer
from dragoman.pipelines.base import Pipeline
from dragoman.types import Completion, EngineSequence, Sampling

TEXT = "Guten Tag, das Zimmer 12 kostet 80 €.\nどこですか？ 안녕하세요!"


@pytest.fixture(scope="module")
def backend(model_dir: Path) -> Tokenizer:
    return Tokenizer.from_file(str(model_dir / "tokenizer.json"))


@pytest.fixture(scope="module")
def detokenizer(backend: Tokenizer) -> Detokenizer:
    return Detokenizer(SimpleNamespace(backend_tokenizer=backend))


def token_by_token(backend: Tokenizer, ids: list[int]) -> str:
    """As vLLM's FastIncrementalDetokenizer does it."""
    stream = DecodeStream(ids=[1, 4, 5], skip_special_tokens=True)
    return "".join(stream.step(backend, one) or "" for one in ids)


@pytest.mark.parametrize("text", [TEXT, "a", "  two  spaces ", "👩‍👩‍👧 done"])
def test_the_text_is_what_comes_token_by_token(backend: Tokenizer, detokenizer: Detokenizer, text: str) -> None:
    ids = backend.encode(text, add_special_tokens=False).ids
    assert detokenizer.text(ids, stopped=False) == token_by_token(backend, ids)


def test_the_token_that_stopped_it_is_no_text(backend: Tokenizer, detokenizer: Detokenizer) -> None:
    ids = backend.encode(TEXT, add_special_tokens=False).ids
    line_break = backend.encode("\n", add_special_tokens=False).ids
    assert detokenizer.text([*ids, *line_break], stopped=True) == detokenizer.text(ids, stopped=False)
    assert detokenizer.text([], stopped=False) == ""


def test_special_tokens_are_no_text(backend: Tokenizer, detokenizer: Detokenizer) -> None:
    ids = backend.encode(TEXT, add_special_tokens=False).ids
    special = [one for one, token in backend.get_added_tokens_decoder().items() if token.special]
    assert special
    assert detokenizer.text([*ids[:2], special[0], *ids[2:]], stopped=False) == detokenizer.text(ids, stopped=False)


def test_half_a_character_at_the_end_is_left_out(backend: Tokenizer, detokenizer: Detokenizer) -> None:
    ids = backend.encode("ab 👩", add_special_tokens=False).ids
    halves = [ids[:end] for end in range(1, len(ids)) if "\ufffd" in backend.decode(ids[:end])]
    if not halves:
        pytest.skip("this tokenizer has the character as one token")
    assert {detokenizer.text(half, stopped=False).rstrip() for half in halves} == {"ab"}


@pytest.mark.parametrize("text", [TEXT, "a", "  two  spaces ", "👩‍👩‍👧 done", "ab 👩"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_a_stream_in_pieces_is_the_whole_text(
    backend: Tokenizer, detokenizer: Detokenizer, text: str, size: int
) -> None:
    ids = backend.encode(text, add_special_tokens=False).ids
    for end in range(1, len(ids) + 1):  # also where it ends within a character
        pieces = [ids[at : at + size] for at in range(0, end, size)]
        stream = detokenizer.stream()
        parts = [*(stream.add(piece) for piece in pieces[:-1]), stream.end(pieces[-1], stopped=True)]
        assert "".join(parts) == detokenizer.text([*(one for piece in pieces for one in piece)], stopped=True)
        assert "\ufffd" not in "".join(parts)


def test_stop_strings_and_other_tokenizers_are_left_to_vllm(detokenizer: Detokenizer) -> None:
    sequence = EngineSequence("1", (1,), 4)
    assert detokenizer.takes(sequence)
    assert not detokenizer.takes(EngineSequence("1", (1,), 4, sampling=Sampling(stop=("\n",))))
    assert not Detokenizer(object()).takes(sequence)
    assert not Detokenizer(None).takes(sequence)


@pytest.mark.engine
async def test_the_engine_says_the_same_with_and_without_a_stop_string(engine_pipeline: Pipeline) -> None:
    """A stop string that never comes makes vLLM detokenise."""
    prompt = (1, 4, 5, 56, 772, 709, 29, 3)

    async def said(sampling: Sampling) -> Completion:
        return await engine_pipeline.generate(EngineSequence(uuid4().hex, prompt, 40, sampling=sampling))

    ours, theirs = await asyncio.gather(said(Sampling()), said(Sampling(stop=("\x00never",))))
    assert ours.text.strip()
    assert (ours.text, ours.reason, ours.completion_tokens) == (theirs.text, theirs.reason, theirs.completion_tokens)
