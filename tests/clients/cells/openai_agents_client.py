"""openai-agents."""

from __future__ import annotations

import asyncio
from typing import Any

from cells import EXPECTED, JA, KEY, TEXT, URL, cell, equal, main, refused
from openai import AsyncOpenAI
from pydantic import BaseModel

from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, set_tracing_disabled

set_tracing_disabled(True)
KINDS = (OpenAIResponsesModel, OpenAIChatCompletionsModel)


class Answer(BaseModel):
    """The form of an answer in JSON."""

    translation: str


def agent(kind: Any, model: str = "dragoman/ja", key: str = KEY, **options: Any) -> Agent[Any]:
    client = AsyncOpenAI(base_url=f"{URL}/v1", api_key=key, max_retries=0)
    return Agent("translator", model=kind(model, openai_client=client), **options)


@cell("text", "Runner.run_sync: responses and chat completions")
def text() -> None:
    for kind in KINDS:
        equal(Runner.run_sync(agent(kind), TEXT).final_output, JA)


@cell("text", "the target in the instructions")
def instructions() -> None:
    for kind in KINDS:
        found = Runner.run_sync(agent(kind, "gpt-4o-mini", instructions="Translate to Korean."), TEXT)
        equal(found.final_output, EXPECTED["ko"][0])


@cell("streaming", "run_streamed: responses and chat completions")
def streaming() -> None:
    async def streamed(kind: Any) -> str:
        result = Runner.run_streamed(agent(kind), TEXT)
        events = [one.data async for one in result.stream_events() if one.type == "raw_response_event"]
        return "".join(one.delta for one in events if one.type == "response.output_text.delta")

    for kind in KINDS:
        equal(asyncio.run(streamed(kind)), JA)


@cell("structured", "output_type")
def structured() -> None:
    for kind in KINDS:
        equal(Runner.run_sync(agent(kind, output_type=Answer), TEXT).final_output, Answer(translation=JA))


@refused
def translate(key: str) -> str:
    return Runner.run_sync(agent(KINDS[0], key=key), TEXT).final_output


main()
