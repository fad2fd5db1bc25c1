"""`/mcp`: agents, with the official SDK's client and with plain requests, in the protocol's versions."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import docx
import httpx
import httpx2
import jsonschema
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import BlobResourceContents, CallToolResult, EmbeddedResource, ResourceLink, TextResourceContents

from dragoman.api.mcp import endpoint, server, tools
from dragoman.errors import InvalidRequest
from dragoman.service.service import TranslationService
from dragoman.settings import AuthSettings, CacheSettings, DocumentSettings, ServerSettings, Settings
from dragoman.storage.database import Database
from dragoman.types import Account, EngineSequence
from tests.agents import MODES, PRESENT, agent
from tests.api.test_request_log import Lines
from tests.hostile import Route, bodies
from tests.serving import HeldPipeline, echoing, fake_service, keyed_service, served, service_over, source_of
from tests.waiting import HANG_S, until

TEXT = {"text": "Good morning.", "source": "en", "target": "ja"}
ACCOUNTS = (
    Account("", "good"),
    Account("", "other"),
    Account("", "used up", characters_per_month=10),
    Account("", "fast", requests_per_s=0.001),
    Account("", "korean", languages=frozenset({"ko"})),
)


@dataclass(frozen=True)
class Shared:
    """A server with a database, which needs keys."""

    http: httpx.AsyncClient
    service: TranslationService
    keys: dict[str, str]

    def agent(self, name: str = "good", mode: str = PRESENT, **headers: str) -> Any:
        return agent(self.http, self.keys[name], mode, **headers)


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shared]:
    folder = tmp_path_factory.mktemp("mcp")
    settings = Settings(
        server=ServerSettings(max_body_bytes=400_000),
        auth=AuthSettings(mode="keys"),
        cache=CacheSettings(max_bytes=0),
        documents=DocumentSettings(folder=str(folder / "files")),
    )
    service, _, keys = await keyed_service(folder, *ACCOUNTS, settings=settings)
    async with served(service) as http:
        yield Shared(http, service, keys)


def error_of(result: CallToolResult) -> dict[str, Any]:
    assert result.is_error
    return json.loads(result.content[0].text)["error"]  # type: ignore[union-attr]


# ---- plain requests

ACCEPT = {"Accept": "application/json, text/event-stream"}


def message(method: str, params: dict[str, Any] | None = None, id: int | None = 1) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "method": method,
        **({} if id is None else {"id": id}),
        **({"params": params} if params else {}),
    }


async def post(http: httpx.AsyncClient, body: dict[str, Any], **headers: str) -> httpx.Response:
    return await http.post("/mcp", json=body, headers={**ACCEPT, **headers})


def answered(response: httpx.Response) -> dict[str, Any]:
    """The message of an event stream."""
    assert response.status_code == 200, response.text
    [data] = [line for line in response.text.splitlines() if line.startswith("data: ")]
    return json.loads(data.removeprefix("data: "))


def initialize(version: str) -> dict[str, Any]:
    return message(
        "initialize",
        {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
    )


# ---- tools


@pytest.mark.parametrize("mode", MODES)
async def test_a_translation_is_that_of_the_native_api(shared: Shared, mode: str) -> None:
    body = {"text": ["Good morning.", "<b>Pay</b> now?"], "target": "ja", "format": "html", "formality": "more"}
    async with shared.agent(mode=mode) as client:
        result = await client.call_tool("translate", {**body, "glossary": None})
    native = await shared.http.post("/v1/translate", json=body, headers={"X-API-Key": shared.keys["good"]})
    assert not result.is_error
    assert result.structured_content == native.json()
    assert json.loads(result.content[0].text) == native.json()
    assert "formality_ignored" in [one["code"] for one in result.structured_content["translations"][0]["warnings"]]


async def test_answers_fit_the_schemas_of_their_tools(shared: Shared) -> None:
    key = {"X-API-Key": shared.keys["good"]}
    await shared.http.post("/v1/glossaries", json={"name": "terms"}, headers=key)
    calls: dict[str, dict[str, Any]] = {
        "translate": TEXT,
        "detect_language": {"text": ["Good morning.", "도서관은 어디에 있나요?", "12"]},
        "list_languages": {},
        "list_glossaries": {},
        "translate_document": {"file_name": "a.md", "text": "# Hello there.", "target": "ja"},
    }
    async with shared.agent() as client:
        listed = {one.name: one for one in (await client.list_tools()).tools}
        answers = {name: (await client.call_tool(name, calls[name])).structured_content for name in calls}
        document = answers["translate_document"]["document"]
        answers["get_document"] = (
            await client.call_tool("get_document", {"document_id": document["id"]})
        ).structured_content
    assert listed.keys() == answers.keys()
    for name, tool in listed.items():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        jsonschema.validate(calls.get(name, {"document_id": document["id"]}), tool.input_schema)
        jsonschema.validate(answers[name], tool.output_schema)
        assert tool.description and tool.annotations.read_only_hint is (name != "translate_document")
        assert all(one["description"] for one in tool.input_schema["properties"].values()), name
    assert listed["translate"].input_schema["required"] == ["text", "target"]
    assert {"type": "null"} not in listed["translate"].input_schema["properties"]["glossary"]["anyOf"]
    assert [one["language"] for one in answers["detect_language"]["detections"]] == ["en", "ko", None]
    assert [one["code"] for one in answers["list_languages"]["languages"]] == [*shared.service.model.profile.languages]
    assert "terms" in [one["name"] for one in answers["list_glossaries"]["glossaries"]]


async def test_a_stored_glossary_is_named_as_it_is_listed(shared: Shared) -> None:
    entries = {"source": "en", "target": "ja", "entries": {"morning": "ASA"}}
    body = {"name": "mornings", "dictionaries": [entries]}
    await shared.http.post("/v1/glossaries", json=body, headers={"X-API-Key": shared.keys["good"]})
    async with shared.agent() as client:
        found = (await client.call_tool("translate", {**TEXT, "glossary": "mornings"})).structured_content
        unknown = await client.call_tool("translate", {**TEXT, "glossary": "evenings"})
    assert "ASA" in found["translations"][0]["text"]
    assert error_of(unknown)["code"] == "unknown_glossary"


async def test_a_server_without_documents_has_no_tool_for_them() -> None:
    async with served(fake_service()) as http, agent(http) as client:
        names = {one.name for one in (await client.list_tools()).tools}
        assert names == {"translate", "detect_language", "list_languages", "list_glossaries"}
        with pytest.raises(MCPError):
            await client.call_tool("translate_document", {"file_name": "a.md", "text": "Hello.", "target": "ja"})


@pytest.mark.parametrize(
    ("name", "tool", "arguments", "code", "param"),
    [
        ("good", "translate", {**TEXT, "target": "tlh"}, "unsupported_language", "target"),
        ("good", "translate", {"text": "Hello."}, "invalid_request", "target"),
        ("good", "translate", {**TEXT, "stream": True}, "invalid_request", "stream"),
        ("good", "translate", {**TEXT, "text": ["Hello.", 1]}, "invalid_request", "text"),
        ("good", "translate", {**TEXT, "text": ["Hello.", ""]}, "empty_text", "text.1"),
        ("good", "translate", {**TEXT, "text": ["a"] * (tools.MAX_TEXTS + 1)}, "too_many_texts", "text"),
        ("good", "translate", {**TEXT, "text": "a" * (tools.MAX_CHARACTERS + 1)}, "body_too_large", "text"),
        ("good", "translate", {**TEXT, "instructions": ["a" * 1000]}, "invalid_request", "instructions"),
        ("good", "translate", {**TEXT, "glossary": "terms", "source": None}, "invalid_request", "source"),
        ("good", "detect_language", {"text": []}, "empty_text", "text"),
        ("good", "list_languages", {"all": True}, "invalid_request", "all"),
        ("good", "translate_document", {"file_name": "a.md", "target": "ja"}, "invalid_request", "text"),
        (
            "good",
            "translate_document",
            {"file_name": "a.md", "target": "ja", "content_base64": "a?b"},
            "invalid_request",
            "content_base64",
        ),
        ("good", "translate_document", {"file_name": "a.exe", "target": "ja", "text": "a"}, "unsupported_file", "file"),
        ("good", "get_document", {"document_id": "../../etc"}, "unknown_document", None),
        ("used up", "translate", TEXT, "quota_exceeded", None),
        ("korean", "translate", TEXT, "forbidden", "target"),
    ],
)
async def test_what_is_refused_is_an_error_that_the_model_can_read(
    shared: Shared, name: str, tool: str, arguments: dict[str, Any], code: str, param: str | None
) -> None:
    async with shared.agent(name) as client:
        error = error_of(await client.call_tool(tool, arguments))
    assert (error["code"], error.get("param")) == (code, param)
    assert error["message"]


def test_the_first_unknown_argument_is_the_fault_before_any_other_is_looked_at() -> None:
    """Of 60,000 each was made an error of its own."""
    for model in (tools.DetectArguments, tools.NoArguments, tools.DocumentArguments, tools.GetDocumentArguments):
        with pytest.raises(InvalidRequest, match="unknown field k0") as raised:
            tools._parsed(model, {f"k{number}": 1 for number in range(1_000)})
        assert raised.value.__context__ is None


async def test_a_refusal_for_now_says_how_long_to_wait(shared: Shared) -> None:
    async with shared.agent("fast") as client:
        await client.call_tool("translate", TEXT)
        error = error_of(await client.call_tool("translate", TEXT))
    assert error["code"] == "rate_limited"
    assert 0 < error["retry_after_s"] <= 1001


async def test_calls_are_counted_as_those_of_other_apis(shared: Shared) -> None:
    async def used() -> int:
        return shared.service.accounts.usage(account).characters

    account = await shared.service.accounts.authenticate(shared.keys["other"])
    before = await used()
    async with shared.agent("other") as client:
        await client.call_tool("translate", TEXT)
    assert await used() - before == len(TEXT["text"])
    assert 'api="mcp"' in (await shared.service.exposition()).decode()


# ---- keys, limits, origins


@pytest.mark.parametrize(
    "header", ["Authorization: Bearer", "Authorization: DeepL-Auth-Key", "X-API-Key:", "X-Goog-Api-Key:"]
)
async def test_a_key_in_each_header(shared: Shared, header: str) -> None:
    name, _, scheme = header.partition(":")
    value = f"{scheme.strip()} {shared.keys['good']}".strip()
    assert "result" in answered(await post(shared.http, message("tools/list"), **{name: value}))


async def test_without_a_valid_key_there_is_a_401_that_clients_show(shared: Shared) -> None:
    for headers in ({}, {"Authorization": "Bearer drg_wrong"}):
        refused = await post(shared.http, initialize("2025-06-18"), **headers)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert refused.json()["error"]["data"]["code"] == ("invalid_key" if headers else "unauthenticated")
    for mode in ("legacy", "auto"):
        with pytest.raises((MCPError, BaseExceptionGroup)) as refusal:
            async with agent(shared.http, "drg_wrong", mode):
                raise AssertionError("connected")
        assert "key" in str(refusal.value if isinstance(refusal.value, MCPError) else refusal.value.exceptions)


async def test_other_origins_other_hosts_and_other_methods_are_refused(shared: Shared) -> None:
    key = {"X-API-Key": shared.keys["good"]}
    own = str(shared.http.base_url).rstrip("/")
    for origin, status in (("https://page.example", 403), ("null", 403), (own, 200)):
        answer = await post(shared.http, message("tools/list"), Origin=origin, **key)
        assert answer.status_code == status, origin
        assert "access-control-allow-origin" not in answer.headers
    assert (await post(shared.http, message("tools/list"), Host="page.example", **key)).status_code == 421
    for method in ("GET", "DELETE"):
        answer = await shared.http.request(method, "/mcp", headers={**ACCEPT, **key})
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (b'"\\ud800"', 400, "untranslatable_text"),
        (b"[" * 100_000, 400, "invalid_json"),
        (b"[" + b"1," * 180_000 + b"1]", 422, "invalid_request"),
        (json.dumps([message("tools/list")]).encode(), 422, "invalid_request"),
        (json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}).encode(), 422, "invalid_request"),
        (json.dumps(message("a" * 201)).encode(), 422, "invalid_request"),
        (b" " * 400_001, 413, "body_too_large"),
    ],
)
async def test_bodies_have_bounds(shared: Shared, body: bytes, status: int, code: str) -> None:
    headers = {**ACCEPT, "Content-Type": "application/json", "X-API-Key": shared.keys["good"]}
    answer = await shared.http.post("/mcp", content=body, headers=headers)
    assert answer.status_code == status, answer.text[:200]
    assert answer.json()["error"]["data"]["code"] == code


CALL = Route("POST", "/mcp", "params", "method", {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}, forms=False)


async def test_every_malformed_body_has_a_short_answer(shared: Shared) -> None:
    for shape, content_type, body in bodies(CALL, 390_000):
        for headers in ({"X-API-Key": shared.keys["good"]}, {}):
            answer = await shared.http.post(
                "/mcp", content=body, headers={**ACCEPT, "Content-Type": content_type, **headers}
            )
            assert answer.status_code in ((400, 422, 200) if headers else (401,)), f"{shape}: {answer.text[:200]}"
            assert len(answer.content) < 2_000, shape
            assert answer.status_code != 200 or "error" in answered(answer), shape


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_versions_with_a_handshake(shared: Shared, version: str) -> None:
    key = {"X-API-Key": shared.keys["good"]}
    first = await post(shared.http, initialize(version), **key)
    assert answered(first)["result"]["protocolVersion"] == version
    assert answered(first)["result"]["instructions"]
    assert answered(first)["result"]["capabilities"].keys() == {"tools"}
    headers = {**key, "Mcp-Session-Id": first.headers["mcp-session-id"], "MCP-Protocol-Version": version}
    assert (await post(shared.http, message("notifications/initialized", id=None), **headers)).status_code == 202
    result = answered(
        await post(shared.http, message("tools/call", {"name": "translate", "arguments": TEXT}), **headers)
    )
    content = json.loads(result["result"]["content"][0]["text"])
    assert content["translations"][0]["text"] == "~Good morning."


async def test_a_request_of_the_present_version_needs_no_handshake(shared: Shared) -> None:
    async with shared.agent(mode="auto") as client:
        assert client.protocol_version == PRESENT
        assert client.server_capabilities.tools is not None
        assert (client.server_capabilities.prompts, client.server_capabilities.resources) == (None, None)


async def test_off_by_a_setting_and_without_the_extra(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(fake_service(server=ServerSettings(mcp=False))) as http:
        assert (await post(http, message("tools/list"))).status_code == 404
    monkeypatch.setattr(endpoint, "missing_packages", lambda extra: [extra])
    with caplog.at_level(logging.INFO, "dragoman.api"):
        async with served(fake_service()) as http:
            assert (await post(http, message("tools/list"))).status_code == 404
            assert (await http.post("/v1/translate", json=TEXT)).status_code == 200
    assert any("dragoman[mcp]" in record.getMessage() for record in caplog.records)


# ---- deadlines, cancellation, the log


@pytest.mark.parametrize("mode", MODES)
async def test_deadlines(mode: str) -> None:
    pipeline = HeldPipeline(echoing())
    async with served(service_over(pipeline)) as http:
        pipeline.hold()
        async with agent(http, mode=mode) as client:
            assert (
                error_of(await client.call_tool("translate", {**TEXT, "deadline_s": 0.05}))["code"]
                == "deadline_exceeded"
            )
        async with agent(http, mode=mode, **{"X-Request-Timeout": "0.2"}) as client:
            assert error_of(await client.call_tool("translate", TEXT))["code"] == "deadline_exceeded"
        pipeline.release.set()


@pytest.fixture
def lines() -> Iterator[Lines]:
    logger = logging.getLogger("dragoman.request")
    handler, level = Lines(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.mark.parametrize("mode", MODES)
async def test_the_work_of_a_client_that_leaves_stops(mode: str, lines: Lines) -> None:
    pipeline = HeldPipeline(echoing())
    service = service_over(pipeline)
    async with served(service) as http:
        pipeline.hold()
        async with agent(http, mode=mode) as client:
            call = asyncio.create_task(client.call_tool("translate", TEXT))
            await until(lambda: service.admission.calls == 1, "a call")
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await until(lambda: service.admission.calls == 0 and pipeline.stats().running == 0, "its end")
        await until(lambda: any(line["outcome"] == "cancelled" for line in lines.fields), "its line in the log")
        pipeline.release.set()


async def test_a_connection_that_closes_ends_the_work_in_each_version(lines: Lines) -> None:
    pipeline = HeldPipeline(echoing())
    service = service_over(pipeline)
    body = message("tools/call", {"name": "translate", "arguments": TEXT})
    meta = {"io.modelcontextprotocol/protocolVersion": PRESENT, "io.modelcontextprotocol/clientCapabilities": {}}
    modern = message("tools/call", {"name": "translate", "arguments": TEXT, "_meta": meta})
    versions = (
        (modern, {"MCP-Protocol-Version": PRESENT, "Mcp-Method": "tools/call", "Mcp-Name": "translate"}),
        (body, {"MCP-Protocol-Version": "2025-06-18"}),
        (body, {}),
    )
    async with served(service) as http:
        for sent, headers in versions:
            pipeline.hold()
            call = asyncio.create_task(post(http, sent, **headers))
            await until(lambda: service.admission.calls == 1, "a call")
            call.cancel()
            await until(lambda: service.admission.calls == 0 and pipeline.stats().running == 0, "its end")
        pipeline.release.set()
    assert [line["outcome"] for line in lines.fields] == ["cancelled"] * len(versions)
    assert {line["path"] for line in lines.fields} == {"/mcp"}


async def test_a_cancellation_ends_the_call_of_its_own_session_alone() -> None:
    pipeline = HeldPipeline(echoing())
    service = service_over(pipeline)
    async with served(service) as http:
        sessions = [(await post(http, initialize("2025-06-18"))).headers["mcp-session-id"] for _ in range(2)]
        pipeline.hold()
        body = message("tools/call", {"name": "translate", "arguments": TEXT}, 7)
        calls = [asyncio.create_task(post(http, body, **{"Mcp-Session-Id": one})) for one in (*sessions, "")]
        await until(lambda: service.admission.calls == 3, "calls")
        for wrong in (
            message("notifications/cancelled", {"requestId": 8}, None),
            message("notifications/cancelled", id=None),
        ):
            assert (await post(http, wrong, **{"Mcp-Session-Id": sessions[0]})).status_code == 202
        assert (await post(http, message("notifications/cancelled", {"requestId": 7}, None))).status_code == 202
        assert service.admission.calls == 3
        cancelled = message("notifications/cancelled", {"requestId": 7}, None)
        assert (await post(http, cancelled, **{"Mcp-Session-Id": sessions[0]})).status_code == 202
        await until(lambda: service.admission.calls == 2, "the end of one call")
        assert answered(await calls[0])["error"]["code"] == -32800
        pipeline.release.set()
        for call in calls[1:]:
            assert not answered(await call)["result"].get("isError")


async def test_a_request_has_one_line_with_its_id_and_the_error_of_its_tool(lines: Lines) -> None:
    async with served(fake_service()) as http:
        body = message("tools/call", {"name": "translate", "arguments": {**TEXT, "target": "tlh"}})
        answer = await post(http, body, **{"X-Request-ID": "mine-1"})
        assert answer.headers["x-request-id"] == "mine-1"
        assert answered(answer)["result"]["isError"]
    [line] = lines.fields
    assert (line["request_id"], line["path"], line["outcome"]) == ("mine-1", "/mcp", "unsupported_language")


@pytest.mark.parametrize("mode", MODES)
async def test_progress_is_reported_to_a_client_that_asks_for_it(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PROGRESS_S", 0.01)
    seen: list[tuple[float, float | None]] = []
    ran: list[str] = []
    is_told = asyncio.Event()

    async def report(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total))
        is_told.set()

    def answer(sequence: EngineSequence) -> str:
        """After the second text, whichever that is, the one that follows waits."""
        ran.append(source_of(sequence))
        if len(ran) == 2:
            pipeline.hold()
        return ran[-1]

    pipeline = HeldPipeline(answer, slots=1)
    async with served(service_over(pipeline)) as http, agent(http, mode=mode) as client:
        texts = ["One book.", "Two books.", "Three books."]
        call = asyncio.create_task(client.call_tool("translate", {**TEXT, "text": texts}, progress_callback=report))
        told = asyncio.create_task(is_told.wait())
        await asyncio.wait((told, call), timeout=HANG_S, return_when=asyncio.FIRST_COMPLETED)
        assert (told.done(), call.done()) == (True, False)
        pipeline.release.set()
        assert len((await call).structured_content["translations"]) == len(texts)
    assert {total for _, total in seen} == {3.0}
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


# ---- documents


def written(*paragraphs: str) -> str:
    document, data = docx.Document(), io.BytesIO()
    for paragraph in paragraphs:
        document.add_paragraph(paragraph)
    document.save(data)
    return base64.b64encode(data.getvalue()).decode()


async def test_a_small_text_file_comes_back_as_text_with_what_to_doubt(shared: Shared) -> None:
    text = "# Can I *pay* now?\n\nI saw the old map in the library.\n"
    async with shared.agent() as client:
        answer = await client.call_tool(
            "translate_document", {"file_name": "a.md", "text": text, "source": "en", "target": "ja"}
        )
    resource = answer.content[1]
    assert isinstance(resource, EmbeddedResource) and isinstance(resource.resource, TextResourceContents)
    assert resource.resource.text == "# \\~Can I *pay* now?\n\n\\~I saw the old map in the library.\n"
    result, document = answer.structured_content["result"], answer.structured_content["document"]
    assert (result["name"], result["media_type"], result["is_inline"]) == ("a.md", "text/markdown", True)
    assert (document["state"], document["doubtful"]) == ("done", 1)
    [doubtful] = answer.structured_content["doubtful"]
    assert [one["code"] for one in doubtful["warnings"]] == ["source_copied"]
    downloaded = await shared.http.get(result["url"], headers={"X-API-Key": shared.keys["good"]})
    assert downloaded.text == resource.resource.text
    async with shared.agent("other") as client:
        refused = await client.call_tool("get_document", {"document_id": document["id"]})
    assert error_of(refused)["code"] == "unknown_document"


async def test_a_binary_file_comes_back_as_such_or_as_a_link(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = {"file_name": "a.docx", "content_base64": written("The old map."), "target": "ja"}
    async with shared.agent(mode="legacy") as client:
        small = await client.call_tool("translate_document", arguments)
        asked = {"document_id": small.structured_content["document"]["id"]}
        monkeypatch.setattr(tools, "MAX_INLINE_BYTES", 10)
        large = await client.call_tool("get_document", asked)
    resource = small.content[1]
    assert isinstance(resource, EmbeddedResource) and isinstance(resource.resource, BlobResourceContents)
    content = base64.b64decode(resource.resource.blob)
    assert [one.text for one in docx.Document(io.BytesIO(content)).paragraphs] == ["~The old map."]
    link, result = large.content[1], large.structured_content["result"]
    assert isinstance(link, ResourceLink)
    assert (link.uri, link.size, result["is_inline"]) == (result["url"], len(content), False)
    assert (await shared.http.get(link.uri, headers={"X-API-Key": shared.keys["good"]})).content == content


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[tuple[httpx.AsyncClient, TranslationService, HeldPipeline]]:
    """A server with documents, of which none ends."""
    pipeline = HeldPipeline(echoing())
    settings = replace(Settings(), documents=DocumentSettings(folder=str(tmp_path / "files")))
    database = Database(f"sqlite:///{tmp_path}/dragoman.db")
    service = service_over(pipeline, replace(settings, cache=CacheSettings(max_bytes=0)), database=database)
    async with served(service) as http:
        pipeline.hold()
        yield http, service, pipeline
        pipeline.release.set()


DOCUMENT = {"file_name": "a.txt", "text": "Good morning.", "source": "en", "target": "ja"}


async def test_a_document_that_takes_long_is_fetched_later(
    held: tuple[httpx.AsyncClient, TranslationService, HeldPipeline],
) -> None:
    http, service, pipeline = held
    async with agent(http) as client:
        answer = (await client.call_tool("translate_document", {**DOCUMENT, "wait_s": 0.05})).structured_content
        assert (answer["document"]["state"] in ("queued", "translating"), answer["result"]) == (True, None)
        asked = {"document_id": answer["document"]["id"]}
        assert (await client.call_tool("get_document", asked)).structured_content["result"] is None
        pipeline.release.set()
        found = await client.call_tool("get_document", {**asked, "wait_s": 60})
        assert found.structured_content["document"]["state"] == "done"
        assert found.content[1].resource.text == "~Good morning."
    async with agent(http, **{"X-Request-Timeout": "0.05"}) as client:
        pipeline.hold()
        late = (await client.call_tool("translate_document", {**DOCUMENT, "wait_s": 60})).structured_content
        assert late["result"] is None
    async with agent(http) as client:
        call = asyncio.create_task(client.call_tool("translate_document", {**DOCUMENT, "wait_s": 600}))
        await until(lambda: pipeline.stats().running == 2, "both documents")
        await service.documents.stop()  # the server drains: another one goes on with them
        assert (await call).structured_content["document"]["state"] in ("queued", "translating")


async def test_a_client_that_leaves_takes_its_document_along(
    held: tuple[httpx.AsyncClient, TranslationService, HeldPipeline],
) -> None:
    http, _, pipeline = held

    async def known() -> list[Any]:
        return (await http.get("/v1/documents")).json()["documents"]

    async with agent(http, mode="legacy") as client:
        call = asyncio.create_task(client.call_tool("translate_document", DOCUMENT))
        await until(lambda: pipeline.stats().running == 1, "a document that runs")
        assert len(await known()) == 1
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await until(lambda: pipeline.stats().running == 0, "its end")
        async with asyncio.timeout(HANG_S):
            while await known():
                pass


# ---- replicas


@pytest.mark.parametrize("mode", MODES)
async def test_each_of_two_servers_answers_any_message(mode: str) -> None:
    async with served(fake_service()) as first, served(fake_service()) as second:
        servers = [str(http.base_url).rstrip("/") for http in (first, second)]
        asked: list[str] = []

        async def alternate(request: httpx2.Request) -> None:
            """As a proxy that sends each request to the other server."""
            asked.append(servers[len(asked) % 2])
            request.url = httpx2.URL(f"{asked[-1]}/mcp")
            request.headers["Host"] = request.url.netloc.decode()

        async with httpx2.AsyncClient(verify=False, event_hooks={"request": [alternate]}) as transport:
            url = f"{servers[0]}/mcp"
            async with Client(streamable_http_client(url, http_client=transport), mode=mode, cache=None) as client:
                for _ in range(4):
                    found = (await client.call_tool("translate", TEXT)).structured_content
                    assert found["translations"][0]["text"] == "~Good morning."
                    assert (await client.list_tools()).tools
        assert set(asked) == set(servers)
