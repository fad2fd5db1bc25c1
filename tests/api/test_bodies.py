"""Bodies of every route: their bounds, the one fault that is reported, and when they are read."""

from __future__ import annotations

import asyncio
import gc
import json
import random
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any
from urllib.parse import unquote_to_bytes, urlencode

import httpx
import pytest
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException

from dragoman.api import forms, glossaries
from dragoman.api.app import create_app
from dragoman.api.forms import parse_form
from dragoman.api.input import MAX_KEYLESS_BODIES, SMALL_BYTES, KeyFirstRoute, parse_json
from dragoman.errors import DragomanError, InvalidJson, InvalidRequest, TooManyValues, UntranslatableText
from dragoman.types import Account
from tests.hostile import FORM, ROUTES, Route, path_of
from tests.hostile import bodies as hostile_bodies
from tests.openapi import FILES, description
from tests.serving import fake_service, keyed_service, served
from tests.waiting import HANG_S

SIZE = 400_000
"""Bytes: each shape has more values than a body may have."""


@pytest.fixture(scope="module")
async def key() -> list[str]:
    return []


@pytest.fixture(scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory, key: list[str]) -> AsyncIterator[httpx.AsyncClient]:
    """Of a server that needs keys."""
    service, _, keys = await keyed_service(tmp_path_factory.mktemp("database"), Account("", "k"))
    key.append(keys["k"])
    async with served(service) as client:
        yield client


def routes() -> Iterator[APIRoute]:
    """All but that of agents, which `test_mcp.py` has."""
    for route in create_app(fake_service()).routes:
        if isinstance(route, APIRoute) and route.path != "/mcp":
            yield route


def test_the_hostile_bodies_are_sent_to_every_route_that_takes_one() -> None:
    sent = {(route.method, path_of(route)) for route in ROUTES}
    known = {
        (method, route.path)
        for route in routes()
        for method in route.methods
        if method not in ("GET", "HEAD", "DELETE")
    }
    without_body = {("POST", "/languages"), ("POST", "/v1/reload")}
    # Files, which a process of its own reads.
    without_body |= {("POST", "/v1/memories/import"), ("POST", "/v1/documents/{id}/xliff")}
    not_offered = {(method, path) for method, path in known if path.startswith(("/v2/", "/v3/"))} - sent
    files = {"/v3/translation_memories/upload", "/v3/translation_memories/{translation_memory_id}/export"}
    of_api = ("glossar", "translat")
    assert {path for _, path in not_offered if any(one in path for one in of_api)} == files
    assert known - without_body - not_offered == sent


def test_models_of_bodies_report_one_fault_and_are_validated_after_the_key() -> None:
    with_model = [route for route in routes() if route.body_field is not None]
    assert with_model
    assert all(isinstance(route, KeyFirstRoute) for route in with_model)
    models = [route.body_field.field_info.annotation for route in with_model if route.body_field]
    for model in (*models, glossaries.GlossaryBody, glossaries.EntriesBody):
        assert isinstance(model, type)
        assert issubclass(model, BaseModel)
        for name in model.model_fields:
            for value in ([1] * 1000, [{}] * 1000, {f"k{number}": 1 for number in range(1000)}):
                assert faults(model, {name: value}) <= 10 + len(model.model_fields)


def faults(model: type[BaseModel], value: Any) -> int:
    try:
        TypeAdapter(model).validate_python(value)
    except ValidationError as error:
        return error.error_count()
    return 0


