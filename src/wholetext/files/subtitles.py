"""Reads srt, vtt, ass and ssa: a cue is a unit, always, and everything but its text is copied.

A cue's lines are one sentence or several. A break within a sentence is a space for the model, and the translation is wrapped
again to as many lines; a break between two sentences or speakers is a line break for the model too.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from wholetext.errors import InvalidFile
from wholetext.files.content import Content, ReadOptions
from wholetext.files.encodings import decode
from wholetext.files.strings import Splice
from wholetext.markup.blocks import InlineItem, build
from wholetext.markup.marks import Edge


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the file. Raises `InvalidFile` for one without the parts that its format must have."""
    text, encoding, warnings = decode(data)
    content = Content(warnings=warnings)
    splice = Splice(text)
    notation = _NOTATIONS[options.extension]
    for place, start, stop in _FINDERS[options.extension](text):
        cue = text[start:stop]
        if notation.left and notation.left.search(cue):
            content.leave(place, "karaoke", cue)
            continue
        breaks = notation.breaks(cue)
        pieces = build(notation.items(cue, breaks), notation=partial(_CueWriter, notation, breaks))
        splice.put(start, stop, content.add(pieces, place, follows=bool(content.units)))
    content.parts.append(splice.part(encoding))
    return content


# ---- where cues are: place, start and end of each text

_END = r"(?:\r\n?|\n|\Z)"
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+\Z")
_CLOCK = r"(?:\d{1,3}:)?\d{1,2}:\d{1,2}(?:[,.:]\d{1,3})?"
_TIMES = re.compile(rf"[ \t]*(?P<start>{_CLOCK})[ \t]*-->[ \t]*{_CLOCK}")
_NUMBER = re.compile(rf"[ \t\ufeff]*(\d{{1,9}})[ \t]*{_END}")


def _srt_cues(text: str) -> Iterator[tuple[str, int, int]]:
    """A cue's text ends before the number and the times of the next one, and without the blank lines before these."""
    lines = [found.span() for found in _LINE.finditer(text)]
    headers = [at for at, span in enumerate(lines) if _TIMES.match(text, *span)]
    if not headers:
        raise InvalidFile("the file has no cue: no line has times such as 00:00:01,000 --> 00:00:02,000", param="file")
    for number, at in enumerate(headers):
        following = headers[number + 1] if number + 1 < len(headers) else len(lines)
        if following < len(lines) and following - 1 > at and _NUMBER.match(text, *lines[following - 1]):
            following -= 1
        named = _NUMBER.match(text, *lines[at - 1]) if at else None
        start = lines[at][1]
        stop = lines[following][0] if following < len(lines) else len(text)
        yield _cue_place(named[1] if named else number + 1, text, lines[at]), start, stop


def _vtt_cues(text: str) -> Iterator[tuple[str, int, int]]:
    """A cue's text ends with an empty line, or with the next times; what has no times is copied. A line of white space is text,
    as in the captions of video sites."""
    if not text.startswith("WEBVTT"):
        raise InvalidFile("the file does not begin with WEBVTT", param="file")
    number = 0
    header: tuple[int, int] | None = None
    spans = [found.span() for found in _LINE.finditer(text)]
    for start, stop in (*spans, (len(text), len(text))):
        is_header = _TIMES.match(text, start, stop) is not None
        if header and (is_header or not text[start:stop].strip("\r\n")):
            number += 1
            yield _cue_place(number, text, header), header[1], start
            header = None
        if is_header:
            header = (start, stop)


def _cue_place(number: int | str, text: str, header: tuple[int, int]) -> str:
    times = _TIMES.match(text, *header)
    return f"cue {number} ({times['start'] if times else ''})"


_ASS_LINE = re.compile(
    r"(?<![^\r\n])[ \t]*(?:(?P<section>\[[^\]\r\n]*\])|(?P<format>Format)[ \t]*:(?P<fields>[^\r\n]*)"
    r"|Dialogue[ \t]*:(?P<event>[^\r\n]*))",
    re.IGNORECASE,
)


def _ass_cues(text: str) -> Iterator[tuple[str, int, int]]:
    """The last field of each `Dialogue`, whose number the section's `Format` tells."""
    in_events = found_events = False
    fields = 10
    number = 0
    for line in _ASS_LINE.finditer(text):
        if line["section"]:
            in_events = line["section"].lower() == "[events]"
            found_events |= in_events
        elif in_events and line["format"]:
            fields = line["fields"].count(",") + 1
        elif in_events:
            number += 1
            values = line["event"].split(",", fields - 1)
            if len(values) == fields > 1:
                yield f"cue {number} ({values[1].strip()})", line.end() - len(values[-1]), line.end()
    if not found_events:
        raise InvalidFile("the file has no section [Events]", param="file")


_FINDERS = {"srt": _srt_cues, "vtt": _vtt_cues, "ass": _ass_cues}

# ---- what is in a cue

_TAG_NAMES = "b|i|u|s|c|v|font|lang|ruby|rt|span|em|strong"
_ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">"}
_ASS_DRAWING = r"\{[^{}]*\\p[1-9][^{}]*\}[^{]*(?:\{(?![^{}]*\\p0)[^{}]*\}[^{]*)*+"


