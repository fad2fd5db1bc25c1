"""Sentences become a message: joined, decorated and, as a source, perhaps typed carelessly.

Composing draws nothing; how the message is laid out is told to it in a `Layout`.
"""

from dataclasses import dataclass

from dragoman.phrasebook import LANGUAGES
from tools.phrasebook.careless import CAREFUL, Style
from tools.phrasebook.message import Copied, Message
from tools.phrasebook.render import Filling, render

_SPACED = ("en", "ko")


@dataclass(frozen=True, slots=True)
class Layout:
    """`joint` stands between sentences, empty for what the language does; `tail` is an emoji at the end."""

    joint: str = ""
    tail: str = ""
    styles: tuple[Style, ...] = (CAREFUL,) * len(LANGUAGES)


PLAIN = Layout()


def compose(fillings: list[Filling], layout: Layout, novel: bool) -> Message:
    texts: dict[str, str] = {}
    sources: dict[str, str] = {}
    for index, language in enumerate(LANGUAGES):
        tail = f" {layout.tail}" if layout.tail and language in _SPACED else layout.tail
        texts[language] = _joined(fillings, index, CAREFUL, layout.joint) + tail
        style = layout.styles[index]
        sources[language] = (
            texts[language] if style is CAREFUL else _joined(fillings, index, style, layout.joint) + tail
        )
    copied = [*_copied(fillings), *([Copied("emoji", layout.tail)] if layout.tail else [])]
    return Message(texts, sources, tuple(copied), len(fillings), novel)


def _joined(fillings: list[Filling], index: int, style: Style, joint: str) -> str:
    sentences: list[str] = []
    for number, filling in enumerate(fillings, 1):
        text = render(filling, index, style.lower)
        if style is not CAREFUL:
            ends = bool(joint) or number == len(fillings)
            text = style.apply(text, filling.pattern.droppable[index] and ends)
        sentences.append(f"<{filling.wrap}>{text}</{filling.wrap}>" if filling.wrap else text)
    return (joint or (" " if LANGUAGES[index] in _SPACED else "")).join(sentences)


def _copied(fillings: list[Filling]) -> list[Copied]:
    tags = [tag for filling in fillings for tag in (*filling.tags.values(), *([filling.wrap] if filling.wrap else []))]
    values = [value for filling in fillings for value in filling.values.values() if value.copied]
    marks = [Copied("tag", mark) for tag in tags for mark in (f"<{tag}>", f"</{tag}>")]
    return [Copied(value.kind, value.texts[0]) for value in values] + marks
