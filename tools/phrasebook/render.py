"""Patterns and values become sentences, and sentences a message, in every language. Draws nothing at random.

Rendering applies the Korean particles, the English article and capital, and puts an inline tag around a value. Sentences
are joined by a space in English and Korean, by nothing in Japanese and Chinese, or by new lines. A source may be written
noisily, as users type in a hurry: no capitals, no full stop, half-width or curly punctuation. References never are.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dragoman.phrasebook import LANGUAGES
from tools.phrasebook.corpus import Pattern, Slot, Template
from tools.phrasebook.grammar import Sound, capitalised, final_sound, particle
from tools.phrasebook.values import Value

DIRECTIONS = tuple((source, target) for source in LANGUAGES for target in LANGUAGES if source != target)
"""Every (source language, target language)."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A stretch of text that every translation repeats letter by letter; `kind` is a slot kind, "tag" or "emoji"."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message by language. `texts` are canonical, and so the references; `sources` are what a user might type:
    the same, or as typed in a hurry. `novel` is false if training may contain this very message."""

    texts: dict[str, str]
    sources: dict[str, str]
    copied: tuple[Copied, ...]
    sentences: int
    novel: bool


_HALF_WIDTH = str.maketrans("？！", "?!")
_ENDS = ".?!。？！"


@dataclass(frozen=True, slots=True)
class Style:
    """How one language of a message is typed. `bare` leaves out final punctuation where that is unambiguous."""

    lower: bool = False
    bare: bool = False
    half_width: bool = False
    curly: bool = False

    def apply(self, sentence: str, droppable: bool) -> str:
        """`sentence`, already lower-cased where that is wanted, in this style."""
        if self.bare and droppable and sentence[-1] in _ENDS:
            sentence = sentence[:-1]
        if self.half_width:
            sentence = sentence.translate(_HALF_WIDTH)
        return sentence.replace("'", "’") if self.curly else sentence


CANONICAL = Style()


_ENGLISH, _KOREAN = 0, 2


@dataclass(frozen=True, slots=True)
class Filling:
    """What goes into a pattern: values by slot reference, the tag name around some of them, or around it all."""

    pattern: Pattern
    values: Mapping[str, Value]
    tags: Mapping[str, str]
    wrap: str | None = None


def render(filling: Filling, language: int, lower: bool = False, source: bool = False) -> str:
    """The sentence in the language at that index. `lower` writes English all small, copied values aside; `source` takes what
    the pattern has as source, where it has one."""
    pattern = filling.pattern
    template = (pattern.sources if source and pattern.sources else pattern.templates)[language]
    if language == _KOREAN:
        return _korean(filling, template)
    pieces: list[str] = []
    for piece in template.pieces:
        if isinstance(piece, Slot):
            pieces.append(_value(filling, piece, language, pieces[-1] if pieces else "", lower))
        elif isinstance(piece, str):
            pieces.append(piece.lower() if lower else piece)
    return "".join(pieces)


def _value(filling: Filling, slot: Slot, language: int, before: str, lower: bool) -> str:
    value = filling.values[slot.ref]
    text = value.texts[language]
    if language == _ENGLISH:
        text = _english(value, slot, before)
        text = text.lower() if lower and not value.copied else text
    tag = filling.tags.get(slot.ref)
    return f"<{tag}>{text}</{tag}>" if tag else text


def _english(value: Value, slot: Slot, before: str) -> str:
    text = value.en_a if slot.article else value.texts[_ENGLISH]
    if text.startswith("the ") and before.lower().endswith("the "):
        text = text.removeprefix("the ")
    return capitalised(text) if slot.initial and not (value.copied and not slot.article) else text


def _korean(filling: Filling, template: Template) -> str:
    pieces: list[str] = []
    sound = Sound.VOWEL
    for piece in template.pieces:
        if isinstance(piece, Slot):
            pieces.append(_value(filling, piece, _KOREAN, "", False))
            sound = filling.values[piece.ref].sound
        elif isinstance(piece, str):
            pieces.append(piece)
            sound = final_sound(piece) or sound
        else:
            pieces.append(particle(piece.closed, piece.opened, sound))
            sound = final_sound(pieces[-1]) or sound
    return "".join(pieces)


_SPACED = ("en", "ko")


@dataclass(frozen=True, slots=True)
class Layout:
    """`joint` stands between sentences, empty for what the language does; `tail` is an emoji at the end."""

    joint: str = ""
    tail: str = ""
    styles: tuple[Style, ...] = (CANONICAL,) * len(LANGUAGES)


PLAIN = Layout()


def compose(fillings: list[Filling], layout: Layout, novel: bool) -> Message:
    texts: dict[str, str] = {}
    sources: dict[str, str] = {}
    for index, language in enumerate(LANGUAGES):
        tail = f" {layout.tail}" if layout.tail and language in _SPACED else layout.tail
        texts[language] = _joined(fillings, index, CANONICAL, layout.joint) + tail
        style = layout.styles[index]
        same = style is CANONICAL and not any(filling.pattern.sources for filling in fillings)
        sources[language] = texts[language] if same else _joined(fillings, index, style, layout.joint, True) + tail
    copied = [*_copied(fillings), *([Copied("emoji", layout.tail)] if layout.tail else [])]
    return Message(texts, sources, tuple(copied), len(fillings), novel)


def _joined(fillings: list[Filling], index: int, style: Style, joint: str, source: bool = False) -> str:
    sentences: list[str] = []
    for number, filling in enumerate(fillings, 1):
        text = render(filling, index, style.lower, source)
        if style is not CANONICAL:
            ends = bool(joint) or number == len(fillings)
            text = style.apply(text, filling.pattern.droppable[index] and ends)
        sentences.append(f"<{filling.wrap}>{text}</{filling.wrap}>" if filling.wrap else text)
    return (joint or (" " if LANGUAGES[index] in _SPACED else "")).join(sentences)


def _copied(fillings: list[Filling]) -> list[Copied]:
    tags = [tag for filling in fillings for tag in (*filling.tags.values(), *([filling.wrap] if filling.wrap else []))]
    values = [value for filling in fillings for value in filling.values.values() if value.copied]
    marks = [Copied("tag", mark) for tag in tags for mark in (f"<{tag}>", f"</{tag}>")]
    return [Copied(value.kind, value.texts[0]) for value in values] + marks
