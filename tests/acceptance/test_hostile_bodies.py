"""Malformed bodies of 8 MB against `dragoman serve`: each is refused for its first fault, sooner than a valid one is served."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from tests.hostile import ROUTES, Route, Server, bodies, hostile_server

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

SIZE = 7_900_000
TRANSLATE, CHAT, GLOSSARIES = ROUTES[:3]
ROUNDS = 40
MAX_GROWTH_MB = 50


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    async with hostile_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def valid_s(server: Server) -> float:
    """Seconds that a call of as many bytes takes whose texts come back as they are, being in the target's language."""
    body = {"text": ["x" * (SIZE // 10_000 - 5)] * 9_990, "source": "en", "target": "en"}
    status, _, took_s, _ = server.post("/v1/translate", body)
    assert status == 200
    return took_s


def kiss(**fields: object) -> dict[str, object]:
    batch = {"targetLanguage": "ja", "segments": [{"id": 1, "text": "a"}]} | fields
    return {"model": "dragoman", "messages": [{"role": "user", "content": json.dumps(batch)}]}


@pytest.mark.parametrize("route", [TRANSLATE, CHAT, GLOSSARIES], ids=lambda route: route.path)
def test_one_fault_of_a_malformed_body_is_reported_without_delay(server: Server, valid_s: float, route: Route) -> None:
    before = server.megabytes
    for shape, content_type, body in bodies(route, SIZE):
        status, answer, took_s, probe_s = server.send("POST", route.path, body, content_type, key=server.key)
        assert status in (400, 422), shape
        assert set(json.loads(answer)) == {"error"}, shape
        assert len(answer) < 2_000, shape
        assert max(took_s, probe_s) < 3 * valid_s, shape
    assert server.megabytes < before + MAX_GROWTH_MB


def test_memory_comes_back_after_long_names_of_models_and_languages(server: Server) -> None:
    def send(number: int) -> None:
        text = f"N{number}😀" + "x" * (SIZE - 100)
        padded = f"{number % 2 or ''}ja{' ' * (SIZE - 100)}"
        chat = {"model": f"dragoman/{text}", "messages": [{"role": "user", "content": "a"}]}
        for path, body in (
            ("/v1/chat/completions", chat),
            ("/v1/chat/completions", kiss(targetLanguage=text)),
            ("/v1/translate", {"text": "a", "target": padded}),
            ("/translate", {"q": "a", "source": "en", "target": padded}),
        ):
            status, answer, _, _ = server.post(path, body)
            assert (status, len(answer) < 2_000) == (400, True)

    send(0)
    before = server.megabytes
    for number in range(ROUNDS):
        send(number)
    assert server.megabytes < before + MAX_GROWTH_MB


def test_options_are_refused_before_work_is_done_with_them(server: Server, valid_s: float) -> None:
    native, tags = {"text": "a", "source": "en", "target": "ja"}, [f"t{number}" for number in range(100_000)]
    for body in (
        native | {"context": "word " * (SIZE // 6)},
        native | {"text": ["*a*"] * 3_000, "format": "markdown", "ignore_tags": tags},
    ):
        status, answer, took_s, probe_s = server.post("/v1/translate", body)
        assert (status, len(answer) < 2_000) == (400, True)
        assert max(took_s, probe_s) < 3 * valid_s
