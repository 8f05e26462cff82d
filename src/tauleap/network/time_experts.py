"""Several networks, each for an interval of times."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import final

import torch
from torch import Tensor, nn

from tauleap import _check, _device
from tauleap._shapes import PerState, SiteMask, States
from tauleap.network.arguments import Arguments
from tauleap.network.inputs import check_call
from tauleap.network.labels import num_labels
from tauleap.network.network import Times

_WRITE = "write TimeExperts([early, late], at=[0.3])"


@final
class TimeExperts(nn.Module):
    """Choose one of several networks by the time.

    The first is used before ``at[0]``, the second from there to ``at[1]``, and so on.

    Early times (little noise) and late times (much noise) are different tasks, and the loss of the first is so much
    larger that one network for both learns the second late (Balaji et al. 2022 use such experts for images). The
    networks can be trained separately, also on different machines, and combined afterwards; trained together they share
    only the norm at which gradients are clipped. Each state is evaluated by one network, so that sampling costs no
    more. Compiled, there is one graph per network.

    Args:
        networks: Two or more networks with outputs of the same shape and, if they take labels, the same
            ``num_classes``.
        at: The times at which the next network begins, increasing, in (0, 1), one fewer than networks.

    Raises:
        TypeError: An argument is not a list, or a network is not a torch.nn.Module.
        ValueError: The number or the order of the times is wrong.

    >>> from tauleap.network import ResidualMLP
    >>> network = TimeExperts([ResidualMLP(8, (3,)), ResidualMLP(8, (3,), width=16)], at=[0.3])
    >>> network(torch.zeros(2, 3, dtype=torch.int64), torch.tensor([0.1, 0.9])).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, networks: Sequence[nn.Module], *, at: Sequence[float]) -> None:
        super().__init__()
        for name, given in (("networks", networks), ("at", at)):
            if not isinstance(given, Sequence | nn.ModuleList):
                raise TypeError(f"{name} must be a list, got {type(given).__name__}: {_WRITE}")
        for network in networks:
            if not isinstance(network, nn.Module):
                raise TypeError(f"networks must be torch.nn.Modules, got a {type(network).__name__}")
        if len(networks) < 2 or len(at) != len(networks) - 1:
            raise ValueError(
                "networks must be two or more, and `at` must hold one time fewer than there are networks, got "
                f"{len(networks)} networks and {len(at)} times: {_WRITE}"
            )
        self.at = [_check.positive("a time of `at`", time) for time in at]
        if not all(one < next for one, next in pairwise([*self.at, 1.0])):
            raise ValueError(f"`at` must hold increasing times in (0, 1), got {list(at)}")
        labels = [num_labels(network) for network in networks]
        if len(set(labels)) > 1:
            raise ValueError(f"all networks must be built with the same num_classes, got {labels}")
        self.networks = nn.ModuleList(networks)
        self._arguments = [Arguments(network) for network in networks]

    @property
    def classes(self) -> nn.Embedding | None:
        """The label embedding of the first network; the others have as many labels."""
        return getattr(self.networks[0], "classes", None)

    def forward(
        self, x: States, t: Times, *, observed: SiteMask | None = None, condition: Tensor | None = None
    ) -> PerState:
        """Return the output of the network of each sample's time.

        Args:
            x: The noisy states, int64 (B, *shape).
            t: The time, floating, () or (B,); a scalar stands for the whole batch and is embedded once.
            observed: The mask of observed sites, bool (B, *shape); their values are in ``x``. Default: none.
            condition: The class labels, int64 (B,). Default: none.

        Raises:
            ValueError: The networks return outputs of different shapes.
        """
        check_call(x, t, observed)
        starts = _device.moved_to(torch.tensor(self.at, dtype=t.dtype, device=_device.CPU), t.device)
        if t.ndim == 0 or t.stride(0) == 0 or len(x) == 0:  # one time for all, which a network embeds once
            number = int((t.flatten()[:1] >= starts[:, None]).sum())
            out = self._call(number, x, t, observed, condition)
            return self._with_idle(out, [int(other == number) for other in range(len(self.networks))])
        chosen = (t[:, None] >= starts).sum(1)
        order = chosen.argsort(stable=True)
        counts = chosen.bincount(minlength=len(self.networks)).tolist()
        outputs = [
            self._call(number, x[rows], t[rows], _rows(observed, rows), _rows(condition, rows))
            for number, rows in enumerate(order.split(counts))
            if len(rows)
        ]
        if any(part.shape[1:] != outputs[0].shape[1:] for part in outputs):
            shapes = ", ".join(str(tuple(part.shape[1:])) for part in outputs)
            raise ValueError(f"the networks must return outputs of one shape per sample, got {shapes}")
        return self._with_idle(outputs[0] if len(outputs) == 1 else torch.cat(outputs)[order.argsort()], counts)

    def _call(self, number: int, x: Tensor, t: Tensor, observed: Tensor | None, condition: Tensor | None) -> Tensor:
        out = self._arguments[number].call(self.networks[number], x, t, observed, condition)
        if not isinstance(out, Tensor):
            raise TypeError(f"network {number} must return a tensor, got {type(out).__name__}")
        return out

    def _with_idle(self, out: Tensor, counts: list[int]) -> Tensor:
        """Add a gradient of 0 for networks without a sample: training over several processes waits for all."""
        if torch.is_grad_enabled():
            for network, count in zip(self.networks, counts, strict=True):
                if count == 0:
                    out = out + sum(p.flatten()[:0].sum() for p in network.parameters())
        return out


def _rows(given: Tensor | None, rows: Tensor) -> Tensor | None:
    return None if given is None else given[rows]
