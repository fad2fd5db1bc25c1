"""LibreTranslate's API; its `POST /translate` is shared with DeepLX's."""

from __future__ import annotations

from fastapi import APIRouter

from dragoman.api.errors import ErrorFormat

router = APIRouter()

ERROR_FORMATS: dict[str, ErrorFormat] = {}
