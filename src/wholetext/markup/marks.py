"""Marks replace inline tags and kept spans in the text that a model translates.

A document consists of literals, which are copied, and blocks, which are translated (`text.document`). In a block's text, a
pair of inline tags is `<g1>…</g1>`, and a single (an empty tag, a placeholder, a URL) is `<x1/>`, numbered from 1 in the
order of the source. `lost` and `emptied` find marks that an output does not have as its source has them; `aligned` places
the source's marks in an output that has none; `restore` replaces marks by the source's own notation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import Protocol, TypeAlias, runtime_checkable

Writer = Callable[[str], str]
"""Writes translated characters in the notation of their place in the source, such as `&` as `&amp;`."""

Edge: TypeAlias = tuple[int, int, bool]
"""An opening or closing mark of a pair: its place in a list of written parts, its number, and whether it closes."""


@runtime_checkable
class ArrangingWriter(Protocol):
    """A writer that can also change the whole block, as at the edges of pairs. Texts and marks alternate in `written`."""

    def __call__(self, text: str, /) -> str: ...

    def arrange(self, written: list[str], edges: Sequence[Edge]) -> None: ...


MARK = re.compile(r"<(/?)g(\d{1,5})>|<x(\d{1,5})/>")


@dataclass(frozen=True, slots=True)
class Mark:
    """The source's notation of a mark: `opening` and, for a pair, `closing`; None for a single.

    `word`: the mark is a part of the sentence (a placeholder, a URL) that a model can also read itself. `pieces`: those of
    `opening` if a value in it is translated (a tag's `title`), apart from the sentence; else empty. `label`: of a link whose
    text is its own label, that text as the source writes it; else empty. `look`: the source's notation, where `opening` only
    refers to it.
    """

    opening: str
    closing: str | None = None
    word: bool = False
    pieces: tuple[Piece, ...] = field(default=(), compare=False)  # equal openings have equal pieces
    label: str = ""
    look: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A part of a document that is copied."""

    text: str


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a document that is translated: text with marks; `marks[0]` has the number 1."""

    text: str
    marks: tuple[Mark, ...] = ()
    writer: Writer | None = None  # None: characters are written as they are


Piece: TypeAlias = Verbatim | Block


# ---- segments of a block


def local(text: str, marks: Sequence[Mark]) -> tuple[str, tuple[Mark, ...]]:
    """Number the marks in a part of a block from 1. If it has only one half of a pair, that becomes a single."""
    if "<" not in text or not marks:
        return text, ()
    halves = Counter(int(found[2]) for found in MARK.finditer(text) if found[2])
    numbers: dict[int, int] = {}
    own: list[Mark] = []

    def renumbered(found: re.Match[str]) -> str:
        old = int(found[2] or found[3])
        mark = marks[old - 1]
        if found[2] and halves[old] == 1:
            own.append(Mark(mark.closing or "") if found[1] else replace(mark, closing=None))
            return f"<x{len(own)}/>"
        if old not in numbers:
            own.append(mark)
            numbers[old] = len(own)
        return f"<x{numbers[old]}/>" if found[3] else f"<{found[1]}g{numbers[old]}>"

    return MARK.sub(renumbered, text), tuple(own)


# ---- outputs

MARK_VARIANT = re.compile(r"[<＜]\s{0,2}([/／]?)\s{0,2}([gGxXｇｘ])\s{0,2}(\d{1,5})\s{0,2}([/／]?)\s{0,2}[>＞]")
"""Text that is read as a mark in an output. A source that has it as text gets a mark for it."""

_EMPTY_PAIR = re.compile(r"<x(\d{1,5})/></x\1>|</x(\d{1,5})>")


def normalised(output: str) -> str:
    """Return the output with marks in their exact form: models add spaces, close singles, or use full-width characters."""

    def written(found: re.Match[str]) -> str:
        number = int(found[3])
        if found[2] in "xXｘ":
            return f"</x{number}>" if found[1] else f"<x{number}/>"
        return f"</g{number}>" if found[1] else f"<g{number}>"

    if "<" not in output and "＜" not in output:
        return output
    return _EMPTY_PAIR.sub(lambda pair: f"<x{pair[1] or pair[2]}/>", MARK_VARIANT.sub(written, output))


_INVENTED = re.compile(r"<\s?/?\s?[A-Za-z0-9]{1,16}\s?/?\s?>")


def without_invented(source: str, output: str) -> str:
    """Remove tags that the source has neither as marks nor as text. Marks in both must be normalised.

    If the source has no angle brackets except those of marks, all others are removed from the output.
    """
    if "<" not in output and ">" not in output:
        return output
    others = MARK.sub("", source)
    has_brackets = "<" in others or ">" in others
    is_own = cache(others.__contains__)

    def cleaned(text: str) -> str:
        text = _INVENTED.sub(lambda tag: tag[0] if is_own(tag[0]) else "", text)
        return text if has_brackets else text.replace("</", "").replace("<", "").replace(">", "")

    return "".join(part if is_mark else cleaned(part) for part, is_mark in parts(output))


_NONCHARACTERS = "\ufdd0-\ufdef" + "".join(
    f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(17)
)
CONTROL = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff{_NONCHARACTERS}]")
"""Characters of no text: controls but tab and line ends, halves of pairs, and what Unicode says is no character."""


def invented_controls(source: str, output: str) -> Iterator[re.Match[str]]:
    """Yield the controls of an output that its source does not have."""
    if CONTROL.search(output):
        own = set(CONTROL.findall(source))
        yield from (found for found in CONTROL.finditer(output) if found[0] not in own)


def without_invented_controls(source: str, output: str) -> str:
    """Remove the controls that the source does not have: they damage files, and a terminal obeys them. One that is white
    space becomes a space."""
    if CONTROL.search(output) is None:
        return output
    invented = {found[0] for found in invented_controls(source, output)}
    return CONTROL.sub(
        lambda found: found[0] if found[0] not in invented else " " if found[0].isspace() else "", output
    )


def with_words(text: str, marks: Sequence[Mark]) -> str:
    """Replace marks that are words (placeholders, URLs) by these words, which a model may handle better."""
    words = {f"<x{number}/>": mark.opening for number, mark in enumerate(marks, 1) if mark.word}
    return MARK.sub(lambda found: words.get(found[0], found[0]), text) if words else text


def from_words(output: str, marks: Sequence[Mark]) -> str:
    """Replace the words in an output of `with_words` by their marks: the first occurrences of each, in the marks' order.

    The mark of a missing word is missing too; further occurrences of a word stay words. A part of a longer word or number
    (`HB-1573` in `HB-157348`) is not an occurrence.
    """
    numbers: dict[str, list[int]] = {}
    for number, mark in enumerate(marks, 1):
        if mark.word:
            numbers.setdefault(mark.opening, []).append(number)
    if not numbers:
        return output
    words = re.compile("|".join(map(_as_a_word, sorted(numbers, key=len, reverse=True))))

    def marked(found: re.Match[str]) -> str:
        left = numbers[found[0]]
        return f"<x{left.pop(0)}/>" if left else found[0]

    return words.sub(marked, output)


def canonical(text: str, marks: Sequence[Mark] | None = None) -> tuple[str, list[int]] | None:
    """Return the text with its marks numbered from 1 in their order, and the number that each had; words to keep are shown.

    So texts with equal words between equal marks are equal, whatever the marks stand for. `marks`: those of a block; None:
    none is a word. None is returned if the marks are not well nested, or a word reads like one.
    """
    if marks:
        if any(mark.word and MARK_VARIANT.search(mark.opening) for mark in marks):
            return None
        text = with_words(text, marks)
    if "<" not in text:
        return text, []
    numbers: dict[int, int] = {}

    def renumbered(found: re.Match[str]) -> str:
        number = numbers.setdefault(int(found[2] or found[3]), len(numbers) + 1)
        return f"<x{number}/>" if found[3] else f"<{found[1]}g{number}>"

    written = MARK.sub(renumbered, text)
    return None if _is_ambiguous(written) else (written, list(numbers))


def renumber(text: str, numbers: Sequence[int]) -> str:
    """Return a text whose marks are numbered as `canonical` does with the numbers that it returned."""

    def renumbered(found: re.Match[str]) -> str:
        number = numbers[int(found[2] or found[3]) - 1]
        return f"<x{number}/>" if found[3] else f"<{found[1]}g{number}>"

    return MARK.sub(renumbered, text) if numbers else text


def _is_ambiguous(text: str) -> bool:
    """Whether a text has a mark more than once, pairs that are not well nested, or what is nearly a mark."""
    exact = _counted(text)
    return (
        exact.total() > len(exact)
        or bool(_nesting(text)[1])
        or any(not MARK.fullmatch(found[0]) for found in MARK_VARIANT.finditer(text))
    )


_ALNUM = "[A-Za-z0-9]"


def _as_a_word(word: str) -> str:
    """Return a pattern for the word where no ASCII letter or digit is directly before or after it."""
    before, after = (re.match(_ALNUM, edge) for edge in (word[:1], word[-1:]))
    return f"{f'(?<!{_ALNUM})' if before else ''}{re.escape(word)}{f'(?!{_ALNUM})' if after else ''}"


def lost(source: str, output: str) -> list[int]:
    """Return the numbers, ascending, of marks that are missing, repeated, wrongly nested or in another pair."""
    wanted, found = _counted(source), _counted(output)
    wrong = {number for number, _ in (wanted - found) + (found - wanted)}
    (parents, not_nested), (source_parents, _) = _nesting(output), _nesting(source)
    wrong |= not_nested
    return sorted(
        wrong | {number for number, parent in parents.items() if source_parents.get(number, parent) != parent}
    )


def _nesting(text: str) -> tuple[dict[int, int], set[int]]:
    """Return for each pair the pair directly around it (0: none), and the numbers of pairs that are not well nested."""
    parents: dict[int, int] = {}
    opened: list[int] = []
    wrong: set[int] = set()
    for mark in MARK.finditer(text):
        if not mark[2]:
            continue
        number = int(mark[2])
        if not mark[1]:
            parents[number] = opened[-1] if opened else 0
            opened.append(number)
        elif opened and opened[-1] == number:
            opened.pop()
        else:
            wrong.add(number)
    return parents, wrong | set(opened)


_WITHOUT_TEXT = re.compile(r"<g(\d+)>\s*</g\1>")


def emptied(source: str, output: str, marks: Sequence[Mark]) -> list[int]:
    """Return the numbers, ascending, of pairs that have text in the source and none in the output.

    A single that is a word counts as text, one that is a tag or a symbol does not.
    """
    others = {f"<x{number}/>" for number, mark in enumerate(marks, 1) if not mark.word}

    def without_text(text: str) -> set[str]:
        return set(_WITHOUT_TEXT.findall(MARK.sub(lambda found: "" if found[0] in others else found[0], text)))

    return sorted(map(int, without_text(output) - without_text(source)))


def _counted(text: str) -> Counter[tuple[int, str]]:
    return Counter((int(found[2] or found[3]), found[0]) for found in MARK.finditer(text))


def source_of(piece: Piece) -> str:
    """Return what the source writes for a piece."""
    return piece.text if isinstance(piece, Verbatim) else restore(piece.text, piece.marks, piece.writer)


def restore(text: str, marks: Sequence[Mark], writer: Writer | None = None) -> str:
    """Return the text in the source's notation: marks become the source's tags, `writer` writes the characters.

    Marks that the source does not have are removed.
    """
    if writer is None and "<" not in text:
        return text
    # Not `isinstance`, which takes longer for a protocol than everything else here.
    arrange: Callable[[list[str], Sequence[Edge]], None] | None = getattr(writer, "arrange", None)
    if "<" not in text and arrange is None:
        return _written(text, writer)
    written: list[str] = []
    edges: list[Edge] = []
    labelled: dict[int, int] = {}  # links whose text is their label, by number: where they begin
    at = 0
    for found in MARK.finditer(text):
        written.append(_written(text[at : found.start()], writer))
        number = int(found[2] or found[3])
        mark = marks[number - 1] if 0 < number <= len(marks) else Mark("")
        closing = mark.closing or ""
        if found[2] and mark.closing is not None:
            edges.append((len(written), number, bool(found[1])))
            if mark.label and not found[1]:
                labelled[number] = len(written)
            elif number in labelled and "".join(written[labelled.pop(number) + 1 :]) != mark.label:
                closing = f"][{_LABEL_BREAK.sub(' ', mark.label)}]{closing.removeprefix(']').removeprefix('[]')}"
        written.append(closing if found[1] else mark.opening)
        at = found.end()
    written.append(_written(text[at:], writer))
    if arrange is not None:
        arrange(written, edges)
    return "".join(written)


_LABEL_BREAK = re.compile(r"[ \t\r]*\n[ \t>]*")


def with_translated_pieces(mark: Mark, translations: Iterator[str]) -> Mark:
    """Replace the blocks among the mark's pieces by the next translations, which are in the document's notation."""
    if not mark.pieces:
        return mark
    opening = "".join(piece.text if isinstance(piece, Verbatim) else next(translations) for piece in mark.pieces)
    return replace(mark, opening=opening, pieces=())


def _written(text: str, writer: Writer | None) -> str:
    return writer(text) if writer and text else text


_PAIR_OR_SPACED_SINGLE = re.compile(r"</?g\d{1,5}>| ?<x\d{1,5}/>(?=[\s.,;:!?)]|$)|<x\d{1,5}/>")


def plain(text: str) -> str:
    """Remove the marks, for checks and for display. A single between two words becomes one space."""
    return _PAIR_OR_SPACED_SINGLE.sub("", text) if "<" in text else text


def parts(text: str) -> list[tuple[str, bool]]:
    """Split a text into marks (True) and the parts between them, in order."""
    ends = [0, *(edge for found in MARK.finditer(text) for edge in found.span()), len(text)]
    return [(text[start:stop], bool(number % 2)) for number, (start, stop) in enumerate(pairwise(ends)) if start < stop]


_UNSPACED = r"\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])\w)+(?:['’]\w+)*")
"""A word; in scripts without spaces, a character."""
_PUNCTUATION = re.compile(r"[^\w\s]*")


def aligned(source: str, output: str) -> str:
    """Insert the source's marks into an output without marks, at places in proportion to the lengths of the source's parts.

    The part between two marks gets at least one word of the output if there are enough. An opening mark is directly before
    a word, a closing one directly after one.
    """
    words = [found.span() for found in _WORD.finditer(output)]
    found = parts(source)
    written: list[str] = []
    at, before = 0, ""
    boundaries = _boundaries(found, len(words))
    for text, is_mark in found:
        if not is_mark:
            before = text
            continue
        boundary = next(boundaries)
        place = at
        if text.startswith("</") or (text.startswith("<x") and before[-1:].strip()):
            if boundary and before:
                place = words[boundary - 1][1]
                if not (before[-1].isalnum() or before[-1].isspace()):
                    punctuation = _PUNCTUATION.match(output, place)
                    place = punctuation.end() if punctuation else place
        elif text.startswith("<g") or before:
            place = words[boundary][0] if boundary < len(words) else len(output)
        place = max(place, at)
        written += [output[at:place], text]
        at, before = place, ""
    return "".join([*written, output[at:]])


def _boundaries(found: Sequence[tuple[str, bool]], words: int) -> Iterator[int]:
    """Return how many of the output's words come before each mark of the source."""
    length = max(sum(len(text) for text, is_mark in found if not is_mark), 1)
    filled = [not is_mark and any(map(str.isalnum, text)) for text, is_mark in found]
    least = int(sum(filled) <= words)  # words for a part that has some
    after = sum(filled)
    passed = boundary = 0
    between = False
    for (text, is_mark), is_filled in zip(found, filled, strict=True):
        if not is_mark:
            passed += len(text)
            after -= is_filled
            between = is_filled
            continue
        if between:
            wanted = round(passed / length * words)
            boundary = max(boundary + least, min(wanted, words - after * least))
        between = False
        yield boundary
