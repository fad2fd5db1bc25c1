"""The requests of programs, and the answers as these programs read them: every item comes back, in its place."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from dragoman.api.compat import chat
from dragoman.errors import InvalidRequest, UnknownPrompt
from dragoman.types import Translation
from tests.api.compat.chat_texts import texts
from tests.serving import fake_service, served, source_of
from wholetext.markup.spans import pseudolocalized

REQUESTS: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("chat_requests.toml").read_text())["request"]
SERVED = [one for one in REQUESTS if one["parses"] != "refused"]

_PYSUBTRANS = re.compile(
    r"#(?P<number>\d+)(?:[\s\r\n]+Original>[\s\r\n]+(?P<original>[\s\S]*?))?[\s\r\n]+Translation>"
    r"(?:[\s\r\n]?(?P<body>[\s\S]*?))?(?=\n#\d|\Z)"
)


def _in_brackets(reply: str) -> Any:
    return json.loads(reply[reply.index("[") : reply.rindex("]") + 1])


def _yaml(name: str) -> Callable[[str], list[str]]:
    return lambda reply: [one[name] for one in sorted(yaml.safe_load(reply), key=lambda one: one["id"])]


READERS: dict[str, Callable[[str], list[str]]] = {
    "text": lambda reply: [reply],
    "%%": lambda reply: re.split(r"\n\s*%%\s*\n", reply),
    "@@": lambda reply: re.split(r"\s*@@\s*", reply),
    "==WEBLATE_PART==": lambda reply: reply.split("\n==WEBLATE_PART==\n"),
    "json list": json.loads,
    "json brackets": _in_brackets,
    "json object": lambda reply: [text for _, text in sorted(json.loads(reply).items(), key=lambda one: int(one[0]))],
    "json id output": lambda reply: [one["output"] for one in sorted(json.loads(reply), key=lambda one: one["id"])],
    "json translations position line": lambda reply: [one["line"] for one in json.loads(reply)["translations"]],
    "json brackets position line": lambda reply: [one["line"] for one in _in_brackets(reply)],
    "json translations id text": lambda reply: [one["text"] for one in json.loads(reply)["translations"]],
    "json items id translated": lambda reply: [one["translated"] for one in json.loads(reply)["items"]],
    "json entries direct": lambda reply: [one["direct"] for one in json.loads(reply).values()],
    "json entries free": lambda reply: [one["free"] for one in json.loads(reply).values()],
    "json translation": lambda reply: [json.loads(reply)["translation"]],
    "kiss xml": lambda reply: re.findall(r'<t id="[^"]*" sourceLanguage="[^"]*">(.*?)</t>', reply, re.DOTALL),
    "kiss lines": lambda reply: [line.split(" | ", 1)[1].replace("<br>", "\n") for line in reply.splitlines()],
    "yaml text": _yaml("text"),
    "yaml step2": _yaml("step2"),
    "pysubtrans": lambda reply: [found["body"].strip() for found in _PYSUBTRANS.finditer(f"{reply}\n\n")],
    "fluentread": lambda reply: [
        text
        for _, text in re.findall(r"___FLUENTREAD_(\w+?)_BEGIN___([\s\S]*?)___FLUENTREAD_\1_END___(?:\n|\Z)", reply)
    ],
    "quoted lines": lambda reply: [line[1:-1] for line in reply.splitlines()],
}


def messages_of(request: dict[str, Any]) -> list[tuple[chat.Role, str]]:
    return [(role, text) for role, text in request["messages"]]


def form_of(request: dict[str, Any]) -> dict[str, Any]:
    return {"response_format": json.loads(request["response_format"])} if "response_format" in request else {}


def schema_of(request: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of the answer that a request names; None: any JSON, or no form."""
    return json.loads(request.get("response_format", "{}")).get("json_schema", {}).get("schema")


def read(request: dict[str, Any], messages: list[tuple[chat.Role, str]], named: str | None) -> chat.Task:
    """A program's request with these messages, in the form that it asks for."""
    task = chat.parse(messages, named, has_schema=schema_of(request) is not None)
    return task.as_json(schema_of(request)) if "response_format" in request else task


def translation(text: str) -> Translation:
    return Translation(text, "en", False, "stop")


