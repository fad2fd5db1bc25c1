"""What a chat's messages ask to have translated: which texts, from and into which language, and in which form they go back.

Programs that translate through a chat model write the instruction and the texts into their messages, each in its own way;
`chat_templates.toml` has the ways that are known, and only what fits one of them as a whole is read as an instruction. A
message that fits none is a text where the request names the target in another way; everything else is refused, since an
instruction must not be translated as if it were text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Protocol

from dragoman import languages
from dragoman.api.compat.chat_patterns import Pattern
from dragoman.api.compat.chat_schema import outline
from dragoman.api.compat.chat_shapes import Batch, Shape
from dragoman.errors import InvalidRequest, NotATranslation, TooManyTexts, UnknownPrompt
from dragoman.types import Options, Role, TextFormat, Translation

_FILE = Path(__file__).with_name("chat_templates.toml")
_SPACE = re.compile(r"\s*")
_SEARCHED = 200_000  # characters of a message, and the line in which these end
_MAX_KEPT = 4_000  # characters of system messages whose templates are kept

HELP = (
    "send the text alone as the user message, and the target language in the model's name (dragoman/ja), in the header "
    "X-Target-Language, or in a system message such as 'Translate to Japanese.'"
)


class Reply(Protocol):
    """The form in which the translations of a batch go back."""

    @property
    def is_json(self) -> bool:
        """Whether the answer's content is JSON."""
        ...

    @property
    def end(self) -> str:
        """What stands after the last translation."""
        ...

    def piece(self, index: int, text: str, translation: Translation) -> str:
        """What the answer's content has for a text, with what stands before it."""
        ...


@dataclass(frozen=True, slots=True)
class ShapedReply:
    """The form of a program, with the ids of the texts and the variables of its instruction."""

    shape: Shape
    ids: tuple[object, ...]
    variables: Mapping[str, str]

    @property
    def is_json(self) -> bool:
        """See `Reply`."""
        return self.shape.begin[:1] in ("{", "[")

    @property
    def end(self) -> str:
        """See `Reply`."""
        return self.shape.end

    def piece(self, index: int, text: str, translation: Translation) -> str:
        """See `Reply`."""
        return self.shape.write(index, self.ids[index], text, translation, self.variables)


@dataclass(frozen=True, slots=True)
class Task:
    """Texts to translate. Their translations go back with `separators` between them, or as `reply` says."""

    texts: tuple[str, ...]
    target: str
    source: str | None = None
    separators: tuple[str, ...] = ()  # one fewer than texts
    reply: Reply | None = None
    options: Options = field(default_factory=Options)
    template: str | None = None  # the name of what explained the messages

    @property
    def format(self) -> TextFormat:
        """HTML where a text has elements that only HTML explains. All others keep their tags and their line breaks as texts."""
        return "html" if any(map(_is_html, self.texts)) else "text"

    @property
    def end(self) -> str:
        """What stands after the last translation."""
        return self.reply.end if self.reply is not None else ""

    def before(self, index: int) -> str:
        """What stands before a text that goes back as it is, and after the last one."""
        return self.separators[index - 1] if 0 < index <= len(self.separators) else ""

    def piece(self, index: int, translation: Translation) -> str:
        """What the answer's content has for a text, with what stands before it."""
        if self.reply is None:
            return self.before(index) + translation.text
        return self.reply.piece(index, self.texts[index], translation)

    def write(self, translations: Sequence[Translation]) -> str:
        """The answer's content."""
        return "".join(self.piece(index, one) for index, one in enumerate(translations)) + self.end

    def as_json(self, schema: Mapping[str, Any] | None) -> Task:
        """The task with an answer in JSON: the program's own form where it is JSON, else by the schema (None: any JSON).

        Raises `InvalidRequest` for a schema that the message does not fit.
        """
        if self.reply is not None and self.reply.is_json:
            return self
        made = outline(schema, self.texts)
        return replace(self, texts=tuple(made.texts), separators=(), reply=made)


