"""Features of a translation, the confidence that follows from them, and the file of a fitted model."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
from tools.phrasebook.lexicon import lexicon_of

from dragoman.errors import ConfigError
from dragoman.text import confidence
from dragoman.text.confidence import (
    RECENT,
    ConfidenceModel,
    RecentScores,
    Regression,
    copied_share,
    uncalibrated,
    units,
)
from dragoman.types import Features, TokenLogprobs

EN_JA = ("en", "ja")
LEXICON = lexicon_of(
    {"en": {"the": 4096, "cat": 4, "dog": 1}, "ja": {"猫": 4, "犬": 1}},
    {
        EN_JA: {("cat", "猫"): 0.9, ("dog", "犬"): 0.3, ("the", "あの"): 0.9},
        ("ja", "en"): {("犬", "dog"): 0.9, ("子", "dog"): 0.1},
    },
)
LOGPROBS = TokenLogprobs(mean=-0.5, least=-2.0)
DOCUMENT = {
    "format": 1,
    "bias": 2.0,
    "weights": {"mean_surprise": -1.0, "source_unmatched": -4.0},
    "threshold": 0.6,
    "length_ratios": {"en-ja": 0.5},
    "lexicon": True,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / confidence.LEXICON_FILE).write_bytes(LEXICON.entries.astype("<u4").tobytes())
    (tmp_path / confidence.FILE).write_text(json.dumps(DOCUMENT), encoding="utf-8")
    return tmp_path


def test_units_are_stems_han_characters_and_pairs_of_kana_and_hangul() -> None:
    assert units("Running late, I'll run") == ["runni", "late", "i'll", "run"]
    assert units("駅は、コーヒー") == ["駅", "は", "コー", "ーヒ", "ヒー"]
    assert units("지하철 3") == ["지하", "하철", "3"]
    assert units("…") == units("") == []


def test_what_the_output_leaves_out_and_what_it_invents_is_unmatched() -> None:
    whole = LEXICON.unmatched("the cat", "猫", EN_JA)
    assert LEXICON.unmatched("the cat", "犬", EN_JA) > whole
    left_out = LEXICON.unmatched("the cat and the dog", "猫", EN_JA)
    invented = LEXICON.unmatched("the cat", "猫と犬", EN_JA)
    assert left_out[0] > whole[0]
    assert left_out[1] == pytest.approx(whole[1])
    assert invented[1] > whole[1]
    assert invented[0] == pytest.approx(whole[0])
    assert LEXICON.unmatched("猫", "the cat", ("ja", "en")) == pytest.approx(whole[::-1])
    assert LEXICON.unmatched("", "猫", EN_JA) == LEXICON.unmatched("!", "…", EN_JA) == (0.0, 0.0)


def test_a_likely_pair_matches_better_and_a_rare_unit_counts_more() -> None:
    rare_lost, frequent_lost = (LEXICON.unmatched("the cat", text, EN_JA)[0] for text in ("あの", "猫"))
    assert rare_lost > frequent_lost
    likely, unlikely = (LEXICON.unmatched("dog", text, EN_JA)[0] for text in ("犬", "子"))
    assert 0 <= likely < unlikely < LEXICON.unmatched("dog", "猫", EN_JA)[0] < 1


def test_copied_letters_and_digits_match_and_copied_characters_do_not() -> None:
    copied = LEXICON.unmatched("Tanaka 42", "tanaka 42", EN_JA)
    assert copied == (0.0, 0.0)
    assert min(LEXICON.unmatched("猫", "猫", ("ja", "zh"))) > 0.5


def test_features_compare_lengths_with_what_is_usual_for_the_direction() -> None:
    model = ConfidenceModel(Regression(0.0, {}), length_ratios={"en-ja": 0.5}, usual_ratio=lambda source, target: 2.0)
    (usual,) = model.features("a" * 19, "あ" * 9, ("en", "ja"), LOGPROBS)
    (long,) = model.features("a" * 19, "あ" * 39, ("en", "ja"), LOGPROBS)
    assert usual.length_deviation == pytest.approx(0.0)
    assert long.length_deviation == pytest.approx(math.log(4))
    (other,) = model.features("a" * 19, "б" * 39, ("en", "ru"), LOGPROBS)
    assert other.length_deviation == pytest.approx(0.0)
    assert (usual.mean_logprob, usual.least_logprob) == (-0.5, -2.0)
    assert (usual.source_characters, usual.target_characters) == (19, 9)


def test_a_longer_source_and_a_surprise_are_inputs_of_their_own() -> None:
    short = confidence.inputs(Features(-0.5, -2.0, 0.0, source_characters=3, target_characters=3))
    long = confidence.inputs(Features(-0.5, -2.0, 0.0, source_characters=60, target_characters=60))
    sure = confidence.inputs(Features(0.0, 0.0, 0.0))
    assert long["source_length"] > short["source_length"]
    assert long["total_surprise"] > short["total_surprise"] > sure["total_surprise"] == 0
    assert all(short[name] > sure[name] > -10 for name in ("mean_surprise", "most_surprise"))
    assert max(map(abs, confidence.inputs(Features(-1e9, -1e9, 1e9, 1.0, 1.0)).values())) <= 1e3


def test_without_probabilities_nothing_is_known() -> None:
    model = uncalibrated()
    assert model.features("a", "b", EN_JA, None) == ()


SURE, UNSURE = (Features(mean, 3 * mean, 0.0, source_characters=40, target_characters=40) for mean in (-0.05, -3.0))


def confidence_in(model: ConfidenceModel, *segments: Features, direction: tuple[str, str] = EN_JA) -> float:
    return model.confidence(model.scores(segments, direction), direction)


def test_before_anything_was_translated_the_shipped_scores_rank() -> None:
    model = uncalibrated()
    sure, unsure = (confidence_in(model, one) for one in (SURE, UNSURE))
    assert sure is not None and unsure is not None
    assert unsure < 0.1 < 0.6 < sure
    assert (model.kind, model.is_doubtful(unsure), model.is_doubtful(sure)) == ("rank", True, False)


def test_a_rank_is_among_the_model_s_own_translations_of_the_direction() -> None:
    model = uncalibrated()
    before = confidence_in(model, UNSURE, direction=("en", "de"))
    for number in range(RECENT):
        mean = -3.0 - number / RECENT
        one = Features(mean, 3 * mean, 0.0, source_characters=40, target_characters=40)
        model.observe(model.scores([one], EN_JA), EN_JA)
    found = confidence_in(model, UNSURE)
    assert found is not None and found > 0.9
    assert confidence_in(model, UNSURE, direction=("en", "de")) == before


def test_of_a_text_of_many_segments_one_is_low_by_chance() -> None:
    """However many segments texts have, about as many of them have a low rank."""
    rng = random.Random(1)
    model = uncalibrated()

    def drawn() -> Features:
        mean = -rng.expovariate(2.0)
        return Features(mean, 3 * mean, 0.0, source_characters=40, target_characters=40)

    for _ in range(RECENT):
        model.observe(model.scores([drawn()], EN_JA), EN_JA)
    for segments in (1, 20):
        ranks = [confidence_in(model, *(drawn() for _ in range(segments))) or 0.0 for _ in range(400)]
        assert 0.1 < sum(rank < 0.2 for rank in ranks) / len(ranks) < 0.35


def test_recent_scores_forget_the_oldest_and_count_equal_ones_half() -> None:
    recent = RecentScores([0.5])
    for _ in range(RECENT):
        recent.add(EN_JA, 0.2)
    for _ in range(RECENT):
        recent.add(EN_JA, 0.8)
    assert recent.rank(EN_JA, 0.3) < 0.01
    assert recent.rank(EN_JA, 0.8) == pytest.approx(0.5, abs=0.05)
    assert recent.rank(("ja", "en"), 0.5) == 0.5


def test_words_of_the_source_in_the_output_are_copied() -> None:
    assert copied_share("Open the GIMP folder", "Den Ordner GIMP öffnen") == pytest.approx(4 / 19)
    assert copied_share("Open the folder", "フォルダーを開く") == copied_share("1 2", "1 2") == 0.0
    assert copied_share("Open", "OPEN") == 1.0


def test_a_text_is_as_doubtful_as_its_most_doubtful_segment() -> None:
    model = ConfidenceModel(Regression(1.0, {"mean_surprise": -1.0}), threshold=0.6)
    sure, unsure = Features(-0.1, -0.2, 0.0), Features(-4.0, -9.0, 0.0)
    assert confidence_in(model, sure, unsure) == confidence_in(model, unsure)
    assert model.is_doubtful(confidence_in(model, sure, unsure))
    assert not model.is_doubtful(confidence_in(model, sure))


def test_a_fitted_model_is_read_from_its_folder(folder: Path) -> None:
    model = confidence.load(folder / confidence.FILE)
    assert model.kind == "calibrated"
    (right,) = model.features("The cat", "猫", EN_JA, LOGPROBS)
    (wrong,) = model.features("The cat", "犬", EN_JA, LOGPROBS)
    assert model.is_doubtful(confidence_in(model, wrong))
    assert not model.is_doubtful(confidence_in(model, right))


@pytest.mark.parametrize(
    "change",
    [{"format": 2}, {"weights": {"colour": 1.0}}, {"bias": None}, {"length_ratios": 3}, {"weights": [1]}],
    ids=["format", "unknown input", "no number", "no ratios", "no names"],
)
def test_a_file_that_cannot_be_used_is_a_configuration_error(folder: Path, change: dict[str, object]) -> None:
    (folder / confidence.FILE).write_text(json.dumps({**DOCUMENT, **change}), encoding="utf-8")
    with pytest.raises(ConfigError, match=confidence.FILE):
        confidence.load(folder / confidence.FILE)


def test_without_its_lexicon_the_file_cannot_be_used(folder: Path) -> None:
    (folder / confidence.LEXICON_FILE).unlink()
    with pytest.raises(ConfigError):
        confidence.load(folder / confidence.FILE)
