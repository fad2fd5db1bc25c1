"""The whole server over the run's one real engine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from dragoman.pipelines.contract import Pipeline
from dragoman.service.service import TranslationService
from tests.serving import served, service_over


class Started:
    """The run's engine, which is up already and outlives the service that borrows it."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def __getattr__(self, name: str) -> object:
        return getattr(self._pipeline, name)

    async def start(self) -> None: ...
    async def shutdown(self) -> None: ...


@pytest.fixture(scope="module")
async def service(engine_pipeline: Pipeline) -> TranslationService:
    return service_over(Started(engine_pipeline))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
async def client(service: TranslationService) -> AsyncIterator[httpx.AsyncClient]:
    async with served(service) as client:
        yield client
