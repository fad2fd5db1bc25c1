"""uvicorn as all of this program's servers run it: HTTP/1.1 with bounds on what a client may send, hold and leave unread.

uvicorn with httptools has no limit for headers, no time limit for requests that never end, and loses the body of a request
that offers an upgrade, as Java's HttpClient does. With several replicas Ray Serve's own uvicorn runs behind HAProxy, whose
configuration has the same bounds (`deploy/haproxy.py`); its protocol is `JoinedProtocol`, without bounds.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, cast

import httptools
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from dragoman.api.answers import json_bytes
from dragoman.errors import DragomanError, Draining, HeadersTooLarge, InvalidRequest, RequestTimeout
from dragoman.settings import ServerSettings

log = logging.getLogger("dragoman.server")

KEEP_ALIVE_S = 75
MAX_HEADERS = 128
MIN_BODY_BYTES_PER_S = 500
"""A body that arrives more slowly, on average over `server.body_timeout_s`, is refused, and an answer that is read more slowly
is cut off. Apache's default."""
CLOSE_S = 5.0
"""How long clients may read answers after the drain, where `server.drain_timeout_s` leaves no more."""
LINGER_S = 1.0
"""What a refused client still sends is read for so long: closing with data unread would reset the connection, and the
client might not see the answer."""
_UPGRADE_HEADERS = (b"upgrade", b"http2-settings")


class _JoinedWrites:
    """A transport that sends an answer's head and the beginning of its body, when both are written in one turn of the event
    loop, by one system call.

    A proxy that has the head of a process that dies cannot send the request to another any more. More than two writes are
    not joined: a transport that was not written to could not say that its buffer is full.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""

    def write(self, data: bytes) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.writelines((held, data))
        else:
            self._held = data
            self._loop.call_soon(self._send_held)

    def write_eof(self) -> None:
        self._send_held()
        self._transport.write_eof()

    def close(self) -> None:
        self._send_held()
        self._transport.close()

    def _send_held(self) -> None:
        held, self._held = self._held, b""
        if held and not self._transport.is_closing():
            self._transport.write(held)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class JoinedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with joined writes."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # as uvicorn's
        """A client has connected."""
        super().connection_made(cast(asyncio.Transport, _JoinedWrites(transport, self.loop)))


class BoundedProtocol(JoinedProtocol):
    """One connection. `check` is called every second."""

    def __init__(self, limits: ServerSettings, **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits
        self._has_begun = False
        self._in_body = False
        self._offers_upgrade = False
        self._is_refused = False
        self._unparsed_bytes = 0  # whole reads since a head began or a part of a body came
        self._waits_since_s: float | None = None  # for the client; None: `check` sets it
        self._received_bytes = 0  # since then
        self._unread_bytes, self._unread_since_s = 0, 0.0  # of answers, by the client, when its time began
        self._last_unread_bytes = 0  # at the last check

    # ---- what arrives

    def data_received(self, data: bytes) -> None:
        """As uvicorn's, with bounds. A long head, chunk extension or trailer has no end in sight: only its bytes count."""
        if self._is_refused:
            return
        self._unset_keepalive_if_required()
        self._received_bytes += len(data)
        self._unparsed_bytes += len(data)
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self._refuse(InvalidRequest("this is not a valid HTTP/1.1 request"))
        if self._unparsed_bytes > self._limits.max_header_bytes:
            self._refuse(self._too_large())

    def _parse(self, data: bytes) -> None:
        """Feed the parser. It treats all that follows an offer of an upgrade as another protocol's: such a request is
        parsed again without the offer, which a server may ignore."""
        rest = memoryview(data)
        while True:
            try:
                self.parser.feed_data(rest)
            except httptools.HttpParserUpgrade as offer:
                if not self._offers_upgrade:  # CONNECT, which the app refuses
                    return
                rest = rest[offer.args[0] :]
                head = self._head_without_upgrade()
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
                self.parser.feed_data(head)
            else:
                return

    def _head_without_upgrade(self) -> bytes:
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        for name, value in self.headers:
            if name == b"connection":
                options = [option for option in value.split(b",") if option.strip().lower() not in _UPGRADE_HEADERS]
                lines.append(b"connection: " + b",".join(options))
            elif name not in _UPGRADE_HEADERS:
                lines.append(b"%s: %s" % (name, value))
        return b"\r\n".join((*lines, b"\r\n"))

    def on_message_begin(self) -> None:
        """A request begins."""
        self._has_begun = True
        self._offers_upgrade = False
        self._unparsed_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is complete: call the app, unless it is too large, or parsed again without its offer of an upgrade."""
        head_bytes = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if head_bytes > self._limits.max_header_bytes or len(self.headers) > MAX_HEADERS:
            self._refuse(self._too_large())
            raise ValueError("the head is too large")  # ends the parser
        self._offers_upgrade = self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"
        if self._offers_upgrade:
            return
        self._in_body = True
        self._unparsed_bytes = 0
        self._waits_since_s = None
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body has come."""
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        if self._offers_upgrade:
            return
        self._in_body = False
        self._unparsed_bytes = 0
        self._waits_since_s = None
        super().on_message_complete()

    def _too_large(self) -> HeadersTooLarge:
        return HeadersTooLarge(
            f"the request line and headers have more than {self._limits.max_header_bytes} bytes or {MAX_HEADERS} headers"
        )

    # ---- time

    def check(self, now_s: float) -> None:
        """Ends the connection when its client has been too slow. `now_s`: the event loop's time."""
        self._check_reading(now_s)
        if self._is_refused or not self._waits_for_client():
            self._waits_since_s = None
        elif self._waits_since_s is None:
            self._waits_since_s, self._received_bytes = now_s, 0
        elif self._in_body:
            self._check_body(now_s)
        elif now_s - self._waits_since_s >= self._limits.header_timeout_s:
            if not self._has_begun:  # nothing has come at all
                self.transport.close()
            self._refuse(RequestTimeout(f"the headers were not complete after {self._limits.header_timeout_s} s"))

    def _check_reading(self, now_s: float) -> None:
        """A client that reads an answer more slowly than one may send a body. Where more is unread than a second ago, more was
        written meanwhile, which begins a new time; no more is written while 64 KB are unread."""
        unread_bytes, timeout_s = self.transport.get_write_buffer_size(), self._limits.body_timeout_s
        if not unread_bytes or unread_bytes > self._last_unread_bytes:
            self._unread_bytes, self._unread_since_s = unread_bytes, now_s
        elif now_s - self._unread_since_s >= timeout_s:
            if self._unread_bytes - unread_bytes < MIN_BODY_BYTES_PER_S * timeout_s:
                log.debug("a client reads too slowly: %d bytes are unread", unread_bytes)
                self.transport.abort()
            self._unread_bytes, self._unread_since_s = unread_bytes, now_s
        self._last_unread_bytes = unread_bytes

    def _check_body(self, now_s: float) -> None:
        timeout_s = self._limits.body_timeout_s
        if self._waits_since_s is None or now_s - self._waits_since_s < timeout_s:
            return
        if self._received_bytes < MIN_BODY_BYTES_PER_S * timeout_s:
            self._refuse(RequestTimeout(f"only {self._received_bytes} bytes of the body came in {timeout_s} s"))
        self._waits_since_s, self._received_bytes = now_s, 0

    def _waits_for_client(self) -> bool:
        """Whether the next bytes are the client's to send, and no time limit of uvicorn's runs."""
        if self.pipeline or self.timeout_keep_alive_task is not None:
            return False
        if self._in_body:
            return not self.flow.read_paused
        cycle = self._cycle
        return cycle is None or cycle.response_complete

    @property
    def _cycle(self) -> RequestResponseCycle | None:
        """The request that came last; None before the first."""
        return self.cycle

    # ---- the end

    def shutdown(self) -> None:
        """The server stops: what is complete is answered, what is not is refused."""
        if self._in_body and not (self.cycle.response_started or self.pipeline):
            self._refuse(Draining("the server is stopping"))
        elif not self._is_refused:
            super().shutdown()

    def _refuse(self, error: DragomanError) -> None:
        """Answer with the native API's error, where nothing else is being answered, and close."""
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        cycle = self._cycle
        if cycle is None:
            is_answerable = True
        else:
            is_answerable = not cycle.response_started if self._in_body else cycle.response_complete
            cycle.disconnected = True
            cycle.message_event.set()
        if not is_answerable or self.pipeline:
            self.transport.close()
            return
        log.debug("refused with %d: %s", error.status, error.message)
        self.transport.write(_response(error))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(LINGER_S, self.transport.close)


