"""What of data is text: not codes, patterns and intervals, but words that look like them, and what editors' documents show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.wholetext.rewriting import changed, read, rewritten, texts
from wholetext.files.values import reason_to_leave


@pytest.mark.parametrize(
    "pattern",
    [
        "MM/DD/YYYY",
        "YYYY-MM-DD",
        "D MMMM YYYY",
        "MMMM D, YYYY",
        "MMM d, y",
        "EEEE, MMMM d, y",
        "h:mm a",
        "HH:mm",
        "HH:mm:ss",
        "yyyy-MM-dd'T'HH:mm:ss'Z'",
        "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
        "dddd, MMMM Do YYYY",
        "Do MMM",
        "LLLL",
        "L LT",
        "lll",
        "PPpp",
        "d. MMMM yyyy",
        "dd.MM.yyyy HH:mm",
        "hh:mm tt",
        "%b %d, %Y",
        "%-d.%-m.%Y",
        "%l:%M%P",
        "%Y-%m-%dT%H:%M:%SZ",
        "l jS F Y",
        "g:ia",
        "d 'de' MMMM 'de' y",
        "YYYY [at] HH:mm",
        "yyyyMMdd",
        "h:mma",
        "YYYY-MM-DDTHH:mm:ssZ",
        "EEEE",
        "MMM d – d, y",
        "yyyy年M月d日",
        "y년 M월 d일",
        "EEE, MMM d, ''yy",
        "hh 'o''clock' a, zzzz",
        "yyyy. MM. dd.",
    ],
)
def test_a_pattern_of_dates_is_no_text(pattern: str) -> None:
    assert reason_to_leave(pattern) in ("date", "code")


@pytest.mark.parametrize(
    "value",
    [
        "a && !b.c",
        "{first} = 'yes'",
        "page1",
        "_self",
        "action=buy&id=1",
        "[1,5]",
        "(7-inf)",
        "2..7",
        "PT15M",
        "P1DT2H",
        "1.5rem",
        "16px",
        "image/png",
        "zh-Hans-CN",
    ],
)
def test_intervals_and_codes_are_no_text(value: str) -> None:
    assert reason_to_leave(value)


@pytest.mark.parametrize(
    "text",
    [
        "May",
        "day",
        "Mammy",
        "Hmm",
        "Do",
        "Do it",
        "Sad",
        "Zzz",
        "AM or PM",
        "S, M, L and XL",
        "D-Day",
        "no",
        "it",
        "Add",
        "dd list",
        "Mm, ok",
        "Day/Month",
        "1-2 days",
        "10 ms of delay",
        "text/word pairs",
        "in/out",
        "Data",
        "Essay",
        "a day",
        "%d of %d items",
        "am",
        "Settings > Privacy",
        "you & me",
        "1 = yes",
    ],
)
def test_words_that_look_like_fields_are_text(text: str) -> None:
    assert reason_to_leave(text) is None


@pytest.mark.parametrize(
    ("key", "value", "is_text"),
    [
        ("locale", "en", False),
        ("defaultLanguage", "pt-BR", False),
        ("language_code", "de", False),
        ("language", "Language", True),
        ("no", "no", True),
        ("slang", "no", True),
        ("imageUrl", "en/home", False),
        ("slug", "my-page", False),
        ("curl", "well-known", True),
        ("file", "File", True),
    ],
)
def test_a_code_of_a_language_is_told_by_its_key(key: str, value: str, is_text: bool) -> None:
    assert (reason_to_leave(value, key) is None) == is_text
    assert bool(texts(read(json.dumps({key: value, "a": "Some text"}).encode(), "json"))[1:]) == is_text


def test_a_column_of_a_table_names_its_values() -> None:
    data = b"word,locale\nno,no\nSome text,en\n"
    assert texts(read(data, "csv")) == ["word", "locale", "no", "Some text"]


EDITORS: dict[str, tuple[Any, list[str]]] = {
    "tiptap": (
        {
            "type": "doc",
            "content": [
                {
                    "type": "paragraph",
                    "attrs": {"textAlign": "left"},
                    "content": [
                        {"type": "text", "text": "Plain words and "},
                        {"type": "text", "marks": [{"type": "bold"}], "text": "bold words"},
                        {"type": "text", "marks": [{"type": "code"}], "text": "code of words"},
                    ],
                },
                {"type": "image", "attrs": {"src": "a.png", "alt": "A dog", "class": "wide picture"}},
                {"type": "codeBlock", "content": [{"type": "text", "text": "let words be"}]},
            ],
        },
        ["Plain words and", "bold words", "A dog"],
    ),
    "lexical": (
        {
            "root": {
                "type": "root",
                "direction": "ltr",
                "format": "",
                "children": [
                    {
                        "type": "paragraph",
                        "format": "start",
                        "children": [
                            {"type": "text", "mode": "normal", "style": "", "format": 1, "text": "Lexical words"},
                            {"type": "text", "mode": "normal", "style": "", "format": 16, "text": "npm run build"},
                        ],
                    },
                    {"type": "horizontalrule"},
                ],
            }
        },
        ["Lexical words"],
    ),
    "slate": (
        [
            {"type": "paragraph", "children": [{"text": "Slate words"}, {"text": "let it be", "code": True}]},
            {"type": "block-quote", "children": [{"text": "A quote", "bold": True}]},
        ],
        ["Slate words", "A quote"],
    ),
    "strapi": (
        [
            {
                "type": "list",
                "format": "unordered",
                "children": [{"type": "list-item", "children": [{"type": "text", "text": "An item"}]}],
            },
            {
                "type": "image",
                "image": {"name": "my dog", "alternativeText": "A dog"},
                "children": [{"type": "text", "text": ""}],
            },
        ],
        ["An item", "A dog"],
    ),
    "contentful": (
        {
            "nodeType": "document",
            "data": {},
            "content": [
                {
                    "nodeType": "paragraph",
                    "content": [{"nodeType": "text", "value": "Some words", "marks": [{"type": "bold"}]}],
                }
            ],
        },
        ["Some words"],
    ),
    "portable text": (
        [
            {
                "_type": "block",
                "style": "normal",
                "markDefs": [],
                "children": [{"_type": "span", "text": "Some words", "marks": ["strong"]}],
            }
        ],
        ["Some words"],
    ),
    "editorjs": (
        {
            "blocks": [
                {"id": "oUq2g tl8y", "type": "header", "data": {"text": "A head", "level": 2}},
                {
                    "type": "list",
                    "data": {"style": "unordered", "items": ["An item", {"content": "Another", "items": []}]},
                },
                {"type": "table", "data": {"content": [["one cell", "two cells"]]}},
                {"type": "code", "data": {"code": "let it be"}},
            ]
        },
        ["A head", "An item", "Another", "one cell", "two cells"],
    ),
    "quill": (
        {"ops": [{"insert": "Some words"}, {"insert": "\n", "attributes": {"align": "center"}}]},
        ["Some words"],
    ),
    "no editor's": (
        {
            "type": "Kind",
            "menu": [
                {"text": "Guide", "type": "Of kind", "children": [{"text": "An item", "description": "Of words"}]}
            ],
        },
        ["Kind", "Guide", "Of kind", "An item", "Of words"],
    ),
    "a catalogue": (
        {
            "type": "Type",
            "content": "Content",
            "text": "Text",
            "children": ["A child"],
            "marks": "Marks",
            "blocks": "Blocks",
        },
        ["Type", "Content", "Text", "A child", "Marks", "Blocks"],
    ),
}


@pytest.mark.parametrize("editor", EDITORS)
def test_of_an_editors_document_the_text_is_read(editor: str) -> None:
    document, wanted = EDITORS[editor]
    for value in (document, {"title": "A page", "body": document}):
        data = json.dumps(value).encode()
        before = [] if value is document else ["A page"]
        assert texts(read(data, "json")) == [*before, *wanted]
        assert rewritten(data, "json") == data
        result = rewritten(data, "json", changed).decode()
        assert texts(read(result.encode(), "json")) == [changed(text) for text in (*before, *wanted)]


RECORDS: list[tuple[Any, list[str]]] = [
    (
        {"blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "some words"}, "style": "danger"}]},
        ["some words"],
    ),
    (
        {"object": "block", "type": "quote", "quote": {"text": "quoted", "color": "default"}},
        ["quoted"],
    ),
    (
        {"component": "hero", "_uid": "4a1f-22", "headline": "words", "image": {"fieldtype": "asset", "alt": "dog"}},
        ["words", "dog"],
    ),
    (
        {
            "fields": [
                {"type": "radio", "name": "colour", "title": "which", "choices": [{"value": "red", "text": "red"}]}
            ]
        },
        ["which", "red"],
    ),
    (
        {"elements": [{"id": "no-foo", "elType": "widget", "settings": {"title": "words", "_width": "auto"}}]},
        ["words"],
    ),
    (
        {"type": "flex", "contents": {"type": "bubble", "body": {"type": "text", "text": "words", "weight": "bold"}}},
        ["words"],
    ),
    (
        {"style": "wide", "post": {"type": "note", "pinned": True, "status": "open", "title": "words"}},
        ["wide", "words"],
    ),
    ({"properties": {"name": {"type": "string", "title": "name"}}}, ["name"]),
    (
        {"type": "type", "style": "style", "menu": {"name": "name", "title": "title"}},
        ["type", "style", "name", "title"],
    ),
    ({"items": [{"style": "modern", "name": "chair"}]}, ["modern", "chair"]),
]


@pytest.mark.parametrize(("record", "wanted"), RECORDS)
def test_of_a_record_single_words_are_names_where_keys_say_so(record: Any, wanted: list[str]) -> None:
    data = json.dumps(record).encode()
    assert texts(read(data, "json")) == wanted
    assert rewritten(data, "json") == data


def test_records_in_yaml_are_read_alike() -> None:
    data = b"sections:\n  - type: feature\n    style: 'wide'\n    heading: words\nstyle: style\n"
    assert texts(read(data, "yaml")) == ["words", "style"]
    assert rewritten(data, "yaml") == data


def test_code_in_a_document_is_reported() -> None:
    left = read(json.dumps(EDITORS["tiptap"][0]).encode(), "json").left
    assert [(one.reason, one.text) for one in left if one.reason == "code"] == [
        ("code", "code of words"),
        ("code", "let words be"),
    ]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (
            "(0)[no items];(1)[one item];(2-7)[some {{count}} items];(7-inf)[a lot];",
            ["no items", "one item", "some {{count}} items", "a lot"],
        ),
        (
            "{0} There are none|[1,19] There are some|[20,*] There are many",
            ["There are none", "There are some", "There are many"],
        ),
        ("]-Inf,0] Nothing|]0,Inf] Some words", ["Nothing", "Some words"]),
        ("[1,2] is an interval", ["[1,2] is an interval"]),
        ("(optional)[see words]", ["(optional)[see words]"]),
    ],
)
def test_a_choice_by_intervals_keeps_them(value: str, wanted: list[str]) -> None:
    data = json.dumps({"key": value}).encode()
    assert texts(read(data, "json")) == wanted
    assert rewritten(data, "json") == data
