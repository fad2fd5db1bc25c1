"""Clauses: each language's morphology against literal forms, and what sampled sentences promise."""

import re
from random import Random

import pytest
from tools.phrasebook.clauses import chinese, english, japanese, korean
from tools.phrasebook.clauses.frames import library
from tools.phrasebook.clauses.sampler import Clauses
from tools.phrasebook.corpus import Pattern
from tools.phrasebook.generator import Generator
from tools.phrasebook.split import sentence_held_out

SCRIPTS = {
    0: re.compile(r"[぀-ヿ一-鿿가-힣]"),
    1: re.compile(r"[가-힣]"),
    2: re.compile(r"[぀-ヿ一-鿿]"),
    3: re.compile(r"[぀-ヿ가-힣]"),
}
"""What a language's sentence must not hold, by its index."""


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("go", "goes went gone going"),
        ("study", "studies studied studied studying"),
        ("play", "plays played played playing"),
        ("stop", "stops stopped stopped stopping"),
        ("be", "is was been being"),
        ("lie", "lies lay lain lying"),
        ("take", "takes took taken taking"),
        ("wash", "washes washed washed washing"),
    ],
)
def test_english_verbs(verb: str, forms: str) -> None:
    assert [english.verb_form(verb, form, "he", "m") for form in ("s", "past", "pp", "ing")] == forms.split()


def test_english_agrees_with_its_subject() -> None:
    assert english.verb_form("brush one's teeth", "s", "my mother", "f") == "brushes her teeth"
    assert english.verb_form("wash one's hands", "past", "{name}", "e") == "washed their hands"
    assert english.verb_form("be late", "past", "we", "n") == "were late"
    assert english.subject_form("they", "n", "have") == "they've"
    assert english.subject_form("the students", "p", "dont") == "the students don't"


@pytest.mark.parametrize(
    ("adjective", "comparative", "superlative"),
    [("big", "bigger", "biggest"), ("easy", "easier", "easiest"), ("expensive", "more expensive", "most expensive")],
)
def test_english_comparison(adjective: str, comparative: str, superlative: str) -> None:
    assert (english.comparative(adjective), english.superlative(adjective)) == (comparative, superlative)


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("食べる", "食べます 食べません 食べました 食べて 食べた 食べれば 食べよう 食べられ"),
        ("書く", "書きます 書きません 書きました 書いて 書いた 書けば 書こう 書け"),
        ("行く", "行きます 行きません 行きました 行って 行った 行けば 行こう 行け"),
        ("買う", "買います 買いません 買いました 買って 買った 買えば 買おう 買え"),
        ("帰る", "帰ります 帰りません 帰りました 帰って 帰った 帰れば 帰ろう 帰れ"),
        ("借りる", "借ります 借りません 借りました 借りて 借りた 借りれば 借りよう 借りられ"),
        ("泳ぐ", "泳ぎます 泳ぎません 泳ぎました 泳いで 泳いだ 泳げば 泳ごう 泳げ"),
        ("待つ", "待ちます 待ちません 待ちました 待って 待った 待てば 待とう 待て"),
        ("飲む", "飲みます 飲みません 飲みました 飲んで 飲んだ 飲めば 飲もう 飲め"),
        ("話す", "話します 話しません 話しました 話して 話した 話せば 話そう 話せ"),
        (
            "料理をする",
            "料理をします 料理をしません 料理をしました 料理をして 料理をした 料理をすれば 料理をしよう 料理ができ",
        ),
        (
            "持ってくる",
            "持ってきます 持ってきません 持ってきました 持ってきて 持ってきた 持ってくれば 持ってこよう 持ってこられ",
        ),
        ("来る", "来ます 来ません 来ました 来て 来た 来れば 来よう 来られ"),
    ],
)
def test_japanese_verbs(verb: str, forms: str) -> None:
    names = ("masu", "masen", "mashita", "te", "ta", "ba", "vol", "pot")
    assert [japanese.verb_form(verb, name) for name in names] == forms.split()


def test_japanese_negation() -> None:
    verbs = {"買う": "買わない", "ある": "ない", "いる": "いない", "する": "しない", "走る": "走らない"}
    assert {verb: japanese.stem(verb, "a") + "ない" for verb in verbs} == verbs
    assert japanese.verb_form("飲む", "masendeshita", plain=True) == "飲まなかった"


