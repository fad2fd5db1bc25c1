"""The texts of a message that is a list of some form, and the form in which the answer to an instruction is wanted.

Each form has its module: `chat_json`, `chat_yaml`, `chat_lists`. The answer has the form of the message, character for
character, or the one that the instruction shows; `chat_forms` has the few that neither tells.
"""

from __future__ import annotations

import re

from dragoman.api.compat import chat_json, chat_lists, chat_yaml
from dragoman.api.compat.chat_languages import words
from dragoman.api.compat.chat_outline import Outline
from dragoman.api.compat.chat_text import parsed_json
from dragoman.errors import TooManyTexts, UnclearPrompt

_JSON_WANTED = re.compile(r"(?<![a-z])json(?![a-z])", re.IGNORECASE)
_OTHER_FORM = re.compile(
    r"(?<!/)\b(?:yaml|xml|csv)\b(?![/ -](?:tags?|elements?|markup|placeholders?)\b)", re.IGNORECASE
)
_OF_FORM = re.compile(
    r"json|format|structure|\bkeys?\b|\bfields?\b|\bobjects?\b|\barrays?\b|\bsame\b|schema|格式|数组|同じ",
    re.IGNORECASE,
)
_JSON_REFUSED = re.compile(
    r"\b(?:no|not|without|never|nor|non|niente|senza|nessun\w*|sin|sans|aucune?|sem|nenhum\w*|ohne|kein\w*|без|bez)\b"
    r"(?:(?!\b(?:outside|besides|but|other than|before|after|except)\b)[^.\n]){0,40}\bjson\b",
    re.IGNORECASE,
)
_OBJECT_WANTED = re.compile(
    r"\b(?:reply|respond|answer|return|output)\b[^.\n]{0,40}\{\s*[\"']\w+[\"']\s*:", re.IGNORECASE
)


def read(message: str, about: str, most: int) -> Outline | None:
    """The texts of a message in the form of the answer, after an instruction `about`. None: the message is one text, whose
    translation is the answer.

    Raises `UnclearPrompt` where the texts or the form are not clear, and `TooManyTexts` for over `most`.
    """
    parsed = parsed_json(message)
    is_named = _JSON_WANTED.search(about) is not None or (parsed is None and _OBJECT_WANTED.search(about) is not None)
    wants_json = is_named and _JSON_REFUSED.search(about) is None
    if parsed is not None:
        found = chat_json.of_value(message, parsed, about)
        is_bare = words("answered").search(about) is not None and _OF_FORM.search(about) is None
        if found is None or not found.texts or (is_bare and len(found.texts) == 1):
            raise UnclearPrompt("the form of the answer to a message in JSON is not understood", param="messages")
    else:
        found = chat_json.of_lines(message, about, most)
        if found is None and re.match(r"\s*(?:\[\s*(?:\[\s*[\[{\"\d]|[{\"])|\{\s*\")", message) is not None:
            raise UnclearPrompt("the message begins as JSON does, and is none", param="messages")
        found = found or chat_yaml.read(message, about) or chat_lists.read(message, about, most)
        if wants_json:
            found = chat_json.in_json(found, about) if found is not None else chat_json.under_a_key(message, about)
        is_markup = message.lstrip()[:1] == "<" and message.rstrip()[-1:] == ">"
        if found is None and (wants_json or (_OTHER_FORM.search(about) is not None and not is_markup)):
            raise UnclearPrompt(
                "an answer in JSON, YAML, XML or CSV is wanted, and its form is not understood", param="messages"
            )
        found = chat_lists.in_a_tag(message, about, found)
    if found is not None and len(found.texts) > most:
        raise TooManyTexts(f"over {most} texts in one call", param="messages")
    return found if found is None or found.texts else None
