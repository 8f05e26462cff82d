"""Denoisers around networks that predict something else than p(x0 | x_t): masked tokens, left-out sites, or scores.

All three have the same information if they are exact. With q_t(x^d | x0^d) the kernel of one site,

    leave-one-out:  p(x0^d | x)  proportional to  p(x0^d | x without site d) q_t(x^d | x0^d)
    score:          s_v = q_t(x with site d set to v) / q_t(x) = sum_x0 p(x0^d | x) q_t(v | x0^d) / q_t(x^d | x0^d)

The second line is linear in w(x0) = p(x0 | x) / q_t(x | x0), and is solved for it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tauleap import _check
from tauleap._shapes import PerState, States, Time
from tauleap.denoise.denoiser import Denoiser
from tauleap.denoise.posterior import Posterior
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed


class MaskedLogits(Denoiser):
    """Use the logits of a masked language model, for absorbing noise.

    Revealed sites keep their states, and the mask has probability 0. The network is called without the time.

    Args:
        network: A module that maps states (batch, *shape) to logits (batch, *shape, S); without the mask,
            (batch, *shape, S - 1), if the mask is the last state. A condition is its second argument.
        mask: The number of the mask.

    Raises:
        ValueError: The network returns another shape.

    >>> denoiser = MaskedLogits(nn.Embedding(4, 4), mask=3)
    >>> denoiser(torch.tensor([[0, 3]]), 0.5).probs[0, 0].tolist()
    [1.0, 0.0, 0.0, 0.0]
    """

    def __init__(self, network: nn.Module, mask: int) -> None:
        super().__init__()
        self.network, self.mask = network, _check.integer("mask", mask, least=0)

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        logits = self.network(x_t) if condition is None else self.network(x_t, condition)
        if logits.shape == (*x_t.shape, self.mask):
            logits = torch.nn.functional.pad(logits, (0, 1))
        if logits.ndim != x_t.ndim + 1 or logits.shape[:-1] != x_t.shape or logits.shape[-1] <= self.mask:
            raise ValueError(
                f"the network must return logits ({', '.join(map(str, x_t.shape))}, S) with S > mask = {self.mask}, "
                f"got shape {tuple(logits.shape)}"
            )
        states = torch.arange(logits.shape[-1], device=logits.device)
        masked = (x_t == self.mask)[..., None]
        impossible = torch.where(masked, states == self.mask, states != x_t[..., None])
        return Posterior(torch.where(impossible, -torch.inf, torch.where(masked, logits, 0.0)))


class LeaveOneOut(Denoiser):
    """Use a network that predicts each site from the others alone, for any noise.

    Args:
        network: A module that maps states (batch, *shape) and times (batch,) to logits of
            p(x0^d | x without site d), (batch, *shape, S). A condition is its third argument.
        process: The forward process.

    >>> from tauleap.noise import Constant, Uniform
    >>> process = Uniform(2, Constant(1.0))
    >>> knows_nothing = type("Even", (nn.Module,), {"forward": lambda self, x, t: torch.zeros(*x.shape, 2)})()
    >>> LeaveOneOut(knows_nothing, process)(torch.tensor([[0]]), 0.1).probs  # the site's own evidence alone
    tensor([[[0.9094, 0.0906]]])
    """

    def __init__(self, network: nn.Module, process: ForwardProcess) -> None:
        super().__init__()
        self.network, self.process = network, _checked(process)

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        logits = _outputs(self.network, x_t, t, condition, self.process.num_states)
        evidence = self.process.kernel_into(x_t, t, dtype=torch.float64).log()
        allowed = self.process.data_states.to(logits.device)
        return Posterior((logits + evidence).masked_fill(~allowed, -torch.inf).to(logits.dtype))


class ScoreRatios(Denoiser):
    """Use a network that predicts the ratios of marginal probabilities, such as SEDD (Lou et al. 2024).

    The ratios determine the posterior by a linear system per site, which is solved in float64. Ratios that belong to no
    posterior are projected: negative probabilities become 0. At late times the kernel forgets x0, so that errors of the
    network are amplified. All sites must have the same kernel.

    Args:
        network: A module that maps states (batch, *shape) and times (batch,) to log q_t(x with the site set to v) -
            log q_t(x), (batch, *shape, S). The entry of the site's own state is ignored. A condition is its third
            argument.
        process: The forward process.

    >>> from tauleap.denoise import ExactDenoiser
    >>> from tauleap.noise import Constant, Uniform
    >>> from tauleap.reverse import ReverseProcess
    >>> process = Uniform(2, Constant(1.0))
    >>> exact = ReverseProcess(process, ExactDenoiser(torch.tensor([0.9, 0.1], dtype=torch.float64), process))
    >>> score = type("Score", (nn.Module,), {"forward": lambda self, x, t: exact.ratios(x, t).log()})()
    >>> x = torch.tensor([[0], [1]])
    >>> torch.allclose(ScoreRatios(score, process)(x, 0.5).probs, exact.posterior(x, 0.5).probs)
    True
    """

    def __init__(self, network: nn.Module, process: ForwardProcess) -> None:
        super().__init__()
        self.network, self.process = network, _checked(process)

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        size = self.process.num_states
        logs = _outputs(self.network, x_t, t, condition, size)
        own = torch.nn.functional.one_hot(x_t, size).bool()
        ratios = logs.double().exp().masked_fill(own, 1.0)
        times = torch.as_tensor(t, dtype=torch.float64, device=x_t.device).expand(len(x_t))
        states = torch.arange(size, device=x_t.device).expand(len(x_t), -1)
        kernel = self.process.kernel_from(states, times, dtype=torch.float64)  # (batch, x0, v)
        weights = torch.linalg.solve(kernel, ratios.flatten(1, -2), left=False).reshape(ratios.shape)
        probs = weights * self.process.kernel_into(x_t, t, dtype=torch.float64)
        allowed = self.process.data_states.to(probs.device)
        return Posterior(probs.clamp(min=0).masked_fill(~allowed, 0.0).log().to(logs.dtype))


def _outputs(network: nn.Module, x: States, t: Time, condition: Tensor | None, size: int) -> PerState:
    times = torch.as_tensor(t, dtype=torch.get_default_dtype(), device=x.device).expand(len(x))
    out = network(x, times) if condition is None else network(x, times, condition)
    if out.shape != (*x.shape, size):
        raise ValueError(f"the network must return {(*x.shape, size)} numbers, got shape {tuple(out.shape)}")
    return out


def _checked(process: object) -> ForwardProcess:
    if not isinstance(process, ForwardProcess):
        raise TypeError(f"process must be a ForwardProcess such as Uniform, got {type(process).__name__}")
    return process
