"""The recorder: takes each ended text on the event loop, and writes from a thread of its own.

On the event loop a text costs one append to a queue. Making lines and writing them is the thread's, a few lines at a time, so
that the loop never waits long for the interpreter. A process that is killed loses what ended within the last
`FLUSH_EVERY_S`. A folder that cannot be written costs records, never translations.
Knows nothing of the service.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic

from dragoman.settings import TrafficSettings
from dragoman.telemetry.calls import Observer, TextRecord
from dragoman.telemetry.traffic.entry import Entry, to_line
from dragoman.telemetry.traffic.spool import Spool

log = logging.getLogger("dragoman.traffic")

FLUSH_EVERY_S = 0.25
RETRY_AFTER_S = 10.0  # of a folder that could not be written
MOST_PENDING = 50_000  # texts that wait for the thread; more are lost, and counted
AT_ONCE = 64  # lines made before the event loop gets its turn: about half a millisecond


class Recorder(Observer):
    """Writes every text that ends to a folder, from `start` to `close`."""

    def __init__(self, settings: TrafficSettings) -> None:
        self.lost = 0  # texts that could not be written
        self._folder = Path(settings.folder)
        self._spool = Spool(self._folder, file_bytes=settings.file_bytes, max_bytes=settings.max_bytes)
        self._pending: deque[TextRecord] = deque()
        self._writing = Lock()
        self._stop = Event()
        self._thread: Thread | None = None
        self._closed = False
        self._retry_s: float | None = None  # None: the folder is writable as far as is known

    @property
    def written(self) -> int:
        """Texts on disk."""
        return self._spool.written

    @property
    def failing(self) -> bool:
        """The last attempt to write failed."""
        return self._retry_s is not None

    def start(self) -> None:
        """Begin to write. A folder that cannot be made is told now rather than at the first text."""
        if self._thread is not None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._failed(error, 0)
        self._thread = Thread(target=self._run, name="traffic-recorder", daemon=True)
        self._thread.start()

    def text_ended(self, text: TextRecord) -> None:
        if len(self._pending) >= MOST_PENDING:
            self.lost += 1
            return
        self._pending.append(text)
        if self._closed:  # calls that the server's end cut off
            self.flush()

    def flush(self) -> None:
        """Write what has ended, now. Never raises for a folder that cannot be written."""
        with self._writing:
            if self._retry_s is not None and monotonic() < self._retry_s and not self._closed:
                return
            before, lines = self._spool.written, self._lines()
            try:
                self._spool.write(lines)
            except OSError as error:
                self._failed(error, len(lines) - (self._spool.written - before))
            else:
                self._succeeded(bool(lines))
            if self._closed:
                self._spool.close()

    def close(self) -> None:
        """Write what is left and end the thread. What ends later is written as it comes."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._closed = True
        self.flush()

    def _run(self) -> None:
        while not self._stop.wait(FLUSH_EVERY_S):
            try:
                self.flush()
            except Exception:  # a fault in one record must not end the recording
                log.exception("traffic records were lost to a fault of the recorder")

    def _lines(self) -> list[bytes]:
        lines: list[bytes] = []
        for _ in range(len(self._pending)):
            lines.append(to_line(Entry.of(self._pending.popleft())))
            if len(lines) % AT_ONCE == 0 and not self._closed:
                time.sleep(0)  # gives up the interpreter's lock
        return lines

    def _failed(self, error: OSError, lost: int) -> None:
        self.lost += lost
        if self._retry_s is None:
            log.warning(
                "traffic is not recorded: %s cannot be written: %s; serving goes on, and recording when it can",
                self._folder,
                error.strerror or error,
            )
        self._retry_s = monotonic() + RETRY_AFTER_S

    def _succeeded(self, wrote: bool) -> None:
        if self._retry_s is not None and wrote:
            log.warning("traffic is recorded again; %d texts were not", self.lost)
            self._retry_s = None
