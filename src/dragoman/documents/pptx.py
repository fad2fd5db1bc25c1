"""Reads pptx and its variants: slides in their order, notes, tables, SmartArt, charts, alternative texts, comments.

Masters and layouts are left: their texts are prompts.
"""

from __future__ import annotations

from dragoman.documents.content import Content, ReadOptions
from dragoman.documents.drawingml import PartReader, read_drawings, read_properties, read_shapes, set_directions
from dragoman.documents.opc import Package


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the package. Raises `InvalidFile` with the place for one that is no pptx."""
    package = Package(data, "pptx")
    content = Content()
    read_properties(package, content, options.target)
    targets = {one.id: one.target for one in package.relationships(package.main)}
    slides = [targets.get(one.get("r:id"), "") for one in package.elements(package.main, "p:sldId")]
    places: dict[str, str] = {}
    comments: list[tuple[str, str]] = []
    for number, slide in enumerate(dict.fromkeys(filter(None, slides)), 1):
        place = f"slide {number}"
        read_shapes(PartReader(package, slide, content, options.target), place)
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
    masters = [name for kind in ("slideMaster", "slideLayout", "notesMaster") for name in package.typed(f".{kind}+xml")]
    for name in (package.main, *masters):
        set_directions(PartReader(package, name, content, options.target))
    return package.finish(content)


def _read_comments(reader: PartReader, place: str, *, translated: bool) -> None:
    for element in reader.package.elements(reader.name, "a:p", "p:text"):
        if not translated:
            reader.content.leave(place, "comment", element.text)
        elif element.name == "a:p":
            reader.add_paragraph(element, place)
        else:
            reader.add_text(element, place)
