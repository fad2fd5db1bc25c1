"""How every API makes a `TranslationRequest`: the texts and options that it read are checked, and the call's own data added."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from time import perf_counter

from fastapi import Request

from dragoman import languages
from dragoman.api.middleware import current_id
from dragoman.errors import BodyTooLarge, EmptyText, InvalidRequest, TooManyTexts, UnsupportedLanguage
from dragoman.service.service import TranslationService
from dragoman.telemetry import requests
from dragoman.types import Account, ApiName, TranslationRequest

DEADLINE_HEADER = "X-Request-Timeout"
"""Seconds, with decimals, that the client waits for the answer."""
LONGEST_DEADLINE_S = 86_400.0
MAX_CONTEXT_CHARACTERS = 20_000
MAX_TERMS, MAX_TERM_CHARACTERS = 10_000, 1_000
MAX_INSTRUCTIONS, MAX_INSTRUCTION_CHARACTERS = 10, 300
MAX_TAGS, MAX_TAG_CHARACTERS = 100, 100


def _seconds_left(http: Request, given_s: float | None = None) -> float | None:
    """Seconds that are left for a call: `given_s` of its body or else of its header, less what has passed since it arrived.

    None: it has no deadline. Raises `InvalidRequest` for a header that is not a number of seconds.
    """
    header = http.headers.get(DEADLINE_HEADER)
    if given_s is None and header is not None:
        try:
            given_s = float(header)
        except ValueError:
            given_s = 0.0
        if not 0 < given_s <= LONGEST_DEADLINE_S:  # nor is it "nan"
            raise InvalidRequest(
                f"{DEADLINE_HEADER} is {header[:40]!r}; give seconds, above 0 and up to {LONGEST_DEADLINE_S:g}",
                param=DEADLINE_HEADER,
            )
    if given_s is None:
        return None
    request = requests.current.get()
    return max(given_s - (perf_counter() - request.began_s if request else 0.0), 0.0)


def _check_list(name: str, texts: Collection[str], most: int, characters: int) -> None:
    """Raises `InvalidRequest` for more than `most` texts, or for one of more than so many characters."""
    if len(texts) > most:
        raise InvalidRequest(f"{name}: {len(texts)} entries; this server accepts {most}", param=name)
    if texts and max(map(len, texts)) > characters:
        raise InvalidRequest(f"{name}: an entry has over {characters} characters", param=name)


def call_of(
    http: Request, account: Account, api: ApiName, request: TranslationRequest, deadline_s: float | None = None
) -> TranslationRequest:
    """The request of a call: with its id, account and deadline. `deadline_s`: of the call's body.

    The calls of an account of priority `bulk` are bulk, whatever they say.

    Raises `InvalidRequest` and `UnsupportedLanguage` for languages and options that are not within the limits.
    """
    _check_options(request)
    deadline_s = _seconds_left(http, deadline_s)
    priority = "bulk" if account.priority == "bulk" else request.priority
    return replace(request, request_id=current_id(), account=account, api=api, deadline_s=deadline_s, priority=priority)


def _check_options(request: TranslationRequest) -> None:
    for name in ("target", "source"):
        if len(getattr(request, name) or "") > languages.MAX_TAG_CHARACTERS:
            raise UnsupportedLanguage(f"{name} has over {languages.MAX_TAG_CHARACTERS} characters", param=name)
    if request.context and len(request.context) > MAX_CONTEXT_CHARACTERS:
        raise InvalidRequest(
            f"context has {len(request.context)} characters; this server accepts {MAX_CONTEXT_CHARACTERS}",
            param="context",
        )
    if request.glossary_key is None:
        _check_list("glossary", request.glossary, MAX_TERMS, MAX_TERM_CHARACTERS)
        _check_list("glossary", request.glossary.values(), MAX_TERMS, MAX_TERM_CHARACTERS)
        if "" in request.glossary:
            raise InvalidRequest("glossary: a term is empty", param="glossary")
    _check_list("keep", request.keep, MAX_TERMS, MAX_TERM_CHARACTERS)
    _check_list("instructions", request.instructions, MAX_INSTRUCTIONS, MAX_INSTRUCTION_CHARACTERS)
    for name in ("ignore_tags", "splitting_tags", "non_splitting_tags"):
        _check_list(name, getattr(request, name), MAX_TAGS, MAX_TAG_CHARACTERS)


async def check_texts(
    service: TranslationService, given: str | list[str], name: str = "text", *, allow_empty: bool = False
) -> tuple[str, ...]:
    """The texts of a call, whose field is called `name`. Raises `EmptyText` (unless empty ones are allowed),
    `TooManyTexts` and `BodyTooLarge`."""
    limits, pace = service.settings.server, service.pace()
    texts = (given,) if isinstance(given, str) else tuple(given)
    if not texts:
        raise EmptyText(f"{name} is an empty list", param=name)
    if len(texts) > limits.max_texts:
        raise TooManyTexts(f"{len(texts)} texts in one call; this server accepts {limits.max_texts}", param=name)
    for index, text in enumerate(texts):
        place = name if isinstance(given, str) else f"{name}.{index}"
        if not text and not allow_empty:
            raise EmptyText(f"{place} is empty", param=place)
        if len(text) > limits.max_text_characters:
            raise BodyTooLarge(
                f"{place} has {len(text)} characters; this server accepts {limits.max_text_characters}", param=place
            )
        await pace.pause()
    return texts
