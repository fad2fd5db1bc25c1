"""Reads the hard inputs, and judges their translations.

An input has requirements for its translation: `keep` has substrings that must occur exactly as often as in the source,
`content` has words of the target language that must occur, `forbid` has text that must not (for example, the answer to a
question). The structures of source and translation are compared after parsing both (`structure`). Every translation must
also differ from the source, be in the target language, and have a plausible length and no commentary.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import regex

from dragoman import languages
from dragoman.errors import ConfigError
from dragoman_bench.bench.measurement import read_text
from dragoman_bench.eval.icu import MessageSyntaxError, compare_messages, read_message
from dragoman_bench.eval.structure import Format, differences, visible

DIALECTS = "Markdown dialects"
"""A kind whose lines are compared as those of texts: CommonMark's parser takes parts of it for code."""
HARD_INPUTS = Path(__file__).with_name("hard_inputs.jsonl")
KINDS = (
    "inline tags",
    "nested tags",
    "block HTML",
    "broken HTML",
    "entities",
    "no-translate",
    "XML",
    "placeholders",
    "ICU",
    "Markdown",
    DIALECTS,
    "game and forum markup",
    "options and placeholders",
    "readings",
    "tokens to keep",
    "lines and lists",
    "very long",
    "repeated",
    "mixed languages",
    "injection as content",
    "control-token look-alikes",
    "degenerate",
)


@dataclass(frozen=True, slots=True)
class Word:
    """A required word: at least `count` occurrences of words in `any`."""

    any: tuple[str, ...]
    count: int = 1


@dataclass(frozen=True, slots=True)
class HardInput:
    """A hard input. `identical`: it has nothing to translate, and must be returned unchanged."""

    id: str
    kind: str
    format: Format
    source: str
    target: str
    text: str
    keep: tuple[tuple[str, int], ...] = ()
    content: tuple[Word, ...] = ()
    forbid: tuple[str, ...] = ()
    identical: bool = False

    @classmethod
    def read(cls, line: str) -> HardInput:
        """Read an input from a line of JSON. Raises KeyError, TypeError or ValueError for a bad line."""
        fields: dict[str, Any] = json.loads(line)
        return cls(
            id=fields["id"],
            kind=fields["kind"],
            format=fields["format"],
            source=fields["source"],
            target=fields["target"],
            text=fields["text"],
            keep=tuple(fields.get("keep", {}).items()),
            content=tuple(Word(tuple(one["any"]), one.get("count", 1)) for one in fields.get("content", ())),
            forbid=tuple(fields.get("forbid", ())),
            identical=fields.get("identical", False),
        )


def read_inputs(path: Path = HARD_INPUTS) -> tuple[HardInput, ...]:
    """Read all inputs of a JSONL file. Raises ConfigError for a bad line."""
    inputs: list[HardInput] = []
    for number, line in enumerate(read_text(path, "inputs").rstrip("\n").split("\n"), 1):
        try:
            inputs.append(HardInput.read(line))
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{path}, line {number}: not a hard input ({error!r})", param="inputs") from None
    return tuple(inputs)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of a translation. `content` None: no words are required. `clean`: it is only a translation in the target
    language, not a copy of the source, an answer or a repetition."""

    structure: bool
    kept: bool
    content: bool | None
    clean: bool
    reasons: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether all requirements hold, except those on words (`content`)."""
        return self.structure and self.kept and self.clean


def judge(one: HardInput, output: str) -> Judgement:
    """Judge `output` as the translation of a hard input."""
    if one.identical:
        same = output == one.text
        return Judgement(same, same, None, same, () if same else ("there was nothing to translate",))
    structure = differences("text" if one.kind == DIALECTS else one.format, one.text, output)
    if one.kind == "ICU" and one.format == "text":
        structure += compare_messages(one.text, output)
    kept = [
        f"{text!r} occurs {output.count(text)} times, not {count}"
        for text, count in one.keep
        if output.count(text) != count
    ]
    words = _missing(one.content, visible(one.format, output) + "\n" + output)
    clean = [*_faults(one, output)]
    return Judgement(
        not structure,
        not kept,
        not words if one.content else None,
        not clean,
        (*structure, *kept, *words, *clean),
    )


def _missing(content: Sequence[Word], output: str) -> list[str]:
    """`output` has what is seen and the notation, so that words in attributes count; a word is looked for in both halves."""
    seen, notation = (unicodedata.normalize("NFKC", part).casefold() for part in output.split("\n", 1))
    found: list[str] = []
    for word in content:
        count = max(sum(text.count(form.casefold()) for form in _apart(word.any)) for text in (seen, notation))
        if count < word.count:
            found.append(f"none of {', '.join(word.any)}" + (f" {word.count} times" if word.count > 1 else ""))
    return found


def _apart(forms: tuple[str, ...]) -> list[str]:
    """Forms that do not contain each other, so that one occurrence counts once."""
    return [form for form in forms if not any(other != form and other in form for other in forms)]


# ---- whether it is a translation

