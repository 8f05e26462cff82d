"""The Frechet distance against closed forms and dense matrix roots, its error against repetitions, and its moments."""

import math

import mpmath
import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor

from tauleap.evaluate import Moments, frechet_distance, frechet_of_gaussians, frechet_of_moments, grouped
from tauleap.evaluate.moments import merged


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(seed: int, size: int) -> Tensor:
    return torch.linalg.qr(normal(seed, size, size))[0]


def covariance(seed: int, size: int, rank: int | None = None) -> Tensor:
    factor = normal(seed, size, rank or size)
    return factor @ factor.T


@pytest.mark.parametrize("zeros", [0, 2, 5])
def test_commuting_covariances(zeros: int) -> None:
    """With the same eigenvectors the distance is |m_1 - m_2|^2 + sum (sqrt l_1 - sqrt l_2)^2, singular or not."""
    q = rotation(0, 5)
    one, other = normal(1, 5).square(), normal(2, 5).square()
    one[:zeros] = 0
    other[3:] = 0
    apart = normal(3, 5)
    expected = float((apart**2).sum() + ((one.sqrt() - other.sqrt()) ** 2).sum())
    found = frechet_of_gaussians(apart, q * one @ q.T, torch.zeros(5), q * other @ q.T)
    assert found == pytest.approx(expected, rel=1e-12)


def test_one_dimension() -> None:
    found = frechet_of_gaussians(*(torch.tensor(v, dtype=torch.float64) for v in ([1.0], [[9.0]], [-1.0], [[4.0]])))
    assert found == pytest.approx(2**2 + (3 - 2) ** 2, rel=1e-14)


@pytest.mark.parametrize("rank", [1, 4, 20])
def test_equal_is_zero(rank: int) -> None:
    """To the rounding of the traces, which a root of a rounded eigenvalue would exceed by 1e8."""
    c, m = covariance(0, 20, rank), normal(1, 20)
    assert frechet_of_gaussians(m, c, m, c) <= 1e-13 * float(c.trace())
    badly = rotation(2, 20)
    scaled = badly * torch.logspace(0, -14, 20, dtype=torch.float64) @ badly.T
    assert frechet_of_gaussians(m, scaled, m, scaled) <= 1e-13


@pytest.mark.parametrize("seed", range(5))
def test_against_a_dense_root(seed: int) -> None:
    a, b = covariance(seed, 6), covariance(seed + 50, 6)
    m, k = normal(seed + 100, 6), normal(seed + 150, 6)
    root = scipy.linalg.sqrtm((a @ b).numpy())
    expected = float(((m - k) ** 2).sum()) + float((a + b).trace()) - 2 * np.trace(root).real
    assert frechet_of_gaussians(m, a, k, b) == pytest.approx(expected, rel=1e-10)
    with mpmath.workdps(50):
        values = mpmath.eig(mpmath.matrix((a).tolist()) * mpmath.matrix(b.tolist()), right=False)
        exact = mpmath.fsum(mpmath.sqrt(mpmath.re(value)) for value in values)
        expected = float(mpmath.mpf(float(((m - k) ** 2).sum())) + mpmath.mpf(float((a + b).trace())) - 2 * exact)
    assert frechet_of_gaussians(m, a, k, b) == pytest.approx(expected, rel=1e-12)


def test_singular_against_a_formula() -> None:
    """C_1 = u u^T has the root u u^T / |u|, and tr (C_1 C_2)^{1/2} = sqrt(u^T C_2 u) whatever the rank of C_2."""
    u = normal(0, 8)
    for rank in (1, 3, 8):
        c = covariance(1, 8, rank)
        expected = float(u @ u + c.trace() - 2 * (u @ c @ u).sqrt())
        found = frechet_of_gaussians(torch.zeros(8), torch.outer(u, u), torch.zeros(8), c)
        assert found == pytest.approx(expected, rel=1e-12)
    nothing = torch.zeros(8, 8)
    assert frechet_of_gaussians(u, nothing, -u, nothing) == pytest.approx(4 * float(u @ u), rel=1e-14)


def test_rotations_and_shifts_change_nothing() -> None:
    x, y = normal(0, 40, 7) @ normal(1, 7, 7), normal(2, 30, 7)
    q, shift = rotation(3, 7), 100 * normal(4, 7)
    plain = frechet_of_moments(Moments.of(x), Moments.of(y))
    assert frechet_of_moments(Moments.of(x @ q + shift), Moments.of(y @ q + shift)) == pytest.approx(plain, rel=1e-10)
    assert frechet_of_moments(Moments.of(y), Moments.of(x)) == pytest.approx(plain, rel=1e-12)
    assert frechet_of_moments(Moments.of(3 * x), Moments.of(3 * y)) == pytest.approx(9 * plain, rel=1e-12)


def test_fewer_samples_than_features() -> None:
    """Of two samples each: all is in two directions, where the roots can be written down."""
    x, y = torch.zeros(2, 50), torch.zeros(2, 50)
    x[1, 0], y[1, 1] = 2.0, 4.0  # variances 2 and 8 across each other, means (1, 0) and (0, 2)
    assert frechet_of_moments(Moments.of(x), Moments.of(y)) == pytest.approx(5 + 2 + 8, rel=1e-12)


