"""Keys over HTTP: who may call what, what each key is limited to, what it has used; and what the server's network allows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.routing import Route

from dragoman.api.app import create_app, create_operator_app
from dragoman.api.input import base_url
from dragoman.errors import ConfigError
from dragoman.pipelines.fake import FakePipeline
from dragoman.service.service import TranslationService
from dragoman.service.stack import account_store
from dragoman.settings import AuthSettings, CacheSettings, ServerSettings, Settings
from dragoman.storage.database import Database
from dragoman.types import Account
from tests.serving import echoing, fake_service, keyed_service, served, service_over
from tests.waiting import until

TEXT = {"text": "Good morning.", "target": "ja", "source": "en"}
ACCOUNT = Account("", "alice")
OPEN_PATHS = {
    "/",
    "/engine",
    "/docs",
    "/openapi.json",
    "/healthz",
    "/readyz",
    "/languages",
    "/frontend/settings",
    "/spec",
    "/health",
    "/api/version",
}
"""What needs no key: the page without what it shows, the probes, and what clients of others' servers ask without one."""


@dataclass
class Keyed:
    """A server that needs keys, a client without one, and the keys that it was started with, by account name."""

    client: httpx.AsyncClient
    service: TranslationService
    database: Database
    keys: dict[str, str]

    async def post(self, key: str | None, body: dict[str, Any] = TEXT) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return await self.client.post("/v1/translate", json=body, headers=headers)

    async def create(self, limits: Account) -> str:
        _, key = await account_store(self.database).keys.create(limits)
        return key

    async def used(self, name: str) -> int:
        account = await self.service.accounts.authenticate(self.keys[name])
        return self.service.accounts.usage(account).characters


@asynccontextmanager
async def keyed(
    folder: Path,
    *accounts: Account,
    auth: AuthSettings | None = None,
    server: ServerSettings | None = None,
    step_s: float = 0.0,
) -> AsyncGenerator[Keyed]:
    settings = Settings(
        auth=auth or AuthSettings(mode="keys"), server=server or ServerSettings(), cache=CacheSettings(max_bytes=0)
    )
    service, database, keys = await keyed_service(folder, *accounts, settings=settings, step_s=step_s)
    async with served(service) as client:
        yield Keyed(client, service, database, keys)


async def test_without_a_key_nothing_is_translated_or_shown_that_is_not_public(tmp_path: Path) -> None:
    async with keyed(tmp_path, ACCOUNT) as server:
        app = create_app(server.service)
        for route in app.routes:
            if not isinstance(route, Route) or route.path in OPEN_PATHS:
                continue
            path = route.path
            for name in route.param_convertors:
                path = path.replace(f"{{{name}}}", "x")
            for method in sorted((route.methods or set()) - {"HEAD"}):
                body = {"text": ["x"], "target_lang": "DE"} if method == "POST" else None
                answer = await server.client.request(method, path, json=body)
                assert 400 <= answer.status_code < 500, (method, path, answer.status_code, answer.text)
                wrong = await server.client.request(method, path, json=body, headers={"Authorization": "Bearer drg_x"})
                assert 400 <= wrong.status_code < 500, (method, path, wrong.status_code, wrong.text)
        for path in OPEN_PATHS:
            assert (await server.client.get(path)).status_code == 200


async def test_a_missing_and_a_wrong_key_have_their_codes(tmp_path: Path) -> None:
    async with keyed(tmp_path, ACCOUNT) as server:
        for key, code in ((None, "unauthenticated"), (f"{server.keys['alice']}x", "invalid_key")):
            answer = await server.post(key)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, code)
            assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_new_revoked_and_rotated_keys_count_without_a_restart(tmp_path: Path) -> None:
    async with keyed(tmp_path, ACCOUNT, auth=AuthSettings(mode="keys", refresh_s=3600)) as server:
        keys = account_store(server.database).keys
        new = await server.create(Account("", "bob"))
        assert (await server.post(new)).status_code == 200  # looked up
        await keys.revoke("bob")
        await server.service.accounts.reload()
        assert (await server.post(new)).status_code == 401
        _, second = await keys.rotate("alice", overlap_s=3600)
        _, third = await keys.rotate("alice", overlap_s=3600)
        for key in (server.keys["alice"], second, third):
            assert (await server.post(key)).status_code == 200
        await keys.rotate("alice", overlap_s=0)
        await server.service.accounts.reload()
        assert [(await server.post(key)).status_code for key in (second, third)] == [401, 401]


