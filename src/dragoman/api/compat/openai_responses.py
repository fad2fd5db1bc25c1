"""OpenAI's Responses API, the default of OpenAI's and Vercel's libraries: `/v1/responses`, whole and streamed.

Nothing is stored: a response cannot be continued or read again.
"""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from dragoman.api.answers import json_bytes
from dragoman.api.compat.openai_calls import (
    ERROR_FORMAT,
    MAX_MESSAGES,
    MAX_TOOLS,
    AnswerForm,
    Asked,
    ChatMessage,
    Contents,
    Parts,
    Tokens,
    answer_call,
    error_body,
    is_incomplete,
    read_messages,
)
from dragoman.api.errors import ErrorFormat
from dragoman.api.input import Caller, KeyFirstRoute, Service
from dragoman.api.middleware import current_id
from dragoman.api.schemas import Items
from dragoman.errors import DragomanError, InvalidRequest
from dragoman.types import TextDelta, TextDone, Translation

router = APIRouter(prefix="/v1", route_class=KeyFirstRoute)
ERROR_FORMATS: dict[str, ErrorFormat] = {"/v1/responses": ERROR_FORMAT}


class ResponseItem(BaseModel):
    """An item of the input: a message."""

    type: str = "message"
    role: str = "user"
    content: str | Parts | None = None


class ResponseText(BaseModel):
    """The form of the answer."""

    format: dict[str, Any] | None = None


class ResponseTool(BaseModel):
    """A tool; functions are known."""

    type: str
    name: str = ""
    parameters: dict[str, Any] | None = None


