"""What the bench needs to know of an API: how one text is asked for, and how its answer is read.

A target does no I/O and keeps no state between requests; sending, timing and classing of faults are `client`'s, the
same for all. That is what makes servers comparable: one client, adapters that only translate shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from dragoman_bench.bench.jsons import members, whole
from dragoman_bench.bench.workload import Item


class BadReplyError(Exception):
    """An answer that is not what the API promises."""


class ToldError(Exception):
    """An error that the server told inside a stream that had begun well."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer. `output_tokens` None: the API does not tell."""

    characters: int
    output_tokens: int | None = None
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One streamed event. Usage and reason come whenever the server says them; `end` closes the stream."""

    text: str = ""
    output_tokens: int | None = None
    finish_reason: str | None = None
    end: bool = False


class Target(Protocol):
    """An API. `path` is below the server's URL."""

    @property
    def path(self) -> str: ...

    @property
    def stream(self) -> bool: ...

    @property
    def headers(self) -> dict[str, str]: ...

    def body(self, item: Item) -> dict[str, Any]: ...

    def whole(self, payload: Any) -> Reply:
        """Reads a JSON answer. Raises BadReplyError."""
        ...

    def event(self, data: str) -> Event:
        """Reads one server-sent event's data. Raises BadReplyError, or ToldError."""
        ...


class Whole:
    """For APIs that do not stream."""

    stream = False

    def event(self, data: str) -> Event:
        raise BadReplyError(f"a streamed event was not asked for: {data[:80]}")


def part(payload: Any, *path: str | int) -> Any:
    """`payload["a"][0]["b"]` of an answer. Raises BadReplyError, saying where it ends."""
    here = payload
    for step in path:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError) as error:
            where = ".".join(map(str, path))
            raise BadReplyError(f"the answer has no {where}: {str(payload)[:200]}") from error
    return here


def text_at(payload: Any, *path: str | int) -> str:
    """The same where a string is promised. Raises BadReplyError."""
    value = part(payload, *path)
    if not isinstance(value, str):
        raise BadReplyError(f"{'.'.join(map(str, path))} is not a text: {str(value)[:80]}")
    return value


def tokens_in(payload: Any) -> int | None:
    """`usage.completion_tokens` where the payload has it."""
    return whole(members(members(payload).get("usage")).get("completion_tokens"))
