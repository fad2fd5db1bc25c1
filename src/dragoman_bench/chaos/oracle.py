"""The calls of the load, and the right answer to each, computed from its text alone.

Over the fake engine a translation is the text with each ASCII letter but the first of a block in a circle. This module states
that rule again instead of importing it, and shares no code with the server. Each call has a number, which is in its texts as
words, so that an answer tells whose it is. Over a real engine no translation is known before; there each text ends with a
paragraph of digits, which the server never gives to the model. Knows no HTTP client.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

SOURCE, TARGET = "en", "ja"
COMPLETION_MODEL = "chaos"
"""The name of the model that `vllm serve` is started with."""
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


class Rule:
    """What is sent as a text, and what of an answer tells that it is the right one: over the fake engine, all of it.

    `mark`: digits that no other text has.
    """

    def sent(self, text: str, mark: str) -> str:
        return text

    def html(self, texts: list[str], mark: str) -> tuple[str, str]:
        """Two blocks, one of them with an inline tag; and the right answer."""
        first, second, last = texts
        bold = f"<b>{circled(second, begins=False)}</b> {circled('today', begins=False)}"
        expected = f"<p>{circled(first)} {bold}</p><ul><li>{circled(last)}</li></ul>"
        return f"<p>{first} <b>{second}</b> today</p><ul><li>{last}</li></ul>", expected

    def expected(self, text: str, mark: str) -> str:
        return circled(text)

    def read(self, answer: str) -> str:
        """What of an answer's text is compared with what is expected."""
        return answer

    def fits(self, paragraph: str, translation: str) -> bool:
        """Whether it may be the translation of a document's paragraph."""
        return translation == circled(paragraph)

    def translations(self, result: str, marks: list[str]) -> list[str]:
        """Of a document's file, whose paragraphs were sent with these marks."""
        return result.rstrip("\n").split("\n\n")


class MarkedRule(Rule):
    """Over a real engine: that there is a translation, and the text's own mark after it, or in a block's tag."""

    _HTML = re.compile(r'<p id="([\d ]+)">.*?\S.*?</p><ul><li>.*?\S.*?</li></ul>', re.DOTALL)

    def sent(self, text: str, mark: str) -> str:
        return f"{text}\n\n{mark}"

    def html(self, texts: list[str], mark: str) -> tuple[str, str]:
        first, second, last = texts
        return f'<p id="{mark}">{first} <b>{second}</b> today</p><ul><li>{last}</li></ul>', mark

    def expected(self, text: str, mark: str) -> str:
        return mark

    def read(self, answer: str) -> str:
        if found := self._HTML.fullmatch(answer):
            return found[1]
        text, _, mark = answer.partition("\n\n")
        return mark if text.strip() else ""

    def fits(self, paragraph: str, translation: str) -> bool:
        return bool(translation.strip())

    def translations(self, result: str, marks: list[str]) -> list[str]:
        """Empty where another mark follows."""
        pieces = result.rstrip("\n").split("\n\n")
        found = [pieces[place : place + 2] for place in range(0, len(pieces), 2)]
        expected = [*marks, *[""] * len(found)]
        return [one[0] if one[1:] == [mark] else "" for one, mark in zip(found, expected, strict=False)]


class AnsweredRule(Rule):
    """Of a server that keeps nothing of a text as it is: only that there is an answer."""

    def expected(self, text: str, mark: str) -> str:
        return "answered"

    def read(self, answer: str) -> str:
        return "answered" if answer.strip() else ""


CIRCLED, MARKED, ANSWERED = Rule(), MarkedRule(), AnsweredRule()


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


Make = Callable[[str, int, Rule], SentCall]
"""Makes the call of a key with a number."""


def _call(
    kind: str,
    key: str,
    number: int,
    path: str,
    body: dict[str, Any],
    texts: list[str],
    rule: Rule,
    read: Callable[[bytes], AnswerTexts],
    expected: tuple[str, ...] | None = None,
) -> SentCall:
    def read_by_rule(answer: bytes) -> AnswerTexts:
        found = read(answer)
        return found if found.texts is None else replace(found, texts=tuple(map(rule.read, found.texts)))

    if expected is None:
        expected = tuple(rule.expected(one, _mark(number, part)) for part, one in enumerate(texts))
    return SentCall(kind, key, number, path, body, expected, sum(map(len, texts)), read_by_rule)


