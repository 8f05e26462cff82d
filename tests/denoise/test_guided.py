"""Guidance: the contract, the law of a single site, and what is left alone."""

import math

import pytest
import torch
from torch import Tensor, nn

from tauleap.denoise import Denoiser, Guided, NetworkDenoiser, Posterior, TruncatedLogistic
from tauleap.evaluate import pushforward
from tauleap.noise import Absorbing, Constant
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling import Ancestral, uniform_grid
from tauleap.testing import DenoiserContract


class Labelled(nn.Module):
    """Two labels, and 2 for one that is not known; depends on everything that it is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(0)))

    def forward(
        self, x: Tensor, t: Tensor, *, observed: Tensor | None = None, condition: Tensor | None = None
    ) -> Tensor:
        label = torch.full((len(x),), 2) if condition is None else condition
        out = self.table[label[:, None], x] * (1 + t[:, None, None])
        return out if observed is None else out + observed.sum(1)[:, None, None] * self.table[0, 0]


class TestGuided(DenoiserContract):
    num_states = 4

    def make(self) -> Denoiser:
        return Guided(NetworkDenoiser(Labelled()), 2.5, null_label=2)

    def condition(self, batch: int) -> Tensor:
        return torch.ones(batch, dtype=torch.int64)


class TestGuidedWithoutACondition(TestGuided):
    def condition(self, batch: int) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None


LAWS = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6], [0.25, 0.35, 0.4]], dtype=torch.float64)


class Known(nn.Module):
    """The posterior of a masked site is the law of its label; the mask is the last state."""

    def forward(self, x: Tensor, t: Tensor, *, condition: Tensor) -> Tensor:
        logits = torch.cat([LAWS.log(), torch.full((3, 1), -torch.inf, dtype=torch.float64)], 1)
        return logits[condition][:, None].expand(*x.shape, 4)


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("label", [0, 1])
def test_posterior_of_a_single_masked_site(label: int, scale: float) -> None:
    """p(x0 | label)^scale p(x0)^(1 - scale), normalised, whatever the steps: the law is pushed, not drawn."""

    class Conditional(Denoiser):
        def forward(self, x_t: Tensor, t: Tensor | float, **_: object) -> Posterior:
            return guided(x_t, t, condition=torch.full((len(x_t),), label))

    guided = Guided(NetworkDenoiser(Known()), scale, null_label=2)
    reverse = ReverseProcess(Absorbing(4, Constant(3.0)), Conditional())
    start = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    law = pushforward.pushforward_grid(Ancestral(), reverse, start, uniform_grid(5, end=0.01))
    expected = LAWS[label] ** scale * LAWS[2] ** (1 - scale)
    torch.testing.assert_close(law[:3] / law[:3].sum(), expected / expected.sum(), rtol=1e-9, atol=1e-12)


def test_two_passes_are_one_with_everything_repeated() -> None:
    network = NetworkDenoiser(Labelled())
    guided = Guided(network, 3.0, null_label=2)
    x, t, label = torch.tensor([[0, 1], [2, 3], [1, 1]]), torch.tensor([0.1, 0.5, 0.9]), torch.tensor([0, 1, 0])
    observed = Observed(torch.tensor([[True, False], [False, False], [True, True]]), x)
    conditional, unconditional = (
        network(x, t, observed=observed, condition=c).log_probs for c in (label, torch.full_like(label, 2))
    )
    found = guided(x, t, observed=observed, condition=label).log_probs
    torch.testing.assert_close(
        found, (conditional + 2 * (conditional - unconditional).clamp(max=math.log(10))).log_softmax(-1)
    )
    torch.testing.assert_close(guided(x, t, observed=observed).log_probs, unconditional)


class Tails(nn.Module):
    """Both are sure of an end of the range; without the label the law is narrower, with a tail that falls sooner."""

    def forward(self, x: Tensor, t: Tensor, *, condition: Tensor) -> Tensor:
        log_scale = torch.where(condition == 2, -3.0, -1.0)[:, None].expand(x.shape)
        return torch.stack([torch.full(x.shape, -9.0), log_scale], -1)


def test_tails_do_not_win() -> None:
    """p^2 / q alone would have the far end as its mode, which both hold for all but impossible."""
    conditional, x, label = TruncatedLogistic(Tails(), 256), torch.tensor([[128]]), torch.tensor([0])
    one, other = (conditional(x, 0.5, condition=c).log_probs for c in (label, torch.tensor([2])))
    assert int((2 * one - other).argmax()) == 255
    found = Guided(conditional, 2.0, null_label=2)(x, 0.5, condition=label)
    assert int(found.mode) < 8
    assert float(found.probs[..., 128:].sum()) < 1e-6


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_impossible_states_stay_excluded(scale: float) -> None:
    inf = torch.inf
    table = torch.tensor([[0.0, -inf, -inf, 0.5], [0.0] * 4, [0.0, -inf, 0.3, -inf]])

    class Some(nn.Module):
        def forward(self, x: Tensor, t: Tensor, *, condition: Tensor) -> Tensor:
            return table[condition][:, None].expand(*x.shape, 4)

    guided = Guided(NetworkDenoiser(Some()), scale, null_label=2)
    probs = guided(torch.tensor([[0]]), 0.5, condition=torch.tensor([0])).probs[0, 0]
    assert bool(torch.isfinite(probs).all())
    assert (probs > 0).tolist() == [True, False, False, True]


def test_invalid_arguments_raise() -> None:
    network = NetworkDenoiser(Labelled())
    with pytest.raises(ValueError, match="scale must be"):
        Guided(network, 0.0, null_label=2)
    with pytest.raises(ValueError, match="max_ratio must be > 1"):
        Guided(network, 2.0, null_label=2, max_ratio=1.0)
    with pytest.raises(ValueError, match="null_label must be"):
        Guided(network, 2.0, null_label=-1)
    with pytest.raises(ValueError, match="one label per sample, 2 integers, got torch"):
        Guided(network, 2.0, null_label=2)(torch.zeros(2, 2, dtype=torch.int64), 0.5, condition=torch.zeros(2))
