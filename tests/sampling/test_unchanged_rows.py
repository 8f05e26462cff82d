"""Networks that do not take t are not evaluated again for rows that have not changed."""

import pytest
import torch
from torch import Tensor, nn

from tauleap import Observed, ReverseProcess
from tauleap.denoise import Guided, NetworkDenoiser, TruncatedLogistic
from tauleap.denoise import denoiser as denoiser_file
from tauleap.denoise.memory import RowMemory, keys_of, remembering
from tauleap.noise import Absorbing, BirthDeath, Constant, ForwardProcess, LogLinear, Uniform
from tauleap.sampling import (
    Ancestral,
    FirstJump,
    NextReaction,
    Sampler,
    TauLeaping,
    WithCorrector,
    sample,
    uniform_grid,
)

STATES, SITES, ROWS, MASK = 5, 4, 20, 4
PROCESSES: dict[str, ForwardProcess] = {
    "uniform": Uniform(STATES, Constant(0.5)),
    "birth/death": BirthDeath(STATES, Constant(3.0)),
    "absorbing": Absorbing(STATES, LogLinear()),
}


class Counting(nn.Module):
    """A network without t that counts its rows."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.output = nn.Embedding(STATES, 6), nn.Linear(6, STATES)
        self.rows = 0

    def forward(self, x: Tensor, *, observed: Tensor | None = None, condition: Tensor | None = None) -> Tensor:
        self.rows += len(x)
        hidden = self.table(x).cumsum(1) + self.table(x).mean(1, keepdim=True)
        if observed is not None:
            hidden = hidden + observed[..., None]
        if condition is not None:
            hidden = hidden * (1 + condition[:, None, None])
        return self.output(hidden)


class Split(Counting):
    def forward(
        self,
        x: Tensor,
        *,
        observed: Tensor | None = None,
        condition: Tensor | None = None,
        return_hidden: bool = False,
    ) -> Tensor:
        self.rows += len(x)
        hidden = self.table(x).cumsum(1) + self.table(x).mean(1, keepdim=True)
        return hidden if return_hidden else self.head(hidden, x)

    def head(self, hidden: Tensor, x: Tensor) -> Tensor:
        return self.output(hidden)


class WithTime(Counting):
    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return super().forward(x)


def drawn(network: Counting, process: ForwardProcess, sampler: Sampler, steps: int = 20, **named: object):
    reverse = ReverseProcess(process, NetworkDenoiser(network))
    grid, generator = uniform_grid(steps, end=0.01), torch.Generator().manual_seed(1)
    return sample(reverse, sampler, (ROWS, SITES), grid=grid, generator=generator, **named)  # pyright: ignore


@pytest.mark.parametrize(
    ("name", "sampler", "kind"),
    [
        ("uniform", Ancestral(), Split),
        ("uniform", FirstJump(), Counting),
        ("birth/death", TauLeaping(), Split),
        ("birth/death", NextReaction(step=0.2), Counting),
        ("absorbing", WithCorrector(Ancestral(), 1), Split),
        ("absorbing", TauLeaping("last"), Counting),
    ],
    ids=str,
)
def test_samples_are_the_same_and_evaluations_are_counted(
    name: str, sampler: Sampler, kind: type[Counting], monkeypatch: pytest.MonkeyPatch
) -> None:
    process, networks = PROCESSES[name], [kind().double().eval(), kind().double().eval()]
    ours = drawn(networks[0], process, sampler)
    monkeypatch.setattr(denoiser_file, "current_memory", lambda: None)
    every = drawn(networks[1], process, sampler)
    assert torch.equal(ours.x0, every.x0)
    assert ours.info.evaluations == pytest.approx(networks[0].rows / ROWS, rel=1e-5)
    assert every.info.evaluations == pytest.approx(networks[1].rows / ROWS, rel=1e-5)
    assert networks[0].rows < networks[1].rows


@pytest.mark.parametrize(("steps", "kind"), [(2, Split), (30, Counting)])
def test_absorbing_noise_has_at_most_one_evaluation_per_site_and_per_step(kind: type[Counting], steps: int) -> None:
    """The last one fills what is left."""
    network = kind().eval()
    found = drawn(network, PROCESSES["absorbing"], Ancestral(), steps, final="sample", trace=[1.0, 0.01])
    assert network.rows / ROWS <= min(steps + 1, SITES) + 1  # and one for the trace of the last states
    found = drawn(network, PROCESSES["absorbing"], Ancestral(), steps, final="sample")
    assert found.info.evaluations <= min(steps + 1, SITES)


def test_rows_with_another_condition_or_observed_sites_are_other_rows() -> None:
    network = Counting().eval()
    denoiser = NetworkDenoiser(network)
    x, condition = torch.zeros(4, SITES, dtype=torch.int64), torch.tensor([0, 1, 0, 1])
    mask = torch.zeros_like(x, dtype=torch.bool)
    mask[2:, 0] = True
    observed = Observed(mask, x)
    with torch.no_grad():
        expected = denoiser(x, 0.5, condition=condition, observed=observed).logits
        with remembering() as memory:
            for _ in range(3):
                found = denoiser(x, 0.5, condition=condition, observed=observed).logits
                torch.testing.assert_close(found, expected)
            assert (memory.evaluated, memory.requested) == (4, 12)
            torch.testing.assert_close(
                denoiser(
                    x[[3, 0, 3]], 0.5, condition=condition[[3, 0, 3]], observed=Observed(mask[[3, 0, 3]], x[:3])
                ).logits,
                expected[[3, 0, 3]],
            )
            assert memory.evaluated == 4


def test_both_predictions_of_guidance_are_remembered() -> None:
    network = Counting().eval()
    denoiser = Guided(NetworkDenoiser(network), 2.0, null_label=0)
    x, condition = torch.randint(STATES, (6, SITES), generator=torch.Generator().manual_seed(0)), torch.ones(6)
    with torch.no_grad():
        expected = denoiser(x, 0.5, condition=condition.long()).logits
        network.rows = 0
        with remembering():
            for rows in (slice(0, 6), slice(2, 4), slice(0, 6)):
                found = denoiser(x[rows], 0.5, condition=condition[rows].long()).logits
                torch.testing.assert_close(found, expected[rows])
    assert network.rows == 12


def test_equal_rows_of_a_batch_are_evaluated_once() -> None:
    network, x = Counting().eval(), torch.full((50, SITES), MASK)
    with torch.no_grad(), remembering():
        found = NetworkDenoiser(network)(x, 0.5).logits
        assert network.rows == 1
        torch.testing.assert_close(found, network(x))


@pytest.mark.parametrize("reason", ["t", "training", "gradients"])
def test_other_networks_are_evaluated_each_time(reason: str) -> None:
    network = (WithTime if reason == "t" else Counting)().train(reason == "training")
    x = torch.zeros(3, SITES, dtype=torch.int64)
    with torch.set_grad_enabled(reason == "gradients"), remembering() as memory:
        for _ in range(2):
            NetworkDenoiser(network)(x, 0.5)
    assert (network.rows, memory.requested) == (6, 0)


def test_outputs_of_a_wrong_shape_are_refused() -> None:
    class Wrong(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.zeros(1, STATES)

    x = torch.arange(3)[:, None].expand(3, SITES)
    for denoiser in (NetworkDenoiser(Wrong().eval()), TruncatedLogistic(Wrong().eval(), STATES)):
        with torch.no_grad(), remembering(), pytest.raises(ValueError, match="the network must return a tensor of"):
            denoiser(x, 0.5)


def test_the_memory_holds_the_rows_of_two_calls() -> None:
    memory = RowMemory()
    for call in range(9):
        x = torch.arange(6 * call, 6 * call + 6)[:, None]
        memory.outputs(keys_of(x, None, None), lambda rows: torch.zeros(6 if rows is None else len(rows), 2))
    assert len(memory._known) == 12
