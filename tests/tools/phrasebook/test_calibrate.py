"""The fit of confidences, its threshold and its figures, on synthetic data."""

from __future__ import annotations

import numpy as np
import pytest
from tools.phrasebook.calibrate import Floats, auc, choose_threshold, figures, fit

from dragoman.text.confidence import ConfidenceModel
from dragoman.types import Features


@pytest.fixture
def sample() -> tuple[list[Features], Floats]:
    """Translations that are right with a probability that falls with their probability and their rarity."""
    rng = np.random.default_rng(1)
    mean = -rng.exponential(1.0, 4000)
    rarity = rng.random(4000)
    chance = 1 / (1 + np.exp(-(2.5 + 1.5 * mean - 2.0 * rarity)))
    features = [
        Features(float(m), float(2 * m), 0.1, source_rarity=float(r)) for m, r in zip(mean, rarity, strict=True)
    ]
    return features, (rng.random(4000) < chance).astype(float)


def test_the_fit_gives_probabilities_that_come_true(sample: tuple[list[Features], Floats]) -> None:
    features, adequate = sample
    model = ConfidenceModel(fit(features, adequate))
    scores = np.array([model.confidence((one,)) for one in features])
    found = figures(scores, adequate, threshold=0.5)
    assert found["auc"] > 0.75
    assert found["expected_calibration_error"] < 0.03
    risks = [point["risk"] for point in found["risk_coverage"]]
    assert risks[3] < risks[-1] == pytest.approx(1 - found["adequate"], abs=1e-4)


def test_inputs_that_never_vary_get_no_weight(sample: tuple[list[Features], Floats]) -> None:
    regression = fit(*sample)
    assert regression.weights.keys().isdisjoint({"retried", "cut_around", "length_deviation"})


def test_auc_counts_ties_as_half() -> None:
    assert auc(np.array([0.1, 0.9]), np.array([0.0, 1.0])) == 1
    assert auc(np.array([0.5, 0.5]), np.array([0.0, 1.0])) == 0.5


def test_the_threshold_flags_at_most_the_allowed_share_of_adequate_translations(
    sample: tuple[list[Features], Floats],
) -> None:
    features, adequate = sample
    scores = np.array([one.mean_logprob for one in features])
    threshold = choose_threshold(scores, adequate, 0.1)
    flagged = scores < threshold
    assert flagged[adequate == 1].mean() <= 0.1
    assert flagged[adequate == 0].mean() > 0.2
