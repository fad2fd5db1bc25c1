"""dragoman's own API: `POST /v1/translate`, whole or streamed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from dragoman_bench.bench.jsons import members
from dragoman_bench.bench.targets.contract import BadReplyError, Event, Reply, ToldError, part, text_at, tokens_in
from dragoman_bench.bench.workload import Item


@dataclass(frozen=True, slots=True)
class Native:
    stream: bool = False
    api_key: str | None = None
    path: str = "/v1/translate"
    forced: bool = True  # whether items' output lengths are asked for

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    def body(self, item: Item) -> dict[str, Any]:
        body: dict[str, Any] = {"text": item.text, "target": item.target, "stream": self.stream}
        if item.source is not None:
            body["source"] = item.source
        if self.forced and item.output_tokens is not None:
            body["force_output_tokens"] = item.output_tokens
        return body

    def whole(self, payload: Any) -> Reply:
        text = text_at(payload, "translations", 0, "text")
        return Reply(len(text), tokens_in(payload), part(payload, "translations", 0).get("finish_reason"))

    def event(self, data: str) -> Event:
        if data == "[DONE]":
            return Event(end=True)
        payload = parsed(data)
        finished = members(payload.get("translation"))
        delta = payload.get("delta")
        return Event(delta if isinstance(delta, str) else "", tokens_in(payload), finished.get("finish_reason"))


def parsed(data: str) -> dict[str, Any]:
    """An event's JSON object. Raises BadReplyError, or ToldError where it is an error."""
    try:
        payload: object = json.loads(data)
    except json.JSONDecodeError as error:
        raise BadReplyError(f"an event is not JSON: {data[:80]}") from error
    told = members(payload)
    if not told:
        raise BadReplyError(f"an event is not a JSON object: {data[:80]}")
    if told.get("error"):
        raise ToldError(str(told["error"])[:200])
    return told
