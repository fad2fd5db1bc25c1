"""What stored glossaries and translation memories have in common: a name besides their id, and entries by pair of languages."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from dragoman.errors import DragomanError

MAX_NAME_CHARACTERS = 200

Pair = tuple[str, str]
"""Source and target language, as normalised tags."""


@dataclass(frozen=True, slots=True)
class PairCount:
    """A pair of languages, with its number of entries."""

    source: str
    target: str
    entry_count: int


def checked_name(name: str, owner: str, error: type[DragomanError]) -> str:
    """Return the name of an `owner` ("glossary", "memory") without white space around it. Raises `error`."""
    name = name.strip()
    if not name or len(name) > MAX_NAME_CHARACTERS or not name.isprintable() or "/" in name:
        raise error(
            f"a {owner}'s name has 1 to {MAX_NAME_CHARACTERS} characters, no line breaks and no slash", param="name"
        )
    try:
        uuid.UUID(name)
    except ValueError:
        return name
    raise error(f"a {owner}'s name must not be a UUID, which is the form of ids", param="name")
