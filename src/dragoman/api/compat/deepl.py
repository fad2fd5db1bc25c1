"""DeepL's API, versions 2 and 3: `/v2/...` and `/v3/...`."""

from __future__ import annotations

from fastapi import APIRouter

from dragoman.api.errors import ErrorFormat

router = APIRouter()

ERROR_FORMATS: dict[str, ErrorFormat] = {}
