"""OpenAI-compatible servers such as `vllm serve`: chat and completions, with the prompt's wording as a template.

Forced lengths use vLLM's `min_tokens` and `ignore_eos`. Templates may name {text}, {source}, {target}, {source_name}
and {target_name}; a user's own braces stay as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from dragoman import languages
from dragoman.errors import ConfigError
from dragoman_bench.bench.jsons import elements, members
from dragoman_bench.bench.targets.contract import BadReplyError, Event, Reply, part, text_at, tokens_in
from dragoman_bench.bench.targets.native import parsed
from dragoman_bench.bench.workload import Item

USER_TEMPLATE = (
    "Translate the following text from {source_name} to {target_name}. Answer with the translation only.\n\n{text}"
)
_FIELD = re.compile(r"\{(text|source|target|source_name|target_name)\}")


@dataclass(frozen=True, slots=True)
class Sampling:
    """What every request asks for. `max_tokens` None: the server's own limit; forced lengths override it."""

    max_tokens: int | None = 1024
    temperature: float = 0.0

    def fields(self, item: Item) -> dict[str, Any]:
        fields: dict[str, Any] = {"temperature": self.temperature}
        if item.output_tokens is not None:
            return fields | {"max_tokens": item.output_tokens, "min_tokens": item.output_tokens, "ignore_eos": True}
        return fields | ({"max_tokens": self.max_tokens} if self.max_tokens else {})


@dataclass(frozen=True, slots=True)
class OpenAI:
    """`chat` False: completions, whose prompt is the user template alone."""

    model: str
    chat: bool = True
    stream: bool = False
    api_key: str | None = None
    system: str | None = None
    user: str = USER_TEMPLATE
    sampling: Sampling = field(default_factory=Sampling)

    def __post_init__(self) -> None:
        if "{text}" not in self.user:
            raise ConfigError("the prompt template has no {text}", param="user_prompt")

    @property
    def path(self) -> str:
        return "/v1/chat/completions" if self.chat else "/v1/completions"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    def body(self, item: Item) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "stream": self.stream, **self.sampling.fields(item)}
        if self.stream:
            body["stream_options"] = {"include_usage": True}
        if self.chat:
            system = [{"role": "system", "content": filled(self.system, item)}] if self.system else []
            body["messages"] = [*system, {"role": "user", "content": filled(self.user, item)}]
        else:
            body["prompt"] = filled(self.user, item)
        return body

    def whole(self, payload: Any) -> Reply:
        text = text_at(payload, "choices", 0, *(("message", "content") if self.chat else ("text",)))
        return Reply(len(text), tokens_in(payload), part(payload, "choices", 0).get("finish_reason"))

    def event(self, data: str) -> Event:
        if data == "[DONE]":
            return Event(end=True)
        payload = parsed(data)
        if "choices" not in payload:
            raise BadReplyError(f"an event has no choices: {data[:80]}")
        choices = elements(payload["choices"])  # none in the event that tells the usage
        choice = members(choices[0]) if choices else {}
        text = members(choice.get("delta")).get("content") if self.chat else choice.get("text")
        return Event(text or "", tokens_in(payload), choice.get("finish_reason"))


def filled(template: str, item: Item) -> str:
    """The template with an item's fields; one pass, so that a text which looks like a field stays a text."""
    fields = {
        "text": item.text,
        "source": item.source or "auto",
        "target": item.target,
        "source_name": languages.name(item.source) if item.source else "the language it is in",
        "target_name": languages.name(item.target),
    }
    return _FIELD.sub(lambda match: fields[match[1]], template)
