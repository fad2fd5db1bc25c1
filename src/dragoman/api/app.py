"""The ASGI app: a value made from a service. It starts and stops nothing: `server.py` and tests do."""

from __future__ import annotations

from fastapi import FastAPI

from dragoman import __version__
from dragoman.api import errors, glossaries, native
from dragoman.api.compat import deepl, google, libretranslate, openai, plugins
from dragoman.api.middleware import BodyLimit, ClientGone, RequestLog, closed
from dragoman.api.web import page
from dragoman.service.service import TranslationService

COMPAT = (deepl, libretranslate, google, plugins, openai)
"""APIs of others, whose clients are served unchanged."""


def create_app(service: TranslationService) -> FastAPI:
    """All routes over `service`."""
    app = FastAPI(
        title="dragoman",
        version=__version__,
        description="A self-hosted LLM translation server on vLLM's continuous batching.",
        docs_url=None,  # FastAPI's pages load from a CDN; `page` serves its own
        redoc_url=None,
    )
    app.state.service = service
    app.add_middleware(BodyLimit, max_body_bytes=service.settings.server.max_body_bytes)
    # The last one added is the outermost: what may refuse or fail belongs before this.
    app.add_middleware(RequestLog, count=service.metrics.answered, tracing=service.tracing)
    errors.install(app, {prefix: one for api in COMPAT for prefix, one in api.ERROR_FORMATS.items()})
    app.add_exception_handler(ClientGone, closed)
    app.include_router(native.router)
    app.include_router(glossaries.router)
    for api in COMPAT:
        app.include_router(api.router)
    app.include_router(native.probes)
    page.install(app)
    return app
