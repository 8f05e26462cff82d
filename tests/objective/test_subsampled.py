"""An objective on a part of the sites, at shared times: the same mean, and the same number if nothing is left out."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tauleap import Observed, ReverseProcess
from tauleap._draw import PartOfBatch
from tauleap.denoise import Posterior
from tauleap.denoise.truncated_logistic import LogisticParameters
from tauleap.noise import BirthDeath, Constant, RankOne, Uniform
from tauleap.objective import (
    CompleteElbo,
    CrossEntropy,
    DiscreteTimeElbo,
    LogUniformTimes,
    Loss,
    LossBatch,
    NoisedBatch,
    Objective,
    PaperElbo,
    Subsampled,
)
from tauleap.objective.subsampled import SiteSubset
from tauleap.testing.paths import TableDenoiser

OBJECTIVES = (
    CompleteElbo(),
    CompleteElbo(reconstruction=True, times=LogUniformTimes(0.05)),
    DiscreteTimeElbo(5) + 0.1 * CrossEntropy("mean"),
)
PROCESSES = (Uniform(3, Constant(0.8)), BirthDeath(3, Constant(2.0)))


def reverse(process) -> ReverseProcess:
    return ReverseProcess(process, TableDenoiser.random(process.num_states, 4, dtype=torch.float64))


def data(batch: int) -> Tensor:
    return torch.randint(3, (batch, 2, 2), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: type(process).__name__)
class TestMean:
    def test_all_sites_and_a_time_each_is_the_objective_itself(self, objective: Objective, process) -> None:
        both = [
            each(reverse(process), data(6), generator=torch.Generator().manual_seed(1)).value
            for each in (objective, Subsampled(objective))
        ]
        assert_close(*both, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("hidden", ["nothing", "observed", "missing"])
    def test_the_mean_over_all_parts_is_the_whole(
        self, objective: Objective, process, hidden: str, monkeypatch
    ) -> None:
        """The parts of half of four sites are six; the noise is the same in all of them."""
        mask = torch.rand(6, 2, 2, generator=torch.Generator().manual_seed(3)) < 0.6
        mask[:, 1, 0] = False
        orders = [torch.tensor(order) for order in ([0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3])]
        whole = NoisedBatch(
            reverse(process),
            data(6),
            objective.times or CompleteElbo().times or LogUniformTimes(0.01),
            objective.needs or frozenset({"x_t"}),
            samples_per_time=3,
            observed=Observed(mask, data(6)) if hidden == "observed" else None,
            missing=mask if hidden == "missing" else None,
            generator=torch.Generator().manual_seed(1),
        )
        _ = whole.x_t, whole.x_eps
        values = []
        for order in orders:
            monkeypatch.setattr("tauleap.objective.subsampled._random_sites", lambda *_, order=order: order)
            values.append(objective.evaluate(SiteSubset(whole, 0.5)).value)
        expected = objective.evaluate(whole).value
        assert_close(torch.stack(values).mean(0), expected, rtol=1e-12, atol=1e-12)
        assert max((value - expected).abs().max() for value in values) > 1e-3

    def test_the_mean_over_draws_is_that_of_the_objective(self, objective: Objective, process) -> None:
        """Means over 200 batches of 40, 4.5 standard errors apart at most: a chance of 7e-6 a case."""
        rows, batches = data(1).expand(40, 2, 2).contiguous(), []
        for number, each in enumerate((objective, Subsampled(objective, site_fraction=0.5, samples_per_time=4))):
            generator = torch.Generator().manual_seed(number)
            batches.append(torch.stack([each(reverse(process), rows, generator=generator).mean() for _ in range(200)]))
        whole, part = (means.detach() for means in batches)
        assert (whole.mean() - part.mean()).abs() < 4.5 * ((whole.var() + part.var()) / 200).sqrt()


def test_shared_times_are_shared() -> None:
    seen = []

    class Watching(TableDenoiser):
        def forward(self, x_t, t, *, observed=None, condition=None) -> Posterior:
            seen.append(t)
            return super().forward(x_t, t, observed=observed, condition=condition)

    process = PROCESSES[0]
    table = TableDenoiser.random(3, 4, dtype=torch.float64).table.detach()
    for batch, share, distinct in ((8, 4, 2), (6, 4, 3), (7, 4, 7)):
        Subsampled(CompleteElbo(), samples_per_time=share)(ReverseProcess(process, Watching(table)), data(batch))
        assert len(set(seen.pop().tolist())) == distinct


def test_kernels_of_shared_times_are_made_once(monkeypatch) -> None:
    process, requested = BirthDeath(3, Constant(2.0)), []
    make = BirthDeath.kernel
    monkeypatch.setattr(BirthDeath, "kernel", lambda self, t, *more: requested.append(t) or make(self, t, *more))
    Subsampled(CompleteElbo(), site_fraction=0.5, samples_per_time=4)(reverse(process), data(8))
    assert [len(t) for t in requested if isinstance(t, Tensor)] == [2]


def test_any_number_of_pieces_of_a_batch_gives_one_loss() -> None:
    objective, found = Subsampled(CompleteElbo(), site_fraction=0.5, samples_per_time=2), []
    for pieces in (1, 2, 4):
        parts = []
        for piece, rows in enumerate(data(8).split(8 // pieces)):
            generator = PartOfBatch(piece, pieces, "cpu")
            generator.manual_seed(4)
            parts.append(objective(reverse(PROCESSES[1]), rows, generator=generator).value)
        found.append(torch.cat(parts))
    assert_close(found[1], found[0], rtol=1e-12, atol=1e-12)
    assert_close(found[2], found[0], rtol=1e-12, atol=1e-12)


def test_added_objectives_look_at_the_same_sites() -> None:
    elbo, cross_entropy = (
        Subsampled(each, site_fraction=0.5, samples_per_time=2) for each in (CompleteElbo(), CrossEntropy())
    )
    both = elbo + cross_entropy
    one = Subsampled(CompleteElbo() + CrossEntropy(), site_fraction=0.5, samples_per_time=2)
    values = [
        each(reverse(PROCESSES[1]), data(6), generator=torch.Generator().manual_seed(2)).value for each in (both, one)
    ]
    assert_close(*values, rtol=1e-12, atol=1e-12)


def test_an_objective_that_is_whole_may_be_added() -> None:
    mixed = Subsampled(CompleteElbo(), samples_per_time=2) + CrossEntropy()
    one = Subsampled(CompleteElbo() + CrossEntropy(), samples_per_time=2)
    for process in PROCESSES:
        values = [
            each(reverse(process), data(6), generator=torch.Generator().manual_seed(2)).value for each in (mixed, one)
        ]
        assert_close(*values, rtol=1e-12, atol=1e-12)


def test_a_logistic_has_logits_only_where_they_are_looked_at() -> None:
    mean, log_scale = torch.linspace(-1.2, 1.2, 8).view(2, 4), torch.linspace(-5, 0, 8).view(2, 4)
    posterior = LogisticParameters(mean, log_scale, 7)
    some = posterior.rearranged(lambda values: values[:, [2, 0]])
    assert posterior.shape == (2, 4, 7)
    assert posterior._logits is None
    assert torch.equal(some.logits, posterior.logits[:, [2, 0]])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Subsampled(PaperElbo(passes=1)), "take CompleteElbo"),
        (lambda: Subsampled(CompleteElbo(), site_fraction=1.5), "a fraction of the sites"),
        (lambda: Subsampled(CompleteElbo(), site_fraction=0.0), "site_fraction"),
        (lambda: Subsampled(CompleteElbo(), samples_per_time=0), "samples_per_time"),
        (lambda: Subsampled(CrossEntropy() + Subsampled(CompleteElbo())), "write Subsampled once"),
        (
            lambda: Subsampled(CompleteElbo(), samples_per_time=2) + Subsampled(CrossEntropy(), samples_per_time=3),
            "samples_per_time=2 and samples_per_time=3: give all the same",
        ),
    ],
)
def test_impossible_values_raise(make, said) -> None:
    with pytest.raises(ValueError, match=said):
        make()


@pytest.mark.parametrize(
    "objective", [Subsampled(CompleteElbo()), CompleteElbo() + Subsampled(CompleteElbo(), samples_per_time=2)]
)
def test_sites_with_different_distributions_raise(objective: Objective) -> None:
    laws = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]]).repeat(2, 1).view(2, 2, 3)
    with pytest.raises(ValueError, match="different priors"):
        objective(reverse(RankOne(laws, Constant(2.0))), data(4))


def test_a_user_objective_gets_the_subset_of_sites() -> None:
    class Changed(Objective):
        def evaluate(self, draw: LossBatch) -> Loss:
            assert draw.x_t.shape == draw.x0.shape == (2, 6)
            value = draw.sum((draw.x_t != draw.x0).double())
            return Loss(value, {"changed": value})

    loss = Subsampled(Changed(), site_fraction=0.75, samples_per_time=2)(reverse(PROCESSES[0]), data(4))
    assert loss.value.shape == (4,)


def test_evaluation_without_gradients_does_not_disable_them() -> None:
    mean, log_scale = torch.zeros(2, 3, requires_grad=True), torch.zeros(2, 3)
    posterior = LogisticParameters(mean, log_scale, 5)
    with torch.no_grad():
        assert not posterior.logits.requires_grad
    assert posterior.logits.requires_grad
    assert posterior.logits is posterior.logits
