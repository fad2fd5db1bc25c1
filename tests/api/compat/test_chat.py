"""Which text, which languages and which form a chat's messages ask for, in the ways that programs write them."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
import yaml

from dragoman.api.compat import chat
from dragoman.errors import InvalidRequest, TooManyValues, UnknownPrompt
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
        (IMMERSIVE.format(to="zh-CN"), "Translate to zh-CN:\n\n\n{text}", (None, "zh-CN")),
        (
            "你是一位專業的 日本語 母語翻譯者，需要流暢地將文字翻譯成 日本語。",
            "翻譯成 日本語（僅輸出翻譯）：\n\n{text}",
            (None, "ja"),
        ),
        (TRANSLATOR, "translate from Esperanto to Korean:\n\n{text}", ("eo", "ko")),
        (TRANSLATOR, "翻译成繁体白话文:\n\n{text}", (None, "zh-Hant")),
        (TRANSLATOR, 'Translate into Brazilian Portuguese:\n"""\n{text}\n"""', (None, "pt-BR")),
        (None, "将下面的文本从日文翻译成简体中文：\n{text}", ("ja", "zh-Hans")),
        (None, "Translate the following text into German (Germany):\r\n\r\n{text}", (None, "de")),
        ("You are a professional translator.", "Please translate this to Korean:\n\n{text}", (None, "ko")),
    ],
)
def test_the_text_is_taken_out_of_the_templates_of_programs(
    system: str | None, user: str, languages: tuple[str | None, str]
) -> None:
    found = task(user.replace("{text}", TEXT), system)
    assert (found.source, found.target, found.texts) == (*languages, (TEXT,))


@pytest.mark.parametrize(
    ("system", "languages"),
    [
        ("You are a translator. Translate to Japanese.", (None, "ja")),
        ("Translate everything into 日本語.", (None, "ja")),
        ("あなたは翻訳者です。한국어に翻訳してください。", (None, "ko")),
        ("请把用户的文字翻译成日文。", (None, "ja")),
        ("Translate to German. Reply only with the translation, nothing else.", (None, "de")),
        ("You are a professional English to French translator.", ("en", "fr")),
        (WEBLATE.format(source="it", to="no"), ("it", "no")),
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
        ("Summarise what the user says.", f"Translate to ja:\n\n{TEXT}", None),
        ("Translate into French or German, as you like.", TEXT, None),
        ("Translate to Nonsense.", TEXT, None),
        ("You are a text embellisher.", "polish this sentence:\n\nHello.", None),
        (None, "polish this sentence:\n\nHello.", "ja"),
        (None, "Translate to Nonsense:\n\nHello.", None),
        (TRANSLATOR, "You will be given YAML.\n<yaml>\n- id: 1\n</yaml>\nTranslate each text into Japanese.", "ja"),
        (TRANSLATOR, "Rewrite this in Japanese:\nHello.", "ja"),
        ("Act as a translation API. Output a single raw JSON object only.", '{"segments": [{"id": 1}]}', "ja"),
    ],
)
def test_what_no_template_explains_is_refused(system: str | None, user: str, target: str | None) -> None:
    with pytest.raises(InvalidRequest):
        task(user, system, target)


@pytest.mark.parametrize(
    ("system", "user"),
    [
        (None, "How to translate documents to PDF\nFirst, open one."),
        (None, "Translate from heart to mind: a guide"),
        (None, "Can you translate this letter?\nShe nodded. Translate to German:\n\nshe read."),
        (None, "Translate to PDF:\n\nOpen the document."),
        (None, "Translate 'hello' into French"),
        (None, "  indented\n"),
        (WEBLATE.format(source="en", to="ja"), "Translate this page into your language"),
        ("Translate to Japanese.", "Translate to German:\n\nHello."),
        ("You are a helpful assistant.", TEXT),
        ("You are a translator.", TEXT),
    ],
)
def test_texts_about_translating_are_texts(system: str | None, user: str) -> None:
    found = task(user, system, "ja")
    assert (found.texts, found.target) == ((user,), "ja")


LINGUIST = (
    "You are a text translation service. I will provide an array of texts, and your task is to translate them from "
    "language en to language ja.\nKeep it short.\n\nHere is the JSON array of texts: "
)
YAML = (
    'You will be given a YAML formatted input containing entries with "id" and "source" fields. Here is the input:\n\n'
    '<yaml>\n{text}\n</yaml>\n\nFor each entry in the YAML, translate the contents of the "source" field into Japanese. '
    'Write the translation back into the "translation" field for that entry.'
)


@pytest.mark.parametrize(
    "user",
    [
        LINGUIST + "[]",
        LINGUIST + '["a", null]',
        LINGUIST + '["a", "b"',
        YAML.replace("{text}", "- id: 1\n  target: A"),
        "Please translate the following subtitles to Japanese.\n\n#1\nOriginal>\nA",
    ],
)
def test_an_instruction_whose_texts_cannot_be_read_is_no_text(user: str) -> None:
    with pytest.raises(UnknownPrompt):
        task(user, None, "ja")


@pytest.mark.parametrize("user", ["Translate to Japanese:\n\n", "Translate to Japanese:\r\n\r\n \r\n"])
def test_an_instruction_with_an_empty_text_is_no_text(user: str) -> None:
    assert task(user, None, "ja").texts == ("",)


def test_the_scalars_of_yaml_are_read_and_written_as_strings() -> None:
    scalars = {
        "A.": "A.",
        "'it''s: 1'": "it's: 1",
        '"a\\nb"': "a\nb",
        "42": "42",
        "|-\n    a\n    b": "a\nb",
        ">-\n    a\n    b": "a b",
    }
    found = task(YAML.replace("{text}", "\n".join(f"- id: {id}\n  source: {text}" for id, text in enumerate(scalars))))
    assert found.texts == tuple(scalars.values())
    hard = ["42", "null", "~", "No", "2026-01-01", "a\x0b\u2028b\x85"]
    read = yaml.safe_load(found.write([_translation(text) for text in hard]))
    assert [one["translation"] for one in read] == hard


def test_line_ends_stay_as_they_are() -> None:
    text = "One.\r\nTwo.\r\n%%\r\nThree.\nFour."
    found = task(text, None, "ja")
    assert found.texts == ("One.\r\nTwo.", "Three.\nFour.")
    assert found.write([_translation(one) for one in found.texts]) == text


def test_a_text_in_json_may_have_any_escape() -> None:
    assert task('{"half": "\\ud83d"}', None, "ja").texts == ('{"half": "\\ud83d"}',)


def test_a_text_that_begins_with_a_bracket_and_has_very_many_commas_is_a_text() -> None:
    text = "[note] The station is near" + ", and so is the next one" * 100_001 + "."
    assert task(text, "You are a translator. Translate to Japanese.").texts == (text,)
    assert task(f"Translate the following text into German:\n\n{text}").texts == (text,)


def test_a_message_in_json_with_too_many_values_says_that_it_is_the_message() -> None:
    text = json.dumps(["a"] * 100_002)
    with pytest.raises(TooManyValues) as raised:
        task(text, "You are a translator. Translate the JSON list to Japanese.")
    assert raised.value.param == "messages"


def test_ids_that_are_keys_are_written_as_strings() -> None:
    instruction = (
        "## Role\nYou are a professional Netflix subtitle translator, fluent in both English and Japanese, as well as their "
        "respective cultures.\nTranslate the subtitles into Japanese.\n\n"
        "## Output in only JSON format and no other text\n```json\n{text}\n```\n\n"
        "Note: Start you answer with ```json and end with ```, do not add any other text."
    )
    found = task(
        instruction.replace(
            "{text}", json.dumps({'a "b"': {"origin": "One.", "direct": "direct Japanese translation"}})
        )
    )
    assert json.loads(found.write([_translation("一。")])) == {'a "b"': {"origin": "One.", "direct": "一。"}}


def test_a_language_that_the_request_names_goes_before_those_of_messages() -> None:
    found = task("Translate to German:\n\nHello.", IMMERSIVE.format(to="German"), "ja")
    assert (found.target, found.texts) == ("ja", ("Hello.",))


def test_a_long_instruction_with_an_unknown_language_is_no_text() -> None:
    instruction = "Translate the following segment into Klingonese, without additional explanation.\n\nHello."
    assert task(instruction, None, "ja").texts == ("Hello.",)
    with pytest.raises(InvalidRequest):
        task(instruction)


def test_the_target_is_that_of_the_instruction_and_not_of_an_example() -> None:
    example: list[tuple[chat.Role, str]] = [("user", "Translate to French:\n\nYes."), ("assistant", "Oui.")]
    found = chat.parse([*example, ("user", "Translate to German:\n\nTranslate to Korean:\n\nNo.")], None)
    assert (found.target, found.texts) == ("de", ("Translate to Korean:\n\nNo.",))


def test_after_instructions_a_message_without_one_is_refused() -> None:
    """Such as the request of a program to correct its answer."""
    history: list[tuple[chat.Role, str]] = [("user", "Translate to French:\n\nYes."), ("assistant", "Oui.")]
    with pytest.raises(InvalidRequest):
        chat.parse([*history, ("user", "Please correct it.")], "fr")
    assert chat.parse([("user", "Translate what follows."), ("user", "Yes.")], "fr").texts == ("Yes.",)
    assert chat.parse([("user", "Yes."), ("assistant", "Oui."), ("user", "No.")], "fr").texts == ("No.",)


def test_the_terms_of_an_instruction_are_a_glossary() -> None:
    found = task(
        "根据以下术语表（可以为空）：\n駅->车站 #名词\n\n将下面的日文文本根据对应关系和备注翻译成中文：駅です。"
    )
    assert (found.texts, dict(found.options.glossary)) == (("駅です。",), {"駅": "车站"})
    found = task(KISS.replace("{to}", "Japanese").replace("{text}", TEXT))
    assert dict(found.options.glossary) == {"a": "b"}


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
            "Act as a translation API. Output raw XML-like format only. <root>\n</root>",
            '<root>\n<t id="0" sourceLanguage="en">一</t>\n<t id="7" sourceLanguage="en">二\n三</t>\n</root>',
        ),
        ('Act as a translation API. Output raw text lines in "ID | Text" format.', "0 | 一\n7 | 二<br>三"),
    ],
)
def test_a_batch_of_kiss_translator(system: str, written: str | None) -> None:
    batch = {
        "targetLanguage": "ja",
        "segments": [{"id": 0, "text": "One <b1>cat</b1>."}, {"id": 7, "text": "Two\nthree."}],
        "glossary": {"cat": "猫", "React": None},
        "tone": "casual",
        "title": "Cats",
    }
    found = task(json.dumps(batch), system)
    assert (found.target, found.format, found.texts) == ("ja", "text", ("One <b1>cat</b1>.", "Two\nthree."))
    assert (found.options.glossary, found.options.keep, found.options.formality, found.options.context) == (
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


@pytest.mark.parametrize(
    "text", ["\n" * 200_000, " " * 200_000, "Title: " * 30_000, "translate to " * 20_000, " %%\n" * 20_000]
)
def test_no_message_takes_long(text: str) -> None:
    """Searches that start again at each character would take minutes."""
    for user in (
        f"x{text}x",
        KISS.replace("{to}", "Japanese").replace("{text}", f"x{text}x"),
        f"# Context\nTitle: {text}",
        f"Translate the following text to Japanese:\n{text}x",
    ):
        with suppress(InvalidRequest):
            task(user, "Translate to " + text, "ja")


def _translation(text: str) -> Translation:
    return Translation(text, "en", False, "stop")


def test_separators_are_found_wherever_a_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some lines are searched at a time."""
    message = "\n%%\none\n%%\n\n%%two\n %% \r\nthree\n%%"
    whole = task(message, target="ja")
    assert whole.texts == ("\n%%\none", "%%two", "three\n%%")
    for characters in range(1, 20):
        monkeypatch.setattr(chat, "_SEARCHED", characters)
        assert task(message, target="ja") == whole


@pytest.mark.parametrize(
    ("text", "is_html"),
    [
        ("<p>a</p>", True),
        ("<TD>a</TD >", True),
        ("<td>a</TD>", False),  # no such beginning
        ("<td>a</td\n>", True),
        ("<h1>a</h1>", True),
        ("<b>a</b>", False),
        ("</b>" * 10 + "<li>a</li>", True),
        ("</" * 100, False),
        ("a < b </p", False),
    ],
)
def test_a_text_with_elements_that_separate_sentences_is_html(text: str, is_html: bool) -> None:
    assert (task(text, target="ja").format == "html") == is_html
