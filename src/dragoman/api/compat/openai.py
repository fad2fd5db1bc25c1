"""OpenAI's chat completions and completions, for clients that translate through a chat model, and its models.

`chat` reads the messages; a prompt of `/v1/completions` is one message. Parameters of sampling are accepted and not used. The
Responses API is in `openai_responses`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from dragoman.api import native, schemas
from dragoman.api.answers import json_bytes
from dragoman.api.compat.openai_calls import (
    ERROR_FORMAT,
    MAX_MESSAGES,
    MAX_TOOLS,
    AnswerForm,
    Asked,
    ChatMessage,
    Contents,
    Tokens,
    answer_call,
    error_body,
    is_incomplete,
    read_messages,
)
from dragoman.api.errors import ErrorFormat
from dragoman.api.input import NEEDS_KEY, Caller, KeyFirstRoute, Service
from dragoman.api.middleware import current_id
from dragoman.api.schemas import Items
from dragoman.errors import DragomanError, InvalidRequest
from dragoman.types import Role, TextDelta, TextDone, Translation

router = APIRouter(route_class=KeyFirstRoute)

ERROR_FORMATS: dict[str, ErrorFormat] = dict.fromkeys(
    ("/v1/chat/", "/v1/completions", "/v1/models", "/chat/"), ERROR_FORMAT
)


# ---- requests


class ChatStreamOptions(BaseModel):
    """What a stream has besides the deltas."""

    include_usage: bool | None = None


class ChatFunction(BaseModel):
    """A function that a model could call: its arguments have the form of a JSON schema."""

    name: str
    parameters: dict[str, Any] | None = None


class ChatTool(BaseModel):
    """A tool; functions are known."""

    type: str
    function: ChatFunction | None = None


class ChatBody(BaseModel):
    """`POST /v1/chat/completions`: the fields that are used or refused. Others are accepted and not used."""

    model: str | None = None  # `dragoman/ja`, or the model's name and `/ja`, names the target language
    messages: Annotated[Items[ChatMessage], Field(max_length=MAX_MESSAGES)]
    stream: bool | None = None
    stream_options: ChatStreamOptions | None = None
    consecutive: bool = False  # this server's own: the texts of a message with several follow each other
    n: int | None = None
    tools: Annotated[Items[ChatTool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: str | dict[str, Any] | None = None
    functions: list[Any] | None = None
    response_format: dict[str, Any] | None = None
    max_tokens: int | None = None  # of the answer to a prompt that is passed on; a translation is limited by its text
    max_completion_tokens: int | None = None


class CompletionBody(BaseModel):
    """`POST /v1/completions`: the fields that are used or refused. Others are accepted and not used."""

    model: str | None = None
    prompt: str | Items[str]
    stream: bool | None = None
    stream_options: ChatStreamOptions | None = None
    n: int | None = None
    suffix: str | None = None
    echo: bool | None = None
    max_tokens: int | None = None


def _check_supported(body: ChatBody | CompletionBody, *refused: str) -> None:
    """Raises `InvalidRequest` for what changes the answer's meaning and is not served."""
    if body.n is not None and body.n != 1:
        raise InvalidRequest(f"n is {body.n}; this server returns one translation", param="n")
    for name in refused:
        if getattr(body, name):
            raise InvalidRequest(f"{name}: this server translates, and does nothing else", param=name)


# ---- answers


@router.post("/v1/chat/completions")
@router.post("/chat/completions")  # of programs that are given the address without /v1
async def complete_chat(body: ChatBody, http: Request, service: Service, account: Caller) -> Response:
    """Translate as a chat model: the content of the answer is the translation of the text in the last user message."""
    _check_supported(body, "functions")
    offered = (one.function for one in body.tools or ())
    functions = {one.name: one.parameters or {} for one in offered if one is not None}
    form = AnswerForm.of(body.response_format, functions, body.tool_choice)
    messages = read_messages(body.messages)
    asked = await Asked.of(
        http,
        service,
        account,
        body.model,
        messages,
        form,
        consecutive=body.consecutive,
        max_tokens=body.max_completion_tokens or body.max_tokens,
    )
    writer = _ChatWriter(asked, service.model.name, with_usage=_with_usage(body.stream_options, body.stream))
    return await answer_call(http, service, asked, writer, streamed=bool(body.stream))


@router.post("/v1/completions")
async def complete(body: CompletionBody, http: Request, service: Service, account: Caller) -> Response:
    """Translate as a model: the text of the answer is the translation of the text in the prompt."""
    _check_supported(body, "suffix", "echo")
    prompts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
    if len(prompts) != 1:
        raise InvalidRequest(f"prompt: {len(prompts)} prompts; this server takes one in a request", param="prompt")
    messages: list[tuple[Role, str]] = [("user", prompts[0])]
    asked = await Asked.of(http, service, account, body.model, messages, AnswerForm(), max_tokens=body.max_tokens)
    writer = _TextWriter(asked, service.model.name, with_usage=_with_usage(body.stream_options, body.stream))
    return await answer_call(http, service, asked, writer, streamed=bool(body.stream))


@router.get("/v1/models/{id:path}", dependencies=[NEEDS_KEY])
async def get_model(id: str, service: Service) -> schemas.ModelOut:
    """The served model, under its name or one that names a target language: `dragoman/ja`."""
    if id not in native.model_ids(service) and id != "dragoman":
        raise HTTPException(404, f"the model {id[:100]!r} does not exist: GET /v1/models lists them")
    return native.model_out(service, id)