@pytest.mark.parametrize(
    ("limits", "status", "code"),
    [
        (replace(ACCOUNT, characters_per_month=20), 403, "quota_exceeded"),
        (replace(ACCOUNT, requests_per_s=0.001), 429, "rate_limited"),
        (replace(ACCOUNT, languages=frozenset({"ko"})), 403, "forbidden"),
    ],
)
async def test_what_a_key_may_not_is_refused_with_its_code(
    tmp_path: Path, limits: Account, status: int, code: str
) -> None:
    async with keyed(tmp_path, limits) as server:
        first = await server.post(server.keys["alice"])
        assert first.status_code == (403 if code == "forbidden" else 200)
        answer = await server.post(server.keys["alice"])
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert ("Retry-After" in answer.headers) == (code == "rate_limited")
        streamed = await server.post(server.keys["alice"], {**TEXT, "stream": True})
        assert (streamed.status_code, streamed.json()["error"]["code"]) == (status, code)


async def test_requests_in_flight_count_against_the_quota(tmp_path: Path) -> None:
    async with keyed(tmp_path, replace(ACCOUNT, characters_per_month=13 * 5)) as server:
        answers = await asyncio.gather(*(server.post(server.keys["alice"]) for _ in range(12)))
        assert sorted(answer.status_code for answer in answers) == [200] * 5 + [403] * 7
        assert await server.used("alice") == 65


async def test_the_calls_of_a_bulk_key_are_bulk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with keyed(tmp_path, replace(ACCOUNT, priority="bulk")) as server:
        seen: list[str] = []
        permit = server.service.admission.permit

        def recorded(characters: int, priority: Any, account_id: str) -> Any:
            seen.append(priority)
            return permit(characters, priority, account_id)

        monkeypatch.setattr(server.service.admission, "permit", recorded)
        for priority in ("interactive", "bulk"):
            assert (await server.post(server.keys["alice"], {**TEXT, "priority": priority})).status_code == 200
        assert seen == ["bulk", "bulk"]


async def test_a_request_is_charged_once_with_what_it_had(tmp_path: Path) -> None:
    async with keyed(tmp_path, ACCOUNT) as server:
        headers = {"Authorization": f"Bearer {server.keys['alice']}"}
        await server.client.post("/v1/translate", json={**TEXT, "text": ["abc", "defgh"]}, headers=headers)
        assert await server.used("alice") == 8
        for _ in range(2):  # a client may give two requests one id
            await server.client.post("/v1/translate", json=TEXT, headers={**headers, "X-Request-ID": "one"})
        assert await server.used("alice") == 8 + 26
        await server.client.post("/v1/translate", json={**TEXT, "target": "tlh"}, headers=headers)  # refused
        assert await server.used("alice") == 8 + 26
        await server.client.post("/v1/translate", json={**TEXT, "stream": True}, headers=headers)
        assert await server.used("alice") == 8 + 39


async def test_a_client_that_gives_up_pays_once_with_its_retry(tmp_path: Path) -> None:
    async with keyed(tmp_path, ACCOUNT, step_s=0.3) as server:
        body = {"q": "Good morning.", "source": "en", "target": "ja", "api_key": server.keys["alice"]}
        with pytest.raises(httpx.ReadTimeout):
            await server.client.post("/translate", json=body, timeout=httpx.Timeout(60, read=0.02))
        await until(lambda: server.service.admission.calls == 0, "the work that went on after the disconnect")
        assert await server.used("alice") == 0
        assert (await server.client.post("/translate", json=body)).status_code == 200
        assert await server.used("alice") == 13


async def test_a_stream_that_is_broken_off_costs_the_texts_that_were_begun(tmp_path: Path) -> None:
    async with keyed(tmp_path, ACCOUNT, step_s=0.05) as server:
        headers = {"Authorization": f"Bearer {server.keys['alice']}"}
        long = "Good morning. " * 100
        body = {"text": [TEXT["text"], long], "target": "ja", "source": "en", "stream": True}
        async with server.client.stream("POST", "/v1/translate", json=body, headers=headers) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    break
        await until(lambda: server.service.admission.calls == 0, "the stream's end")
        assert await server.used("alice") in (13, len(long), 13 + len(long))


async def test_operators_endpoints_need_an_operators_key(tmp_path: Path) -> None:
    async with keyed(tmp_path, ACCOUNT, Account("", "op", role="operator")) as server:
        for method, path in (
            ("GET", "/metrics"),
            ("GET", "/v1/stats"),
            ("GET", "/v1/replicas"),
            ("POST", "/v1/reload"),
        ):
            statuses: list[int] = []
            for key in (None, server.keys["alice"], server.keys["op"]):
                headers = {"Authorization": f"Bearer {key}"} if key else {}
                statuses.append((await server.client.request(method, path, headers=headers)).status_code)
            assert statuses == [401, 403, 204 if method == "POST" else 200], path


