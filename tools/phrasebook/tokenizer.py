"""The byte-level tokenizer of the phrasebook model, trained here on generated text, and its prompt.

Any text comes back exactly: there is no normaliser, and bytes are always a fallback. What must be copied is cut the
same way wherever it stands: digits singly, and Latin words that are capitalised or part of an address or code apart
from the space before them. A prompt is `<|bos|><|en|><|ja|>text<|sep|>`, answered by `translation<|eos|>`. Nothing
here knows how the text was made.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from dragoman.phrasebook import LANGUAGES
from tools.phrasebook.corpus import Corpus
from tools.phrasebook.lines import Lines
from tools.phrasebook.mixture import Mixture
from tools.phrasebook.values import stock

PAD, BOS, EOS, SEP = "<|pad|>", "<|bos|>", "<|eos|>", "<|sep|>"
_RESERVED = tuple(f"<|lang{number}|>" for number in range(8))
CONTROLS = (PAD, BOS, EOS, SEP, *(f"<|{language}|>" for language in LANGUAGES), *_RESERVED)
PAD_ID, BOS_ID, EOS_ID, SEP_ID = range(4)
VOCABULARY = 8192

_WORD_ENDS = r"(?![A-Za-z0-9@/_:=>}%&#-]|\.[A-Za-z0-9])"
_SPLIT = "|".join(
    (
        rf" ?[a-z]+{_WORD_ENDS}",
        rf" I{_WORD_ENDS}",
        r"[A-Z]?[a-z]+",
        r"[A-Z]+(?![a-z])",
        r"\d",
        r"\p{Han}+",
        r"[\p{Hiragana}ー]+",
        r"[\p{Katakana}ー]+",
        r" ?\p{Hangul}+",
        r"\s",
        r"[^\s\w]",
    )
)


def language_id(language: str) -> int:
    """The control token of one of LANGUAGES."""
    return 4 + LANGUAGES.index(language)


def prompt_ids(tokenizer: Tokenizer, source: str, target: str, text: str) -> list[int]:
    """The prompt that asks for `text` to be translated. Control tokens spelled in the text stay text."""
    return [BOS_ID, language_id(source), language_id(target), *encode(tokenizer, text), SEP_ID]


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    """`text` as ordinary tokens only."""
    return tokenizer.encode(text, add_special_tokens=False).ids


def load(directory: Path) -> Tokenizer:
    """The tokenizer of a model directory, reading control tokens in a text as text."""
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    return tokenizer


def train(texts: Iterable[str], vocabulary: int = VOCABULARY) -> Tokenizer:
    """A tokenizer fitted to `texts`, with the control tokens at the lowest ids."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(CONTROLS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.encode_special_tokens = True
    return tokenizer


def training_texts(corpus: Corpus, rows: Lines, messages: int, seed: int) -> Iterator[str]:
    """What the tokenizer is fitted to: messages of the training side, every row and word, and the emoji."""
    mixture = Mixture(seed, corpus, rows)
    for _ in range(messages):
        message = mixture.message()
        yield from message.texts.values()
        yield from (text for text in message.sources.values() if text not in message.texts.values())
    for values in corpus.lexicon.values():
        for value in values:
            yield from value.texts
    for row in rows.rows:
        yield from row.standard
    yield from stock().lists["emoji"]


def settings() -> dict[str, Any]:
    """The `tokenizer_config.json` that transformers and vLLM read beside `tokenizer.json`."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "pad_token": PAD,
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1024,
    }
