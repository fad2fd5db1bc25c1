"""Generated texts, workload files, traces and language pairs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from dragoman.errors import ConfigError
from dragoman.wire import length_band
from dragoman_bench.bench.workload import (
    GeneratedWorkload,
    Item,
    OutputRatio,
    Pair,
    PhrasebookTexts,
    RecordedWorkload,
    choose,
    describe,
    parse_pairs,
    read_workload,
    token_counter,
)

TOKENS_OF = token_counter()[0]


class _Numbered:
    """Texts of exactly the wanted number of words, each with its seed."""

    languages = ("en", "zh")

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def make(self, language: str, tokens: int) -> str:
        return " ".join([f"{language}{self._seed}"] * tokens)


def _words(text: str) -> int:
    return len(text.split())


def _generated(low: int = 10, high: int = 200, pairs: str = "en-ja:3,zh-en:1", **other: object) -> GeneratedWorkload:
    return GeneratedWorkload("variable", low, high, parse_pairs(pairs), _Numbered, _words, "words", **other)  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_items() -> None:
    assert _generated(seed=5).items(50, 1) == _generated(seed=5).items(50, 1)
    assert _generated(seed=5).items(50, 1) != _generated(seed=6).items(50, 1)


def test_another_measurement_has_the_same_lengths_pairs_and_order_but_other_texts() -> None:
    first, second = _generated().items(50, 1), _generated().items(50, 2)

    assert [(item.wanted_tokens, item.pair) for item in first] == [(item.wanted_tokens, item.pair) for item in second]
    assert not {item.text for item in first} & {item.text for item in second}


def test_more_items_begin_with_the_fewer() -> None:
    assert _generated().items(50, 1)[:20] == _generated().items(20, 1)


def test_variable_lengths_mix_short_and_long_in_every_band() -> None:
    items = _generated().items(400, 1)

    assert min(item.source_tokens for item in items) >= 10
    assert max(item.source_tokens for item in items) <= 200
    bands = Counter(length_band(item.source_tokens) for item in items)
    assert min(bands.values()) >= 40
    assert bands["short"] == max(bands.values())


def test_uniform_lengths_are_equal() -> None:
    assert {item.source_tokens for item in _generated(60, 60).items(40, 1)} == {60}


def test_measured_and_wanted_lengths_are_both_kept() -> None:
    twice = GeneratedWorkload(
        "uniform", 60, 60, parse_pairs("en-ja"), _Numbered, lambda text: 2 * _words(text), "half words"
    )

    assert {(item.wanted_tokens, item.source_tokens) for item in twice.items(5, 1)} == {(60, 120)}


def test_forced_output_lengths_are_within_the_ratio_of_the_measured_length() -> None:
    items = _generated(ratio=OutputRatio(0.8, 1.3)).items(300, 1)

    ratios = [(item.output_tokens or 0) / item.source_tokens for item in items if item.source_tokens >= 50]
    assert min(ratios) >= 0.79
    assert max(ratios) <= 1.31
    assert max(ratios) - min(ratios) > 0.4


def test_forcing_output_lengths_changes_no_text() -> None:
    plain, forced = _generated().items(30, 1), _generated(ratio=OutputRatio(1, 1)).items(30, 1)

    assert [item.text for item in plain] == [item.text for item in forced]
    assert {item.output_tokens for item in plain} == {None}


def test_a_source_without_texts_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"pair fr-en: sources are en, zh"):
        _generated(pairs="fr-en").items(1, 1)
    with pytest.raises(ConfigError, match="pair auto-en"):
        _generated(pairs="auto-en").samples()


def test_a_range_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"20\.\.10"):
        _generated(20, 10)


def test_samples_meet_every_pair_once() -> None:
    assert [item.pair for item in _generated().samples()] == [("en", "ja"), ("zh", "en")]
    recorded = RecordedWorkload("file", (Item("a", "en", "de", 1), Item("b", "en", "de", 1), Item("c", None, "fr", 1)))
    assert {item.pair for item in recorded.samples()} == {("en", "de"), (None, "fr")}


def test_a_description_says_how_it_was_made() -> None:
    said = _generated(ratio=OutputRatio(0.8, 1.3)).description

    assert said == "variable: 10..200 source tokens (words), en-ja:3,zh-en:1, outputs forced to 0.8..1.3 × source"


def test_a_file_gives_no_more_than_it_has() -> None:
    recorded = RecordedWorkload("file", (Item("a", "en", "de", 1), Item("b", "en", "de", 1)))

    assert [item.text for item in recorded.items(1, 1)] == ["a"]
    assert [item.text for item in recorded.items(9, 1)] == ["a", "b"]


class _Words:
    languages = ("en",)

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def make(self, language: str, tokens: int) -> str:
        return " ".join(["made"] * tokens)


def _read(tmp_path: Path, name: str, text: str) -> RecordedWorkload:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_workload(path, lambda text: len(text.split()), _Words(0))


def test_jsonl_lines_have_languages_and_forced_lengths(tmp_path: Path) -> None:
    lines = '{"text":"one two","source":"en","target":"ja","output_tokens":7}\n{"text":"drei","target":"en"}\n'

    assert _read(tmp_path, "texts.jsonl", lines).recorded == (
        Item("one two", "en", "ja", 2, None, 7),
        Item("drei", None, "en", 1),
    )


def test_a_trace_is_put_in_the_order_of_its_times(tmp_path: Path) -> None:
    lines = '{"text":"b","target":"ja","at_s":2.5}\n{"text":"a","target":"ja","at_s":0}'

    assert [(item.text, item.at_s) for item in _read(tmp_path, "trace.jsonl", lines).recorded] == [("a", 0), ("b", 2.5)]


def test_a_trace_of_lengths_gets_texts_of_those_lengths(tmp_path: Path) -> None:
    lines = '{"source_tokens":3,"source":"en","target":"ja","at_s":0}'

    assert _read(tmp_path, "trace.jsonl", lines).recorded == (Item("made made made", "en", "ja", 3, None, None, 0),)


def test_english_replaces_a_language_without_sentences_and_the_description_reports_it(tmp_path: Path) -> None:
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
        ("{", "2: "),
        ("[]", "2: "),
        ("{}", "2: no text"),
        ('{"text":" ","target":"ja"}', "2: no text"),
        ('{"text":7,"target":"ja"}', "2: text "),
        ('{"text":"a"}', "2: no target"),
        ('{"text":"a","target":7}', "2: target "),
        ('{"text":"a","target":"ja","output_tokens":0}', "2: output_tokens "),
        ('{"text":"a","target":"ja","output_tokens":1.5}', "2: output_tokens "),
        ('{"text":"a","target":"ja","at_s":-1}', "2: at_s "),
        ('{"text":"a","target":"ja","at_s":true}', "2: at_s "),
        ('{"text":"a","target":"ja","at_s":1}', "1 of 2 lines have at_s"),
        ('{"source_tokens":3,"target":"ja"}', "2: no source"),
    ],
)
def test_a_fault_names_its_line(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        _read(tmp_path, "texts.jsonl", '{"text":"a","target":"ja"}\n' + line)


def test_a_file_that_is_missing_empty_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is empty"):
        _read(tmp_path, "texts.jsonl", "\n \n")
    with pytest.raises(ConfigError, match="is not a"):
        _read(tmp_path, "texts.txt", "a text")
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00")
    for name in ("none.jsonl", "binary.jsonl"):
        with pytest.raises(ConfigError, match="cannot read"):
            read_workload(tmp_path / name, len, _Words(0))


def test_directions_with_weights() -> None:
    assert parse_pairs("en-ja:3, en-ko:0.5,zh-en") == (Pair("en", "ja", 3), Pair("en", "ko", 0.5), Pair("zh", "en", 1))


def test_tags_with_regions_and_detected_sources() -> None:
    assert parse_pairs("zh-Hant>en:2,auto>pt-BR,auto-ja") == (
        Pair("zh-Hant", "en", 2),
        Pair(None, "pt-BR"),
        Pair(None, "ja"),
    )


@pytest.mark.parametrize("text", ["", "en", "enja", "en-ja-ko", "en-ja:0", "en-ja:-1", "en-ja:x", "en-ja:inf", "en-en"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_pairs(text)


def test_weights_are_kept_to() -> None:
    pairs, random = parse_pairs("en-ja:3,zh-en:1"), Random(0)

    drawn = Counter(choose(pairs, random).label for _ in range(4000))

    assert drawn["en-ja"] / 4000 == pytest.approx(0.75, abs=0.03)


def test_the_description_reads_back() -> None:
    assert parse_pairs(describe(parse_pairs("en-ja:3,zh-en"))) == parse_pairs("en-ja:3,zh-en:1")


@pytest.mark.parametrize("language", ["en", "ja", "ko", "zh"])
@pytest.mark.parametrize("tokens", [12, 60, 200])
def test_texts_have_about_the_wanted_length(language: str, tokens: int) -> None:
    texts = PhrasebookTexts(3, TOKENS_OF)

    lengths = [TOKENS_OF(texts.make(language, tokens)) for _ in range(5)]

    assert all(abs(length - tokens) <= max(4, 0.15 * tokens) for length in lengths)


def test_the_same_seed_makes_the_same_texts_and_another_seed_others() -> None:
    def made(seed: int) -> list[str]:
        texts = PhrasebookTexts(seed, TOKENS_OF)
        return [texts.make(language, tokens) for language, tokens in [("en", 30), ("ja", 80), ("en", 12)]]

    assert made(7) == made(7)
    assert not set(made(7)) & set(made(8))


def test_texts_of_one_run_do_not_repeat() -> None:
    texts = PhrasebookTexts(1, TOKENS_OF)
    made = [texts.make("en", 12) for _ in range(300)]

    assert len(set(made)) == len(made)


def test_a_tokenizer_file_counts_its_own_tokens(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()  # type: ignore[assignment]
    tokenizer.save(str(path))

    tokens_of, name = token_counter(path)

    assert tokens_of("a b c d") == 4
    assert name == "tokenizer.json"


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")

    with pytest.raises(ConfigError, match="cannot load the tokenizer"):
        token_counter(path)
