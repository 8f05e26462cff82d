"""Text vocabularies: rank-one processes need no matrix, and absorbing noise only the logits of few sites.

Losses and steps of absorbing noise are compared with computing all logits, on 4 x 64 sites of which half are masked. A
tenth of the masked sites move in a step.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks import FixedLogits, Row, benchmark, mdlm, peak_memory, side_by_side
from tauleap import ReverseProcess
from tauleap.denoise import NetworkDenoiser
from tauleap.noise import Absorbing, Constant, LogLinear, Uniform
from tauleap.objective import CompleteElbo
from tauleap.sampling import Ancestral

_STATES, _MASK = 50_258, 50_257
_SHAPE, _WIDTH = (4, 64), 768
_T, _S = 0.5, 0.45  # of log-linear noise: half of the sites are masked, and a tenth of these move


class HeadOnly(nn.Module):
    """Hold hidden states of each site, and an output layer."""

    def __init__(self, width: int = _WIDTH, states: int = _STATES) -> None:
        super().__init__()
        self.hidden = nn.Parameter(torch.randn(*_SHAPE, width))
        self.output = nn.Linear(width, states, bias=False)

    def forward(self, x: Tensor, *, return_hidden: bool = False) -> Tensor:
        hidden = self.hidden[: len(x)]
        return hidden if return_hidden else self.head(hidden, x)

    def head(self, hidden: Tensor, x: Tensor) -> Tensor:
        return self.output(hidden)


def half_masked(x0: Tensor, mask: int = _MASK) -> Tensor:
    """Return x0 with the mask at every other site."""
    x = x0.clone()
    x[:, ::2] = mask
    return x


@benchmark
def text() -> Iterator[Row]:
    size = 50_257
    logits = torch.randn(4, 128, size)
    x0 = torch.randint(size - 1, (4, 128))
    times = {"one time": 0.5, "one time per sample": torch.tensor([0.1, 0.4, 0.7, 1.0])}
    for process in (Uniform(size, Constant(3 / size)), Absorbing(size, LogLinear())):
        reverse = ReverseProcess(process, FixedLogits(logits))
        for when, t in times.items():
            name = f"{type(process).__name__.lower()}, {when}"

            def noise_and_rates() -> Tensor:
                return reverse.rates(process.noise(x0, t), t)  # noqa: B023

            ours, softmax = side_by_side(noise_and_rates, lambda: logits.softmax(-1))
            yield Row(f"{name}: noising and rates", ours / softmax, "softmaxes", at_most=8)
            peak = peak_memory(noise_and_rates) / logits.nbytes
            yield Row(f"{name}: peak beyond the logits", peak, "x logits", at_most=4)


@benchmark
def fixed_logits() -> Iterator[Row]:
    """Loss and step where the logits cost nothing."""
    logits = torch.randn(*_SHAPE, _STATES, requires_grad=True)
    x0 = torch.randint(_MASK, _SHAPE)
    process = Absorbing(_STATES, LogLinear())
    reverse, generator = ReverseProcess(process, FixedLogits(logits)), torch.Generator().manual_seed(0)
    noisy = half_masked(x0)

    def loss() -> None:
        logits.grad = None
        CompleteElbo()(reverse, x0, t=_T, generator=generator).mean().backward()

    def plain_loss() -> None:
        logits.grad = None
        cross_entropy(logits.flatten(0, 1), x0.flatten()).backward()

    def published_loss() -> None:
        logits.grad = None
        mdlm.loss(logits, noisy, x0, _MASK, 2.0).backward()

    ours, plain = side_by_side(loss, plain_loss)
    yield Row("absorbing loss against cross entropy of all sites", ours / plain, "x", at_most=0.5)
    ours, plain = side_by_side(loss, published_loss)
    yield Row("absorbing loss against MDLM's", plain / ours, "x faster", at_least=5)

    fixed = logits.detach()
    reverse = ReverseProcess(process, FixedLogits(fixed))

    @torch.no_grad()
    def step() -> None:
        Ancestral().step(reverse, noisy, _T, _S, generator=generator)

    @torch.no_grad()
    def published_step() -> None:
        mdlm.step(fixed, noisy, _MASK, _T, _S)

    ours, softmax = side_by_side(step, lambda: fixed.softmax(-1))
    yield Row("absorbing step in softmaxes of all logits", ours / softmax, "softmaxes", at_most=0.15)
    ours, plain = side_by_side(step, published_step)
    yield Row("absorbing step against MDLM's", plain / ours, "x faster", at_least=50)


@benchmark
def output_layer() -> Iterator[Row]:
    """Loss and step with an output layer from 768 numbers per site to 50,258 logits."""
    network = HeadOnly()
    x0 = torch.randint(_MASK, _SHAPE)
    process = Absorbing(_STATES, LogLinear())
    reverse, generator = ReverseProcess(process, NetworkDenoiser(network)), torch.Generator().manual_seed(0)
    noisy = half_masked(x0)

    @torch.no_grad()
    def step() -> None:
        Ancestral().step(reverse, noisy, _T, _S, generator=generator)

    @torch.no_grad()
    def all_logits() -> None:
        network(noisy)

    ours, plain = side_by_side(step, all_logits)
    yield Row("step with head 768 -> S against all logits", ours / plain, "x", at_most=0.25)

    def loss() -> None:
        network.zero_grad()
        CompleteElbo()(reverse, x0, t=_T, generator=generator).mean().backward()

    def plain_loss() -> None:
        network.zero_grad()
        cross_entropy(network(noisy).flatten(0, 1), x0.flatten()).backward()

    ours, plain = side_by_side(loss, plain_loss)
    yield Row("head and loss against head and cross entropy of all sites", ours / plain, "x", at_most=0.6)
    network.zero_grad()
    weights = sum(weight.nbytes for weight in network.parameters())
    evaluated = noisy.numel() // 2 * _STATES * 4
    peak = (peak_memory(loss) - weights) / evaluated  # the gradients are as large as the weights
    yield Row("peak of training beyond weights and their gradients", peak, "x evaluated logits", at_most=4)
