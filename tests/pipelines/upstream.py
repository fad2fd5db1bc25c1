"""An engine elsewhere, in this process: the HTTP APIs of vLLM, llama-server and Ollama over the fake pipeline.

It can fail: `faults` come instead of answers, in their order; `gate` holds sequences until it is opened.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from tokenizers import Tokenizer

from dragoman.pipelines.fake import FakePipeline
from dragoman.types import Completion, Delta, EngineSequence
from tests.pipelines.building import STEP_S
from tests.pipelines.faults import Fault
from tests.pipelines.scripted import WINDOW, answer
from wholetext.markup.spans import pseudolocalized

MODEL = "small"


@dataclass
class Upstream:
    """What the server has, and what it was sent."""

    tokenizer: Tokenizer
    software: str = "vllm"  # or llamacpp
    pipeline: FakePipeline = field(
        default_factory=lambda: FakePipeline(answer, slots=8, step_s=STEP_S, max_model_len=WINDOW)
    )
    faults: deque[Fault] = field(default_factory=deque[Fault])
    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    cut_after_first: bool = False  # streams break off after their first event
    cancelled: int = 0  # requests that their client has left
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __post_init__(self) -> None:
        self.gate.set()

    def app(self) -> web.Application:
        app = web.Application()
        app.add_routes(
            [
                web.get("/v1/models", self._models),
                web.get("/props", self._props),
                web.post("/tokenize", self._tokenize),
                web.post("/v1/completions", self._complete),
                web.get("/api/tags", self._tags),
                web.post("/api/show", self._show),
                web.post("/api/generate", self._generate),
            ]
        )
        return app

    async def _models(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        one = {"id": MODEL, "owned_by": self.software}
        return web.json_response({"data": [one | ({"max_model_len": WINDOW} if self.software == "vllm" else {})]})

    async def _props(self, _: web.Request) -> web.StreamResponse:
        return web.json_response({"default_generation_settings": {"n_ctx": WINDOW}, "total_slots": 4})

    async def _tokenize(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        text = body["content"] if self.software == "llamacpp" else body["prompt"]
        return web.json_response({"tokens": self.tokenizer.encode(text, add_special_tokens=False).ids})

    async def _tags(self, _: web.Request) -> web.StreamResponse:
        return web.json_response({"models": [{"name": MODEL}]})

    async def _show(self, _: web.Request) -> web.StreamResponse:
        return web.json_response({"model_info": {"llama.context_length": WINDOW}})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        is_llama = self.software == "llamacpp"

        def sequence(body: dict[str, Any]) -> EngineSequence:
            return EngineSequence("", tuple(body["prompt"]), body["max_tokens"], forced=body.get("ignore_eos", False))

        def event(text: str, end: Completion | None) -> dict[str, Any]:
            usage = end and {"prompt_tokens": end.prompt_tokens, "completion_tokens": end.completion_tokens}
            values = [-0.5, -0.25]
            theirs = {"content": [{"logprob": one} for one in values]} if is_llama else {"token_logprobs": values}
            logprobs = theirs if end is not None else None
            choice = {"text": text, "finish_reason": end and end.reason, "logprobs": logprobs}
            return {"choices": [choice], "usage": usage}

        return await self._answer(request, sequence, event, "data: {}\n\n", "data: [DONE]\n\n")

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        def sequence(body: dict[str, Any]) -> EngineSequence:
            ids = self.tokenizer.encode(body["prompt"], add_special_tokens=False).ids
            return EngineSequence("", tuple(ids), body["options"]["num_predict"])

        def event(text: str, end: Completion | None) -> dict[str, Any]:
            one = {"response": text, "done": end is not None}
            if end is not None:
                one |= {"prompt_eval_count": end.prompt_tokens, "eval_count": end.completion_tokens}
                one |= {"done_reason": end.reason}
            return one

        return await self._answer(request, sequence, event, "{}\n", "")

    async def _answer(
        self,
        request: web.Request,
        sequence_of: Callable[[dict[str, Any]], EngineSequence],
        event: Callable[[str, Completion | None], dict[str, Any]],
        form: str,
        last: str,
    ) -> web.StreamResponse:
        try:
            return await self._answered(request, sequence_of, event, form, last)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def _answered(
        self,
        request: web.Request,
        sequence_of: Callable[[dict[str, Any]], EngineSequence],
        event: Callable[[str, Completion | None], dict[str, Any]],
        form: str,
        last: str,
    ) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        await self.gate.wait()
        if self.faults:
            return await _fail(request, self.faults.popleft())
        if not body["stream"]:
            done = await self.pipeline.generate(sequence_of(body))
            return web.json_response(event(done.text, done))
        response = web.StreamResponse()
        await response.prepare(request)
        async for item in self.pipeline.stream(sequence_of(body)):
            one = event(item.text, None) if isinstance(item, Delta) else event("", item)
            await response.write(form.format(json.dumps(one)).encode())
            if self.cut_after_first:
                assert request.transport is not None
                request.transport.abort()
        await response.write(last.encode())
        return response


async def _fail(request: web.Request, fault: Fault) -> web.StreamResponse:
    """Send what comes instead of an answer, past the server's own HTTP."""
    transport = request.transport
    assert transport is not None
    transport.write(fault.sent)
    if fault.then == "nothing":
        await asyncio.Event().wait()  # until the client has left
    elif fault.then == "reset":
        transport.abort()
    else:
        transport.close()
    return web.Response()


@asynccontextmanager
async def listening(upstream: Upstream) -> AsyncGenerator[Upstream]:
    """The server at `upstream.url` (of the same port as before) until the block ends, which breaks its connections."""
    await upstream.pipeline.start()
    # As vLLM and llama-server: what a client leaves is cancelled.
    runner = web.AppRunner(upstream.app(), handler_cancellation=True, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", upstream.port, reuse_address=True).start()
    upstream.port = runner.addresses[0][1]
    try:
        yield upstream
    finally:
        await runner.cleanup()


async def main(folder: str, port: int) -> None:
    """An engine as a process: for the model in `folder`, until it is killed. It answers so that no check objects."""
    tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))

    def answered(sequence: EngineSequence) -> str:
        return pseudolocalized(tokenizer.decode(sequence.prompt_token_ids))

    own = FakePipeline(answered, slots=16, step_s=0.0, max_model_len=1024)
    async with listening(Upstream(tokenizer, pipeline=own, port=port)):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
