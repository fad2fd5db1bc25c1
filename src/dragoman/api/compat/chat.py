"""What a chat's messages ask to have translated: which text, from and into which language, and in which form it goes back.

Programs that translate through a chat model write the instruction and the text into their messages, each in its own way;
`chat_templates.toml` has the ways that are known. What is not understood is refused: an instruction must not be translated
as if it were text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from dragoman import languages
from dragoman.api.compat import kiss
from dragoman.errors import InvalidRequest, TooManyTexts
from dragoman.types import Formality, TextFormat, Translation

Role = Literal["system", "user", "assistant"]

_FILE = Path(__file__).with_name("chat_templates.toml")
_MAX_NAME = languages.MAX_TAG_CHARACTERS
_MAX_ANY = 2_000  # characters of what a template has besides languages and text, such as a page's summary
_MAX_SYSTEM = 8_000  # characters of a system message that are read
_SPACE = re.compile(r"\s*")
_VARIABLE = re.compile(r"\{(to|from|text|any)\}")

HELP = (
    "send the text alone as the user message, and the target language in the model's name (dragoman/ja), in the header "
    "X-Target-Language, or in a system message such as 'Translate to Japanese.'"
)


@dataclass(frozen=True, slots=True)
class Task:
    """Texts to translate. Their translations go back with `separators` between them, or as `segments`."""

    texts: tuple[str, ...]
    target: str
    source: str | None = None
    separators: tuple[str, ...] = ()  # one fewer than texts
    segments: kiss.Segments | None = None
    glossary: Mapping[str, str] = field(default_factory=dict[str, str])
    keep: tuple[str, ...] = ()
    formality: Formality = "default"
    context: str | None = None

    @property
    def format(self) -> TextFormat:
        return "html" if any(map(_has_tags, self.texts)) else "text"

    def write(self, translations: Sequence[Translation]) -> str:
        """The answer's content."""
        if self.segments is not None:
            return self.segments.write(translations)
        parts = [translations[0].text]
        for separator, one in zip(self.separators, translations[1:], strict=True):
            parts += (separator, one.text)
        return "".join(parts)


def parse(messages: Sequence[tuple[Role, str]], target: str | None, max_texts: int = 10_000) -> Task:
    """What the messages ask for. `target`: a language that the request names besides them, which goes before theirs.

    Of several user messages the last one counts. Raises `InvalidRequest`, and `TooManyTexts` for over `max_texts`.
    """
    if not messages or messages[-1][0] != "user":
        raise InvalidRequest("the last message is not the user's; it must hold the text", param="messages")
    message = messages[-1][1].replace("\r\n", "\n")
    system = "\n\n".join(text for role, text in messages if role == "system").strip()[:_MAX_SYSTEM]
    if (batch := kiss.read_batch(message, system)) is not None:
        return _batch_task(batch, target)
    _check_not_refused(message)
    source, named = _languages_of(system, has_target=target is not None)
    for template in _templates():
        if (found := template.match(message)) is not None:
            asked = found.get("to", "")
            target = target or tag_of(asked)
            if target is None:
                raise InvalidRequest(f"{asked!r} is not a known language: {HELP}", param="messages")
            return _text_task(found["text"], target, tag_of(found.get("from", "")) or source, max_texts)
    target = target or named
    if target is None:
        raise InvalidRequest(f"the messages do not name a target language: {HELP}", param="messages")
    if _is_instruction(message, alone=not system):
        raise InvalidRequest(
            f"the user message is an instruction in a form that is not known: {HELP}", param="messages"
        )
    return _text_task(message, target, source, max_texts)


def _text_task(message: str, target: str, source: str | None, max_texts: int) -> Task:
    texts, separators, at = list[str](), list[str](), 0
    for match in _separator().finditer(message):
        if len(texts) >= max_texts:
            raise TooManyTexts(f"over {max_texts} texts in one call", param="messages")
        before, after = message[at : match.start()].rstrip(), _past_space(message, match.end())
        if before.strip() and after < len(message):
            texts.append(before)
            separators.append(message[at + len(before) : after])
            at = after
    return Task((*texts, message[at:]), target, source, separators=tuple(separators))