async def test_the_first_unknown_field_is_the_fault_of_a_body(client: httpx.AsyncClient, key: list[str]) -> None:
    """Whatever else is wrong: what is after it is not validated."""
    body = {"target": "ja", "zzz": 1, "text": 3} | {f"k{number}": 1 for number in range(1000)}
    answer = await client.post("/v1/translate", json=body, headers={"X-API-Key": key[0]})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (422, "invalid_request", "zzz")
    glossary = {"name": "x", "dictionaries": [{"source": "en", "target": "ja", "entries": {}, "str": 1}]}
    answer = await client.post("/v1/glossaries", json=glossary, headers={"X-API-Key": key[0]})
    assert (answer.status_code, answer.json()["error"]["param"]) == (422, "dictionaries.0.str")


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_every_malformed_body_has_a_short_answer(client: httpx.AsyncClient, key: list[str], route: Route) -> None:
    for shape, content_type, body in hostile_bodies(route, SIZE):
        for headers in ({"X-API-Key": key[0]}, {}):
            answer = await client.request(
                route.method, route.path, content=body, headers={"Content-Type": content_type, **headers}
            )
            answer_of = f"{shape}: {answer.status_code} {answer.text[:200]}"
            assert answer.status_code < 500, answer_of
            assert len(answer.content) < 2_000 or answer.status_code == 200, answer_of
            if not headers:
                assert 400 <= answer.status_code <= 422, answer_of


NUMBERS = ("1e999", "-1e999", "NaN", "Infinity", "-Infinity", "9" * 5000, "-1", "0.5", "1e-999")
STRINGS = ('"\\ud800"', '"\\udfff x"', '"\\u0000"', '""', f'"{" " * 5000}"', f'"{"9" * 5000}"')
OTHERS = ("null", "true", "[]", "{}", "[[]]", '{"\\ud800":1}', "[1e999]", '["\\ud800"]')


def fields_of(schema: dict[str, Any], schemas: dict[str, dict[str, Any]]) -> set[str]:
    """The names of the properties that a body may have."""
    if reference := schema.get("$ref"):
        schema = schemas[reference.rpartition("/")[2]]
    alternatives = [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]
    return set(schema.get("properties", ())).union(*(fields_of(one, schemas) for one in alternatives))


@cache
def own_description() -> dict[str, Any]:
    """The server's own, which takes a second to make."""
    return create_app(fake_service()).openapi()


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_no_value_of_a_field_is_a_fault_of_the_server(
    client: httpx.AsyncClient, key: list[str], route: Route
) -> None:
    apis = ["microsoft"] if "api-version" in route.path else [api for api in FILES if api != "microsoft"]
    described = (own_description(), *map(description, apis))
    found = [
        (operations[path_of(route)].get(route.method.lower(), {}), one["components"]["schemas"])
        for one in described
        if path_of(route) in (operations := one["paths"])
    ]
    operation, schemas = max(found, key=lambda one: bool(one[0]))  # another file may have another method of the path
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    fields = fields_of(schema, schemas)
    for field in sorted({*fields, route.text, route.short, "unknown"}):
        given = {route.text: "a", **route.rest}
        given.pop(field, None)
        start = json.dumps(given)[:-1] + ("," if given else "")
        for value in (*NUMBERS, *STRINGS, *OTHERS):
            if (field, value) == ("stream", "true"):
                continue  # no JSON
            body = f'{start}"{field}":{value}}}'.encode()
            headers = {"X-API-Key": key[0], "Content-Type": "application/json"}
            answer = await client.request(route.method, route.path, content=body, headers=headers)
            assert answer.status_code < 500, (body[:100], answer.text)
            for line in answer.content.splitlines():  # of an answer that is streamed as lines, several
                json.loads(line, parse_constant=pytest.fail)