@pytest.mark.parametrize(
    ("word", "forms"),
    [
        ("難しい", "難しいです 難しくありません 難しかったです 難しい 難しくて 難しそう"),
        ("いい", "いいです よくありません よかったです いい よくて よさそう"),
        ("静かな", "静かです 静かではありません 静かでした 静かな 静かで 静かそう"),
        ("無料の", "無料です 無料ではありません 無料でした 無料の 無料で 無料そう"),
        ("混んでいる", "混んでいます 混んでいません 混んでいました 混んでいる 混んでいて 混んでいるよう"),
    ],
)
def test_japanese_adjectives(word: str, forms: str) -> None:
    names = ("desu", "neg", "past", "na", "kute", "sou")
    assert [japanese.adjective_form(word, name) for name in names] == forms.split()


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("먹다", "먹어 먹었 먹으 먹을 먹은 먹는 먹으세 먹습 먹는다"),
        ("가다", "가 갔 가 갈 간 가는 가세 갑 간다"),
        ("듣다", "들어 들었 들으 들을 들은 듣는 들으세 듣습 듣는다"),
        ("돕다", "도와 도왔 도우 도울 도운 돕는 도우세 돕습 돕는다"),
        ("굽다", "구워 구웠 구우 구울 구운 굽는 구우세 굽습 굽는다"),
        ("만들다", "만들어 만들었 만들 만들 만든 만드는 만드세 만듭 만든다"),
        ("부르다", "불러 불렀 부르 부를 부른 부르는 부르세 부릅 부른다"),
        ("쓰다", "써 썼 쓰 쓸 쓴 쓰는 쓰세 씁 쓴다"),
        ("잠그다", "잠가 잠갔 잠그 잠글 잠근 잠그는 잠그세 잠급 잠근다"),
        ("공부하다", "공부해 공부했 공부하 공부할 공부한 공부하는 공부하세 공부합 공부한다"),
        ("마시다", "마셔 마셨 마시 마실 마신 마시는 마시세 마십 마신다"),
        ("배우다", "배워 배웠 배우 배울 배운 배우는 배우세 배웁 배운다"),
        ("짓다", "지어 지었 지으 지을 지은 짓는 지으세 짓습 짓는다"),
        ("씻다", "씻어 씻었 씻으 씻을 씻은 씻는 씻으세 씻습 씻는다"),
        ("받다", "받아 받았 받으 받을 받은 받는 받으세 받습 받는다"),
    ],
)
def test_korean_verbs(verb: str, forms: str) -> None:
    assert [
        korean.conjugated(verb, form) for form in ["어", "었", "으", "을", "은", "는", "세", "습", "다"]
    ] == forms.split()


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("어렵다", "어려워 어려웠 어려우 어려울 어려운 어렵다"),
        ("크다", "커 컸 크 클 큰 크다"),
        ("맛있다", "맛있어 맛있었 맛있으 맛있을 맛있는 맛있다"),
        ("빠르다", "빨라 빨랐 빠르 빠를 빠른 빠르다"),
        ("멀다", "멀어 멀었 멀 멀 먼 멀다"),
        ("파랗다", "파래 파랬 파라 파랄 파란 파랗다"),
    ],
)
def test_korean_descriptive_verbs(verb: str, forms: str) -> None:
    assert [
        korean.conjugated(verb, form, descriptive=True) for form in ["어", "었", "으", "을", "은", "다"]
    ] == forms.split()


def test_chinese_aspect() -> None:
    forms = {"吃|早饭": ("吃了早饭", "吃过早饭"), "游/泳": ("游泳了", "游过泳"), "有车=": ("有车", "有车")}
    for phrase, expected in forms.items():
        assert (chinese.verb_form(phrase, "le"), chinese.verb_form(phrase, "guo")) == expected


def test_registers_of_sources() -> None:
    assert japanese.plain("パンを食べたいですか？") == "パンを食べたい？"
    assert japanese.plain("これは本ですよ。") is None
    assert korean.formal("빵을 먹었어요.") == "빵을 먹었습니다."
    assert korean.casual("책이 아니에요.") == "책이 아니야."
    assert korean.casual("빵을 먹을 거예요?") == "빵을 먹을 거야?"
    assert japanese.plain("パンを食べましょうか？") is None
    assert english.expanded("Why don't you come?") == "Why don't you come?"
    assert english.expanded("I'm sure they can't come.") == "I am sure they cannot come."


def sampled(count: int, seed: int) -> list[Pattern]:
    clauses = Clauses("train", Random(seed))
    return [clauses.sample() for _ in range(count)]


def test_sampled_sentences_are_whole_and_in_their_own_script() -> None:
    for pattern in sampled(2000, 0):
        for index, template in enumerate(pattern.templates):
            text = re.sub(r"\{[a-z]+\}", "1", template.text)
            assert text == text.strip()
            assert not re.search(r"[{}|=~]|  |;;", text), template.text
            assert text[-1] in ".?。？", template.text
            assert not SCRIPTS[index].search(text), template.text
        assert {slot.ref for slot in pattern.templates[0].slots} == {slot.ref for slot in pattern.templates[3].slots}


def test_every_frame_fills_with_every_language_asking_or_none() -> None:
    source = library()
    clauses = Clauses("train", Random(2), source)
    for frame in source.frames:
        ends = {template.text[-1] in "?？" for template in clauses.fill(frame).templates}
        assert len(ends) == 1, frame


def test_a_seed_repeats_the_sentences_and_no_text_has_two_english_ones() -> None:
    first = sampled(1500, 3)
    assert first == sampled(1500, 3)
    known: dict[tuple[str, ...], str] = {}
    for pattern in first:
        english_text, *others = (template.text for template in pattern.templates)
        assert known.setdefault(tuple(others), english_text.casefold()) == english_text.casefold()


def test_the_split_holds_out_sentences() -> None:
    assert not any(sentence_held_out(pattern.templates[0].text) for pattern in sampled(300, 5))
    held_out = Clauses("heldout", Random(5)).sample()
    assert held_out.held_out
    assert sentence_held_out(held_out.templates[0].text)


def test_the_generator_mixes_clauses_in_by_their_share() -> None:
    with_clauses = Generator("heldout", 0, clause_share=1.0)
    message = with_clauses.message(2)
    assert message.sentences == 2
    assert message.novel
    assert Generator("train", 0, clause_share=0.5).message() == Generator("train", 0, clause_share=0.5).message()
