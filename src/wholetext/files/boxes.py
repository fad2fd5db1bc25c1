"""Boxes of fixed size in DrawingML: how much room a shape has for its text, and the size of its letters.

A placeholder of a slide takes what it does not say itself from the one of its layout, and this from its master.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from wholetext.files.content import Region
from wholetext.files.growth import POINT, Fitting, Room, drawing_portions, word_portions
from wholetext.files.opc import Package
from wholetext.files.xmlpart import Element

_INSETS = {"lIns": 91_440, "rIns": 91_440, "tIns": 45_720, "bIns": 45_720}
_UPRIGHT = frozenset({"", "horz"})
_OF_TITLES, _OF_BODIES = frozenset({"title", "ctrTitle"}), frozenset({"body", "subTitle", "obj", ""})
_LEVELS = 9
_DEFAULT_SIZE = 18.0
_DEFAULT_FONT = "Calibri"
_LARGEST = 10_000_000_000  # EMU, more than any page


def _number(value: str) -> int:
    return int(value) if value.lstrip("-").isdecimal() and len(value) < 12 else 0


def _sizes(style: Element | None) -> dict[int, float]:
    """The size in points of each level that a list of styles gives one."""
    found: dict[int, float] = {}
    for level in range(_LEVELS) if style else ():
        properties = style.child(f"a:lvl{level + 1}pPr") if style else None
        run = properties.child("a:defRPr") if properties else None
        if run is not None and run.get("sz"):
            found[level] = _number(run.get("sz")) / 100
    return found


def _below(element: Element | None, *names: str) -> Element | None:
    for name in names:
        element = next((one for one in element.elements if one.name.endswith(name)), None) if element else None
    return element


@dataclass(frozen=True, slots=True)
class _Placeholder:
    """What a shape says of its box: its size in EMU, the properties of its text, and sizes of letters by level."""

    kind: str
    index: str
    extent: Element | None
    properties: Element | None
    sizes: Mapping[int, float]

    @classmethod
    def of(cls, shape: Element) -> _Placeholder:
        place, body = _below(shape, ":nvSpPr", ":nvPr", ":ph"), _below(shape, ":txBody")
        return cls(
            place.get("type") if place else "",
            place.get("idx") if place else "",
            _below(shape, ":spPr", "a:xfrm", "a:ext"),
            _below(body, "a:bodyPr"),
            _sizes(_below(body, "a:lstStyle")),
        )


@dataclass(slots=True)
class Boxes:
    """What the shapes of a part inherit: of placeholders from `levels`, the nearest part first, then from `styles`."""

    levels: list[list[_Placeholder]] = field(default_factory=lambda: list[list[_Placeholder]]())
    styles: dict[str, dict[int, float]] = field(default_factory=dict[str, dict[int, float]])
    font: str = _DEFAULT_FONT
    size: float = _DEFAULT_SIZE
    shrinks: bool = False

    def fitting(self, data: bytes, shape: Element, place: str) -> Region | None:
        """Return the region that fits a shape's text into its box; None if the box has no fixed size, or none at all."""
        body = _below(shape, ":txBody")
        paragraphs = [one for one in body.elements if one.name == "a:p"] if body else []
        own = _Placeholder.of(shape)
        chain = [own, *self._inherited(shape, own)]
        properties = own.properties
        if properties is None or not any(any(map(str.isalpha, one.text)) for one in paragraphs):
            return None
        room = _room(chain)
        if room is None:
            return None
        sizes = [one.sizes for one in chain]
        if len(chain) > 1 or _below(shape, ":nvSpPr", ":nvPr", ":ph") is not None:
            style = "title" if own.kind in _OF_TITLES else "body" if own.kind in _OF_BODIES else "other"
            sizes.append(self.styles.get(style, {}))
        sizes.append(self.styles.get("default", {}))

        def size(level: int) -> float:
            return next((one[level] for one in sizes if level in one), self.size)

        span, portions = (paragraphs[0].start, paragraphs[-1].end), partial(drawing_portions, sizes=size)
        fitting = Fitting(data, properties, span, room, portions, self.font, place, self.shrinks)
        return Region(properties.start, properties.end, (), fitting)

    def _inherited(self, shape: Element, own: _Placeholder) -> Iterator[_Placeholder]:
        if _below(shape, ":nvSpPr", ":nvPr", ":ph") is None:
            return
        kinds = next((kinds for kinds in (_OF_TITLES, _OF_BODIES) if own.kind in kinds), frozenset({own.kind}))
        for level in self.levels:
            same = [one for one in level if own.index and one.index == own.index]
            alike = [one for one in level if one.kind in kinds]
            yield from (same or alike)[:1]


