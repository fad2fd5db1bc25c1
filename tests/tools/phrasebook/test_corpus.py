"""Loading and checking the data."""

import shutil
from pathlib import Path

import pytest
from tools.phrasebook.corpus import Corpus, CorpusError, load, packaged

SOUND = {
    "en": "See the {place}.",
    "ja": "{place}を見てください。",
    "ko": "{place}[을/를] 보세요.",
    "zh": "请看{place}。",
}


def with_pattern(data: Path, directory: Path, **changes: str | None) -> Path:
    """A copy of the fixture data with one more pattern file, bad.toml; a language given as None is left out."""
    shutil.copytree(data, directory, dirs_exist_ok=True)
    entry = {language: text for language, text in (SOUND | changes).items() if text is not None}
    lines = "\n".join(f"{language} = {text!r}" for language, text in entry.items())
    (directory / "patterns" / "bad.toml").write_text(f"[[pattern]]\n{lines}\n", encoding="utf-8")
    return directory


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
    shutil.copytree(data, tmp_path, dirs_exist_ok=True)
    (tmp_path / "lexicon" / "bad.toml").write_text(entry, encoding="utf-8")
    with pytest.raises(CorpusError, match=rf"bad\.toml: .*{reason}"):
        load(tmp_path)


def test_final_punctuation_may_go_only_where_no_other_pattern_needs_it(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path, dirs_exist_ok=True)
    statement = '[[pattern]]\nen = "It is here."\nja = "ここです。"\nko = "여기 있어요."\nzh = "在这里。"\n'
    question = '[[pattern]]\nen = "Is it here?"\nja = "ここですか？"\nko = "여기 있어요?"\nzh = "在这里吗？"\n'
    (tmp_path / "patterns" / "pair.toml").write_text(statement + question, encoding="utf-8")
    pair = [pattern for pattern in load(tmp_path).patterns if pattern.topic == "pair"]
    assert [pattern.droppable for pattern in pair] == [(True, True, False, True)] * 2


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no patterns"):
        load(tmp_path)


def test_the_packaged_data_is_sound() -> None:
    corpus: Corpus = packaged()
    assert len(corpus.patterns) > 300
    assert sum(map(len, corpus.lexicon.values())) > 300
