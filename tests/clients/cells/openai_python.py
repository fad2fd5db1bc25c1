"""openai, the Python client."""

from __future__ import annotations

import asyncio
import random

import openai
from cells import EXPECTED, JA, KEY, TEXT, TEXTS, URL, cell, equal, main, refused

client = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY)
MESSAGES = [{"role": "user", "content": TEXT}]


@cell("text", "chat.completions.create; the target in the model's name, and usage")
def text() -> None:
    found = client.chat.completions.create(model="dragoman/ja", messages=MESSAGES)
    equal((found.choices[0].message.content, found.choices[0].finish_reason), (JA, "stop"))
    new = f"I have {random.randrange(100, 1000)} books."  # tokens are those that were generated: none from the cache
    usage = client.chat.completions.create(model="dragoman/ja", messages=[{"role": "user", "content": new}]).usage
    equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
    assert min(usage.prompt_tokens, usage.completion_tokens) > 0, usage


@cell("text", "the target in a system message, in a header")
def targets() -> None:
    system = [{"role": "system", "content": "You are a translator. Translate to Korean."}, *MESSAGES]
    found = client.chat.completions.create(model="gpt-4o-mini", messages=system, temperature=0)
    equal(found.choices[0].message.content, EXPECTED["ko"][0])
    found = client.chat.completions.create(
        model="gpt-4o-mini", messages=MESSAGES, extra_headers={"X-Target-Language": "ja"}
    )
    equal(found.choices[0].message.content, JA)


@cell("streaming", "stream=True, with usage at the end")
def streaming() -> None:
    chunks = list(
        client.chat.completions.create(
            model="dragoman/ja", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
    )
    equal("".join(one.choices[0].delta.content or "" for one in chunks if one.choices), JA)
    equal([one.choices[0].finish_reason for one in chunks if one.choices][-1], "stop")
    equal([one.usage is not None for one in chunks].index(True), len(chunks) - 1)


@cell("batch", "AsyncOpenAI, calls in flight together")
def calls_together() -> None:
    async def translated() -> list[str | None]:
        async with openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY) as both:
            calls = [
                both.chat.completions.create(model="dragoman/ja", messages=[{"role": "user", "content": one}])
                for one in TEXTS
            ]
            return [one.choices[0].message.content for one in await asyncio.gather(*calls)]

    equal(asyncio.run(translated()), EXPECTED["ja"])


@cell("languages", "models.list")
def languages() -> None:
    assert {"dragoman/ja", "dragoman/ko"} <= {one.id for one in client.models.list()}


@cell("errors", "no target, or an instruction that is not understood: BadRequestError")
def errors() -> None:
    for model in ("gpt-4o-mini", "dragoman/xx"):
        try:
            found = client.chat.completions.create(model=model, messages=MESSAGES)
        except openai.BadRequestError:
            continue
        raise AssertionError(f"{model}: {found}")


@refused
def translate(key: str) -> str | None:
    other = openai.OpenAI(base_url=f"{URL}/v1", api_key=key)
    return other.chat.completions.create(model="dragoman/ja", messages=MESSAGES).choices[0].message.content


main()
