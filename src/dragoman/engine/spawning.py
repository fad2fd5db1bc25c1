"""How vLLM's processes are born under a server: spawned, and deaf to the terminal's Ctrl-C.

A fork of a server would inherit its threads' locks and, when an engine is started again, its clients' sockets, which then
stay open for as long as that engine lives. And a terminal sends Ctrl-C to every process of the foreground group: vLLM's
would begin to shut down, and refuse what the calls that the server still drains ask for next.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def ignoring_terminal_signals() -> Generator[None]:
    """Within: processes started by this thread are spawned and never get SIGINT. `shutdown` ends them, by SIGTERM.

    A choice of the user's in `VLLM_WORKER_MULTIPROC_METHOD` stands. The signal is blocked, not ignored: vLLM's processes
    install a handler of their own for it, and a blocked signal stays blocked over that, and over exec.
    """
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    resource_tracker.ensure_running()  # multiprocessing starts it with the first process, and unblocks SIGINT after that
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
