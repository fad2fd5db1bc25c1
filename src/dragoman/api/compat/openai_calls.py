"""What the routes of OpenAI's API share: errors, messages, the form of the answer, and the way to a translation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol

from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from dragoman.api.answers import EventStream, EventWriter, JsonResponse, while_connected
from dragoman.api.compat import chat, chat_languages
from dragoman.api.compat.chat_outline import fields_of
from dragoman.api.errors import Fault, foreign_format
from dragoman.api.input import call_of, check_texts, worked
from dragoman.api.schemas import Items
from dragoman.errors import DragomanError, InvalidRequest, UnclearPrompt, UnknownPrompt
from dragoman.service.planner import UNDETERMINED
from dragoman.service.service import TranslationService
from dragoman.types import (
    Account,
    ApiName,
    Chat,
    Role,
    TextDelta,
    TextDone,
    TextFormat,
    Translation,
    TranslationRequest,
    Usage,
)

TARGET_HEADER = "X-Target-Language"
PASSED_HEADER = "X-Prompt-Passed"
EXAMPLES_HEADER = "X-Examples-Used"
"""How many examples the prompts of an answer had that is no stream; absent: none."""
TEST_HEADER = "X-Prompt-Test"
UNUSED_HEADER = "X-Prompt-Unused"
_INCOMPLETE = ("length", "repetition")


# ---- errors

# Clients retry 429 and what is over 499.
_STATUSES = {"unauthenticated": 401, "invalid_key": 401, "quota_exceeded": 429}
# Codes of the native API -> type and code of OpenAI's, where these are others.
_ERRORS = {
    "unauthenticated": ("invalid_request_error", "invalid_api_key"),
    "invalid_key": ("invalid_request_error", "invalid_api_key"),
    "forbidden": ("permission_error", "forbidden"),
    "quota_exceeded": ("insufficient_quota", "insufficient_quota"),
    "rate_limited": ("requests", "rate_limit_exceeded"),
    "queue_full": ("requests", "rate_limit_exceeded"),
}


_INCORRECT = "Incorrect API key provided"
"""The words for a wrong key that libraries look for."""


def error_body(status: int, error: Fault | DragomanError) -> dict[str, Any]:
    """What went wrong, in OpenAI's shape."""
    type_ = "invalid_request_error" if status < 500 else "server_error"
    type_, code = _ERRORS.get(error.code, (type_, error.code))
    message = f"{_INCORRECT}: {error.message}" if error.code == "invalid_key" else error.message
    return {"error": {"message": message, "type": type_, "param": error.param, "code": code}}


ERROR_FORMAT = foreign_format(_STATUSES, error_body)


# ---- requests


MAX_MESSAGES = 2_000
"""Of one chat: in each it is looked whether it is an instruction."""
MAX_PARTS, MAX_TOOLS = 10_000, 1_000
"""Of one message, and of one request."""


class ChatContentPart(BaseModel):
    """A part of a message's content; only text is understood."""

    type: str
    text: str = ""


Parts = Annotated[Items[ChatContentPart], Field(max_length=MAX_PARTS)]


class ChatMessage(BaseModel):
    """A message of the chat."""

    role: str
    content: str | Parts | None = None


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """What an answer is: a text, or JSON by a schema (None: any JSON), or the arguments of a call of `function`."""

    is_json: bool = False
    schema: Mapping[str, Any] | None = None
    function: str | None = None

    @classmethod
    def of(cls, form: Mapping[str, Any] | None, functions: Mapping[str, Any], choice: object) -> AnswerForm:
        """`form`: with `type` and, in one way or the other, `schema`. `functions`: their parameters by name, of which `choice`
        may demand one. Raises `InvalidRequest` for a form that is not served."""
        chosen = fields_of(choice)
        if chosen or choice == "required":
            name = str(fields_of(chosen.get("function")).get("name") or chosen.get("name") or next(iter(functions), ""))
            if name not in functions or (not chosen and len(functions) > 1):
                raise InvalidRequest(
                    "tool_choice: it demands a call of none, or of any of several functions", param="tools"
                )
            return cls(True, functions[name], name)
        form = form or {}
        kind = form.get("type", "text")
        if kind == "text":
            return cls()
        if kind not in ("json_object", "json_schema"):
            raise InvalidRequest(f"response_format: {str(kind)[:40]!r} is not served", param="response_format")
        given = fields_of(form.get("json_schema", form)).get("schema") if kind == "json_schema" else None
        return cls(True, fields_of(given) if given is not None else None)


