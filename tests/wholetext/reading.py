"""What the pieces of a document hold: their texts, their marks, and the document that they are with its blocks translated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from wholetext.markup.marks import Block, Mark, Piece, Verbatim, restore, with_translated_pieces


def written(pieces: Iterable[Piece | None], translate: Callable[[str], str] = str) -> str:
    """The document, with each block translated, those in attributes first."""

    def block(one: Block) -> str:
        values = (block(piece) for mark in one.marks for piece in mark.pieces if isinstance(piece, Block))
        marks = [with_translated_pieces(mark, values) for mark in one.marks]
        return restore(translate(one.text), marks, one.writer)

    found = (piece for piece in pieces if piece is not None)
    return "".join(piece.text if isinstance(piece, Verbatim) else block(piece) for piece in found)


def blocks(pieces: Iterable[Piece | None]) -> Iterator[Block]:
    return (piece for piece in pieces if isinstance(piece, Block))


def texts(pieces: Iterable[Piece | None]) -> list[str]:
    return [block.text for block in blocks(pieces)]


def marks(pieces: Iterable[Piece | None]) -> list[Mark]:
    return [mark for block in blocks(pieces) for mark in block.marks]
