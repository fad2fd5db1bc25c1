"""Requests of programs that translate through a chat model, and what a server makes of them.

`programs.json`: the programs, with the file of their public source that was read, at its commit, in eight lists: the second
to the eighth (`"list": 2`) were each made after the held-out part of the one before had been looked at, or measured and built
on. `held_out`: the sha256 of the name, read as a number, is divisible by three, in the second list by two, in the others by
one: all of them are held out. Programs of the fifth, seventh and eighth whose repository is not known are `unknown/…`. These
requests are looked at only to measure. `programs.jsonl`: the requests of the others, a line for each form that a program sends.
`forms.jsonl`: forms whose program is not named. Sentences are written anew; structure, markers, order and fields are those
of the source. A line has:

- `api`: `openai`, `openai responses`, `ollama chat`, `ollama generate` or `microsoft`; `request`: the fields beside the model;
- `target`, `source`: languages; `texts`: what is to be translated (`or_texts`: the program also takes this);
- the answer that the program reads, with `{0}`, `{1}`, … for the translations: `answer` as a text (`or_answers`: these too);
  `answer_json` as JSON (`fenced`: in a fence too); `answer_jsonl` as objects of which each is a line, with or without a
  fence. `answer` null: translations alone do not answer it, and a model may be given the messages, or they may be refused.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Literal

import httpx

from dragoman import phrasebook
from dragoman.engine.spec import resolve
from dragoman.pipelines.fake import FakePipeline
from dragoman.prompts.catalog import profiles
from dragoman.prompts.encoder import PromptEncoder
from dragoman.service.service import TranslationService
from dragoman.settings import CacheSettings, OpenAiSettings, Settings
from dragoman.types import EngineSequence
from tests.api.compat.test_unknown_prompts import lengths, prompt_of, tokenizer
from tests.serving import model, served

FOLDER = Path(__file__).parent
DEVELOPMENT = FOLDER / "programs.jsonl"
FORMS = FOLDER / "forms.jsonl"
HELD_OUT = {
    1: FOLDER / "programs_held_out.jsonl",
    2: FOLDER / "programs_held_out_2.jsonl",
    3: FOLDER / "programs_held_out_3.jsonl",
    4: FOLDER / "programs_held_out_4.jsonl",
    5: FOLDER / "programs_held_out_5.jsonl",
    6: FOLDER / "programs_held_out_6.jsonl",
    7: FOLDER / "programs_held_out_7.jsonl",
    8: FOLDER / "programs_held_out_8.jsonl",
}
"""The files of the held-out requests by list."""
DIVISORS = {1: 3, 2: 2, 3: 3, 4: 1, 5: 1, 6: 1, 7: 1, 8: 1}
"""What the sha256 of a held-out program's name is divisible by, by list."""
Outcome = Literal["right", "passed", "refused", "garbage"]
OUTCOMES: tuple[Outcome, ...] = ("right", "passed", "refused", "garbage")
PROFILES = {"translation-only": False, "instruct": True}
"""The names under which results are listed, and whether the model follows instructions."""
MAX_MODEL_LEN = 8192
"""Tokens: a long prompt that is passed on has space."""


@cache
def programs() -> list[dict[str, Any]]:
    """The programs, with what was read of them."""
    return json.loads((FOLDER / "programs.json").read_text())


def requests_of(path: Path) -> list[dict[str, Any]]:
    """The requests of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def chats_of(path: Path) -> list[dict[str, Any]]:
    """Those to a chat model."""
    return [one for one in requests_of(path) if one["api"] != "microsoft"]


def file_of(program: Mapping[str, Any]) -> Path:
    """Where a listed program's requests are written."""
    return HELD_OUT[program.get("list", 1)] if program["held_out"] else DEVELOPMENT


# ---- a server


def mark(sequence: EngineSequence) -> str:
    """The answer of a fake model: the text in the last message of its prompt, with a mark before it; JSON to a chat that it is
    given as it is."""
    said = prompt_of(sequence).rpartition("<|im_start|>user\n")[2].partition("<|im_end|>")[0]
    text, count = before_text().subn("", said, count=1)
    return f"~{text}" if count else '{"an answer": "to a chat"}'


@cache
def before_text() -> re.Pattern[str]:
    """What the profile says before a text, in any language."""
    before = profiles()["chat"].templates[0].text.partition("{text}")[0]
    return re.compile(r"\A" + re.escape(before).replace(re.escape("{target}"), r"[^\n]+"))


