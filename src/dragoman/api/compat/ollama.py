"""Ollama's API: `/api/chat`, `/api/generate`, and what its clients ask about models, for programs with a settable address.

Messages are read as those of `/v1/chat/completions` are. Parameters of sampling, `template`, `context`, `think`, `keep_alive`
and offered tools are accepted and not used: whether a model calls a tool is its own choice here, and this one translates.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from time import perf_counter
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from dragoman.api.answers import EventStream, JsonResponse, json_bytes
from dragoman.api.compat.exchange import MAX_CHARACTERS
from dragoman.api.compat.openai_calls import (
    MAX_MESSAGES,
    MAX_PARTS,
    AnswerForm,
    Asked,
    ChatContentPart,
    ChatMessage,
    Contents,
    Tokens,
    answer_call,
    is_incomplete,
    read_messages,
)
from dragoman.api.errors import ErrorFormat, foreign_format
from dragoman.api.input import NEEDS_KEY, Caller, KeyFirstRoute, Service
from dragoman.api.native import model_ids
from dragoman.api.schemas import Items
from dragoman.errors import DragomanError, InvalidRequest
from dragoman.service.service import TranslationService
from dragoman.types import Account, TextDelta, TextDone, Translation

API_VERSION = "0.12.6"
"""The version of Ollama whose API this is: clients compare it with the one that they need."""
_LATEST = ":latest"
"""The tag of a name that has none."""
_NEVER = "2318-01-01T00:00:00Z"
"""When the model is unloaded, as Ollama writes it for one that stays."""


class JsonRoute(KeyFirstRoute):
    """A route whose body is JSON whatever its Content-Type: `curl -d`, as in Ollama's own examples, declares a form."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, which would not parse the body of a form."""
        handle = super().get_route_handler()

        async def as_json(request: Request) -> Response:
            others = [header for header in request.scope["headers"] if header[0] != b"content-type"]
            request.scope["headers"] = [*others, (b"content-type", b"application/json")]
            return await handle(request)

        return as_json


router = APIRouter(prefix="/api", route_class=JsonRoute)

ERROR_FORMATS: dict[str, ErrorFormat] = {
    "/api/": foreign_format({"quota_exceeded": 429}, lambda status, fault: {"error": fault.message})
}
"""A sentence. A used-up quota is 429, as a rate limit."""


# ---- requests

ModelName = Annotated[str, Field(max_length=MAX_CHARACTERS)]


class OllamaMessage(BaseModel):
    """A message of the chat. Other fields are accepted and not used."""

    role: str
    content: str | None = None
    images: Annotated[Items[str], Field(max_length=MAX_PARTS - 1)] | None = None  # beside the text


class OllamaChatBody(BaseModel):
    """`POST /api/chat`: the fields that are used or refused. Others are accepted and not used."""

    model: ModelName  # `dragoman/ja` or `dragoman:ja`, with or without `:latest`, names the target language
    messages: Annotated[Items[OllamaMessage], Field(max_length=MAX_MESSAGES)] | None = None
    stream: bool | None = None
    format: str | dict[str, Any] | None = None
    options: dict[str, Any] | None = None
    keep_alive: str | float | None = None


class GenerateBody(BaseModel):
    """`POST /api/generate`: the fields that are used or refused. Others are accepted and not used."""

    model: ModelName
    prompt: str | None = None
    system: str | None = None
    raw: bool | None = None  # the prompt is all that the model gets: `system` is not used
    suffix: str | None = None
    images: Annotated[Items[str], Field(max_length=MAX_PARTS - 1)] | None = None
    stream: bool | None = None
    format: str | dict[str, Any] | None = None
    options: dict[str, Any] | None = None
    keep_alive: str | float | None = None


class ShowBody(BaseModel):
    """`POST /api/show`. `name` is what older clients send."""

    model: ModelName | None = None
    name: ModelName | None = None

    def named(self) -> str:
        """The model's name. Raises `InvalidRequest` if there is none."""
        if name := self.model or self.name:
            return name
        raise InvalidRequest("model is required", param="model")


class PullBody(ShowBody):
    """`POST /api/pull`. Other fields are accepted and not used."""

    stream: bool | None = None


def _message(role: str, text: str | None, images: Sequence[str] | None) -> ChatMessage:
    """A message as OpenAI's API has it, with a part for each image."""
    if not images:
        return ChatMessage(role=role, content=text)
    parts = [ChatContentPart(type="text", text=text)] if text else []
    return ChatMessage(role=role, content=[*parts, *(ChatContentPart(type="image_url") for _ in images)])


