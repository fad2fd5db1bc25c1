"""The hand-written rows: their format, and every fault that the checker must find."""

from pathlib import Path

import pytest
from tools.phrasebook.corpus import CorpusError
from tools.phrasebook.lines import Row, ambiguous_when_bare, load, packaged, survey

pytestmark = pytest.mark.acceptance

HELLO = "Hello. | Hi.\tこんにちは。 | どうも。\t안녕하세요. | 안녕.\t你好。"
DOG = "animal\tdog\t犬 | イヌ\t개\t狗 | 小狗"


def written(directory: Path, *lines: str, words: tuple[str, ...] = ()) -> Path:
    for name, header, rows in (("lines", "en\tja\tko\tzh", lines), ("words", "kind\ten\tja\tko\tzh", words)):
        (directory / name).mkdir()
        (directory / name / "some.tsv").write_text("\n".join((header, *rows, "")), encoding="utf-8")
    return directory


def test_the_first_wording_is_the_standard_and_all_are_sources(tmp_path: Path) -> None:
    corpus = load(written(tmp_path, "# topic: greetings", HELLO, words=(DOG,)))
    standard = ("Hello.", "こんにちは。", "안녕하세요.", "你好。")
    sources = (("Hello.", "Hi."), ("こんにちは。", "どうも。"), ("안녕하세요.", "안녕."), ("你好。",))
    assert corpus.lines == (Row("some.tsv", 3, "greetings", standard, sources, word=False),)
    assert [(row.topic, row.standard[0], row.word) for row in corpus.words] == [("animal", "dog", True)]


def test_a_wording_after_an_equals_sign_is_written_but_not_read(tmp_path: Path) -> None:
    row = load(written(tmp_path, words=("adjective\t=light | lightweight\t軽い\t가볍다\t轻",))).words[0]
    assert (row.standard[0], row.sources[0]) == ("light", ("lightweight",))


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (("Hello.\tこんにちは。\t안녕하세요.",), "3 languages"),
        (("Hello.\tこんにちは。\t\t你好。",), "ko: an empty cell"),
        (("Hello. | \tこんにちは。\t안녕하세요.\t你好。",), "en: a"),
        (("Hello. | hello.\tこんにちは。\t안녕하세요.\t你好。",), "en: a wording is listed twice"),
        (
            ("Hello.\tこんにちは。\t안녕하세요.\t你好。", "Hello.\tこんにちは。\t안녕하세요.\t你好。"),
            "some.tsv:3: repeats some.tsv:2",
        ),
        (
            ("Hello.\tこんにちは。\t안녕하세요.\t你好。", "Hello!\tやあ。\t여보세요.\t您好。"),
            "some.tsv:3: en 'Hello!' is ja 'やあ。' here",
        ),
        (("Hello.\tHello.\t안녕하세요.\tGood.",), "no letter of the language"),
        (("Hello.\t안녕.\t안녕하세요.\t你好。",), "ja: the letter"),
        (("Horse.\t马。\t말.\t马。",), "ja: the character"),
        (("Horse.\t馬。\t말.\t馬。",), "zh: the character"),
        (("Hi, {name}.\tやあ、{nama}。\t안녕, {name}.\t嗨，{name}。",), "ja: .*lacks"),
        (("It is <g1>hot</g1>.\t<g1>暑い</g1>です。\t<g1>더워요.\t<g1>很热</g1>。",), "ko: .*lacks"),
        (("See https://a.example/b.\thttps://a.example/b を見て。\thttps://a.example/b 봐.\t请看。",), "zh: .*lacks"),
        (("It costs 20 dollars.\t20ドルです。\t30달러예요.\t二十美元。",), "ko: .*lacks"),
        (("Nice 😀\tいいね😀\t좋아 😀\t好😂",), "zh: .*lacks"),
    ],
)
def test_a_bad_line_is_refused_with_file_line_and_reason(tmp_path: Path, rows: tuple[str, ...], reason: str) -> None:
    with pytest.raises(CorpusError, match=reason):
        load(written(tmp_path, *rows))


@pytest.mark.parametrize(
    "row",
    [
        "OK. | Okay.\tOK。 | オーケー。\tOK. | 오케이.\t好的。 | OK。",
        "It is 3 May.\t5月3日です。\t5월 3일이에요.\t五月三号。",
        "No. 20, please.\t２０番をお願いします。\t20번 부탁해요.\t请给我20号。",
        "lol\t笑 | lol\tㅋㅋㅋ | lol\t哈哈哈 | lol",
    ],
)
def test_what_differs_by_nature_is_accepted(tmp_path: Path, row: str) -> None:
    assert survey(written(tmp_path, row))[1] == []


def test_texts_whose_meaning_depends_on_the_question_mark_are_found(tmp_path: Path) -> None:
    question = "Are you all right?\t大丈夫？\t괜찮아?\t没事吧？"
    statement = "I am all right.\t大丈夫。\t괜찮아.\t我没事。"
    corpus = load(written(tmp_path, question, statement, HELLO))
    assert ambiguous_when_bare(corpus.rows) == {("ja", "大丈夫"), ("ko", "괜찮아")}


def test_the_packaged_rows_have_no_fault() -> None:
    assert packaged().lines
    assert packaged().words
