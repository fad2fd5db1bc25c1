"""OpenAI's chat completions, for clients that translate through a chat model: `/v1/chat/completions`.

`chat` reads the messages. Parameters of sampling are accepted and not used.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from dragoman.api import openapi
from dragoman.api.answers import EventStream, JsonResponse, json_bytes, while_connected
from dragoman.api.compat import chat
from dragoman.api.errors import ErrorFormat, Fault, foreign_format
from dragoman.api.input import Caller, KeyFirstRoute, Service, call_of, check_texts
from dragoman.api.middleware import current_id
from dragoman.api.schemas import EVENT, Items
from dragoman.errors import DragomanError, InvalidRequest
from dragoman.service.service import TranslationService
from dragoman.types import TextDelta, TextDone, Translation, TranslationRequest, Usage

router = APIRouter(prefix="/v1/chat", tags=["OpenAI"], route_class=KeyFirstRoute)

TARGET_HEADER = "X-Target-Language"
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


def _error(status: int, error: Fault | DragomanError) -> dict[str, Any]:
    type_ = "invalid_request_error" if status < 500 else "server_error"
    type_, code = _ERRORS.get(error.code, (type_, error.code))
    return {"error": {"message": error.message, "type": type_, "param": error.param, "code": code}}


ERROR_FORMATS: dict[str, ErrorFormat] = {"/v1/chat/": foreign_format(_STATUSES, _error)}


# ---- requests


class ChatContentPart(BaseModel):
    """A part of a message's content; only text is understood."""

    type: str
    text: str = ""


class ChatMessage(BaseModel):
    """A message of the chat."""

    role: str
    content: str | Items[ChatContentPart] | None = None


class ChatStreamOptions(BaseModel):
    """What a stream has besides the deltas."""

    include_usage: bool | None = None


class ChatBody(BaseModel):
    """`POST /v1/chat/completions`: the fields that are used or refused. Others are accepted and not used."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"model": "dragoman/ja", "messages": [{"role": "user", "content": "Where is the train station?"}]},
                {
                    "model": "dragoman",
                    "messages": [
                        {"role": "system", "content": "You are a translator. Translate to Japanese."},
                        {"role": "user", "content": "Good morning."},
                    ],
                    "stream": True,
                },
            ]
        }
    )

    model: Annotated[str, Field(description="`dragoman/ja` or the model's name and `/ja` names the target language.")]
    messages: Items[ChatMessage]
    stream: bool | None = None
    stream_options: ChatStreamOptions | None = None
    n: int | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    response_format: dict[str, Any] | None = None


class ChatError(BaseModel):
    """What went wrong, in OpenAI's shape."""

    message: str
    type: str
    param: str | None
    code: str | None


class ChatErrorAnswer(BaseModel):
    """Every error's shape."""

    error: ChatError


def _check_supported(body: ChatBody) -> None:
    """Raises `InvalidRequest` for what changes the answer's meaning and is not served."""
    if body.n is not None and body.n != 1:
        raise InvalidRequest(f"n is {body.n}; this server returns one translation", param="n")
    for name in ("tools", "functions"):
        if getattr(body, name):
            raise InvalidRequest(f"{name}: this server translates, and calls no tools", param=name)


def _check_format(body: ChatBody, task: chat.Task) -> None:
    """Raises `InvalidRequest` for an answer in JSON to messages whose known answer is a text."""
    form = (body.response_format or {}).get("type", "text")
    if form != "text" and not task.is_json:
        raise InvalidRequest(
            f"response_format is {str(form)[:40]!r}, and the messages have no form that is answered in JSON",
            param="response_format",
        )


def _messages(body: ChatBody) -> list[tuple[chat.Role, str]]:
    roles: dict[str, chat.Role] = {
        "system": "system",
        "developer": "system",
        "user": "user",
        "assistant": "assistant",
    }
    found: list[tuple[chat.Role, str]] = []
    for index, message in enumerate(body.messages):
        role = roles.get(message.role)
        if role is None:
            raise InvalidRequest(f"messages.{index}: the role {message.role[:40]!r} is not served", param="messages")
        parts = (
            [ChatContentPart(type="text", text=message.content)]
            if isinstance(message.content, str)
            else message.content
        )
        for part in parts or ():
            if part.type != "text":
                raise InvalidRequest(
                    f"messages.{index}: content of type {part.type[:40]!r} is not text", param="messages"
                )
        found.append((role, "".join(part.text for part in parts or ())))
    return found


def _named_target(body: ChatBody, http: Request, service: TranslationService) -> str | None:
    """The language that the header or the model's name has. Raises `InvalidRequest` for one that is none."""
    if header := http.headers.get(TARGET_HEADER):
        if (tag := chat.tag_of(header)) is None:
            raise InvalidRequest(f"{TARGET_HEADER}: {header[:40]!r} is not a known language", param=TARGET_HEADER)
        return tag
    name, slash, suffix = body.model.rpartition("/")
    if not slash or name not in ("dragoman", service.model.name) or body.model == service.model.name:
        return None
    if (tag := chat.tag_of(suffix)) is None:
        raise InvalidRequest(f"model: {suffix[:40]!r} is not a known language", param="model")
    return tag


