"""NetworkDenoiser: any network, called with the arguments that it takes."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tauleap import Observed, ReverseProcess
from tauleap.denoise import Denoiser, NetworkDenoiser, TruncatedLogistic
from tauleap.noise import Constant, Gaussian, Uniform
from tauleap.testing import DenoiserContract


class Table(nn.Module):
    """Logits from the site's own state, the time and, a little, the other sites."""

    def __init__(self, num_states: int = 4, answers: int | None = None) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        answers = answers or num_states
        self.weight = nn.Parameter(torch.randn(num_states, answers, generator=generator))
        self.slope = nn.Parameter(torch.randn(answers, generator=generator))

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        assert t.shape == x.shape[:1]
        own = self.weight[x]
        return own + own.mean(1, keepdim=True) + self.slope * t.reshape(-1, *[1] * x.ndim)


class Conditional(Table):
    """Takes the mask of the observed sites, and one number per sample."""

    def forward(self, x: Tensor, t: Tensor, observed: Tensor | None = None, condition: Tensor | None = None) -> Tensor:
        out = super().forward(x, t)
        if observed is not None:
            out = out + observed[..., None] * self.slope
        if condition is not None:
            out = out + condition.reshape(-1, *[1] * x.ndim) * self.slope.flip(0)
        return out


class TestNetworkDenoiser(DenoiserContract):
    num_states = 4

    def make(self) -> Denoiser:
        return NetworkDenoiser(Table())


class TestConditionalNetworkDenoiser(DenoiserContract):
    num_states = 4
    shape = (3, 2)

    def make(self) -> Denoiser:
        return NetworkDenoiser(Conditional())

    def condition(self, batch: int) -> Tensor | None:
        return torch.full((batch,), 0.7)


class TestTruncatedLogistic(DenoiserContract):
    num_states = 6

    def make(self) -> Denoiser:
        return TruncatedLogistic(Table(6, 2), 6)


X = torch.tensor([[0, 3], [2, 1]])


def test_the_logits_are_those_of_the_network() -> None:
    network = Table()
    posterior = NetworkDenoiser(network)(X, 0.25)
    assert_close(posterior.logits, network(X, torch.tensor([0.25, 0.25])), rtol=0.0, atol=0.0)


def test_networks_get_one_time_per_sample_in_their_dtype() -> None:
    """One number, a tensor of one, one per sample: the network gets the same, to the last digit."""
    seen = []

    class Spy(Table):
        def forward(self, x: Tensor, t: Tensor) -> Tensor:
            seen.append(t)
            return super().forward(x, t)

    for dtype in (torch.float64, torch.float32):
        seen.clear()
        denoiser = NetworkDenoiser(Spy().to(dtype))
        for t in (0.1, torch.tensor(0.1, dtype=torch.float64), torch.tensor([0.1, 0.1], dtype=torch.float64)):
            denoiser(X, t)
        expected = torch.tensor([0.1, 0.1], dtype=dtype)
        assert all(t.dtype == dtype and torch.equal(t, expected) for t in seen)


def test_observed_sites_reach_a_network_that_takes_them() -> None:
    network = Conditional()
    observed = Observed(torch.tensor([True, False]), X)
    condition = torch.tensor([0.5, -1.0])
    times = torch.tensor([0.3, 0.3])
    posterior = NetworkDenoiser(network)(X, 0.3, observed=observed, condition=condition)
    assert_close(posterior.logits, network(X, times, observed.mask, condition), rtol=0.0, atol=0.0)
    assert not torch.equal(posterior.logits, network(X, times))
    plain = NetworkDenoiser(network)(X, 0.3)
    assert_close(plain.logits, network(X, times), rtol=0.0, atol=0.0)


def test_arguments_by_any_name_are_both_given() -> None:
    class Anything(Table):
        def forward(self, x: Tensor, t: Tensor, **given: Tensor | None) -> Tensor:
            assert set(given) == {"observed", "condition"}
            return super().forward(x, t)

    NetworkDenoiser(Anything())(X, 0.3, condition=torch.zeros(2))


def test_a_condition_is_never_ignored() -> None:
    with pytest.raises(TypeError, match="Table takes no condition: give its forward a parameter `condition`"):
        NetworkDenoiser(Table())(X, 0.3, condition=torch.zeros(2))


def test_observed_sites_need_no_argument() -> None:
    """Their values are in x already: a network that does not ask which they are works all the same."""
    observed = Observed(torch.tensor([True, False]), X)
    denoiser = NetworkDenoiser(Table())
    assert_close(denoiser(X, 0.3, observed=observed).logits, denoiser(X, 0.3).logits)


@pytest.mark.parametrize("shape", [(2, 4), (2, 2, 2, 4), (2, 3, 4), (4, 2, 2), ()])
def test_logits_of_another_shape_raise(shape: tuple[int, ...]) -> None:
    class Wrong(nn.Module):
        def forward(self, x: Tensor, t: Tensor) -> Tensor:
            return torch.zeros(shape)

    with pytest.raises(ValueError, match=r"\(2, 2, S\)") as error:
        NetworkDenoiser(Wrong())(X, 0.3)
    assert str(shape) in str(error.value), "the message must say what was given"


def test_outputs_that_are_not_tensors_raise() -> None:
    class Wrong(nn.Module):
        def forward(self, x: Tensor, t: Tensor) -> dict[str, Tensor]:
            return {"logits": torch.zeros(2, 2, 4)}

    with pytest.raises(ValueError, match="got dict"):
        NetworkDenoiser(Wrong())(X, 0.3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_networks_give_finite_rates(dtype: torch.dtype) -> None:
    """Logits of 4e4 and times in half precision: rates are float32, finite, and near those of the float32 network."""
    network = Table().to(dtype)
    with torch.no_grad():
        network.weight[0, 0] = 2e4
    for process in (Uniform(4, Constant(0.5)), Gaussian(4, Constant(1.0), 2.0, 1.0)):
        rates = ReverseProcess(process, NetworkDenoiser(network)).rates(X, 0.3)
        assert rates.dtype == torch.float32
        assert bool(rates.isfinite().all())
        wide = Table()
        wide.load_state_dict(network.state_dict())
        expected = ReverseProcess(process, NetworkDenoiser(wide)).rates(X, 0.3)
        assert_close(rates, expected, rtol=0.1, atol=1e-3)


def test_gradients_of_the_rates_reach_the_network() -> None:
    network = Table()
    reverse = ReverseProcess(Uniform(4, Constant(0.5)), NetworkDenoiser(network))
    reverse.rates(X, 0.3).sum().backward()
    assert network.weight.grad is not None
    assert bool((network.weight.grad[X.unique()] != 0).any())


def test_a_denoiser_with_other_states_raises() -> None:
    reverse = ReverseProcess(Uniform(5, Constant(0.5)), NetworkDenoiser(Table(4)))
    with pytest.raises(ValueError, match=r"\(2, 2, 5\), got \(2, 2, 4\)"):
        reverse.rates(X, 0.3)