def _batch_task(batch: kiss.KissBatch, target: str | None) -> Task:
    target = target or tag_of(batch.target)
    if target is None:
        raise InvalidRequest(f"targetLanguage is no known language: {batch.target[:40]!r}", param="messages")
    return Task(
        batch.texts,
        target,
        segments=batch.segments,
        glossary=batch.glossary,
        keep=batch.keep,
        formality=batch.formality,
        context=batch.context,
    )


def _past_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


# ---- languages


def tag_of(name: str) -> str | None:
    """The tag of a language's tag, English or own name; None for what is none."""
    name = name.strip().strip("\"'`“”「」《》")
    return _tag_of(name) if len(name) <= _MAX_NAME else None


@lru_cache(maxsize=4096)
def _tag_of(name: str) -> str | None:
    aliases: dict[str, str] = _data()["languages"]
    return aliases.get(name) or languages.find(name)


_TRANSLATES = re.compile(r"translat|翻译|翻譯|译成|譯成|翻訳|번역", re.I)
_TO = re.compile(r"\b(?:in)?to\s+(?:the\s+)?(?:language\s+)?(?=\S)", re.I)
_FROM = re.compile(r"\bfrom\s+(?:the\s+)?(?:language\s+)?(?=\S)", re.I)
_TO_CHINESE = re.compile(r"[译譯](?:成|为|為|到)\s*(?=\S)")
_TO_JAPANESE = re.compile(r"([^\s、。（(を]{1,20})に翻訳")
_CLAUSE = re.compile(r"[^\n.,;:!?，。；：！？、]{1,80}")
_WORD = re.compile(r"\S+")
_OR = re.compile(r"\s*(?:,|/|\bor\b|\band\b)\s*", re.I)
_QUOTED = re.compile(r"[\"'`“「]([^\"'`”」\n]{1,64})[\"'`”」]")
_REACH = 200  # characters between "translate" and "to"


def _languages_of(system: str, *, has_target: bool) -> tuple[str | None, str | None]:
    """Source and target that a system message names. Raises `InvalidRequest` for one that is not about translating."""
    if not system or (has_target and system in _data()["neutral_system_messages"]):
        return None, None
    if not _TRANSLATES.search(system):
        raise InvalidRequest(f"the system message does not ask for a translation: {HELP}", param="messages")
    targets = set(_targets_in(system))
    if len(targets) > 1 and not has_target:
        names = ", ".join(sorted(targets))
        raise InvalidRequest(f"the system message names several target languages ({names}): {HELP}", param="messages")
    sources = {tag for match in _FROM.finditer(system) if (tag := _language_at(system, match.end())[0]) is not None}
    return sources.pop() if len(sources) == 1 else None, targets.pop() if len(targets) == 1 else None


def _targets_in(system: str) -> Iterator[str]:
    for match in (*_TO.finditer(system), *_TO_CHINESE.finditer(system)):
        before = system[max(match.start() - _REACH, 0) : match.end()]
        if _TRANSLATES.search(before):
            yield from _languages_at(system, match.end())
    for match in _TO_JAPANESE.finditer(system):
        if (tag := tag_of(match[1])) is not None:
            yield tag


def _languages_at(text: str, at: int) -> Iterator[str]:
    """The language whose name or tag begins there, and those that follow it after "or" and "and"."""
    tag, end = _language_at(text, at)
    while tag is not None:
        yield tag
        more = _OR.match(text, end)
        tag, end = _language_at(text, more.end()) if more else (None, end)


def _language_at(text: str, at: int) -> tuple[str | None, int]:
    """The longest beginning of up to four words that is a language, and where it ends."""
    if (quoted := _QUOTED.match(text, at)) is not None:
        return tag_of(quoted[1]), quoted.end()
    clause = _CLAUSE.match(text, at)
    words = list(_WORD.finditer(clause[0])) if clause is not None else []
    for word in reversed(words[:4]):
        name = text[at : at + word.end()]
        # Nearly all words of three letters are codes: only the last one of a clause is read as one.
        is_name = len(name) != 3 or not name.isascii() or word is words[-1]
        if is_name and name.lower() not in _data()["english_words"] and (tag := tag_of(name)) is not None:
            return tag, at + word.end()
    return None, at


# ---- templates


