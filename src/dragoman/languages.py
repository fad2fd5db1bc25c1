"""Language tags as clients give them: `wholetext.languages` with the server's error, and the names that metrics have.

The names of languages in a model's prompts are in its profile, not here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, wraps
from typing import TypeVar

from dragoman.errors import UnsupportedLanguage
from wholetext import languages as tags
from wholetext.errors import UnknownLanguage
from wholetext.languages import MAX_TAG_CHARACTERS as MAX_TAG_CHARACTERS
from wholetext.languages import find as find
from wholetext.languages import of_script as of_script
from wholetext.languages import prepare as prepare

T = TypeVar("T")


def _for_clients(function: Callable[..., T]) -> Callable[..., T]:
    """The function with `UnsupportedLanguage`, which clients get, in place of `UnknownLanguage`."""

    @lru_cache(maxsize=4096)
    @wraps(function)
    def call(*arguments: Hashable) -> T:
        try:
            return function(*arguments)
        except UnknownLanguage as error:
            raise UnsupportedLanguage(error.message) from None

    return call


@lru_cache(maxsize=4096)
def served(tag: str, entries: tuple[str, ...], param: str) -> str:
    """Return the entry of a model's languages that serves `tag`, which a caller gave as `param`.

    Raises `UnsupportedLanguage`.
    """
    try:
        found = tags.match(tag, entries)
    except UnknownLanguage as error:
        raise UnsupportedLanguage(error.message, param=param) from None
    if found is None:
        message = f"the model does not serve {tag!r}; it serves {', '.join(entries)}"
        raise UnsupportedLanguage(message, param=param)
    return found


normalise = _for_clients(tags.normalise)
match = _for_clients(tags.match)
name = _for_clients(tags.name)
native_name = _for_clients(tags.native_name)
script = _for_clients(tags.script)
primary = _for_clients(tags.primary)
is_cjk = _for_clients(tags.is_cjk)
is_right_to_left = _for_clients(tags.is_right_to_left)
uses_spaces = _for_clients(tags.uses_spaces)

OTHER = "other"


def tagger(served: Sequence[str]) -> Callable[[str], str]:
    """A function from a client's tag to a bounded set of names, for metrics: the served tag, else `OTHER`."""
    entries = tuple(served)

    @lru_cache(maxsize=4096)
    def tag_of(tag: str) -> str:
        try:
            return tags.match(tag, entries) or OTHER
        except UnknownLanguage:
            return OTHER

    return tag_of
