"""One request over HTTP, timed: sends an item, reads the answer whole or streamed, and records how it ended.

Every request ends in exactly one record; errors are classified, never raised and never dropped. The time limit counts
from the intended send, as a user's does.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from itertools import pairwise
from math import ceil
from time import monotonic, time

import aiohttp

from dragoman.wire import length_band
from dragoman_bench.bench.results import ErrorKind, RequestRecord
from dragoman_bench.bench.summary import bucket_counts
from dragoman_bench.bench.targets import BadReplyError, StreamedError, Target, event_data
from dragoman_bench.bench.workload import Item

KEEP_ALIVE_S = 4.0  # below uvicorn's 5 s: a connection reused as the server closes it would count as a failed request
_LINE_LIMIT_BYTES = 2**20  # of one streamed line
_ERRORS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], ErrorKind], ...] = (
    (asyncio.CancelledError, "unfinished"),
    (aiohttp.ClientConnectorError, "connect"),  # an OSError too, so before it
    (TimeoutError, "timeout"),
    ((BadReplyError, aiohttp.ClientResponseError), "bad_reply"),
    (StreamedError, "server_error"),
    ((aiohttp.ClientError, OSError), "disconnect"),
)


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds since `start`, an instant of `monotonic()`, which all processes of a machine share."""

    start: float

    def now(self) -> float:
        return monotonic() - self.start

    async def reach(self, at_s: float, stop: asyncio.Event) -> bool:
        """Waits until `at_s`, yielding at least once; False as soon as `stop` is set."""
        remaining_s = at_s - self.now()
        if remaining_s <= 0:
            await asyncio.sleep(0)
            return not stop.is_set()
        with suppress(TimeoutError):
            async with asyncio.timeout(remaining_s):
                await stop.wait()
        return not stop.is_set()


@dataclass(slots=True)
class Exchange:
    """What is known of one request while it is in flight."""

    sent_s: float | None = None
    event_s: list[float] = field(default_factory=list[float])
    status: int | None = None
    retry_after_s: float | None = None
    characters: int = 0
    output_tokens: int | None = None
    finish_reason: str | None = None


class RefusalError(Exception):
    """A status that is not 2xx."""


def open_session() -> aiohttp.ClientSession:
    """A session without aiohttp's own limits: its pool of 100 connections would hide waiting inside the client."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S)
    no_limit = aiohttp.ClientTimeout(total=None, sock_connect=None, sock_read=None)
    return aiohttp.ClientSession(connector=connector, timeout=no_limit, read_bufsize=_LINE_LIMIT_BYTES)


class Client:
    """Sends items to one server. `connections` None: as many as there are requests in flight."""

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
        self._permits = asyncio.Semaphore(connections) if connections else None
        self.itl_histogram: Counter[int] = Counter()

    async def request(self, item: Item, *, index: int, text: int, intended_s: float) -> RequestRecord:
        """Sends the item and reads the answer. `index`: its place in the plan; `text`: in the workload.

        On cancellation the request is recorded as unfinished.
        """
        exchange = Exchange()
        error: ErrorKind | None = None
        deadline = asyncio.get_running_loop().time() + intended_s + self._timeout_s - self._clock.now()
        try:
            async with asyncio.timeout_at(deadline):
                if self._permits is None:
                    await self._send(item, exchange)
                else:
                    async with self._permits:
                        await self._send(item, exchange)
        except (asyncio.CancelledError, Exception) as fault:
            error = classify(fault, exchange.status)
            if error is None:
                raise
        return self._record(item, index, text, intended_s, exchange, error)

    async def _send(self, item: Item, exchange: Exchange) -> None:
        body = json.dumps(self._target.body(item), ensure_ascii=False).encode()
        exchange.sent_s = self._clock.now()
        async with self._session.post(self._url, data=body, headers=self._headers) as response:
            exchange.status = response.status
            if not 200 <= response.status < 300:
                exchange.retry_after_s = parse_retry_after(response.headers.get("Retry-After"))
                await response.read()  # so that the connection can be used again
                raise RefusalError
            if self._target.stream:
                await self._read_stream(response, exchange)
                return
            try:
                reply = self._target.whole(json.loads(await response.read()))
            except ValueError as error:
                raise BadReplyError("the answer is not JSON") from error
            exchange.characters = reply.characters
            exchange.output_tokens, exchange.finish_reason = reply.output_tokens, reply.finish_reason

    async def _read_stream(self, response: aiohttp.ClientResponse, exchange: Exchange) -> None:
        async for data in event_data(response.content):
            event = self._target.event(data)
            if event.text:
                exchange.event_s.append(self._clock.now())
                exchange.characters += len(event.text)
            if event.output_tokens is not None:
                exchange.output_tokens = event.output_tokens
            exchange.finish_reason = event.finish_reason or exchange.finish_reason
            if event.end:
                return
        raise ConnectionResetError("the stream ended before its last event")

    def _record(
        self, item: Item, index: int, text: int, intended_s: float, exchange: Exchange, error: ErrorKind | None
    ) -> RequestRecord:
        events_s = exchange.event_s
        gaps = sorted(later - earlier for earlier, later in pairwise(events_s))
        if gaps:
            self.itl_histogram.update(bucket_counts(gaps))
        return RequestRecord(
            index=index,
            text=text,
            intended_s=round(intended_s, 6),
            sent_s=_rounded(exchange.sent_s),
            first_token_s=_rounded(events_s[0] if events_s else None),
            done_s=round(self._clock.now(), 6),
            source_tokens=item.source_tokens,
            source_characters=len(item.text),
            band=length_band(item.source_tokens),
            output_tokens=exchange.output_tokens,
            output_characters=exchange.characters,
            status=exchange.status,
            error=error,
            finish_reason=exchange.finish_reason,
            retry_after_s=exchange.retry_after_s,
            itl_count=len(gaps),
            itl_mean_s=_rounded(sum(gaps) / len(gaps) if gaps else None),
            itl_p95_s=_rounded(gaps[ceil(0.95 * len(gaps)) - 1] if gaps else None),
            itl_max_s=_rounded(gaps[-1] if gaps else None),
        )


def classify(fault: BaseException, status: int | None) -> ErrorKind | None:
    """The kind of an error; None of one that is the bench's own."""
    if isinstance(fault, RefusalError):
        known: dict[int | None, ErrorKind] = {429: "refused", 503: "unavailable"}
        return known.get(status, "server_error" if (status or 0) >= 500 else "rejected")
    return next((kind for types, kind in _ERRORS if isinstance(fault, types)), None)


def parse_retry_after(header: str | None) -> float | None:
    """Retry-After as seconds, from either of its forms (RFC 9110, section 10.2.3); None where there is none."""
    if header is None:
        return None
    with suppress(ValueError):
        return max(0.0, float(header))
    with suppress(ValueError):
        return max(0.0, parsedate_to_datetime(header).timestamp() - time())
    return None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
