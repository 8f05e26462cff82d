"""Several networks, each for its own times."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import final

import torch
from torch import Tensor, nn

from tauleap import _check
from tauleap._shapes import PerState, SiteMask, States
from tauleap.network.checks import check_call
from tauleap.network.network import Times


@final
class ByTime(nn.Module):
    """One network out of ``networks``, chosen by t: the first before ``at[0]``, the second from there on, and so forth.

    To clean up what can be seen already and to guess what cannot be seen yet are different tasks, and the loss of the
    first is so much larger that a network for both of them learns the second late. Networks that share no weights do
    not disturb each other (Balaji et al. 2022). They can be trained apart, also on different machines, and put together
    afterwards; a state is shown to one of them only, so that sampling costs no more.

    Args:
        networks: two or more, all with the same kind of output.
        at: the times at which the next one takes over, rising, one fewer than networks.

    >>> from tauleap.network import ResidualMLP
    >>> network = ByTime([ResidualMLP(8, (3,)), ResidualMLP(8, (3,), width=16)], at=[0.3])
    >>> network(torch.zeros(2, 3, dtype=torch.int64), torch.tensor([0.1, 0.9])).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, networks: Sequence[nn.Module], *, at: Sequence[float]) -> None:
        super().__init__()
        for network in networks:
            if not isinstance(network, nn.Module):
                raise TypeError(f"networks must be torch.nn.Modules, got a {type(network).__name__}")
        if len(networks) < 2 or len(at) != len(networks) - 1:
            raise ValueError(
                f"at must have one time fewer than there are networks, of which there must be two or more, got "
                f"{len(networks)} networks and {len(at)} times: write ByTime([early, late], at=[0.3])"
            )
        self.networks = nn.ModuleList(networks)
        self.at = [_check.positive("a time of at", time) for time in at]
        if not all(one < next for one, next in pairwise([*self.at, 1.0])):
            raise ValueError(f"at must be rising times in (0, 1), got {list(at)}")

    @property
    def classes(self) -> nn.Embedding | None:
        """The vectors of the labels of the first network, whose number is that of all."""
        return getattr(self.networks[0], "classes", None)

    def forward(
        self, x: States, t: Times, *, observed: SiteMask | None = None, condition: Tensor | None = None
    ) -> PerState:
        """What the networks say, each of the samples at its times."""
        check_call(x, t, observed)
        if len(x) == 0:
            return self.networks[0](x, t, observed=observed, condition=condition)
        t = t.expand(len(x)).contiguous()
        chosen = torch.bucketize(t, torch.tensor(self.at, dtype=t.dtype, device=t.device), right=True)
        order = chosen.argsort(stable=True)
        parts = order.split(chosen.bincount(minlength=len(self.networks)).tolist())
        said = [
            network(x[rows], t[rows], **_of(rows, observed=observed, condition=condition))
            for network, rows in zip(self.networks, parts, strict=True)
            if len(rows)
        ]
        out = said[0] if len(said) == 1 else torch.cat(said)[order.argsort()]
        if torch.is_grad_enabled():
            # Training over several processes waits for the gradient of every weight, also of an idle network.
            for network, rows in zip(self.networks, parts, strict=True):
                if not len(rows):
                    out = out + 0 * sum(p.sum() for p in network.parameters())
        return out


def _of(rows: Tensor, **given: Tensor | None) -> dict[str, Tensor]:
    """Of what is given, the ``rows``."""
    return {name: value[rows] for name, value in given.items() if value is not None}
