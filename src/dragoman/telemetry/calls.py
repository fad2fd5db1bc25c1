"""What became of each text and each call: the facts that metrics, the traffic recorder, the log and traces are made from.

Facts only: characters are counted, the text is not kept unless the operator asked for it (`traffic.record_text`). Knows
neither who tells them (`service/accounts.py`) nor what is made of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dragoman.types import Timings

OK = "ok"
CANCELLED = "cancelled"
"""The outcome of what a client no longer waited for."""


@dataclass(frozen=True, slots=True)
class TextRecord:
    """One text, ended. `outcome` is "ok", "cancelled" or an error's code; what is not "ok" has no output."""

    request_id: str
    index: int  # its place in its call
    arrived_unix_s: float
    source: str | None  # as detected, where it was; None: nobody said, and it did not come so far
    target: str
    outcome: str
    e2e_s: float
    in_flight: int  # texts in the house when it came, its call's own included
    source_characters: int
    source_tokens: int = 0
    prompt_tokens: int = 0  # the template's included
    output_tokens: int = 0
    detected: bool = False
    finish_reason: str | None = None
    warnings: int = 0
    timings: tuple[Timings, ...] = field(default=(), repr=False)
    checks: tuple[str, ...] = ()  # the code of each warning
    retries: tuple[str, ...] = ()  # why segments were retried, one for each retry
    text: str | None = field(default=None, repr=False)  # the source, where the recorder wants it

    @property
    def ok(self) -> bool:
        return self.outcome == OK

    @property
    def queue_s(self) -> float | None:
        """How long the engine let it wait: the longest wait of its pieces. None: the engine did not tell."""
        return max((one.queue_s for one in self.timings), default=None)

    @property
    def ttft_s(self) -> float | None:
        """From submission to the first token of the piece that was first."""
        return min((one.ttft_s for one in self.timings if one.ttft_s is not None), default=None)

    @property
    def decode_s(self) -> float | None:
        """From the first to the last token, of the piece that took longest."""
        return max((one.decode_s for one in self.timings if one.decode_s is not None), default=None)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call, ended, with all its texts."""

    request_id: str
    arrived_unix_s: float
    pipeline: str
    target: str
    outcome: str
    e2e_s: float
    streamed: bool
    texts: tuple[TextRecord, ...]
    admitted_s: float | None = None  # from its arrival to its permit; None: it was refused


class Observer:
    """Told of everything that ends, on the event loop: must be quick and must not raise. Deaf by default."""

    def text_ended(self, text: TextRecord) -> None:
        """Each text once, as soon as it has ended."""

    def call_ended(self, call: CallRecord) -> None:
        """Each call once, after its texts."""
