"""Sends texts to the servers whose translations are judged, with the APIs of the load test and each API's format field.

Unlike in a load test, the complete answers are kept: texts, warnings and retries.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Literal

import aiohttp

from dragoman.errors import ConfigError
from dragoman_bench.bench.client import (
    USER_TEMPLATE,
    BadReplyError,
    Target,
    TargetOptions,
    make_target,
    open_session,
    part,
)
from dragoman_bench.bench.measurement import elements, members, whole
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.server_stats import DragomanStats
from dragoman_bench.bench.workload import Item
from dragoman_bench.eval.structure import Format

ApiKind = Literal["dragoman", "openai-chat", "libretranslate", "deepl"]
API_KINDS: tuple[ApiKind, ...] = ("dragoman", "openai-chat", "libretranslate", "deepl")
_HOPELESS = 10  # failures, where no text succeeded
_TRIES = 5  # of a text that the server refuses because it is busy
_LONGEST_WAIT_S = 30.0
_LAST_ANSWERS_S = 5.0  # for what is in flight at an interruption
_MARKUP = {"text": "", "html": "HTML", "xml": "XML", "markdown": "Markdown"}


@dataclass(frozen=True, slots=True)
class Ask:
    """A text to translate."""

    text: str
    source: str
    target: str
    format: Format = "text"
    extra: tuple[tuple[str, Any], ...] = ()  # further fields of dragoman's request


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. `text` is empty if `error` is set. Only dragoman sets the fields after `error`."""

    text: str
    latency_s: float
    error: str = ""
    warnings: tuple[str, ...] = ()
    retries: tuple[str, ...] = ()
    cached: bool = False
    finish_reason: str = ""
    confidence_inputs: tuple[Mapping[str, float], ...] = ()  # by segment, where they were asked for
    examples: int = 0  # that prompts had


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """A server and how to send requests to it. `plain`: send every text as plain text, without its format."""

    url: str
    kind: ApiKind = "dragoman"
    api_key: str | None = None
    model: str | None = None
    plain: bool = False
    timeout_s: float = 300.0
    concurrency: int = 8
    extra: tuple[tuple[str, Any], ...] = ()  # further fields of dragoman's request

    def __post_init__(self) -> None:
        if self.kind == "openai-chat" and not self.model:
            raise ConfigError("an OpenAI-compatible server needs --model", param="model")


def _format_fields(ask: Ask, kind: ApiKind) -> dict[str, Any]:
    """What names a text's format in a request; an API without a field for it gets plain text."""
    if kind == "dragoman" and ask.format != "text":
        return {"format": ask.format}
    if kind == "libretranslate" and ask.format in ("html", "xml"):
        return {"format": "html"}
    return {"tag_handling": ask.format} if kind == "deepl" and ask.format in ("html", "xml") else {}


def _dragoman_details(payload: Any) -> dict[str, Any]:
    """The fields of an `Answer` that dragoman alone reports."""
    found = members(part(payload, "translations", 0))
    return {
        "warnings": tuple(str(members(warning).get("code")) for warning in elements(found.get("warnings"))),
        "retries": tuple(map(str, elements(found.get("retries")))),
        "cached": bool(found.get("cached")),
        "finish_reason": str(found.get("finish_reason") or ""),
        "confidence_inputs": tuple(
            {name: float(value) for name, value in members(one).items()}
            for one in elements(found.get("confidence_inputs"))
        ),
        "examples": whole(members(found.get("examples")).get("count")) or 0,
    }


