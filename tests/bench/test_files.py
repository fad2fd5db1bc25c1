from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.bench.workload import Item, OutputRatio, Reading, Recorded, parse_pairs, read_workload


class _Words:
    languages = ("en",)

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def make(self, language: str, tokens: int) -> str:
        return " ".join(["made"] * tokens)


def _read(tmp_path: Path, name: str, text: str, pairs: str | None = None, ratio: OutputRatio | None = None) -> Recorded:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    reading = Reading(parse_pairs(pairs) if pairs else None, lambda text: len(text.split()), _Words, 0, ratio)
    return read_workload(path, reading)


def test_each_line_of_a_text_file_is_a_text(tmp_path: Path) -> None:
    workload = _read(tmp_path, "texts.txt", "one two\n\n  three  \n", "en-ja")

    assert workload.recorded == (Item("one two", "en", "ja", 2), Item("three", "en", "ja", 1))
    assert workload.description == "texts.txt: 2 texts"


def test_a_text_file_has_one_source_language(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one source language"):
        _read(tmp_path, "texts.txt", "one", "en-ja,zh-ja")
    with pytest.raises(ConfigError, match="one source language"):
        _read(tmp_path, "texts.txt", "one")


def test_jsonl_lines_tell_their_languages_and_forced_lengths(tmp_path: Path) -> None:
    lines = '{"text":"one two","source":"en","target":"ja","output_tokens":7}\n{"text":"drei","target":"en"}\n'

    assert _read(tmp_path, "texts.jsonl", lines).recorded == (
        Item("one two", "en", "ja", 2, None, 7),
        Item("drei", None, "en", 1),
    )


def test_lines_without_a_target_take_one_of_the_mix(tmp_path: Path) -> None:
    assert _read(tmp_path, "texts.jsonl", '{"text":"one"}', "en-ja").recorded == (Item("one", "en", "ja", 1),)


def test_a_line_s_own_length_wins_over_the_ratio(tmp_path: Path) -> None:
    lines = '{"text":"a b","target":"ja","output_tokens":7}\n{"text":"a b","target":"ja"}'

    workload = _read(tmp_path, "texts.jsonl", lines, ratio=OutputRatio(2, 2))

    assert [item.output_tokens for item in workload.recorded] == [7, 4]


def test_a_trace_is_put_in_the_order_of_its_times(tmp_path: Path) -> None:
    lines = '{"text":"b","target":"ja","at_s":2.5}\n{"text":"a","target":"ja","at_s":0}'

    assert [(item.text, item.at_s) for item in _read(tmp_path, "trace.jsonl", lines).recorded] == [("a", 0), ("b", 2.5)]


def test_a_trace_of_lengths_gets_texts_of_those_lengths(tmp_path: Path) -> None:
    lines = '{"source_tokens":3,"source":"en","target":"ja","at_s":0}'

    assert _read(tmp_path, "trace.jsonl", lines).recorded == (Item("made made made", "en", "ja", 3, None, None, 0),)


def test_english_stands_in_for_a_language_that_no_texts_can_be_made_in_and_that_is_told(tmp_path: Path) -> None:
    lines = '{"source_tokens":2,"source":"fr","target":"ja"}\n{"source_tokens":1,"source":"en","target":"ja"}'

    workload = _read(tmp_path, "trace.jsonl", lines)

    assert workload.recorded == (Item("made made", "fr", "ja", 2), Item("made", "en", "ja", 1))
    assert workload.description == "trace.jsonl: 2 texts (English in place of texts: 1 of fr)"


def test_keys_that_are_not_the_bench_s_are_skipped(tmp_path: Path) -> None:
    line = '{"text":"one","target":"ja","in_flight":3,"e2e_s":0.5,"outcome":"ok"}'

    assert _read(tmp_path, "trace.jsonl", line).recorded == (Item("one", None, "ja", 1),)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "2: not JSON"),
        ("[]", "2: not a JSON object"),
        ("{}", "2: not a JSON object"),
        ('{"text":" ","target":"ja"}', "2: no text"),
        ('{"text":7,"target":"ja"}', "2: no text"),
        ('{"text":"a"}', "2: no target"),
        ('{"text":"a","target":7}', "2: source and target are language tags"),
        ('{"text":"a","target":"ja","output_tokens":0}', "2: output_tokens is a whole number"),
        ('{"text":"a","target":"ja","output_tokens":1.5}', "2: output_tokens is a whole number"),
        ('{"text":"a","target":"ja","at_s":-1}', "2: at_s is a time"),
        ('{"text":"a","target":"ja","at_s":true}', "2: at_s is a time"),
        ('{"text":"a","target":"ja","at_s":1}', "1 of 2 lines have at_s"),
        ('{"source_tokens":3,"target":"ja"}', "2: no source: a text of no language"),
    ],
)
def test_a_fault_names_its_line(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        _read(tmp_path, "texts.jsonl", '{"text":"a","target":"ja"}\n' + line)


def test_a_file_that_is_missing_empty_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is empty"):
        _read(tmp_path, "texts.txt", "\n \n", "en-ja")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    for name in ("none.txt", "binary.txt"):
        with pytest.raises(ConfigError, match="cannot read the workload"):
            read_workload(tmp_path / name, Reading(None, len, _Words))