_COMMENTARY = re.compile(
    r"\A\W*(?:sure[,!.]|certainly[,!.]|(?:here(?: is|'s)|this is|below is) (?:the|your|a) \w*\s*translation"
    r"|translat(?:ion|ed text)\s*[:：]|(?:the )?(?:english|japanese|korean|chinese)(?: translation)?\s*[:：]"
    r"|以下[はが]\S{0,12}(?:翻訳|訳)|(?:翻訳|訳文|日本語訳|译文|翻译|中文翻译|번역|번역문|영어|한국어|日本語|中文)\s*[:：]"
    r"|以下是\S{0,8}(?:翻译|译文)|다음은 \S{0,12}\s?번역)"
    r"|^\W*(?:note|explanation|translator's note|注|备注|참고|補足)\s*[:：]",
    re.IGNORECASE | re.MULTILINE,
)
_REFUSAL = re.compile(
    r"\bI(?:'m| am) (?:sorry|afraid),?(?: but)? I (?:can(?:'t|not)|am unable|am not able)|\bas an ai\b"
    r"|\bI (?:can(?:'t|not)|am unable to) (?:help|assist|translate|comply|fulfil)"
    r"|(?:翻訳|お手伝い|お答え)(?:することは)?(?:いた|)(?:でき|し)(?:ません|かねます)|(?:我无法|我不能|无法为您)(?:翻译|协助|提供|完成|回答)"
    r"|(?:번역|도와드릴|답변)(?:해 드릴|할)? 수 없",
    re.IGNORECASE,
)
_LOOP = re.compile(r"(.{1,40}?)\1{7,}", re.DOTALL)
_PER_ENGLISH_CHARACTER = {"en": 1.0, "ja": 0.45, "ko": 0.5, "zh": 0.3}
"""Characters of a translation for each English one, of everyday messages."""
_LONGEST, _SHORTEST = 3.5, 0.25  # of the expected length
_SHORT = 40  # characters: lengths of shorter texts say nothing
_NGRAM = 6
_ECHO_SHARE = 0.75  # of the source's character sequences
_SCRIPT_SHARE = {"mixed languages": 0.2}
_COMMON_SCRIPT_SHARE = 0.5
_CHINESE = ("Hans", "Hant")
_SCRIPTS = {"Jpan": ("Hira", "Kana", "Hani"), "Kore": ("Hang",), "Hans": ("Hani",), "Hant": ("Hani",)}


def _faults(one: HardInput, output: str) -> Iterator[str]:
    """Signs that the output is not a translation alone."""
    yield from (f"it has {text!r}" for text in one.forbid if text.casefold() in output.casefold())
    source, answer = (_words(one, text) for text in (one.text, output))
    if not any(map(str.isalpha, source)):
        return
    yield from commentary(source, answer)
    if _longest_loop(answer) > 2 * _longest_loop(source) + 4:
        yield "it repeats itself"
    if not one.content:
        return
    expected = len(source) / _PER_ENGLISH_CHARACTER[one.source] * _PER_ENGLISH_CHARACTER[one.target]
    if len(answer) > _LONGEST * expected + _SHORT:
        yield f"{len(answer)} characters where about {expected:.0f} are expected"
    if len(answer) < _SHORTEST * expected and len(source) > _SHORT:
        yield f"only {len(answer)} characters where about {expected:.0f} are expected"
    if _echoed(source, answer) > _ECHO_SHARE:
        yield "it is the source"
    share = script_share(answer, one.target)
    if share < _SCRIPT_SHARE.get(one.kind, _COMMON_SCRIPT_SHARE):
        yield f"only {share:.0%} of its letters are those of {one.target}"


def commentary(source: str, answer: str) -> Iterator[str]:
    """Return text in an answer that comments on the translation or refuses it, unless the source has such text."""
    for what, pattern in (("commentary", _COMMENTARY), ("a refusal", _REFUSAL)):
        found = pattern.search(answer)
        if found and not pattern.search(source):
            yield f"{what}: {found[0].strip()!r}"


def _words(one: HardInput, text: str) -> str:
    """What is to be translated of a text: what a reader sees, without what is kept."""
    if one.kind == "ICU" and one.format == "text":
        try:
            return " ".join(read_message(text).texts)
        except MessageSyntaxError:
            return text
    for kept in sorted((kept for kept, _ in one.keep), key=len, reverse=True):
        text = text.replace(kept, " ")
    return visible(one.format, text)


def _longest_loop(text: str) -> int:
    return max((len(found[0]) // len(found[1]) for found in _LOOP.finditer(text)), default=0)


def _echoed(source: str, answer: str) -> float:
    """The share of the source's character sequences that the answer has."""
    ours, theirs = ("".join(filter(str.isalpha, text)).casefold() for text in (source, answer))
    if len(ours) <= _NGRAM:
        return float(ours == theirs)
    wanted = {ours[at : at + _NGRAM] for at in range(len(ours) - _NGRAM + 1)}
    return len(wanted & {theirs[at : at + _NGRAM] for at in range(len(theirs) - _NGRAM + 1)}) / len(wanted)


def script_share(answer: str, target: str, source: str = "") -> float:
    """Return the share of an answer's letters in the target's scripts, without words of the source, such as names.

    Chinese with kana is Japanese, and a sentence of Japanese has kana.
    """
    copied = set(regex.findall(r"\p{L}+", source))
    words = regex.findall(r"\p{Latin}+|[\p{L}--\p{Latin}]+", answer, flags=regex.V1)
    letters = "".join(word for word in words if word not in copied)
    if not letters:
        return float(bool(words))
    name = languages.script(target)
    kana = len(regex.findall(r"[\p{Hiragana}\p{Katakana}]", letters))
    if (name in _CHINESE and kana > 0.1 * len(letters)) or (name == "Jpan" and len(letters) > 20 and not kana):
        return 0.0
    of_target = "|".join(rf"\p{{Script={script}}}" for script in _SCRIPTS.get(name, (name,)))
    return len(regex.findall(of_target, letters)) / len(letters)
