"""Boxes of fixed size in OpenDocument: which shapes do not grow with their text, their room, and the size of their letters.

LibreOffice writes `draw:auto-grow-height` in the style of a shape, and `fo:min-height` in a text box of Writer that grows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import unescape

from wholetext.files.growth import Portion, Room, grown_warning, overflow, widths_of
from wholetext.files.xmlpart import Element

_SHAPES = ("custom-shape", "rect", "ellipse", "caption", "text-box")
SHAPES = frozenset(f"draw:{name}" for name in _SHAPES)
_LENGTH = re.compile(r"(-?\d{1,6}(?:\.\d{1,6})?)(cm|mm|in|pt|pc|px)")
_POINTS = {"cm": 72 / 2.54, "mm": 7.2 / 2.54, "in": 72.0, "pt": 1.0, "pc": 12.0, "px": 0.75}
_SIDES = ("left", "right", "top", "bottom")
_PADDING = {"left": "0.25cm", "right": "0.25cm", "top": "0.125cm", "bottom": "0.125cm"}
"""Of drawings; a text box of Writer has none."""
_LARGEST = 100_000.0  # points, more than any page
_DEEPEST_STYLES = 20
_OTHER_FAMILIES = {"presentation": "graphic"}
_DEFAULT_FONT = "Liberation Sans"


def _points(length: str) -> float | None:
    found = _LENGTH.fullmatch(length)
    return float(found[1]) * _POINTS[found[2]] if found else None


@dataclass(frozen=True, slots=True)
class Look:
    """How letters look: their size in points."""

    size: float
    bold: bool = False
    font: str = _DEFAULT_FONT


@dataclass(frozen=True, slots=True)
class _Style:
    parent: str
    attributes: Mapping[str, str]  # of its properties


@dataclass(slots=True)
class Styles:
    """What the styles of a document, or of a part, say of boxes and letters, by family and name; defaults have no name."""

    default: Look
    common: Styles | None = None
    _styles: dict[tuple[str, str], _Style] = field(default_factory=dict[tuple[str, str], _Style])

    def learn(self, style: Element) -> None:
        attributes = {
            key: value
            for properties in style.elements
            for key, value in properties.attributes.items()
            if key.startswith(("fo:", "draw:", "style:font"))
        }
        key = (style.get("style:family"), style.get("style:name"))
        self._styles[key] = _Style(style.get("style:parent-style-name"), attributes)

    def value(self, family: str, name: str, attribute: str) -> str:
        """Return an attribute of a style, its own or an inherited one; empty if there is none."""
        for _ in range(_DEEPEST_STYLES):
            style = self._style(family, name)
            if style is None or not name:
                break
            if attribute in style.attributes:
                return style.attributes[attribute]
            name = style.parent
        default = self._style(_OTHER_FAMILIES.get(family, family), "") if family != "text" else None
        return default.attributes.get(attribute, "") if default else ""

    def _style(self, family: str, name: str) -> _Style | None:
        own = self._styles.get((family, name)) or self._styles.get((_OTHER_FAMILIES.get(family, family), name))
        return own or (self.common._style(family, name) if self.common else None)

    def look(self, family: str, name: str, around: Look) -> Look:
        """Return how letters in an element of this style look, in one whose letters look like `around`."""
        size = self.value(family, name, "fo:font-size") if name else ""
        weight = self.value(family, name, "fo:font-weight") if name else ""
        if size.endswith("%") and size[:-1].isdecimal() and len(size) < 6:
            points = around.size * int(size[:-1]) / 100
        else:
            points = _points(size) or around.size
        font = (
            (self.value(family, name, "style:font-name") or self.value(family, name, "fo:font-family")) if name else ""
        )
        return Look(
            points, weight in ("bold", "700", "800", "900") if weight else around.bold, font.strip("'\"") or around.font
        )


@dataclass(frozen=True, slots=True)
class Box:
    """A shape of fixed size: its number among the shapes of the element that it is found in, its room, its letters."""

    number: int
    room: Room
    look: Look


def boxes(element: Element, styles: Styles, *, in_writer: bool) -> list[Box]:
    """Return the boxes of fixed size in an element with text in them."""
    found: list[Box] = []
    number = 0
    waiting: list[tuple[Element, Element | None]] = [(element, None)]
    while waiting:
        one, parent = waiting.pop()
        if one.name in SHAPES:
            frame = parent if one.name == "draw:text-box" and parent is not None else one
            family, name = _style_of(frame)
            room = _room(one, frame, lambda key, of=(family, name): styles.value(*of, key), in_writer)
            if room is not None and any(map(str.isalpha, one.text)):
                found.append(Box(number, room, styles.look(family, name, styles.default)))
            number += 1
        waiting += [(child, one) for child in reversed(one.elements)]
    return found


def _style_of(frame: Element) -> tuple[str, str]:
    """The family and name of a shape's style."""
    name = frame.get("presentation:style-name")
    return ("presentation", name) if name else ("graphic", frame.get("draw:style-name"))