async def test_options_have_limits(client: httpx.AsyncClient, key: list[str]) -> None:
    headers = {"X-API-Key": key[0]}
    native: dict[str, Any] = {"text": "a", "source": "en", "target": "ja"}
    deepl = {"text": ["a"], "source_lang": "EN", "target_lang": "JA"}
    batch = {"targetLanguage": "ja", "segments": [{"id": 1, "text": "a"}]}
    tags = [f"t{number}" for number in range(101)]
    for path, body in (
        ("/v1/translate", native | {"context": "x" * 20_001}),
        ("/v2/translate", deepl | {"context": "x" * 20_001}),
        ("/v1/chat/completions", chat(batch | {"description": "x" * 20_001})),
        ("/v1/translate", native | {"ignore_tags": tags}),
        ("/v1/translate", native | {"splitting_tags": ["x" * 101]}),
        ("/v2/translate", deepl | {"non_splitting_tags": tags, "tag_handling": "xml"}),
        ("/v2/translate", deepl | {"ignore_tags": ",".join(tags), "tag_handling": "xml"}),
        ("/v1/chat/completions", chat(batch | {"glossary": {f"term {number}": "x" for number in range(10_001)}})),
        ("/language/translate/v2", {"q": "a", "target": "ja", "model": "x" * 1_001}),
    ):
        answer = await client.post(path, json=body, headers=headers)
        assert (answer.status_code, len(answer.content) < 500) == (400, True), answer.text
    accepted = native | {"context": "x" * 2_000, "ignore_tags": tags[:100]}
    assert (await client.post("/v1/translate", json=accepted, headers=headers)).status_code == 200


def chat(batch: dict[str, Any]) -> dict[str, Any]:
    return {"model": "dragoman", "messages": [{"role": "user", "content": json.dumps(batch)}]}


