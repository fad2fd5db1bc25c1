"""llama-index-llms-openai, and llama-index-llms-openai-like, which takes model names that OpenAI does not have."""

from __future__ import annotations

import asyncio
from typing import Any

from cells import EXPECTED, JA, KEY, TEXT, TEXTS, URL, cell, equal, main, refused
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai import OpenAI, OpenAIResponses
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

HEADERS = {"X-Target-Language": "ja"}


class Answer(BaseModel):
    """The form of an answer in JSON."""

    translation: str


def like(key: str = KEY, **options: Any) -> OpenAILike:
    return OpenAILike(model="dragoman/ja", api_base=f"{URL}/v1", api_key=key, is_chat_model=True, **options)


def openai(kind: type[OpenAI] | type[OpenAIResponses] = OpenAI) -> Any:
    return kind(model="gpt-4o-mini", api_base=f"{URL}/v1", api_key=KEY, default_headers=HEADERS)


@cell("text", "OpenAI.complete and chat, the target in a header; OpenAILike, in the model's name")
def text() -> None:
    equal(openai().complete(TEXT).text, JA)
    equal(openai().chat([ChatMessage(role="user", content=TEXT)]).message.content, JA)
    equal(like().complete(TEXT).text, JA)


@cell("text", "OpenAIResponses.complete")
def responses() -> None:
    equal(openai(OpenAIResponses).complete(TEXT).text, JA)


@cell("text", "the target in a system message")
def system() -> None:
    messages = [ChatMessage(role="system", content="Translate to Korean."), ChatMessage(role="user", content=TEXT)]
    found = OpenAI(model="gpt-4o-mini", api_base=f"{URL}/v1", api_key=KEY).chat(messages)
    equal(found.message.content, EXPECTED["ko"][0])


@cell("batch", "acomplete, calls in flight together")
def batch() -> None:
    async def together() -> list[str]:
        return [one.text for one in await asyncio.gather(*map(like().acomplete, TEXTS))]

    equal(asyncio.run(together()), EXPECTED["ja"])


@cell("streaming", "stream_complete: chat completions, responses")
def streaming() -> None:
    for one in (like(), openai(), openai(OpenAIResponses)):
        equal("".join(chunk.delta or "" for chunk in one.stream_complete(TEXT)), JA)


@cell("structured", "as_structured_llm")
def structured() -> None:
    equal(openai().as_structured_llm(Answer).complete(TEXT).raw, Answer(translation=JA))


@refused
def translate(key: str) -> str:
    return like(key, max_retries=0).complete(TEXT).text


main()