class TranslationApi:
    """Sends requests to a server in one HTTP session."""

    def __init__(self, session: aiohttp.ClientSession, options: ApiOptions) -> None:
        self.options = options
        self.session = session
        self._target = self._target_for("text")
        self._url = options.url.rstrip("/") + self._target.path
        self._headers = {"Content-Type": "application/json", **self._target.headers}

    def _target_for(self, text_format: Format) -> Target:
        """The API; an OpenAI-compatible server reads a text's format in the prompt."""
        options, prompt = self.options, USER_TEMPLATE
        if _MARKUP[text_format]:
            note = f" The text is {_MARKUP[text_format]}: keep the markup as it is."
            prompt = USER_TEMPLATE.replace("\n\n{text}", note + "\n\n{text}")
        return make_target(
            TargetOptions(options.kind, api_key=options.api_key, model=options.model, user=prompt, max_tokens=None)
        )

    def _body(self, ask: Ask) -> dict[str, Any]:
        options = self.options
        asked = replace(ask, format="text") if options.plain else ask
        body = self._target_for(asked.format).body(Item(ask.text, ask.source, ask.target, source_tokens=0))
        return body | _format_fields(asked, options.kind) | dict(options.extra) | dict(ask.extra)

    def _read(self, payload: Any) -> Answer:
        answer = Answer(self._target.whole(payload).text, 0.0)
        return replace(answer, **_dragoman_details(payload)) if self.options.kind == "dragoman" else answer

    async def translate(self, ask: Ask) -> Answer:
        """Return the answer, with its error if it failed. Retries if the server is busy, after its Retry-After.

        Raises ConfigError if the server cannot be reached.
        """
        for attempt in range(_TRIES):
            answer, wait_s = await self._once(ask)
            if wait_s is None or attempt == _TRIES - 1:
                return answer
            await asyncio.sleep(wait_s)
        raise AssertionError("unreachable")

    async def _once(self, ask: Ask) -> tuple[Answer, float | None]:
        """The answer, and for a busy server after how many seconds to try again."""
        body = json.dumps(self._body(ask), ensure_ascii=False).encode("utf-8", "surrogatepass")
        began = monotonic()
        try:
            async with asyncio.timeout(self.options.timeout_s):
                async with self.session.post(self._url, data=body, headers=self._headers) as response:
                    payload = await response.read()
        except TimeoutError:
            return Answer("", monotonic() - began, f"no answer within {self.options.timeout_s:g} s"), None
        except aiohttp.ClientConnectorError as error:
            raise ConfigError(f"cannot reach {self._url}: {error}", param="url") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Answer("", monotonic() - began, f"{type(error).__name__}: {error}"), None
        latency_s = monotonic() - began
        if response.status in (429, 503):
            named = response.headers.get("Retry-After", "")
            wait_s = min(float(named) if named.replace(".", "", 1).isdigit() else 1.0, _LONGEST_WAIT_S)
            return Answer("", latency_s, f"{response.status} {_text(payload)}"), wait_s
        if response.status != 200:
            return Answer("", latency_s, f"{response.status} {_text(payload)}"), None
        try:
            return replace(self._read(json.loads(payload)), latency_s=round(latency_s, 6)), None
        except (ValueError, BadReplyError) as error:
            return Answer("", latency_s, f"not an answer of {self.options.kind}: {error}"), None

    async def translate_all(
        self, asks: Sequence[Ask], observer: Observer, interrupted: asyncio.Event, *, raises: bool = True
    ) -> list[Answer | None]:
        """Return all answers in order, `concurrency` at a time; None for those that did not arrive before an interrupt.

        If the first ones all fail, the others are not sent: raises ConfigError, or without `raises` returns None for them.
        """
        answers: list[Answer | None] = [None] * len(asks)
        pending = iter(range(len(asks)))
        done = failed = in_flight = 0

        async def client() -> None:
            nonlocal done, failed, in_flight
            for index in pending:
                if interrupted.is_set() or failed == done >= _HOPELESS:
                    return
                in_flight += 1
                answer = answers[index] = await self.translate(asks[index])
                in_flight -= 1
                done += 1
                failed += bool(answer.error)
                observer.update(done, failed, in_flight)
                if raises and failed == done >= _HOPELESS:
                    raise ConfigError(f"the first {done} texts all failed: {answer.error}")

        clients = (client() for _ in range(min(self.options.concurrency, max(len(asks), 1))))
        await _together(clients, interrupted)
        return answers

    async def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, allowed: Sequence[int] = ()
    ) -> Any:
        """Return the answer of another route of dragoman's. Raises ConfigError for an error whose status is not `allowed`."""
        url = self.options.url.rstrip("/") + path
        try:
            async with self.session.request(method, url, json=body, headers=self._headers) as response:
                payload = await response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise ConfigError(f"cannot reach {url}: {error}", param="url") from error
        if response.status >= 400 and response.status not in allowed:
            raise ConfigError(f"{method} {path}: {response.status} {_text(payload)}", param="url")
        return json.loads(payload) if payload else None

    async def settings(self) -> dict[str, Any]:
        """Return what a dragoman server reports about itself; empty for other servers."""
        if self.options.kind != "dragoman":
            return {}
        return await DragomanStats(self.session, self.options.url.rstrip("/") + "/v1/stats").settings()


async def _together(work: Iterable[Coroutine[Any, Any, None]], interrupted: asyncio.Event) -> None:
    """All of it; the first error stops the others and is raised. An interruption stops it soon after."""
    tasks = [asyncio.create_task(one) for one in work]
    everything, interruption = asyncio.gather(*tasks), asyncio.create_task(interrupted.wait())
    try:
        await asyncio.wait((everything, interruption), return_when=asyncio.FIRST_COMPLETED)
        if not everything.done():
            await asyncio.wait((everything,), timeout=_LAST_ANSWERS_S)
        if everything.done():
            everything.result()
    finally:
        interruption.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _text(payload: bytes) -> str:
    return payload[:200].decode("utf-8", "replace")


@asynccontextmanager
async def translation_api(options: ApiOptions) -> AsyncGenerator[TranslationApi]:
    """Open a session to the server, as a context manager."""
    async with open_session() as session:
        yield TranslationApi(session, options)
