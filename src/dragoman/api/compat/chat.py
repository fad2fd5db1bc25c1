"""What a chat's messages ask to have translated: which texts, from and into which language, and in which form they go back.

Programs that translate through a chat model write the instruction and the texts into their messages, each in its own way. A
request is read in three questions: is it one for a translation, and into what (`chat_languages`)? What is text (`chat_text`,
by `chat_labels` and `chat_ends`)? In which form is the answer wanted (`chat_answers`)? What is read surely, and accounts for
all that the messages say (`chat_account`), is translated item by item. Messages that surely ask for a translation, and of
which the text or the form is not clear, are `UnclearPrompt`; all others that nothing explains `UnknownPrompt`. An instruction
is never translated as if it were text: a message that tells to translate into the request's own target, and that is not
explained, is no text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from typing import Any, cast

from dragoman.api.compat import (
    chat_account,
    chat_answers,
    chat_forms,
    chat_json,
    chat_labels,
    chat_languages,
    chat_text,
)
from dragoman.api.compat.chat_ends import SplitMessage
from dragoman.api.compat.chat_languages import AskedLanguages, is_same
from dragoman.api.compat.chat_languages import tag_of as tag_of
from dragoman.api.compat.chat_outline import Outline, fields_of
from dragoman.api.compat.chat_schema import outline
from dragoman.errors import InvalidRequest, NotATranslation, TooManyTexts, UnclearPrompt, UnknownPrompt
from dragoman.types import (
    MAX_EXAMPLE_CHARACTERS,
    MAX_EXAMPLES,
    Example,
    Options,
    Role,
    TextFormat,
    Translation,
)

_SPACE = re.compile(r"\s*")
_SEARCHED = 200_000  # characters of a message, and the line in which these end
_BEGINNING = 300  # characters of a message in which it says what it asks for
_MAX_TOLD = 20_000  # characters at the beginning and at the end of instructions that are read
_MAX_EARLIER = 4_000  # characters of an earlier message that may be an instruction
_CLEAR = 60  # characters of a sentence of an instruction that no text has by chance
_LONG = 150  # characters of an instruction
_SEPARATOR = re.compile(r"^[ \t]*(?:%%|==WEBLATE_PART==)[ \t]*\r?$", re.MULTILINE)
"""A line between texts, whatever the instruction says."""
TEST_SENTENCES = frozenset({"Hello", "Hi", "Hello, world!", "This is a test.", "test", "ping"})
"""What programs send without a target to test their settings: it comes back unchanged."""

_SWITCHES = ("/no_think", "/nothink", "/think")
"""What turns a model's thinking off."""

HELP = (
    "send the text alone as the user message, and the target language in the model's name (dragoman/ja), in the header "
    "X-Target-Language, or in a system message such as 'Translate to Japanese.'"
)
_NO_PART = f"the message asks for a translation, and which part of it is the text is not clear: {HELP}"


@dataclass(frozen=True, slots=True)
class Task:
    """Texts to translate. Their translations go back with `separators` between them, or as `reply` says."""

    texts: tuple[str, ...]
    target: str
    source: str | None = None
    separators: tuple[str, ...] = ()  # one fewer than texts
    reply: Outline | None = None
    options: Options = field(default_factory=Options)
    message: str | None = None  # what was read as texts
    is_test: bool = False  # of a program's settings: the text goes back unchanged
    unused: str = ""  # what of the messages is neither instruction nor text, and is not used

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
        if self.reply is not None and self.reply.is_json and (schema is None or self.message is None):
            return self
        if self.reply is None or self.message is None or (len(self.texts) > 1 and not self.reply.is_json):
            made = outline(schema, self.texts)
        else:
            made = self._by_schema(schema, self.message)
        return replace(self, texts=tuple(made.texts), separators=(), reply=made)

    def _by_schema(self, schema: Mapping[str, Any] | None, message: str) -> Outline:
        """The answer by the schema to the message, or else to what the instruction makes of it, or to its ids and texts
        alone."""
        with suppress(InvalidRequest):
            return outline(schema, (message,))
        with suppress(InvalidRequest):
            made = outline(schema, (self.write([Translation(text, "", False, "stop") for text in self.texts]),))
            if self.reply is None or len(made.texts) == len(self.texts):
                return made
            return self.reply  # which fits the schema, and has strings that are copied
        return outline(schema, (chat_json.reduced(message),))


