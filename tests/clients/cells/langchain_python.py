"""langchain-openai."""

from __future__ import annotations

import asyncio
from typing import Any

from cells import EXPECTED, JA, KEY, TEXT, TEXTS, URL, cell, equal, main, refused
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel


def chat(model: str = "dragoman/ja", key: str = KEY, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(model=model, base_url=f"{URL}/v1", api_key=key, **options)


class Answer(BaseModel):
    """The form of an answer in JSON."""

    translation: str


@cell("text", "ChatOpenAI.invoke: chat completions and responses")
def text() -> None:
    found = chat().invoke(TEXT)
    equal((found.content, found.response_metadata["finish_reason"]), (JA, "stop"))
    equal(chat(use_responses_api=True).invoke(TEXT).text, JA)


@cell("text", "the prompts of LangChain's documentation, with a language each")
def prompts() -> None:
    for system, values in (
        ("Translate the following from English into {language}", {"language": "Korean"}),
        (
            "You are a helpful assistant that translates English to {language}. Translate the user sentence.",
            {"language": "Korean"},
        ),
        ("You are a helpful assistant that translates {input} to {output}.", {"input": "English", "output": "Korean"}),
    ):
        chain = ChatPromptTemplate([("system", system), ("human", "{text}")]) | chat("gpt-4o-mini")
        equal(chain.invoke({**values, "text": TEXT}).content, EXPECTED["ko"][0])


@cell("text", "OpenAI.invoke: completions")
def completions() -> None:
    equal(OpenAI(model="dragoman/ja", base_url=f"{URL}/v1", api_key=KEY).invoke(TEXT), JA)


@cell("batch", "batch and ainvoke, calls in flight together")
def batch() -> None:
    equal([one.content for one in chat().batch(TEXTS)], EXPECTED["ja"])

    async def together() -> list[Any]:
        return [one.content for one in await asyncio.gather(*map(chat().ainvoke, TEXTS))]

    equal(asyncio.run(together()), EXPECTED["ja"])


@cell("streaming", "stream: chat completions, responses, completions")
def streaming() -> None:
    for one in (chat(), chat(use_responses_api=True)):
        equal("".join(chunk.text for chunk in one.stream(TEXT)), JA)
    equal("".join(OpenAI(model="dragoman/ja", base_url=f"{URL}/v1", api_key=KEY).stream(TEXT)), JA)


@cell("structured", "with_structured_output: json_schema, function_calling")
def structured() -> None:
    for method in ("json_schema", "function_calling"):
        equal(chat().with_structured_output(Answer, method=method).invoke(TEXT), Answer(translation=JA))


@refused
def translate(key: str) -> str:
    return str(chat(key=key).invoke(TEXT).content)


main()
