"""A pattern and values become one sentence in every language.

Rendering applies the Korean particles, the English article and capital, and puts an inline tag around a value. It
draws nothing: what to fill, wrap or write carelessly is told to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tools.phrasebook.corpus import Pattern
from tools.phrasebook.english import capitalised
from tools.phrasebook.particles import Sound, final_sound, particle
from tools.phrasebook.template import Slot, Template
from tools.phrasebook.values import Value

_ENGLISH, _KOREAN = 0, 2


@dataclass(frozen=True, slots=True)
class Filling:
    """What goes into a pattern: values by slot reference, the tag name around some of them, or around it all."""

    pattern: Pattern
    values: Mapping[str, Value]
    tags: Mapping[str, str]
    wrap: str | None = None


def render(filling: Filling, language: int, lower: bool = False) -> str:
    """The sentence in the language at that index. `lower` writes English all small, copied values aside."""
    template = filling.pattern.templates[language]
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
