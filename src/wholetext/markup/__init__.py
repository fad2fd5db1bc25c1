"""Texts with markup: pieces to translate, with marks, and pieces to copy, whose concatenation is the text. No files."""

from __future__ import annotations

from typing import Literal

PublicFormat = Literal["text", "html", "xml", "markdown"]
"""What a caller may say a text is."""

TextFormat = Literal[PublicFormat, "marks"]
"""`marks`: the text of one block of a document, in which `<g1>…</g1>` and `<x1/>` (`markup.marks`) stand for what comes back
as it is."""
