"""How a hurried user types: no capitals, no full stop, half-width or curly punctuation.

Only sources are written so, never references, and only in ways that leave the meaning clear. Nothing here knows about
slots or splits.
"""

from dataclasses import dataclass
from random import Random

from dragoman.phrasebook import LANGUAGES

_HALF_WIDTH = str.maketrans("？！", "?!")
_ENDS = ".?!。？！"
_SHARE = 0.15


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


CAREFUL = Style()


def draw_styles(rng: Random) -> tuple[Style, ...]:
    """A style for each language; most are CAREFUL."""
    return tuple(_draw(rng, language) if rng.random() < _SHARE else CAREFUL for language in LANGUAGES)


def _draw(rng: Random, language: str) -> Style:
    bare = rng.random() < 0.5
    if language == "en":
        return Style(lower=rng.random() < 0.5, bare=bare, curly=rng.random() < 0.3)
    return Style(bare=bare, half_width=language in ("ja", "zh") and rng.random() < 0.6)
