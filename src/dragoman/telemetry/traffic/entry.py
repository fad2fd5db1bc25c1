"""One recorded text, as a noun and as a line of a file: the format, in one place.

A line is one JSON object with the keys below; what has its default is left out. `v` is the format's version: a reader takes
the versions that it knows and counts the rest. Unknown keys are skipped, so that a key can be added without a new version.
Knows nothing of files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from dragoman.telemetry.calls import OK, TextRecord

VERSION = 1

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Entry:
    """A text that ended, as `TextRecord` tells it. `text` only where the server was told to record texts."""

    version: Annotated[Literal[1], Field(alias="v")]
    arrived_unix_s: Annotated[Seconds, Field(alias="at")]
    target: Annotated[str, Field(alias="to")]
    outcome: Annotated[str, Field(alias="end")]  # ok, cancelled or an error's code
    e2e_s: Annotated[Seconds, Field(alias="e2e")]
    in_flight: Annotated[Count, Field(alias="in")]  # texts in the house at its arrival, its call's own included
    source_characters: Annotated[Count, Field(alias="chars")]
    source: Annotated[str | None, Field(alias="from")] = None
    source_tokens: Annotated[Count, Field(alias="src")] = 0  # 0, with those below: no model ran
    prompt_tokens: Annotated[Count, Field(alias="prompt")] = 0  # the template's included
    output_tokens: Annotated[Count, Field(alias="out")] = 0
    queue_s: Annotated[Seconds | None, Field(alias="queue")] = None
    ttft_s: Annotated[Seconds | None, Field(alias="ttft")] = None
    decode_s: Annotated[Seconds | None, Field(alias="decode")] = None
    detected: Annotated[bool, Field(alias="det")] = False
    finish_reason: Annotated[str | None, Field(alias="fin")] = None
    warnings: Annotated[Count, Field(alias="warn")] = 0
    request_id: Annotated[str, Field(alias="id")] = ""
    index: Annotated[Count, Field(alias="n")] = 0  # its place in its call
    text: Annotated[str | None, Field(alias="text")] = None

    @property
    def ok(self) -> bool:
        return self.outcome == OK

    @classmethod
    def of(cls, text: TextRecord) -> Entry:
        """Times to 10 µs, the arrival to 0.1 ms."""
        return cls(
            VERSION,
            round(text.arrived_unix_s, 4),
            text.target,
            text.outcome,
            round(text.e2e_s, 5),
            text.in_flight,
            text.source_characters,
            text.source,
            text.source_tokens,
            text.prompt_tokens,
            text.output_tokens,
            _rounded(text.queue_s),
            _rounded(text.ttft_s),
            _rounded(text.decode_s),
            text.detected,
            text.finish_reason,
            text.warnings,
            text.request_id,
            text.index,
            None if text.text is None else text.text.encode(errors="replace").decode(),  # no lone surrogate in a file
        )


def _rounded(value_s: float | None) -> float | None:
    return None if value_s is None else round(max(value_s, 0.0), 5)


@cache
def _adapter() -> TypeAdapter[Entry]:
    return TypeAdapter(Entry)


def to_line(entry: Entry) -> bytes:
    """With its line feed, and no other."""
    return _adapter().dump_json(entry, by_alias=True, exclude_defaults=True) + b"\n"


def from_line(line: bytes) -> Entry | None:
    """None where the line is not one of ours, or of a version that is not known here."""
    try:
        return _adapter().validate_json(line, strict=True)
    except ValidationError:
        return None
