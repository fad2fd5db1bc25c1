"""The custom APIs of browser plug-ins: Immersive Translate's and KISS Translator's."""

from __future__ import annotations

from fastapi import APIRouter

from dragoman.api.errors import ErrorFormat

router = APIRouter()

ERROR_FORMATS: dict[str, ErrorFormat] = {}