_ROLES: Mapping[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_TEXT_PARTS = ("text", "input_text", "output_text")


def read_messages(messages: Sequence[ChatMessage], name: str = "messages") -> list[tuple[Role, str]]:
    """Roles and texts. Raises `InvalidRequest` for a role or a content that is not served, in the field `name`."""
    found: list[tuple[Role, str]] = []
    for index, message in enumerate(messages):
        role = _ROLES.get(message.role)
        if role is None:
            raise InvalidRequest(f"{name}.{index}: the role {message.role[:40]!r} is not served", param=name)
        text = message.content or ""
        if not isinstance(text, str):
            others = next((part.type for part in text if part.type not in _TEXT_PARTS), None)
            text = "".join(part.text for part in text if part.type in _TEXT_PARTS)
            if others is not None and not text.strip():
                raise InvalidRequest(f"{name}.{index}: content of type {others[:40]!r} is not text", param=name)
        found.append((role, text))
    return found


def _named_target(model: str | None, http: Request, service: TranslationService) -> str | None:
    """The language that the header or the model's name has. Raises `InvalidRequest` for one that is none."""
    if header := http.headers.get(TARGET_HEADER):
        if (tag := chat.tag_of(header)) is None:
            raise InvalidRequest(f"{TARGET_HEADER}: {header[:40]!r} is not a known language", param=TARGET_HEADER)
        return tag
    name, slash, suffix = (model or "").rpartition("/")
    if not slash or name not in ("dragoman", service.model.name) or model == service.model.name:
        return None
    if (tag := chat.tag_of(suffix)) is None:
        raise InvalidRequest(f"model: {suffix[:40]!r} is not a known language", param="model")
    return tag


def _read_task(
    messages: Sequence[tuple[Role, str]], target: str | None, service: TranslationService, form: AnswerForm
) -> tuple[chat.Task, TextFormat]:
    """What the messages ask for in this form, and the texts' format. Raises what `chat.parse` and `Task.as_json` raise."""
    task = chat.parse(
        messages,
        target,
        service.settings.server.max_texts,
        has_schema=form.schema is not None,
        language_of=lambda text: service.calls.detect(text).language,
    )
    if form.is_json:
        try:
            task = task.as_json(form.schema)
        except UnclearPrompt:
            raise
        except InvalidRequest as error:
            if any(chat_languages.asks(text) for _, text in messages):
                raise UnclearPrompt(error.message, param=error.param) from None
            raise
    return task, task.format


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call asks for."""

    task: chat.Task
    request: TranslationRequest
    form: AnswerForm

    @property
    def marker(self) -> dict[str, Any]:
        """What the answer has to say that the model was given the messages as they are."""
        return {"dragoman": {"passed": True}} if self.request.chat is not None else {}

    @property
    def headers(self) -> dict[str, str]:
        """The answer's headers that say so, and what else became of the messages."""
        marks = {
            PASSED_HEADER: "true" if self.request.chat is not None else "",
            TEST_HEADER: "true" if self.task.is_test else "",
            UNUSED_HEADER: self.task.unused,
        }
        return {name: value for name, value in marks.items() if value}

    @classmethod
    async def of(
        cls,
        http: Request,
        service: TranslationService,
        account: Account,
        model: str | None,
        messages: Sequence[tuple[Role, str]],
        form: AnswerForm,
        *,
        api: ApiName = "openai",
        consecutive: bool = False,
        max_tokens: int | None = None,
    ) -> Asked:
        """`max_tokens`: of the answer to messages that are not understood, where the model is given these.

        Raises `UnknownPrompt` where it is not, `InvalidRequest` for messages that cannot be read, and what `check_texts` and
        `call_of` raise."""
        named = _named_target(model, http, service)
        try:
            task, format_ = await worked(len(await http.body()), _read_task, messages, named, service, form)
        except UnknownPrompt as error:
            mode = service.settings.openai.unknown_prompts
            if mode == "refuse" or (mode == "auto" and not isinstance(error, UnclearPrompt)):
                raise
            if reason := _why_refused(service, account, form):
                raise type(error)(f"{error.message}; it is not passed on: {reason}", param=error.param) from None
            texts = await check_texts(service, "".join(text for _, text in messages), "messages")
            is_limited = max_tokens is not None and max_tokens > 0  # some programs send -1 for no limit
            passed = Chat(tuple(messages), max_tokens if is_limited else None, form.is_json)
            request = TranslationRequest(texts, UNDETERMINED, chat=passed)
            return cls(chat.Task(texts, UNDETERMINED), call_of(http, account, api, request), form)
        if task.options.examples and not service.calls.translator.planner.prompts.takes_examples:
            task = replace(task, options=replace(task.options, examples=()), unused="examples")
        given = task.texts[0] if len(task.texts) == 1 else list(task.texts)
        texts = await check_texts(service, given, "messages", allow_empty=task.reply is not None)
        request = TranslationRequest(
            texts,
            task.target,
            task.source,
            format=format_,
            options=task.options,
        )
        return cls(task, call_of(http, account, api, request, consecutive=consecutive), form)


def _why_refused(service: TranslationService, account: Account, form: AnswerForm) -> str:
    """Why messages that are not understood are not given to the model; empty: they are."""
    encoder = service.calls.translator.planner.prompts
    if not encoder.profile.follows_instructions:
        return f"the profile {encoder.profile.name!r} is that of a model that translates, and does nothing else"
    if not encoder.takes_chats:
        return "the model has no chat template"
    if account.languages:
        return "this key is limited to target languages"
    return "the model is not shown the schema of the answer" if form.schema is not None else ""


# ---- answers


class AnswerWriter(EventWriter, Protocol):
    """An API's answer to one call, as events or as one object."""

    def whole(self, translations: list[Translation]) -> dict[str, Any]:
        """The answer as one object."""
        ...


async def answer_call(
    http: Request,
    service: TranslationService,
    asked: Asked,
    writer: AnswerWriter,
    *,
    streamed: bool,
    stream: type[EventStream] = EventStream,
) -> Response:
    """The answer to a call: a `stream`, or one object. Raises what a call raises, and `ClientGone`."""
    if streamed:
        events = service.calls.events(asked.request, streamed=True)
        return stream(events, writer, len(asked.request.texts), asked.headers)
    async with while_connected(http.receive):
        translations = await service.calls.translate(asked.request)
    headers = asked.headers
    if examples := sum(len(one.examples) for one in translations):
        headers[EXAMPLES_HEADER] = str(examples)
    return JsonResponse(writer.whole(translations), headers=headers)


def is_incomplete(translations: Sequence[Translation]) -> bool:
    """Whether a translation may lack its end."""
    return any(one.finish_reason in _INCOMPLETE for one in translations)


@dataclass(frozen=True, slots=True)
class Tokens:
    """What generating the texts cost, or would have cost where the cache had them; `cached` of the prompt's tokens."""

    prompt: int
    cached: int
    completion: int

    @classmethod
    def of(cls, translations: Sequence[Translation]) -> Tokens:
        """Those of all texts."""
        usage = sum((one.usage for one in translations), Usage())
        cached = usage.cached_prompt_tokens
        return cls(usage.prompt_tokens + cached, cached, usage.completion_tokens + usage.cached_completion_tokens)

    @property
    def total(self) -> int:
        """The prompt's and the completion's."""
        return self.prompt + self.completion


class Contents:
    """The content of a streamed answer: the texts in order, with what the answer's form has between them."""

    def __init__(self, task: chat.Task) -> None:
        self._task = task
        self._parts: dict[int, list[str]] = {}  # of texts whose turn it is not yet
        self._done: dict[int, Translation] = {}
        self._turn = 0

    @property
    def translations(self) -> list[Translation]:
        """Those of all texts, after the last event."""
        return [self._done[index] for index in range(len(self._done))]

    def add(self, event: TextDelta | TextDone) -> str:
        """The content that an event adds: nothing where its text's turn has not come."""
        if isinstance(event, TextDone):
            self._done[event.index] = event.translation
        elif self._task.reply is None:
            self._parts.setdefault(event.index, []).append(event.text)
        return "".join(self._ready())

    def _ready(self) -> Iterator[str]:
        """What can be sent: of a batch's form only texts that are done."""
        while self._turn < len(self._task.texts):
            done = self._done.get(self._turn)
            if self._task.reply is not None:
                if done is None:
                    return
                yield self._task.piece(self._turn, done)
            else:
                yield from self._parts.pop(self._turn, ())
                if done is None:
                    return
                yield self._task.before(self._turn + 1)
            self._turn += 1