def _room(shape: Element, frame: Element, value: Callable[[str], str], in_writer: bool) -> Room | None:
    """The room of a shape; None if it grows with its text, or shrinks it, or has no size."""
    is_box = in_writer and shape.name == "draw:text-box"
    if is_box:
        is_fixed = not shape.get("fo:min-height")
    else:
        is_fixed = value("draw:auto-grow-height") == "false" and value("draw:fit-to-size") in ("", "false")
    width, height = _points(frame.get("svg:width")), _points(frame.get("svg:height"))
    if not is_fixed or width is None or height is None or value("fo:wrap-option") == "no-wrap":
        return None
    padding = {
        side: _points(value(f"fo:padding-{side}") or value("fo:padding") or ("" if is_box else _PADDING[side])) or 0.0
        for side in _SIDES
    }
    width -= padding["left"] + padding["right"]
    height -= padding["top"] + padding["bottom"]
    return Room(width, height) if 0 < width < _LARGEST and 0 < height < _LARGEST else None


# ---- texts


_TAG = re.compile(r"<(/?)([\w.-]++:[\w.-]++)([^<>]*?)(/?)>|([^<>]++)")
_STYLE_NAME = re.compile(r"\stext:style-name=[\"']([^\"']*)[\"']")
_BLANKS = {"text:line-break": ("", True), "text:tab": (" ", False), "text:s": (" ", False)}
_STYLED = {"text:p": "paragraph", "text:h": "paragraph", "text:span": "text"}


def _shape_texts(xml: str) -> list[str]:
    """The content of each shape in an element, in the order of their beginnings."""
    texts: list[str] = []
    opened: list[tuple[int, int]] = []  # number and start
    for tag in _TAG.finditer(xml):
        if tag[2] not in SHAPES:
            continue
        if not tag[1]:
            texts.append("")
            if not tag[4]:
                opened.append((len(texts) - 1, tag.end()))
        elif opened:
            number, start = opened.pop()
            texts[number] = xml[start : tag.start()]
    return texts


def _portions(xml: str, styles: Styles, look: Look) -> list[list[Portion]]:
    """Return the paragraphs of a shape's content, each with a portion without text that has its size."""
    paragraphs: list[list[Portion]] = []
    looks = [look]
    for tag in _TAG.finditer(xml):
        closes, name, attributes, is_empty, text = tag.groups()
        if name in _STYLED and closes:
            looks = looks[:-1] if len(looks) > 1 else looks
        elif name in _STYLED:
            style = _STYLE_NAME.search(attributes)
            own = styles.look(_STYLED[name], style[1], looks[-1]) if style else looks[-1]
            paragraphs += [[Portion("", own.size)]] if name != "text:span" else []
            looks += [] if is_empty else [own]
        elif len(looks) > 1 and (text or name in _BLANKS):
            shown, breaks = (unescape(text), False) if text else _BLANKS[name]
            paragraphs += [] if paragraphs else [[Portion("", looks[-1].size)]]  # text that stands in none
            paragraphs[-1].append(Portion(shown, looks[-1].size, looks[-1].bold, breaks))
    return paragraphs


@dataclass(frozen=True, slots=True)
class BoxCheck:
    """Reports the boxes in an element whose translated text needs more than their room. It writes nothing."""

    element: tuple[int, int]
    data: bytes
    boxes: list[Box]
    styles: Styles
    place: str

    def __call__(self, _: str, source: Callable[[int, int], str], warn: Callable[[str], None]) -> str:
        before, after = self.data[slice(*self.element)].decode("utf-8"), source(*self.element)
        if before != after:
            earlier, later = _shape_texts(before), _shape_texts(after)
            for box in self.boxes if len(earlier) == len(later) else ():
                font = re.sub(r"\d+\Z", "", box.look.font)
                widths = widths_of(font)
                was, now = (_portions(xml[box.number], self.styles, box.look) for xml in (earlier, later))
                grown = overflow(was, now, box.room, widths)
                if grown is not None:
                    warn(grown_warning(self.place, grown.share, font, widths))
        return ""
