"""Posterior: a law a site, whatever the logits."""

import math
import weakref

import pytest
import torch
from torch.testing import assert_close

from tauleap.denoise import Posterior
from tauleap.testing.laws import assert_drawn_from, count

INF = math.inf


def test_probabilities_are_those_of_the_logits() -> None:
    logits = torch.tensor([[[0.0, math.log(3.0), -INF]]], dtype=torch.float64)
    posterior = Posterior(logits)
    assert_close(posterior.probs, torch.tensor([[[0.25, 0.75, 0.0]]], dtype=torch.float64))
    assert_close(posterior.log_probs, torch.tensor([[[math.log(0.25), math.log(0.75), -INF]]], dtype=torch.float64))
    assert posterior.mode.tolist() == [[1]]
    assert_close(Posterior(logits + 1000).probs, posterior.probs)


def test_log_prob_of_one_state_and_its_gradient() -> None:
    """Against log_softmax of all, in several pieces, with states that cannot be."""
    generator = torch.Generator().manual_seed(0)
    logits = 30 * torch.randn(7, 300, 256, dtype=torch.float64, generator=generator)
    logits[..., 5] = -INF
    x0, weight = torch.randint(6, 256, (7, 300), generator=generator), torch.randn(7, 300, generator=generator).double()
    plain, ours = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    expected = plain.log_softmax(-1).gather(-1, x0[..., None]).squeeze(-1)
    found = Posterior(ours).log_prob(x0)
    assert_close(found, expected, rtol=1e-13, atol=1e-13)
    for value in (expected, found):
        (value * weight).sum().backward()
    assert_close(ours.grad, plain.grad, rtol=1e-12, atol=1e-14)
    assert_close(Posterior(logits[:0]).log_prob(x0[:0]), expected[:0])


def test_restriction_is_conditioning() -> None:
    posterior = Posterior(torch.log(torch.tensor([[[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]]], dtype=torch.float64)))
    allowed = torch.tensor([[True, True, False], [False, True, True]])
    expected = torch.tensor([[[1 / 3, 2 / 3, 0.0], [0.0, 0.5, 0.5]]], dtype=torch.float64)
    assert_close(posterior.restricted(allowed).probs, expected)
    assert_close(posterior.probs[0, 0], torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64))


def test_restriction_is_stronger_than_any_logit() -> None:
    posterior = Posterior(torch.tensor([[-3e38, 3e38, -3e38]]))
    assert posterior.restricted(torch.tensor([True, False, True])).probs.tolist() == [[0.5, 0.0, 0.5]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_count_as_float32(dtype: torch.dtype) -> None:
    """Sums over many states would not be right in half precision."""
    logits = torch.randn(2, 3000, generator=torch.Generator().manual_seed(0)).to(dtype)
    posterior = Posterior(logits)
    assert posterior.probs.dtype == torch.float32
    assert_close(posterior.probs, logits.double().softmax(-1).float(), rtol=1e-5, atol=0.0)
    assert_close(posterior.probs.sum(-1), torch.ones(2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_other_dtypes_do_not_change(dtype: torch.dtype) -> None:
    assert Posterior(torch.zeros(1, 2, dtype=dtype)).probs.dtype == dtype


def test_samples_have_the_distribution() -> None:
    """Chi-square, seed 0, level ``laws.LEVEL``; a state of logit -inf never comes."""
    logits = torch.tensor([[0.0, -INF, 1.0, -5.0], [2.0, 2.0, 2.0, -INF]])
    posterior = Posterior(logits.expand(20_000, 2, 4))
    drawn = posterior.sample(generator=torch.Generator().manual_seed(0))
    assert_drawn_from(count(drawn, 4), logits.softmax(-1))
    again = posterior.sample(generator=torch.Generator().manual_seed(0))
    assert torch.equal(drawn, again)


def test_gradients_stop_at_states_that_cannot_be() -> None:
    logits = torch.zeros(1, 3, requires_grad=True)
    Posterior(logits).restricted(torch.tensor([True, True, False])).log_probs[0, 0].backward()
    assert_close(logits.grad, torch.tensor([[0.5, -0.5, 0.0]]))


def test_a_restriction_keeps_one_copy_of_the_logits() -> None:
    """The logits before the restriction are freed once the restricted ones are known, and nothing else changes."""
    logits, allowed = torch.randn(2, 3, 4), torch.tensor([True, False, True, True])
    base = Posterior(logits).parametrisation
    before, restricted = weakref.ref(base), Posterior(base).restricted(allowed)
    x0, sites = torch.tensor([[0, 2, 3], [3, 2, 0]]), torch.tensor([4, 1])
    expected = restricted.log_prob(x0), restricted.at(sites)
    del base
    assert before() is not None
    assert_close(restricted.logits, logits.masked_fill(~allowed, -torch.inf))
    assert before() is None
    assert_close((restricted.log_prob(x0), restricted.at(sites)), expected)
    assert restricted.parametrisation.device == logits.device