@dataclass(frozen=True, slots=True)
class MessageTemplate:
    """A user message as a program writes it: literal parts, and variables between them."""

    name: str
    literals: tuple[re.Pattern[str], ...]  # before each variable
    variables: tuple[str, ...]  # the last one is "text"
    tail: str  # after the text

    def match(self, message: str) -> dict[str, str] | None:
        """The values of the variables. Takes time in proportion to the message: each literal is where it is found first."""
        message = message.lstrip()
        head = self.literals[0].match(message)
        if head is None:
            return None
        values: dict[str, str] = {}
        at = head.end()
        for variable, literal in zip(self.variables, self.literals[1:], strict=False):
            reach = at + (_MAX_ANY if variable == "any" else _MAX_NAME) + 200
            found = literal.search(message, at, reach)
            if found is None:
                return None
            values[variable] = message[at : found.start()].strip()
            if variable != "any" and "\n" in values[variable]:
                return None
            at = found.end()
        at = _past_space(message, at)
        if not self.tail:
            return values | {"text": message[at:]}
        text = message[at:].rstrip()
        if not text.endswith(self.tail):
            return None
        return values | {"text": text.removesuffix(self.tail).rstrip()}


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text("utf-8"))


@cache
def _templates() -> tuple[MessageTemplate, ...]:
    return tuple(_template(entry["name"], entry["user"].strip()) for entry in _data()["template"])


def _template(name: str, user: str) -> MessageTemplate:
    parts = _VARIABLE.split(user)
    *literals, tail = parts[::2]
    return MessageTemplate(name, tuple(map(_literal, literals)), tuple(parts[1::2]), tail.strip())


def _literal(literal: str) -> re.Pattern[str]:
    """White space as any white space; a word at an edge that had some there is a whole word."""
    pattern = r"\s*".join(map(re.escape, literal.split()))
    before = r"\b" if literal[:1].isspace() and literal.lstrip()[:1].isalnum() else ""
    after = r"\b" if literal[-1:].isspace() and literal.rstrip()[-1:].isalnum() else ""
    return re.compile(before + pattern + after, re.I)


@cache
def _separator() -> re.Pattern[str]:
    """A line between texts."""
    return re.compile(rf"^[ \t]*(?:{'|'.join(map(re.escape, _data()['separators']))})[ \t]*$", re.MULTILINE)


def _check_not_refused(message: str) -> None:
    begins = message.lstrip()[:200].casefold()
    for entry in _data()["refused"]:
        if begins.startswith(entry["starts"].casefold()):
            raise InvalidRequest(f"messages of {entry['name']} are not understood: {HELP}", param="messages")


# An instruction before a text, and one that stands after a text or alone.
_FIRST_INSTRUCTION = re.compile(
    r"(?:please\s+)?translate\s+(?:the|this|that|these|following|from|to|into|below|all|my|it|everything)\b[^\n]{0,200}"
    r"|(?:you are|you're|act as|i want you to|can you|could you|your task)\b[^\n]{0,300}\btranslat[^\n]{0,300}"
    r"|[^\n。]{0,40}(?:翻译|翻譯|[译譯])(?:成|为|為|到)[^\n。]{0,40}"
    r"|[^\n。]{0,60}に(?:翻訳|訳)し[^\n]{0,40}"
    r"|[^\n]{0,60}번역[^\n]{0,40}",
    re.I,
)
_WHOLE_INSTRUCTION = re.compile(r"(?:please\s+)?translate\b.{0,400}\b(?:to|into)\b.{1,80}", re.I)


def _is_instruction(message: str, *, alone: bool) -> bool:
    """Whether a user message says what to do. `alone`: no system message says so, as programs that send texts do."""
    message = message.strip()
    first, _, rest = message.partition("\n")
    if (rest or (alone and ":" in first)) and _FIRST_INSTRUCTION.match(first) is not None:
        return True
    last = message.rpartition("\n")[2] if rest or alone else ""
    return _WHOLE_INSTRUCTION.fullmatch(last) is not None


def _has_tags(text: str) -> bool:
    """Whether a text has elements, such as the numbered tags with which plug-ins stand for a page's markup."""
    return any(f"<{found[1]}" in text for found in islice(_CLOSING_TAG.finditer(text), 3))


_CLOSING_TAG = re.compile(r"</([A-Za-z][\w-]*)\s*>")