async def test_the_operators_port_serves_them_without_a_key_and_nothing_else(tmp_path: Path) -> None:
    async with keyed(tmp_path, ACCOUNT) as server:
        transport = httpx.ASGITransport(create_operator_app(server.service))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for path in ("/metrics", "/v1/stats", "/v1/replicas", "/healthz", "/readyz"):
                assert (await client.get(path)).status_code == 200
            assert (await client.post("/v1/reload")).status_code == 204
            for path in ("/", "/v1/translate", "/v1/glossaries", "/v1/languages"):
                assert (await client.get(path)).status_code == 404


@pytest.mark.parametrize(
    ("auth", "server", "refuses"),
    [
        ("auto", ServerSettings(host="127.0.0.1"), False),
        ("auto", ServerSettings(host="::1"), False),
        ("auto", ServerSettings(host="0.0.0.0"), True),
        ("auto", ServerSettings(host="127.0.0.1", trusted_proxies="127.0.0.1"), True),
        ("keys", ServerSettings(host="127.0.0.1"), True),
        ("none", ServerSettings(host="0.0.0.0"), False),
    ],
)
async def test_a_server_that_needs_keys_does_not_start_without_one(
    tmp_path: Path, auth: Any, server: ServerSettings, refuses: bool
) -> None:
    settings = AuthSettings(mode=auth)
    if not refuses:
        async with keyed(tmp_path, auth=settings, server=server) as serving:
            assert (await serving.post(None)).status_code == 200
        return
    with pytest.raises(ConfigError, match="dragoman keys create"):
        async with keyed(tmp_path, auth=settings, server=server):
            pass
    async with keyed(tmp_path, ACCOUNT, auth=settings, server=server) as serving:
        assert (await serving.post(serving.keys["alice"])).status_code == 200


async def test_keys_without_a_database_are_refused() -> None:
    service = service_over(FakePipeline(echoing()), Settings(auth=AuthSettings(mode="keys")))
    with pytest.raises(ConfigError, match=r"storage\.url"):
        await service.start()


async def test_on_loopback_a_key_is_optional_and_a_valid_one_is_its_accounts(tmp_path: Path) -> None:
    async with keyed(tmp_path, ACCOUNT, auth=AuthSettings()) as server:
        for key in (None, "any-key-that-a-client-insists-on", server.keys["alice"]):
            assert (await server.post(key)).status_code == 200
        assert await server.used("alice") == 13


async def test_no_key_is_in_a_log_a_metric_or_an_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = "drg_wrong-but-secret"
    async with keyed(tmp_path, ACCOUNT, Account("", "op", role="operator")) as server:
        shown = ""
        for key in (server.keys["alice"], wrong):
            for headers, query in (
                ({"Authorization": f"Bearer {key}"}, ""),
                ({"Authorization": f"DeepL-Auth-Key {key}"}, ""),
                ({}, f"?api_key={key}&auth_key={key}&key={key}&token={key}"),
            ):
                for path in ("/v1/translate", "/v2/translate", "/translate", "/nowhere"):
                    answer = await server.client.post(path + query, json=TEXT, headers=headers)
                    shown += answer.text + str(answer.headers)
        operator = {"Authorization": f"Bearer {server.keys['op']}"}
        for path in ("/metrics", "/v1/stats"):
            shown += (await server.client.get(path, headers=operator)).text
    logged = [one for one in caplog.records if not one.name.startswith(("httpx", "httpcore"))]  # the test's client
    text = shown + "".join(f"{one.getMessage()} {vars(one)}" for one in logged)
    assert "dragoman_requests_total" in text
    for key in (*server.keys.values(), wrong):
        assert key not in text


# ---- the network


async def test_a_name_that_is_not_the_servers_is_refused_on_loopback() -> None:
    async with served(fake_service()) as client:
        for host, status in (
            ("localhost:8000", 200),
            ("app.localhost", 200),
            ("[::1]:8000", 200),
            ("127.0.0.1", 200),
            ("rebound.example.org", 421),
            ("127.0.0.1.example.org", 421),
        ):
            assert (await client.get("/v1/languages", headers={"Host": host})).status_code == status, host


async def test_allowed_hosts_replace_the_default() -> None:
    service = fake_service(server=ServerSettings(allowed_hosts="translate.example.org, *.example.com"))
    async with served(service) as client:
        for host, status in (
            ("translate.example.org", 200),
            ("a.b.example.com:443", 200),
            ("example.com", 421),
            ("127.0.0.1", 421),
        ):
            assert (await client.get("/healthz", headers={"Host": host})).status_code == status, host


