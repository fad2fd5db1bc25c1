"""Patterns and lexicon: their notation, their checks, and that translation is a function."""

import shutil
from pathlib import Path

import pytest
from tools.phrasebook.collisions import collisions, sampled_collisions
from tools.phrasebook.corpus import (
    Corpus,
    CorpusError,
    Particle,
    Slot,
    load,
    packaged,
    parse,
)

pytestmark = pytest.mark.acceptance


def test_pieces_are_text_slots_and_particles() -> None:
    template = parse("{place:1}[은/는] {a:food}.")
    assert template.pieces == (
        Slot("place", "place:1", initial=True),
        Particle("은", "는"),
        " ",
        Slot("food", "food", article=True),
        ".",
    )


def with_file(data: Path, directory: Path, name: str, content: str) -> Path:
    """A copy of the fixture data with one more file."""
    shutil.copytree(data, directory, dirs_exist_ok=True)
    (directory / name).write_text(content, encoding="utf-8")
    return directory


SOUND = {
    "en": "See the {place}.",
    "ja": "{place}を見てください。",
    "ko": "{place}[을/를] 보세요.",
    "zh": "请看{place}。",
}


def with_pattern(data: Path, directory: Path, **changes: str | None) -> Path:
    """With one more pattern in bad.toml; a language given as None is left out."""
    entry = {language: text for language, text in (SOUND | changes).items() if text is not None}
    lines = "\n".join(f"{language} = {text!r}" for language, text in entry.items())
    return with_file(data, directory, "patterns/bad.toml", f"[[pattern]]\n{lines}\n")


def test_sound_data_loads(data: Path, tmp_path: Path) -> None:
    corpus = load(with_pattern(data, tmp_path))
    assert "bad" in {pattern.topic for pattern in corpus.patterns}
    assert [value.texts[0] for value in corpus.lexicon["food"]] == ["apple", "rice", "sandwich"]
    assert [value.en_a for value in corpus.lexicon["food"]] == ["an apple", "some rice", "a sandwich"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"zh": None}, "no zh text"),
        ({"fr": "Voyez."}, "unknown key 'fr'"),
        ({"en": "See the {plaec}."}, r"en: unknown slot \{plaec\}"),
        ({"ja": "見てください。"}, r"ja: slots \[\] differ"),
        ({"ko": "{place}[을/를 보세요."}, "ko: unbalanced"),
        ({"zh": "请看{place}."}, "zh: does not end"),
        ({"en": "See the {place}[을/를]."}, "en: a particle bracket"),
    ],
)
def test_a_fault_names_file_pattern_and_reason(
    data: Path, tmp_path: Path, changes: dict[str, str | None], reason: str
) -> None:
    with pytest.raises(CorpusError, match=rf"bad\.toml: pattern 1 \(.*\): {reason}"):
        load(with_pattern(data, tmp_path, **changes))


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ('[[place]]\nen = "x"\nja = "x"\nko = "x"', "no zh text"),
        ('[[place]]\nen = "x "\nja = "x"\nko = "x"\nzh = "x"', "outer spaces"),
        ('[[weekday]]\nen = "x"\nja = "x"\nko = "x"\nzh = "x"', "generated slot"),
        ("[[place]\n", "Expected"),
    ],
)
def test_a_lexicon_fault_names_its_file(data: Path, tmp_path: Path, entry: str, reason: str) -> None:
    with pytest.raises(CorpusError, match=rf"bad\.toml: .*{reason}"):
        load(with_file(data, tmp_path, "lexicon/bad.toml", entry))


def test_final_punctuation_may_go_only_where_no_other_pattern_needs_it(data: Path, tmp_path: Path) -> None:
    statement = '[[pattern]]\nen = "It is here."\nja = "ここです。"\nko = "여기 있어요."\nzh = "在这里。"\n'
    question = '[[pattern]]\nen = "Is it here?"\nja = "ここですか？"\nko = "여기 있어요?"\nzh = "在这里吗？"\n'
    corpus = load(with_file(data, tmp_path, "patterns/pair.toml", statement + question))
    pair = [pattern for pattern in corpus.patterns if pattern.topic == "pair"]
    assert [pattern.droppable for pattern in pair] == [(True, True, False, True)] * 2


def test_the_packaged_data_is_sound() -> None:
    corpus: Corpus = packaged()
    assert len(corpus.patterns) > 300
    assert sum(map(len, corpus.lexicon.values())) > 300


def test_the_packaged_data_has_no_collisions() -> None:
    assert [str(collision) for collision in collisions(packaged())] == []


def test_sentences_of_the_packaged_data_do_not_collide() -> None:
    assert [str(collision) for collision in sampled_collisions(packaged(), 20_000, seed=1)] == []


def test_two_patterns_with_one_text_in_a_language_collide(data: Path, tmp_path: Path) -> None:
    rival = """[[pattern]]
en = "Which way is the {place}?"
ja = "{place}はどこですか？"
ko = "{place}[은/는] 어느 쪽인가요?"
zh = "{place}在哪边？"
"""
    found = collisions(load(with_file(data, tmp_path, "patterns/rival.toml", rival)))
    assert [collision.language for collision in found] == ["ja"]
    assert "Which way" in str(found[0])


def test_slots_of_kinds_without_a_common_value_do_not_collide(data: Path, tmp_path: Path) -> None:
    rival = """[[pattern]]
en = "Which shelf has the {food}?"
ja = "{food}はどこですか？"
ko = "{food}[은/는] 어느 선반에 있나요?"
zh = "{food}在哪个架子上？"
"""
    assert collisions(load(with_file(data, tmp_path, "patterns/rival.toml", rival))) == []


def test_two_words_of_a_class_with_one_text_collide(data: Path, tmp_path: Path) -> None:
    word = """[[place]]
en = "railway stop"
ja = "駅"
ko = "철도역"
zh = "铁路站"
"""
    found = collisions(load(with_file(data, tmp_path, "lexicon/rival.toml", word)))
    assert [(collision.language, collision.text) for collision in found] == [("ja", "駅")]


def test_a_sample_finds_what_shows_only_when_filled(data: Path, tmp_path: Path) -> None:
    rival = """[[pattern]]
en = "Where is the museum of art?"
ja = "博物館はどこですか？"
ko = "미술관은 어디예요?"
zh = "美术馆在哪里？"
"""
    corpus = load(with_file(data, tmp_path, "patterns/rival.toml", rival))
    assert collisions(corpus) == []
    assert [collision.language for collision in sampled_collisions(corpus, 2_000, seed=1)] == ["ja"]
