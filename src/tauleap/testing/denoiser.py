"""The contract of a denoiser."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.testing import assert_close

from tauleap._shapes import States, Time
from tauleap.denoise import Denoiser, Posterior
from tauleap.observed import Observed
from tauleap.testing.laws import assert_drawn_from, count


class GivenLogits(Denoiser):
    """Return the same logits for every input: to test the treatment of a prediction.

    Args:
        logits: The logits, (batch, *shape, S).

    >>> GivenLogits(torch.zeros(1, 1, 4))(torch.tensor([[3]]), 0.5).probs
    tensor([[[0.2500, 0.2500, 0.2500, 0.2500]]])
    """

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        return Posterior(self.logits)


class DenoiserContract(ABC):
    """Test the contract of a denoiser, in a subclass.

    >>> from tauleap import denoise, network
    >>> class TestMine(DenoiserContract):
    ...     num_states = 5
    ...     def make(self):
    ...         return denoise.NetworkDenoiser(network.ResidualMLP(5, self.shape))
    >>> TestMine().test_samples_are_predicted_independently()  # pytest runs all tests of the class
    """

    num_states: int
    shape: tuple[int, ...] = (2,)
    """The shape of a sample."""

    depends_on_time: bool = True
    """Say False for one that needs no time, as absorbing noise allows."""

    precision: float = 1e-5
    """How well answers to the same question must agree."""

    @abstractmethod
    def make(self) -> Denoiser:
        """Return the denoiser to test, newly constructed."""

    def condition(self, batch: int) -> Tensor | None:
        """Return the ``condition`` of a batch, if the denoiser needs one.

        Args:
            batch: The number of samples.
        """
        return None

    def states(self, batch: int) -> Tensor:
        """Return random states of a batch.

        Args:
            batch: The number of samples.
        """
        return torch.randint(self.num_states, (batch, *self.shape), generator=torch.Generator().manual_seed(0))

    def test_it_says_one_law_a_site(self) -> None:
        x = self.states(6)
        posterior = self._posterior(self.make(), x, 0.3)
        assert posterior.probs.shape == (*x.shape, self.num_states)
        assert bool((posterior.probs >= 0).all())
        assert_close(posterior.probs.sum(-1), torch.ones(x.shape, dtype=posterior.probs.dtype))
        assert_close(posterior.log_probs.exp(), posterior.probs)

    def test_what_it_sees_stays_as_it_was(self) -> None:
        x, t = self.states(6), torch.linspace(0.1, 1.0, 6)
        x_before, t_before = x.clone(), t.clone()
        self._posterior(self.make(), x, t)
        assert torch.equal(x, x_before)
        assert torch.equal(t, t_before)

    def test_samples_are_predicted_independently(self) -> None:
        """Check that a prediction is independent of the rest of the batch, and of the shape of t."""
        denoiser, x = self.make().eval(), self.states(6)
        t = torch.tensor([0.2, 0.2, 0.9, 0.5, 1.0, 0.01], dtype=torch.float64)
        whole = self._posterior(denoiser, x, t).probs
        for i in range(len(x)):
            single = self._posterior(denoiser, x[i : i + 1], float(t[i])).probs
            assert_close(single, whole[i : i + 1], rtol=self.precision, atol=self.precision)
        if self.condition(1) is None:
            turned = self._posterior(denoiser, x.flip(0), t.flip(0)).probs
            assert_close(turned.flip(0), whole, rtol=self.precision, atol=self.precision)

    def test_time_matters_as_declared(self) -> None:
        denoiser, x = self.make().eval(), self.states(20)
        early, late = (self._posterior(denoiser, x, t).probs.detach() for t in (0.2, 0.7))
        assert (float((early - late).abs().max()) > 10 * self.precision) == self.depends_on_time

    def test_given_sites_are_understood(self) -> None:
        denoiser, x = self.make().eval(), self.states(6)
        mask = torch.zeros(x.shape, dtype=torch.bool)
        mask.reshape(-1)[::2] = True
        known = denoiser(x, 0.4, observed=Observed(mask, x), condition=self.condition(len(x)))
        assert_close(known.probs.sum(-1), torch.ones(x.shape, dtype=known.probs.dtype))
        unobserved = denoiser(x, 0.4, observed=Observed(mask & False, x), condition=self.condition(len(x)))
        plain = self._posterior(denoiser, x, 0.4)
        assert_close(unobserved.probs, plain.probs, rtol=self.precision, atol=self.precision)

    def test_copies_and_saved_ones_say_the_same(self) -> None:
        denoiser, x = self.make().eval(), self.states(6)
        expected = self._posterior(denoiser, x, 0.3).logits
        loaded = self.make().eval()
        loaded.load_state_dict({name: value.clone() for name, value in denoiser.state_dict().items()})
        for other in (copy.deepcopy(denoiser), loaded):
            assert_close(self._posterior(other, x, 0.3).logits, expected, rtol=0.0, atol=0.0)

    def test_draws_have_its_law(self) -> None:
        """Compare draws with probabilities by a chi-square test of level ``laws.LEVEL``, with seed 0."""
        posterior = self._posterior(self.make().eval(), self.states(2), 0.6)
        assert torch.equal(posterior.mode, posterior.probs.argmax(-1))
        probs, draws = posterior.probs.detach(), 4000
        many = Posterior(posterior.logits.detach().repeat(draws, *[1] * (probs.ndim - 1)))
        drawn = many.sample(generator=torch.Generator().manual_seed(0)).reshape(draws, *probs.shape[:-1])
        assert_drawn_from(count(drawn, self.num_states), probs)

    def test_gradients_are_numbers(self) -> None:
        denoiser = self.make()
        learned = [parameter for parameter in denoiser.parameters() if parameter.requires_grad]
        loss = self._posterior(denoiser, self.states(6), 0.3).log_probs.clamp(min=-1e6).sum()
        assert bool(loss.isfinite())
        if learned:
            gradients = torch.autograd.grad(loss, learned, allow_unused=True)
            assert any(g is not None and bool((g != 0).any()) for g in gradients)
            assert all(bool(g.isfinite().all()) for g in gradients if g is not None)

    def _posterior(self, denoiser: Denoiser, x: Tensor, t: Time) -> Posterior:
        return denoiser(x, t, condition=self.condition(len(x)))