def parse(messages: Sequence[tuple[Role, str]], target: str | None, max_texts: int = 10_000) -> Task:
    """What the messages ask for. `target`: a language that the request names besides them, which goes before theirs.

    The last message is the one to translate; users' messages before it, each with its answer, are not read. Raises
    `NotATranslation` for messages that are known to ask for something else, `UnknownPrompt` for those that no template
    explains, `InvalidRequest` for those that cannot be read, and `TooManyTexts` for over `max_texts`.
    """
    if not messages or messages[-1][0] != "user":
        raise InvalidRequest("the last message is not the user's; it must hold the text", param="messages")
    talk = [role for role, _ in messages if role != "system"]
    if ("user", "user") in pairwise(talk):
        raise UnknownPrompt(f"two user messages follow each other: {HELP}", param="messages")
    message = messages[-1][1]
    system = "\n\n".join(text for role, text in messages if role == "system").replace("\r\n", "\n").strip()
    stripped, unread = message.strip() + "\n" * message.endswith("\n"), ""
    for template, described in _candidates(system, stripped[:1].lower()):
        values = template.match(message, stripped, described)
        if values is not None and (task := _task(template, values, target, max_texts)) is not None:
            return task
        if values is not None and any(user.before.pattern for user in template.users):
            unread = template.name
    if unread:
        raise UnknownPrompt(
            f"the message has the instruction of {unread}, and its texts cannot be read: {HELP}", param="messages"
        )
    if system and _first(_data().neutral, system) is None:
        raise UnknownPrompt(f"the system message and the user's have no known form together: {HELP}", param="messages")
    if any(_is_instruction(text) for role, text in messages[:-1] if role == "user"):
        raise UnknownPrompt(
            f"the messages before it are instructions, and the last one has no known form: {HELP}", param="messages"
        )
    if target is None:
        raise UnknownPrompt(f"the messages do not name a target language: {HELP}", param="messages")
    return _separated(message, _data().separators, max_texts, Task((), target))


# ---- templates


@dataclass(frozen=True, slots=True)
class Template:
    """How a program writes its messages: the user message as one of `users` (none: it is the text), and the system message as
    one of `systems` (none: there is none, or one that only describes a translator)."""

    name: str
    users: tuple[Pattern, ...]
    systems: tuple[Pattern, ...]
    shape: Shape | None = None
    separators: re.Pattern[str] | None = None
    terms: tuple[Pattern, ...] = ()  # a line of its glossary
    is_translation: bool = True

    def match(self, message: str, stripped: str, described: Mapping[str, str]) -> Mapping[str, str] | None:
        """The values of the variables, with the text; None where the user message does not fit. `stripped`: it without white
        space around it; `described`: the values of the system message."""
        user = _first(self.users, stripped) if self.users else {"text": message}
        if user is None or any(user.get(name, "") not in ("", value) for name, value in described.items()):
            return None
        return {**described, **user}


def _task(template: Template, values: Mapping[str, str], target: str | None, max_texts: int) -> Task | None:
    """The task that a template with these values makes of the messages; None where the texts have another form.

    Raises `NotATranslation`, and `UnknownPrompt` for a language that is not known.
    """
    if not template.is_translation:
        raise NotATranslation(f"{template.name}: this server translates, and does nothing else", param="messages")
    batch: Batch | None = None
    if template.shape is not None and (batch := template.shape.read(values["text"], values, max_texts)) is None:
        return None
    to, source = (batch.target if batch else "") or values.get("to", ""), tag_of(values.get("from", ""))
    target = target or tag_of(to)
    if target is None:
        reason = f"{to[:40]!r} is not a known language" if to else "the messages do not name a target language"
        raise UnknownPrompt(f"{reason}: {HELP}", param="messages")
    lines = (values.get("terms") or values.get("pairs", "")).splitlines()
    found = (_first(template.terms, line.strip()) for line in lines)
    terms = {term["source"]: term["translation"] for term in found if term is not None}
    task = Task((), target, source, options=Options(glossary=terms), template=template.name)
    if batch is None or template.shape is None:
        return _separated(values["text"], template.separators or _data().separators, max_texts, task)
    variables = {name: value for name, value in values.items() if name != "text"}
    return Task(
        batch.texts,
        target,
        tag_of(batch.source) or source,
        reply=ShapedReply(template.shape, batch.ids, variables),
        options=replace(batch.options, glossary={**terms, **batch.options.glossary}),
        template=template.name,
    )


def _separated(message: str, separator: re.Pattern[str], max_texts: int, task: Task) -> Task:
    """The task with the texts between the separators of a message."""
    texts, separators, at = list[str](), list[str](), 0
    for match in _found(separator, message):
        if len(texts) >= max_texts:
            raise TooManyTexts(f"over {max_texts} texts in one call", param="messages")
        before, after = message[at : match.start()].rstrip(), _past_space(message, match.end())
        if before.strip() and after < len(message):
            texts.append(before)
            separators.append(message[at + len(before) : after])
            at = after
    texts.append(message[at:])
    return replace(task, texts=tuple(texts), separators=tuple(separators))


def _found(separator: re.Pattern[str], message: str) -> Iterator[re.Match[str]]:
    """The separators of a message, looked for in some lines at a time: while one search runs, no other thread does."""
    at = 0
    while at < len(message):
        end = message.find("\n", at + _SEARCHED)
        end = end if end >= 0 else len(message)
        yield from separator.finditer(message, at, end)
        at = end + 1


