"""Call a network with those of t, ``observed`` and ``condition`` that its ``forward`` takes."""

from __future__ import annotations

import inspect

from torch import Tensor, nn

from tauleap._shapes import SiteMask

_WRAPPERS = ("OptimizedModule", "DataParallel", "DistributedDataParallel")
"""Of torch: what ``torch.compile`` returns, and what distributes a batch; their ``forward`` takes anything."""
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def unwrapped(network: nn.Module) -> nn.Module:
    """Return the module inside the wrappers of torch, such as that of ``torch.compile``.

    >>> inner = nn.Linear(2, 2)
    >>> unwrapped(nn.DataParallel(inner)) is inner
    True

    Args:
        network: any module.
    """
    while type(network).__name__ in _WRAPPERS and type(network).__module__.startswith("torch."):
        network = network._orig_mod if hasattr(network, "_orig_mod") else network.module  # pyright: ignore[reportAssignmentType]
    return network


class Arguments:
    """Know which of t, ``observed`` and ``condition`` the ``forward`` of a network has as parameters.

    >>> import torch
    >>> table = torch.nn.Sequential(torch.nn.Embedding(3, 4), torch.nn.Linear(4, 3))
    >>> Arguments(table).call(table, torch.zeros(2, 5, dtype=torch.int64), torch.rand(2), None, None).shape
    torch.Size([2, 5, 3])

    Args:
        network: A module whose ``forward`` takes x, and t as its second positional argument or by its name; it need
            not take t.
    """

    def __init__(self, network: nn.Module) -> None:
        network = unwrapped(network)
        parameters = inspect.signature(network.forward).parameters
        kinds = [p.kind for p in parameters.values()]
        takes_anything = inspect.Parameter.VAR_KEYWORD in kinds
        self._name = type(network).__name__
        self._takes_observed = takes_anything or "observed" in parameters
        self._takes_condition = takes_anything or "condition" in parameters
        first = [p.name for p in parameters.values() if p.kind in _POSITIONAL][:2]
        self._takes_time = inspect.Parameter.VAR_POSITIONAL in kinds or (
            len(first) == 2 and first[1] not in ("observed", "condition")
        )
        self._names_time = not self._takes_time and "t" in parameters

    @property
    def takes_time(self) -> bool:
        """Whether ``forward`` has a parameter for t."""
        return self._takes_time or self._names_time

    @property
    def takes_observed(self) -> bool:
        """Whether ``forward`` has a parameter ``observed``."""
        return self._takes_observed

    def call(
        self, network: nn.Module, x: Tensor, t: Tensor, observed: SiteMask | None, condition: Tensor | None
    ) -> object:
        """Return the output of the network, whatever it is: networks of users return what they like.

        Args:
            network: The network, or one that wraps it with the same parameters.
            x: The noisy states.
            t: One time per sample.
            observed: Which sites are given; None where none is.
            condition: One entry per sample; None for an unconditional network.

        Raises:
            TypeError: There is a condition that the network does not take.
        """
        named: dict[str, Tensor | None] = {"t": t} if self._names_time else {}
        if self._takes_observed:
            named["observed"] = observed
        if self._takes_condition:
            named["condition"] = condition
        elif condition is not None:
            raise TypeError(
                f"{self._name} takes no condition: give its forward a parameter `condition`, or leave condition out"
            )
        return network(x, t, **named) if self._takes_time else network(x, **named)
