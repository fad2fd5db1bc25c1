"""What is sent to each API, and how its answers and streams are read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.bench.client import (
    BadReplyError,
    Reply,
    StreamedError,
    TargetOptions,
    event_data,
    filled,
    make_target,
)
from dragoman_bench.bench.workload import Item

ITEM = Item("Hello, {target}!", "en", "ja", 4)
DETECTED = Item("Hello", None, "ja", 1)
FORCED = Item("Hello", "en", "ja", 1, output_tokens=12)


def _options(kind: str, **other: Any) -> TargetOptions:
    return TargetOptions(kind=kind, **other)  # type: ignore[arg-type]


def test_native_requests() -> None:
    target = make_target(_options("dragoman", api_key="k"))

    assert target.path == "/v1/translate"
    assert target.headers == {"Authorization": "Bearer k"}
    assert target.body(ITEM) == {"text": ITEM.text, "source": "en", "target": "ja", "stream": False}
    assert "source" not in target.body(DETECTED)
    assert target.body(FORCED)["force_output_tokens"] == 12
    assert "force_output_tokens" not in make_target(_options("dragoman", forced=False)).body(FORCED)


def test_native_answers() -> None:
    one = {"text": "こんにちは", "source": "en", "detected": False, "finish_reason": "length", "warnings": []}
    answer = {
        "translations": [one],
        "model": "m",
        "usage": {"characters": 5, "prompt_tokens": 9, "completion_tokens": 4},
    }

    assert make_target(_options("dragoman")).whole(answer) == Reply("こんにちは", 4, "length")


def test_native_streams() -> None:
    target = make_target(_options("dragoman", stream=True))
    translation = {"text": "駅は", "source": "en", "detected": False, "finish_reason": "stop", "warnings": []}

    assert target.body(ITEM)["stream"] is True
    assert target.event('{"index": 0, "delta": "駅"}') == Reply("駅")
    assert target.event(json.dumps({"index": 0, "translation": translation})) == Reply("", None, "stop")
    assert target.event('{"usage": {"completion_tokens": 4}}') == Reply("", 4)
    assert target.event("[DONE]") == Reply(end=True)
    with pytest.raises(StreamedError, match="engine_failed"):
        target.event('{"error": {"code": "engine_failed", "message": "no"}}')


def test_chat_requests() -> None:
    options = _options("openai-chat", model="m", stream=True, api_key="k", system="To {target_name}.")
    target = make_target(options)

    body = target.body(ITEM)

    assert target.path == "/v1/chat/completions"
    assert target.headers == {"Authorization": "Bearer k"}
    assert body["messages"][0] == {"role": "system", "content": "To Japanese."}
    assert body["messages"][1]["content"].endswith(ITEM.text)
    assert "from English to Japanese" in body["messages"][1]["content"]
    assert (body["model"], body["stream"], body["stream_options"]) == ("m", True, {"include_usage": True})
    assert (body["max_tokens"], body["temperature"]) == (1024, 0.0)
    assert "min_tokens" not in body


def test_forced_lengths_override_the_limit() -> None:
    body = make_target(_options("openai-completions", model="m", max_tokens=5)).body(FORCED)

    assert (body["max_tokens"], body["min_tokens"], body["ignore_eos"]) == (12, 12, True)


def test_completions_send_the_filled_template() -> None:
    target = make_target(_options("openai-completions", model="m", user="{source}>{target}: {text}\n"))

    assert target.path == "/v1/completions"
    assert target.body(ITEM)["prompt"] == "en>ja: Hello, {target}!\n"  # the text's own braces stay
    assert "messages" not in target.body(ITEM)


def test_a_template_names_a_source_that_is_not_given() -> None:
    assert filled("{source} {source_name}", DETECTED) == "auto the language it is in"


def test_chat_answers_and_streams() -> None:
    target = make_target(_options("openai-chat", model="m", stream=True))
    answer = {
        "choices": [{"message": {"content": "こんにちは"}, "finish_reason": "stop"}],
        "usage": {"completion_tokens": 3},
    }

    assert target.whole(answer) == Reply("こんにちは", 3, "stop")
    assert target.event('{"choices":[{"delta":{"role":"assistant","content":""}}]}') == Reply("")
    assert target.event('{"choices":[{"delta":{"content":"こ"}}],"usage":null}') == Reply("こ")
    assert target.event('{"choices":[{"delta":{},"finish_reason":"length"}]}') == Reply("", None, "length")
    assert target.event('{"choices":[],"usage":{"completion_tokens":3}}') == Reply("", 3)
    assert target.event("[DONE]").end
    with pytest.raises(StreamedError):
        target.event('{"error":{"message":"no"}}')


def test_completion_answers_and_streams() -> None:
    target = make_target(_options("openai-completions", model="m", stream=True))

    assert target.whole({"choices": [{"text": "ab", "finish_reason": "length"}]}) == Reply("ab", None, "length")
    assert target.event('{"choices":[{"text":"a","finish_reason":null}]}') == Reply("a")


def test_libretranslate() -> None:
    target = make_target(_options("libretranslate", api_key="k"))

    assert target.path == "/translate"
    assert target.body(DETECTED) == {
        "q": "Hello",
        "source": "auto",
        "target": "ja",
        "format": "text",
        "api_key": "k",
    }
    assert target.whole({"translatedText": "こんにちは"}) == Reply("こんにちは")


def test_deepl() -> None:
    target = make_target(_options("deepl", api_key="k"))

    assert target.path == "/v2/translate"
    assert target.headers == {"Authorization": "DeepL-Auth-Key k"}
    assert target.body(ITEM) == {"text": [ITEM.text], "source_lang": "EN", "target_lang": "JA"}
    assert "source_lang" not in target.body(DETECTED)
    assert target.whole({"translations": [{"text": "こんにちは", "detected_source_language": "EN"}]}) == Reply(
        "こんにちは"
    )


@pytest.mark.parametrize("kind", ["dragoman", "openai-chat", "openai-completions", "libretranslate", "deepl"])
@pytest.mark.parametrize(
    "answer", [None, [], {}, {"translations": []}, {"choices": [{}]}, {"translatedText": 7}, "text"]
)
def test_an_answer_of_another_shape_is_a_bad_reply(kind: str, answer: object) -> None:
    with pytest.raises(BadReplyError):
        make_target(_options(kind, model="m")).whole(answer)


@pytest.mark.parametrize("kind", ["dragoman", "openai-chat", "openai-completions"])
@pytest.mark.parametrize("data", ["", "{", "[]", "7"])
def test_an_event_of_another_shape_is_a_bad_reply(kind: str, data: str) -> None:
    with pytest.raises(BadReplyError):
        make_target(_options(kind, model="m", stream=True)).event(data)


def test_what_an_api_cannot_do_is_refused() -> None:
    with pytest.raises(ConfigError, match="does not stream"):
        make_target(_options("deepl", stream=True))
    with pytest.raises(ConfigError, match="--model"):
        make_target(_options("openai-chat"))
    with pytest.raises(ConfigError, match=r"no \{text\}"):
        make_target(_options("openai-chat", model="m", user="Translate."))


async def _read(*lines: bytes) -> list[str]:
    async def stream() -> AsyncIterator[bytes]:
        for line in lines:
            yield line

    return [data async for data in event_data(stream())]


async def test_an_event_is_its_data_up_to_a_blank_line() -> None:
    assert await _read(b"data: one\n", b"\n", b"data:two\r\n", b"\r\n") == ["one", "two"]


async def test_lines_of_one_event_are_joined() -> None:
    assert await _read(b"data: one\n", b"data: two\n", b"\n") == ["one\ntwo"]


async def test_comments_and_other_fields_are_passed_over() -> None:
    assert await _read(b": ping\n", b"\n", b"event: x\n", b"id: 1\n", b"data: one\n", b"\n") == ["one"]


async def test_an_event_that_was_cut_off_is_none() -> None:
    assert await _read(b"data: one\n", b"\n", b"data: tw") == ["one"]


async def test_only_one_space_is_taken_off() -> None:
    assert await _read("data:  駅\n".encode(), b"\n") == [" 駅"]
