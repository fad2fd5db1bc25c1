from __future__ import annotations

import pytest
from aiohttp import web

from dragoman.errors import ConfigError
from dragoman_bench.bench.benchmark import check_server, check_url, is_local, resolve
from dragoman_bench.bench.client import open_session
from dragoman_bench.bench.targets import TargetOptions
from dragoman_bench.bench.workload import Item
from tests.bench.making import HELLO
from tests.bench.serving import Handler, hang, serving, translate


async def _check(handler: Handler, *items: Item, timeout_s: float = 30.0) -> None:
    async with serving({"/v1/translate": handler}) as url, open_session() as session:
        await check_server(session, url, TargetOptions(stream=True), items or (HELLO,), timeout_s)


def _answering(status: int, text: str = "{}") -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=text)

    return handler


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://host", "http://", "nonsense"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is not a URL"):
        check_url(url)


def test_a_url_loses_its_last_slash() -> None:
    assert check_url("http://host:8000/") == "http://host:8000"


def test_which_servers_share_this_machine() -> None:
    assert is_local("http://127.0.0.1:8000") and is_local("http://localhost") and is_local("http://[::1]:8000")
    assert not is_local("http://10.0.0.5:8000")


async def test_a_server_that_answers_passes() -> None:
    await _check(translate)


async def test_a_busy_server_passes() -> None:
    await _check(_answering(429))


async def test_every_item_is_tried_and_the_pair_that_fails_is_named() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if (await request.json())["target"] == "tlh":
            return web.json_response({"error": {"message": "tlh is not served"}}, status=400)
        return await translate(request)

    with pytest.raises(ConfigError, match=r"answered 400 to a text of the pair en-tlh: .*tlh is not served"):
        await _check(handler, HELLO, Item("Hello", "en", "tlh", 1))


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (_answering(404), r"is not there \(404\): is this a dragoman server\?"),
        (_answering(405), r"is not there \(405\)"),
        (_answering(401, "no key"), "answered 401 .*no key"),
        (_answering(503, "starting"), "answered 503 .*starting"),
        (_answering(200, "<html>"), "does not answer as a dragoman server"),
        (_answering(200, '{"translatedText": "x"}'), "does not answer as a dragoman server"),
    ],
)
async def test_why_a_server_does_not_pass_is_told(handler: Handler, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        await _check(handler)


async def test_a_server_that_hangs_is_told() -> None:
    with pytest.raises(ConfigError, match=r"did not answer within 0\.05 s"):
        await _check(hang, timeout_s=0.05)


async def test_nobody_there_is_told() -> None:
    async with open_session() as session:
        with pytest.raises(ConfigError, match=r"cannot reach http://127.0.0.1:9/v1/translate"):
            await check_server(session, "http://127.0.0.1:9", TargetOptions(), (HELLO,), 5)


async def test_the_model_of_an_openai_server_is_asked_for_unless_named() -> None:
    async def models(request: web.Request) -> web.StreamResponse:
        return web.json_response({"data": [{"id": "org/model"}]})

    async with serving({"/v1/models": models}) as url, open_session() as session:
        asked = await resolve(session, url, TargetOptions("openai-chat"))
        named = await resolve(session, "http://127.0.0.1:9", TargetOptions("openai-chat", model="other"))
        other = await resolve(session, "http://127.0.0.1:9", TargetOptions("deepl"))

    assert (asked.model, named.model, other.model) == ("org/model", "other", None)


@pytest.mark.parametrize("handler", [_answering(404), _answering(200, '{"data": []}'), _answering(200, "x")])
async def test_a_server_without_models_needs_one_named(handler: Handler) -> None:
    async with serving({"/v1/models": handler}) as url, open_session() as session:
        with pytest.raises(ConfigError, match=r"name (the model|it)"):
            await resolve(session, url, TargetOptions("openai-completions"))


@pytest.mark.parametrize(
    ("stats", "forced"),
    [
        ('{"settings": {"engine": {"load_format": "auto"}}}', False),
        ('{"settings": {"engine": {"load_format": "dummy"}}}', True),
        ("{}", True),
        ("nothing", True),
    ],
)
async def test_output_lengths_are_forced_unless_the_server_says_its_weights_are_real(stats: str, forced: bool) -> None:
    async with serving({"/v1/stats": _answering(200, stats)}) as url, open_session() as session:
        assert (await resolve(session, url, TargetOptions())).forced is forced
        assert (await resolve(session, url, TargetOptions(forced=True))).forced is True
