"""A fake model that translates the packaged sentences well, and one that damages its answers on purpose.

`PhrasebookAnswers` is an answer function for `FakePipeline`: it reads text and languages from the phrasebook's prompt, looks
the sentences up, and puts the marks of the source where they belong. Of a text that is none of the packaged sentences it
makes words of the target language, of the usual length, with the source's numbers. `FaultyAnswers` damages such answers:

    model = FaultyAnswers("drop_tags", probability=0.3, seed=1)
    service = service_over(FakePipeline(model))
    ...
    assert all(caught(one) for one in model.planted)

Every damaged answer is in `planted`; what cannot be damaged in the wanted way (a text without tags) is answered well. With
`probability` 0 nothing is damaged, for counting false alarms. The same seed and order of calls damage the same answers.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Literal, get_args

from dragoman import phrasebook
from dragoman.types import EngineSequence
from tests.serving import TOKENIZER, source_of
from wholetext.markup.marks import MARK, aligned

Fault = Literal[
    "echo",
    "loop",
    "comment",
    "refuse",
    "drop_tags",
    "reorder_tags",
    "translate_placeholders",
    "truncate",
    "wrong_language",
    "drop_sentences",
]
FAULTS: tuple[Fault, ...] = get_args(Fault)

_END = re.compile(r"(?<=[。？！])\s*|(?<=[.?!])(?=\s)\s*|\Z")
_LONGEST_SENTENCE = 300
_COPIED = re.compile(r"[!-~]*[^\sA-Za-z.,;:?!'\"()\u0080-\U0010ffff-][!-~]*")
"""Numbers, codes, addresses: words of ASCII that are more than letters."""
_COMMENTS = (
    "Here is the translation: {}",
    "Sure! Here is the translation:\n\n{}",
    "{}\n\nNote: I kept the tone of the original.",
    "翻訳：{}",
    "以下是翻译：\n{}",
    "번역: {}",
)
_REFUSALS = (
    "I'm sorry, but I can't translate this text.",
    "As an AI language model, I cannot assist with that request.",
    "申し訳ありませんが、この文章を翻訳することはできません。",
    "抱歉，我无法翻译这段文字。",
    "죄송하지만 이 글은 번역할 수 없습니다.",
)
_EMOJI = re.compile(r"[\u2190-\u2bff\ufe0f\u200d\U0001f000-\U0001faff]+")
_TRUNCATED_SHARE = 0.3
_LOOPS = 40


@dataclass(frozen=True, slots=True)
class Planted:
    """A damaged answer: the text as the model got it, the right answer, and the one that was given."""

    fault: Fault
    text: str
    source: str
    target: str
    right: str
    given: str


def languages_of(sequence: EngineSequence) -> tuple[str, str]:
    """Source and target language of the phrasebook's prompt: its second and third token."""
    source_of(sequence)  # reads the tokenizer
    source, target = (str(TOKENIZER[0].id_to_token(token)).strip("<|>") for token in sequence.prompt_token_ids[1:3])
    return source, target


@cache
def sentence_rows() -> list[list[str]]:
    """The packaged sentences, in every language, without emoji."""
    with gzip.open(phrasebook.sentences_file(), "rt", encoding="utf-8") as file:
        rows: list[list[str]] = [json.loads(line) for line in file]
    # An emoji is a sentence of its own, which is copied.
    return [[_EMOJI.sub("", sentence).rstrip() for sentence in row] for row in rows]


@cache
def _by_text(language: str) -> dict[str, int]:
    place = phrasebook.LANGUAGES.index(language)
    return {row[place]: number for number, row in enumerate(sentence_rows())}


@cache
def _plain_sentences(language: str) -> list[str]:
    """Those with nothing but words of the language, without the mark at the end."""
    place = phrasebook.LANGUAGES.index(language)
    joined = " " if language in ("en", "ko") else ""
    letters = r"[a-zA-Z ]+" if language == "en" else r"[^a-zA-Z\d_:.@/{}]+"
    found = (re.sub(r"\W+$", "", row[place]) for row in sentence_rows())
    return [f"{sentence}{joined}" for sentence in found if re.fullmatch(letters, sentence)]


def _cut(words: str, length: int, language: str) -> str:
    """About so many characters, up to the end of a word where words are spaced."""
    at = words.find(" ", length) if language in ("en", "ko") else length
    return words[: at if at > 0 else length].strip()


@cache
def _characters(language: str) -> int:
    """Of all packaged sentences."""
    return sum(map(len, _by_text(language)))


class PhrasebookAnswers:
    """Right answers, for texts made of packaged sentences and marks."""

    def __call__(self, sequence: EngineSequence) -> str:
        return self.translate(source_of(sequence), *languages_of(sequence))

    def translate(self, text: str, source: str, target: str) -> str:
        """The translation, with the marks of the text and its line breaks."""
        lines = re.split(r"(\s*\n\s*)", text)
        return "".join(line if number % 2 else self._line(line, source, target) for number, line in enumerate(lines))

    def _line(self, text: str, source: str, target: str) -> str:
        translated = self._plain(MARK.sub("", text), source, target)
        return _around_words(aligned(text, translated)) if MARK.search(text) else translated

    def _plain(self, text: str, source: str, target: str) -> str:
        joined = " " if target in ("en", "ko") else ""
        return joined.join(sentence.translated(source, target) for sentence in sentences(text, source))