def _answer_form(given: str | dict[str, Any] | None) -> AnswerForm:
    """What `format` asks for. Raises `InvalidRequest`."""
    if isinstance(given, dict):
        return AnswerForm(True, given)
    if given not in (None, "", "json"):
        raise InvalidRequest("format: give json or a JSON schema", param="format")
    return AnswerForm(bool(given))


def _model_id(name: str, service: TranslationService) -> str:
    """The name by which this server knows a model: a tag is none, or a language after `dragoman:` or the model's name."""
    name = name.removesuffix(_LATEST)
    model, _, tag = name.rpartition(":")
    return f"{model}/{tag}" if model in ("dragoman", service.model.name) and name != service.model.name else name


async def _read(
    http: Request,
    service: TranslationService,
    account: Account,
    body: OllamaChatBody | GenerateBody,
    *messages: ChatMessage,
) -> Asked:
    """What a call asks for. Raises what `read_messages` and `Asked.of` raise."""
    limit = (body.options or {}).get("num_predict")
    return await Asked.of(
        http,
        service,
        account,
        _model_id(body.model, service),
        read_messages(messages),
        _answer_form(body.format),
        api="ollama",
        max_tokens=limit if isinstance(limit, int) else None,
    )


# ---- answers


@router.post("/chat")
async def chat(body: OllamaChatBody, http: Request, service: Service, account: Caller) -> Response:
    """Translate as a chat model. Without messages the model is loaded, which it always is."""
    if not body.messages:
        return JsonResponse(_Writer.of_chat(body).loaded(body.keep_alive))
    messages = [_message(one.role, one.content, one.images) for one in body.messages]
    asked = await _read(http, service, account, body, *messages)
    return await answer_call(
        http, service, asked, _Writer.of_chat(body, asked), streamed=body.stream is not False, stream=JsonLines
    )


@router.post("/generate")
async def generate(body: GenerateBody, http: Request, service: Service, account: Caller) -> Response:
    """Translate the prompt. Without one the model is loaded, which it always is."""
    if body.suffix:
        raise InvalidRequest("suffix: this server translates, and does nothing else", param="suffix")
    if not (body.prompt or body.images):
        return JsonResponse(_Writer.of_prompt(body).loaded(body.keep_alive))
    system = [_message("system", body.system, None)] if body.system and not body.raw else []
    asked = await _read(http, service, account, body, *system, _message("user", body.prompt, body.images))
    return await answer_call(
        http, service, asked, _Writer.of_prompt(body, asked), streamed=body.stream is not False, stream=JsonLines
    )


class JsonLines(EventStream):
    """The objects of a call, a line each."""

    media_type = "application/x-ndjson"


class _Writer:
    """An answer as one object, or as a line for each piece of its content. `shape`: the field that has the content, and what is
    around it."""

    def __init__(self, model: str, asked: Asked | None, shape: Callable[[str], dict[str, Any]]) -> None:
        self._model = model
        self._asked = asked
        self._shape = shape
        self._contents = Contents(asked.task) if asked is not None else None
        self._began_s = perf_counter()

    @classmethod
    def of_chat(cls, body: OllamaChatBody, asked: Asked | None = None) -> _Writer:
        """An answer of `/api/chat`."""
        return cls(body.model, asked, lambda content: {"message": {"role": "assistant", "content": content}})

    @classmethod
    def of_prompt(cls, body: GenerateBody, asked: Asked | None = None) -> _Writer:
        """An answer of `/api/generate`."""
        return cls(body.model, asked, lambda content: {"response": content})

    def loaded(self, keep_alive: str | float | None) -> dict[str, Any]:
        """The answer to a request that asks for nothing but that the model is loaded, or is not any more."""
        return self._object("") | {"done": True, "done_reason": "unload" if keep_alive in (0, "0", "0s") else "load"}

    def whole(self, translations: list[Translation]) -> dict[str, Any]:
        """The answer as one object."""
        assert self._asked is not None
        return self._last(self._asked.task.write(translations), translations)

    def write(self, event: TextDelta | TextDone) -> bytes:
        """The line with what an event adds to the content."""
        assert self._contents is not None
        return self._line(self._contents.add(event))

    def end(self, error: DragomanError | None) -> bytes:
        """What the answer's form ends with, and what it cost; or the error."""
        if error is not None:
            return b"%b\n" % json_bytes({"error": error.message})
        assert self._asked is not None and self._contents is not None
        return self._line(self._asked.task.end) + b"%b\n" % json_bytes(self._last("", self._contents.translations))

    def _line(self, content: str) -> bytes:
        return b"%b\n" % json_bytes(self._object(content) | {"done": False}) if content else b""

    def _object(self, content: str) -> dict[str, Any]:
        return {"model": self._model, "created_at": _timestamp(datetime.now(UTC))} | self._shape(content)

    def _last(self, content: str, translations: list[Translation]) -> dict[str, Any]:
        """The object that ends an answer, with times in nanoseconds. Clients divide tokens by `eval_duration`: it is not 0."""
        total_s = perf_counter() - self._began_s
        prompt_s = min(_first_token_s(translations), total_s)
        tokens = Tokens.of(translations)
        return self._object(content) | {
            "done": True,
            "done_reason": "length" if is_incomplete(translations) else "stop",
            "total_duration": round(total_s * 1e9),
            "load_duration": 0,
            "prompt_eval_count": tokens.prompt,
            "prompt_eval_duration": round(prompt_s * 1e9),
            "eval_count": tokens.completion,
            "eval_duration": max(round((total_s - prompt_s) * 1e9), 1),
        }


