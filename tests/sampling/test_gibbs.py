"""The Gibbs corrector: one random site leaves q_t as it is, whatever the noise."""

from typing import Any

import pytest
import torch

import tauleap as tl
from tauleap.denoise import ExactDenoiser
from tauleap.evaluate.pushforward import marginal, prior, push_gibbs, pushforward_grid
from tauleap.noise import Absorbing, Constant, Dense, Uniform
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling import Ancestral, TauLeaping, WithCorrector, sample
from tauleap.sampling.gibbs import gibbs_step
from tauleap.testing import GivenLogits
from tauleap.testing.cases import correlated, counts, draws, of_every_kind, total_variation
from tauleap.testing.examples import two_islands
from tauleap.testing.laws import assert_drawn_from, random_law

WITHOUT_ZEROS = [name for name in of_every_kind() if name != "absorbing as a matrix"]


def exact(name: str, sites: int = 2) -> tuple[ReverseProcess, torch.Tensor]:
    process = of_every_kind()[name]
    law = random_law(process.data_states.expand(sites, -1), seed=2)
    return ReverseProcess(process, ExactDenoiser(law, process)), law


@pytest.mark.parametrize("t", [0.05, 0.6])
@pytest.mark.parametrize("name", WITHOUT_ZEROS)
def test_one_random_site_leaves_the_marginal_as_it_is(name: str, t: float) -> None:
    reverse, law = exact(name)
    there = marginal(reverse, law, t)
    after = push_gibbs(reverse, there, t, sites=1)
    assert float((after - there).abs().max()) < 1e-12
    start = prior(reverse, 2)
    assert total_variation(push_gibbs(reverse, start, t), there) < total_variation(start, there) - 0.01


@pytest.mark.parametrize("name", ["uniform", "absorbing", "gaussian"])
def test_several_sites_at_once_leave_it_approximately(name: str) -> None:
    reverse, law = exact(name, 3)
    there = marginal(reverse, law, 0.3)
    assert float((push_gibbs(reverse, there, 0.3, sites=1) - there).abs().max()) < 1e-12
    assert 1e-3 < total_variation(push_gibbs(reverse, there, 0.3, sites=2), there) < 0.2


def test_selection_by_margin_is_a_heuristic() -> None:
    """It is far from leaving q_t invariant even with one site."""
    reverse, law = exact("uniform", 3)
    there = marginal(reverse, law, 0.3)
    assert total_variation(push_gibbs(reverse, there, 0.3, selection="margin"), there) > 0.1


def test_states_of_other_strides_are_redrawn() -> None:
    """The values of a transposed copy are the same, so that the same generator must redraw the same states."""
    reverse = ReverseProcess(Uniform(5, Constant(1.0)), GivenLogits(torch.zeros(400, 2, 3, 5)))
    x = torch.randint(5, (400, 2, 3), generator=torch.Generator().manual_seed(0))
    given: dict[str, Any] = {"observed": None, "condition": None}

    def step(x: torch.Tensor) -> torch.Tensor:
        return gibbs_step(reverse, x, 0.5, 2, "random", **given, generator=torch.Generator().manual_seed(1))[0]

    assert torch.equal(step(x.mT.contiguous().mT), step(x))
    assert not torch.equal(step(x), x)


def test_repeated_steps_lead_to_the_marginal() -> None:
    reverse, law = exact("gaussian")
    there, now = marginal(reverse, law, 0.3), prior(reverse, 2)
    for _ in range(80):
        now = push_gibbs(reverse, now, 0.3)
    assert total_variation(now, there) < 1e-6


