"""Features of a translation, the confidence that follows from them, and the file of a fitted model."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.text import confidence
from dragoman.text.confidence import UNCALIBRATED, ConfidenceModel, NgramSet, Regression, ngrams
from dragoman.types import Features, TokenLogprobs

LOGPROBS = TokenLogprobs(mean=-0.5, least=-2.0)
DOCUMENT = {
    "format": 1,
    "bias": 2.0,
    "weights": {"mean_logprob": 1.0, "source_rare": -1.0},
    "threshold": 0.6,
    "length_ratios": {"en-ja": 0.5},
    "ngrams": True,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    known = NgramSet(bytearray(1 << 12))
    known.add("Good morning.")
    (tmp_path / confidence.NGRAMS_FILE).write_bytes(bytes(known.bits))
    (tmp_path / confidence.FILE).write_text(json.dumps(DOCUMENT), encoding="utf-8")
    return tmp_path


def test_letters_are_in_trigrams_and_east_asian_characters_in_bigrams() -> None:
    assert list(ngrams("Good  AI")) == [" go", "goo", "ood", "od ", "d a", " ai", "ai "]
    assert list(ngrams("駅は")) == [" 駅", "駅は", "は "]
    assert list(ngrams("")) == []


def test_rarity_is_the_share_of_unknown_ngrams() -> None:
    known = NgramSet(bytearray(1 << 12))
    known.add("the cat")
    assert known.rarity("The cat") == 0
    assert 0 < known.rarity("the dog") < known.rarity("zyx wvu") <= 1
    assert known.rarity("\ud83d") >= 0  # half of a surrogate pair


def test_features_compare_lengths_with_what_is_usual_for_the_direction() -> None:
    model = ConfidenceModel(length_ratios={"en-ja": 0.5})
    (usual,) = model.features("a" * 19, "あ" * 9, ("en", "ja"), LOGPROBS)
    (long,) = model.features("a" * 19, "あ" * 39, ("en", "ja"), LOGPROBS)
    assert usual.length_deviation == pytest.approx(0.0)
    assert long.length_deviation == pytest.approx(math.log(4))
    assert (usual.mean_logprob, usual.least_logprob) == (-0.5, -2.0)
    assert (usual.source_characters, usual.target_characters) == (19, 9)


def test_a_longer_and_a_rarer_source_are_inputs_of_their_own() -> None:
    short = confidence.inputs(Features(-0.5, -2.0, 0.0, source_characters=3, target_characters=3))
    long = confidence.inputs(Features(-0.5, -2.0, 0.0, 0.5, source_characters=60, target_characters=60))
    assert long["source_length"] > short["source_length"]
    assert long["source_rare"] > short["source_rare"] == 0
    assert long["total_logprob"] < short["total_logprob"] < 0
    assert long["mean_logprob_by_length"] < short["mean_logprob_by_length"]
    assert min(confidence.inputs(Features(-1e9, -1e9, 1e9)).values()) >= -1e3


def test_without_probabilities_nothing_is_known() -> None:
    assert UNCALIBRATED.features("a", "b", ("en", "ja"), None) == ()
    assert UNCALIBRATED.confidence(()) is None
    assert not UNCALIBRATED.is_doubtful(None)


def test_an_uncalibrated_confidence_is_the_mean_probability_and_never_doubtful() -> None:
    sure = UNCALIBRATED.confidence((Features(-0.1, -0.2, 0.0),))
    unsure = UNCALIBRATED.confidence((Features(-3.0, -9.0, 0.0),))
    assert sure == pytest.approx(math.exp(-0.1))
    assert unsure == pytest.approx(math.exp(-3))
    assert not UNCALIBRATED.is_doubtful(unsure)


def test_a_text_is_as_doubtful_as_its_most_doubtful_segment() -> None:
    model = ConfidenceModel(Regression(2.0, {"mean_logprob": 1.0}), threshold=0.6)
    sure, unsure = Features(-0.1, -0.2, 0.0), Features(-4.0, -9.0, 0.0)
    assert model.confidence((sure, unsure)) == model.confidence((unsure,))
    assert model.is_doubtful(model.confidence((sure, unsure)))
    assert not model.is_doubtful(model.confidence((sure,)))


def test_a_fitted_model_is_read_from_its_folder(folder: Path) -> None:
    model = confidence.load(folder)
    assert model.calibrated
    (known,) = model.features("Good morning.", "おはよう", ("en", "ja"), LOGPROBS)
    (rare,) = model.features("Xqzt jkvw fghp.", "おはよう", ("en", "ja"), LOGPROBS)
    assert model.confidence((known,)) == pytest.approx(1 / (1 + math.exp(-1.5)))
    assert (model.confidence((rare,)) or 1) < 0.3
    assert confidence.load(folder / "elsewhere") is UNCALIBRATED


@pytest.mark.parametrize(
    "change",
    [{"format": 2}, {"weights": {"colour": 1.0}}, {"bias": None}, {"length_ratios": 3}, {"weights": [1]}],
    ids=["format", "unknown input", "no number", "no ratios", "no names"],
)
def test_a_file_that_cannot_be_used_is_a_configuration_error(folder: Path, change: dict[str, object]) -> None:
    (folder / confidence.FILE).write_text(json.dumps({**DOCUMENT, **change}), encoding="utf-8")
    with pytest.raises(ConfigError, match=confidence.FILE):
        confidence.load(folder)


def test_without_its_ngrams_the_file_cannot_be_used(folder: Path) -> None:
    (folder / confidence.NGRAMS_FILE).unlink()
    with pytest.raises(ConfigError):
        confidence.load(folder)