@pytest.mark.parametrize("request_", SERVED, ids=lambda one: one["program"])
def test_a_request_is_understood_and_its_answer_read(request_: dict[str, Any]) -> None:
    for named in (None, request_["target"]):
        task = read(request_, messages_of(request_), named)
        assert list(task.texts) == request_["texts"]
        assert (task.target, task.source) == (request_["target"], request_.get("source"))
    hard = [f'Nummer {place}: "so" – 5 % \\ {{x}} # nein' for place in range(len(task.texts))]
    if len(hard) > 1 and request_["parses"] != "quoted lines":
        hard[1] = "Zeile eins,\nZeile zwei: 3."
    assert READERS[request_["parses"]](task.write([translation(text) for text in hard])) == hard


@pytest.mark.parametrize("named", [None, "de"])
def test_what_is_no_translation_is_refused(named: str | None) -> None:
    for request in REQUESTS:
        if request["parses"] == "refused":
            with pytest.raises(UnknownPrompt):
                chat.parse(messages_of(request), named)


@pytest.fixture(scope="module")
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with served(fake_service(step_s=0.0)) as client:
        yield client


async def ask(http: httpx.AsyncClient, messages: Any, **options: Any) -> str:
    body = {"model": "dragoman/ja", "messages": [{"role": role, "content": text} for role, text in messages]}
    answer = await http.post("/v1/chat/completions", json=body | options)
    assert answer.status_code == 200, answer.text
    if not options.get("stream"):
        return answer.json()["choices"][0]["message"]["content"]
    events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    return "".join(json.loads(event)["choices"][0]["delta"].get("content") or "" for event in events)


@pytest.mark.parametrize("stream", [False, True])
async def test_answers_have_what_the_native_api_returns(http: httpx.AsyncClient, stream: bool) -> None:
    for request in SERVED:
        task = read(request, messages_of(request), "ja")
        native = {
            "text": list(task.texts),
            "target": "ja",
            "source": task.source,
            "format": task.format,
            "glossary": dict(task.options.glossary) or None,
            "keep": list(task.options.keep),
        }
        expected = (await http.post("/v1/translate", json=native)).json()["translations"]
        reply = await ask(http, request["messages"], stream=stream, **form_of(request))
        found = READERS[request["parses"]](reply)
        assert [text.strip() for text in found] == [one["text"].strip() for one in expected], request["program"]


async def test_a_text_keeps_its_tags_and_line_breaks_and_nothing_in_it_is_left() -> None:
    async with served(fake_service(lambda sequence: pseudolocalized(source_of(sequence)))) as http:
        subtitle = await ask(http, [("user", "<i>Hello</i> there.\nGeneral <b1>Kenobi</b1>.")])
        assert "\n" in subtitle and re.findall("<[^>]*>", subtitle) == ["<i>", "</i>", "<b1>", "</b1>"]
        paragraph = await ask(http, [("user", "This is <style id='1'>very bold</style> text.")])  # BabelDOC's
        assert "<style id='1'>" in paragraph and "very bold" not in paragraph
        page = await ask(http, [("user", "<p>Now run <code>make</code>.</p>")])
        assert "<code>make</code>" in page and "run" not in page


# ---- many lines


