"""The training stream."""

from itertools import islice
from pathlib import Path
from random import Random

import pytest
from tokenizers import Tokenizer
from tools.phrasebook.batches import Batch, Pair, Stream, batched, loader, paired
from tools.phrasebook.corpus import Corpus
from tools.phrasebook.generator import Generator
from tools.phrasebook.message import DIRECTIONS
from tools.phrasebook.tokenizer import BOS_ID, EOS_ID, SEP_ID, language_id


@pytest.fixture
def stream(data: Path, fitted: Tokenizer) -> Stream:
    return Stream(data, fitted.to_str(), "train", seed=1, tokens=2048, messages=40)


def contents(batches: list[Batch]) -> list[list[list[int]]]:
    return [batch.ids.tolist() for batch in batches]


def test_a_pair_is_a_prompt_and_its_answer(corpus: Corpus, fitted: Tokenizer) -> None:
    message = Generator("train", 1, corpus).message(2)
    pairs = list(paired(message, fitted, list(DIRECTIONS)))
    assert len(pairs) == 12
    for (source, target), pair in zip(DIRECTIONS, pairs, strict=True):
        assert pair.ids[:3] == [BOS_ID, language_id(source), language_id(target)]
        assert pair.ids[pair.start - 1] == SEP_ID
        assert pair.ids[-1] == EOS_ID
        assert fitted.decode(pair.ids[3 : pair.start - 1]) == message.sources[source]
        assert fitted.decode(pair.ids[pair.start : -1]) == message.texts[target]


def test_every_pair_is_in_one_batch_and_only_its_answer_is_learnt() -> None:
    rng = Random(1)
    pairs = [Pair([rng.randrange(16, 99) for _ in range(n)], start=n // 2) for n in rng.choices(range(4, 60), k=100)]
    rows: list[tuple[list[int], list[int]]] = []
    for batch in batched(pairs, 512, rng):
        assert batch.ids.numel() <= 512
        width, flat = batch.ids.shape[1], batch.ids.flatten()
        for row, ids in enumerate(batch.ids.tolist()):
            learnt = [int(flat[at + 1]) for at in batch.learn.tolist() if at // width == row]
            rows.append(([token for token in ids if token], learnt))
    assert sorted(rows) == sorted((pair.ids, pair.ids[pair.start :]) for pair in pairs)


def test_a_stream_repeats_by_seed_and_differs_by_worker(stream: Stream) -> None:
    first = contents(list(islice(stream.batches(0), 5)))
    assert first == contents(list(islice(stream.batches(0), 5)))
    assert first != contents(list(islice(stream.batches(1), 5)))


def test_a_stream_goes_on_with_new_text(stream: Stream) -> None:
    count = len(stream.chunk())
    taken = contents(list(islice(stream.batches(0), 3 * count)))
    assert taken[:count] != taken[count : 2 * count]


def test_worker_processes_hand_over_what_the_stream_holds(stream: Stream) -> None:
    batches = iter(loader(stream, workers=1, pin=False))
    assert contents([next(batches) for _ in range(3)]) == contents(list(islice(stream.batches(0), 3)))