def parse(
    messages: Sequence[tuple[Role, str]],
    target: str | None,
    max_texts: int = 10_000,
    *,
    has_schema: bool = False,
    language_of: Callable[[str], str | None] = lambda _: None,
) -> Task:
    """What the messages ask for. `target`: a language that the request names besides them, which goes before theirs.
    `has_schema`: the request has a schema of the answer, for `Task.as_json`. `language_of` detects a text's language.

    The last message is the one to translate, after the instructions of those before it; earlier pairs of a user's message and
    its answer are examples. Raises `NotATranslation` for messages that ask for something else, `UnclearPrompt` for those that
    ask for a translation whose text or form is not clear, `UnknownPrompt` for others that are not understood,
    `InvalidRequest` for those that cannot be read, and `TooManyTexts` for over `max_texts`.
    """
    if messages and _TEMPLATE.match(messages[-1][1]) is not None:
        messages = [*messages[:-1], *_turns(messages[-1][1])]
    if messages and all(role == "system" for role, _ in messages):
        messages = [*messages[:-1], ("user", messages[-1][1])]
    if not messages or messages[-1][0] != "user":
        raise InvalidRequest("the last message is not the user's; it must hold the text", param="messages")
    request = _Request.of(messages, target, language_of)
    if target is None and not request.told and request.message.strip() in TEST_SENTENCES:
        return Task((request.message,), "en", "en", is_test=True)
    return request.task(max_texts, has_schema=has_schema)


_OWN_TASK = re.compile(
    r"\s{0,99}\{[^{}]{0,2000}?\"(?:task|instructions?|action|operation)\"\s{0,9}:\s{0,9}\"[^\"\n]{0,80}translat",
    re.IGNORECASE,
)
_TEMPLATE = re.compile(r"\s{0,99}(?:<s>\s?|<bos>)?(?:<\|?\w[\w:]{0,30}\|>|<\|\w[\w:]{0,30}>|<start_of_turn>|\[INST\])")
_MARK = re.compile(r"<(?:\|[\w:]{1,30}\|?|[\w:]{1,30}\||(?:start|end)_of_turn|bos|/?s)>|\[/?INST\]|<</?SYS>>")
_ROLE = re.compile(r"[\s<|]*(system|developer|user|human|assistant|model)\b(?=[|>]|\s*(?:\n|\Z))", re.IGNORECASE)
_ROLES: Mapping[str, Role] = {
    "[INST]": "user", "[/INST]": "assistant", "<<SYS>>": "system", "<</SYS>>": "user",
    "developer": "system", "human": "user", "model": "assistant",
}  # fmt: skip
_MAX_MARKS = 1_000


def _turns(prompt: str) -> list[tuple[Role, str]]:
    """The messages of a prompt with the marks of a model's chat template, which are no text. Raises `UnclearPrompt` for a
    request to translate without roles between them."""
    marks = list(islice(_MARK.finditer(prompt), _MAX_MARKS))
    ends = [*(one.start() for one in marks[1:]), len(prompt)]
    found, role = list[tuple[Role, str]](), None
    for mark, end in zip(marks, ends, strict=True):
        text = prompt[mark.end() : end]
        named = _ROLE.match(mark[0]) or _ROLE.match(text)
        spoken = named[1].lower() if named is not None else mark[0]
        role = cast(Role, _ROLES.get(spoken, spoken)) if named is not None or spoken in _ROLES else role
        text = text[named.end() :] if named is not None and named.string is text else text
        if role is not None and text.strip():
            found.append((role, text.strip()))
    if found and found[-1][0] == "user":
        return found
    if chat_languages.asks(prompt):
        raise UnclearPrompt(_NO_PART, param="messages")
    return [("user", prompt)]