def test_streams_are_as_all_at_once() -> None:
    x = normal(0, 1003, 5) @ normal(1, 5, 5) + 1e6  # far from 0: a sum of squares would keep 4 digits
    stream, late = Moments(5), Moments(5)
    for batch in x[:700].split(64):
        stream.update(batch)
    for batch in x[700:].split(1):
        late.update(batch)
    stream.update(x[:0])
    stream.merge(late)
    stream.merge(Moments(5))
    expected = np.cov((x - 1e6).numpy(), rowvar=False)
    for moments in (stream, Moments.of(x), merged(grouped(x.split(17), 4), 5)):
        assert moments.n == 1003
        np.testing.assert_allclose(moments.mean, x.mean(0), rtol=1e-14)
        np.testing.assert_allclose(moments.covariance, expected, rtol=1e-8)
    assert late.n == 303


def test_groups_are_every_nth_row() -> None:
    x = normal(0, 25, 2)
    for size in (1, 4, 25):
        for place, moments in enumerate(grouped(x.split(size), 3)):
            assert moments.n == len(x[place::3])
            torch.testing.assert_close(moments.mean, x[place::3].mean(0))


def test_the_value_and_its_forms_agree() -> None:
    x, y = normal(0, 60, 3), 2 * normal(1, 80, 3) + 1
    whole = frechet_distance(x, y, groups=5)
    assert whole.value == pytest.approx(frechet_of_moments(Moments.of(x), Moments.of(y)), rel=1e-12)
    assert whole.n == 60
    streamed = frechet_distance(grouped(x.split(7), 5), grouped(y.split(9), 5))
    assert streamed.value == pytest.approx(whole.value, rel=1e-12)
    assert streamed.stderr == pytest.approx(whole.stderr, rel=1e-9)
    known = frechet_distance(x, Moments.of(y), groups=5)
    turned = frechet_distance(Moments.of(x), y, groups=5)
    assert math.hypot(known.stderr, turned.stderr) == pytest.approx(whole.stderr, rel=1e-9)


def test_the_standard_error_is_that_of_repetitions() -> None:
    """A spread of 150 repetitions is known to 5.8 %: four such errors are allowed."""
    found = [
        frechet_distance(normal(2 * k, 60, 2) * torch.tensor([1.0, 2.0]), normal(2 * k + 1, 90, 2) + 0.7, groups=5)
        for k in range(150)
    ]
    spread = float(np.std([each.value for each in found], ddof=1))
    stderr = math.sqrt(float(np.mean([each.stderr**2 for each in found])))
    assert stderr == pytest.approx(spread, rel=4 / math.sqrt(2 * 150))


GOOD = torch.zeros(30, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: frechet_distance(GOOD, torch.zeros(30, 3)), ValueError, "2 features and the reference has 3"),
        (lambda: frechet_distance(GOOD[:19], GOOD), ValueError, "at least 20 feature vectors, got 19"),
        (lambda: frechet_distance(GOOD, GOOD, groups=1), ValueError, "groups must be"),
        (lambda: frechet_distance(GOOD.long(), GOOD), TypeError, r"floating-point numbers, got torch.int64"),
        (lambda: frechet_distance(GOOD[0], GOOD), ValueError, r"must be \(n, F\)"),
        (lambda: frechet_distance(GOOD / 0, GOOD), ValueError, "samples must be finite"),
        (lambda: frechet_distance(Moments.of(GOOD), Moments.of(GOOD)), ValueError, "write frechet_of_moments"),
        (lambda: frechet_distance([Moments.of(GOOD)], GOOD), ValueError, "two or more groups"),
        (lambda: frechet_of_moments(Moments(2), Moments.of(GOOD)), ValueError, "at least 2 feature vectors, got 0"),
        (lambda: Moments(0), ValueError, "number of features"),
        (lambda: Moments(3).update(GOOD), ValueError, r"\(b, 3\) as before"),
        (lambda: Moments(3).merge(Moments(2)), ValueError, "2 features do not merge with those of 3"),
        (
            lambda: frechet_of_gaussians(torch.zeros(2), torch.eye(3), torch.zeros(2), torch.eye(2)),
            ValueError,
            r"a covariance \(F, F\)",
        ),
        (
            lambda: frechet_of_gaussians(torch.zeros(2), torch.eye(2), torch.zeros(3), torch.eye(3)),
            ValueError,
            "must have the same dimension, got 2 and 3",
        ),
        (
            lambda: frechet_of_gaussians(torch.zeros(2), torch.ones(2, 2).tril(), torch.zeros(2), torch.eye(2)),
            ValueError,
            "symmetric",
        ),
        (
            lambda: frechet_of_gaussians(torch.zeros(2), -torch.eye(2), torch.zeros(2), torch.eye(2)),
            ValueError,
            "negative eigenvalues, got -1",
        ),
    ],
)
def test_bad_input(call: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()  # pyright: ignore[reportCallIssue]


def test_invalid_samples_raise() -> None:
    for wrong in ([1.0, 2.0], [], None):
        with pytest.raises(TypeError):
            frechet_distance(GOOD, wrong)  # pyright: ignore[reportArgumentType]
