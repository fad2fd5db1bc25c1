"""What every API checks of its input before it is a `TranslationRequest`."""

from __future__ import annotations

from dragoman.errors import BodyTooLarge, EmptyText, TooManyTexts, UntranslatableText
from dragoman.service.service import TranslationService


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
