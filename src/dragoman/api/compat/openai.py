"""OpenAI's chat completions, for clients that translate through a chat model: `/v1/chat/completions`."""

from __future__ import annotations

from fastapi import APIRouter

from dragoman.api.errors import ErrorFormat

router = APIRouter()

ERROR_FORMATS: dict[str, ErrorFormat] = {}
