"""Servers whose translations are judged: how a text and its format are sent to each API, and what comes back.

Unlike a load test's target, an answer here is kept whole: the text, the warnings, and what the server had to do again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Literal

import aiohttp

from dragoman.errors import ConfigError
from dragoman_bench.bench.client import (
    USER_TEMPLATE,
    BadReplyError,
    filled,
    open_session,
    part,
    text_at,
)
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.results import elements, members
from dragoman_bench.bench.server_stats import DragomanStats
from dragoman_bench.bench.workload import Item
from dragoman_bench.eval.structure import Format

ApiKind = Literal["dragoman", "openai-chat", "libretranslate", "deepl"]
API_KINDS: tuple[ApiKind, ...] = ("dragoman", "openai-chat", "libretranslate", "deepl")
_HOPELESS = 10  # failures, where no text succeeded
_TRIES = 5  # of a text that the server refuses because it is busy
_LONGEST_WAIT_S = 30.0
_LAST_ANSWERS_S = 5.0  # for what is in flight at an interruption
_FORMAT_NOTE = {
    "text": "",
    "html": " The text is HTML: keep the markup as it is.",
    "xml": " The text is XML: keep the markup as it is.",
    "markdown": " The text is Markdown: keep the markup as it is.",
}
_DEEPL_TARGETS = {"en": "EN-US", "pt": "PT-PT", "zh": "ZH-HANS"}


@dataclass(frozen=True, slots=True)
class Ask:
    """One text to translate."""

    text: str
    source: str
    target: str
    format: Format = "text"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `text` is empty where `error` is set. All after `error` is dragoman's, empty with other servers."""

    text: str
    latency_s: float
    error: str = ""
    warnings: tuple[str, ...] = ()
    retries: tuple[str, ...] = ()
    cached: bool = False
    finish_reason: str = ""
    confidence_inputs: tuple[Mapping[str, float], ...] = ()  # by segment, where they were asked for


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Which server, and how it is asked. `plain`: every text is sent as plain text, and no format is named."""

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


@dataclass(frozen=True, slots=True)
class _Wire:
    """One API: its path, the body of a request, and the answer read. Reading raises BadReplyError."""

    path: str
    body: Callable[[Ask, ApiOptions], dict[str, Any]]
    read: Callable[[Any], Answer]
    key_header: str | None  # with `{}` for the key


def _dragoman_body(ask: Ask, options: ApiOptions) -> dict[str, Any]:
    body: dict[str, Any] = {"text": ask.text, "source": ask.source, "target": ask.target, **dict(options.extra)}
    return body if options.plain or ask.format == "text" else body | {"format": ask.format}


def _dragoman_answer(payload: Any) -> Answer:
    found = members(part(payload, "translations", 0))
    return Answer(
        text_at(payload, "translations", 0, "text"),
        0.0,
        warnings=tuple(str(members(warning).get("code")) for warning in elements(found.get("warnings"))),
        retries=tuple(map(str, elements(found.get("retries")))),
        cached=bool(found.get("cached")),
        finish_reason=str(found.get("finish_reason") or ""),
        confidence_inputs=tuple(
            {name: float(value) for name, value in members(one).items()}
            for one in elements(found.get("confidence_inputs"))
        ),
    )


def _openai_body(ask: Ask, options: ApiOptions) -> dict[str, Any]:
    item = Item(ask.text, ask.source, ask.target, source_tokens=0)
    note = "" if options.plain else _FORMAT_NOTE[ask.format]
    prompt = filled(USER_TEMPLATE.replace("\n\n{text}", note + "\n\n{text}"), item)
    return {"model": options.model, "temperature": 0, "messages": [{"role": "user", "content": prompt}]}


def _libretranslate_body(ask: Ask, options: ApiOptions) -> dict[str, Any]:
    markup = not options.plain and ask.format in ("html", "xml")
    key = {"api_key": options.api_key} if options.api_key else {}
    return {
        "q": ask.text,
        "source": ask.source,
        "target": ask.target,
        "format": "html" if markup else "text",
        **key,
    }


def _deepl_body(ask: Ask, options: ApiOptions) -> dict[str, Any]:
    target = _DEEPL_TARGETS.get(ask.target, ask.target.upper())
    body: dict[str, Any] = {"text": [ask.text], "source_lang": ask.source.upper(), "target_lang": target}
    markup = not options.plain and ask.format in ("html", "xml")
    return body | ({"tag_handling": ask.format} if markup else {})


_WIRES: dict[ApiKind, _Wire] = {
    "dragoman": _Wire("/v1/translate", _dragoman_body, _dragoman_answer, "Bearer {}"),
    "openai-chat": _Wire(
        "/v1/chat/completions",
        _openai_body,
        lambda payload: Answer(text_at(payload, "choices", 0, "message", "content"), 0.0),
        "Bearer {}",
    ),
    "libretranslate": _Wire(
        "/translate", _libretranslate_body, lambda payload: Answer(text_at(payload, "translatedText"), 0.0), None
    ),
    "deepl": _Wire(
        "/v2/translate",
        _deepl_body,
        lambda payload: Answer(text_at(payload, "translations", 0, "text"), 0.0),
        "DeepL-Auth-Key {}",
    ),
}


class TranslationApi:
    """One server, asked over one HTTP session."""

    def __init__(self, session: aiohttp.ClientSession, options: ApiOptions) -> None:
        self.options = options
        self.session = session
        self._wire = _WIRES[options.kind]
        self._headers = {"Content-Type": "application/json"}
        if options.api_key and self._wire.key_header:
            self._headers["Authorization"] = self._wire.key_header.format(options.api_key)

    async def translate(self, ask: Ask) -> Answer:
        """The answer, or the error that took its place. A busy server is asked again after the time that it names.

        Raises ConfigError where the server cannot be reached.
        """
        for attempt in range(_TRIES):
            answer, wait_s = await self._once(ask)
            if wait_s is None or attempt == _TRIES - 1:
                return answer
            await asyncio.sleep(wait_s)
        raise AssertionError("unreachable")

    async def _once(self, ask: Ask) -> tuple[Answer, float | None]:
        """The answer, and for a busy server after how many seconds to try again."""
        url = self.options.url.rstrip("/") + self._wire.path
        body = json.dumps(self._wire.body(ask, self.options), ensure_ascii=False).encode("utf-8", "surrogatepass")
        began = monotonic()
        try:
            async with asyncio.timeout(self.options.timeout_s):
                async with self.session.post(url, data=body, headers=self._headers) as response:
                    payload = await response.read()
        except TimeoutError:
            return Answer("", monotonic() - began, f"no answer within {self.options.timeout_s:g} s"), None
        except aiohttp.ClientConnectorError as error:
            raise ConfigError(f"cannot reach {url}: {error}", param="url") from error
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
            return replace(self._wire.read(json.loads(payload)), latency_s=latency_s), None
        except (ValueError, BadReplyError) as error:
            return Answer("", latency_s, f"not an answer of {self.options.kind}: {error}"), None

    async def translate_all(
        self, asks: Sequence[Ask], observer: Observer, interrupted: asyncio.Event, *, raises: bool = True
    ) -> list[Answer | None]:
        """All answers in order, `concurrency` at a time; None for those that did not come before the interruption.

        Where the first ones all fail, the server does not serve them, and the rest would not do better: raises ConfigError,
        or, unless it `raises`, returns None for those that were not asked.
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

    async def settings(self) -> dict[str, Any]:
        """What a dragoman server reports of itself; empty for others."""
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
    """Within: a session to the server."""
    async with open_session() as session:
        yield TranslationApi(session, options)