def _indented(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _entries(fields: dict[str, str]) -> Callable[[list[str]], str]:
    return lambda lines: _indented({str(n): {"origin": line, **fields} for n, line in enumerate(lines, 1)})


def _yaml_items(field: str) -> Callable[[list[str]], str]:
    return lambda lines: "\n".join(f"- id: {n}\n  {field}: {line}" for n, line in enumerate(lines, 1))


def _segments(lines: list[str]) -> str:
    return json.dumps([{"id": n, "text": line} for n, line in enumerate(lines)], ensure_ascii=False)


def _subtitles(lines: list[str]) -> str:
    return "\n\n".join(f"#{n}\nOriginal>\n{line}\nTranslation>\n" for n, line in enumerate(lines, 1)).strip()


BLOCKS: dict[str, Callable[[list[str]], str]] = {
    "Immersive Translate, several paragraphs": "\n\n%%\n\n".join,
    "bilingual_book_maker, batch": "\n\n@@\n\n".join,
    "Weblate up to 5.14": "\n==WEBLATE_PART==\n".join,
    "BabelDOC, paragraphs": lambda lines: _indented(
        [{"id": n, "input": line, "layout_label": "plain text"} for n, line in enumerate(lines)]
    ),
    "Subtitle Edit, advanced batches with synopsis and glossary": lambda lines: json.dumps(
        [{"n": n, "text": line} for n, line in enumerate(lines, 7)], ensure_ascii=False
    ),
    "Lingarr, batch with a schema": lambda lines: _compact(
        [{"position": n, "line": line} for n, line in enumerate(lines, 11)]
    ),
    "LLM-Subtrans (PySubtrans), with a system message": _subtitles,
    "Bazarr, OpenAI-compatible translator": lambda lines: json.dumps(lines, ensure_ascii=False),
    "VideoLingo, first step": _entries({"direct": "direct Deutsch translation"}),
    "Linguist": lambda lines: json.dumps(lines, ensure_ascii=False),
    "Immersive Translate, YAML": _yaml_items("text"),
    "Immersive Translate, YAML in two steps": _yaml_items("source"),
    "KISS Translator, batch answered as JSON": _segments,
    "KISS Translator, batch answered as XML": _segments,
    "KISS Translator, batch answered in lines": _segments,
    "i18n-ai-translate, JSON": lambda lines: json.dumps(
        [{"id": n, "original": line, "context": "", "failure": ""} for n, line in enumerate(lines, 1)],
        ensure_ascii=False,
    ),
    "i18n-ai-translate, CSV": lambda lines: "\n".join(f'"{line}"' for line in lines),
    "FluentRead, the texts of one element": lambda lines: "\n".join(
        f"___FLUENTREAD_1k9x3z_{n}_BEGIN___{line}___FLUENTREAD_1k9x3z_{n}_END___" for n, line in enumerate(lines)
    ),
}
"""The part of a recorded request that holds its texts."""
LINES = [f"{text} ({place})".replace("\n", " ") for place, (_, text) in enumerate(texts(1_000))]


def batch_of(
    program: str, lines: list[str]
) -> tuple[dict[str, Any], list[tuple[chat.Role, str]], Callable[[str], list[str]]]:
    """A program's request, its messages with these lines, and the reader of its answer."""
    request = next(one for one in SERVED if one["program"] == program)
    *before, (role, message) = messages_of(request)
    block = BLOCKS[program](request["texts"])
    assert message.count(block) == 1
    return request, [*before, (role, message.replace(block, BLOCKS[program](lines)))], READERS[request["parses"]]


@pytest.mark.parametrize("size", [10, 25, 50])
@pytest.mark.parametrize("program", BLOCKS)
def test_no_line_of_a_batch_is_lost_merged_or_shifted(program: str, size: int) -> None:
    for at in range(0, len(LINES), size):
        request, messages, read_answer = batch_of(program, LINES[at : at + size])
        task = read(request, messages, None)
        assert list(task.texts) == LINES[at : at + size]
        translations = [f"{text[::-1]}." for text in task.texts]
        assert read_answer(task.write([translation(text) for text in translations])) == translations


# ---- texts that are no instructions

JAPANESE = ("Japanese", "日本語")


@pytest.mark.parametrize("system", [None, "You are a helpful assistant."])
def test_a_text_is_no_instruction_unless_it_asks_for_the_target_of_the_request(system: str | None) -> None:
    refused, count = 0, 2_000
    before: list[tuple[chat.Role, str]] = [("system", system)] if system else []
    for kind, text in texts(count):
        try:
            task = chat.parse([*before, ("user", text)], "ja")
        except UnknownPrompt:
            assert any(name in text for name in JAPANESE)
            refused += kind not in ("instructions of people", "JSON")
            continue
        assert task.target == "ja"
        if task.texts != (text,):
            assert kind in ("instructions of people", "Markdown") and any(name in text for name in JAPANESE)
    assert refused < count / 50


def test_nothing_of_a_text_is_lost_under_a_system_message_that_names_the_target() -> None:
    for kind, text in texts(2_000):
        if kind == "JSON" and '"prompt"' in text:
            continue  # which is an instruction, or a text
        task = chat.parse([("system", "You are a translator. Translate to Japanese."), ("user", text)], None)
        assert task.target == "ja" or (kind == "JSON" and '"target' in text)
        if kind == "sentences":
            assert task.texts == (text,)
        assert task.texts and (kind == "JSON" or all(one in text for one in task.texts))


def test_without_a_target_only_what_names_one_is_read() -> None:
    for kind, text in texts(200):
        with suppress(InvalidRequest):
            task = chat.parse([("user", text)], None)
            assert kind in ("instructions of people", "Markdown") and all(
                one in text and one != text for one in task.texts
            )
