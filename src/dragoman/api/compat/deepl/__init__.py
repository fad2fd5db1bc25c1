"""DeepL's API, versions 2 and 3: `/v2/...` and `/v3/...`."""

from __future__ import annotations

from fastapi import APIRouter

from dragoman.api.compat.deepl import documents, glossaries, languages, memories, others, translate
from dragoman.api.compat.deepl.calls import error_format
from dragoman.api.errors import ErrorFormat

router = APIRouter()
for _part in (translate, documents, languages, glossaries, memories, others):
    router.include_router(_part.router)

MEMORY_UPLOAD_PATH = memories.UPLOAD_PATH
ERROR_FORMATS: dict[str, ErrorFormat] = {"/v2/": error_format, "/v3/": error_format}
