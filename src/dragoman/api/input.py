"""What every API checks of its input before it is a `TranslationRequest`."""

from __future__ import annotations

from fastapi import Request

from dragoman.errors import BodyTooLarge, EmptyText, InvalidRequest, TooManyTexts, UntranslatableText
from dragoman.service.service import TranslationService
from dragoman.telemetry import requests

DEADLINE_HEADER = "X-Request-Timeout"
"""Seconds, with decimals, that the client waits for the answer."""
LONGEST_DEADLINE_S = 86_400.0


def deadline_of(http: Request, given_s: float | None = None) -> float | None:
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
    request = requests.current()
    return max(given_s - (request.age_s if request else 0.0), 0.0)


def check_unicode(text: str, name: str) -> None:
    """Raises `UntranslatableText` for half of a surrogate pair, which JSON can express and which is not a character."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UntranslatableText(
            f"{name} is not Unicode text: a lone surrogate at character {error.start}", param=name
        ) from None


async def check_texts(
    service: TranslationService, given: str | list[str], name: str = "text", *, allow_empty: bool = False
) -> tuple[str, ...]:
    """The texts of a call, whose field is called `name`. Raises `EmptyText` (unless empty ones are allowed),
    `TooManyTexts`, `BodyTooLarge` and `UntranslatableText`."""
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
        check_unicode(text, place)
        if len(text) > limits.max_text_characters:
            raise BodyTooLarge(
                f"{place} has {len(text)} characters; this server accepts {limits.max_text_characters}", param=place
            )
        await pace.pause()
    return texts