async def test_web_pages_may_call_the_translation_apis_alone() -> None:
    asked = {"authorization", "content-type", "x-api-key", "x-goog-api-key", "x-request-timeout", "x-target-language"}
    preflights = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
    preflights["Access-Control-Request-Headers"] = ",".join(sorted(asked))
    async with served(fake_service()) as client:
        for path in (
            *("/v1/translate", "/v1/chat/completions", "/v1/responses", "/v2/translate", "/v3/languages", "/v2/usage"),
            *("/translate", "/language/translate/v2", "/deeplx/translate", "/immersive/translate", "/kiss/translate"),
        ):
            preflight = await client.options(path, headers=preflights)
            assert preflight.status_code == 200, path
            assert preflight.headers["Access-Control-Allow-Origin"] == "*"
            assert asked <= set(preflight.headers["Access-Control-Allow-Headers"].lower().replace(" ", "").split(","))
            assert preflight.headers["Access-Control-Max-Age"] == "1728000"
        answer = await client.post("/v1/translate", json=TEXT, headers={"Origin": "https://page.example"})
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        for path in ("/metrics", "/v1/stats", "/v1/reload", "/v1/glossaries", "/v2/glossaries", "/v1/memories", "/"):
            answer = await client.get(path, headers={"Origin": "https://page.example"})
            assert "Access-Control-Allow-Origin" not in answer.headers, path


@pytest.mark.parametrize(("origin", "is_allowed"), [("https://a.example", True), ("https://b.example", False)])
async def test_a_page_of_the_internet_may_ask_a_server_of_the_local_network(origin: str, is_allowed: bool) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Private-Network": "true"}
    async with served(fake_service(server=ServerSettings(cors_origins="https://a.example"))) as client:
        preflight = await client.options("/v1/translate", headers={"Origin": origin, **asked})
        assert (preflight.status_code == 200) == is_allowed
        assert (preflight.headers.get("Access-Control-Allow-Origin") == origin) == is_allowed
        if is_allowed:
            assert preflight.headers["Access-Control-Allow-Private-Network"] == "true"
        elsewhere = await client.options("/v1/stats", headers={"Origin": origin, **asked})
        assert "Access-Control-Allow-Private-Network" not in elsewhere.headers


async def test_forms_of_other_origins_change_nothing() -> None:
    async with served(fake_service()) as client:
        own = str(client.base_url)
        for path in ("/v1/reload", "/v1/glossaries", "/v2/glossaries", "/v1/memories/import?name=x"):
            for origin, refused in (("https://page.example", True), ("null", True), (own, False), (None, False)):
                answer = await client.post(path, data={"name": "x"}, headers={"Origin": origin} if origin else {})
                assert ("other origins" in answer.text) == refused, (path, origin)
                assert (answer.status_code == 403) == refused
        suggested = await client.post("/suggest", data={"q": "a"}, headers={"Origin": "https://page.example"})
        assert "other origins" in suggested.text
        answer = await client.post(
            "/translate", data={"q": "a", "source": "en", "target": "ja"}, headers={"Origin": "null"}
        )
        assert answer.status_code == 200


@pytest.mark.parametrize(("origins", "expected"), [("https://a.example", [True, False]), ("", [False, False])])
async def test_origins_can_be_chosen(origins: str, expected: list[bool]) -> None:
    async with served(fake_service(server=ServerSettings(cors_origins=origins))) as client:
        found: list[bool] = []
        for origin in ("https://a.example", "https://b.example"):
            answer = await client.get("/v1/languages", headers={"Origin": origin})
            found.append(answer.headers.get("Access-Control-Allow-Origin") == origin)
        assert found == expected


async def test_the_path_of_a_proxy_may_be_left_or_taken_off() -> None:
    async with served(fake_service(server=ServerSettings(root_path="/mt"))) as client:
        for prefix in ("", "/mt"):
            assert (await client.post(f"{prefix}/v1/translate", json=TEXT)).status_code == 200
            for path in ("/", "/docs", "/web/main.js", "/openapi.json"):
                assert (await client.get(f"{prefix}{path}")).status_code == 200, prefix + path
        assert (await client.get("/openapi.json")).json()["servers"] == [{"url": "/mt"}]


def test_links_have_the_path_of_a_proxy() -> None:
    app = create_app(fake_service(server=ServerSettings(root_path="/mt")))
    scope = {
        "type": "http",
        "app": app,
        "path": "/",
        "scheme": "https",
        "server": ("127.0.0.1", 8000),
        "query_string": b"",
    }
    assert base_url(Request({**scope, "headers": [(b"host", b"mt.example")]})) == "https://mt.example/mt"
