"""openai, the Python client."""

from __future__ import annotations

import asyncio
import random

import openai
from cells import EXPECTED, JA, KEY, TEXT, TEXTS, URL, cell, equal, main, refused
from pydantic import BaseModel

client = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY)
MESSAGES = [{"role": "user", "content": TEXT}]


class Answer(BaseModel):
    """The form of an answer in JSON."""

    translation: str


class Lines(BaseModel):
    """Several translations, each with the id that the message has."""

    class Line(BaseModel):
        id: int
        text: str

    lines: list[Line]


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


@cell("text", "responses.create, with instructions")
def responses() -> None:
    found = client.responses.create(model="dragoman/ja", input=TEXT)
    equal((found.output_text, found.status), (JA, "completed"))
    found = client.responses.create(model="gpt-5", instructions="Translate to Korean.", input=TEXT)
    equal(found.output_text, EXPECTED["ko"][0])


@cell("text", "completions.create")
def completions() -> None:
    found = client.completions.create(model="dragoman/ja", prompt=TEXT, max_tokens=100)
    equal((found.choices[0].text, found.choices[0].finish_reason), (JA, "stop"))


@cell("streaming", "chat.completions: stream=True, with usage at the end")
def streaming() -> None:
    chunks = list(
        client.chat.completions.create(
            model="dragoman/ja", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
    )
    equal("".join(one.choices[0].delta.content or "" for one in chunks if one.choices), JA)
    equal([one.choices[0].finish_reason for one in chunks if one.choices][-1], "stop")
    equal([one.usage is not None for one in chunks].index(True), len(chunks) - 1)


@cell("streaming", "responses.stream and completions: stream=True")
def other_streams() -> None:
    with client.responses.stream(model="dragoman/ja", input=TEXT) as stream:
        deltas = "".join(one.delta for one in stream if one.type == "response.output_text.delta")
        equal((deltas, stream.get_final_response().output_text), (JA, JA))
    chunks = client.completions.create(model="dragoman/ja", prompt=TEXT, stream=True)
    equal("".join(one.choices[0].text for one in chunks), JA)


@cell("structured", "chat.completions.parse and responses.parse: an object, a list with ids")
def parsed() -> None:
    found = client.chat.completions.parse(model="dragoman/ja", messages=MESSAGES, response_format=Answer)
    equal(found.choices[0].message.parsed, Answer(translation=JA))
    lines = Lines(lines=[Lines.Line(id=7 + place, text=text) for place, text in enumerate(TEXTS)])
    answer = client.responses.parse(model="dragoman/ja", input=lines.model_dump_json(), text_format=Lines)
    equal([(one.id, one.text) for one in answer.output_parsed.lines], [*zip(range(7, 15), EXPECTED["ja"], strict=True)])


@cell("structured", "tools: a function that tool_choice demands, also streamed")
def tools() -> None:
    tool = openai.pydantic_function_tool(Answer)
    options = {"model": "dragoman/ja", "messages": MESSAGES, "tools": [tool], "tool_choice": "required"}
    [call] = client.chat.completions.create(**options).choices[0].message.tool_calls
    equal(Answer.model_validate_json(call.function.arguments), Answer(translation=JA))
    with client.chat.completions.stream(**options) as stream:
        [call] = stream.get_final_completion().choices[0].message.tool_calls
    equal(call.function.parsed_arguments, Answer(translation=JA))


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


@cell("languages", "models.list, models.retrieve")
def languages() -> None:
    assert {"dragoman/ja", "dragoman/ko"} <= {one.id for one in client.models.list()}
    equal(client.models.retrieve("dragoman/ja").id, "dragoman/ja")


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
