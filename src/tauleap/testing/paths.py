"""Expectations of an objective by enumeration instead of chance: every x0, noise and jump with its probability."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from tauleap._shapes import States, Time
from tauleap.denoise import Denoiser, ExactDenoiser, Posterior
from tauleap.evaluate.joint_space import joint_states, site_kernels
from tauleap.noise import ForwardProcess
from tauleap.objective import DiscreteTimeElbo, NoisedBatch, Objective, UniformTimes
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.testing.laws import site_generators


class TableDenoiser(Denoiser):
    """Predict by a table of parameters: ``table`` (S, ..., S, D, S), the logits at every joint state.

    It does not depend on time, so use it at one. ``calls`` counts its evaluations, and ``seen`` holds its last input.
    """

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table)
        self.calls = 0
        self.seen: tuple[States, Time, Observed | None, Tensor | None] | None = None

    @classmethod
    def random(cls, num_states: int, sites: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> TableDenoiser:
        shape = (*(num_states,) * sites, sites, num_states)
        return cls(torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)))

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        self.calls += 1
        self.seen = (x_t, t, observed, condition)
        rows = x_t.reshape(len(x_t), -1)
        return Posterior(self.table[tuple(rows.unbind(-1))].reshape(*x_t.shape, -1))


class Perturbed(Denoiser):
    """Return the exact posterior of ``law`` with ``size`` times a random normal number added to each logit."""

    def __init__(self, law: Tensor, process: ForwardProcess, size: float) -> None:
        super().__init__()
        self.exact, self.size = ExactDenoiser(law, process), size
        self.noise = TableDenoiser.random(process.num_states, law.ndim, seed=0)

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        answer = self.exact(x_t, t, observed=observed, condition=condition)
        return Posterior(answer.logits + self.size * self.noise(x_t, t).logits.detach())


class Path(NamedTuple):
    """Hold rows (x0, x, x~) with the probability of each: a data law, the noise at one time, and one forward jump."""

    weight: Tensor
    x0: States
    x: States
    x_tilde: States


def every_path(process: ForwardProcess, law: Tensor, t: float, *, free: Tensor | None = None) -> Path:
    """Return all paths to time t with one more jump of a ``free`` site (D,); other sites stay at x0.

    Where nothing can jump, x~ is x.
    """
    sites, size = law.ndim, process.num_states
    free = torch.ones(sites, dtype=torch.bool) if free is None else free
    kernels = site_kernels(process, (sites,), t)
    kernels = torch.where(free[:, None, None], kernels, torch.eye(size, dtype=torch.float64))
    rates = site_generators(process, (sites,)) * free[:, None, None]
    rates.diagonal(dim1=-2, dim2=-1).zero_()
    states = joint_states(size, sites)
    found = []
    for x0 in states[law.reshape(-1) > 0]:
        arrival = torch.stack([kernels[d, x0[d], states[:, d]] for d in range(sites)]).prod(0)
        for x, probability in zip(states[arrival > 0], arrival[arrival > 0], strict=True):
            weight = law[tuple(x0)] * probability
            leaving = torch.stack([rates[d, x[d]] for d in range(sites)])
            if leaving.sum() == 0:
                found.append((weight, x0, x, x))
            for d, v in leaving.nonzero().tolist():
                x_tilde = x.clone()
                x_tilde[d] = v
                found.append((weight * leaving[d, v] / leaving.sum(), x0, x, x_tilde))
    return Path(*(torch.stack(column) for column in zip(*found, strict=True)))


def every_noise(process: ForwardProcess, law: Tensor, times: Tensor) -> tuple[Path, Tensor]:
    """Return all data and all noise at each of ``times`` (n,), with x~ equal to x, and the time of each row.

    The weights add up to 1 at each time.
    """
    flat, states = law.reshape(-1), joint_states(process.num_states, law.ndim)
    clean, noisy, when = torch.cartesian_prod(
        flat.nonzero().flatten(), torch.arange(len(states)), torch.arange(len(times))
    ).unbind(-1)
    x0, x, t = states[clean], states[noisy], times.double()[when]
    arrival = process.kernel_from(x0, t, dtype=torch.float64).gather(-1, x[..., None]).squeeze(-1).prod(-1)
    seen = arrival > 0
    return Path(flat[clean][seen] * arrival[seen], x0[seen], x[seen], x[seen]), t[seen]


def at_paths(
    objective: Objective,
    reverse: ReverseProcess,
    path: Path,
    t: Time,
    *,
    weight: Tensor | None = None,
    observed: Observed | None = None,
) -> Tensor:
    """Return the value of ``objective`` on every path, as if this noise had been drawn.

    The noisy states of the path are also those of the earliest time, ``x_eps``.

    Args:
        objective: The objective.
        reverse: The reverse process.
        path: The paths.
        t: The time of their noisy states, one for all or one per row.
        weight: The importance weights of t. Default: 1.
        observed: The observed sites. Default: none.
    """
    draw = NoisedBatch(
        reverse,
        path.x0,
        objective.times or UniformTimes(),
        objective.needs or frozenset({"x_t"}),
        t=t,
        observed=observed,
    )
    vars(draw).update(x_t=path.x, x_tilde=path.x_tilde, x_eps=path.x)
    if weight is not None:
        draw.weight = weight
    return objective.evaluate(draw).value


def expected(objective: Objective, reverse: ReverseProcess, law: Tensor, t: float) -> Tensor:
    """Return the mean of ``objective`` at time t over data of ``law`` and all noise."""
    path = every_path(reverse.process, law, t)
    return (path.weight * at_paths(objective, reverse, path, t)).sum()


def expected_discrete(reverse: ReverseProcess, law: Tensor, steps: int) -> float:
    """Return the mean of L_DT with ``steps`` steps over data and noise, all its terms, by enumeration."""
    path, t = every_noise(reverse.process, law, torch.arange(1, steps + 1, dtype=torch.float64) / steps)
    with torch.no_grad():
        return float((path.weight * at_paths(DiscreteTimeElbo(steps), reverse, path, t)).sum()) / steps


def descend(objective: Objective, reverse: ReverseProcess, law: Tensor, t: float) -> None:
    """Fit a ``TableDenoiser`` to the mean of the objective at time t, by enumeration and so without noise."""
    if "x_tilde" in objective.needs:
        path = every_path(reverse.process, law, t)
    else:
        path, _ = every_noise(reverse.process, law, torch.tensor([t]))
    optimizer = torch.optim.LBFGS(
        [table_of(reverse).table],
        max_iter=300,
        history_size=50,
        tolerance_grad=1e-8,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (path.weight * at_paths(objective, reverse, path, t)).sum()
        loss.backward()
        return loss

    optimizer.step(closure)


def table_of(reverse: ReverseProcess) -> TableDenoiser:
    """Return the denoiser of a reverse process, which must be a table."""
    assert isinstance(reverse.denoiser, TableDenoiser)
    return reverse.denoiser
