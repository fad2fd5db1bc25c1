"""One language's side of a pattern, read into pieces: text, slots and Korean particles.

A template knows the notation and nothing of the values that will fill it. Notation: `{kind}`, `{kind:2}`, `{a:kind}`
(with the English indefinite article), and in Korean `[은/는]`.
"""

import re
from dataclasses import dataclass

from tools.phrasebook.particles import PAIRS


class TemplateError(ValueError):
    """A template that breaks the notation; the message says how."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a value. `initial` marks one that opens a sentence."""

    kind: str
    ref: str
    article: bool = False
    initial: bool = False


@dataclass(frozen=True, slots=True)
class Particle:
    closed: str
    opened: str


Piece = str | Slot | Particle


@dataclass(frozen=True, slots=True)
class Template:
    text: str
    pieces: tuple[Piece, ...]

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(piece for piece in self.pieces if isinstance(piece, Slot))

    def abstract(self) -> str:
        """The text with every slot reduced to its kind, which is what two patterns must not share."""
        return "".join(piece if isinstance(piece, str) else _abstract(piece) for piece in self.pieces)

    def wildcard(self) -> str:
        """The text with every slot reduced to one mark, whatever its kind."""
        return "".join("{}" if isinstance(p, Slot) else p if isinstance(p, str) else _abstract(p) for p in self.pieces)


_TOKEN = re.compile(r"\{([^{}]*)\}|\[([^\[\]]*)\]")
_SLOT = re.compile(r"(?P<article>a:)?(?P<kind>[a-z][a-z_]*)(?P<number>:\d)?")
_SENTENCE_BREAK = re.compile(r"(^|[.?!]\s)[\"'“‘(]*$")


def parse(text: str) -> Template:
    """The pieces of `text`. Raises TemplateError for unbalanced brackets, bad slots and unknown particles."""
    pieces: list[Piece] = []
    end = 0
    for match in _TOKEN.finditer(text):
        _add_text(pieces, text[end : match.start()])
        slot, particle = match.group(1), match.group(2)
        initial = bool(_SENTENCE_BREAK.search(text[: match.start()]))
        pieces.append(_particle(particle) if slot is None else _slot(slot, initial))
        end = match.end()
    _add_text(pieces, text[end:])
    return Template(text, tuple(pieces))


def _add_text(pieces: list[Piece], text: str) -> None:
    if stray := re.search(r"[{}\[\]]", text):
        raise TemplateError(f"unbalanced {stray.group()!r}")
    if text:
        pieces.append(text)


def _slot(inside: str, initial: bool) -> Slot:
    match = _SLOT.fullmatch(inside)
    if match is None:
        raise TemplateError(f"bad slot {{{inside}}}")
    kind = match["kind"]
    return Slot(kind, kind + (match["number"] or ""), article=match["article"] is not None, initial=initial)


def _particle(inside: str) -> Particle:
    closed, slash, opened = inside.partition("/")
    if not slash or (closed, opened) not in PAIRS:
        raise TemplateError(f"unknown particle [{inside}]")
    return Particle(closed, opened)


def _abstract(piece: Slot | Particle) -> str:
    return f"{{{piece.kind}}}" if isinstance(piece, Slot) else f"[{piece.closed}/{piece.opened}]"
