"""The APIs that can be measured, and the HTTP client that sends and times requests.

A `Target` makes the request for a text and reads its answer, without I/O. The `Client` sends, measures times and classifies
errors in the same way for all APIs, so that servers can be compared. Every request has exactly one record; errors are
classified, never raised and never dropped. The time limit counts from the intended send time, as for a user.
"""

from __future__ import annotations

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from time import monotonic
from typing import Any, Literal, get_args

import aiohttp

from dragoman import languages
from dragoman.errors import ConfigError
from dragoman.wire import length_band
from dragoman_bench.bench.measurement import elements, members, whole
from dragoman_bench.bench.results import ErrorKind, RequestRecord
from dragoman_bench.bench.summary import bucket_counts
from dragoman_bench.bench.workload import Item

TargetKind = Literal["dragoman", "openai-chat", "openai-completions", "libretranslate", "deepl"]
KINDS: tuple[TargetKind, ...] = get_args(TargetKind)
STREAMING: frozenset[TargetKind] = frozenset({"dragoman", "openai-chat", "openai-completions"})
USER_TEMPLATE = (
    "Translate the following text from {source_name} to {target_name}. Answer with the translation only.\n\n{text}"
)
KEEP_ALIVE_S = 4.0  # below uvicorn's 5 s: a connection reused as the server closes it would count as a failed request
_LINE_LIMIT_BYTES = 2**20  # of one streamed line
_DEEPL_TARGETS = {"en": "EN-US", "pt": "PT-PT", "zh": "ZH-HANS"}  # as a target DeepL wants these with their variant
_FIELD = re.compile(r"\{(text|source|target|source_name|target_name)\}")


class RefusalError(Exception):
    """The answer has a status that is not 2xx."""


class BadReplyError(Exception):
    """The answer is not in the API's format."""


class StreamedError(Exception):
    """The server reported an error in a stream after its start."""


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """An API and the options of its requests. `model` and all later fields except `forced` are for OpenAI-compatible servers.

    `max_tokens` None: the server's own limit; forced lengths override it. `forced`: whether dragoman is sent the output
    lengths that items have, which it accepts with dummy weights alone. None: sent, unless the server reports that it would
    not accept them. Raises ConfigError where the API does not stream.
    """

    kind: TargetKind = "dragoman"
    stream: bool = False
    api_key: str | None = None
    model: str | None = None
    system: str | None = None
    user: str = USER_TEMPLATE
    max_tokens: int | None = 1024
    forced: bool | None = None

    def __post_init__(self) -> None:
        if self.stream and self.kind not in STREAMING:
            raise ConfigError(f"{self.kind} does not stream", param="stream")

    @property
    def bearer(self) -> dict[str, str]:
        """Return the Authorization header for a key."""
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}


@dataclass(frozen=True, slots=True)
class TargetReply:
    """A complete answer, or an event of a stream, which `end` closes. `output_tokens` and the reason: if reported."""

    text: str = ""
    output_tokens: int | None = None
    finish_reason: str | None = None
    end: bool = False


class Target(ABC):
    """An API. `path` is relative to the server's URL."""

    path: str

    def __init__(self, options: TargetOptions) -> None:
        self.options = options
        self.headers = options.bearer

    @abstractmethod
    def body(self, item: Item) -> dict[str, Any]:
        """Return the request's body, for JSON."""

    @abstractmethod
    def whole(self, payload: Any) -> TargetReply:
        """Read a JSON answer. Raises BadReplyError."""

    def event(self, data: str) -> TargetReply:
        """Read the data of a server-sent event. Raises BadReplyError, or StreamedError."""
        if data == "[DONE]":
            return TargetReply(end=True)
        try:
            payload = members(json.loads(data))
        except json.JSONDecodeError as error:
            raise BadReplyError(f"an event is not JSON: {data[:80]}") from error
        if not payload:
            raise BadReplyError(f"an event is not a JSON object: {data[:80]}")
        if payload.get("error"):
            raise StreamedError(str(payload["error"])[:200])
        return self.delta(payload)

    def delta(self, payload: dict[str, Any]) -> TargetReply:
        """Read an event. Raises BadReplyError."""
        raise BadReplyError(f"a streamed event that was not asked for: {str(payload)[:80]}")


