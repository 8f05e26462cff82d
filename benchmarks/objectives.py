"""Losses at the shapes of the paper's experiments: forward and backward, kernel and noising included, no network.

The reference is L_eCT as published (Appendix C.4), the paper's training loss, in its factorised form with one dense
kernel per sample and entries selected by lists of indices. Every objective here computes more than that one: exact
kernels, and float64 where float32 underflows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.distributions import Categorical

from benchmarks import Row, benchmark, peak_memory, side_by_side
from benchmarks.paper import DenseRates, by_columns, by_lists
from tauleap import Observed, ReverseProcess
from tauleap.denoise import Denoiser, Posterior
from tauleap.noise import BirthDeath, Constant, Exponential, ForwardProcess, Gaussian, LogLinear, RankOne, Uniform
from tauleap.objective import CompleteElbo, CrossEntropy, DiscreteTimeElbo, Objective, PaperElbo


class RepeatedLogits(Denoiser):
    """Return ``logits`` (batch, *shape, S) for every batch of this size in the input."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(
        self, x_t: Tensor, t: float | Tensor, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        times = len(x_t) // len(self.logits)
        return Posterior(self.logits if times == 1 else torch.cat([self.logits] * times))


class PlainLoss(DenseRates):
    """L_eCT in the factorised form of Appendix C.3: one pass on x~ for both terms.

    As published, every quantity of the two terms and of the normaliser is selected in the matrices again, by slices
    or by lists with an index per entry, as in the authors' program. ``tidy`` selects each once, by slices.
    """

    def __init__(self, process: ForwardProcess, *, tidy: bool = False) -> None:
        super().__init__(process)
        self.tidy = tidy
        self.small = 1e-9  # added to denominators, as published

    def __call__(self, logits: Tensor, data: Tensor) -> Tensor:
        x0, logits = data.flatten(1), logits.flatten(1, -2)
        t = torch.rand(len(x0)) * 0.99 + 0.01
        kernels = self.kernels(t).clamp(min=0.0)
        forward = self.schedule.rate(t)[:, None, None] * self.generator
        x_tilde = self.states_after_jump(x0, kernels, forward)
        probs = logits.softmax(-1)
        elsewhere = torch.ones_like(probs).scatter(-1, x_tilde[..., None], 0.0)

        into = by_columns(forward, x_tilde)
        over = by_columns(kernels, x_tilde) + self.small
        outflow = (probs / over * ((elsewhere * into) @ kernels.mT)).sum((1, 2))

        from_x0 = by_columns(kernels.mT, x0) if self.tidy else by_lists(kernels.mT, x0)
        at_x_tilde = from_x0.gather(-1, x_tilde[..., None]) + self.small
        if not self.tidy:
            into, over = by_lists(forward, x_tilde), by_columns(kernels, x_tilde) + self.small
        inner = torch.log(probs / over @ kernels + self.small)
        signal = (elsewhere * into * (from_x0 / at_x_tilde) * inner).sum((1, 2))

        if not self.tidy:
            into, from_x0 = by_lists(forward, x_tilde), by_lists(kernels.mT, x0)
        exits = -forward.diagonal(dim1=-2, dim2=-1)
        jumping = exits.gather(-1, x_tilde)
        total = jumping.sum(-1)[:, None, None] - jumping[..., None] + exits[:, None, :]
        norm = (into * from_x0 * elsewhere / (total * at_x_tilde)).sum((1, 2))
        return (outflow - signal / norm).mean()

    def states_after_jump(self, x0: Tensor, kernels: Tensor, forward: Tensor) -> Tensor:
        """Return x~: noise, then one forward jump at a site that is sampled by its rate."""
        x = Categorical(by_columns(kernels.mT, x0)).sample()
        leaving = by_columns(forward.mT, x).scatter(-1, x[..., None], 0.0)
        each, site = torch.arange(len(x)), Categorical(leaving.sum(-1)).sample()
        x_tilde = x.clone()
        x_tilde[each, site] = Categorical(leaving[each, site]).sample()
        return x_tilde