@pytest.mark.parametrize(
    ("name", "options"),
    [("uniform", {}), ("absorbing", {"sites": 2}), ("birth/death", {"selection": "margin"}), ("rank one by site", {})],
)
def test_samples_have_the_pushed_law(name: str, options: Any) -> None:
    reverse, _ = exact(name)
    sampler = WithCorrector(Ancestral(), steps=2, start=0.7, kind="gibbs", **options)
    grid = [1.0, 0.8, 0.4]
    expected = pushforward_grid(sampler, reverse, prior(reverse, 2), grid)
    found = sample(reverse, sampler, (4000, 2), grid=grid, final="none", generator=torch.Generator().manual_seed(0))
    assert_drawn_from(counts(found.x0, expected), expected.reshape(-1))
    if name == "birth/death":
        assert found.info.evaluations == 1 + 1 + 2  # the first step ends above the start of the correctors
    else:  # the rows without a masked site that moves, or without a candidate, are not evaluated by the ancestral steps
        assert 2 < found.info.evaluations < 4


def test_redrawn_sites_and_observed_sites() -> None:
    """Exactly k free sites are redrawn, all where fewer are free, and an observed site never."""
    process = Uniform(50, Constant(5.0))
    reverse = ReverseProcess(process, tl.denoise.NetworkDenoiser(tl.network.ResidualMLP(50, (6,))))
    x = torch.zeros(300, 6, dtype=torch.int64)
    mask = torch.arange(6) < torch.tensor([0, 5, 6]).repeat(100)[:, None]
    sampler = WithCorrector(TauLeaping(), steps=1, kind="gibbs", sites=2)
    from tauleap.sampling.gibbs import gibbs_step

    out, info = gibbs_step(
        reverse, x, 1.0, 2, "random", observed=Observed(mask, x), condition=None, generator=torch.Generator()
    )
    changed = (out != x).sum(1).reshape(-1, 3)
    assert changed.amax(0).tolist() == [2, 1, 0]
    assert not bool((out != x)[mask].any())
    assert float(info.evaluations) == 1
    assert sampler.sites == 2


@pytest.mark.parametrize(
    ("process", "options", "message"),
    [
        (Absorbing(3, Constant(1.0)), {"selection": "margin"}, "write selection='random'"),
        (of_every_kind()["absorbing as a matrix"], {}, "kind='gibbs' needs a process .* Dense .* write kind='rates'"),
        (
            Dense(two_islands(), Constant(1.0), prior=torch.tensor([0.5, 0.25, 0.125, 0.125])),
            {},
            "its kernel has zeros, .*; write kind='rates'",
        ),
    ],
)
def test_kernels_with_zeros_are_refused(process: Any, options: Any, message: str) -> None:
    law = torch.where(process.data_states, 1.0, 0.0).double()
    reverse = ReverseProcess(process, ExactDenoiser(law / law.sum(), process))
    with pytest.raises(ValueError, match=message):
        sample(reverse, WithCorrector(Ancestral(), 1, kind="gibbs", **options), (2, 1), grid=[1.0, 0.5])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "metropolis"}, "kind must be 'rates' or 'gibbs', got 'metropolis'"),
        ({"kind": "gibbs", "sites": 0}, "sites must be a whole number >= 1"),
        ({"kind": "gibbs", "selection": "best"}, "selection must be 'random' or 'margin', got 'best'"),
        ({"kind": "gibbs", "scale": 2.0}, "scale and multiple_jumps need kind='rates'"),
        ({"kind": "gibbs", "multiple_jumps": "last"}, "scale and multiple_jumps need kind='rates'"),
        ({"sites": 2}, "sites and selection need kind='gibbs', got kind='rates': write kind='gibbs'"),
        ({"selection": "margin"}, "sites and selection need kind='gibbs'"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_settings(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WithCorrector(Ancestral(), 1, **options)


def test_more_sites_than_there_are() -> None:
    reverse, law = correlated("uniform", 2)
    x = draws(law, 3, torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="sites must be at most the number of sites of a sample, 2, got 3"):
        WithCorrector(Ancestral(), 1, kind="gibbs", sites=3).step(reverse, x, 0.5, 0.4)


def test_names() -> None:
    sampler = WithCorrector(Ancestral(), 2, start=0.3, kind="gibbs", sites=4, selection="margin")
    text = "WithCorrector(Ancestral(), steps=2, start=0.3, kind='gibbs', sites=4, selection='margin')"
    assert repr(sampler) == text
    assert repr(eval(text)) == text