# ---- answers

_ANSWER_EXAMPLE = {
    "id": "chatcmpl-4e1243bd22c66e76",
    "object": "chat.completion",
    "created": 1795305600,
    "model": "phrasebook",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "駅はどこですか？"},
            "finish_reason": "stop",
            "logprobs": None,
        }
    ],
    "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A chat completion; with `stream` true, chunks of one as server-sent events",
        "content": {
            "application/json": {"schema": {"type": "object"}, "example": _ANSWER_EXAMPLE},
            "text/event-stream": {"schema": EVENT},
        },
    },
    **openapi.failures(ChatErrorAnswer, 400, 401, 403, 413, 429, 504),
    422: {"model": ChatErrorAnswer, "description": "Not sent: JSON of the wrong shape is 400"},
}


@router.post("/completions", summary="Translate, as a chat model", response_model=None, responses=_RESPONSES)
async def complete(body: ChatBody, http: Request, service: Service, account: Caller) -> Response:
    """The content of the answer is the translation of the text in the last user message."""
    _check_supported(body)
    task = chat.parse(_messages(body), _named_target(body, http, service), service.settings.server.max_texts)
    _check_format(body, task)
    given = task.texts[0] if len(task.texts) == 1 else list(task.texts)
    texts = await check_texts(service, given, "messages", allow_empty=task.reply is not None)
    request = TranslationRequest(
        texts,
        task.target,
        task.source,
        format=task.format,
        context=task.context,
        keep=task.keep,
        glossary=task.glossary,
        formality=task.formality,
    )
    request = call_of(http, account, "openai", request)
    common = {"id": f"chatcmpl-{current_id()}", "created": int(time.time()), "model": service.model.name}
    if body.stream:
        with_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
        chunks = _Chunks(common, task, with_usage=with_usage)
        return EventStream(service.events(request, streamed=True), chunks, len(texts))
    async with while_connected(http.receive):
        translations = await service.translate(request)
    message = {"role": "assistant", "content": task.write(translations), "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(translations), "logprobs": None}
    return JsonResponse(common | {"object": "chat.completion", "choices": [choice], "usage": _usage(translations)})


def _finish_reason(translations: list[Translation]) -> str:
    return "length" if any(one.finish_reason in _INCOMPLETE for one in translations) else "stop"


def _usage(translations: list[Translation]) -> dict[str, int]:
    total = sum((one.usage for one in translations), Usage())
    return {
        "prompt_tokens": total.prompt_tokens,
        "completion_tokens": total.completion_tokens,
        "total_tokens": total.prompt_tokens + total.completion_tokens,
    }


class _Chunks:
    """The chunks of a streamed completion: the texts in order, with what the answer's form has between them.

    `common`: what each chunk has. Of a chunk with content only the content is serialised.
    """

    def __init__(self, common: dict[str, Any], task: chat.Task, *, with_usage: bool) -> None:
        self._common = common | {"object": "chat.completion.chunk"}
        self._task = task
        self._with_usage = with_usage
        self._parts: dict[int, list[str]] = {}  # of texts whose turn it is not yet
        self._done: dict[int, Translation] = {}
        self._turn = 0
        self._before_content, self._after_content = self._chunk({"content": "\0"}).split(b'"\\u0000"')
        self._start = self._chunk({"role": "assistant", "content": ""})

    def write(self, event: TextDelta | TextDone) -> bytes:
        """The content that an event adds: nothing where its text's turn has not come."""
        start, self._start = self._start, b""
        if isinstance(event, TextDone):
            self._done[event.index] = event.translation
        elif self._task.reply is None:
            self._parts.setdefault(event.index, []).append(event.text)
        return start + self._content("".join(self._ready()))

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

    def end(self, error: DragomanError | None) -> bytes:
        """What the answer's form ends with, why it ended, what it cost, and `[DONE]`; or the error."""
        if error is not None:
            return b"data: %b\n\n" % json_bytes(_error(error.status, error))
        translations = [self._done[index] for index in range(len(self._done))]
        chunks = [self._start, self._content(self._task.end)]
        chunks.append(self._chunk({}, _finish_reason(translations)))
        if self._with_usage:
            no_choices: list[object] = []
            usage = self._common | {"choices": no_choices, "usage": _usage(translations)}
            chunks.append(b"data: %b\n\n" % json_bytes(usage))
        return b"".join((*chunks, b"data: [DONE]\n\n"))

    def _content(self, content: str) -> bytes:
        return self._before_content + json_bytes(content) + self._after_content if content else b""

    def _chunk(self, delta: dict[str, str], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        no_usage = {"usage": None} if self._with_usage else {}
        return b"data: %b\n\n" % json_bytes(self._common | {"choices": [choice]} | no_usage)
