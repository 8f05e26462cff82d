"""What a network's ``forward`` takes beside x and t, so that it is given nothing that it would ignore."""

from __future__ import annotations

import inspect

from torch import Tensor, nn

from tauleap._shapes import SiteMask


class Arguments:
    """Which of ``observed`` and ``condition`` the ``forward`` of ``network`` has as parameters."""

    def __init__(self, network: nn.Module) -> None:
        parameters = inspect.signature(network.forward).parameters
        takes_anything = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
        self._name = type(network).__name__
        self._takes_observed = takes_anything or "observed" in parameters
        self._takes_condition = takes_anything or "condition" in parameters

    def of(self, observed: SiteMask | None, condition: Tensor | None) -> dict[str, Tensor | None]:
        """Those that it takes; a condition that it cannot take is an error."""
        arguments: dict[str, Tensor | None] = {}
        if self._takes_observed:
            arguments["observed"] = observed
        if self._takes_condition:
            arguments["condition"] = condition
        elif condition is not None:
            raise TypeError(
                f"{self._name} takes no condition: give its forward a parameter `condition`, or leave condition out"
            )
        return arguments
