"""Small files and texts of many tools, in which every letter that is translated becomes another one: what stays, what does not.

Each line of `notations_of_tools.jsonl` has the tool, the format (a file's extension, or `text:` and a text's format), the text,
parts that its translation must have, and words that it must not have, unless they are reported as left.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.wholetext import reading, rewriting
from wholetext.markup import document

CASES = [
    json.loads(line) for line in Path(__file__, "../notations_of_tools.jsonl").resolve().read_text("utf-8").splitlines()
]


@pytest.mark.parametrize("case", CASES, ids=[f"{one['format']}, {one['tool']}" for one in CASES])
def test_notations_stay_and_words_do_not(case: dict[str, Any]) -> None:
    kind, _, markup = case["format"].partition(":")
    left: list[str] = []
    if markup:
        result = reading.written(document.pieces(case["text"], markup), rewriting.changed)
    else:
        data = case["text"].encode()
        left = [one.text for one in rewriting.read(data, kind).left]
        result = rewriting.rewritten(data, kind, rewriting.changed).decode()
    missing = [part for part in case["stays"] if result.count(part) < case["text"].count(part)]
    assert missing == []
    assert [word for word in case["words"] if word in result and not any(word in one for one in left)] == []