def _mark(number: int, part: int) -> str:
    return f"{number} {part}"


def _texts(number: int, parts: int, rule: Rule) -> list[str]:
    return [rule.sent(sentence(number, part), _mark(number, part)) for part in range(parts)]


def _native(texts: list[str], **options: Any) -> dict[str, Any]:
    return {"text": texts, "source": SOURCE, "target": TARGET, **options}


def text_call(key: str, number: int, rule: Rule = CIRCLED) -> SentCall:
    texts = _texts(number, 1 + number % 3, rule)
    return _call("text", key, number, "/v1/translate", _native(texts), texts, rule, read_native)


def stream_call(key: str, number: int, rule: Rule = CIRCLED) -> SentCall:
    texts = _texts(number, 1 + number % 2, rule)
    body = _native(texts, stream=True)
    return _call("stream", key, number, "/v1/translate", body, texts, rule, read_native_stream)


def html_call(key: str, number: int, rule: Rule = CIRCLED) -> SentCall:
    html, expected = rule.html([sentence(number, part) for part in range(3)], _mark(number, 0))
    body = _native([html], format="html")
    return _call("html", key, number, "/v1/translate", body, [html], rule, read_native, (expected,))


def deepl_call(key: str, number: int, rule: Rule = CIRCLED) -> SentCall:
    texts = _texts(number, 1 + number % 4, rule)
    body = {"text": texts, "source_lang": SOURCE.upper(), "target_lang": TARGET.upper()}
    return _call("deepl", key, number, "/v2/translate", body, texts, rule, read_native)


def chat_call(key: str, number: int, rule: Rule = CIRCLED) -> SentCall:
    """Every second one streams."""
    [text], streams = _texts(number, 1, rule), bool(number % 2)
    body = {"model": f"dragoman/{TARGET}", "messages": [{"role": "user", "content": text}], "stream": streams}
    kind, read = ("chat stream", read_chat_stream) if streams else ("chat", read_chat)
    return _call(kind, key, number, "/v1/chat/completions", body, [text], rule, read)


def completion_call(key: str, number: int, rule: Rule = ANSWERED) -> SentCall:
    """Of `vllm serve`, with as many tokens as a translation has; every second one streams."""
    [text], streams = _texts(number, 1, rule), bool(number % 2)
    body = {"model": COMPLETION_MODEL, "prompt": text, "stream": streams, "max_tokens": 24, "ignore_eos": True}
    kind, read = ("completion stream", read_completion_stream) if streams else ("completion", read_completion)
    return _call(kind, key, number, "/v1/completions", body, [text], rule, read)


def memory_call(key: str, number: int, *, is_seen: bool) -> SentCall:
    """A text whose translation was stored before. `is_seen` False: by another server, so that this one may not know it yet."""
    text, translation = memory_entry(number)
    call = _call("memory", key, number, "/v1/translate", _native([text]), [text], CIRCLED, read_native, (translation,))
    return call if is_seen else replace(call, or_else=(circled(text),))


def memory_entry(number: int) -> tuple[str, str]:
    """A text and the translation that a person has stored for it."""
    return sentence(number), f"保存された {number}"


CALLS: tuple[Make, ...] = (text_call, stream_call, html_call, deepl_call, chat_call)

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


def read_completion(body: bytes) -> AnswerTexts:
    return AnswerTexts(tuple(one["text"] for one in json.loads(body)["choices"]))


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
    return _joined(body, lambda choice: choice["delta"].get("content") or "")


def read_completion_stream(body: bytes) -> AnswerTexts:
    return _joined(body, lambda choice: choice["text"])


def _joined(body: bytes, piece: Callable[[dict[str, Any]], str]) -> AnswerTexts:
    """One text, of its pieces."""
    events, text = _events(body), ""
    for event in map(json.loads, events[:-1] if events[-1:] == ["[DONE]"] else events):
        if "error" in event:
            return AnswerTexts(code=str(event["error"]["code"]))
        text += "".join(map(piece, event["choices"]))
    return AnswerTexts((text,)) if events[-1:] == ["[DONE]"] else AnswerTexts()