def losses(
    process: ForwardProcess, x0: Tensor, logits: Tensor, objective: Objective
) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
    """Return functions that compute the gradient of the objective and of the plain loss in the logits."""
    reverse, plain = ReverseProcess(process, RepeatedLogits(logits)), PlainLoss(process)

    def ours() -> Tensor:
        return torch.autograd.grad(objective(reverse, x0).mean(), logits)[0]

    def theirs() -> Tensor:
        return torch.autograd.grad(plain(logits, x0), logits)[0]

    return ours, theirs


OBJECTIVES = {
    "CompleteElbo": CompleteElbo(),
    "CompleteElbo with reconstruction": CompleteElbo(reconstruction=True),
    "PaperElbo, 1 pass": PaperElbo(passes=1),
    "PaperElbo, 2 passes": PaperElbo(passes=2),
    "PaperElbo, 1 pass, + 0.001 CrossEntropy": PaperElbo(passes=1) + 0.001 * CrossEntropy(),
    "CrossEntropy": CrossEntropy(),
    "DiscreteTimeElbo": DiscreteTimeElbo(1000),
}


def compare(shapes: str, process: ForwardProcess, x0: Tensor, logits: Tensor, at_least: float | None) -> Iterator[Row]:
    for name, objective in OBJECTIVES.items():
        ours, theirs = losses(process, x0, logits, objective)
        our_time, their_time = side_by_side(ours, theirs, seconds=3.0, rounds=5)
        target = at_least if name == "CompleteElbo" else None
        yield Row(f"{shapes}, {name}", their_time / our_time, "x faster", at_least=target)
        if name == "CompleteElbo":
            yield Row(f"{shapes}, {name}: time", 1000 * our_time, "ms")
            memory = peak_memory(ours)
            limit = None if at_least is None else 0.5
            yield Row(
                f"{shapes}, {name}: peak memory", memory / peak_memory(theirs), "x the plain one's", at_most=limit
            )
            yield Row(f"{shapes}, {name}: peak beyond the logits", memory / logits.nbytes, "x logits")
            tidy = PlainLoss(process, tidy=True)
            our_time, their_time = side_by_side(
                ours, lambda tidy=tidy: torch.autograd.grad(tidy(logits, x0), logits)[0], seconds=3.0, rounds=5
            )
            yield Row(f"{shapes}, {name}, against tidy indexing", their_time / our_time, "x faster")


@benchmark
def music() -> Iterator[Row]:
    x0, logits = torch.randint(129, (16, 256)), torch.randn(16, 256, 129).requires_grad_()
    yield from compare("music, uniform", Uniform(129, Constant(0.03)), x0, logits, 10.0)


@benchmark
def music_birth_death() -> Iterator[Row]:
    x0, logits = torch.randint(129, (16, 256)), torch.randn(16, 256, 129).requires_grad_()
    process = BirthDeath(129, Exponential(0.5, 10_000))
    ours, theirs = losses(process, x0, logits, CompleteElbo())
    our_time, their_time = side_by_side(ours, theirs, seconds=3.0, rounds=5)
    yield Row("music, birth/death, CompleteElbo", their_time / our_time, "x faster")


@benchmark
def images() -> Iterator[Row]:
    process = Gaussian(256, Exponential(3.0, 100.0), 512.0, 6.0)
    x0, logits = torch.randint(256, (8, 3, 32, 32)), torch.randn(8, 3, 32, 32, 256).requires_grad_()
    yield from compare("images, Gaussian", process, x0, logits, 3.0)


@benchmark
def text() -> Iterator[Row]:
    """A vocabulary at which the plain loss would need 40 GB for its kernels."""
    states = 50_257
    process = RankOne(torch.full((states,), 1 / states, dtype=torch.float64), LogLinear())
    x0, logits = torch.randint(states, (4, 64)), torch.randn(4, 64, states).requires_grad_()
    reverse = ReverseProcess(process, RepeatedLogits(logits))

    def ours() -> Tensor:
        return torch.autograd.grad(CompleteElbo()(reverse, x0).mean(), logits)[0]

    time, _ = side_by_side(ours, lambda: None, seconds=2.0, rounds=3)
    yield Row("text, 50,257 states, 256 sites, CompleteElbo: time", 1000 * time, "ms")
    yield Row("text, CompleteElbo: peak beyond the logits", peak_memory(ours) / logits.nbytes, "x logits")