@dataclass(frozen=True, slots=True)
class _Break:
    """A line break in a cue. `is_hard`: sentences or speakers are on its two sides."""

    start: int
    stop: int
    source: str
    is_hard: bool


@dataclass(frozen=True, slots=True)
class _Notation:
    """How a format writes a cue. `items_of` has groups `open`, `close`, `single` and `entity`, `break_of` finds line breaks;
    cues with `left` stay as they are, and `escaped` signs are replaced in a translation."""

    items_of: re.Pattern[str]
    break_of: re.Pattern[str]
    escaped: tuple[tuple[re.Pattern[str], str], ...]
    left: re.Pattern[str] | None = None

    def breaks(self, cue: str) -> list[_Break]:
        """The line breaks between two texts of a cue."""
        stop, start = len(cue.rstrip()), len(cue) - len(cue.lstrip())
        pattern = self.break_of
        in_tags = _LINES_IN_TAGS.fullmatch(cue, start, stop)
        if in_tags:  # `<i>one</i>\n<i>two</i>` is one text in one pair
            between = re.compile(rf"</{in_tags[1]}>[ \t]*(?:\r\n?|\n)[ \t]*<{in_tags[1]}>")
            pattern = between if len(between.findall(cue)) + 1 == cue.count(f"<{in_tags[1]}>") else pattern
        found = list(pattern.finditer(cue, start, stop))
        edges = [start, *(edge for one in found for edge in one.span()), stop]
        lines = [self._shown(cue[begin:end]) for begin, end in zip(edges[::2], edges[1::2], strict=True)]
        last = max((number for number, line in enumerate(lines) if line), default=0)
        breaks: list[_Break] = []
        before = ""
        for number, one in enumerate(found):
            before = lines[number] or before
            if before and number < last:
                breaks.append(_Break(*one.span(), one[0], _is_between_sentences(before, lines[number + 1])))
        return breaks

    def _shown(self, text: str) -> str:
        return self.items_of.sub("", text).strip()

    def items(self, cue: str, breaks: Sequence[_Break]) -> Iterator[InlineItem]:
        """The items of a cue."""
        at = 0
        for one in breaks:
            yield from self._line_items(cue[at : one.start])
            yield InlineItem.text(one.source, "\n" if one.is_hard else " ", (0, len(one.source)))
            at = one.stop
        yield from self._line_items(cue[at:])

    def _line_items(self, line: str) -> Iterator[InlineItem]:
        at = 0
        for found in self.items_of.finditer(line):
            if found.start() > at:
                yield from _with_dashes(line[at : found.start()])
            at = found.end()
            kind = found.lastgroup
            if kind == "entity":
                yield InlineItem.text(found[0], _ENTITIES[found[0]], (0, len(found[0])))
            elif kind == "open" or kind == "close":
                name = re.search(r"[A-Za-z]+", found[0])
                yield InlineItem(kind, found[0], name=name[0] if name else "")
            else:
                yield InlineItem("single", found[0])
        if at < len(line):
            yield from _with_dashes(line[at:])


_DASH = "\N{EM DASH}"
_HYPHENS = re.compile(r"(?<![-<!'\"`(\[])--(?![->]|[a-z][A-Za-z0-9]*[-=])")
"""A dash of speech. An option of a command has a value, a second word or a quote: `--no-color`, `"--all"`."""


def _with_dashes(text: str) -> Iterator[InlineItem]:
    """The items of a text, in which two hyphens are read as a dash: `no --wait` has no option of a command."""
    at = 0
    for found in _HYPHENS.finditer(text):
        if found.start() > at:
            yield InlineItem.text(text[at : found.start()])
        yield InlineItem.text(found[0], _DASH, (0, len(found[0])))
        at = found.end()
    if at < len(text):
        yield InlineItem.text(text[at:])


_LINES_IN_TAGS = re.compile(r"<([ibu])>.*</\1>", re.DOTALL)
_ENDS_SENTENCE = re.compile(r"[.!?…。！？♪♫:：][\"'”’»)\]」』]*$")
_SPEAKS = re.compile(r"[-–—‐−‑♪♫#\[(（【]|>>|[\"“«「『]")


def _is_between_sentences(before: str, after: str) -> bool:
    if after[:1] in "-–—‐−‑" or after.startswith(">>"):
        return True
    return _ENDS_SENTENCE.search(before) is not None and (not after[:1].islower() or _SPEAKS.match(after) is not None)


