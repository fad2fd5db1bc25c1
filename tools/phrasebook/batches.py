"""The training stream: messages drawn, tokenised, paired and batched in worker processes, without end.

Each worker has its own generator and draws its own messages, so no text is seen twice but by chance. A chunk of
pairs is sorted by length and cut into batches of about equal size, which are then shuffled. Nothing here knows the
model; it hands out token ids and the positions to learn from.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from tools.phrasebook import lines
from tools.phrasebook.corpus import load
from tools.phrasebook.generator import Generator
from tools.phrasebook.mixture import Mixture, renumbered
from tools.phrasebook.render import DIRECTIONS, Message
from tools.phrasebook.split import Split
from tools.phrasebook.tokenizer import EOS_ID, PAD_ID, encode, prompt_ids

_WIDTH_STEP = 8
_LONGEST = 768
_PAIRS_PER_MESSAGE = 4
_HELD_OUT_CLAUSES = 0.5


class Batch(NamedTuple):
    """`ids` is (rows, width), padded at the right; `learn` holds flat positions in it whose next token is answer."""

    ids: Tensor
    learn: Tensor


class Pair(NamedTuple):
    """A prompt with its answer; the answer starts at `start`."""

    ids: list[int]
    start: int


@dataclass(frozen=True, slots=True)
class Stream:
    """What to draw: `messages` a chunk, batches of at most `tokens` including padding. The tokenizer is a file: what is sent
    to a worker process must be small, or the next one starts only when this one has read it."""

    data: Path
    tokenizer: Path
    split: Split
    seed: int
    tokens: int
    messages: int = 4096
    pairs_per_message: int = _PAIRS_PER_MESSAGE
    typed_first: float = 0.0  # as of Mixture

    def batches(self, worker: int) -> Iterator[Batch]:
        """An endless stream, its own for each worker number."""
        draw = self._drawing(worker)
        # A small first chunk, so that training need not wait for a whole one.
        yield from draw(min(self.messages, 512))
        while True:
            yield from draw(self.messages)

    def chunk(self) -> list[Batch]:
        """The first `messages` of worker 0, as batches."""
        return self._drawing(0)(self.messages)

    def _drawing(self, worker: int) -> Callable[[int], list[Batch]]:
        tokenizer = Tokenizer.from_file(str(self.tokenizer))
        tokenizer.encode_special_tokens = True
        seed = self.seed * 10_007 + worker
        generator, rng = self._messages(seed), Random(seed)

        def draw(messages: int) -> list[Batch]:
            batches = list(batched(list(self._pairs(generator, tokenizer, rng, messages)), self.tokens, rng))
            rng.shuffle(batches)
            return batches

        return draw

    def _messages(self, seed: int) -> Mixture | Generator:
        """The whole mixture to train on; what is held out is of patterns and clauses."""
        corpus = load(self.data)
        if self.split == "heldout":
            return Generator(self.split, seed, corpus, _HELD_OUT_CLAUSES)
        return Mixture(seed, corpus, lines.load(self.data), typed_first=self.typed_first)

    def _pairs(
        self, generator: Mixture | Generator, tokenizer: Tokenizer, rng: Random, messages: int
    ) -> Iterator[Pair]:
        for _ in range(messages):
            directions = rng.sample(DIRECTIONS, self.pairs_per_message)
            yield from paired(generator.message(), tokenizer, directions)


def paired(message: Message, tokenizer: Tokenizer, directions: list[tuple[str, str]]) -> Iterator[Pair]:
    """The message's pairs in those directions, without those that are too long for training or have no source."""
    for source, target in directions:
        if source not in message.sources:
            continue
        text, translation = renumbered(message.sources[source], message.texts[target])
        prompt = prompt_ids(tokenizer, source, target, text)
        ids = [*prompt, *encode(tokenizer, translation), EOS_ID]
        if len(ids) <= _LONGEST:
            yield Pair(ids, len(prompt))


def batched(pairs: list[Pair], tokens: int, rng: Random) -> Iterator[Batch]:
    """`pairs` in batches of like length, each of at most `tokens` ids (and at least one pair)."""
    ordered = sorted(pairs, key=lambda pair: len(pair.ids) + rng.random() * _WIDTH_STEP)
    rows: list[Pair] = []
    width = 0
    for pair in ordered:
        wider = max(width, -(-len(pair.ids) // _WIDTH_STEP) * _WIDTH_STEP)
        if rows and wider * (len(rows) + 1) > tokens:
            yield _stack(rows, width)
            rows, wider = [], -(-len(pair.ids) // _WIDTH_STEP) * _WIDTH_STEP
        rows.append(pair)
        width = wider
    if rows:
        yield _stack(rows, width)


def _stack(rows: list[Pair], width: int) -> Batch:
    ids = np.full((len(rows), width), PAD_ID, dtype=np.int32)
    learn: list[np.ndarray] = []
    for row, pair in enumerate(rows):
        ids[row, : len(pair.ids)] = pair.ids
        learn.append(np.arange(pair.start - 1, len(pair.ids) - 1, dtype=np.int64) + row * width)
    return Batch(torch.from_numpy(ids), torch.from_numpy(np.concatenate(learn)))


class _Dataset(IterableDataset[Batch]):
    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self._stream = stream

    def __iter__(self) -> Iterator[Batch]:
        info = get_worker_info()
        return self._stream.batches(info.id if info else 0)


def _quiet_worker(_: int) -> None:
    """Workers leave Ctrl-C to the parent, and take one core each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)


def _processes() -> ForkServerContext:
    """Worker processes forked from one that has imported what they need: importing it in each takes a minute together."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "transformers"])
    return context


def loader(stream: Stream, workers: int, pin: bool) -> DataLoader[Batch]:
    """The stream from that many processes (0: this one), in a fixed order for a fixed number of workers."""
    return DataLoader(
        _Dataset(stream),
        batch_size=None,
        num_workers=workers,
        pin_memory=pin,
        prefetch_factor=8 if workers else None,
        worker_init_fn=_quiet_worker if workers else None,
        multiprocessing_context=_processes() if workers else None,
    )
