"""litellm."""

from __future__ import annotations

import asyncio
from typing import Any

import litellm
from cells import EXPECTED, JA, KEY, TEXT, TEXTS, URL, cell, equal, main, refused
from pydantic import BaseModel

litellm.suppress_debug_info = True
HERE: dict[str, Any] = {"model": "openai/dragoman/ja", "api_base": f"{URL}/v1", "api_key": KEY}
MESSAGES = [{"role": "user", "content": TEXT}]


class Answer(BaseModel):
    """The form of an answer in JSON."""

    translation: str


@cell("text", "completion, responses, text_completion")
def text() -> None:
    equal(litellm.completion(**HERE, messages=MESSAGES).choices[0].message.content, JA)
    equal(litellm.responses(**HERE, input=TEXT).output_text, JA)
    of_text = HERE | {"model": "text-completion-openai/dragoman/ja"}
    equal(litellm.text_completion(**of_text, prompt=TEXT).choices[0].text, JA)


@cell("text", "the target in a header")
def header() -> None:
    other = HERE | {"model": "openai/gpt-4o-mini"}
    found = litellm.completion(**other, messages=MESSAGES, extra_headers={"X-Target-Language": "ko"})
    equal(found.choices[0].message.content, EXPECTED["ko"][0])


@cell("batch", "acompletion, calls in flight together")
def batch() -> None:
    async def together() -> list[str]:
        calls = (litellm.acompletion(**HERE, messages=[{"role": "user", "content": one}]) for one in TEXTS)
        return [one.choices[0].message.content for one in await asyncio.gather(*calls)]

    equal(asyncio.run(together()), EXPECTED["ja"])


@cell("streaming", "completion and responses: stream=True")
def streaming() -> None:
    chunks = litellm.completion(**HERE, messages=MESSAGES, stream=True)
    equal("".join(one.choices[0].delta.content or "" for one in chunks), JA)
    events = litellm.responses(**HERE, input=TEXT, stream=True)
    equal("".join(one.delta for one in events if one.type == "response.output_text.delta"), JA)


@cell("structured", "response_format with a Pydantic model")
def structured() -> None:
    found = litellm.completion(**HERE, messages=MESSAGES, response_format=Answer)
    equal(Answer.model_validate_json(found.choices[0].message.content), Answer(translation=JA))


@refused
def translate(key: str) -> str:
    return litellm.completion(**HERE | {"api_key": key}, messages=MESSAGES).choices[0].message.content


main()
