"""Nothing depends on the memory layout of what is given: permuted, strided and expanded tensors are as good as others.

The samplers and objectives are covered by their contract suites; here is everything else.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import tauleap as tl
from tauleap.evaluate import moments
from tauleap.sampling.corrector import run_corrector
from tauleap.testing.cases import of_every_kind
from tauleap.testing.layouts import LAYOUTS

SHAPE = (12, 3, 2)
KINDS = {name: kind for name, kind in of_every_kind().items() if kind.prior().ndim == 1}


def states(process: tl.noise.ForwardProcess) -> Tensor:
    """Data states of ``process`` for 3 x 2 sites: axes that no view makes one of when they are permuted."""
    allowed = process.data_states.nonzero().flatten()
    return allowed[torch.randint(len(allowed), SHAPE, generator=torch.Generator().manual_seed(0))]


class Permuted(nn.Module):
    """Logits that depend on the states, returned as a permuted view, as networks of pictures return them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        table = torch.randn(6, width, generator=torch.Generator().manual_seed(3))
        self.table = nn.Parameter(table)
        self.contiguous = False

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        logits = self.table[x] + self.table[x.flip(1)] * t.reshape(-1, *(1,) * x.ndim)
        return logits if self.contiguous else logits.movedim(-1, 1).contiguous().movedim(1, -1)


def reversals(process: tl.noise.ForwardProcess) -> tl.ReverseProcess:
    return tl.ReverseProcess(process, tl.denoise.NetworkDenoiser(Permuted(process.num_states)))


METHODS: dict[str, Callable[[tl.ReverseProcess, Tensor, Tensor], object]] = {
    "rates_from": lambda r, x0, x: r.process.rates_from(x, 0.4),
    "rates_into": lambda r, x0, x: r.process.rates_into(x, 0.4),
    "kernel_from": lambda r, x0, x: r.process.kernel_from(x0, 0.4),
    "kernel_into": lambda r, x0, x: r.process.kernel_into(x, 0.4),
    "forward exit rate": lambda r, x0, x: r.process.exit_rate(x, 0.4),
    "noise": lambda r, x0, x: r.process.noise(x0, 0.4, generator=torch.Generator().manual_seed(1)),
    "posterior": lambda r, x0, x: r.posterior(x, 0.4).logits,
    "ratios": lambda r, x0, x: r.ratios(x, 0.4),
    "rates": lambda r, x0, x: r.rates(x, 0.4),
    "corrector rates": lambda r, x0, x: r.corrector_rates(x, 0.4),
    "exit rate": lambda r, x0, x: r.exit_rate(x, 0.4),
    "step probabilities": lambda r, x0, x: r.step_probs(x, 0.4, 0.2),
    "step": lambda r, x0, x: r.draw_step(x, 0.4, 0.2, generator=torch.Generator().manual_seed(1)),
    "conditional rates": lambda r, x0, x: r.conditional_rates(x0, x, 0.4),
    "divergence": lambda r, x0, x: r.divergence(x0, x, 0.4),
    "step divergence": lambda r, x0, x: r.at(x, 0.4).step_divergence(x0, 0.2),
    "corrector": lambda r, x0, x: run_corrector(
        r, x, 0.4, steps=2, step=0.1, generator=torch.Generator().manual_seed(1)
    )[0],
    "exact corrector": lambda r, x0, x: run_corrector(
        r, x, 0.4, steps=2, step=0.1, exact=True, generator=torch.Generator().manual_seed(1)
    )[0],
    "bits per dim": lambda r, x0, x: (
        tl.evaluate.bits_per_dim(r, x0, samples=2, per_datapoint=True, generator=torch.Generator().manual_seed(1)).value
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_methods(kind: str, layout: str) -> None:
    process, change = KINDS[kind], LAYOUTS[layout]
    reverse, x0 = reversals(process), change(states(process))
    x = change(process.noise(x0.contiguous(), 0.4, generator=torch.Generator().manual_seed(2)))
    # A state that the expanded noise could not have come from would have no conditional rates.
    x = x if layout != "expanded" else x0
    for name, method in METHODS.items():
        with torch.no_grad():
            found, plain = method(reverse, x0, x), method(reverse, x0.contiguous(), x.contiguous())
        assert_close(found, plain, rtol=0, atol=0, equal_nan=True, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_weights_that_are_propagated(layout: str) -> None:
    w = LAYOUTS[layout](torch.rand(5, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    for process in KINDS.values():
        assert_close(process.propagate(w, 0.5), process.propagate(w.contiguous(), 0.5), rtol=1e-15, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_logits_returned_as_a_permuted_view(kind: str) -> None:
    process = KINDS[kind]
    x0 = states(process)
    for denoiser in (tl.denoise.NetworkDenoiser(Permuted(4)), tl.denoise.TruncatedLogistic(Permuted(2), 4)):
        reverse, results = tl.ReverseProcess(process, denoiser), []
        for contiguous in (True, False):
            denoiser.network.contiguous = contiguous
            seed = torch.Generator().manual_seed(7)
            drawn = tl.sample(
                reverse,
                tl.sampling.Ancestral(),
                SHAPE,
                grid=tl.sampling.uniform_grid(3),
                final="sample",
                generator=seed,
            )
            loss = tl.objective.CompleteElbo(reconstruction=True)(reverse, x0, generator=seed)
            loss.mean().backward()
            results.append((drawn.x0, loss.value.detach(), denoiser.network.table.grad))
            denoiser.network.table.grad = None
        for found, plain in zip(*results, strict=True):
            assert_close(found, plain, rtol=1e-6, atol=1e-6)


METRICS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "hellinger": lambda x, y: tl.evaluate.hellinger(x, y).value,
    "hellinger to a law": lambda x, y: tl.evaluate.hellinger(x, torch.full((3, 3, 3, 3), 1 / 81)).value,
    "row hellinger": tl.evaluate.row_hellinger,
    "row outliers": tl.evaluate.row_outliers,
    "moments": lambda x, y: moments.Moments.of(x[:, 0].double()).covariance,
    "frechet": lambda x, y: tl.evaluate.frechet_distance(x[:, 0].double(), y[:, 0].double()).value,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("metric", METRICS)
def test_metrics(metric: str, layout: str) -> None:
    x, y = (LAYOUTS[layout](x) for x in torch.randint(3, (2, 40, 2, 2), generator=torch.Generator().manual_seed(0)))
    found, plain = METRICS[metric](x, y), METRICS[metric](x.contiguous(), y.contiguous())
    assert_close(found, plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_exact_likelihood(layout: str) -> None:
    process = tl.noise.Uniform(3, tl.noise.Constant(1.0))
    reverse = tl.ReverseProcess(process, tl.denoise.ExactDenoiser(torch.full((3, 3), 1 / 9), process))
    x = LAYOUTS[layout](torch.randint(3, (5, 2), generator=torch.Generator().manual_seed(0)))
    values = tl.evaluate.exact_log_likelihood(reverse, x)
    assert torch.equal(values, tl.evaluate.exact_log_likelihood(reverse, x.contiguous()))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_to_fit_and_to_complete(layout: str) -> None:
    """NHWC to NCHW is enough to have a permuted array."""
    model = tl.load("toy")
    x = LAYOUTS[layout](tl.data.tau_points(6))
    mask = LAYOUTS[layout](torch.tensor([[True, False]]).repeat(6, 1))
    found, plain = (
        model.complete(rows, observed=given, steps=3, seed=0)
        for rows, given in ((x, mask), (x.contiguous(), mask.contiguous()))
    )
    assert torch.equal(torch.as_tensor(found), torch.as_tensor(plain))
