from __future__ import annotations

from pathlib import Path

import pytest

from dragoman_bench.tune.faults import about_memory, root_cause, told_by

ENGINE = """\
(EngineCore pid=12) ERROR 11-21 16:44:09 [core.py:844] Traceback (most recent call last):
(EngineCore pid=12) ERROR 11-21 16:44:09 [core.py:844]   File "core.py", line 1482, in run_engine_core
(EngineCore pid=12) ERROR 11-21 16:44:09 [core.py:844] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def test_memory_is_told_before_what_merely_points_at_it() -> None:
    assert root_cause(ENGINE) == "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"


def test_without_memory_the_last_exception_of_its_own_is_told() -> None:
    log = "KeyError: 'first'\nValueError: unknown quantization fp9\nRuntimeError: Engine core initialization failed.\n"
    assert root_cause(log) == "ValueError: unknown quantization fp9"
    assert root_cause("RuntimeError: Engine core initialization failed.") is not None
    assert root_cause("all is well\n") is None


def test_the_engines_log_is_asked_before_the_servers(tmp_path: Path) -> None:
    engine, server = tmp_path / "engine.log", tmp_path / "server.log"
    engine.write_text(ENGINE)
    server.write_text("OSError: something else\n")
    message = f"slots-8 ended with exit code 1\n    the end of {server}:\n    bye"
    assert told_by(message, engine, server) == (
        "slots-8 ended with exit code 1: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
    )
    assert str(tmp_path) not in told_by(message, engine, server)


def test_a_log_without_an_exception_is_told_by_its_last_line(tmp_path: Path) -> None:
    message = "one ended with exit code 1\n    the end of it:\n    no such model"
    assert told_by(message, tmp_path / "missing.log") == "one ended with exit code 1: no such model"


def test_a_process_that_the_system_killed_lacked_memory(tmp_path: Path) -> None:
    told = told_by("one ended with exit code -9\n    the end of it:\n    loading", tmp_path / "missing.log")
    assert told == "one ended with exit code -9: killed by the system, which it does when memory runs out"
    assert about_memory(told)


def test_a_reason_stays_a_line() -> None:
    told = told_by("one ended\n    ValueError: " + "x" * 1000)
    assert len(told) == 300
    assert told.endswith("…")


@pytest.mark.parametrize(
    ("reason", "memory"),
    [
        ("ValueError: No available memory for the cache blocks.", True),
        ("ValueError: Free memory on device (10/140 GiB) on startup is less than desired", True),
        ("ValueError: To serve at least one request, 3 GiB KV cache is needed, larger than what is there", True),
        ("ValueError: fp8 is not supported", False),
    ],
)
def test_what_lacked_memory_is_known_by_its_words(reason: str, memory: bool) -> None:
    assert about_memory(reason) is memory
