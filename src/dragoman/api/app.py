"""The ASGI app: a value made from a service. It starts and stops nothing: `server.py` and tests do."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence

from fastapi import FastAPI
from starlette.routing import Route

from dragoman import __version__
from dragoman.api import documents, errors, glossaries, memories, native, operators
from dragoman.api.answers import ClientGone, closed
from dragoman.api.compat import deepl, google, libretranslate, openai, openai_responses, plugins
from dragoman.api.input import MAX_KEYLESS_BODIES, MAX_KEYLESS_UPLOADS, MAX_VALUES, NEEDS_OPERATOR
from dragoman.api.mcp import endpoint as mcp
from dragoman.api.middleware import RequestMiddleware, RootPath, comma_separated, host_rule
from dragoman.api.replicas import Replicas
from dragoman.api.web import page
from dragoman.service.service import TranslationService

COMPAT = (openai, openai_responses, libretranslate, google, plugins, deepl)
"""APIs of others, whose clients are served unchanged. Routes are tried in their order: DeepL's are many."""


UPLOAD_PATHS = ("/v1/documents", "/v2/document", "/translate_file", memories.IMPORT_PATH, deepl.MEMORY_UPLOAD_PATH)
"""Where bodies may have the size of documents."""
_UPLOAD_FIELD_BYTES = 2_000_000  # besides the file


def _translation_paths(*, keys_required: bool) -> list[re.Pattern[str]]:
    """What web pages of other origins may call: not what operators ask, nor stored glossaries and translation memories;
    documents and suggestions where a key is needed, which such a page does not have: otherwise it could read or change
    those of everybody."""
    private = ("glossar", "memor", *(() if keys_required else ("/suggest",)))
    routers = [native.router, *(api.router for api in COMPAT), *([documents.router] if keys_required else [])]
    routes = (route for router in routers for route in router.routes)
    return [
        route.path_regex
        for route in routes
        if isinstance(route, Route) and not any(name in route.path for name in private)
    ]


def create_app(service: TranslationService, replicas: Replicas | None = None) -> FastAPI:
    """All routes over `service`. `replicas`: it is one of several that serve one address, and what operators ask is
    answered for all of them."""
    server = service.settings.server
    app = FastAPI(
        title="dragoman",
        version=__version__,
        description="A self-hosted LLM translation server on vLLM's continuous batching.",
        docs_url=None,  # FastAPI's pages load from a CDN; `page` serves its own
        redoc_url=None,
        servers=[{"url": f"/{server.root_path.strip('/')}"}] if server.root_path.strip("/") else None,
    )
    is_allowed = host_rule(server.allowed_hosts, server.host, behind_proxy=bool(server.trusted_proxies))
    _install_middleware(
        app,
        service,
        is_allowed,
        _translation_paths(keys_required=service.accounts.required),
        comma_separated(server.cors_origins),
    )
    app.state.replicas = replicas
    app.state.max_values = MAX_VALUES + 4 * server.max_texts
    app.state.keyless_bodies = asyncio.Semaphore(MAX_KEYLESS_BODIES)
    app.state.keyless_uploads = asyncio.Semaphore(MAX_KEYLESS_UPLOADS)
    if server.root_path.strip("/"):
        app.add_middleware(RootPath, root_path=server.root_path)
    errors.install(app, {prefix: one for api in (*COMPAT, mcp) for prefix, one in api.ERROR_FORMATS.items()})
    app.add_exception_handler(ClientGone, closed)
    app.include_router(native.router)  # what is called most is tried first
    for api in COMPAT:
        app.include_router(api.router, include_in_schema=False)  # their owners describe them
    for router in (glossaries.router, memories.router, documents.router):
        app.include_router(router)
    mcp.install(app, service)
    app.include_router(operators.router, dependencies=[NEEDS_OPERATOR], responses=operators.ANSWERS)
    app.include_router(native.probes)
    page.install(app)
    return app


def create_operator_app(service: TranslationService) -> FastAPI:
    """What operators ask, and the probes, without keys: for a port that they alone can reach. It answers for `service`
    alone, also where that is one of several replicas."""
    server = service.settings.server
    app = FastAPI(title="dragoman", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    _install_middleware(app, service, host_rule(server.allowed_hosts, server.operator_host))
    app.state.replicas = None
    errors.install(app, {})
    app.include_router(operators.router)
    app.include_router(native.probes)
    return app


def _install_middleware(
    app: FastAPI,
    service: TranslationService,
    is_allowed: Callable[[str], bool],
    open_paths: Sequence[re.Pattern[str]] = (),
    origins: Sequence[str] = (),
) -> None:
    app.state.service = service
    app.add_middleware(
        RequestMiddleware,
        count=service.metrics.answered,
        tracing=service.tracing,
        max_body_bytes=service.settings.server.max_body_bytes,
        max_upload_bytes=service.settings.documents.max_bytes + _UPLOAD_FIELD_BYTES,
        upload_paths=UPLOAD_PATHS,
        is_allowed=is_allowed,
        open_paths=open_paths,
        origins=origins,
    )
