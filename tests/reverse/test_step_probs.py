"""p(x_s | x_t): the kernel of ancestral sampling and of the discrete-time bound, against its definition."""

import pytest
import torch
from torch import Tensor

from tauleap import Observed, ReverseProcess
from tauleap.denoise import Denoiser, ExactDenoiser, Posterior
from tauleap.noise import Constant, ForwardProcess, Uniform
from tauleap.testing.cases import of_every_kind

SIZE = 4


class Says(Denoiser):
    """Returns the same logits for every input."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, x_t, t, *, observed=None, condition=None):
        return Posterior(self.logits)


def kernel_matrices(process: ForwardProcess, t: float, s: float) -> Tensor:
    """q_t|s as matrices, (D, S, S), for D = 2 sites."""
    states = torch.arange(SIZE)[:, None].expand(-1, 2)
    return process.kernel_from(states, t, s, dtype=torch.float64).movedim(0, 1)


@pytest.mark.parametrize("name", of_every_kind())
@pytest.mark.parametrize(("t", "s"), [(0.9, 0.4), (0.5, 0.5), (0.3, 0.0), (1.0, 0.999)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_is_its_definition(name: str, t: float, s: float, dtype: torch.dtype) -> None:
    process = of_every_kind()[name]
    x = torch.cartesian_prod(torch.arange(SIZE), torch.arange(SIZE))
    logits = torch.randn(len(x), 2, SIZE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    reverse = ReverseProcess(process, Says(logits.to(dtype)))
    found = reverse.step_probs(x, t, s)
    assert found.dtype == dtype

    whole, early, late = (kernel_matrices(process, *times) for times in ((t, 0.0), (s, 0.0), (t, s)))
    sites = torch.arange(2)
    into = whole.mT[sites, x]
    allowed = (into > 0) & process.data_states
    can_be = allowed.any(-1)
    probs = logits.masked_fill(~allowed, -torch.inf).softmax(-1)
    over = torch.where(into > 0, probs / into, 0.0)
    expected = torch.einsum("nds,dsv->ndv", over, early) * late.mT[sites, x]
    torch.testing.assert_close(expected.sum(-1)[can_be], can_be[can_be].double(), rtol=0, atol=1e-12)
    tolerance = 1e-13 if dtype == torch.float64 else 1e-6
    torch.testing.assert_close(found.double()[can_be], expected[can_be], rtol=0, atol=tolerance)


def test_one_time_a_sample_is_each_time_alone() -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randint(SIZE - 1, (3, 2), generator=generator)
    t, s = torch.tensor([0.9, 0.5, 0.2]), torch.tensor([0.8, 0.0, 0.2])
    logits = torch.randn(3, 2, SIZE, generator=generator)
    for process in of_every_kind().values():
        together = ReverseProcess(process, Says(logits)).step_probs(x, t, s)
        for i in range(3):
            alone = ReverseProcess(process, Says(logits[i : i + 1])).step_probs(x[i : i + 1], float(t[i]), float(s[i]))
            torch.testing.assert_close(together[i : i + 1], alone)


def test_exact_posterior_gives_the_true_kernel_of_one_site() -> None:
    """For D = 1 and the exact posterior it is Bayes' rule: q(x_s | x_t) = q_s(x_s) q_t|s(x_t | x_s) / q_t(x_t)."""
    law = torch.tensor([0.5, 0.1, 0.3, 0.1], dtype=torch.float64)
    process = Uniform(SIZE, Constant(0.4))
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    x = torch.arange(SIZE)[:, None]
    t, s = 0.8, 0.5
    found = reverse.step_probs(x, t, s)[:, 0]
    q_s = process.propagate(law[None], s)[0]
    joint = q_s[:, None] * process.kernel_from(x, t, s, dtype=torch.float64)[:, 0]
    torch.testing.assert_close(found, (joint / joint.sum(0)).mT)


def test_observed_sites_stay() -> None:
    process = Uniform(SIZE, Constant(0.4))
    reverse = ReverseProcess(process, Says(torch.zeros(1, 2, SIZE)))
    observed = Observed(torch.tensor([True, False]), torch.tensor([[3, 0]]))
    found = reverse.step_probs(torch.tensor([[0, 1]]), 0.8, 0.5, observed=observed)
    assert found[0, 0].tolist() == [0.0, 0.0, 0.0, 1.0]
    assert found[0, 1].min() > 0


def test_gradients_flow() -> None:
    def step(logits: Tensor, process: ForwardProcess) -> Tensor:
        return ReverseProcess(process, Says(logits)).step_probs(torch.tensor([[1, 2]]), 0.8, 0.5)

    logits = torch.randn(1, 2, SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    for name, process in of_every_kind().items():
        assert torch.autograd.gradcheck(step, (logits.requires_grad_(), process)), name


def test_a_later_time_raises() -> None:
    process = Uniform(SIZE, Constant(0.4))
    reverse = ReverseProcess(process, Says(torch.zeros(1, 2, SIZE)))
    with pytest.raises(ValueError, match="s must not be later than t"):
        reverse.step_probs(torch.tensor([[0, 1]]), 0.5, 0.8)