def _first_token_s(translations: Sequence[Translation]) -> float:
    """From submission to the first token of the sequence that had it last; 0 where the engine does not report it."""
    return max((one.queue_s + (one.prefill_s or 0.0) for found in translations for one in found.timings), default=0.0)


def _timestamp(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


# ---- models


def _described(service: TranslationService, id: str) -> dict[str, Any]:
    """A model as lists have it."""
    return {
        "name": f"{id}{_LATEST}",
        "model": f"{id}{_LATEST}",
        "size": 0,  # of files, which an engine elsewhere has
        "digest": sha256(id.encode()).hexdigest(),
        "details": _details(service),
    }


def _details(service: TranslationService) -> dict[str, Any]:
    family = service.model.profile.name
    return {
        "parent_model": "",
        "format": "safetensors",
        "family": family,
        "families": [family],
        "parameter_size": "",
        "quantization_level": "",
    }


def _modified_at(service: TranslationService) -> str:
    return _timestamp(datetime.fromtimestamp(service.model.created_unix_s, UTC))


@router.get("/tags", dependencies=[NEEDS_KEY])
@router.head("/tags", dependencies=[NEEDS_KEY])
async def list_models(service: Service) -> Response:
    """The served model, under its name and those that name a target language."""
    common = {"modified_at": _modified_at(service)}
    return JsonResponse({"models": [_described(service, id) | common for id in model_ids(service)]})


@router.get("/ps", dependencies=[NEEDS_KEY])
async def list_running_models(service: Service) -> Response:
    """The served model, which is always loaded."""
    loaded = {"expires_at": _NEVER, "size_vram": 0, "context_length": service.spec.engine.max_model_len}
    return JsonResponse({"models": [_described(service, service.model.name) | loaded]})


@router.post("/show", dependencies=[NEEDS_KEY])
async def show_model(body: ShowBody, service: Service) -> Response:
    """A model of `/api/tags`."""
    name = body.named()
    if (id := _model_id(name, service)) not in model_ids(service) and id != "dragoman":
        raise HTTPException(404, f"model '{name[:100]}' not found")
    family = service.model.profile.name
    return JsonResponse(
        {
            "modelfile": "",
            "parameters": "",
            "template": "{{ .Prompt }}",
            "details": _details(service),
            "model_info": {
                "general.architecture": family,
                f"{family}.context_length": service.spec.engine.max_model_len,
            },
            "capabilities": ["completion"],
            "modified_at": _modified_at(service),
        }
    )


@router.post("/pull", dependencies=[NEEDS_KEY])
async def pull_model(body: PullBody) -> Response:
    """Say that the model is there, whatever its name: chats answer to each, and programs with a fixed model pull it first."""
    body.named()
    done = {"status": "success"}
    return (
        JsonResponse(done)
        if body.stream is False
        else Response(b"%b\n" % json_bytes(done), media_type=JsonLines.media_type)
    )


@router.get("/version")
@router.head("/version")
async def version() -> Response:
    """The version of Ollama whose API this is."""
    return JsonResponse({"version": API_VERSION})
