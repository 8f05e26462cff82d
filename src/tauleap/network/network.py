"""The interface of the networks: the call, and the arguments from which they are rebuilt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import deepcopy
from numbers import Integral
from typing import Any, TypeAlias

from jaxtyping import Float
from torch import Tensor, nn

from tauleap._shapes import PerState, SiteMask, States

Times: TypeAlias = Float[Tensor, ""] | Float[Tensor, "batch"]
"""t in [0, 1] as a tensor: one for the whole batch, or one per sample."""


class Network(nn.Module, ABC):
    """Define a function (x_t, t) -> raw output that records its constructor's arguments.

    A network of your own need not be a subclass: any module with this call will do.

    Args:
        config: The constructor's arguments, as JSON can hold them.

    >>> class Table(Network):
    ...     def __init__(self, num_states):
    ...         super().__init__(num_states=num_states)
    ...         self.logits = nn.Embedding(num_states, num_states)
    ...     def forward(self, x, t, *, observed=None):
    ...         return self.logits(x)
    >>> Table(5).config
    {'num_states': 5}
    """

    def __init__(self, **config: Any) -> None:
        super().__init__()
        # A whole number may be one of numpy's, which JSON does not know.
        self._config = {name: _plain(value) for name, value in config.items()}

    @property
    def config(self) -> dict[str, Any]:
        """The constructor's arguments: ``type(network)(**network.config)`` is the same network, newly initialised."""
        return deepcopy(self._config)

    @abstractmethod
    def forward(self, x: States, t: Times, *, observed: SiteMask | None = None) -> PerState:
        """Return the raw output at every site.

        Args:
            x: The noisy states, int64 (B, *shape).
            t: The time, floating, () or (B,); a scalar stands for the whole batch and is embedded once.
            observed: The mask of observed sites, bool (B, *shape); their values are in ``x``. Default: none.

        Returns:
            (B, *shape, S), in the dtype of the parameters.
        """


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value