class Native(Target):
    """dragoman's own API: `POST /v1/translate`, with or without streaming."""

    path = "/v1/translate"

    def body(self, item: Item) -> dict[str, Any]:
        body: dict[str, Any] = {"text": item.text, "target": item.target, "stream": self.options.stream}
        if item.source is not None:
            body["source"] = item.source
        if self.options.forced is not False and item.output_tokens is not None:
            body["force_output_tokens"] = item.output_tokens
        return body

    def whole(self, payload: Any) -> TargetReply:
        text = text_at(payload, "translations", 0, "text")
        return TargetReply(text, _tokens(payload), part(payload, "translations", 0).get("finish_reason"))

    def delta(self, payload: dict[str, Any]) -> TargetReply:
        text = payload.get("delta")
        reason = members(payload.get("translation")).get("finish_reason")
        return TargetReply(text if isinstance(text, str) else "", _tokens(payload), reason)


class OpenAI(Target):
    """OpenAI-compatible servers such as `vllm serve`: chat, or completions, whose prompt is the user template alone.

    Forced lengths use vLLM's `min_tokens` and `ignore_eos`. Templates may name {text}, {source}, {target}, {source_name}
    and {target_name}; other braces stay as they are.
    """

    def __init__(self, options: TargetOptions) -> None:
        super().__init__(options)
        if options.model is None:
            raise ConfigError("an OpenAI-compatible server needs --model", param="model")
        if "{text}" not in options.user:
            raise ConfigError("the prompt template has no {text}", param="user_prompt")
        self._chat = options.kind == "openai-chat"
        self.path = "/v1/chat/completions" if self._chat else "/v1/completions"

    def body(self, item: Item) -> dict[str, Any]:
        options = self.options
        body: dict[str, Any] = {"model": options.model, "stream": options.stream, "temperature": 0.0}
        if item.output_tokens is not None:
            body |= {"max_tokens": item.output_tokens, "min_tokens": item.output_tokens, "ignore_eos": True}
        elif options.max_tokens:
            body["max_tokens"] = options.max_tokens
        if options.stream:
            body["stream_options"] = {"include_usage": True}
        if not self._chat:
            return body | {"prompt": filled(options.user, item)}
        system = [{"role": "system", "content": filled(options.system, item)}] if options.system else []
        return body | {"messages": [*system, {"role": "user", "content": filled(options.user, item)}]}

    def whole(self, payload: Any) -> TargetReply:
        text = text_at(payload, "choices", 0, *(("message", "content") if self._chat else ("text",)))
        return TargetReply(text, _tokens(payload), part(payload, "choices", 0).get("finish_reason"))

    def delta(self, payload: dict[str, Any]) -> TargetReply:
        if "choices" not in payload:
            raise BadReplyError(f"an event has no choices: {str(payload)[:80]}")
        choices = elements(payload["choices"])  # empty in the event that reports the usage
        choice = members(choices[0]) if choices else {}
        text = members(choice.get("delta")).get("content") if self._chat else choice.get("text")
        return TargetReply(text or "", _tokens(payload), choice.get("finish_reason"))


class LibreTranslate(Target):
    """LibreTranslate's API: `POST /translate`. It reports no token counts and does not stream."""

    path = "/translate"

    def body(self, item: Item) -> dict[str, Any]:
        body = {"q": item.text, "source": item.source or "auto", "target": item.target, "format": "text"}
        return body | ({"api_key": self.options.api_key} if self.options.api_key else {})

    def whole(self, payload: Any) -> TargetReply:
        return TargetReply(text_at(payload, "translatedText"))