def _response(error: DragomanError) -> bytes:
    body = json_bytes({"error": {"code": error.code, "message": error.message}})
    head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
    return STATUS_LINE[error.status] + head + body


def http_config(app: ASGIApp, server: ServerSettings, *, proxies: Sequence[str] = (), **tls: Any) -> uvicorn.Config:
    """uvicorn's configuration for any server of this program. `proxies`: whose X-Forwarded headers count; `tls`: uvicorn's
    options of TLS."""
    return uvicorn.Config(
        app,
        http=cast(Any, partial(BoundedProtocol, server)),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        timeout_keep_alive=KEEP_ALIVE_S,
        **tls,
    )


class HttpServer(uvicorn.Server):
    """uvicorn that ends connections of slow clients, and stops in a bounded time.

    `on_signal` is called for SIGINT and SIGTERM; None: the signals are another's. `close_s` is how long clients may read
    their answers once it stops.
    """

    def __init__(self, config: uvicorn.Config, on_signal: Callable[[], None] | None = None) -> None:
        super().__init__(config)
        self._on_signal = on_signal
        self.close_s = CLOSE_S

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Within: signals are handled."""
        if self._on_signal is None:
            yield
        else:
            with super().capture_signals():
                yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal has come."""
        if self._on_signal is not None:
            self._on_signal()

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn every 0.1 s."""
        if counter % 10 == 0:
            now_s = asyncio.get_running_loop().time()
            for connection in self._connections():
                connection.check(now_s)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close what is idle, wait for answers to be read, and close the rest."""
        self.config.timeout_graceful_shutdown = int(self.close_s + CLOSE_S)
        closing = asyncio.get_running_loop().call_later(self.close_s, self._abort)
        try:
            await super().shutdown(sockets)
        finally:
            closing.cancel()

    def _abort(self) -> None:
        connections = self._connections()
        if connections:
            log.warning("%d connections are closed whose clients have not read their answers", len(connections))
        for connection in connections:
            connection.transport.abort()

    def _connections(self) -> list[BoundedProtocol]:
        return [one for one in self.server_state.connections if isinstance(one, BoundedProtocol)]
