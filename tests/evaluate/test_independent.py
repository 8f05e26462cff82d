"""The baseline of independent sites: exact values, pairing by row, and what is said of the numbers."""

import itertools
import math

import pytest
import torch

from tauleap.data import Dataset
from tauleap.evaluate import Comparison, Estimate, independent_bits_per_dim
from tauleap.evaluate.independent import is_clear
from tauleap.fitting.baseline import independent_rows, varying_sites


def test_every_row_of_a_small_space() -> None:
    """Against products written out, in a space whose probabilities sum to 1."""
    marginals = torch.tensor([[[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]], [[0.25, 0.25, 0.5], [0.1, 0.2, 0.7]]])
    rows = torch.tensor([[[a, 0], [b, c]] for a, b, c in itertools.product(range(3), repeat=3)])
    bits = independent_bits_per_dim(rows, marginals)
    for row, found in zip(rows, bits, strict=True):
        product = math.prod(float(marginals[i, j, row[i, j]]) for i in range(2) for j in range(2))
        assert float(found) == pytest.approx(-math.log2(product) / 4, rel=1e-6)
    assert float(torch.exp2(-4 * bits).sum()) == pytest.approx(1.0, rel=1e-6)


def test_missing_and_observed_sites_do_not_count() -> None:
    marginals = torch.tensor([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]], dtype=torch.float64)
    x = torch.tensor([[0, 0, 1], [1, 0, 1]])  # the last site is in a state of probability 0
    missing = torch.tensor([[False, False, True], [True, False, True]])
    observed = torch.tensor([[True, False, False], [False, False, False]])
    assert independent_bits_per_dim(x, marginals, missing=missing).tolist() == [1.5, 2.0]
    assert independent_bits_per_dim(x, marginals, missing=missing, observed=observed).tolist() == [2.0, 2.0]
    assert independent_bits_per_dim(x, marginals).isinf().all()
    with pytest.raises(ValueError, match="every value of row 1 is observed or missing"):
        independent_bits_per_dim(x, marginals, missing=missing, observed=~missing & (x[:, :1] == 1))
    with pytest.raises(ValueError, match="missing must have the shape of data"):
        independent_bits_per_dim(x, marginals, missing=missing[:1])
    with pytest.raises(ValueError, match="marginals must be"):
        independent_bits_per_dim(x, marginals[:2])
    with pytest.raises(ValueError, match=r"states 0\.\.1"):
        independent_bits_per_dim(x + 1, marginals)


def test_states_that_training_rows_lack_have_a_finite_cost() -> None:
    train = Dataset(torch.tensor([[0, 1], [0, 1], [1, 1]]), 3)
    held_out = Dataset(torch.tensor([[2, 1], [0, 0]]), 3)
    found = independent_rows(train, held_out, 2)
    counts = torch.tensor([[2.5, 1.5, 0.5], [0.5, 3.5, 0.5]]) / 4.5
    exact = [-math.log2(counts[0, 2] * counts[1, 1]) / 2, -math.log2(counts[0, 0] * counts[1, 0]) / 2]
    assert found.tolist() == pytest.approx(exact, rel=1e-6)


def test_labels_have_marginals_of_their_own() -> None:
    x = torch.tensor([[0], [0], [1], [1], [0]])
    train = Dataset(x, 2, condition=torch.tensor([7, 7, 8, 8, 8]))
    held_out = Dataset(torch.tensor([[0], [0], [1]]), 2, condition=torch.tensor([7, 8, 9]))
    exact = [-math.log2(2.5 / 3), -math.log2(1.5 / 4), -math.log2(2.5 / 6)]  # label 9 was not in the training rows
    assert independent_rows(train, held_out, 3).tolist() == pytest.approx(exact)


def test_sites_that_vary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tauleap.fitting.baseline._ROWS", 2)
    x = torch.tensor([[0, 1, 2, 0], [0, 2, 2, 0], [0, 1, 2, 1]])
    missing = torch.zeros_like(x, dtype=torch.bool)
    assert varying_sites(Dataset(x, 3)) == 2
    missing[2, 3] = missing[:, 0] = True
    assert varying_sites(Dataset(x, 3, missing=missing)) == 1
    assert varying_sites(Dataset(x.to(torch.uint8), 256)) == 2


