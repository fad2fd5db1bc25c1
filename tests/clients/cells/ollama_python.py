"""ollama, the client for Python."""

from __future__ import annotations

import asyncio
import json

import ollama
from cells import EXPECTED, JA, KEY, TEXT, TEXTS, URL, cell, equal, japanese, main, refused

MODEL = "dragoman/ja"
SCHEMA = {"type": "object", "properties": {"translation": {"type": "string"}}, "required": ["translation"]}


def client_of(key: str) -> ollama.Client:
    return ollama.Client(URL, headers={"Authorization": f"Bearer {key}"})


client = client_of(KEY)
MESSAGES = [{"role": "user", "content": TEXT}]


@cell("text", "chat; the target in the model's name")
def text() -> None:
    found = client.chat(model=MODEL, messages=MESSAGES)
    equal((found.message.content, found.done, found.done_reason), (JA, True, "stop"))
    equal((found.total_duration or 0) > 0, True)


@cell("text", "generate, with a system message and Ollama's spelling of a model")
def generate() -> None:
    equal(client.generate(model="dragoman:ja", prompt=TEXT).response, JA)
    equal(client.generate(model="llama3.2", system="Translate to Japanese.", prompt=TEXT).response, JA)


@cell("text", "chat with options, keep_alive and think")
def options() -> None:
    found = client.chat(
        model=MODEL, messages=MESSAGES, options={"temperature": 0, "num_ctx": 4096}, keep_alive="5m", think=False
    )
    equal(found["message"]["content"], JA)


@cell("batch", "AsyncClient, calls in flight together")
def batch() -> None:
    async def translated() -> list[str | None]:
        other = ollama.AsyncClient(URL, headers={"Authorization": f"Bearer {KEY}"})
        calls = [other.chat(model=MODEL, messages=[{"role": "user", "content": one}]) for one in TEXTS]
        return [one.message.content for one in await asyncio.gather(*calls)]

    equal(asyncio.run(translated()), EXPECTED["ja"])


@cell("streaming", "chat and generate, stream=True")
def streaming() -> None:
    *pieces, last = client.chat(model=MODEL, messages=MESSAGES, stream=True)
    equal(("".join(one.message.content or "" for one in pieces), last.done, last.message.content), (JA, True, ""))
    *pieces, last = client.generate(model=MODEL, prompt=TEXT, stream=True)
    equal(("".join(one.response for one in pieces), last.done, last.response), (JA, True, ""))


@cell("structured", "format: a JSON schema")
def structured() -> None:
    found = client.chat(model=MODEL, messages=MESSAGES, format=SCHEMA)
    japanese(json.loads(found.message.content or "")["translation"])


@cell("languages", "list, show, ps")
def languages() -> None:
    names = {one.model for one in client.list().models}
    assert {"dragoman/ja:latest", "dragoman/ko:latest"} <= names, names
    shown = client.show("dragoman/ja")
    equal(shown.capabilities, ["completion"])
    equal(len(client.ps().models), 1)


@cell("errors", "no target: ResponseError")
def errors() -> None:
    for name in ("llama3.2", "dragoman/xx"):
        for stream in (False, True):
            try:
                found = client.chat(model=name, messages=MESSAGES, stream=stream)
                found = list(found) if stream else found
            except ollama.ResponseError as error:
                equal(error.status_code, 400)
                continue
            raise AssertionError(f"{name}: {found}")


@refused
def translate(key: str) -> str | None:
    return client_of(key).chat(model=MODEL, messages=MESSAGES).message.content


main()
