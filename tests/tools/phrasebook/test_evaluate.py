"""Translating in batches, scores, and the evaluation of a model directory."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from tests.tools.phrasebook.conftest import SMALL
from tokenizers import Tokenizer
from tools.phrasebook.adequacy import LineResult
from tools.phrasebook.evaluate import Task, Translated, copies, page, quality, translate_all
from tools.phrasebook.model import export
from tools.phrasebook.render import Copied
from tools.phrasebook.tokenizer import EOS_ID, prompt_ids
from tools.phrasebook.translating import greedy, of_weights
from transformers import LlamaForCausalLM

from dragoman.phrasebook import model_dir
from tools.phrasebook import evaluate, independent

pytestmark = pytest.mark.acceptance

REFERENCE = "Tom is in suite 1204. See https://a.example/x."
TASKS = [
    Task(("en", "ja"), "Where is the train station?"),
    Task(("ko", "zh"), "밥을 주세요."),
    Task(("zh", "en"), "非常感谢。"),
    Task(("ja", "ko"), "どうもありがとうございます。値段は25ドルです。りんごをください。"),
]


def translated(answer: str, tokens: int = 30, copied: tuple[Copied, ...] = ()) -> Translated:
    return Translated(Task(("ja", "en"), "", REFERENCE, tokens, copied), answer)


def alone(model: LlamaForCausalLM, fitted: Tokenizer, task: Task, limit: int) -> str:
    """The same answer without batch, padding or cache."""
    prompt = prompt_ids(fitted, *task.direction, task.text)
    ids = list(prompt)
    with torch.inference_mode():
        while len(ids) < len(prompt) + limit and ids[-1] != EOS_ID:
            ids.append(int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    return fitted.decode([token for token in ids[len(prompt) :] if token != EOS_ID], skip_special_tokens=False)


def test_a_batch_answers_each_task_as_if_it_were_alone(model: LlamaForCausalLM, fitted: Tokenizer) -> None:
    answers = [one.answer for one in translate_all(greedy(model, fitted), TASKS)]
    assert len(set(answers)) > 1
    for task, answer in zip(TASKS, answers, strict=True):
        expected = alone(model, fitted, task, limit=12)
        # An untrained model rarely ends: answers are compared as far as the shorter limit goes.
        shared = min(len(expected), len(answer)) - 2
        assert shared > 0
        assert answer[:shared] == expected[:shared]


def test_the_packaged_model_translates() -> None:
    tasks = [Task(("en", "ko"), "Where is the station?"), Task(("ja", "en"), "駅はどこですか？")]
    answers = translate_all(of_weights(model_dir()), tasks)
    assert [one.answer for one in answers] == ["역이 어디예요?", "Where is the station?"]


def test_an_equal_translation_scores_full_and_a_near_one_between() -> None:
    assert quality([translated(REFERENCE)]) == {"count": 1, "chrf": 100.0, "exact": 1.0}
    score = quality([translated(REFERENCE.replace("Tom", "Tim")), translated(REFERENCE)])
    assert 80 < score["chrf"] < 100
    assert score["exact"] == 0.5
    assert quality([]) == {"count": 0, "chrf": 0.0, "exact": 0.0}


def test_copies_are_counted_by_kind() -> None:
    items = (Copied("name", "Tom"), Copied("url", "https://a.example/x"))
    wrong = REFERENCE.replace("1204", "1205").replace("/x", "/y")
    found = copies([translated(REFERENCE, copied=items), translated(wrong, copied=items)])
    assert found["name"] == {"count": 2, "exact": 1.0}
    assert found["url"] == {"count": 2, "exact": 0.5}
    assert found["numbers of a message"] == {"count": 2, "exact": 0.5}
    assert copies([translated(f"{REFERENCE} Tom", copied=items)])["name"]["exact"] == 0.0


def test_a_model_is_evaluated_into_a_table_a_file_and_a_page(
    model: LlamaForCausalLM, fitted: Tokenizer, tmp_path: Path
) -> None:
    export(model, SMALL, fitted, tmp_path / "model")
    out, docs = tmp_path / "results" / "phrasebook.json", tmp_path / "phrasebook.md"
    arguments = ["--model", str(tmp_path / "model"), "--messages", "1", "--out", str(out), "--docs", str(docs)]
    result = CliRunner().invoke(evaluate.main, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "en-ja" in result.stdout
    written = json.loads(out.read_text(encoding="utf-8"))
    assert written["messages"]["all"]["count"] == written["sentences"]["all"]["count"] == 12
    assert written["conditions"]["training"] == []
    assert docs.read_text(encoding="utf-8") == page(written, None)


def test_the_committed_page_is_that_of_the_committed_figures() -> None:
    root = Path(__file__).parents[3]
    result, independent, confidence = (
        json.loads((root / f"results/{name}.json").read_text(encoding="utf-8"))
        for name in ("phrasebook", "phrasebook-independent", "phrasebook-confidence")
    )
    assert (root / "docs/phrasebook.md").read_text(encoding="utf-8") == page(result, independent, confidence)


def test_kept_translations_are_judged_again_but_of_sources_that_have_changed() -> None:
    rows = independent.rows_of("validation")[:2]
    kept = [
        LineResult(row.id, row.topic, "en", "ja", source, row.texts["ja"][0], adequate=False, exact=False)
        for row, source in zip(rows, (rows[0].texts["en"][0], "another text"), strict=True)
    ]
    [judged] = independent.judged_again([{"set": "validation", "results": [asdict(one) for one in kept]}])
    assert [(one["row_id"], one["adequate"], one["exact"]) for one in judged["results"]] == [(rows[0].id, True, True)]
    assert judged["summary"]["all"]["lines"] == 1


def test_evaluating_an_empty_directory_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    result = CliRunner().invoke(evaluate.main, ["--model", str(tmp_path)])
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert str(tmp_path) in line
