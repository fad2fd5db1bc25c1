"""The one line a request: its fields for machines, and the same said for people. Knows no logger."""

from __future__ import annotations

from typing import cast

from dragoman.telemetry.calls import CANCELLED, OK, TextRecord
from dragoman.telemetry.requests import RequestTrace

Fields = dict[str, object]


class RequestLine:
    """`fields` is what a JSON log carries; `str()` is the line for people."""

    __slots__ = ("fields",)

    def __init__(self, exchange: RequestTrace) -> None:
        self.fields = _fields(exchange)

    def __str__(self) -> str:
        return _said(self.fields)


def _fields(exchange: RequestTrace) -> Fields:
    outcome = exchange.outcome
    fields: Fields = {
        "request_id": exchange.request_id,
        "method": exchange.method,
        "path": exchange.route,
        "status": exchange.status,
        "outcome": outcome,
        "cancelled": outcome == CANCELLED,
        "duration_s": round(exchange.duration_s, 6),
    }
    if exchange.trace_id:
        fields["trace_id"] = exchange.trace_id
    if exchange.calls:
        fields["streamed"] = any(call.streamed for call in exchange.calls)
        fields["target"] = exchange.calls[0].target
        fields |= _work(exchange.texts)
    return fields


def _work(texts: list[TextRecord]) -> Fields:
    """Over all texts: sums, the longest wait in the engine's queue, and the time until the first token of any."""
    queue_s = max((text.queue_s for text in texts if text.queue_s is not None), default=None)
    ttft_s = min((text.ttft_s for text in texts if text.ttft_s is not None), default=None)
    return {
        "texts": len(texts),
        "sources": sorted({text.source for text in texts if text.source}),
        "characters": sum(text.source_characters for text in texts),
        "prompt_tokens": sum(text.prompt_tokens for text in texts),
        "output_tokens": sum(text.output_tokens for text in texts),
        "queue_s": None if queue_s is None else round(queue_s, 6),
        "ttft_s": None if ttft_s is None else round(ttft_s, 6),
    }


def _said(fields: Fields) -> str:
    outcome = fields["outcome"]
    told = "" if outcome == OK else f" {outcome}"
    parts = [
        f"{fields['method']} {fields['path'] or '(no such path)'} {fields['status']}{told} in {fields['duration_s']:.3f} s"
    ]
    if "texts" in fields:
        parts += _said_of_work(fields)
    parts.append(f"id {fields['request_id']}")
    return ", ".join(parts)


def _said_of_work(fields: Fields) -> list[str]:
    sources = cast(list[str], fields["sources"])
    texts, characters = fields["texts"], fields["characters"]
    said = [
        f"{texts} {'text' if texts == 1 else 'texts'} {'+'.join(sources) or '?'}→{fields['target']}",
        f"{characters} {'character' if characters == 1 else 'characters'}",
    ]
    if fields["prompt_tokens"]:
        said.append(f"{fields['prompt_tokens']}+{fields['output_tokens']} tokens")
    if fields["queue_s"] is not None:
        said.append(f"queue {fields['queue_s']:.3f} s")
    if fields["ttft_s"] is not None:
        said.append(f"TTFT {fields['ttft_s']:.3f} s")
    if fields["streamed"]:
        said.append("streamed")
    return said
