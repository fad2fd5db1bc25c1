"""The terms of a document's glossaries as they were at its upload: a file beside it.

The first line says of each dictionary which languages it is for, and its key; each other one is a dictionary's number, a term
and its translation. A reader takes line by line, and other threads run in between. A document whose language is to be detected
has the dictionaries of all languages that it may be in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from dragoman.errors import DocumentLost
from dragoman.storage.document_files import TERMS as TERMS

Key = tuple[object, ...]
"""Of terms: equal keys have equal terms."""


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Terms for a document in one of `sources`; none: in any language."""

    sources: Sequence[str]
    key: Key
    entries: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DocumentTerms:
    """All terms of a document."""

    dictionaries: list[Dictionary] = field(default_factory=list[Dictionary])

    def of(self, source: str | None) -> tuple[Mapping[str, str], Key | None]:
        """Return the terms for a document's language, and their key."""
        for one in self.dictionaries:
            if not one.sources or source in one.sources:
                return one.entries, one.key
        return {}, None


def of_entries(entries: Mapping[str, str]) -> DocumentTerms:
    """Terms of no stored glossary, or of several. Takes a while for many."""
    digest = hashlib.sha256()
    for pair in sorted(entries.items()):
        digest.update(json.dumps(pair).encode())
    return DocumentTerms([Dictionary((), ("terms", digest.hexdigest()), entries)])


def write_terms(terms: DocumentTerms, path: Path) -> None:
    """Write the file. Raises `OSError`."""
    path.touch(mode=0o600)
    with path.open("w", encoding="ascii") as out:
        out.write(json.dumps([[one.sources, one.key] for one in terms.dictionaries]) + "\n")
        for number, one in enumerate(terms.dictionaries):
            out.writelines(json.dumps([number, *pair]) + "\n" for pair in one.entries.items())


def read_terms(file: BinaryIO) -> DocumentTerms:
    """Raises `DocumentLost`."""
    try:
        head: list[Any] = json.loads(file.readline())
        entries: list[dict[str, str]] = [{} for _ in head]
        for line in file:
            number, term, translation = json.loads(line)
            entries[number][term] = translation
        found = zip(head, entries, strict=True)
        return DocumentTerms([Dictionary(tuple(one[0]), tuple(one[1]), of) for one, of in found])
    except (ValueError, TypeError, IndexError, KeyError):
        raise DocumentLost("the document's terms are damaged: delete it, and send it again") from None
