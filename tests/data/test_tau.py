"""The tau: a law, upright, and points that follow it."""

import pytest
import torch

from tauleap.data import tau_pmf, tau_points


@pytest.mark.parametrize("size", [8, 32, 50])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_is_a_distribution(size: int, dtype: torch.dtype) -> None:
    pmf = tau_pmf(size, dtype)
    assert pmf.shape == (size, size)
    assert pmf.dtype == dtype
    assert (pmf >= 0).all()
    assert pmf.sum().item() == pytest.approx(1, abs=10 * torch.finfo(dtype).eps)


def test_has_ink_edges_and_empty_cells() -> None:
    pmf = tau_pmf()
    inked = int((pmf > 0).sum())
    grey = int(((pmf > 0) & (pmf < 0.9 * pmf.max())).sum())
    assert 200 < inked < 450
    assert grey > 50
    border = torch.cat((pmf[0], pmf[-1], pmf[:, 0], pmf[:, -1]))
    assert (border == 0).all()


def test_is_upright() -> None:
    """The bar is on top and wide, the stem is below it and narrow and ends left of the middle."""
    ink = tau_pmf() > 0
    width = ink.sum(0)  # over x, for each y
    height = ink.any(0).nonzero().flatten()
    bottom, top = int(height[0]), int(height[-1])
    assert width[top - 3] > 2.5 * width[bottom + 8]
    foot = ink[:, bottom + 1].nonzero().double().mean()
    assert foot < 15.5


def test_is_a_copy() -> None:
    tau_pmf().zero_()
    assert tau_pmf().sum() > 0


def test_points_follow_the_distribution() -> None:
    n, pmf = 100_000, tau_pmf()
    points = tau_points(n, generator=torch.Generator().manual_seed(0))
    assert points.shape == (n, 2)
    assert points.dtype == torch.int64
    counts = torch.zeros_like(pmf)
    counts.index_put_((points[:, 0], points[:, 1]), torch.ones(n, dtype=pmf.dtype), accumulate=True)
    assert (counts[pmf == 0] == 0).all()
    expected = (n * pmf)[pmf > 0]
    many = expected >= 5
    chi_square = (((counts[pmf > 0] - expected) ** 2 / expected)[many]).sum()
    degrees = int(many.sum())
    assert abs(chi_square - degrees) < 4 * (2 * degrees) ** 0.5


def test_same_generator_same_points() -> None:
    first, second = (tau_points(50, size=16, generator=torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first, second)
    assert int(first.max()) < 16
    assert tau_points(0).shape == (0, 2)


@pytest.mark.parametrize("size", [7, -1])
def test_invalid_size_raises(size: int) -> None:
    with pytest.raises(ValueError, match="size must be a whole number >= 8"):
        tau_pmf(size)


def test_integer_dtype_and_negative_number_raise() -> None:
    with pytest.raises(TypeError, match="floating-point dtype"):
        tau_pmf(dtype=torch.int64)
    with pytest.raises(ValueError, match="n must be a whole number >= 0"):
        tau_points(-1)