_MARKUP = rf"(?P<open><(?:{_TAG_NAMES})(?:[ .\t][^<>\r\n]*)?>)|(?P<close></(?:{_TAG_NAMES})[ \t]*>)"
_LINE_BREAK = re.compile(r"(?<![ \t])[ \t]*(?:\r\n?|\n)(?:[ \t\r\n]|\xa0++(?=[ \t]*[\r\n]))*")
_NOTATIONS = {
    "srt": _Notation(
        re.compile(
            rf"{_MARKUP}|(?P<single>\{{\\[^{{}}\r\n]*\}}|\{{[yYcCfFsSpP]:[^{{}}\r\n]*\}}|<br ?/?>)", re.IGNORECASE
        ),
        _LINE_BREAK,
        ((re.compile("-{2,}>"), "->"),),
    ),
    "vtt": _Notation(
        re.compile(rf"{_MARKUP}|(?P<single><{_CLOCK}>|&(?:nbsp|lrm|rlm|#\w{{1,7}});)|(?P<entity>&(?:amp|lt|gt);)"),
        _LINE_BREAK,
        ((re.compile("&"), "&amp;"), (re.compile("<"), "&lt;"), (re.compile("-->"), "--&gt;")),
    ),
    "ass": _Notation(
        re.compile(
            rf"(?P<open>\{{\\[ibus][1-9]\d*\}})|(?P<close>\{{\\[ibus]0?\}})|(?P<single>{_ASS_DRAWING}|\{{[^{{}}]*\}}|\\h)"
        ),
        re.compile(r"(?<![ \t])[ \t]*\\[Nn][ \t]*"),
        ((re.compile("{"), "("), (re.compile("}"), ")")),
        left=re.compile(r"\{[^{}]*\\(?:k|K|ko|kf)\d"),
    ),
}

# ---- writing


_ANY_BREAK = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
_NO_LINE_START = frozenset(")]}>）］｝」』】》〉”’».,;:!?。、，．；：！？…ーぁぃぅぇぉっゃゅょァィゥェォッャュョ々〜%")
_NO_LINE_END = frozenset("([{<（［｛「『【《〈“‘«¿¡")


class _CueWriter:
    """Writes a cue with as many lines as the source has, where it has words enough."""

    def __init__(self, notation: _Notation, breaks: Sequence[_Break], texts: Iterable[tuple[str, str]]) -> None:
        self._breaks = breaks
        self._texts = list(texts)
        is_decoded = any(_DASH in shown for shown, _ in self._texts) and not any(
            _DASH in source for _, source in self._texts
        )
        self._escaped = ((re.compile(_DASH), "--"), *notation.escaped) if is_decoded else notation.escaped

    def __call__(self, text: str) -> str:
        return text

    def arrange(self, written: list[str], edges: Sequence[Edge]) -> None:
        """Break the lines, and write characters as the format has them."""
        places = [at for at in range(0, len(written), 2) if written[at]]
        if [written[at] for at in places] == [shown for shown, _ in self._texts]:
            for at, (_, source) in zip(places, self._texts, strict=True):
                written[at] = source
            return
        texts = self._wrapped([_ANY_BREAK.sub("\n", text) for text in written[::2]])
        number = 0
        for at, text in enumerate(texts):
            lines = text.split("\n")
            for signs, form in self._escaped:
                lines = [signs.sub(form, line) for line in lines]
            written[2 * at] = lines[0]
            for line in lines[1:]:
                written[2 * at] += (self._breaks[number].source if number < len(self._breaks) else " ") + line
                number += 1

    def _wrapped(self, texts: list[str]) -> list[str]:
        """The texts with one line break for each of the source's, if there are words enough."""
        lines = [1]  # of each text between hard breaks
        for one in self._breaks:
            lines += [1] if one.is_hard else []
            lines[-1] += not one.is_hard
        groups = "".join(texts).split("\n")
        if len(groups) != len(lines) or not all(map(str.strip, groups)):
            texts = [text.replace("\n", " ") for text in texts]
            groups, lines = ["".join(texts)], [sum(lines)]
        breaks: dict[int, str] = {}
        begin = 0
        for group, count in zip(groups, lines, strict=True):
            breaks |= {begin + at: sign for at, sign in _places_to_break(group, count)}
            begin += len(group) + 1
        wrapped: list[str] = []
        at = 0
        for text in texts:
            wrapped.append("".join(breaks.get(at + index, character) for index, character in enumerate(text)))
            at += len(text)
        return wrapped


def _places_to_break(text: str, lines: int) -> Iterator[tuple[int, str]]:
    """Yield what to replace, by index, so that `text` has `lines` lines of about one width."""
    if lines < 2:
        return
    widths: list[int] = []  # before each place
    places: list[tuple[int, str]] = []
    width = 0
    for at, character in enumerate(text):
        is_wide = unicodedata.east_asian_width(character) in "WF"
        before = text[at - 1] if at else " "
        if character == " " and not before.isspace() and text[at + 1 : at + 2].strip():
            places.append((at, "\n"))
            widths.append(width)
        elif is_wide and before.strip() and before not in _NO_LINE_END and character not in _NO_LINE_START:
            places.append((at, f"\n{character}"))
            widths.append(width)
        width += 1 + is_wide
    least = 0
    for number in range(1, lines):
        ideal = width * number / lines
        found = bisect_left(widths, ideal, least)
        if found > least and (found == len(widths) or ideal - widths[found - 1] <= widths[found] - ideal):
            found -= 1
        if found >= len(widths):
            return
        yield places[found]
        least = found + 1
