"""instructor, over the openai client."""

from __future__ import annotations

from typing import Any

import instructor
import openai
from cells import EXPECTED, JA, KEY, TEXT, TEXTS, URL, cell, equal, main, refused
from pydantic import BaseModel


class Answer(BaseModel):
    """The form of an answer in JSON."""

    translation: str


class Line(BaseModel):
    """A translation with the id that the message has."""

    id: int
    text: str


class Lines(BaseModel):
    """Several translations."""

    lines: list[Line]


def client_of(key: str = KEY, **options: Any) -> instructor.Instructor:
    return instructor.from_openai(openai.OpenAI(base_url=f"{URL}/v1", api_key=key), **options)


def asked(client: instructor.Instructor, text: str, form: Any = Answer) -> Any:
    messages = [{"role": "user", "content": text}]
    return client.chat.completions.create(model="dragoman/ja", messages=messages, response_model=form, max_retries=0)


@cell("text", "response_model=None")
def text() -> None:
    equal(asked(client_of(), TEXT, None).choices[0].message.content, JA)


@cell("structured", "modes TOOLS, TOOLS_STRICT, JSON_SCHEMA")
def modes() -> None:
    for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):
        equal(asked(client_of(mode=mode), TEXT).translation, JA)  # of a class that instructor derives


@cell("batch", "a list of objects with ids, which are kept")
def batch() -> None:
    lines = Lines(lines=[Line(id=7 + place, text=text) for place, text in enumerate(TEXTS)])
    found = asked(client_of(), lines.model_dump_json(), Lines)
    equal([(one.id, one.text) for one in found.lines], [*zip(range(7, 15), EXPECTED["ja"], strict=True)])


@cell("streaming", "create_partial")
def streaming() -> None:
    messages = [{"role": "user", "content": TEXT}]
    parts = client_of().chat.completions.create_partial(model="dragoman/ja", messages=messages, response_model=Answer)
    *_, last = parts
    equal(last.translation, JA)


@refused
def translate(key: str) -> str:
    return asked(client_of(key), TEXT).translation


main()
