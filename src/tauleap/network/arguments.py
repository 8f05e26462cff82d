"""Call a network with those of t, ``observed`` and ``condition`` that its ``forward`` takes."""

from __future__ import annotations

import inspect

from torch import Tensor, distributed, nn

from tauleap._shapes import SiteMask

_WRAPPERS = {
    "OptimizedModule": ("torch.", "_orig_mod"),
    "DataParallel": ("torch.", "module"),
    "DistributedDataParallel": ("torch.", "module"),
    "_FabricModule": ("lightning_fabric.", "module"),
}
"""What ``torch.compile`` returns, what distributes a batch, and what Lightning Fabric puts around a network: the
package of each, and its attribute with the module inside. The signature of their ``forward`` does not show what the
module takes."""
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def unwrapped(network: nn.Module) -> nn.Module:
    """Return the module inside the wrappers of torch and Lightning Fabric, such as that of ``torch.compile``.

    >>> inner = nn.Linear(2, 2)
    >>> unwrapped(nn.DataParallel(inner)) is inner
    True

    Args:
        network: any module.
    """
    while (found := _WRAPPERS.get(type(network).__name__)) and type(network).__module__.startswith(found[0]):
        network = getattr(network, found[1])
    return network


def is_sharded(network: nn.Module) -> bool:
    """Return whether each of several processes holds a part of the weights only.

    Args:
        network: any module, with its wrappers.
    """
    if not distributed.is_available() or not distributed.is_initialized():
        return False
    return any(type(weight).__name__ == "DTensor" for weight in network.parameters())


class Arguments:
    """Record which of t, ``observed``, ``condition`` and ``return_hidden`` a network's ``forward`` has as parameters.

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
        self.takes_observed = takes_anything or "observed" in parameters
        """Whether ``forward`` has a parameter ``observed``."""
        self._takes_condition = takes_anything or "condition" in parameters
        first = [p.name for p in parameters.values() if p.kind in _POSITIONAL][:2]
        # By position, or else by its name.
        self._takes_time = inspect.Parameter.VAR_POSITIONAL in kinds or (
            len(first) == 2 and first[1] not in ("observed", "condition")
        )
        self._names_time = not self._takes_time and "t" in parameters
        self.takes_time = self._takes_time or self._names_time
        """Whether ``forward`` has a parameter for t."""
        self.splits = "return_hidden" in parameters and callable(getattr(network, "head", None))
        """Whether the network has a trunk and a head: ``forward(..., return_hidden=True)`` and ``head(hidden, x)``."""

    def call(
        self,
        network: nn.Module,
        x: Tensor,
        t: Tensor,
        observed: SiteMask | None,
        condition: Tensor | None,
        *,
        return_hidden: bool = False,
    ) -> object:
        """Return the output of the network without a check, since networks of users may return anything.

        Args:
            network: The network, or one that wraps it with the same parameters.
            x: The noisy states.
            t: One time per sample.
            observed: Which sites are given; None where none is.
            condition: One entry per sample; None for an unconditional network.
            return_hidden: Whether a network that splits returns its hidden states instead of logits. Default: false.

        Raises:
            TypeError: There is a condition that the network does not take.
        """
        named: dict[str, Tensor | bool | None] = {"t": t} if self._names_time else {}
        if return_hidden:
            named["return_hidden"] = True
        if self.takes_observed:
            named["observed"] = observed
        if self._takes_condition:
            named["condition"] = condition
        elif condition is not None:
            raise TypeError(
                f"{self._name} takes no condition: give its forward a parameter `condition`, or leave condition out"
            )
        return network(x, t, **named) if self._takes_time else network(x, **named)