def test_the_error_is_that_of_the_paired_difference() -> None:
    """Rows differ by far more than the two laws do."""
    generator = torch.Generator().manual_seed(0)
    rows = 10 * torch.rand(400, generator=generator, dtype=torch.float64)
    gain = 0.1 + 0.2 * torch.randn(400, generator=generator, dtype=torch.float64)
    found = Comparison.of(rows, rows + gain)
    assert found.gain.value == pytest.approx(float(gain.mean()))
    assert found.gain.stderr == pytest.approx(float(gain.std()) / 20)
    assert found.model.stderr > 10 * found.gain.stderr
    assert found.is_better
    assert "has learned dependence" in found.sentence(varying_sites=2)
    with pytest.raises(ValueError, match="one number per row"):
        Comparison.of(rows, gain[:3])


def test_equal_distributions_seldom_differ_by_two_standard_errors() -> None:
    """The rule is right in about 97.7 % of comparisons in which there is nothing to learn."""
    gains = torch.randn(4000, 100, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    errors = gains.std(1) / 10
    wrong = sum(is_clear(float(g), float(e)) for g, e in zip(gains.mean(1), errors, strict=True)) / 4000
    expected = 0.0241  # Student's t with 99 degrees of freedom beyond 2
    assert abs(wrong - expected) < 4 * math.sqrt(expected / 4000)


@pytest.mark.parametrize(
    ("gain", "stderr", "n", "sites", "expected"),
    [
        (0.3, 0.1, 50, 3, "The model is better by 0.3000 +- 0.1000: it has learned dependence between the sites"),
        (0.1, 0.1, 50, 3, "better by 0.1000 +- 0.1000, less than two standard errors: it has not learned dependence"),
        (
            -0.2,
            0.1,
            50,
            3,
            "worse by 0.2000 +- 0.1000: it has not learned dependence between the sites yet, or there is",
        ),
        (0.0, 0.0, 50, 3, "it has not learned dependence between the sites yet, or there is none"),
        (0.3, 0.1, 4, 3, "(only 4 held-out rows: a rough comparison)"),
        (0.3, math.inf, 1, 3, "One held-out row does not show"),
        (0.3, 0.1, 50, 1, "there is no dependence between sites to learn"),
        (-0.1, 0.1, 50, 1, "there is no dependence between sites to learn"),
        (-0.3, 0.1, 50, 1, "The model is worse by 0.3000 +- 0.1000: it has not learned the distribution of the site"),
        (-0.3, 0.1, 50, 0, "yet, and needs more training"),
        (-0.3, 0.1, 4, 1, "(only 4 held-out rows: a rough comparison)"),
        (-0.3, math.inf, 1, 1, "there is no dependence between sites to learn"),
        (-0.0005, 1e-5, 50, 1, "there is no dependence between sites to learn"),
        (math.nan, math.nan, 50, 3, "it has not learned dependence"),
    ],
)
def test_text_of_the_comparison(gain: float, stderr: float, n: int, sites: int, expected: str) -> None:
    found = Comparison(Estimate(1.0, 0.1, n), Estimate(1.0 + gain, 0.1, n), Estimate(gain, stderr, n))
    sentence = found.sentence(varying_sites=sites)
    assert expected in sentence
    assert "bits/dim on held-out rows; independent sites: " in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("gain", "stderr", "n", "sites", "expected"),
    [
        (0.3, 0.1, 50, 3, True),
        (0.1, 0.1, 50, 3, False),
        (-0.3, 0.1, 50, 3, False),
        (0.3, math.inf, 1, 3, None),
        (0.3, 0.1, 50, 1, None),
        (-0.1, 0.1, 50, 1, None),
        (-0.3, 0.1, 50, 1, False),
        (-0.3, math.inf, 1, 1, None),
        (-0.0005, 1e-5, 50, 1, None),
    ],
)
def test_verdicts(gain: float, stderr: float, n: int, sites: int, expected: bool | None) -> None:
    found = Comparison(Estimate(1.0, 0.1, n), Estimate(1.0 + gain, 0.1, n), Estimate(gain, stderr, n))
    assert found.verdict(varying_sites=sites) is expected
