"""Shares a few threads among the accounts whose work waits for the database.

A key that sends eight searches at once must hold up neither another key's read nor the server's own work: heartbeats and claims
of documents, usage, keys. So an account has a bound on the threads that it takes, those that wait have turns one after the
other, and all accounts together leave threads for the server's own work, which is not queued here.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, TypeVar

from dragoman.errors import StorageUnavailable
from dragoman.telemetry import requests

T = TypeVar("T")

caller: ContextVar[str | None] = ContextVar("dragoman_caller", default=None)
"""The id of the account that this code, and the tasks that it starts, work for; None: for no account."""


class SharedThreads:
    """Threads that run one function each at a time. Only for one event loop at a time.

    `of_accounts`: how many of the threads all accounts take together; `of_account`: how many one takes.
    """

    def __init__(self, name: str, threads: int, *, of_accounts: int, of_account: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._of_accounts = of_accounts
        self._of_account = of_account
        self._is_closed = False
        self._running: Counter[str] = Counter()  # by account
        self._waiting: dict[str, deque[tuple[Callable[[], Any], asyncio.Future[Any]]]] = {}
        """By account, the one whose turn is next first."""

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread, and return its result. What has begun is not stopped where this is cancelled.

        Raises `StorageUnavailable` after `close`.
        """
        if self._is_closed:
            raise StorageUnavailable("the server stops")
        loop, account = asyncio.get_running_loop(), caller.get()
        if account is None and requests.current.get() is not None:
            account = ""  # all requests without one have turns together
        if account is None:  # the server's own work
            return await loop.run_in_executor(self._threads, work)
        turn: asyncio.Future[T] = loop.create_future()
        self._waiting.setdefault(account, deque()).append((work, turn))
        self._begin()
        return await turn

    async def close(self) -> None:
        """Wait for what runs; what waits for its turn raises `StorageUnavailable`."""
        self._is_closed = True
        for _, turn in (one for waiting in self._waiting.values() for one in waiting):
            if not turn.done():
                turn.set_exception(StorageUnavailable("the server stops"))
        self._waiting.clear()
        await asyncio.to_thread(self._threads.shutdown)

    def _begin(self) -> None:
        """Begin what waits, as far as threads are free for it."""
        while self._running.total() < self._of_accounts:
            account = next((one for one in self._waiting if self._running[one] < self._of_account), None)
            if account is None:
                return
            waiting = self._waiting.pop(account)
            work, turn = waiting.popleft()
            if waiting:
                self._waiting[account] = waiting  # behind the others
            if turn.done():  # it was cancelled
                continue
            self._running[account] += 1
            begun = asyncio.get_running_loop().run_in_executor(self._threads, work)
            begun.add_done_callback(lambda begun, account=account, turn=turn: self._end(account, begun, turn))

    def _end(self, account: str, begun: asyncio.Future[Any], turn: asyncio.Future[Any]) -> None:
        self._running[account] -= 1
        if not self._running[account]:
            del self._running[account]
        error = asyncio.CancelledError() if begun.cancelled() else begun.exception()
        if not turn.done():
            if error is None:
                turn.set_result(begun.result())
            else:
                turn.set_exception(error)
        self._begin()
