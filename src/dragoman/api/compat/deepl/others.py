"""DeepL's usage, and what its clients ask of what the server does not offer. The rest of DeepL's API is not found."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from dragoman.api.compat.deepl.calls import DeepLCall, answer
from dragoman.api.compat.exchange import Call

router = APIRouter()

UNLIMITED = 10**12
"""What DeepL reports as the limit of an account that has none."""


@router.get("/v2/usage")
async def usage(call: DeepLCall) -> Response:
    """Characters of this calendar month, in UTC, and the key's limit; documents that are in work now, and their limit."""
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
            **await _documents(call),
        }
    )


async def _documents(call: Call) -> dict[str, int]:
    if not call.service.translates_documents:
        return {}
    in_flight = await call.service.documents.in_flight(call.account)
    return {"document_count": in_flight, "document_limit": call.service.settings.documents.max_jobs_per_key}


@router.get("/v3/style_rules")
async def style_rules(call: DeepLCall) -> Response:
    """No style rules."""
    return answer({"style_rules": []})