@dataclass(frozen=True, slots=True)
class _Request:
    """Messages as they are read: `told` is what they say before the last one, `said` what that means."""

    told: str
    message: str
    spelt: str  # the message with its own line ends
    named: str | None
    said: AskedLanguages
    pairs: tuple[tuple[str, str], ...]  # earlier texts, each with the answer to it; empty: there was none
    is_answered: bool  # an earlier message was an instruction with its own text
    is_framed: bool  # all messages begin with the same words of translating
    language_of: Callable[[str], str | None]

    @classmethod
    def of(
        cls, messages: Sequence[tuple[Role, str]], named: str | None, language_of: Callable[[str], str | None]
    ) -> _Request:
        """An earlier user message without a text of its own is an instruction, whatever was answered to it."""
        instructions = [text for role, text in messages if role == "system" and text.strip()]
        pairs = list[tuple[str, str]]()
        for place, (role, text) in enumerate(messages[:-1]):
            if role != "user":
                continue
            is_short = len(text) <= _MAX_EARLIER
            next_role, reply = messages[place + 1]
            is_agreed = next_role == "assistant" and chat_languages.words("agreement").match(reply) is not None
            is_request = is_short and chat_languages.tells(text) and (is_agreed or chat_text.split(text) is None)
            if next_role == "user" or is_request:
                instructions.append(text)
            else:
                pairs.append((text, reply if next_role == "assistant" else ""))
        examples = [text for text, _ in pairs[-10:]]
        told = "\n\n".join(instructions)
        if len(told) > 2 * _MAX_TOLD:
            told = f"{told[:_MAX_TOLD]}\n\n{told[-_MAX_TOLD:]}"
        told = told.replace("\r\n", "\n").strip()
        is_answered = any(len(one) <= _MAX_EARLIER and chat_languages.tells(one) for one in examples)
        message = messages[-1][1]
        if message.endswith(_SWITCHES):
            message = message.removesuffix(next(one for one in _SWITCHES if message.endswith(one))).rstrip()
        same = takewhile(
            lambda characters: len(set(characters)) == 1, zip(message[:_BEGINNING], *examples, strict=False)
        )
        is_framed = bool(examples) and chat_languages.asks("".join(characters[0] for characters in same))
        lines = message.replace("\r\n", "\n")
        said = chat_languages.read(told)
        return cls(told, lines, message, named, said, tuple(pairs), is_answered, is_framed, language_of)

    def task(self, most: int, *, has_schema: bool) -> Task:
        """What they ask for. Raises what `parse` raises."""
        self._check_task()
        form = self._form()
        described = chat_json.said(self.message) if self.said.asks or form is not None else chat_json.Said()
        part, own = self._part(form)
        if part is None and described.target is None:
            self._check_text()
        if described.target is not None:
            own = AskedLanguages(True, (described.target,), described.source)
        target = self._target(own, part)
        if part is None and form is None and described.target is None:
            self._check_language(target)
        source = own.source or (self.said.source if described.target is None else None)
        if part is not None:
            part = self._checked(part)
        text, about = (part.text, f"{self.told}\n\n{part.about}") if part is not None else (self.spelt, self.told)
        options = described.options
        if terms := chat_labels.terms(about):
            options = replace(options, glossary={**terms, **options.glossary})
        task = Task(
            (),
            target,
            source if source is not None and not is_same(source, target) else None,
            options=options,
            message=text,
            unused="examples" if self.pairs else "",
        )
        if not (own.asks or self.said.asks):
            return _separated(text, most, task)
        made = None
        with suppress(*([UnclearPrompt] if has_schema else [])):
            how = f"{about}\n{described.how}\n{self._shown()}"
            made = form.outline(text, most) if form is not None else chat_answers.read(text, how, most)
        chat_account.check_places(about, self.message)
        self._check_sign(text, made)
        if form is None and (made is not None or _SEPARATOR.search(text, 0, _SEARCHED) is None):
            chat_account.check(about, self.message, part, made, target, is_given=has_schema)
        if made is not None:
            return replace(task, texts=tuple(made.texts), reply=made)
        if examples := self._examples():
            task = replace(task, options=replace(options, examples=examples), unused="")
        return _separated(text, most, task)

    @property
    def _reply(self) -> str:
        """The beginning of the last answer before; empty: there was none."""
        return self.pairs[-1][1][:_MAX_EARLIER].strip() if self.pairs else ""

    def _shown(self) -> str:
        """The last answer before, where it is JSON: it shows the form of this one."""
        return self._reply if self._reply[:1] in ("{", "[") else ""

    def _check_sign(self, text: str, made: Outline | None) -> None:
        """Raises `UnclearPrompt` where the last answer began with a sign of structure, and this one would not."""
        reply = self._reply
        if reply[:1] not in ("{", "[", "<", "#"):
            return
        begins = "".join(made.literals[0]) if made is not None else text
        is_same = reply[:1] == begins.lstrip()[:1]
        frame = "".join("".join(parts) for parts in made.literals) if made is not None else ""
        keys = fields_of(chat_text.parsed_json(reply)) if is_same and frame[:1] == "{" else {}
        if not (is_same and all(f'"{key}"' in frame for key in keys)):
            raise UnclearPrompt(
                f"the answer would not be written as the one before is: {reply[:20]!r}", param="messages"
            )

    def _examples(self) -> tuple[Example, ...]:
        """Earlier texts, behind their instructions where they have some, with what was answered: the last that fit."""
        found = list[Example]()
        for text, reply in self.pairs[-MAX_EXAMPLES:]:
            source, translation = text.strip(), reply.strip()
            if chat_languages.tells(text[:_MAX_EARLIER]):
                part = chat_text.split(text[:_MAX_EARLIER])
                source = part.text.strip() if part is not None else ""
            if source and translation and max(len(source), len(translation)) <= MAX_EXAMPLE_CHARACTERS:
                found.append(Example(source, translation))
        return tuple(found)

    def _checked(self, part: SplitMessage) -> SplitMessage:
        """The part, without the code of its language before it.

        Raises `UnclearPrompt` where it is one text in several languages, or has the request in it.
        """
        lines = part.text.strip().split("\n", 10)
        codes = [found for line in lines if (found := _CODE_LABEL.match(line)) and chat_languages.tag_of(found[1])]
        is_labelled = len(codes) == len(lines)
        is_said = bool(self.said.targets) or chat_languages.tells(part.about)
        is_request = not is_said and not part.is_marked and any(chat_languages.requested(part.text))
        if is_request or (is_labelled and len(lines) > 1):
            raise UnclearPrompt(_NO_PART, param="messages")
        return replace(part, text=part.text.lstrip()[codes[0].end() :]) if is_labelled else part

    def _check_task(self) -> None:
        """Raises `NotATranslation` where the messages begin with another task, and `UnclearPrompt` where that is beside a
        translation."""
        other = chat_languages.words("other")
        beginning = (self.told or self.message)[:_BEGINNING]
        found = other.search(beginning)
        line = self.message.lstrip()[:_BEGINNING].partition("\n")[0].rstrip()
        is_heading = line.endswith((":", "：")) and other.match(re.sub("^[Pp]lease ", "", line)) is not None
        is_about = self.told or chat_languages.asks(self.message)
        is_other = found is not None and is_about and not chat_languages.commands(beginning)
        if is_other and self.said.targets and not is_heading:
            raise UnclearPrompt(_NO_PART, param="messages")  # a translation is wanted too
        if is_heading or is_other:
            raise NotATranslation(
                "the messages ask for something else: this server translates, and does nothing else", param="messages"
            )

    def _form(self) -> chat_forms.ProgramForm | None:
        if not (self.said.asks or self.message.lstrip()[:1] == "{" or chat_languages.asks(self.message)):
            return None
        heads = (self.told, self.message[:_MAX_TOLD])
        return next(
            (one for one in chat_forms.forms() if all(any(mark in head for head in heads) for mark in one.has)), None
        )

    def _part(self, form: chat_forms.ProgramForm | None) -> tuple[SplitMessage | None, AskedLanguages]:
        """The text of the message, if it has an instruction, and what that says."""
        if form is not None and form.cut is not None:
            before, _, rest = self.message.partition(form.cut[0])
            text, _, after = rest.rpartition(form.cut[1])
            part = SplitMessage(before, text, after, True)
        else:
            part = chat_text.split(self.message, self.told if self.said.targets else "")
            if part is not None and self.said.asks and _SEPARATOR.match(part.text.lstrip()[:_BEGINNING]) is not None:
                part = None  # what stands before a separator is a text too
        own = chat_languages.read(part.about) if part is not None else AskedLanguages()
        is_read = part is not None and (form is not None or self._is_instruction(part, own))
        return (part, own) if is_read else (None, AskedLanguages())

    def _is_instruction(self, part: SplitMessage, own: AskedLanguages) -> bool:
        """Whether what stands around a part of the message is an instruction, and not text too."""
        if self.is_framed and own.targets:
            return True
        expected = {*self.said.targets, *((self.named,) if self.named is not None else ())}
        if not own.asks or (self.said.targets and not own.targets):
            return bool(self.said.targets)
        label = part.about.strip().rstrip(":：")
        is_labelled = len(label) <= _CLEAR and chat_labels.label_kind(label) == "text"
        is_told = chat_languages.tells(part.about) or (own.targets and (part.is_marked or is_labelled))
        if not self.said.targets and not is_told:
            return False
        if own.targets and (not expected or any(is_same(one, other) for one in own.targets for other in expected)):
            return True
        # the request's language goes before that of an instruction, or the instruction names none that is known
        sentences = re.split(r"[.!?。]\s|\n", part.about)
        is_long = len(part.about.strip()) > _LONG or self.said.asks
        is_clear = is_long or (
            (part.is_marked or part.before.endswith("\n"))
            and any(len(one) > _CLEAR and chat_languages.asks(one) for one in sentences)
        )
        return not self.said.targets and (
            is_clear or (not own.targets and (self.said.asks or part.is_marked) and bool(expected))
        )

    def _check_text(self) -> None:
        """Raises for a message without an instruction that cannot be a text: nothing says what to do with it, or it does
        so itself."""
        if self.told and not self.said.asks and chat_languages.words("neutral").fullmatch(self.told) is None:
            raise UnknownPrompt(f"the system message is not understood: {HELP}", param="messages")
        requested = chat_languages.requested(self.message) if not self.said.targets else ()
        is_labelled = chat_labels.is_labelled(self.message)
        is_around = self.is_framed or chat_text.is_instructed(self.message) or is_labelled
        is_request = any(self.named is None or is_same(one, self.named) for one in requested)
        is_request = is_request or self._names_its_target() or self._leads_to_its_target()
        if is_request or (self.said.asks and is_around) or self._is_unread():
            raise UnclearPrompt(_NO_PART, param="messages")
        if self.is_answered and not self.told:
            raise UnknownPrompt(
                f"the messages before it are instructions, and the last one has none: {HELP}", param="messages"
            )

    def _names_its_target(self) -> bool:
        """Whether a message without instructions before it asks for the target that the request names, in a language of which
        few requests are known."""
        named = self.named
        asked = chat_languages.words("asks").search(self.message, 0, _BEGINNING) if not self.told else None
        if named is None or asked is None or asked.lastgroup != "others":
            return False
        return any(is_same(one, named) for one in chat_languages.read(self.message).targets)

    def _leads_to_its_target(self) -> bool:
        """Whether a line of a message leads from the name of the target that the request names to what is behind it, where no
        other message names one: in whatever words, texts hardly do so."""
        return self.named is not None and not self.said.targets and chat_languages.introduces(self.message, self.named)

    def _check_language(self, target: str) -> None:
        """Raises `UnclearPrompt` for a message that speaks of translating and is in the language into which it would be
        translated, or has a line in it that ends with a colon, before lines in another: that would come back as it is, and is
        rather a request in words that are not known."""
        language = self.language_of
        speaks = chat_languages.tells if self.told else chat_languages.asks
        is_spoken = speaks(self.message) and is_same(language(self.message[:_BEGINNING]) or "", target)
        leads = islice(_LEADING.finditer(self.message, 0, _BEGINNING), 3) if not is_spoken else ()
        is_led = any(
            is_same(language(one["line"]) or "", target)
            and not is_same(language(self.message[one.end() : one.end() + _BEGINNING]) or target, target)
            for one in leads
        )
        if is_spoken or is_led:
            raise UnclearPrompt(_NO_PART, param="messages")

    def _is_unread(self) -> bool:
        """Whether a message has a request in a place where texts have none: on a line of its own, or before a text's label."""
        message = self.message
        first = message.lstrip()[:_BEGINNING].partition("\n")[0].rstrip()
        is_left = self.said.asks and not self.said.targets  # the language is named in the last message, or not at all
        return (
            (first.endswith((":", "：")) and chat_languages.commands(first) and chat_languages.follows(first))
            or (chat_languages.words("bare_request").fullmatch(first) is not None and "\n" in message.strip())
            or (chat_languages.tells(message) and (chat_labels.is_labelled(message) or chat_labels.has_label(message)))
            or ((not self.told or is_left) and chat_labels.is_open(message) and self._may_be_asked(message))
            or (is_left and chat_languages.begins(message.lstrip()))
            or (not self.told and chat_languages.asks(message[:_BEGINNING]) and chat_text.ends_with_json(message))
            or _OWN_TASK.match(message) is not None
        )

    def _may_be_asked(self, message: str) -> bool:
        """Whether a message names the target that the request names besides it, or none."""
        targets, named = chat_languages.read(message).targets, self.named
        return not targets or named is None or any(is_same(one, named) for one in targets)

    def _target(self, own: AskedLanguages, part: SplitMessage | None) -> str:
        """The language to translate into. Raises `UnknownPrompt` where the messages name none, or several."""
        common = [one for one in own.targets if one in self.said.targets]
        for tags in (
            (self.named,) if self.named is not None else (),
            own.targets,
            common,
            () if own.targets else self.said.targets,
        ):
            if len(tags) == 1:
                return tags[0]
            about, text = (part.about, part.text) if part is not None else ("", self.message)
            if len(tags) == 2 and _EITHER.search(self.told or about):
                language = self.language_of(text[:_BEGINNING])
                others = [one for one in tags if language is not None and not is_same(one, language)]
                if len(others) == 1:
                    return others[0]
        several = ", ".join([*own.targets, *self.said.targets][:5])
        reason = (
            f"name several target languages, {several}" if several else "do not name a target language that is known"
        )
        raise UnknownPrompt(f"the messages {reason}: {HELP}", param="messages")