def _room(chain: list[_Placeholder]) -> Room | None:
    """The room of a box, None if it grows with its text or has no size."""
    bodies = [one.properties for one in chain if one.properties is not None]
    autofit = next(
        (
            child
            for body in bodies
            for child in body.elements
            if child.name in ("a:spAutoFit", "a:normAutofit", "a:noAutofit")
        ),
        None,
    )
    extent = next((one.extent for one in chain if one.extent is not None), None)

    def said(name: str, default: str = "") -> str:
        return next((body.get(name) for body in bodies if body.get(name)), default)

    if extent is None or said("wrap") == "none" or (autofit is not None and autofit.name == "a:spAutoFit"):
        return None
    insets = {name: _number(said(name, str(default))) for name, default in _INSETS.items()}
    width = _number(extent.get("cx")) - insets["lIns"] - insets["rIns"]
    height = _number(extent.get("cy")) - insets["tIns"] - insets["bIns"]
    if said("vert") not in _UPRIGHT:
        width, height = height, width
    columns = max(1, min(_number(said("numCol", "1")), 16))
    if not (0 < width < _LARGEST and 0 < height < _LARGEST):
        return None
    scale = _number(autofit.get("fontScale").rstrip("%")) / 1000 if autofit and autofit.get("fontScale") else 100.0
    return Room(width / columns / POINT, height * columns / POINT, scale if 1 <= scale <= 100 else 100.0)


def word_fitting(data: bytes, shape: Element, place: str) -> Region | None:
    """Return the region that measures the text in a shape of Word; None if the shape has no fixed size, or no text."""
    properties, text = _below(shape, "bodyPr"), _below(shape, "txbx", "txbxContent")
    if properties is None or text is None or not any(map(str.isalpha, text.text)):
        return None
    extent = _below(shape, "spPr", "a:xfrm", "a:ext")
    room = _room([_Placeholder("", "", extent, properties, {})])
    if room is None:
        return None
    span = (text.content, text.close)
    fitting = Fitting(data, properties, span, room, word_portions, _DEFAULT_FONT, place, shrinks=False)
    return Region(properties.start, properties.end, (), fitting)


class SlideBoxes:
    """The boxes of each slide, layout and master of a presentation."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._placeholders: dict[str, list[_Placeholder]] = {}
        self._styles: dict[str, dict[str, dict[int, float]]] = {}
        self._fonts: dict[str, str] = {}
        defaults = next(package.elements(package.main, "p:defaultTextStyle"), None)
        self._default = _sizes(defaults)

    def of(self, part: str) -> Boxes:
        """Return what the shapes of a part inherit."""
        above: list[str] = []
        at = part
        for kind in ("slideLayout", "slideMaster"):
            at = next((one.target for one in self._package.relationships(at) if one.type == kind), "") if at else ""
            if at:
                above.append(at)
            else:
                at = part
        master = above[-1] if above else part
        styles = {"default": self._default, **self._of_master(master)}
        return Boxes([self._shapes(one) for one in above], styles, self._font(master), shrinks=True)

    def _shapes(self, name: str) -> list[_Placeholder]:
        if name not in self._placeholders:
            shapes = self._package.elements(name, "p:sp")
            self._placeholders[name] = [
                _Placeholder.of(one) for one in shapes if _below(one, ":nvSpPr", ":nvPr", ":ph") is not None
            ]
        return self._placeholders[name]

    def _of_master(self, name: str) -> dict[str, dict[int, float]]:
        if name not in self._styles:
            kinds = ("title", "body", "other")
            found = self._package.elements(name, *(f"p:{kind}Style" for kind in kinds))
            self._styles[name] = {one.name[2:].removesuffix("Style"): _sizes(one) for one in found}
        return self._styles[name]

    def _font(self, master: str) -> str:
        if master not in self._fonts:
            theme = next((one.target for one in self._package.relationships(master) if one.type == "theme"), None)
            minor = next(self._package.elements(theme, "a:minorFont"), None) if theme else None
            latin = minor.child("a:latin") if minor else None
            self._fonts[master] = (latin.get("typeface") if latin else "") or _DEFAULT_FONT
        return self._fonts[master]
