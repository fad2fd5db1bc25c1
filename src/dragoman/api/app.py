"""The ASGI app: a value made from a service and the list `FEATURES`. It starts and stops nothing: `server.py` and tests do."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute, Route

from dragoman import __version__
from dragoman.api import documents, errors, glossaries, memories, native, operators
from dragoman.api.answers import ClientGone, closed
from dragoman.api.compat import deepl, google, libretranslate, microsoft, ollama, openai, openai_responses, plugins
from dragoman.api.input import MAX_KEYLESS_BODIES, MAX_KEYLESS_UPLOADS, MAX_VALUES, NEEDS_OPERATOR
from dragoman.api.mcp import endpoint as mcp
from dragoman.api.middleware import RequestMiddleware, RootPath, comma_separated, host_rule
from dragoman.api.replicas import Replicas
from dragoman.api.web import page
from dragoman.service.service import TranslationService

_UPLOAD_FIELD_BYTES = 2_000_000  # besides the file


def _always(_: TranslationService) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Feature:
    """What routes that belong together are to the app.

    Attributes:
        error_formats: How faults are answered, by the beginning of a path (`errors.install`); others have the native format.
        is_foreign: They are an API of others, which their owners describe: this server's OpenAPI leaves them out.
        origins: Whether web pages of other origins may call them; `keyed`: where a key is needed, which such a page does not
            have: otherwise it could read or change what belongs to everybody.
        private: Beginnings of paths that such a page may not call in any case.
        uploads: Paths where bodies may have the size of documents.
        dependencies: What each request must pass, such as `NEEDS_OPERATOR`.
        is_served: Whether a service has them at all.
    """

    router: APIRouter
    error_formats: Mapping[str, errors.ErrorFormat] = field(default_factory=dict[str, errors.ErrorFormat])
    is_foreign: bool = False
    origins: Literal["all", "keyed", "none"] = "none"
    private: tuple[str, ...] = ()
    uploads: tuple[str, ...] = ()
    dependencies: tuple[Any, ...] = ()
    is_served: Callable[[TranslationService], bool] = _always

    def open_paths(self, *, keys_required: bool) -> Iterator[re.Pattern[str]]:
        """What web pages of other origins may call."""
        if self.origins == "all" or (self.origins == "keyed" and keys_required):
            for route in self.router.routes:
                if isinstance(route, Route) and not route.path.startswith(self.private):
                    yield route.path_regex


FEATURES = (
    Feature(router=native.router, origins="all"),
    # APIs of others, whose clients are served unchanged
    Feature(router=openai.router, error_formats=openai.ERROR_FORMATS, is_foreign=True, origins="all"),
    Feature(
        router=openai_responses.router, error_formats=openai_responses.ERROR_FORMATS, is_foreign=True, origins="all"
    ),
    Feature(
        router=deepl.router,
        error_formats=deepl.ERROR_FORMATS,
        is_foreign=True,
        origins="all",
        private=("/v2/glossar", "/v3/glossaries", "/v3/translation_memories"),
        uploads=("/v2/document", deepl.MEMORY_UPLOAD_PATH),
    ),
    Feature(router=ollama.router, error_formats=ollama.ERROR_FORMATS, is_foreign=True, origins="all"),
    # before LibreTranslate, whose paths it shares
    Feature(router=microsoft.router, error_formats=microsoft.ERROR_FORMATS, is_foreign=True, origins="all"),
    Feature(
        router=libretranslate.router,
        error_formats=libretranslate.ERROR_FORMATS,
        is_foreign=True,
        origins="all",
        uploads=("/translate_file",),
    ),
    Feature(router=libretranslate.suggestions, is_foreign=True, origins="keyed"),
    Feature(router=google.router, error_formats=google.ERROR_FORMATS, is_foreign=True, origins="all"),
    Feature(router=plugins.router, error_formats=plugins.ERROR_FORMATS, is_foreign=True, origins="all"),
    # this server's own
    Feature(router=glossaries.router),
    Feature(router=memories.router, uploads=(memories.IMPORT_PATH,)),
    Feature(router=documents.router, origins="keyed", uploads=("/v1/documents",)),
    Feature(router=mcp.router, error_formats=mcp.ERROR_FORMATS, is_served=mcp.is_served),
    Feature(router=operators.router, dependencies=(NEEDS_OPERATOR,)),
    Feature(router=native.probes),
)
"""All that a server answers, but for the web pages. Routes are tried in this order: what is called most comes first."""
_UPLOAD_PATHS = tuple(path for feature in FEATURES for path in feature.uploads)


@cache
def _routes(feature: Feature) -> Sequence[BaseRoute]:
    """A feature's, which know no app, and are made once: validators of what they take and answer are a third of a second."""
    router = APIRouter()
    router.include_router(feature.router, dependencies=feature.dependencies, include_in_schema=not feature.is_foreign)
    return router.routes


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
        [one for feature in FEATURES for one in feature.open_paths(keys_required=service.accounts.required)],
        comma_separated(server.cors_origins),
    )
    app.state.replicas = replicas
    app.state.max_values = MAX_VALUES + 4 * server.max_texts
    app.state.keyless_bodies = asyncio.Semaphore(MAX_KEYLESS_BODIES)
    app.state.keyless_uploads = asyncio.Semaphore(MAX_KEYLESS_UPLOADS)
    if server.root_path.strip("/"):
        app.add_middleware(RootPath, root_path=server.root_path)
    errors.install(app, {prefix: one for feature in FEATURES for prefix, one in feature.error_formats.items()})
    app.add_exception_handler(ClientGone, closed)
    for feature in FEATURES:
        if feature.is_served(service):
            app.router.routes.extend(_routes(feature))
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
        upload_paths=_UPLOAD_PATHS,
        is_allowed=is_allowed,
        open_paths=open_paths,
        origins=origins,
    )
