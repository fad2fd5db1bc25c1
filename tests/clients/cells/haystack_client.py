"""haystack-ai."""

from __future__ import annotations

from typing import Any

from cells import EXPECTED, JA, KEY, TEXT, TEXTS, URL, cell, equal, main, refused
from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret


def generator(kind: Any = OpenAIChatGenerator, key: str = KEY, **options: Any) -> Any:
    return kind(api_key=Secret.from_token(key), model="dragoman/ja", api_base_url=f"{URL}/v1", **options)


def translated(one: Any, text: str = TEXT) -> str:
    return one.run([ChatMessage.from_user(text)])["replies"][0].text


@cell("text", "OpenAIChatGenerator, OpenAIResponsesChatGenerator")
def text() -> None:
    equal(translated(generator()), JA)
    equal(translated(generator(OpenAIResponsesChatGenerator)), JA)


@cell("batch", "a text after the other")
def batch() -> None:
    equal([translated(generator(), one) for one in TEXTS], EXPECTED["ja"])


@cell("streaming", "streaming_callback")
def streaming() -> None:
    parts: list[str] = []
    equal(translated(generator(streaming_callback=lambda chunk: parts.append(chunk.content))), JA)
    equal("".join(parts), JA)


@refused
def translate(key: str) -> str:
    return translated(generator(key=key, max_retries=0))


main()
