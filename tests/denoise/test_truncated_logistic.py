"""The truncated logistic against 50 digits, in the middle and in both tails."""

import itertools
import math

import mpmath
import pytest
import torch
from torch import Tensor, nn

from tauleap.denoise import TruncatedLogistic
from tauleap.denoise.truncated_logistic import truncated_logistic_log_prob, truncated_logistic_logits


def exact_log_probs(mean: float, scale: float, num_states: int) -> list[float]:
    with mpmath.workdps(50):
        centre, width = mpmath.mpf(mean), mpmath.mpf(scale)
        ends = [(mpmath.mpf(2 * k) / num_states - 1 - centre) / width for k in range(num_states + 1)]

        def between(a: mpmath.mpf, b: mpmath.mpf) -> mpmath.mpf:
            # Written on the side where the sigmoid is small, so that 50 digits are enough for tails of e^-2000.
            return 1 / (1 + mpmath.exp(-b)) - 1 / (1 + mpmath.exp(-a)) if b <= 0 else between_above(a, b)

        def between_above(a: mpmath.mpf, b: mpmath.mpf) -> mpmath.mpf:
            return 1 / (1 + mpmath.exp(a)) - 1 / (1 + mpmath.exp(b))

        mass = [between(a, b) for a, b in itertools.pairwise(ends)]
        total = mpmath.fsum(mass)
        return [float(mpmath.log(m / total)) for m in mass]


@pytest.mark.parametrize("scale", [1e-3, 0.05, 1.0, 10.0])
@pytest.mark.parametrize("mean", [-3.0, -1.0, -0.2, 0.0, 0.7, 1.0, 2.5])
def test_log_probs_are_right_in_both_tails(mean: float, scale: float) -> None:
    logits = truncated_logistic_logits(
        torch.tensor([mean], dtype=torch.float64), torch.tensor([math.log(scale)], dtype=torch.float64), 256
    )
    found = logits.log_softmax(-1)[0]
    expected = torch.tensor(exact_log_probs(mean, scale, 256), dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)
    assert math.isclose(found.exp().sum().item(), 1.0, rel_tol=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 0.05, 1.0, 10.0])
@pytest.mark.parametrize("mean", [-3.0, -1.0, -0.2, 0.0, 0.7, 1.0, 2.5])
def test_single_precision_keeps_the_tails_and_sums_to_one(mean: float, scale: float) -> None:
    """As networks give it: an error of the logits, hundreds of units apart at a scale of 1e-3, of some ulps of them."""
    centre, width = torch.tensor([mean]), torch.tensor([math.log(scale)])
    found = truncated_logistic_logits(centre, width, 256).log_softmax(-1)[0]
    assert found.dtype == torch.float32
    # Of the numbers as they are in float32.
    expected = torch.tensor(exact_log_probs(centre.item(), math.exp(width.item()), 256), dtype=torch.float64)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)
    assert float((found.double() - expected).abs().max()) < 1e-3
    assert math.isclose(found.double().exp().sum().item(), 1.0, rel_tol=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 0.05, 1.0, 10.0])
@pytest.mark.parametrize("mean", [-3.0, -1.0, -0.2, 0.0, 0.7, 1.0, 2.5])
def test_log_prob_of_one_state_is_right_in_both_tails(mean: float, scale: float) -> None:
    expected = torch.tensor(exact_log_probs(mean, scale, 256), dtype=torch.float64)
    centre = torch.full((256,), mean, dtype=torch.float64)
    width = torch.full((256,), math.log(scale), dtype=torch.float64)
    found = truncated_logistic_log_prob(centre, width, torch.arange(256), 256)
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)
    single = truncated_logistic_log_prob(centre.float(), width.float(), torch.arange(256), 256)
    exact = exact_log_probs(centre.float()[0].item(), math.exp(width.float()[0].item()), 256)
    # Beyond the range, where no tanh is, distances of 2,000 scales cancel, each rounded to 1e-4.
    error = 2e-6 if abs(mean) <= 1 else 1e-4
    torch.testing.assert_close(single.double(), torch.tensor(exact, dtype=torch.float64), rtol=2e-6, atol=error)