class DeepL(Target):
    """DeepL's API: `POST /v2/translate` in JSON. It reports no token counts and does not stream."""

    path = "/v2/translate"

    def __init__(self, options: TargetOptions) -> None:
        super().__init__(options)
        self.headers = {"Authorization": f"DeepL-Auth-Key {options.api_key}"} if options.api_key else {}

    def body(self, item: Item) -> dict[str, Any]:
        target = _DEEPL_TARGETS.get(item.target, item.target.upper())
        body: dict[str, Any] = {"text": [item.text], "target_lang": target}
        return body | ({"source_lang": item.source.upper()} if item.source else {})

    def whole(self, payload: Any) -> TargetReply:
        return TargetReply(text_at(payload, "translations", 0, "text"))


def make_target(options: TargetOptions) -> Target:
    """Make a target. Raises ConfigError if an OpenAI-compatible server has no model or no usable template."""
    kinds = {"dragoman": Native, "libretranslate": LibreTranslate, "deepl": DeepL}
    return kinds.get(options.kind, OpenAI)(options)


def filled(template: str, item: Item) -> str:
    """Fill a template with an item's fields, in one pass, so that text that looks like a field is not replaced."""
    fields = {
        "text": item.text,
        "source": item.source or "auto",
        "target": item.target,
        "source_name": languages.name(item.source) if item.source else "the language it is in",
        "target_name": languages.name(item.target),
    }
    return _FIELD.sub(lambda match: fields[match[1]], template)


def part(payload: Any, *path: str | int) -> Any:
    """Return `payload["a"][0]["b"]` of an answer. Raises BadReplyError with the path."""
    here = payload
    for step in path:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError) as error:
            where = ".".join(map(str, path))
            raise BadReplyError(f"the answer has no {where}: {str(payload)[:200]}") from error
    return here


def text_at(payload: Any, *path: str | int) -> str:
    """Like `part`, for a string. Raises BadReplyError."""
    value = part(payload, *path)
    if not isinstance(value, str):
        raise BadReplyError(f"{'.'.join(map(str, path))} is not a text: {str(value)[:80]}")
    return value


def _tokens(payload: Any) -> int | None:
    return whole(members(members(payload).get("usage")).get("completion_tokens"))


async def event_data(lines: AsyncIterable[bytes]) -> AsyncIterator[str]:
    """Yield the data of each server-sent event (HTML standard, section 9.2) at its blank line; drop an incomplete one."""
    data: list[str] = []
    async for raw in lines:
        line = raw.rstrip(b"\r\n")
        if not line and data:
            yield "\n".join(data)
            data.clear()
        elif line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" ").decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock in seconds since `start`, a time of `monotonic()`, which is the same for all processes of a machine."""

    start: float

    def now(self) -> float:
        return monotonic() - self.start

    async def reach(self, at_s: float, stop: asyncio.Event) -> bool:
        """Wait until `at_s`, and at least one turn of the event loop; return False as soon as `stop` is set."""
        remaining_s = at_s - self.now()
        if remaining_s <= 0:
            await asyncio.sleep(0)
            return not stop.is_set()
        with suppress(TimeoutError):
            async with asyncio.timeout(remaining_s):
                await stop.wait()
        return not stop.is_set()


def open_session() -> aiohttp.ClientSession:
    """Open a session without aiohttp's limits: its pool of 100 connections would hide waiting time in the client."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S)
    no_limit = aiohttp.ClientTimeout(total=None, sock_connect=None, sock_read=None)
    return aiohttp.ClientSession(connector=connector, timeout=no_limit, read_bufsize=_LINE_LIMIT_BYTES)


@dataclass(slots=True)
class Exchange:
    """The state of a request in flight."""

    sent_s: float | None = None
    event_s: list[float] = field(default_factory=list[float])
    status: int | None = None
    retry_after_s: float | None = None
    output_tokens: int | None = None
    finish_reason: str | None = None

    def add(self, reply: TargetReply) -> None:
        """Add an answer, or its next event."""
        if reply.output_tokens is not None:
            self.output_tokens = reply.output_tokens
        self.finish_reason = reply.finish_reason or self.finish_reason