def _past_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _first(patterns: Sequence[Pattern], message: str) -> Mapping[str, str] | None:
    """The values of the first pattern that fits. One that a text may have by chance fits only with languages that are known."""
    start = message[:1].lower()
    for pattern in patterns:
        values = pattern.match(message) if pattern.may_start(start) else None
        if values is not None and (pattern.is_strong or _has_languages(values)):
            return values
    return None


def _has_languages(values: Mapping[str, str]) -> bool:
    target, source = values.get("to"), values.get("from")
    is_source = source is None or tag_of(source) is not None or source.casefold() in _data().no_languages
    return is_source and (target is None or tag_of(target) is not None)


def _candidates(system: str, start: str) -> Sequence[tuple[Template, Mapping[str, str]]]:
    """The templates that a system message fits, with its values ({} of none), and one of whose user messages begins so."""
    kept = _kept_candidates if len(system) <= _MAX_KEPT else _kept_candidates.__wrapped__
    return kept(system, start)


@lru_cache(maxsize=2048)
def _kept_candidates(system: str, start: str) -> Sequence[tuple[Template, Mapping[str, str]]]:
    persona: Mapping[str, str] | None = _first(_data().personas, system) if system else {}
    starting = (one for one in _data().templates if not one.users or any(user.may_start(start) for user in one.users))
    described = ((one, _first(one.systems, system) if one.systems else persona) for one in starting)
    return [(template, values) for template, values in described if values is not None]


def _is_instruction(message: str) -> bool:
    message = message.strip()
    patterns = (one for template in _data().templates for one in template.users if one.starts)
    return _first(tuple(patterns), message) is not None


def _is_html(text: str) -> bool:
    """Whether a text has elements that separate sentences, or whose content is not translated."""
    ends = (found[1] for found in _END_TAG.finditer(text) if found[1].lower() in _HTML_ELEMENTS)
    return any(f"<{name}" in text for name in islice(ends, 3))


_END_TAG = re.compile(
    r"</([A-Za-z][A-Za-z0-9]{0,9})\s*>"
)  # alternatives in place of the set would take 30 times as long
_HTML_ELEMENTS = frozenset(
    {
        "article",
        "blockquote",
        "body",
        "code",
        "dd",
        "div",
        "dl",
        "dt",
        "figure",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "html",
    }
    | {"kbd", "li", "ol", "p", "pre", "samp", "script", "section", "svg", "table", "td", "th", "tr", "ul"}
)


# ---- languages


def tag_of(name: str) -> str | None:
    """The tag of a language's tag, English or own name; None for what is none."""
    name = name.strip().strip("\"'`“”「」《》")
    return _tag_of(name) if len(name) <= languages.MAX_TAG_CHARACTERS else None


@lru_cache(maxsize=4096)
def _tag_of(name: str) -> str | None:
    return _data().languages.get(name.casefold()) or languages.find(name) or _with_region(name)


def _with_region(name: str) -> str | None:
    """The tag of "German (Germany)", as .NET and CLDR write regions that need not be said."""
    language, _, region = name.partition(" (")
    return languages.find(language) if region.endswith(")") else None


# ---- the file


@dataclass(frozen=True, slots=True)
class _Data:
    templates: tuple[Template, ...]
    neutral: tuple[Pattern, ...]
    personas: tuple[Pattern, ...]
    separators: re.Pattern[str]
    languages: Mapping[str, str]  # by casefolded name
    no_languages: frozenset[str]


@cache
def _data() -> _Data:
    data = tomllib.loads(_FILE.read_text("utf-8"))
    shapes = {name: _shape(entry) for name, entry in data["shape"].items()}
    return _Data(
        tuple(_template(entry, shapes) for entry in data["template"]),
        _patterns(data["neutral"]),
        _patterns(data["neutral"] + data["personas"]),
        _separator(data["separators"]),
        {name.casefold(): tag for name, tag in data["languages"].items()},
        frozenset(data["no_languages"]),
    )


def _shape(entry: dict[str, Any]) -> Shape:
    fields: dict[str, Any] = entry | {"context": tuple(entry.get("context", ()))}
    return Shape(**fields)


def _template(entry: dict[str, Any], shapes: Mapping[str, Shape]) -> Template:
    return Template(
        entry["name"],
        _patterns(entry.get("user", ())),
        _patterns(entry.get("system", ())),
        shapes[entry["shape"]] if "shape" in entry else None,
        _separator(entry["separators"]) if "separators" in entry else None,
        _patterns(entry.get("terms", ())),
        entry.get("translates", True),
    )


def _patterns(given: str | list[str]) -> tuple[Pattern, ...]:
    return tuple(map(Pattern.of, [given] if isinstance(given, str) else given))


def _separator(separators: Sequence[str]) -> re.Pattern[str]:
    """A line between texts."""
    return re.compile(rf"^[ \t]*(?:{'|'.join(map(re.escape, separators))})[ \t]*\r?$", re.MULTILINE)
