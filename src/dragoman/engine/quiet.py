"""Keeps vLLM's own output out of the user's sight: into a file, for this process and for those it starts.

vLLM logs through `logging`, but it also starts processes that print warnings, compiler output and tracebacks straight to
their standard streams. Pointing the streams themselves at a file while those processes are born catches all of it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


def _logging_config(log_file: Path) -> dict[str, object]:
    handler = {"class": "logging.FileHandler", "filename": str(log_file), "formatter": "plain", "encoding": "utf-8"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(levelname)s %(asctime)s %(process)d [%(name)s] %(message)s"}},
        "handlers": {"file": handler},
        "loggers": {"vllm": {"handlers": ["file"], "level": "INFO", "propagate": False}},
    }


def log_to_file(log_file: Path) -> None:
    """Tell vLLM, before it is imported, to log to `log_file`. A configuration that the user set wins."""
    log_file.parent.mkdir(parents=True, exist_ok=True)
    if "VLLM_LOGGING_CONFIG_PATH" in os.environ:
        return
    told = log_file.with_suffix(".logging.json")
    told.write_text(json.dumps(_logging_config(log_file.resolve())), encoding="utf-8")
    os.environ["VLLM_LOGGING_CONFIG_PATH"] = str(told.resolve())


@contextmanager
def streams_to_file(log_file: Path) -> Generator[None]:
    """Within: file descriptors 1 and 2 write to `log_file`, so that processes started here inherit that."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(1), os.dup(2)]
    target = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, original in enumerate(saved, start=1):
            os.dup2(original, descriptor)
            os.close(original)
        os.close(target)


def tail(log_file: Path, lines: int = 12) -> str:
    """The log's last lines, for an error message; empty when there is none."""
    try:
        return "\n".join(log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
