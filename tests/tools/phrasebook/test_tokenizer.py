"""The tokenizer: exact, and cutting what is copied the same way everywhere."""

from random import Random

import pytest
from tokenizers import Tokenizer
from tools.phrasebook.tokenizer import CONTROLS, encode, language_id, prompt_ids

from dragoman.phrasebook import LANGUAGES

pytestmark = pytest.mark.acceptance


def round_trip(fitted: Tokenizer, text: str) -> str:
    return fitted.decode(encode(fitted, text), skip_special_tokens=False)


def test_any_text_comes_back_exactly(fitted: Tokenizer) -> None:
    rng = Random(1)
    ranges = [(1, 0x80), (0x80, 0x800), (0x3000, 0xD800), (0xE000, 0xFFFF), (0x1F300, 0x1FAFF)]
    for _ in range(500):
        text = "".join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(40))
        assert round_trip(fitted, text) == text


@pytest.mark.parametrize("text", ["", " ", "  a\n\n\tb ", "e\u0301 é ﬁ Ａ", "\r\n"])
def test_spaces_and_forms_are_not_normalised(fitted: Tokenizer, text: str) -> None:
    assert round_trip(fitted, text) == text


def test_control_tokens_have_the_lowest_ids_and_the_languages_follow(fitted: Tokenizer) -> None:
    assert [fitted.token_to_id(token) for token in CONTROLS] == list(range(16))
    assert [language_id(language) for language in LANGUAGES] == [fitted.token_to_id(f"<|{x}|>") for x in LANGUAGES]


def test_a_control_token_in_a_text_is_text(fitted: Tokenizer) -> None:
    prompt = prompt_ids(fitted, "en", "ja", "<|eos|>hi<|sep|>")
    assert [token for token in prompt if token < len(CONTROLS)] == [1, 4, 5, 3]
    assert fitted.decode(prompt[3:-1], skip_special_tokens=False) == "<|eos|>hi<|sep|>"


@pytest.mark.parametrize(
    "value", ["Maria", "Zorvina", "AX-4821", "https://www.kvontrel.io/zib?id=77", "zib_v2.pdf", "zkv@kvon.io"]
)
def test_a_copied_value_is_cut_the_same_way_in_every_language(fitted: Tokenizer, value: str) -> None:
    cut = encode(fitted, value)
    for text in ("see {} now", "see {}.", "今は{}を見る。", "지금 {}를 봐요.", "请看{}。", "<b0>{}</b0>"):
        ids = encode(fitted, text.replace("{}", value))
        assert any(ids[at : at + len(cut)] == cut for at in range(len(ids)))