def _around_words(text: str) -> str:
    """`text` with pairs around nothing put around the next word, or the one before: so a right answer has them."""
    text = re.sub(r"<g(\d+)>(\s*)</g\1>(\s*)([^\s<]+)", r"\2\3<g\1>\4</g\1>", text)
    return re.sub(r"([^\s<>]+)(\s*)<g(\d+)>(\s*)</g\3>", r"<g\3>\1</g\3>\2\4", text)


@dataclass(frozen=True, slots=True)
class _Sentence:
    text: str
    number: int | None  # of the packaged sentence that it is

    def translated(self, source: str, target: str) -> str:
        place = phrasebook.LANGUAGES.index(target)
        if self.number is not None:
            return sentence_rows()[self.number][place]
        if not any(map(str.isalpha, self.text)):
            return self.text
        copied = [found[0].rstrip(".,;:?!") for found in _COPIED.finditer(self.text)]
        length = max(1, round(len(self.text) * _characters(target) / _characters(source)))
        rows = _plain_sentences(target)
        words, at = "", zlib.crc32(self.text.encode())
        while len(words) < length:
            words += rows[at % len(rows)]
            at += 1
        return " ".join([_cut(words, length, target), *copied])


def sentences(text: str, language: str) -> list[_Sentence]:
    """The longest packaged sentence from each place; what lies between two is a sentence of its own."""
    known = _by_text(language)
    found: list[_Sentence] = []
    at = 0
    while at < len(text):
        emoji = _EMOJI.match(text, at)
        ends = (
            [emoji.end()]
            if emoji
            else [end.start() for end in _END.finditer(text, at + 1, at + _LONGEST_SENTENCE)] or [len(text)]
        )
        end = next((end for end in reversed(ends) if text[at:end] in known), ends[0])
        part = text[at:end].strip()
        if part:
            found.append(_Sentence(part, known.get(part)))
        at = end + len(text[end:]) - len(text[end:].lstrip())
    return found


class FaultyAnswers(PhrasebookAnswers):
    """Right answers, of which a share is damaged by one fault."""

    def __init__(self, fault: Fault, *, probability: float = 1.0, seed: int = 0) -> None:
        self.fault: Fault = fault
        self.planted: list[Planted] = []
        self._probability = probability
        self._random = Random(seed)

    def __call__(self, sequence: EngineSequence) -> str:
        return self.answer(source_of(sequence), *languages_of(sequence))

    def answer(self, text: str, source: str, target: str) -> str:
        """The right answer or a damaged one."""
        right = self.translate(text, source, target)
        if self._random.random() >= self._probability:
            return right
        given = getattr(self, f"_{self.fault}")(right, text, source, target)
        if given != right:
            self.planted.append(Planted(self.fault, text, source, target, right, given))
        return given

    def _echo(self, right: str, text: str, source: str, target: str) -> str:
        return text if any(map(str.isalpha, MARK.sub("", text))) else right

    def _loop(self, right: str, text: str, source: str, target: str) -> str:
        unit = right[-12:].strip() or right
        return right + (" " if target in ("en", "ko") else "") + " ".join([unit] * _LOOPS)

    def _comment(self, right: str, text: str, source: str, target: str) -> str:
        return self._random.choice(_COMMENTS).format(right)

    def _refuse(self, right: str, text: str, source: str, target: str) -> str:
        return self._random.choice(_REFUSALS)

    def _drop_tags(self, right: str, text: str, source: str, target: str) -> str:
        """One pair or single, or all."""
        numbers = sorted({found[2] or found[3] for found in MARK.finditer(right)}, key=int)
        if not numbers:
            return right
        dropped = {self._random.choice(numbers)} if self._random.random() < 0.5 else set(numbers)
        return MARK.sub(lambda found: "" if (found[2] or found[3]) in dropped else found[0], right)

    def _reorder_tags(self, right: str, text: str, source: str, target: str) -> str:
        """A pair closes before it opens, or crosses the next one."""
        pairs = [found for found in MARK.finditer(right) if found[2]]
        if not pairs:
            return right
        swapped = self._random.randrange(len(pairs) - 1)
        one, other = pairs[swapped], pairs[swapped + 1]
        if (one[1], other[1]) == ("/", ""):  # one after the other: neighbours may change their places
            one, other = next((p, q) for p in pairs for q in pairs if not p[1] and q[1] and p[2] == q[2])
        return right[: one.start()] + other[0] + right[one.end() : other.start()] + one[0] + right[other.end() :]

    def _translate_placeholders(self, right: str, text: str, source: str, target: str) -> str:
        """The first single, or a placeholder that is in the text as it is."""
        word = {"en": "name", "ja": "名前", "ko": "이름", "zh": "名字"}[target]
        damaged = re.sub(r"<x\d+/>", f"<{word}/>", right, count=1)
        return re.sub(r"\{\w+\}|%[sd]", f"{{{word}}}", right, count=1) if damaged == right else damaged

    def _truncate(self, right: str, text: str, source: str, target: str) -> str:
        """The beginning, without its last marks."""
        return right[: max(1, round(len(right) * _TRUNCATED_SHARE))].rstrip("<gx/0123456789") or right

    def _wrong_language(self, right: str, text: str, source: str, target: str) -> str:
        others = [language for language in phrasebook.LANGUAGES if language not in (source, target)]
        return self.translate(text, source, self._random.choice(others))

    def _drop_sentences(self, right: str, text: str, source: str, target: str) -> str:
        """All but the first; the marks stay."""
        found = sentences(MARK.sub("", text), source)
        if len(found) < 2:
            return right
        first = found[0].translated(source, target)
        return aligned(text, first) if MARK.search(text) else first