async def test_large_bodies_without_a_key_take_turns_and_small_ones_do_not(
    client: httpx.AsyncClient, key: list[str]
) -> None:
    """Clients that stop in the middle of their body keep their turns; others with a key, or a small body, are served."""
    assert client.base_url.port is not None
    stalled: list[asyncio.StreamWriter] = []
    for _ in range(MAX_KEYLESS_BODIES):
        _, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        writer.write(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{")
        await writer.drain()
        stalled.append(writer)
    body = {"q": "a", "source": "en", "target": "ja"}

    async def post(body: dict[str, str], *, padding: int = 0, **headers: str) -> httpx.Response:
        content = json.dumps(body).encode() + b" " * padding
        return await client.post("/translate", content=content, headers={"Content-Type": "application/json", **headers})

    large = 2 * SMALL_BYTES
    try:
        refused = await post(body, padding=large)
        assert (refused.status_code, "Retry-After" in refused.headers) == (429, True)
        assert (await post(body, padding=large, **{"X-API-Key": key[0]})).status_code == 200
        assert (await post(body | {"api_key": key[0]})).status_code == 200
    finally:
        for writer in stalled:
            writer.close()
    again = await post(body | {"api_key": key[0]}, padding=large)  # which waits until they are noticed
    assert again.status_code == 200


async def test_a_wrong_key_is_refused_before_the_body_has_come(client: httpx.AsyncClient) -> None:
    assert client.base_url.port is not None
    for path in ("/v1/translate", "/v1/chat/completions", "/v2/translate", "/translate", "/language/translate/v2"):
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: drg_x\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: 1000000\r\n\r\n{{".encode())
        async with asyncio.timeout(HANG_S):
            assert (await reader.readline()).split()[1] in (b"400", b"401", b"403")
        writer.close()


async def test_a_refused_body_is_freed_without_the_garbage_collector(client: httpx.AsyncClient, key: list[str]) -> None:
    def errors() -> list[int]:
        kinds = (RequestValidationError, HTTPException, DragomanError)
        return [id(one) for one in gc.get_objects() if issubclass(type(one), kinds)]

    gc.collect()
    gc.disable()
    before = errors()
    try:
        for content in (
            b'{"text": 3}',
            b"{",
            b'{"text": "a", "target": "xx"}',
            b'{"text": "a", "target": "ja", "x": 1}',
        ):
            headers = {"X-API-Key": key[0], "Content-Type": "application/json"}
            assert (await client.post("/v1/translate", content=content, headers=headers)).status_code in (400, 422)
        kept = [one for one in errors() if one not in before]
    finally:
        gc.enable()
    assert not kept


# ---- parsing


def test_values_in_strings_do_not_count() -> None:
    text = 'a, [b] {c} \\ "d", ' * 100
    for value in (text, [text], {"a": text, text: "\\"}):
        assert parse_json(json.dumps(value).encode(), 10) == value
        assert parse_json(json.dumps(value, ensure_ascii=False).encode(), 10) == value
    with pytest.raises(TooManyValues):
        parse_json(b"[" + b"1," * 10 + b"1]", 10)
    with pytest.raises(TooManyValues):
        parse_json(b'{"a": "' + b'\\"' * 50 + b'", "b": [' + b"[]," * 10 + b"1]}", 10)


@pytest.mark.parametrize("text", ["[note] word, ", "[1] word, ", '{"a" he said, ', "[ja, nein, "])
def test_a_text_with_many_commas_is_no_json_with_many_values(text: str) -> None:
    for body in (text * 100, text + "\u65e5, " * 50_000):
        with pytest.raises(InvalidJson):
            parse_json(body.encode(), 10)


@pytest.mark.parametrize(
    "body",
    ["[" + '"a, \\u65e5", ' * 20_000, "[" + '{"a": true}, ' * 9_000, "[" * 60_000, "[-1.5e10" + "\n, 2" * 40_000],
)
def test_json_with_many_values_has_too_many_wherever_its_beginning_is_cut(body: str) -> None:
    for shift in range(30):
        with pytest.raises(TooManyValues):
            parse_json(f"{' ' * shift}{body}".encode(), 10)


@pytest.mark.parametrize(
    "body", [b"1e999", b"NaN", b"[-Infinity]", b"9" * 101, b"1." + b"3" * 101, b"[" * 90_000, b"\xff", b""]
)
def test_what_is_not_json(body: bytes) -> None:
    with pytest.raises(InvalidJson):
        parse_json(body, 100_000)


def test_a_lone_surrogate_names_its_field() -> None:
    for body in (b'{"q": ["a", "\\ud800"]}', b'{"q": {"\\udfff": 1}}'):
        with pytest.raises(UntranslatableText) as raised:
            parse_json(body, 10)
        assert raised.value.param == "q"
    assert parse_json(b'["\\ud83d\\ude00", "\\\\ud800"]', 10) == ["😀", "\\ud800"]


def test_urlencoded_forms_are_read_as_the_standard_library_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = random.Random(1)
    with monkeypatch.context() as patched:
        patched.setattr(forms, "_SLICE_BYTES", 7)
        for _ in range(5_000):
            value = bytes(choice.choice(b"%%%aF09g=+ \n\r\t_\xff\xe3") for _ in range(choice.randrange(40)))
            expected = unquote_to_bytes(value.replace(b"+", b" ")).decode("utf-8", "replace")
            assert parse_form(b"q=" + value, FORM, 10) == [("q", expected)]
    pairs = [("q", "日本語 & 100 %"), ("q", ""), ("target", "ja")]
    assert parse_form(urlencode(pairs).encode(), FORM, 10) == pairs
    with pytest.raises(TooManyValues):
        parse_form(b"a&" * 10, FORM, 10)
    with pytest.raises(InvalidRequest):
        parse_form(b"q=" + b"%" * 100_000, FORM, 10)


def test_multipart_forms() -> None:
    request = httpx.Request(
        "POST", "http://x", data={"q": ["a\r\n--b", "日本語"], "t": ""}, files={"file": ("name=x; name=y", b"\0\xff")}
    )
    content_type = request.headers["content-type"]
    fields: list[tuple[str, str | bytes]] = [("q", "a\r\n--b"), ("q", "日本語"), ("t", ""), ("file", b"\0\xff")]
    assert parse_form(request.read(), content_type, 4) == fields
    with pytest.raises(TooManyValues):
        parse_form(request.read(), content_type, 3)
    for body in (b"", b"--b\r\n\r\nx\r\n--b--", b'--b\r\nContent-Disposition: form-data; name="q"\r\n\r\nx'):
        with pytest.raises(InvalidRequest):
            parse_form(body, "multipart/form-data; boundary=b", 10)
