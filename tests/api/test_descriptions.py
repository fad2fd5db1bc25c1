"""OpenAPI: a server describes its own API, and a file each of the others'; no route is left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from dragoman import __version__
from dragoman.api.app import FEATURES, create_app
from dragoman.settings import ServerSettings
from tests.openapi import FILES, description
from tests.serving import fake_service, served

FOREIGN = {"libretranslate", "google", "plugins", "openai", "deepl", "microsoft", "ollama"}
SHARED = {("POST", "/translate"), ("POST", "/detect"), ("GET", "/languages")}
"""LibreTranslate's, and Microsoft's where the query has `api-version`."""
UNDESCRIBED = {
    ("GET", "/v3/style_rules"),  # none, which DeepL's clients ask for
    ("HEAD", "/download_file/{name}"),
    ("HEAD", "/api/tags"),
    ("HEAD", "/api/version"),
    ("POST", "/languages"),  # sent by an old client, as the next
    ("POST", "/language/translate/v2/languages"),
}
"""Of other APIs; of this server, pages and what agents send."""

Operations = set[tuple[str, str]]


def operations(described: Mapping[str, Any]) -> Operations:
    """Method and path of all that a description has."""
    return {(method.upper(), path) for path, methods in described["paths"].items() for method in methods}


def routes(of: Any) -> Operations:
    """Method and path of all that an app or a router answers, without the pages."""
    found = (route for route in of.routes if isinstance(route, APIRoute))
    return {(method, route.path_format) for route in found for method in route.methods}


def references(value: Any) -> Iterator[str]:
    """All `$ref` in a description."""
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from references(one)
    if isinstance(value, dict) and "$ref" in value:
        yield value["$ref"]


def test_each_route_of_another_api_is_described_in_a_file_once() -> None:
    assert FILES.keys() == FOREIGN
    described = [one for api in FILES for one in operations(description(api))]
    assert sorted(described) == sorted([*set(described), *SHARED])
    assert len(set(described)) == 65
    foreign = (routes(feature.router) for feature in FEATURES if feature.is_foreign)
    assert set[tuple[str, str]]().union(*foreign) == {*described} | UNDESCRIBED


def test_a_server_describes_its_own_api_alone() -> None:
    app = create_app(fake_service())
    own = operations(app.openapi())
    foreign = {one for api in FILES for one in operations(description(api))}
    assert own & foreign == set()
    left = routes(app) - own - foreign - UNDESCRIBED
    assert left == {
        (method, path) for method, path in left if method == "HEAD" or path in ("/mcp", "/", "/engine", "/docs")
    }


@pytest.mark.parametrize("api", FILES)
def test_what_a_description_refers_to_is_there(api: str) -> None:
    described = description(api)
    found = set(references(described))
    assert found
    for one in found:
        value = described
        for key in one.removeprefix("#/").split("/"):
            value = value[key]
    components = {f"#/components/{kind}/{name}" for kind, named in described["components"].items() for name in named}
    assert components - found == set()


def test_the_bodies_of_chats_have_the_fields_that_are_described() -> None:
    schemas = {**description("openai")["components"]["schemas"], **description("ollama")["components"]["schemas"]}
    models = [
        route.body_field.field_info.annotation
        for feature in FEATURES
        for route in feature.router.routes
        if feature.is_foreign and isinstance(route, APIRoute) and route.body_field is not None
    ]
    of_openai, of_ollama = (
        {"ChatBody", "CompletionBody", "ResponseBody"},
        {"OllamaChatBody", "GenerateBody", "PullBody", "ShowBody"},
    )
    assert {model.__name__ for model in models} == of_openai | of_ollama
    for model in models:
        made = model.model_json_schema()
        for name, schema in ({model.__name__: made} | made.get("$defs", {})).items():
            assert schemas[name]["properties"].keys() == schema["properties"].keys(), name
            assert schemas[name].get("required") == schema.get("required"), name


@pytest.mark.parametrize(("root_path", "address"), [("", "/"), ("/mt/", "/mt")])
async def test_libretranslates_description_has_the_servers_version_and_address(root_path: str, address: str) -> None:
    async with served(fake_service(server=ServerSettings(root_path=root_path))) as client:
        answer: httpx.Response = await client.get("/spec")
    described = {**description("libretranslate"), "servers": [{"url": address}]}
    assert answer.json() == described | {"info": described["info"] | {"version": __version__}}
    assert answer.headers["content-type"] == "application/json"
    assert re.match(r'\{"openapi":"3\.1\.0","info":\{"title":"LibreTranslate",', answer.text)
