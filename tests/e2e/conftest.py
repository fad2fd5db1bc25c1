"""The whole server over the run's one real engine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from dragoman.pipelines.base import Pipeline
from dragoman.service.service import TranslationService
from tests.pipelines.building import Started
from tests.serving import served, service_over


@pytest.fixture(scope="module")
async def service(engine_pipeline: Pipeline) -> TranslationService:
    return service_over(Started(engine_pipeline))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
async def client(service: TranslationService) -> AsyncIterator[httpx.AsyncClient]:
    async with served(service) as client:
        yield client
