"""The directory of replicas, and what is asked of each at its own port. Starts no Ray."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from dragoman.deploy.peers import EXPIRES_S, Directory, DirectoryClient, Entry, OperatorPort, Peers, failed, targets_of
from dragoman.errors import ConfigError, EngineDead, Unavailable
from dragoman.service.service import TranslationService
from dragoman.settings import ServerSettings
from tests.serving import fake_service


def entry(name: str, address: str = "") -> Entry:
    return Entry(tag=f"tag-{name}", name=name, node="127.0.0.1", pid=1, address=address, state="serving")


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_an_entry_that_is_not_renewed_expires() -> None:
    clock = Clock()
    directory = Directory(clock)
    for name in ("1", "0"):
        directory.report(entry(name))
    assert [one.name for one in directory.entries()] == ["0", "1"]
    clock.now_s = EXPIRES_S
    directory.report(entry("1"))
    clock.now_s = EXPIRES_S + 1
    assert [one.name for one in directory.entries()] == ["1"]
    directory.leave("tag-1")
    assert directory.entries() == []


def test_replicas_read_their_instruction_when_they_report() -> None:
    directory = Directory()
    assert directory.report(entry("0")) == "serve"
    directory.instruct("drain")
    assert directory.report(entry("0")) == "drain"


@pytest.mark.parametrize(("error", "is_config_error"), [(ConfigError("bad"), True), (EngineDead("gone"), False)])
def test_why_a_replica_could_not_start(error: Exception, is_config_error: bool) -> None:
    last = failed(entry("0"), error)
    assert (last.state, last.failure, last.is_config_error) == ("failed", str(error), is_config_error)


def test_prometheus_finds_the_replicas_that_listen() -> None:
    (target,) = targets_of([entry("0"), entry("1", "10.0.0.2:4000")])
    assert (target.targets, target.labels["replica"]) == (["10.0.0.2:4000"], "1")


class Entries:
    """In place of the directory's client."""

    def __init__(self, *entries: Entry) -> None:
        self._entries = entries

    async def entries(self) -> list[Entry]:
        return list(self._entries)


@asynccontextmanager
async def replica(name: str, server: ServerSettings) -> AsyncIterator[tuple[TranslationService, Entry]]:
    service = fake_service(server=server)
    service.replica = name
    await service.start()
    port = OperatorPort(service, "127.0.0.1")
    port.start()
    try:
        yield service, entry(name, port.address)
    finally:
        await port.close()
        await service.stop()


def closed_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("allowed_hosts", ["", "mt.example.org", "*.example.org"])
async def test_each_replica_is_asked_and_one_that_does_not_answer_is_shown(allowed_hosts: str) -> None:
    server = ServerSettings(allowed_hosts=allowed_hosts)
    async with replica("0", server) as (own, first), replica("1", server) as (_, second):
        directory = cast(DirectoryClient, Entries(first, second, entry("2", closed_address())))
        peers = Peers(directory, own, first.tag)
        states = {one.replica: one.state for one in await peers.stats()}
        assert states == {"0": "serving", "1": "serving", "2": "unreachable"}
        assert [target.labels["replica"] for target in await peers.targets()] == ["0", "1", "2"]
        with pytest.raises(Unavailable, match="2"):
            await peers.reload()
