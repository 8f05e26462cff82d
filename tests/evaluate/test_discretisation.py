"""The predicted error of the steps of a grid is the relative entropy that enumeration gives."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import tauleap as tl
from tauleap.denoise import Posterior
from tauleap.evaluate import discretisation_error, pushforward
from tauleap.evaluate.forward_path import Current, Prediction, Rows, root_nodes
from tauleap.evaluate.joint_space import joint_states
from tauleap.reverse import ReverseProcess
from tauleap.sampling import Ancestral
from tauleap.testing.cases import NAMES, correlated, draws, of_every_kind
from tauleap.testing.laws import random_law
from tauleap.testing.paths import Perturbed
from tauleap.testing.steps import joint_kernel, relative_entropy, step_errors

GRID = [1.0, 0.5, 0.2, 0.05, 0.0]


def in_float64(posterior: Posterior) -> Posterior:
    return Posterior(posterior.logits.double(), over_data_states=posterior.over_data_states)


def integrated(reverse: ReverseProcess, law: Tensor, t: float, s: float, estimator: Any = "rates") -> float:
    """The integral of D(t, u) by the formula under test, over all x0, x_u and x_t with their probabilities."""
    x, total = joint_states(law.shape[0], law.ndim), 0.0
    for u, weight in root_nodes(s, t, 9):
        early = law.reshape(-1)[:, None] * joint_kernel(reverse.process, law.ndim, u)  # x0, x_u
        joint = early[:, :, None] * joint_kernel(reverse.process, law.ndim, t, u)  # x0, x_u, x_t
        clean, now, later = (joint > 1e-40).nonzero().unbind(1)
        predicted = {time: in_float64(reverse.posterior(x, time)) for time in (u, t)}
        here, there = (
            Prediction(x[of], time, predicted[time].rearranged(lambda values, of=of: values[of]))
            for of, time in ((now, u), (later, t))
        )
        found = Current(reverse, Rows(x[clean]), here, estimator).divergence(there)
        total += weight * float((joint[clean, now, later] * found).sum())
    return total


@pytest.mark.parametrize("kind", of_every_kind())
def test_it_is_the_joint_relative_entropy_of_every_process(kind: str) -> None:
    process = of_every_kind()[kind]
    law = random_law(process.data_states.expand(2, -1), seed=3)
    reverse = ReverseProcess(process, tl.denoise.ExactDenoiser(law, process))
    for t, s in pairwise((0.9, 0.3, 0.05)):
        exact = float(step_errors(reverse, law, (t, s))[0])
        assert exact > 1e-5
        assert integrated(reverse, law, t, s) == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("estimator", ["rates", "likelihood"])
@pytest.mark.parametrize("name", NAMES)
def test_three_sites_down_to_the_sample(name: str, estimator: str) -> None:
    reverse, law = correlated(name, 3, num_states=2)
    for t, s in ((0.4, 0.1), (0.1, 0.0)):
        exact = float(step_errors(reverse, law, (t, s))[0])
        assert integrated(reverse, law, t, s, estimator) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("estimator", ["rates", "likelihood"])
@pytest.mark.parametrize("name", NAMES)
def test_estimates_from_rows_have_the_exact_value(name: str, estimator: Any) -> None:
    """Within 4 standard errors, fixed seeds, as a whole and step by step."""
    reverse, law = correlated(name, 2)
    rows = draws(law, 2500, torch.Generator().manual_seed(0))
    exact, seed = step_errors(reverse, law, GRID), torch.Generator().manual_seed(1)
    found = discretisation_error(reverse, rows, GRID[:-1], estimator=estimator, per_step=True, generator=seed)
    assert found.n == len(rows)
    assert bool(((found.value - exact).abs() < 4 * found.stderr + 1e-4).all())
    spread = float(found.stderr.square().sum().sqrt()) / float(found.value.sum())
    assert spread < (0.1 if estimator == "rates" else 0.2)


@pytest.mark.parametrize("name", NAMES)
def test_it_bounds_the_relative_entropy_of_the_samples(name: str) -> None:
    """From q_1 the samples are closer to the data than all states together; the two differ."""
    reverse, law = correlated(name, 2)
    start = pushforward.marginal(reverse, law, 1.0)
    made = pushforward.pushforward_grid(Ancestral(), reverse, start, GRID)
    joint, alone = float(step_errors(reverse, law, GRID).sum()), relative_entropy(law, made)
    assert 0 < alone < 0.95 * joint


def test_finer_grids_have_smaller_errors() -> None:
    reverse, law = correlated("uniform", 2)
    coarse, fine = (step_errors(reverse, law, torch.linspace(1, 0, n + 1).tolist()).sum() for n in (4, 16))
    assert float(fine) < 0.5 * float(coarse)


def test_likelihood_is_the_increase_of_the_bound_for_any_denoiser() -> None:
    """Over one step: the discrete loss minus the integral of the continuous one, by enumeration."""
    process = of_every_kind()["rank one"]
    law = random_law(process.data_states.expand(2, -1), seed=1)
    reverse = ReverseProcess(process, Perturbed(law, process, 0.8))
    x, (t, s) = joint_states(4, 2), (0.6, 0.3)

    def mean(u: float, loss: str, *arguments: float) -> float:
        joint = law.reshape(-1)[:, None] * joint_kernel(process, 2, u)
        clean, noisy = (joint > 0).nonzero().unbind(1)
        each = getattr(reverse.at(x[noisy], u), loss)(x[clean], *arguments)
        return float((joint[clean, noisy] * each.sum(-1)).sum())

    discrete = mean(t, "step_divergence", s)
    continuous = sum(weight * mean(u, "divergence") for u, weight in root_nodes(s, t, 7))
    found = integrated(reverse, law, t, s, "likelihood")
    assert found == pytest.approx(discrete - continuous, rel=1e-6)
    assert found != pytest.approx(integrated(reverse, law, t, s, "rates"), rel=0.05)


def test_likelihood_can_be_negative_where_the_network_is_worse_at_the_later_state() -> None:
    """Sure of the wrong thing once the other site is known: not knowing it is better."""

    class Contrary(tl.denoise.Denoiser):
        def forward(self, x_t: Any, t: Any, *, observed: Any = None, condition: Any = None) -> Any:
            known = (x_t.flip(-1) != 2)[..., None]
            wrong = torch.nn.functional.one_hot(1 - x_t.flip(-1).clamp(max=1), 3).double()
            return tl.denoise.Posterior(torch.where(known, 3 * wrong, 0.0))

    reverse = ReverseProcess(tl.noise.Absorbing(3, tl.noise.LogLinear()), Contrary())
    rows = torch.tensor([[0, 0], [1, 1]]).repeat(100, 1)
    seed = torch.Generator().manual_seed(0)
    assert discretisation_error(reverse, rows, [1.0, 0.0], estimator="likelihood", generator=seed).value < -0.5
    assert discretisation_error(reverse, rows, [1.0, 0.0], generator=seed).value > 0.1


def test_observed_sites_cost_nothing() -> None:
    reverse, law = correlated("absorbing", 2)
    rows = draws(law, 1500, torch.Generator().manual_seed(0))
    given = tl.Observed(torch.tensor([True, False]), rows)
    found = discretisation_error(reverse, rows, GRID, observed=given, generator=torch.Generator().manual_seed(0))
    assert found.value == pytest.approx(0, abs=1e-12)  # one site alone is sampled exactly
    open_rows = tl.Observed(torch.tensor([False, False]), rows)
    found = discretisation_error(reverse, rows, GRID, observed=open_rows, generator=torch.Generator().manual_seed(0))
    exact = float(step_errors(reverse, law, GRID).sum())
    assert abs(found.value - exact) < 4 * found.stderr


def test_a_model_reads_its_own_data_and_the_seed_decides() -> None:
    model = tl.load("toy")
    rows = tl.data.tau_points(8, generator=torch.Generator().manual_seed(0))
    seed = torch.Generator()
    first, again, other = (
        discretisation_error(model, rows, [1.0, 0.3, 0.01], generator=seed.manual_seed(number)) for number in (0, 0, 1)
    )
    steps = discretisation_error(model, rows, [1.0, 0.3, 0.01], per_step=True, generator=seed.manual_seed(0))
    assert float(steps.value.sum()) == pytest.approx(first.value)
    assert first == again
    assert first != other
    assert (
        first.value == discretisation_error(model.reverse, rows, [1.0, 0.3, 0.01], generator=seed.manual_seed(0)).value
    )


def test_rows_with_missing_values_are_not_used() -> None:
    rows = torch.randint(3, (40, 2), generator=torch.Generator().manual_seed(0))
    model = tl.Model(
        tl.noise.Absorbing(4, tl.noise.LogLinear()),
        tl.denoise.NetworkDenoiser(tl.network.ResidualMLP(4, (2,))),
        shape=(2,),
    )
    missing = torch.zeros(rows.shape, dtype=torch.bool)
    missing[:30, 0] = True
    data = tl.data.Dataset(rows, 3, missing=missing)
    assert discretisation_error(model, data, [1.0, 0.5]).n == 10
    with pytest.raises(ValueError, match="every row has a missing value: give rows without"):
        discretisation_error(model, tl.data.Dataset(rows, 3, missing=missing | True), [1.0, 0.5])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"model": 3}, TypeError, r"takes a model or a ReverseProcess, got int"),
        ({"grid": [0.1, 1.0]}, ValueError, "grid must decrease"),
        ({"final": "mode"}, ValueError, "final must be 'sample' or 'none', got 'mode'"),
        ({"estimator": "exact"}, ValueError, "estimator must be 'rates' or 'likelihood', got 'exact'"),
        ({"nodes": 0}, ValueError, "nodes must be a whole number >= 1"),
        ({"batch_size": 0}, ValueError, "batch_size must be a whole number >= 1"),
        ({"rows": torch.full((2, 2), 3)}, ValueError, r"rows must hold states 0..2"),
        ({"rows": torch.zeros(0, 2, dtype=torch.int64)}, ValueError, "n >= 1"),
        ({"condition": torch.zeros(1)}, ValueError, "one entry per sample"),
        ({"generator": 3}, TypeError, r"write torch.Generator\(\).manual_seed"),
        ({"observed": tl.Observed(torch.tensor([True]), torch.zeros(2, 1).long())}, ValueError, "the shape of rows"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    given: dict[str, Any] = {"model": correlated("uniform", 2)[0], "rows": torch.zeros(2, 2).long(), "grid": [1.0, 0.1]}
    given |= arguments
    with pytest.raises(error, match=message):
        discretisation_error(given.pop("model"), given.pop("rows"), given.pop("grid"), **given)


def test_quadrature_in_the_root_of_the_time() -> None:
    nodes = root_nodes(0.0, 0.5, 5)
    assert_close(sum(w * torch.tensor(u).log() for u, w in nodes), torch.tensor(0.5 * (-0.6931 - 1)), rtol=0, atol=0.01)