def test_log_prob_of_one_state_has_the_gradients_of_the_logits() -> None:
    generator = torch.Generator().manual_seed(0)
    mean = (3 * torch.rand(2, 16, generator=generator, dtype=torch.float64) - 1.5).requires_grad_()
    log_scale = (4 * torch.rand(2, 16, generator=generator, dtype=torch.float64) - 3).requires_grad_()
    x0 = torch.arange(16).expand(2, 16)

    def closed() -> Tensor:
        return truncated_logistic_log_prob(mean, log_scale, x0, 16)

    def written_out() -> Tensor:
        return truncated_logistic_logits(mean, log_scale, 16).log_softmax(-1).gather(-1, x0[..., None]).squeeze(-1)

    torch.testing.assert_close(closed(), written_out())
    for found, expected in zip(
        torch.autograd.grad(closed().sum(), (mean, log_scale)),
        torch.autograd.grad(written_out().sum(), (mean, log_scale)),
        strict=True,
    ):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("log_scale", [-20.0, -13.0, -9.0, -7.0])
@pytest.mark.parametrize("offset", [0.3, 2.0, 4.0, 9.0])
def test_log_prob_of_one_state_at_both_ends_in_single_precision(offset: float, log_scale: float) -> None:
    """Means next to the ends, where most pixels are, and narrow laws: as exact as the logits, and both alike."""
    mean, width = torch.tanh(torch.tensor([-offset, offset])), torch.full((2,), log_scale)
    found = truncated_logistic_log_prob(mean, width, torch.tensor([0, 255]), 256)
    written_out = truncated_logistic_logits(mean.double(), width.double(), 256).log_softmax(-1)
    expected = torch.stack([written_out[0, 0], written_out[1, 255]])
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found[0], found[1])
    assert bool((found <= 0).all())


@pytest.mark.parametrize(
    "out", [(-1e4, -1e4), (1e4, -1e4), (0.0, -1e4), (0.0, 80.0), (0.0, 90.0), (0.0, 120.0), (0.0, 1e4), (-30.0, 5.0)]
)
def test_extreme_outputs_keep_finite_gradients_of_log_prob(out: tuple[float, float]) -> None:
    network = Fixed(torch.tensor(out))
    x = torch.tensor([[0, 128, 255]])
    found = TruncatedLogistic(network, 256)(x, 0.5).log_prob(x.flip(1))
    assert bool(torch.isfinite(found).all())
    if out[1] > 50:  # every state is as likely as another
        torch.testing.assert_close(found, torch.full((1, 3), -math.log(256)))
    found.sum().backward()
    assert network.out.grad is not None
    assert bool(torch.isfinite(network.out.grad).all())


class Fixed(nn.Module):
    def __init__(self, out: Tensor) -> None:
        super().__init__()
        self.out = nn.Parameter(out)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return self.out.expand(*x.shape, self.out.shape[-1])


def test_a_network_of_zeros_returns_its_input_up_to_tanh() -> None:
    denoiser = TruncatedLogistic(Fixed(torch.zeros(2)), 9)
    x = torch.arange(9)[None]
    mode = denoiser(x, 0.5).mode
    scaled = torch.tanh(x / 4.0 - 1)
    torch.testing.assert_close(mode, ((scaled + 1) / 2 * 9).floor().long())


@pytest.mark.parametrize("out", [(-1e4, -1e4), (1e4, -1e4), (0.0, -1e4), (0.0, 80.0), (-30.0, 5.0)])
def test_extreme_outputs_keep_finite_probabilities_and_gradients(out: tuple[float, float]) -> None:
    network = Fixed(torch.tensor(out))
    probs = TruncatedLogistic(network, 256)(torch.tensor([[0, 128, 255]]), 0.5).probs
    torch.testing.assert_close(probs.sum(-1), torch.ones(1, 3))
    probs[..., 7].sum().backward()
    assert network.out.grad is not None
    assert bool(torch.isfinite(network.out.grad).all())


def test_a_network_with_another_number_of_outputs_raises() -> None:
    denoiser = TruncatedLogistic(Fixed(torch.zeros(3)), 9)
    with pytest.raises(ValueError, match="two numbers per site"):
        denoiser(torch.zeros(1, 2, dtype=torch.int64), 0.5)


def test_gradients_are_those_of_the_formula_across_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tauleap._chunks._ENTRIES", 32)  # two sites at a time
    generator = torch.Generator().manual_seed(0)
    mean = (2 * torch.rand(3, 4, generator=generator, dtype=torch.float64) - 1).requires_grad_()
    log_scale = (2 * torch.rand(3, 4, generator=generator, dtype=torch.float64) - 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda m, s: truncated_logistic_logits(m, s, 16), (mean, log_scale))


def test_a_scale_below_the_least_has_no_gradient() -> None:
    log_scale = torch.tensor([-25.0, -3.0], requires_grad=True)
    truncated_logistic_logits(torch.zeros(2), log_scale, 9)[:, 0].sum().backward()
    assert log_scale.grad is not None
    assert log_scale.grad[0] == 0
    assert log_scale.grad[1] != 0
