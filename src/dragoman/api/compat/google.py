"""Google Cloud Translation's API, version 2 (Basic): `/language/translate/v2`."""

from __future__ import annotations

from fastapi import APIRouter

from dragoman.api.errors import ErrorFormat

router = APIRouter()

ERROR_FORMATS: dict[str, ErrorFormat] = {}
