"""The documents of the cells: made and read with python-docx, python-pptx and pysubs2.

python -m tests.clients.files RESULT       # a cell checks a file that its client has downloaded
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import docx
import pptx
import pysubs2

BOLD = "credit card"


def write_all(folder: Path, texts: Sequence[str]) -> None:
    """Write `a.docx`, `a.pptx` and `a.srt`, each with all texts. One word of the docx is bold."""
    document = docx.Document()
    for text in texts:
        before, bold, after = text.partition(BOLD)
        paragraph = document.add_paragraph(before)
        paragraph.add_run(bold).bold = True
        paragraph.add_run(after)
    document.save(str(folder / "a.docx"))
    slides = pptx.Presentation()
    for text, other in zip(texts[::2], texts[1::2], strict=True):
        slide = slides.slides.add_slide(slides.slide_layouts[1])
        slide.shapes.title.text = text
        slide.placeholders[1].text = other
    slides.save(str(folder / "a.pptx"))
    subtitles = pysubs2.SSAFile()
    subtitles.events = [pysubs2.SSAEvent(1000 * n, 1000 * n + 900, text=text) for n, text in enumerate(texts)]
    subtitles.save(str(folder / "a.srt"))


def texts_of(file: Path) -> list[str]:
    """The texts of a file, in order."""
    match file.suffix:
        case ".docx":
            return [one.text for one in docx.Document(str(file)).paragraphs]
        case ".pptx":
            return [shape.text_frame.text for slide in pptx.Presentation(str(file)).slides for shape in slide.shapes]
        case _:
            return [one.plaintext for one in pysubs2.load(str(file))]


def main() -> None:
    """Check the texts of a result: those of the native API, but for the sentence with a bold word, where it is bold still."""
    result = Path(sys.argv[1])
    texts, expected = json.loads(os.environ["CLIENT_TEXTS"]), json.loads(os.environ["CLIENT_EXPECTED"])["ja"]
    found = texts_of(result)
    for text, translation, one in zip(texts, expected, found, strict=True):
        if result.suffix != ".docx" or BOLD not in text:
            assert one == translation, f"{one!r} instead of {translation!r}"
        else:
            [paragraph] = [paragraph for paragraph in docx.Document(str(result)).paragraphs if paragraph.text == one]
            bold = "".join(run.text for run in paragraph.runs if run.bold)
            assert 0 < len(bold) < len(one) and not one.isascii(), (one, bold)


if __name__ == "__main__":
    main()
