"""Which text, which languages and which form a chat's messages ask for, in the ways that programs write them."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from dragoman.api.compat import chat
from dragoman.errors import InvalidRequest
from dragoman.types import Translation

TEXT = "Where is the station?\nIt is near."
TRANSLATOR = "You are a translation engine that can only translate text and cannot interpret it."
IMMERSIVE = (
    "You are a professional {to} native translator who needs to fluently translate text into {to}.\n\n"
    "## Translation Rules\n1. Output only the translated content, without explanations"
)
KISS = (
    "# Context\nTitle: News\nDescription: \nSummary: \nTone: formal\n\n# Glossary:\n- a: b\n\n# Task\n"
    "Translate the Source Text below to {to}.\n1. Use the Context to ensure accuracy.\n"
    "2. Adapt the wording to match the specified Tone.\n"
    "3. Output ONLY the translated text. No markdown, no explanations.\n\nSource Text: {text}\n\nTranslated Text:"
)
WEBLATE = (
    "\nYou are a highly skilled translation assistant, adept at translating text\nfrom language '{source}'\n"
    "to language '{to}'\nwith precision and nuance.\n\nYou always reply with translated string only.\n"
)


def task(user: str, system: str | None = None, target: str | None = None) -> chat.Task:
    messages: list[tuple[chat.Role, str]] = [("system", system)] if system else []
    return chat.parse([*messages, ("user", user)], target)


@pytest.mark.parametrize(
    ("system", "user", "languages"),
    [
        (IMMERSIVE.format(to="ja"), "Translate to ja (output translation only):\n\n{text}\n", (None, "ja")),
        (IMMERSIVE.format(to="zh-CN"), "Translate to zh-CN:\n\n\n{text}", (None, "zh-CN")),
        (
            "你是一位專業的 日本語 母語翻譯者，需要流暢地將文字翻譯成 日本語。",
            "翻譯成 日本語（僅輸出翻譯）：\n\n{text}",
            (None, "ja"),
        ),
        (
            "You are a professional, authentic machine translation engine.",
            KISS.replace("{to}", "Japanese"),
            (None, "ja"),
        ),
        (TRANSLATOR, "translate from en to zh-CN:\n\n{text}", ("en", "zh-CN")),
        (TRANSLATOR, "translate from Esperanto to Korean:\n\n{text}", ("eo", "ko")),
        (TRANSLATOR, "翻译成繁体白话文:\n\n{text}", (None, "zh-Hant")),
        (TRANSLATOR, 'Translate into Brazilian Portuguese:\n"""\n{text}\n"""', (None, "pt-BR")),
        (
            None,
            "You are a professional translator.\n\nOnly reply the result and nothing else. "
            "Please translate to 日本語:\n\n{text}",
            (None, "ja"),
        ),
        (None, "将下面的文本从日文翻译成简体中文：\n{text}", ("ja", "zh-Hans")),
        (
            None,
            "Translate the following text into Korean. Note that you should only output the translated result without "
            "any additional explanation:\n\n{text}",
            (None, "ko"),
        ),
    ],
)
def test_the_text_is_taken_out_of_the_templates_of_programs(
    system: str | None, user: str, languages: tuple[str | None, str]
) -> None:
    found = task(user.replace("{text}", TEXT), system)
    assert (found.source, found.target) == languages
    assert [text.strip() for text in found.texts] == [TEXT]


@pytest.mark.parametrize(
    ("system", "languages"),
    [
        ("You are a translator. Translate to Japanese.", (None, "ja")),
        ("Translate everything into 日本語.", (None, "ja")),
        ("あなたは翻訳者です。韓国語に翻訳してください。".replace("韓国語", "한국어"), (None, "ko")),
        ("请把用户的文字翻译成日文。", (None, "ja")),
        (
            "You are a translator. Please help me translate the following English text into Simplified Chinese. "
            "You should only output the translation result without any additional explanations.",
            (None, "zh-Hans"),
        ),
        (WEBLATE.format(source="it", to="no"), ("it", "no")),
        ("Translate the text to be read by a child into German, and keep it short.", (None, "de")),
        ("Your job is to translate from French to English.", ("fr", "en")),
    ],
)
def test_languages_of_a_system_message(system: str, languages: tuple[str | None, str]) -> None:
    found = task(TEXT, system)
    assert (found.source, found.target, found.texts) == (*languages, (TEXT,))


@pytest.mark.parametrize(
    ("system", "user", "target"),
    [
        (None, TEXT, None),
        ("You are a helpful assistant.", TEXT, None),
        ("Summarise what the user says.", TEXT, "ja"),
        ("Translate into French or German, as you like.", TEXT, None),
        ("You are a text embellisher.", "polish this sentence:\n\nHello.", None),
        (None, "polish this sentence:\n\nHello.", "ja"),
        (None, "Please translate this for my friend:\nHello.", "ja"),
        (None, "Hello.\n\nTranslate the above to French.", "ja"),
        (None, "Translate 'hello' into French", "ja"),
        (None, "You are an expert. Your task is to translate what I send.\nHello.", "ja"),
        (None, "请将下面的文字翻译成日语：\n你好", "ja"),
        (None, "Translate to Nonsense:\n\nHello.", None),
        (TRANSLATOR, "You will be given a YAML formatted input\n<yaml>\n- id: 1\n</yaml>", "ja"),
    ],
)
def test_what_is_not_understood_is_refused(system: str | None, user: str, target: str | None) -> None:
    with pytest.raises(InvalidRequest):
        task(user, system, target)


@pytest.mark.parametrize(
    ("system", "user"),
    [
        (None, "How to translate documents to PDF\nFirst, open one."),
        (None, "This book was translated into English in 1920."),
        (WEBLATE.format(source="en", to="ja"), "Translate this page into your language"),
        ("You are a helpful assistant.", TEXT),
    ],
)
def test_texts_about_translating_are_texts(system: str | None, user: str) -> None:
    found = task(user, system, "ja")
    assert (found.texts, found.target) == ((user,), "ja")


def test_a_language_that_the_request_names_goes_before_those_of_messages() -> None:
    found = task("Translate to German:\n\nHello.", "Translate to French.", "ja")
    assert (found.target, found.texts) == ("ja", ("Hello.",))


def test_the_last_user_message_counts() -> None:
    found = chat.parse(
        [("system", "Translate to Japanese."), ("user", "One."), ("assistant", "一。"), ("user", "Two.")], None
    )
    assert found.texts == ("Two.",)
    with pytest.raises(InvalidRequest):
        chat.parse([("user", "One."), ("assistant", "一")], "ja")


def test_separators_between_texts_are_kept() -> None:
    found = task("Translate to ja:\n\nA 100%% cat.\n\n%%\n\nB\n==WEBLATE_PART==\nC")
    assert found.texts == ("A 100%% cat.", "B", "C")
    assert found.write([_translation(text) for text in "一二三"]) == "一\n\n%%\n\n二\n==WEBLATE_PART==\n三"


@pytest.mark.parametrize(
    ("system", "written"),
    [
        ("Act as a translation API. Output a single raw JSON object only.", None),
        (
            "Act as a translation API. <root>\n</root>",
            '<root>\n<t id="0" sourceLanguage="en">一</t>\n<t id="7" sourceLanguage="en">二\n三</t>\n</root>',
        ),
        ('Act as a translation API. Output raw text lines in "ID | Text" format.', "0 | 一\n7 | 二<br>三"),
    ],
)
def test_a_batch_of_kiss_translator(system: str, written: str | None) -> None:
    batch = {
        "targetLanguage": "ja",
        "segments": [{"id": 0, "text": "One <b1>cat</b1>."}, {"id": 7, "text": "Two\nthree."}],
        "glossary": {"cat": "猫", "React": ""},
        "tone": "casual",
        "title": "Cats",
    }
    found = task(json.dumps(batch), system)
    assert (found.target, found.format, found.texts) == ("ja", "html", ("One <b1>cat</b1>.", "Two\nthree."))
    assert (found.glossary, found.keep, found.formality, found.context) == (
        {"cat": "猫"},
        ("React",),
        "prefer_less",
        "Cats",
    )
    expected = written or json.dumps(
        {
            "translations": [
                {"id": 0, "text": "一", "sourceLanguage": "en"},
                {"id": 7, "text": "二\n三", "sourceLanguage": "en"},
            ]
        },
        ensure_ascii=False,
    )
    assert found.write([_translation("一"), _translation("二\n三")]) == expected


@pytest.mark.parametrize("text", ["\n" * 200_000, "Title: " * 30_000, "translate to " * 20_000, " %%\n" * 20_000])
def test_no_message_takes_long(text: str) -> None:
    """Searches that start again at each character would take minutes."""
    for user in (
        f"x{text}x",
        KISS.replace("{to}", "Japanese").replace("{text}", f"x{text}x"),
        f"# Context\nTitle: {text}",
    ):
        with suppress(InvalidRequest):
            task(user, "Translate to " + text, "ja")


def _translation(text: str) -> Translation:
    return Translation(text, "en", False, "stop")
