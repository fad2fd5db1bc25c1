"""Runs the daemon of CUDA MPS for one GPU, under which the kernels of several engines run at the same time.

The daemon is a child process with folders of its own, which a `Guard` ends with this process. Nothing of the GPU's settings is
changed. A daemon that has ended, or that an engine's crash may have broken, is replaced, together with all engines of the GPU:
their servers start them again, and run their sequences again.

The daemon sees all GPUs and the engines one of them, since it would number those that CUDA_VISIBLE_DEVICES leaves it anew.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

import psutil

from dragoman.sharedgpu import CONTROL, POLL_S, SharedGpu

log = logging.getLogger("dragoman.deploy")

START_S = 15.0
QUIT_S = 5.0
MAX_FAILED_STARTS = 3
"""Of another daemon, in a row; then the engines run without one."""
_CLIENT = (
    "import ctypes, sys\n"
    "cuda, context = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p()\n"
    "error = cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)\n"
    "sys.exit(f'CUDA error {error}' if error else 0)"
)
"""A program that does what each client does first."""


def why_not(setting: str) -> str:
    """Return why MPS cannot be used here, by the setting `server.mps` and what is installed; empty: it may be."""
    if setting == "off":
        return "server.mps is off"
    if shutil.which(CONTROL) is None:
        return f"{CONTROL} of CUDA MPS is not installed here (it comes with NVIDIA's driver)"
    return ""


class MpsRefused(Exception):
    """MPS cannot be used here."""


def try_client(gpu: SharedGpu, visible: str) -> str:
    """Return why a process that uses the GPU `visible` is no client of the daemon; empty: it is."""
    environment = {**os.environ, **gpu.mps_environment(), "CUDA_VISIBLE_DEVICES": visible}
    try:
        tried = subprocess.run(
            [sys.executable, "-c", _CLIENT], env=environment, capture_output=True, text=True, timeout=30
        )
    except subprocess.TimeoutExpired:
        return "a first client waited for 30 s"
    if tried.returncode:
        return next(reversed(tried.stderr.splitlines()), f"a first client ended with {tried.returncode}")
    return "" if gpu.servers() else "a first client was not connected"


class MpsDaemon:
    """The daemon of one GPU: `visible` is the GPU as in CUDA_VISIBLE_DEVICES. `try_client` returns why it has no clients."""

    def __init__(self, gpu: SharedGpu, visible: str, try_client: Callable[[SharedGpu, str], str] = try_client) -> None:
        self.gpu = gpu
        self._visible = visible
        self._try_client = try_client
        self._number = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._servers: list[psutil.Process] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"dragoman-mps-{visible}", daemon=True)

    def start(self) -> None:
        """Start it, and watch it until `end`. Blocks for some seconds. Raises `MpsRefused`."""
        self._begin()
        self._thread.start()

    def end(self) -> None:
        """End it. The engines must have ended."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._kill()

    def _begin(self) -> None:
        self._number += 1
        for folder in (self.gpu.pipe, self.gpu.log):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
        environment = {**os.environ, **self.gpu.mps_environment()}
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        try:
            self._process = daemon = subprocess.Popen(
                [CONTROL, "-f"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # without a terminal's Ctrl-C: engines that drain still need it
            )
        except OSError as error:
            raise MpsRefused(f"{CONTROL} could not be started: {error.strerror}") from error
        until_s = monotonic() + START_S
        while self.gpu.command("get_server_list") is None:
            if daemon.poll() is not None or monotonic() > until_s:
                self._kill()
                raise MpsRefused(f"{CONTROL} does not answer{self._last_line()}")
            self._ending.wait(POLL_S)
        if reason := self._try_client(self.gpu, self._visible):
            self._kill()
            raise MpsRefused(f"{reason}{self._last_line()}")
        with suppress(psutil.NoSuchProcess):
            self._servers = [psutil.Process(pid) for pid in self.gpu.servers()]
        self.gpu.begin_daemon(self._number)

    def _last_line(self) -> str:
        with suppress(OSError):
            if lines := (self.gpu.log / "control.log").read_text(errors="replace").splitlines():
                return f"; the end of its log: {lines[-1]}"
        return ""

    def _kill(self) -> None:
        """End the daemon and its server, at once if they do not end by themselves."""
        if self._process is None:
            return
        if self._ending.is_set():
            self.gpu.command("quit")
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(QUIT_S)
        if self._process.poll() is None:
            self._servers += psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()
        self._process.wait()
        for server in self._servers:
            with suppress(psutil.NoSuchProcess):
                server.kill()
        psutil.wait_procs(self._servers, QUIT_S)
        self._process, self._servers = None, []

    def _watch(self) -> None:
        while not self._ending.wait(POLL_S):
            if self._process is None:
                return
            if self._process.poll() is not None:
                self._replace("has ended")
            elif self.gpu.is_broken() or self.gpu.engines()[1]:
                self._replace("may be broken, because an engine crashed")

    def _replace(self, reason: str) -> None:
        """End this daemon and all engines of the GPU, and start another daemon; engines that start wait for it.

        If none can be started, the engines run without: a client that finds no daemon uses the GPU by itself.
        """
        log.warning(
            "the MPS daemon of GPU %s %s: it and all engines of the GPU are restarted, and their sequences run again",
            self._visible,
            reason,
        )
        began_s = monotonic()
        self.gpu.report_broken(self.gpu.daemon())  # from here on no engine starts
        running, lost = self.gpu.engines()
        for process in running:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._kill()
        psutil.wait_procs(running, QUIT_S)
        self.gpu.forget([*lost, *(process.pid for process in running)])
        for _ in range(MAX_FAILED_STARTS):
            try:
                self._begin()
            except MpsRefused as error:
                log.error("the MPS daemon of GPU %s could not be started again: %s", self._visible, error)
                if self._ending.wait(QUIT_S):
                    return
            else:
                log.info("another MPS daemon runs on GPU %s after %.1f s", self._visible, monotonic() - began_s)
                return
        log.error("the engines of GPU %s run without MPS from now on", self._visible)
        self.gpu.begin_daemon(self._number)