class Client:
    """Sends items to a server. `connections` None: no limit."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        target: Target,
        clock: Clock,
        *,
        timeout_s: float,
        connections: int | None = None,
    ) -> None:
        self._session = session
        self._url = url.rstrip("/") + target.path
        self._target = target
        self._headers = {"Content-Type": "application/json", **target.headers}
        self._clock = clock
        self._timeout_s = timeout_s
        self._permits = asyncio.Semaphore(connections) if connections else nullcontext()
        self.itl_histogram: Counter[int] = Counter()

    async def request(self, item: Item, *, index: int, text: int, intended_s: float) -> RequestRecord:
        """Send the item and read the answer. `index`: its place in the plan; `text`: in the workload.

        On cancellation the request is recorded as unfinished.
        """
        exchange = Exchange()
        error: ErrorKind | None = None
        deadline = asyncio.get_running_loop().time() + intended_s + self._timeout_s - self._clock.now()
        try:
            async with asyncio.timeout_at(deadline), self._permits:
                await self._send(item, exchange)
        except (asyncio.CancelledError, Exception) as fault:
            error = _kind_of(fault, exchange.status)
            if error is None:
                raise
        return self._record(item, index, text, intended_s, exchange, error)

    async def _send(self, item: Item, exchange: Exchange) -> None:
        body = json.dumps(self._target.body(item), ensure_ascii=False).encode()
        exchange.sent_s = self._clock.now()
        async with self._session.post(self._url, data=body, headers=self._headers) as response:
            exchange.status = response.status
            if not 200 <= response.status < 300:
                with suppress(KeyError, ValueError):  # none, or a date
                    exchange.retry_after_s = max(0.0, float(response.headers["Retry-After"]))
                await response.read()  # so that the connection can be used again
                raise RefusalError
            if not self._target.options.stream:
                exchange.add(self._target.whole(json.loads(await response.read())))
                return
            async for data in event_data(response.content):
                event = self._target.event(data)
                if event.text:
                    exchange.event_s.append(self._clock.now())
                exchange.add(event)
                if event.end:
                    return
            raise ConnectionResetError("the stream ended before its last event")

    def _record(
        self, item: Item, index: int, text: int, intended_s: float, exchange: Exchange, error: ErrorKind | None
    ) -> RequestRecord:
        events_s = exchange.event_s
        gaps = [later - earlier for earlier, later in pairwise(events_s)]
        self.itl_histogram.update(bucket_counts(gaps))
        return RequestRecord(
            index=index,
            text=text,
            intended_s=round(intended_s, 6),
            sent_s=_rounded(exchange.sent_s),
            first_token_s=_rounded(events_s[0] if events_s else None),
            done_s=round(self._clock.now(), 6),
            source_tokens=item.source_tokens,
            band=length_band(item.source_tokens),
            output_tokens=exchange.output_tokens,
            status=exchange.status,
            error=error,
            finish_reason=exchange.finish_reason,
            retry_after_s=exchange.retry_after_s,
            itl_count=len(gaps),
            itl_mean_s=_rounded(sum(gaps) / len(gaps) if gaps else None),
            itl_max_s=_rounded(max(gaps, default=None)),
        )


_KINDS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], ErrorKind], ...] = (
    (asyncio.CancelledError, "unfinished"),
    (aiohttp.ClientConnectorError, "connect"),  # an OSError too, so before it
    (TimeoutError, "timeout"),
    ((BadReplyError, json.JSONDecodeError, UnicodeDecodeError, aiohttp.ClientResponseError), "bad_reply"),
    (StreamedError, "server_error"),
    ((aiohttp.ClientError, OSError), "disconnect"),
)


def _kind_of(fault: BaseException, status: int | None) -> ErrorKind | None:
    """The kind of an error; None of one that is the bench's own."""
    if isinstance(fault, RefusalError):
        known: dict[int | None, ErrorKind] = {429: "refused", 503: "unavailable"}
        return known.get(status, "server_error" if (status or 0) >= 500 else "rejected")
    return next((kind for types, kind in _KINDS if isinstance(fault, types)), None)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
