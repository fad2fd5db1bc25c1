"""The calls of the load, and the right answer to each, computed from its text alone.

Over the fake engine a translation is the text with each ASCII letter but the first of a block in a circle. This module states
that rule again instead of importing it, and shares no code with the server. Each call has a number, which is in its texts as
words, so that an answer tells whose it is. Knows no HTTP client.
"""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

SOURCE, TARGET = "en", "ja"
_CIRCLED = {ord(letter): chr(0x24D0 + ord(letter) % 26) for letter in string.ascii_letters}
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_PLACES = ("train station", "old river", "small garden", "library", "night market", "green hill", "harbour", "museum")
_DOINGS = ("opens early", "is closed today", "was painted again", "has a new door", "sells fresh bread", "is far away")


def circled(text: str, *, begins: bool = True) -> str:
    """The right translation of a block. `begins` False: it is the later part of one."""
    first = next((place for place, letter in enumerate(text) if letter.isalpha()), -1) if begins else -1
    return text[: first + 1] + text[first + 1 :].translate(_CIRCLED)


def name_of(number: int) -> str:
    """Words that no other number has; English ones, so that the language can be detected. Digits would stay as they are."""
    return " ".join(_DIGITS[int(digit)] for digit in str(number))


def sentence(number: int, part: int = 0) -> str:
    """An English sentence with the number's name; `part` tells the texts of one call apart."""
    rng = Random(f"{number} {part}")
    return f"The {rng.choice(_PLACES)} of house {name_of(number)} in street {name_of(part)} {rng.choice(_DOINGS)}"


@dataclass(frozen=True, slots=True)
class AnswerTexts:
    """What a body says: its texts, or the code of an error; neither: it ended before its end."""

    texts: tuple[str, ...] | None = None
    code: str = ""


@dataclass(frozen=True, slots=True)
class SentCall:
    """One call. `number` is its own; `expected`: the right texts; `or_else`: others that are right as well, if any.

    `characters`: what is charged for it.
    """

    kind: str
    key: str
    number: int
    path: str
    body: dict[str, Any]
    expected: tuple[str, ...]
    characters: int
    read: Callable[[bytes], AnswerTexts]
    or_else: tuple[str, ...] | None = None


def _native(key: str, number: int, texts: list[str], expected: list[str], kind: str, **options: Any) -> SentCall:
    body = {"text": texts, "source": SOURCE, "target": TARGET, **options}
    read = read_native_stream if options.get("stream") else read_native
    return SentCall(kind, key, number, "/v1/translate", body, tuple(expected), sum(map(len, texts)), read)


def text_call(key: str, number: int) -> SentCall:
    texts = [sentence(number, part) for part in range(1 + number % 3)]
    return _native(key, number, texts, [circled(one) for one in texts], "text")


def stream_call(key: str, number: int) -> SentCall:
    texts = [sentence(number, part) for part in range(1 + number % 2)]
    return _native(key, number, texts, [circled(one) for one in texts], "stream", stream=True)


def html_call(key: str, number: int) -> SentCall:
    """Two blocks, one of them with an inline tag."""
    first, second, last = (sentence(number, part) for part in range(3))
    html = f"<p>{first} <b>{second}</b> today</p><ul><li>{last}</li></ul>"
    bold = f"<b>{circled(second, begins=False)}</b> {circled('today', begins=False)}"
    expected = f"<p>{circled(first)} {bold}</p><ul><li>{circled(last)}</li></ul>"
    return _native(key, number, [html], [expected], "html", format="html")


def deepl_call(key: str, number: int) -> SentCall:
    texts = [sentence(number, part) for part in range(1 + number % 4)]
    body = {"text": texts, "source_lang": SOURCE.upper(), "target_lang": TARGET.upper()}
    expected = tuple(map(circled, texts))
    return SentCall("deepl", key, number, "/v2/translate", body, expected, sum(map(len, texts)), read_native)


def chat_call(key: str, number: int) -> SentCall:
    """Every second one streams."""
    text, streams = sentence(number), bool(number % 2)
    body = {"model": f"dragoman/{TARGET}", "messages": [{"role": "user", "content": text}], "stream": streams}
    read = read_chat_stream if streams else read_chat
    kind = "chat stream" if streams else "chat"
    return SentCall(kind, key, number, "/v1/chat/completions", body, (circled(text),), len(text), read)


def memory_call(key: str, number: int, *, is_seen: bool) -> SentCall:
    """A text whose translation was stored before. `is_seen` False: by another server, so that this one may not know it yet."""
    text, translation = memory_entry(number)
    call = _native(key, number, [text], [translation], "memory")
    return call if is_seen else replace(call, or_else=(circled(text),))


def memory_entry(number: int) -> tuple[str, str]:
    """A text and the translation that a person has stored for it."""
    return sentence(number), f"保存された {number}"


CALLS: tuple[Callable[[str, int], SentCall], ...] = (text_call, stream_call, html_call, deepl_call, chat_call)

# ---- reading answers, with nothing of the server's models


def error_code(body: bytes, status: int) -> str:
    """The code of an error; of one without a code, its status."""
    try:
        error = json.loads(body).get("error")
        return str(error["code"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"http_{status}"


def read_native(body: bytes) -> AnswerTexts:
    """Of the native API and DeepL's."""
    return AnswerTexts(tuple(one["text"] for one in json.loads(body)["translations"]))


def read_chat(body: bytes) -> AnswerTexts:
    return AnswerTexts(tuple(one["message"]["content"] for one in json.loads(body)["choices"]))


def _events(body: bytes) -> list[str]:
    lines = body.decode("utf-8").split("\n")
    return [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]


def read_native_stream(body: bytes) -> AnswerTexts:
    """The deltas must be the texts of the translations, which come once each."""
    events = _events(body)
    deltas, texts = dict[int, str](), dict[int, list[str]]()
    for event in map(json.loads, events[:-1] if events[-1:] == ["[DONE]"] else events):
        if "error" in event:
            return AnswerTexts(code=event["error"]["code"])
        if "delta" in event:
            deltas[event["index"]] = deltas.get(event["index"], "") + event["delta"]
        else:
            texts.setdefault(event["index"], []).append(event["translation"]["text"])
    if events[-1:] != ["[DONE]"]:
        return AnswerTexts()
    whole = {index: "".join(found) for index, found in texts.items()}
    return AnswerTexts(tuple(whole[index] if deltas.get(index) == whole[index] else "" for index in sorted(whole)))


def read_chat_stream(body: bytes) -> AnswerTexts:
    events, text = _events(body), ""
    for event in map(json.loads, events[:-1] if events[-1:] == ["[DONE]"] else events):
        if "error" in event:
            return AnswerTexts(code=str(event["error"]["code"]))
        text += "".join(one["delta"].get("content") or "" for one in event["choices"])
    return AnswerTexts((text,)) if events[-1:] == ["[DONE]"] else AnswerTexts()
