"""`dragoman serve --replicas`: how it ends. In place of Ray's, a directory and a replica in this process."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from dragoman.deploy import peers
from dragoman.deploy.local import LOOPBACK, LocalServer, Progress, Run, hold_port
from dragoman.deploy.peers import Directory, DirectoryClient, Entry, Instruction, Membership
from dragoman.settings import Settings
from tests.serving import fake_service
from tests.waiting import until


class LocalDirectory:
    """In place of the directory's client."""

    def __init__(self) -> None:
        self._directory = Directory()

    async def report(self, entry: Entry) -> Instruction:
        return self._directory.report(entry)

    async def leave(self, tag: str) -> None:
        self._directory.leave(tag)

    async def entries(self) -> list[Entry]:
        return self._directory.entries()

    async def instruct(self, instruction: Instruction) -> None:
        self._directory.instruct(instruction)


@pytest.mark.parametrize("serving", [0, 1])
async def test_a_server_that_ends_while_it_starts_drains_the_replicas_that_serve(
    serving: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "log")
    directory, calls = LocalDirectory(), list[str]()
    monkeypatch.setattr(peers, "DirectoryClient", lambda: directory)
    run = SimpleNamespace(
        settings=Settings(), deployment=SimpleNamespace(replicas=2), log_pipe=tmp_path / "log", url="http://localhost"
    )
    for name in ("start_mps", "start_ray", "deploy", "stop_ray", "failure"):
        setattr(run, name, lambda name=name: calls.append(name))
    members = list[Membership]()
    for number in range(serving):
        service = fake_service()
        await service.start()
        entry = Entry(f"tag-{number}", str(number), "127.0.0.1", 1)
        members.append(Membership(cast(DirectoryClient, directory), service, entry))
        members[-1].start()
        await members[-1].serving("")
    ends = LocalServer(cast(Run, run), Progress(*[lambda _: None] * 3)).serve()
    ended = asyncio.create_task(ends)
    await until(lambda: "deploy" in calls, "the replicas' start")
    signal.raise_signal(signal.SIGTERM)
    assert await ended == 0
    assert [one.state for one in await directory.entries()] == ["stopped"] * serving
    assert calls[-1] == "stop_ray"
    for one in members:
        await one.leave()


def test_a_port_that_a_server_holds_is_for_its_own_proxy_and_no_other_server_s() -> None:
    with hold_port(0) as held:
        port = held.getsockname()[1]
        with hold_port(port) as other:
            assert other.getsockname()[1] != port
        with socket.create_server((LOOPBACK, port)) as listener, hold_port(port) as other:
            assert listener.getsockname()[1] == port
            assert other.getsockname()[1] != port