class ResponseBody(BaseModel):
    """`POST /v1/responses`: the fields that are used or refused. Others are accepted and not used."""

    model: str | None = None  # `dragoman/ja`, or the model's name and `/ja`, names the target language
    input: str | Annotated[Items[ResponseItem], Field(max_length=MAX_MESSAGES)]
    instructions: str | None = None
    stream: bool | None = None
    text: ResponseText | None = None
    tools: Annotated[Items[ResponseTool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: str | dict[str, Any] | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    background: bool | None = None
    max_output_tokens: int | None = None  # of the answer to a prompt that is passed on


def _messages(body: ResponseBody) -> list[ChatMessage]:
    """The input's messages, after the instructions. Raises `InvalidRequest` for an item that is none."""
    messages = [ChatMessage(role="system", content=body.instructions)] if body.instructions else []
    if isinstance(body.input, str):
        return [*messages, ChatMessage(role="user", content=body.input)]
    for index, item in enumerate(body.input):
        if item.type != "message":
            raise InvalidRequest(f"input.{index}: an item of type {item.type[:40]!r} is not served", param="input")
        messages.append(ChatMessage(role=item.role, content=item.content))
    return messages


@router.post("/responses")
async def respond(body: ResponseBody, http: Request, service: Service, account: Caller) -> Response:
    """Translate as a response: the text of the answer's message is the translation of the text in the last user message
    of the input."""
    for name in ("previous_response_id", "conversation", "background"):
        if getattr(body, name):
            raise InvalidRequest(f"{name}: this server stores no responses", param=name)
    functions = {one.name: one.parameters or {} for one in body.tools or () if one.type == "function"}
    form = AnswerForm.of(body.text.format if body.text is not None else None, functions, body.tool_choice)
    messages = read_messages(_messages(body), "input")
    asked = await Asked.of(http, service, account, body.model, messages, form, max_tokens=body.max_output_tokens)
    writer = _Events(_Answer(asked, service.model.name))
    return await answer_call(http, service, asked, writer, streamed=bool(body.stream))


class _Answer:
    """A response with one item: a message, or a call of a function."""

    def __init__(self, asked: Asked, model: str) -> None:
        self.asked = asked
        self.function = asked.form.function
        self.item_id = f"{'msg' if self.function is None else 'fc'}_{current_id()}"
        self._common: dict[str, Any] = {
            "id": f"resp_{current_id()}",
            "object": "response",
            "created_at": int(time.time()),
            "model": model,
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "temperature": None,
            "top_p": None,
        } | asked.marker

    def begun(self) -> dict[str, Any]:
        """The response before its content."""
        return self._common | {"status": "in_progress", "output": [], "usage": None}

    def whole(self, content: str, translations: list[Translation]) -> dict[str, Any]:
        """The response with all of its content."""
        tokens = Tokens.of(translations)
        usage = {
            "input_tokens": tokens.prompt,
            "input_tokens_details": {"cached_tokens": tokens.cached},
            "output_tokens": tokens.completion,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens.total,
        }
        incomplete = is_incomplete(translations)
        status = "incomplete" if incomplete else "completed"
        details = {"reason": "max_output_tokens"} if incomplete else None
        output = [self.item(content, status)]
        return self._common | {"status": status, "incomplete_details": details, "output": output, "usage": usage}

    def item(self, content: str | None, status: str) -> dict[str, Any]:
        """The item of the output; None: it has no content yet."""
        if self.function is not None:
            call = {"call_id": f"call_{current_id()}", "name": self.function, "arguments": content or ""}
            return {"id": self.item_id, "type": "function_call", "status": status, **call}
        parts = [] if content is None else [self.part(content)]
        return {"id": self.item_id, "type": "message", "status": status, "role": "assistant", "content": parts}

    def part(self, content: str) -> dict[str, Any]:
        """The part of a message."""
        return {"type": "output_text", "text": content, "annotations": [], "logprobs": []}

    def failed(self, error: DragomanError) -> dict[str, Any]:
        """The response of a call that failed."""
        fault = {"code": "server_error", "message": error.message}
        return self.begun() | {"status": "failed", "error": fault}


class _Events:
    """A response as events, or whole."""

    def __init__(self, answer: _Answer) -> None:
        self._answer = answer
        self._contents = Contents(answer.asked.task)
        self._content: list[str] = []
        self._number = 0
        self._has_begun = False
        is_call = answer.function is not None
        self._kind = "function_call_arguments" if is_call else "output_text"
        self._place = {"item_id": answer.item_id, "output_index": 0} | ({} if is_call else {"content_index": 0})
        self._no_logprobs: dict[str, Any] = {} if is_call else {"logprobs": []}

    def whole(self, translations: list[Translation]) -> dict[str, Any]:
        """The response as one object."""
        return self._answer.whole(self._answer.asked.task.write(translations), translations)

    def write(self, event: TextDelta | TextDone) -> bytes:
        """The content that an event adds, after the response's beginning."""
        return self._begin() + self._delta(self._contents.add(event))

    def end(self, error: DragomanError | None) -> bytes:
        """The end of the content and of the response; or the error."""
        answer = self._answer
        if error is not None:
            fault = error_body(error.status, error)["error"]
            fault = {"code": fault["code"], "message": fault["message"], "param": fault["param"]}
            return self._event("error", **fault) + self._event("response.failed", response=answer.failed(error))
        translations = self._contents.translations
        chunks = [self._begin(), self._delta(answer.asked.task.end)]
        content = "".join(self._content)
        whole = answer.whole(content, translations)
        name = "arguments" if answer.function is not None else "text"
        chunks.append(self._event(f"response.{self._kind}.done", **self._place, **{name: content}, **self._no_logprobs))
        if answer.function is None:
            chunks.append(self._event("response.content_part.done", **self._place, part=answer.part(content)))
        chunks.append(self._event("response.output_item.done", output_index=0, item=whole["output"][0]))
        chunks.append(self._event(f"response.{whole['status']}", response=whole))
        return b"".join(chunks)

    def _begin(self) -> bytes:
        if self._has_begun:
            return b""
        self._has_begun = True
        answer = self._answer
        chunks = [
            self._event("response.created", response=answer.begun()),
            self._event("response.in_progress", response=answer.begun()),
            self._event("response.output_item.added", output_index=0, item=answer.item(None, "in_progress")),
        ]
        if answer.function is None:
            chunks.append(self._event("response.content_part.added", **self._place, part=answer.part("")))
        return b"".join(chunks)

    def _delta(self, content: str) -> bytes:
        if not content:
            return b""
        self._content.append(content)
        return self._event(f"response.{self._kind}.delta", **self._place, delta=content, **self._no_logprobs)

    def _event(self, kind: str, **fields: Any) -> bytes:
        event = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), json_bytes(event))
