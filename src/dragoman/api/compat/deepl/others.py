"""DeepL's usage, and what the server does not offer: documents, text improvement, style rules, translation memories."""

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


@router.post("/v2/document/{document_id}", include_in_schema=False)
@router.post("/v2/document/{document_id}/result", include_in_schema=False)
async def no_such_document(document_id: str, call: DeepLCall) -> Response:
    """No document was accepted."""
    return answer({"message": "Document not found"}, 404)


@router.get("/v3/style_rules", include_in_schema=False)
async def style_rules(call: DeepLCall) -> Response:
    """None."""
    return answer({"style_rules": []})


@router.get("/v3/translation_memories", include_in_schema=False)
async def translation_memories(call: DeepLCall) -> Response:
    """None."""
    return answer({"translation_memories": [], "total_count": 0})


_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


@router.api_route("/v2/write/{rest:path}", methods=_METHODS, include_in_schema=False)
@router.api_route("/v2/admin/{rest:path}", methods=_METHODS, include_in_schema=False)
@router.api_route("/v3/style_rules", methods=["POST"], include_in_schema=False)
@router.api_route("/v3/style_rules/{rest:path}", methods=_METHODS, include_in_schema=False)
@router.api_route("/v3/translation_memories/{rest:path}", methods=_METHODS, include_in_schema=False)
@router.api_route("/v3/voice/{rest:path}", methods=_METHODS, include_in_schema=False)
async def not_offered(call: DeepLCall) -> Response:
    """A part of DeepL's API that the server does not have."""
    path = call.http.url.path
    return answer({"message": "Not found", "detail": f"dragoman does not offer {call.http.method} {path}"}, 404)
