"""Translation is a function: in the packaged data, and as the check itself sees it."""

import shutil
from pathlib import Path

from tools.phrasebook.collisions import collisions, sampled_collisions
from tools.phrasebook.corpus import load, packaged


def with_file(data: Path, directory: Path, name: str, content: str) -> Path:
    shutil.copytree(data, directory, dirs_exist_ok=True)
    (directory / name).write_text(content, encoding="utf-8")
    return directory


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
