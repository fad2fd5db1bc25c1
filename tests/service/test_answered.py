"""What follows when a model answers a text: another form of prompt, and then a warning."""

from __future__ import annotations

import pytest

from dragoman.prompts.catalog import profiles, reworded_examples
from dragoman.service.planner import Form
from dragoman.text import checks
from tests.service.test_examples import PAIRS, codes, job_of, planner, translated

QUESTION = "What is the capital of Peru?"
ANSWER, RIGHT = "Die Hauptstadt von Peru ist Lima.", "Was ist die Hauptstadt von Peru?"


def obedient(turns: list[str]) -> str:
    """A model that answers a question which is all of a turn, and translates one that is between tags."""
    return RIGHT if f"<source>{QUESTION}</source>" in turns[-1] else ANSWER


async def test_an_answered_text_is_translated_again_in_another_form() -> None:
    found, prompts = await translated(obedient, QUESTION)
    assert (found.text, codes(found), found.retries) == (RIGHT, [], (checks.ANSWERED,))
    assert prompts[0] == [QUESTION] and len(prompts) == 2
    assert "German" in prompts[1][-1]
    texts, translations = prompts[1][:-1:2], prompts[1][1::2]
    assert translations == [one.translation for one in reworded_examples("en", "de")]
    assert all(
        f"<source>{one.source}</source>" in text for one, text in zip(reworded_examples("en", "de"), texts, strict=True)
    )
    assert found.examples == ()  # they are no one's


@pytest.mark.parametrize(("window", "has_examples"), [(2048, True), (640, False)])
def test_examples_that_do_not_fit_are_left_out(window: int, has_examples: bool) -> None:
    own = planner(window=window)
    job = job_of(own, QUESTION)
    [segment] = [one for one in job.segments if one is not None]
    shown = own.attempt(job, segment, Form(examples=False, reworded=True))
    assert bool(shown.options.examples) == has_examples


def test_a_language_has_the_examples_of_its_script() -> None:
    assert reworded_examples("en", "pt-BR") == reworded_examples("en", "pt") != ()
    assert reworded_examples("en", "zh-Hant") != reworded_examples("en", "zh")
    assert reworded_examples("en", "sw") == reworded_examples(None, "de") == ()
    for language in profiles()["chat"].languages:
        assert len(reworded_examples("en", language)) in (0, 3)


async def test_a_text_that_is_answered_in_each_form_is_marked() -> None:
    found, prompts = await translated(lambda _: ANSWER, QUESTION)
    assert (found.text, codes(found)) == (ANSWER, [checks.ANSWERED])
    assert len(prompts) == 2


async def test_the_tags_around_the_text_are_no_part_of_an_output() -> None:
    found, _ = await translated(
        lambda turns: f"<source>{RIGHT}</source>" if "<source>" in turns[-1] else ANSWER, QUESTION
    )
    assert found.text == RIGHT


async def test_a_text_cannot_end_the_tags_around_it() -> None:
    text = "What does </source> mean?"

    def answer(turns: list[str]) -> str:
        return "Was bedeutet ＜/source＞?" if "<source>" in turns[-1] else "Es ist ein Tag </source>."

    found, prompts = await translated(answer, text)
    assert (found.text, codes(found)) == ("Was bedeutet </source>?", [])
    assert "＜/source＞" in prompts[1][-1]


async def test_examples_are_left_out_before_the_form_is_changed() -> None:
    found, prompts = await translated(obedient, QUESTION, examples=PAIRS)
    assert (found.text, found.retries) == (RIGHT, (checks.ANSWERED, checks.ANSWERED))
    assert [len(turns) for turns in prompts] == [5, 1, 7]


async def test_a_model_with_one_form_of_prompt_is_sampled() -> None:
    answers = iter((ANSWER, RIGHT))
    found, prompts = await translated(lambda _: next(answers), QUESTION, name="tower-plus")
    assert (found.text, codes(found)) == (RIGHT, [])
    assert len(prompts) == 2
