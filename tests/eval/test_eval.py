"""`dragoman eval`: what is sent to each API and read from it, scores, comparison, hard inputs, the page, errors."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner

from dragoman.errors import ConfigError
from dragoman_bench.bench.progress import NoProgress
from dragoman_bench.cli.eval import command
from dragoman_bench.eval.apis import ApiKind, ApiOptions, Ask, translation_api
from dragoman_bench.eval.fidelity import fidelity_page, kind_table, run_fidelity
from dragoman_bench.eval.judge import HARD_INPUTS, read_inputs
from dragoman_bench.eval.quality import compare_results, read_references, run_quality, score_table
from dragoman_bench.eval.results import FIDELITY, QUALITY, EvalResults
from tests.bench.serving import Handler, serving, stats
from tests.eval.faulty import sentence_rows

ASK = Ask("<b>dog</b>", "en", "ja", "html")


def answering(payload: Any, sent: list[Any] | None = None) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        if sent is not None:
            sent.append((await request.json(), request.headers.get("Authorization")))
        return web.json_response(payload)

    return handler


NATIVE = {
    "translations": [
        {"text": "犬", "finish_reason": "stop", "warnings": [{"code": "tags_lost"}], "retries": ["cut_around"]}
    ]
}
CHAT = {"choices": [{"message": {"content": "犬"}}]}


@pytest.mark.parametrize(
    ("kind", "path", "payload", "expected"),
    [
        ("dragoman", "/v1/translate", NATIVE,
         {"text": ASK.text, "source": "en", "target": "ja", "format": "html", "stream": False}),
        ("libretranslate", "/translate", {"translatedText": "犬"},
         {"q": ASK.text, "source": "en", "target": "ja", "format": "html", "api_key": "k"}),
        ("deepl", "/v2/translate", {"translations": [{"text": "犬"}]},
         {"text": [ASK.text], "source_lang": "EN", "target_lang": "JA", "tag_handling": "html"}),
    ],
)  # fmt: skip
async def test_each_api_is_sent_the_text_and_its_format(
    kind: ApiKind, path: str, payload: Any, expected: dict[str, Any]
) -> None:
    sent: list[Any] = []
    async with serving({path: answering(payload, sent)}) as url:
        async with translation_api(ApiOptions(url, kind, api_key="k")) as api:
            answer = await api.translate(ASK)
        async with translation_api(ApiOptions(url, kind, api_key="k", plain=True)) as api:
            await api.translate(ASK)
    assert answer.text == "犬" and not answer.error
    assert sent[0][0] == expected
    assert not {"html"} & {str(value) for value in sent[1][0].values()}
    if kind == "dragoman":
        assert (answer.warnings, answer.retries) == (("tags_lost",), ("cut_around",))
        assert sent[0][1] == "Bearer k"
    if kind == "deepl":
        assert sent[0][1] == "DeepL-Auth-Key k"


async def test_a_chat_model_is_asked_for_the_translation_alone() -> None:
    sent: list[Any] = []
    async with serving({"/v1/chat/completions": answering(CHAT, sent)}) as url:
        async with translation_api(ApiOptions(url, "openai-chat", model="m")) as api:
            assert (await api.translate(ASK)).text == "犬"
    [message] = sent[0][0]["messages"]
    assert message["content"].endswith("\n\n<b>dog</b>")
    assert "HTML" in message["content"]
    with pytest.raises(ConfigError):
        ApiOptions(url, "openai-chat")


async def test_a_busy_server_is_asked_again_and_errors_are_answers() -> None:
    asked = 0

    async def busy_then_wrong(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        if asked == 1:
            return web.json_response({}, status=429, headers={"Retry-After": "0.01"})
        return web.json_response(NATIVE) if asked == 2 else web.json_response({"error": "no"}, status=422)

    async with serving({"/v1/translate": busy_then_wrong}) as url:
        async with translation_api(ApiOptions(url)) as api:
            assert (await api.translate(ASK)).text == "犬"
            assert "422" in (await api.translate(ASK)).error
            with pytest.raises(ConfigError, match="422"):
                await api.translate_all([ASK] * 40, NoProgress(), asyncio.Event())
    async with translation_api(ApiOptions("http://127.0.0.1:1")) as api:
        with pytest.raises(ConfigError, match="cannot reach"):
            await api.translate(ASK)


async def test_an_interruption_keeps_what_was_answered() -> None:
    interrupted = asyncio.Event()

    async def third_interrupts(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if body["text"] == "2":
            interrupted.set()
        return web.json_response(NATIVE)

    async with serving({"/v1/translate": third_interrupts}) as url:
        async with translation_api(ApiOptions(url, concurrency=1)) as api:
            asks = [Ask(str(number), "en", "ja") for number in range(9)]
            answers = await api.translate_all(asks, NoProgress(), interrupted)
    assert [answer is not None for answer in answers] == [True] * 3 + [False] * 6


# ---- quality


def references_file(folder: Path, count: int = 12) -> Path:
    file = folder / "texts.jsonl"
    names = ("source", "reference", "source_language", "target_language")
    rows = [dict(zip(names, (row[0], row[1], "en", "ja"), strict=True)) for row in sentence_rows()[:count]]
    file.write_text("\n".join(map(json.dumps, rows)))
    return file


async def run_scored(folder: Path, wrong: int) -> EvalResults:
    """Every `wrong`th answer is another sentence."""
    by_text = {row[0]: row[1] for row in sentence_rows()[:12]}
    asked: list[str] = []

    async def translate(request: web.Request) -> web.StreamResponse:
        text = (await request.json())["text"]
        asked.append(text)
        answer = {
            "text": by_text[text] if len(asked) % wrong else "別の文です。",
            "finish_reason": "stop",
            "warnings": [],
        }
        return web.json_response({"translations": [answer]})

    routes = {"/v1/translate": translate, "/v1/stats": answering(stats(cpu_instruction_sets=["avx2"]))}
    async with serving(routes) as url:
        async with translation_api(ApiOptions(url, concurrency=1)) as api:
            return await run_quality(api, references_file(folder), NoProgress(), asyncio.Event())


async def test_texts_are_scored_with_signatures_and_conditions(tmp_path: Path) -> None:
    results = await run_scored(tmp_path, wrong=100)
    score = results.scores["en>ja"]
    assert (score["texts"], score["chrf"], score["bleu"]) == (12, 100.0, 100.0)
    assert "tok:char" in score["bleu_signature"]
    assert results.conditions.server["cpu_instruction_sets"] == ["avx2"]
    assert [row.cells[0].text for row in score_table(results).rows] == ["en>ja"]
    QUALITY.write(results, tmp_path / "results.json.gz")
    assert QUALITY.read(tmp_path / "results.json.gz") == results
    with pytest.raises(ConfigError, match="quality"):
        FIDELITY.read(tmp_path / "results.json.gz")


async def test_two_results_are_compared_text_by_text(tmp_path: Path) -> None:
    good, bad = await run_scored(tmp_path, wrong=100), await run_scored(tmp_path, wrong=2)
    [table] = compare_results(good, bad)
    for row in table.rows:
        _, _, texts, one, other, _, p = (cell.text for cell in row.cells)
        assert texts == "12" and float(one) == 100 and float(other) < 90 and float(p) < 0.05


LINE = {"source": "a", "reference": "b", "source_language": "EN", "target_language": "zh_CN"}


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"source": "a"}),
        json.dumps(LINE | {"reference": " "}),
        json.dumps(LINE | {"checks": ["a"]}),
        json.dumps(LINE | {"target_language": "klingonese"}),
        "{",
    ],
    ids=range(5),
)
def test_a_line_that_is_no_reference_is_named(line: str, tmp_path: Path) -> None:
    file = tmp_path / "texts"
    file.write_text(f"{json.dumps(LINE)}\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="line 2"):
        read_references(file)


def test_json_lines_are_read(tmp_path: Path) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_text(json.dumps(LINE) + "\n", encoding="utf-8")
    [one] = read_references(file)
    assert (one.text, one.reference, one.source, one.target) == ("a", "b", "en", "zh-CN")


# ---- hard inputs


async def judged(echo: bool) -> EvalResults:
    """Every input echoed, or answered with nothing."""

    async def translate(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        one = {"text": body["text"] if echo else "", "warnings": [{"code": "x"}], "retries": ["aligned", "x"]}
        return web.json_response({"translations": [one]})

    async with serving({"/v1/translate": translate, "/v1/stats": answering(stats())}) as url:
        async with translation_api(ApiOptions(url)) as api:
            return await run_fidelity(api, HARD_INPUTS, NoProgress(), asyncio.Event())


async def test_hard_inputs_are_judged_by_kind_and_written_as_a_page(tmp_path: Path) -> None:
    echoed, lost = await judged(echo=True), await judged(echo=False)
    shares = {row.cells[0].text: [cell.text for cell in row.cells[1:]] for row in kind_table(echoed).rows}
    assert shares["all"][1:3] == ["100 %", "100 %"]  # structure and what is kept
    assert shares["inline tags"][4] == "0 %"  # a translation
    assert shares["inline tags"][5:] == ["100 %", "0 %", "100 %", "100 %", "0 %"]
    assert {row.judgement.structure for row in lost.judged if row.kind == "nested tags"} == {False}

    FIDELITY.write(echoed, tmp_path / "with.json")
    FIDELITY.write(lost, tmp_path / "without.json")
    page = tmp_path / "fidelity.md"
    arguments = ["--page", str(page), str(tmp_path / "with.json"), "--without", str(tmp_path / "without.json")]
    assert CliRunner().invoke(command, arguments, standalone_mode=False).exception is None
    written = page.read_text(encoding="utf-8")
    assert written == fidelity_page(echoed, lost, read_inputs())
    assert "| nested tags |" in written


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--page", "x.md"],
        ["--fidelity", "a.tsv"],
        ["missing.tsv"],
        ["a", "b"],
        ["--compare", "missing.json", "other.json"],
        ["a.tsv", "--url", "nonsense"],
    ],
    ids=" ".join,
)
def test_wrong_arguments_are_one_error(arguments: list[str]) -> None:
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert isinstance(result.exception, ConfigError)
