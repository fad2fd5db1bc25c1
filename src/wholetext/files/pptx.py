"""Reads pptx and its variants: slides in their order, notes, tables, SmartArt, charts, alternative texts, comments.

Of masters and layouts, text boxes are read, which each slide shows; texts of placeholders are prompts, and left. A text that
grows out of a box of fixed size is shrunk to it.
"""

from __future__ import annotations

from wholetext.files.boxes import SlideBoxes
from wholetext.files.content import Content, ReadOptions
from wholetext.files.drawingml import PartReader, read_drawings, read_properties, read_shapes, set_directions
from wholetext.files.opc import Package

_MASTERS = {
    "slideMaster": "master",
    "slideLayout": "layout",
    "notesMaster": "master of notes",
    "handoutMaster": "master of handouts",
}
"""Parts that others take their looks from, and what people call them."""


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the package. Raises `InvalidFile` with the place for one that is no pptx."""
    package = Package(data, "pptx")
    content = Content()
    read_properties(package, content, options.target)
    targets = {one.id: one.target for one in package.relationships(package.main)}
    slides = [targets.get(one.get("r:id"), "") for one in package.elements(package.main, "p:sldId")]
    boxes = SlideBoxes(package)
    places: dict[str, str] = {}
    comments: list[tuple[str, str]] = []
    for number, slide in enumerate(dict.fromkeys(filter(None, slides)), 1):
        place = f"slide {number}"
        read_shapes(PartReader(package, slide, content, options.target), place, boxes=boxes.of(slide))
        for one in package.relationships(slide):
            if one.type == "notesSlide":
                read_shapes(PartReader(package, one.target, content, options.target), f"{place}, notes")
            elif one.type == "comments":
                comments.append((one.target, f"{place}, comment"))
            elif one.type not in ("slideLayout", "slide"):
                places.setdefault(one.target, place)
    for name, place in dict(comments).items():
        _read_comments(PartReader(package, name, content, options.target), place, translated=options.comments)
    read_drawings(package, content, options.target, places)
    for kind, place in _MASTERS.items():
        for number, name in enumerate(package.typed(f".{kind}+xml"), 1):
            reader = PartReader(package, name, content, options.target)
            read_shapes(reader, f"{place} {number}", boxes=boxes.of(name), is_master=True)
            set_directions(reader)
    set_directions(PartReader(package, package.main, content, options.target))
    return package.finish(content)


def _read_comments(reader: PartReader, place: str, *, translated: bool) -> None:
    for element in reader.package.elements(reader.name, "a:p", "p:text"):
        if not translated:
            reader.content.leave(place, "comment", element.text)
        elif element.name == "a:p":
            reader.add_paragraph(element, place)
        else:
            reader.add_text(element, place)