@asynccontextmanager
async def serving(follows_instructions: bool, openai: OpenAiSettings | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """A server with a fake model of many languages, which marks what it is given."""
    settings = Settings(openai=openai or OpenAiSettings(), cache=CacheSettings(max_bytes=0))
    spec = resolve(str(phrasebook.model_dir()), replace(settings.engine, max_num_seqs=8), "cpu")
    spec = replace(spec, engine=replace(spec.engine, max_model_len=MAX_MODEL_LEN))
    profile = replace(profiles()["chat"], follows_instructions=follows_instructions)
    service = TranslationService(
        settings,
        replace(model(), profile=profile),
        spec,
        FakePipeline(mark, max_model_len=MAX_MODEL_LEN),
        (PromptEncoder(profile, tokenizer()[0]), lengths()),
    )
    async with served(service) as client:
        yield client


_PATHS = {
    "openai": "/v1/chat/completions",
    "openai responses": "/v1/responses",
    "ollama chat": "/api/chat",
    "ollama generate": "/api/generate",
}


async def send(http: httpx.AsyncClient, request: Mapping[str, Any], named: bool) -> httpx.Response:
    """A program's request. `named`: the target is in the model's name."""
    name = f"dragoman/{request['target']}" if named else "dragoman"
    return await http.post(_PATHS[request["api"]], json={"model": name} | request["request"])


def content_of(answer: httpx.Response, api: str) -> str:
    """The content of an answer, whole or streamed. A call of a function has its arguments."""
    if api == "openai responses":
        if "event-stream" in answer.headers["Content-Type"]:
            return "".join(one["delta"] for one in _events(answer) if one["type"] == "response.output_text.delta")
        parts = [part for item in answer.json()["output"] for part in item.get("content", ())]
        return "".join(part["text"] for part in parts)
    if api == "openai":
        if "event-stream" not in answer.headers["Content-Type"]:
            message = answer.json()["choices"][0]["message"]
            if calls := message.get("tool_calls"):
                return calls[0]["function"]["arguments"]
            return message["content"]
        return "".join(one["choices"][0]["delta"].get("content") or "" for one in _events(answer))
    lines = [json.loads(line) for line in answer.text.splitlines()]
    return "".join(one["message"]["content"] if "message" in one else one["response"] for one in lines)


def _events(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in answer.text.splitlines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


# ---- outcomes


async def _translations(http: httpx.AsyncClient, request: Mapping[str, Any]) -> list[list[str]]:
    """The texts as the native API translates them: of known and detected source, and of each format that a text may have."""
    found: list[list[str]] = []
    for texts, source, format_ in product(
        (request["texts"], request.get("or_texts")), {request["source"], None}, ("text", "html")
    ):
        if texts:
            call = {"text": texts, "target": request["target"], "source": source, "format": format_}
            answer = await http.post("/v1/translate", json=call)
            assert answer.status_code == 200, (request["program"], request["form"], answer.text)
            found.append([one["text"] for one in answer.json()["translations"]])
    return found


def _filled(shape: Any, texts: Sequence[str]) -> Any:
    """A shape with the translations in their places. White space around strings does not count."""
    if isinstance(shape, str):
        for place, text in enumerate(texts):
            shape = shape.replace(f"{{{place}}}", text.strip())
        return shape.strip()
    if isinstance(shape, list):
        return [_filled(one, texts) for one in shape]
    if isinstance(shape, dict):
        return {name: _filled(one, texts) for name, one in shape.items()}
    return shape


def _read(content: str, request: Mapping[str, Any]) -> Any:
    """What the program reads in an answer. Raises ValueError where it would."""
    if "answer_json" in request:
        if request.get("fenced"):
            content = "\n".join(line for line in content.split("\n") if not line.startswith("```"))
        return _filled(json.loads(content), ())
    if "answer_jsonl" in request:
        return [_filled(json.loads(line), ()) for line in content.split("\n") if line and not line.startswith("```")]
    return content.strip()


async def outcome(http: httpx.AsyncClient, request: Mapping[str, Any], named: bool) -> Outcome:
    """What becomes of a program's request."""
    answer = await send(http, request, named)
    if answer.status_code != 200:
        assert 400 <= answer.status_code < 500, (request["program"], request["form"], answer.text)
        return "refused"
    if answer.headers.get("X-Prompt-Passed") == "true":
        return "passed"
    shape = next((request[name] for name in ("answer_json", "answer_jsonl", "answer") if name in request), None)
    if shape is None:
        return "garbage"
    try:
        found = _read(content_of(answer, request["api"]), request)
    except ValueError:
        return "garbage"
    shapes = [shape, *request.get("or_answers", ())]
    wanted = [_filled(shape, texts) for texts in await _translations(http, request) for shape in shapes]
    return "right" if found in wanted else "garbage"


def _rows(requests: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for request in requests:
        yield {"program": request["program"], "form": request["form"], "api": request["api"]}


async def outcomes(requests: Sequence[Mapping[str, Any]], openai: OpenAiSettings | None = None) -> list[dict[str, Any]]:
    """A row for each request: what becomes of it by profile and by model name."""
    rows = list(_rows(requests))
    for profile, follows in PROFILES.items():
        async with serving(follows, openai) as http:
            for request, row in zip(requests, rows, strict=True):
                for name, named in (("dragoman", False), ("dragoman/LANG", True)):
                    row[f"{profile}, {name}"] = await outcome(http, request, named)
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How many requests had which outcome, by profile and model name."""
    columns = [name for name in rows[0] if name not in ("program", "form", "api")]
    counts = {name: Counter(row[name] for row in rows) for name in columns}
    return [
        {"of": name, "requests": len(rows)} | {outcome: counts[name][outcome] for outcome in OUTCOMES}
        for name in columns
    ]
