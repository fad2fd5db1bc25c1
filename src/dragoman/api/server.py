"""Runs the HTTP server: listen, start the engine, drain on a signal, return the right exit code.

uvicorn closes its sockets when it stops; a client that connects during a drain would then see a refused connection. So a
signal first drains the service, with open sockets and 503 for new calls; only then does uvicorn stop.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import Callable

import uvicorn

from dragoman.api import transport
from dragoman.api.app import create_app, create_operator_app
from dragoman.api.middleware import comma_separated
from dragoman.errors import ConfigError, DragomanError
from dragoman.service.service import TranslationService

log = logging.getLogger("dragoman.server")


def bind(host: str, port: int) -> socket.socket:
    """A socket with the address, which does not listen. Raises `ConfigError` when the address is not available."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if bound.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port or PORT=",
            param="server.port",
        ) from None
    return bound


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises `ConfigError` when the address is not available."""
    listener = bind(host, port)
    listener.listen(2048)
    # Accepted sockets inherit it. uvloop sets it itself, asyncio does not; Nagle's algorithm would delay answers by 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    """The address of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class DragomanServer:
    """Serves one `TranslationService` over HTTP until a signal, or until the engine has crashed and does not restart.

    `operators`: a second socket, for what operators ask. SIGHUP has keys and limits read again. Raises `ConfigError` for a
    certificate that cannot be used.
    """

    def __init__(
        self,
        service: TranslationService,
        listener: socket.socket,
        on_ready: Callable[[str], None] = lambda _: None,
        operators: socket.socket | None = None,
    ) -> None:
        self.service = service
        self._listener = listener
        self.failure: DragomanError | None = None
        self._on_ready = on_ready
        self._stop = asyncio.Event()
        self._signals = 0
        self._drain_until_s = 0.0
        self._uvicorn = transport.HttpServer(self._config(), self._signalled)
        self._operators: tuple[transport.HttpServer, socket.socket] | None = None
        if operators is not None:
            config = transport.http_config(create_operator_app(service), service.settings.server)
            self._operators = transport.HttpServer(config, self._signalled), operators
        self._reloading: asyncio.Task[None] | None = None

    def _config(self) -> uvicorn.Config:
        server = self.service.settings.server
        if server.tls_key and not server.tls_certificate:
            raise ConfigError("server.tls_key needs server.tls_certificate", param="server.tls_certificate")
        config = transport.http_config(
            create_app(self.service),
            server,
            proxies=comma_separated(server.trusted_proxies),
            ssl_certfile=server.tls_certificate or None,
            ssl_keyfile=server.tls_key or None,
        )
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"server.tls_certificate {server.tls_certificate} with the key {server.tls_key or 'in it'} cannot be used: "
                f"{error}",
                param="server.tls_certificate",
            ) from None
        return config

    def _signalled(self) -> None:
        """The first signal drains, the second one stops the server immediately."""
        self._signals += 1
        self._stop.set()
        if self._signals > 1:
            self._uvicorn.should_exit = True
            self._uvicorn.force_exit = True

    @property
    def url(self) -> str:
        """Its address."""
        return url_of(self._listener, "https" if self.service.settings.server.tls_certificate else "http")

    async def run(self) -> int:
        """Serve until a signal. The exit code: 0 after a drain; 1 when it timed out, or engine or HTTP server failed."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        try:
            return await self._run()
        finally:
            loop.remove_signal_handler(signal.SIGHUP)

    async def _run(self) -> int:
        servers = [(self._uvicorn, self._listener), *([self._operators] if self._operators is not None else [])]
        serving = [asyncio.create_task(server.serve(sockets=[listener])) for server, listener in servers]
        life = asyncio.create_task(self._live())
        await asyncio.wait({life, *serving}, return_when=asyncio.FIRST_COMPLETED)
        if not life.done():  # a second signal, or uvicorn has failed
            life.cancel()
        await asyncio.gather(life, return_exceptions=True)
        await self.service.stop()  # first: what the drain did not finish must fail before uvicorn waits for it
        for server, _ in servers:
            server.close_s = max(transport.CLOSE_S, self._drain_until_s - asyncio.get_running_loop().time())
            server.should_exit = True
        ends = await asyncio.gather(*serving, return_exceptions=True)
        if self.service.tracing is not None:  # last: until now requests may have ended
            await asyncio.to_thread(self.service.tracing.shutdown)
        for failed in ends:
            if isinstance(failed, Exception):
                self.failure = DragomanError(f"the HTTP server failed: {failed or type(failed).__name__}")
                log.error("uvicorn failed", exc_info=failed)
                return 1
        return 1 if life.cancelled() else life.result()

    def _reload(self) -> None:
        async def reload() -> None:
            try:
                await self.service.accounts.reload()
            except DragomanError as error:
                log.error("keys and limits could not be read again: %s", error.message)
            else:
                log.info("keys and limits are read again")

        self._reloading = asyncio.create_task(reload())

    async def _live(self) -> int:
        starting = asyncio.create_task(self._start())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            starting.cancel()
            stopping.cancel()
            await asyncio.gather(starting, stopping, return_exceptions=True)
            raise
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return 0
        try:
            starting.result()
        except DragomanError as error:
            stopping.cancel()
            self.failure = error
            return 1
        return await self._serve(stopping)

    async def _serve(self, stopping: asyncio.Task[bool]) -> int:
        """Until a signal, and then drain; or until the engine has crashed for good."""
        lost = asyncio.create_task(self.service.lost())
        drained = True
        try:
            await asyncio.wait({stopping, lost}, return_when=asyncio.FIRST_COMPLETED)
            if not lost.done():
                log.info("draining: %d calls in flight", self.service.admission.calls)
                self._drain_until_s = asyncio.get_running_loop().time() + self.service.settings.server.drain_timeout_s
                drained = await self.service.drain()
            if lost.done():
                self.failure = lost.result()
            return 0 if drained and self.failure is None else 1
        finally:
            stopping.cancel()
            lost.cancel()

    async def _start(self) -> None:
        await self.service.start()
        self.service.freeze_heap()
        self._on_ready(self.url)
