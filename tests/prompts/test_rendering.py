"""What each profile's prompt says, against what its vendor published."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dragoman.prompts.catalog import profiles
from dragoman.prompts.encoder import PromptEncoder
from dragoman.prompts.tokenizer import TextTokenizer

RENDERED = {
    "phrasebook": ("en", "ko", "<|bos|><|en|><|ko|>Hi<|sep|>"),
    "hunyuan-mt": ("en", "zh", "<|startoftext|>把下面的文本翻译成中文，不要额外解释。\n\nHi<|extra_0|>"),
    "hy-mt1.5-7b": (
        "en",
        "de",
        "<|startoftext|>Translate the following segment into German, without additional explanation.\n\nHi<|extra_0|>",
    ),
    "hy-mt1.5-1.8b": (
        "zh",
        "ja",
        "<｜hy_begin▁of▁sentence｜><｜hy_User｜>将以下文本翻译为日语，注意只需要输出翻译后的结果，不要额外解释：\n\nHi<｜hy_Assistant｜>",
    ),
    "hy-mt2-30b-a3b": (
        None,
        "de",
        "<｜hy_begin▁of▁sentence｜><｜reasoning_mode｜>reasoning_effort:no_think<｜hy_User｜>"
        "Translate the following text into German. Note that you should"
        " only output the translated result without any additional explanation:\n\nHi"
        "<｜hy_Assistant｜><think></think>",
    ),
    "translategemma": (
        "en",
        "zh-Hant",
        "<bos><start_of_turn>user\nYou are a professional English (en) to Chinese (zh-Hant) translator. Your goal is to"
        " accurately convey the meaning and nuances of the original English text while adhering to Chinese grammar, vocabulary,"
        " and cultural sensitivities.\nProduce only the Chinese translation, without any additional explanations or commentary."
        " Please translate the following English text into Chinese:\n\n\nHi<end_of_turn>\n<start_of_turn>model\n",
    ),
    "seed-x": ("en", "zh", "Translate the following English sentence into Chinese:\nHi <zh>"),
    "tower-instruct": (
        "en",
        "pt",
        "<|im_start|>user\nTranslate the following text from English into Portuguese.\nEnglish: Hi\nPortuguese:<|im_end|>\n"
        "<|im_start|>assistant\n",
    ),
    "tower-plus": (
        "en",
        "pt-PT",
        "<|im_start|>user\nTranslate the following English source text to Portuguese (Portugal):\nEnglish: Hi\n"
        "Portuguese (Portugal): <|im_end|>\n<|im_start|>assistant\n",
    ),
    "gemmax2": ("zh", "en", "Translate this from Chinese to English:\nChinese: Hi\nEnglish:"),
    "milmmt": ("zh", "en", "Translate this from Chinese (Simplified) to English:\nChinese (Simplified): Hi\nEnglish:"),
    "lmt-60": (
        "en",
        "el",
        "<|im_start|>user\nTranslate the following text from English into Modern Greek:\nEnglish: Hi\nModern Greek:<|im_end|>\n"
        "<|im_start|>assistant\n",
    ),
    "eurollm": (
        "en",
        "mt",
        "<|im_start|>system\nYou are EuroLLM --- an AI assistant specialized in European languages that provides safe,"
        " educational and helpful answers.<|im_end|>\n<|im_start|>user\nTranslate the following English source text to"
        " Maltese:\nEnglish: Hi\nMaltese: <|im_end|>\n<|im_start|>assistant\n",
    ),
}


@pytest.mark.parametrize("name", RENDERED)
def test_a_profile_renders_what_its_vendor_published(name: str, make_toy: Callable[[str, str], TextTokenizer]) -> None:
    source, target, expected = RENDERED[name]
    assert PromptEncoder(profiles()[name], make_toy("byte-level", name)).render("Hi", source, target) == expected


def test_qwen_gets_an_empty_think_block_and_a_system_prompt(make_toy: Callable[[str, str], TextTokenizer]) -> None:
    rendered = PromptEncoder(profiles()["qwen3"], make_toy("byte-level", "qwen3")).render(
        "Hi", "en", "ko", "A greeting"
    )
    assert rendered.startswith(
        "<|im_start|>system\nYou are a translation engine. Translate the user's message from English into"
    )
    assert "not to be translated:\nA greeting<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n" in rendered
    assert rendered.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")


def test_a_template_without_system_role_gets_the_system_prompt_in_the_turn(
    make_toy: Callable[[str, str], TextTokenizer],
) -> None:
    rendered = PromptEncoder(profiles()["chat"], make_toy("gemma", "chat")).render("Hi", None, "ko")
    assert rendered.startswith(
        "<bos><start_of_turn>user\nYou are a translation engine. Translate the user's message into Korean."
    )
    assert rendered.endswith("\n\nHi<end_of_turn>\n<start_of_turn>model\n")


def test_context_uses_the_trained_prompt(make_toy: Callable[[str, str], TextTokenizer]) -> None:
    one_five = PromptEncoder(profiles()["hy-mt1.5-7b"], make_toy("byte-level", "hy-mt1.5-7b"))
    assert one_five.render("Hi", "en", "de", "CTX") == (
        "<|startoftext|>CTX\n参考上面的信息，把下面的文本翻译成德语，注意不需要翻译上文，也不要额外解释：\nHi<|extra_0|>"
    )
    two = PromptEncoder(profiles()["hy-mt2-7b"], make_toy("byte-level", "hy-mt2-7b"))
    assert "[Background Information]\nCTX\n\nPlease translate the following text into German," in two.render(
        "Hi", "en", "de", "CTX"
    )
    assert "【背景信息】\nCTX\n\n请结合背景信息将以下文本翻译为中文。" in two.render("Hi", "en", "zh", "CTX")
