"""DeepL's usage, and what its clients ask of what the server does not offer. The rest of DeepL's API is not found."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from dragoman.api.compat.deepl import schemas
from dragoman.api.compat.deepl.calls import DeepLCall, answer, answers, failures

router = APIRouter(default_response_class=Response)

UNLIMITED = 10**12
"""What DeepL reports as the limit of an account that has none."""


@router.get("/v2/usage", summary="DeepL: usage", responses=answers(schemas.USAGE))
async def usage(call: DeepLCall) -> Response:
    """Characters of this calendar month, in UTC, and the key's limit."""
    used = call.service.accounts.usage(call.account)
    limit = UNLIMITED if used.characters_per_month is None else used.characters_per_month
    return answer(
        {
            "character_count": used.characters,
            "character_limit": limit,
            "api_key_character_count": used.characters,
            "api_key_character_limit": limit,
            "start_time": used.period_start.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "end_time": used.period_end.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
    )


@router.post("/v2/document", summary="DeepL: translate a document", responses=failures())
async def document(call: DeepLCall) -> Response:
    """Refused for every type of file: the server translates texts."""
    return answer({"message": "Invalid file: unsupported file extension", "detail": "no documents are translated"}, 400)


@router.get("/v3/style_rules", include_in_schema=False)
async def style_rules(call: DeepLCall) -> Response:
    """None."""
    return answer({"style_rules": []})


@router.get("/v3/translation_memories", include_in_schema=False)
async def translation_memories(call: DeepLCall) -> Response:
    """None."""
    return answer({"translation_memories": [], "total_count": 0})
