"""Python clients of `make clients`, unmodified, against a server with the packaged model: each of their cells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.__main__ import Server, clients, expected, run, serving

pytestmark = [pytest.mark.acceptance, pytest.mark.engine, pytest.mark.timeout(600)]

CLIENTS = ("deepl", "libretranslatepy", "deep-translator")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def translations(server: Server) -> dict[str, list[str]]:
    return expected(server)


@pytest.mark.parametrize("name", CLIENTS)
def test_an_unmodified_client_is_served(server: Server, translations: dict[str, list[str]], name: str) -> None:
    [client] = [one for one in clients() if one.id == name]
    found = run(client, server, translations)
    assert [cell for cell in found["cells"] if cell["reason"]] == []
    assert [one for one in found["refusals"] if one["raises"] is None] == []
