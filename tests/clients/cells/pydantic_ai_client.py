"""pydantic-ai-slim with the extra openai."""

from __future__ import annotations

import asyncio
from typing import Any

from cells import EXPECTED, JA, KEY, TEXT, TEXTS, URL, cell, equal, main, refused
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


class Answer(BaseModel):
    """The form of an answer in JSON."""

    translation: str


def agent(kind: Any = OpenAIChatModel, key: str = KEY, **options: Any) -> Agent[None, Any]:
    return Agent(kind("dragoman/ja", provider=OpenAIProvider(base_url=f"{URL}/v1", api_key=key)), **options)


@cell("text", "Agent.run_sync: chat completions and responses")
def text() -> None:
    for kind in (OpenAIChatModel, OpenAIResponsesModel):
        equal(agent(kind).run_sync(TEXT).output, JA)


@cell("text", "the target in the instructions")
def instructions() -> None:
    equal(agent(instructions="Translate to Korean.").run_sync(TEXT).output, JA)  # the model's name goes before them
    model = OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(base_url=f"{URL}/v1", api_key=KEY))
    equal(Agent(model, instructions="Translate to Korean.").run_sync(TEXT).output, EXPECTED["ko"][0])


@cell("batch", "run, calls in flight together")
def batch() -> None:
    async def together() -> list[str]:
        return [one.output for one in await asyncio.gather(*map(agent().run, TEXTS))]

    equal(asyncio.run(together()), EXPECTED["ja"])


@cell("streaming", "run_stream: chat completions and responses")
def streaming() -> None:
    async def streamed(kind: Any) -> str:
        async with agent(kind).run_stream(TEXT) as result:
            return "".join([part async for part in result.stream_text(delta=True)])

    for kind in (OpenAIChatModel, OpenAIResponsesModel):
        equal(asyncio.run(streamed(kind)), JA)


@cell("structured", "output_type: a tool, and NativeOutput")
def structured() -> None:
    for kind in (OpenAIChatModel, OpenAIResponsesModel):
        for form in (Answer, NativeOutput(Answer)):
            equal(agent(kind, output_type=form).run_sync(TEXT).output, Answer(translation=JA))


@refused
def translate(key: str) -> str:
    return agent(key=key).run_sync(TEXT).output


main()
