"""The APIs that can be measured: how one text is sent to each, and how its answer is read."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from dragoman import languages
from dragoman.errors import ConfigError
from dragoman_bench.bench.results import elements, members, whole
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


async def event_data(lines: AsyncIterable[bytes]) -> AsyncIterator[str]:
    """The data of each event as soon as its blank line has come; an event cut off by the stream's end is dropped."""
    data: list[str] = []
    async for raw in lines:
        line = raw.rstrip(b"\r\n")
        if not line and data:
            yield "\n".join(data)
            data.clear()
        elif line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" ").decode("utf-8", "replace"))


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


@dataclass(frozen=True)
class DeepL(Whole):
    api_key: str | None = None
    path: str = "/v2/translate"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"DeepL-Auth-Key {self.api_key}"} if self.api_key else {}

    def body(self, item: Item) -> dict[str, Any]:
        body: dict[str, Any] = {"text": [item.text], "target_lang": item.target.upper()}
        return body | ({"source_lang": item.source.upper()} if item.source else {})

    def whole(self, payload: Any) -> Reply:
        return Reply(len(text_at(payload, "translations", 0, "text")))


@dataclass(frozen=True)
class LibreTranslate(Whole):
    api_key: str | None = None
    path: str = "/translate"

    @property
    def headers(self) -> dict[str, str]:
        return {}

    def body(self, item: Item) -> dict[str, Any]:
        body: dict[str, Any] = {
            "q": item.text,
            "source": item.source or "auto",
            "target": item.target,
            "format": "text",
        }
        return body | ({"api_key": self.api_key} if self.api_key else {})

    def whole(self, payload: Any) -> Reply:
        return Reply(len(text_at(payload, "translatedText")))


TargetKind = Literal["dragoman", "openai-chat", "openai-completions", "libretranslate", "deepl"]
KINDS: tuple[TargetKind, ...] = ("dragoman", "openai-chat", "openai-completions", "libretranslate", "deepl")
STREAMING: frozenset[TargetKind] = frozenset({"dragoman", "openai-chat", "openai-completions"})


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """What a target may be told. `model`, the templates and sampling matter to OpenAI-compatible servers alone.

    `forced` False: dragoman is not told the output lengths that items have, for it takes them with dummy weights alone.
    None: told, unless `preflight` finds that it would not take them.
    """

    kind: TargetKind = "dragoman"
    stream: bool = False
    api_key: str | None = None
    model: str | None = None
    system: str | None = None
    user: str = USER_TEMPLATE
    sampling: Sampling = field(default_factory=Sampling)
    forced: bool | None = None

    def __post_init__(self) -> None:
        if self.stream and self.kind not in STREAMING:
            raise ConfigError(f"{self.kind} does not stream", param="stream")


def make_target(options: TargetOptions) -> Target:
    """Raises ConfigError where an OpenAI-compatible server has no model or no usable template."""
    if options.kind == "dragoman":
        return Native(options.stream, options.api_key, forced=options.forced is not False)
    if options.kind == "libretranslate":
        return LibreTranslate(options.api_key)
    if options.kind == "deepl":
        return DeepL(options.api_key)
    if options.model is None:
        raise ConfigError("an OpenAI-compatible server needs a model", param="model")
    chat = options.kind == "openai-chat"
    return OpenAI(options.model, chat, options.stream, options.api_key, options.system, options.user, options.sampling)
