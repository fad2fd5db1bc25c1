"""Encodings of files: what bytes are decoded with, and how a translation is written where the encoding cannot hold it."""

from __future__ import annotations

import codecs
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a part is encoded, with its byte order mark if it has one. `references`: the part is XML or HTML, which can write
    any character as a reference."""

    name: str = "utf-8"
    mark: bytes = b""
    references: bool = False

    def encode(self, data: bytes) -> tuple[bytes, list[str]]:
        """Return a part, which is given in UTF-8 without its mark, in its own encoding, and warnings.

        Where characters are missing in the encoding they become references, or else the part becomes UTF-8, with a warning.
        """
        if codecs.lookup(self.name).name == "utf-8":
            return self.mark + data, []
        text = data.decode("utf-8")
        try:
            return self.mark + text.encode(self.name, "xmlcharrefreplace" if self.references else "strict"), []
        except UnicodeEncodeError:
            return data, [f"the translation has characters that {self.name} lacks: the file is UTF-8 now"]


UTF_8 = Encoding()
