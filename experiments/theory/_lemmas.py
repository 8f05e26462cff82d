"""The quantities of the paper's lemmas, computed by definition on enumerable spaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from _bound import true_rates
from _small import joint_kernel
from torch import Tensor

from tauleap.evaluate.joint_space import joint_generator, joint_states, neighbours
from tauleap.evaluate.pushforward import leap_laws, marginal, prior, pushforward_grid
from tauleap.objective import CrossEntropy
from tauleap.reverse import ReverseProcess
from tauleap.sampling import Ancestral
from tauleap.testing.laws import integrate
from tauleap.testing.paths import Perturbed, TableDenoiser, at_paths, descend, every_noise, expected_discrete, table_of


def worst_distance(one: Tensor, other: Tensor) -> float:
    """Return the largest total variation between rows of two kernels: the supremum over initial states."""
    return float((one - other).abs().sum(-1).max()) / 2


def single_step(reverse: ReverseProcess, law: Tensor, t: float, tau: float) -> dict[str, float]:
    """Evaluate the first lemma for the reverse chain and the chain with rates fixed at t over [t - tau, t].

    truth: the supremum over initial states of the total variation after the step.
    lemma: int sup_x sum_y |G_s(x, y) - H(x, y)| ds.
    """
    frozen = joint_generator(true_rates(reverse, law, t))

    def generators(times: Tensor) -> Tensor:
        return torch.stack([joint_generator(true_rates(reverse, law, s)) for s in times.tolist()])

    times = torch.linspace(t, t - tau, 9, dtype=torch.float64)
    kernel = integrate(generators, torch.eye(len(frozen), dtype=torch.float64), times)[-1]
    nodes, weights = np.polynomial.legendre.leggauss(12)
    off = generators(torch.tensor(t - tau * (1 + nodes) / 2)) - frozen
    off.diagonal(dim1=-2, dim2=-1).zero_()
    lemma = float(off.abs().sum(-1).amax(-1) @ torch.tensor(weights)) * tau / 2
    return {"truth": worst_distance(kernel, torch.linalg.matrix_exp(tau * frozen)), "lemma": lemma}


def leap_step(rates: Tensor, tau: float) -> dict[str, float]:
    """Compare a tau-leap, jumps added and clamped, with the chain of the same rates, for the worst initial state."""
    _, sites, size = rates.shape
    x = joint_states(size, sites)
    laws = leap_laws(rates, x, tau, "add")
    leap = torch.stack([laws[:, d, x[:, d]] for d in range(sites)]).prod(0)
    return {"leap": worst_distance(leap, torch.linalg.matrix_exp(tau * joint_generator(rates)))}


def rate_slope(reverse: ReverseProcess, law: Tensor, t: float) -> float:
    """Return max |d/dt Rhat_t(x, y)| over x and y that differ in one site, by the forward equation for q_t."""
    x = joint_states(law.shape[0], law.ndim)
    q = marginal(reverse, law, t)
    forward = joint_generator(reverse.process.rates_from(x, t, dtype=torch.float64))
    q_dot = (q.reshape(-1) @ forward).reshape(q.shape)
    own, change = q.reshape(-1, 1, 1), q_dot.reshape(-1, 1, 1)
    ratio = neighbours(q) / own
    into = reverse.process.rates_into(x, t, dtype=torch.float64)
    return float((into * (neighbours(q_dot) / own - ratio * change / own)).abs().max())


def supervision(
    reverse: ReverseProcess, law: Tensor, sizes: tuple[float, ...], steps: tuple[int, ...]
) -> dict[str, Any]:
    """Return the minimum of L_ll (Appendix D), and -log p, L_DT and its bound by the L_ll, which are ordered."""
    process, t = reverse.process, 0.5
    path, _ = every_noise(process, law, torch.tensor([t]))

    def cross_entropy(model: ReverseProcess) -> float:
        with torch.no_grad():
            return float((path.weight * at_paths(CrossEntropy(), model, path, t)).sum())

    fitted = ReverseProcess(process, TableDenoiser.random(process.num_states, law.ndim))
    descend(CrossEntropy(), fitted, law, t)
    x = joint_states(process.num_states, law.ndim)
    learnt = table_of(fitted).table.detach().softmax(-1).reshape(len(x), law.ndim, -1)
    wrong = {size: ReverseProcess(process, Perturbed(law, process, size)) for size in sizes}
    best = cross_entropy(reverse)
    return {
        "at minimum": float((learnt - reverse.posterior(x, t).probs).abs().max()),
        "excess": [cross_entropy(model) - best for model in wrong.values()],
        "bounds": [discrete_bounds(model, law, k) | {"size": size} for size, model in wrong.items() for k in steps],
    }


def discrete_bounds(reverse: ReverseProcess, law: Tensor, steps: int) -> dict[str, float]:
    """E -log p of what D3PM samples in K steps, L_DT, and the bound of L_DT whose only part with the model is L_ll."""
    grid = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
    with torch.no_grad():
        model = pushforward_grid(Ancestral(), reverse, prior(reverse, law.ndim), grid)
        path, when = every_noise(reverse.process, law, torch.arange(1, steps + 1, dtype=torch.float64) / steps)
        cross_entropy = float((path.weight * at_paths(CrossEntropy(), reverse, path, when)).sum())
    x0 = joint_states(reverse.process.num_states, law.ndim)
    constant = float(law.reshape(-1) @ reverse.process.prior_divergence(x0).sum(-1))
    constant += sum(_jensen_constant(reverse, law, k / steps, (k + 1) / steps) for k in range(1, steps))
    return {
        "steps": steps,
        "likelihood": -float(torch.xlogy(law, model).sum()),
        "ldt": expected_discrete(reverse, law, steps),
        "bound": cross_entropy + constant,
        "entropy": -float(torch.xlogy(law, law).sum()),
    }


def _jensen_constant(reverse: ReverseProcess, law: Tensor, s: float, t: float) -> float:
    """E log q(x_s | x_t, x0) - E log q(x_s | x_t) / q(x0 | x_t): what bounds one term of L_DT together with L_ll."""
    early, late, between = (joint_kernel(reverse.process, law.ndim, *times) for times in ((s,), (t,), (t, s)))
    start = law.reshape(-1, 1)
    joint = (start * early)[:, :, None] * between  # x0, x_s, x_t
    q_s, q_t = (start * early).sum(0)[:, None], (start * late).sum(0)
    knowing = early[:, :, None] * between / late[:, None, :]
    step, posterior = q_s * between / q_t, (start * late / q_t)[:, None, :]
    return float((joint * (knowing.log() - step.log() + posterior.log())).sum())


def commuting_errors(fractions: tuple[float, ...] = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)) -> list[dict[str, float]]:
    """Compare exp(int R) with the kernel of R1 for half the time and R2 for the rest, for a growing commutator."""
    size = 4
    first = torch.diag(torch.ones(size - 1, dtype=torch.float64), 1)
    first = first + first.mT
    uniform = torch.ones(size, size, dtype=torch.float64)
    other = torch.zeros(size, size, dtype=torch.float64)
    other[:, -1] = size  # All states jump to the last one.
    found = []
    for fraction in fractions:
        pair = [_generator(first), _generator((1 - fraction) * uniform + fraction * other)]
        halves = [torch.linalg.matrix_exp(each / 2) for each in pair]
        combined = torch.linalg.matrix_exp((pair[0] + pair[1]) / 2)
        commutator = pair[0] @ pair[1] - pair[1] @ pair[0]
        found.append(
            {
                "fraction": fraction,
                "commutator": float(commutator.abs().max()),
                "error": worst_distance(combined, halves[0] @ halves[1]),
            }
        )
    return found


def _generator(rates: Tensor) -> Tensor:
    rates = rates.clone().fill_diagonal_(0.0)
    return rates - torch.diag(rates.sum(1))
