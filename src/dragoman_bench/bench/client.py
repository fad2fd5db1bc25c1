"""One request over HTTP, timed: sends an item, reads the answer whole or streamed, and records how it ended."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from time import monotonic, time

import aiohttp

from dragoman_bench.bench.results import ErrorKind, RequestRecord, band_of
from dragoman_bench.bench.summary import bucket_counts, nearest_rank
from dragoman_bench.bench.targets import BadReplyError, Reply, Target, ToldError, event_data
from dragoman_bench.bench.workload import Item


@dataclass(frozen=True, slots=True)
class Clock:
    start: float  # a `monotonic()` instant, possibly to come

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


KEEP_ALIVE_S = 4.0  # under uvicorn's 5 s: else a connection taken up as the server drops it reads as a failed request
_LINE_LIMIT = 2**20  # bytes of one streamed line


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be sent and when it is meant to be: `index` in the plan, `text` in the workload."""

    index: int
    text: int
    item: Item
    intended_s: float


@dataclass(slots=True)
class Watch:
    """What is seen of one request while it goes on."""

    sent_s: float | None = None
    event_s: list[float] = field(default_factory=list[float])
    status: int | None = None
    retry_after_s: float | None = None
    characters: int = 0
    output_tokens: int | None = None
    finish_reason: str | None = None

    def whole(self, reply: Reply) -> None:
        self.characters, self.output_tokens, self.finish_reason = (
            reply.characters,
            reply.output_tokens,
            reply.finish_reason,
        )


class RefusalError(Exception):
    """A status that is not 2xx."""


def open_session() -> aiohttp.ClientSession:
    """A session without aiohttp's own limits: its pool of 100 connections would hide waiting inside the client."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S)
    no_limit = aiohttp.ClientTimeout(total=None, sock_connect=None, sock_read=None)
    return aiohttp.ClientSession(connector=connector, timeout=no_limit, read_bufsize=_LINE_LIMIT)


class Client:
    """Sends orders to one server. `connections` None: as many as there are requests in flight."""

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
        self._clock = clock
        self._timeout_s = timeout_s
        self._permits = asyncio.Semaphore(connections) if connections else None
        self.itl_histogram: Counter[int] = Counter()

    async def exchange(self, order: Order) -> RequestRecord:
        """Sends and reads; on cancellation the request is recorded as unfinished."""
        watch = Watch()
        error: ErrorKind | None = None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + order.intended_s + self._timeout_s - self._clock.now()
        try:
            async with asyncio.timeout_at(deadline):
                await self._with_permit(order, watch)
        except (asyncio.CancelledError, Exception) as fault:
            error = classify(fault, watch.status)
            if error is None:
                raise
        return self._record(order, watch, error)

    async def _with_permit(self, order: Order, watch: Watch) -> None:
        if self._permits is None:
            return await self._send(order, watch)
        async with self._permits:
            return await self._send(order, watch)

    async def _send(self, order: Order, watch: Watch) -> None:
        body = json.dumps(self._target.body(order.item), ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json", **self._target.headers}
        watch.sent_s = self._clock.now()
        async with self._session.post(self._url, data=body, headers=headers) as response:
            watch.status = response.status
            if not 200 <= response.status < 300:
                watch.retry_after_s = retry_after_s(response.headers.get("Retry-After"))
                await response.read()  # so that the connection can be used again
                raise RefusalError
            if self._target.stream:
                await self._read_stream(response, watch)
            else:
                watch.whole(self._target.whole(parse(await response.read())))

    async def _read_stream(self, response: aiohttp.ClientResponse, watch: Watch) -> None:
        async for data in event_data(response.content):
            event = self._target.event(data)
            if event.text:
                watch.event_s.append(self._clock.now())
                watch.characters += len(event.text)
            watch.output_tokens = event.output_tokens if event.output_tokens is not None else watch.output_tokens
            watch.finish_reason = event.finish_reason or watch.finish_reason
            if event.end:
                return
        raise ConnectionResetError("the stream ended before its end was told")

    def _record(self, order: Order, watch: Watch, error: ErrorKind | None) -> RequestRecord:
        done_s = self._clock.now()
        gaps = sorted(later - earlier for earlier, later in zip(watch.event_s, watch.event_s[1:], strict=False))
        self.itl_histogram.update(bucket_counts(gaps))
        return RequestRecord(
            index=order.index,
            text=order.text,
            intended_s=round(order.intended_s, 6),
            sent_s=rounded(watch.sent_s),
            first_token_s=rounded(watch.event_s[0] if watch.event_s else None),
            done_s=round(done_s, 6),
            source_tokens=order.item.source_tokens,
            source_characters=len(order.item.text),
            band=band_of(order.item.source_tokens),
            output_tokens=watch.output_tokens,
            output_characters=watch.characters,
            status=watch.status,
            error=error,
            finish_reason=watch.finish_reason,
            retry_after_s=watch.retry_after_s,
            itl_count=len(gaps),
            itl_mean_s=rounded(sum(gaps) / len(gaps) if gaps else None),
            itl_p95_s=rounded(nearest_rank(gaps, 95) if gaps else None),
            itl_max_s=rounded(gaps[-1] if gaps else None),
        )


def classify(fault: BaseException, status: int | None) -> ErrorKind | None:
    """The kind of a fault, most telling first; None of a fault that is the bench's own."""
    if isinstance(fault, RefusalError):
        return kind_of_status(status or 0)
    kinds: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], ErrorKind], ...] = (
        (asyncio.CancelledError, "unfinished"),
        (aiohttp.ClientConnectorError, "connect"),  # an OSError too, so before it
        (TimeoutError, "timeout"),
        ((BadReplyError, aiohttp.ClientResponseError), "bad_reply"),
        (ToldError, "server_error"),
        ((aiohttp.ClientError, OSError), "disconnect"),
    )
    return next((kind for types, kind in kinds if isinstance(fault, types)), None)


def kind_of_status(status: int) -> ErrorKind:
    if status == 429:
        return "refused"
    if status == 503:
        return "unavailable"
    return "server_error" if status >= 500 else "rejected"


def retry_after_s(header: str | None) -> float | None:
    """Retry-After as seconds, from either of its forms (RFC 9110, section 10.2.3); None where there is none."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time())
    except ValueError:
        return None


def parse(body: bytes) -> object:
    """Raises BadReplyError."""
    try:
        return json.loads(body)
    except ValueError as error:
        raise BadReplyError(f"not JSON: {body[:80]!r}") from error


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