_LEADING = re.compile(r"^[ \t]*(?P<line>[^\n:：]{12,120})[:：][ \t]*\n\s*(?=\S)", re.MULTILINE)
_EITHER = re.compile(
    r"\b(?:if|when|otherwise|vice versa)\b|이?면\b|如果|若|否则|互[译譯]|なら|場合"
    r"|\b(\w{2,20}) (?:in)?to (\w{2,20})\b[^.\n]{0,20}\b\2 (?:in)?to \1\b",
    re.IGNORECASE,
)
"""That an instruction asks for one of two languages, by that of the text."""


def _separated(message: str, max_texts: int, task: Task) -> Task:
    """The task with the texts between the separators of a message."""
    texts, separators, at = list[str](), list[str](), 0
    for match in _found(message):
        if len(texts) >= max_texts:
            raise TooManyTexts(f"over {max_texts} texts in one call", param="messages")
        before, after = message[at : match.start()].rstrip(), _past_space(message, match.end())
        if before.strip() and after < len(message):
            texts.append(before)
            separators.append(message[at + len(before) : after])
            at = after
    texts.append(message[at:])
    return replace(task, texts=tuple(texts), separators=tuple(separators))


def _found(message: str) -> Iterator[re.Match[str]]:
    """The separators of a message, looked for in some lines at a time: while one search runs, no other thread does."""
    at = 0
    while at < len(message):
        end = message.find("\n", at + _SEARCHED)
        end = end if end >= 0 else len(message)
        yield from _SEPARATOR.finditer(message, at, end)
        at = end + 1


def _past_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _is_html(text: str) -> bool:
    """Whether a text has elements that separate sentences, or whose content is not translated."""
    ends = (found[1] for found in _END_TAG.finditer(text) if found[1].lower() in _HTML_ELEMENTS)
    return any(f"<{name}" in text for name in islice(ends, 3))


_CODE_LABEL = re.compile(r"([a-z]{2,3}(?:[-_][A-Za-z]{2,4})?): ")
_END_TAG = re.compile(
    r"</([A-Za-z][A-Za-z0-9]{0,9})\s*>"
)  # alternatives in place of the set would take 30 times as long
_HTML_ELEMENTS = frozenset(
    re.findall(
        r"\w+",
        "article blockquote body code dd div dl dt figure h1 h2 h3 h4 h5 h6 html kbd li ol p pre samp script section svg "
        "table td th tr ul",
    )
)
