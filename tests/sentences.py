"""Messages of the packaged sentences, in every language of the packaged model."""

from __future__ import annotations

import gzip
import json
import random
from functools import cache

from dragoman import phrasebook

_JOINED_BY = {"en": " ", "ko": " ", "ja": "", "zh": ""}
Message = dict[str, str]


@cache
def _sentences() -> list[list[str]]:
    with gzip.open(phrasebook.sentences_file(), "rt", encoding="utf-8") as file:
        read = [json.loads(line) for line in file]
    # Not those with an emoji: in the middle of a message the model takes one for the message's end.
    return [one for one in read if one[0].isascii()]


def messages(count: int, sentences: int = 1, *, seed: int = 5) -> list[Message]:
    """`count` messages of so many sentences each: the text by language."""
    draw = random.Random(seed)
    chosen = [draw.sample(_sentences(), sentences) for _ in range(count)]
    return [
        {
            language: _JOINED_BY[language].join(one[position] for one in message)
            for position, language in enumerate(phrasebook.LANGUAGES)
        }
        for message in chosen
    ]