def _with_usage(options: ChatStreamOptions | None, stream: bool | None) -> bool:
    return bool(stream) and options is not None and bool(options.include_usage)


class _Writer(ABC):
    """An answer as one object, or as chunks. Of a chunk with content only the content is serialised.

    Its subclasses say what an answer and a chunk have as their one choice.
    """

    kind = chunk_kind = ""

    def __init__(self, asked: Asked, model: str, *, with_usage: bool) -> None:
        self.asked = asked
        self._common = {"id": self.new_id(), "created": int(time.time()), "model": model} | asked.marker
        self._with_usage = with_usage
        self._contents = Contents(asked.task)
        self._has_started = False

    @abstractmethod
    def new_id(self) -> str:
        """The answer's id."""

    @abstractmethod
    def message(self, content: str) -> dict[str, Any]:
        """The choice of a whole answer."""

    @abstractmethod
    def first(self) -> dict[str, Any]:
        """The choice of a first chunk without content; {}: there is none."""

    @abstractmethod
    def delta(self, content: str | None) -> dict[str, Any]:
        """The choice of a chunk; None: of the last one."""

    def whole(self, translations: list[Translation]) -> dict[str, Any]:
        """The answer as one object."""
        reason = self._finish_reason(translations)
        choice = {
            "index": 0,
            **self.message(self.asked.task.write(translations)),
            "finish_reason": reason,
            "logprobs": None,
        }
        return self._common | {"object": self.kind, "choices": [choice], "usage": _usage(translations)}

    def write(self, event: TextDelta | TextDone) -> bytes:
        """The chunk with what an event adds to the content."""
        return self._start() + self._content(self._contents.add(event))

    def end(self, error: DragomanError | None) -> bytes:
        """What the answer's form ends with, why it ended, what it cost, and `[DONE]`; or the error."""
        if error is not None:
            return b"data: %b\n\n" % json_bytes(error_body(error.status, error))
        translations = self._contents.translations
        chunks = [self._start(), self._content(self.asked.task.end)]
        chunks.append(self._chunk(self.delta(None), self._finish_reason(translations)))
        if self._with_usage:
            no_choices: list[object] = []
            usage = self._common | {"object": self.chunk_kind, "choices": no_choices, "usage": _usage(translations)}
            chunks.append(b"data: %b\n\n" % json_bytes(usage))
        return b"".join((*chunks, b"data: [DONE]\n\n"))

    def _finish_reason(self, translations: Sequence[Translation]) -> str:
        if is_incomplete(translations):
            return "length"
        return "tool_calls" if self.asked.form.function is not None else "stop"

    def _start(self) -> bytes:
        if self._has_started or not (first := self.first()):
            return b""
        self._has_started = True
        return self._chunk(first)

    @cached_property
    def _around_content(self) -> tuple[bytes, bytes]:
        before, after = self._chunk(self.delta("\0")).split(b'"\\u0000"')
        return before, after

    def _content(self, content: str) -> bytes:
        before, after = self._around_content
        return before + json_bytes(content) + after if content else b""

    def _chunk(self, of_kind: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, **of_kind, "finish_reason": reason, "logprobs": None}
        no_usage = {"usage": None} if self._with_usage else {}
        chunk = self._common | {"object": self.chunk_kind, "choices": [choice]} | no_usage
        return b"data: %b\n\n" % json_bytes(chunk)


class _ChatWriter(_Writer):
    """A chat completion, whose message is a text or a call of a function."""

    kind, chunk_kind = "chat.completion", "chat.completion.chunk"

    def new_id(self) -> str:
        return f"chatcmpl-{current_id()}"

    def message(self, content: str) -> dict[str, Any]:
        if (name := self.asked.form.function) is None:
            return {"message": {"role": "assistant", "content": content, "refusal": None}}
        call = {"id": f"call_{current_id()}", "type": "function", "function": {"name": name, "arguments": content}}
        return {"message": {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}}

    def first(self) -> dict[str, Any]:
        if (name := self.asked.form.function) is None:
            return {"delta": {"role": "assistant", "content": ""}}
        function = {"name": name, "arguments": ""}
        call = {"index": 0, "id": f"call_{current_id()}", "type": "function", "function": function}
        return {"delta": {"role": "assistant", "content": None, "tool_calls": [call]}}

    def delta(self, content: str | None) -> dict[str, Any]:
        if content is None:
            return {"delta": {}}
        if self.asked.form.function is None:
            return {"delta": {"content": content}}
        return {"delta": {"tool_calls": [{"index": 0, "function": {"arguments": content}}]}}


class _TextWriter(_Writer):
    """A completion."""

    kind = chunk_kind = "text_completion"

    def new_id(self) -> str:
        return f"cmpl-{current_id()}"

    def message(self, content: str) -> dict[str, Any]:
        return {"text": content}

    def first(self) -> dict[str, Any]:
        return {}

    def delta(self, content: str | None) -> dict[str, Any]:
        return {"text": content or ""}


def _usage(translations: Sequence[Translation]) -> dict[str, Any]:
    tokens = Tokens.of(translations)
    return {
        "prompt_tokens": tokens.prompt,
        "completion_tokens": tokens.completion,
        "total_tokens": tokens.total,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
    }
