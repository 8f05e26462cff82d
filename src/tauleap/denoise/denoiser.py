"""The interface of a denoiser, the call of its network, and the denoiser of a network with logits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from tauleap import _device
from tauleap._precision import same_autocast
from tauleap._shapes import States, Time
from tauleap.denoise.lazy import HiddenStates
from tauleap.denoise.memory import current_memory, keys_of
from tauleap.denoise.posterior import Posterior
from tauleap.network.arguments import Arguments, is_sharded, unwrapped
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed


class Denoiser(nn.Module, ABC):
    """Predict p(x0 | x_t), the distribution of each site's clean state given the whole noisy state.

    Observed sites hold their clean values in ``x_t``.

    >>> class Uninformed(Denoiser):
    ...     def forward(self, x_t, t, *, observed=None, condition=None):
    ...         return Posterior(torch.zeros(*x_t.shape, 4))
    >>> Uninformed()(torch.tensor([[0, 2]]), 0.5).probs[0, 0]
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    @property
    def uses_time(self) -> bool:
        """Whether the prediction may depend on t, other than through x_t."""
        return True

    def check(self, process: ForwardProcess) -> None:
        """Raise a ValueError if the denoiser does not fit a process.

        Args:
            process: The forward process.
        """

    @abstractmethod
    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        """Return the distribution of each site's clean state given the whole noisy state.

        Args:
            x_t: The noisy states; observed sites hold their clean values.
            t: The time, one for all samples or one per sample.
            observed: The observed sites. Default: none.
            condition: The input of the network, with one entry per sample along its first axis. Default: none.
        """


class NetworkCall:
    """Call ``network(x_t, t)`` with t of shape (batch,), and with ``observed`` and ``condition`` if it takes them.

    Args:
        network: The network.
        numbers: The number of outputs per site, for messages; None if the outputs are not per site. Default: "S", the
            number of states.
    """

    def __init__(self, network: nn.Module, numbers: str | None = "S") -> None:
        if not isinstance(network, nn.Module):
            raise TypeError(f"network must be a torch.nn.Module, got {type(network).__name__}")
        self._arguments = Arguments(network)
        self._numbers = numbers
        self.precision: Callable[[], Callable[[], AbstractContextManager[None]]] = same_autocast
        """Returns the context in which the head is evaluated, at the time when the trunk is."""
        self.uses_time = self._arguments.takes_time and getattr(unwrapped(network), "uses_time", True)

    def __call__(
        self, network: nn.Module, x_t: States, t: Time, observed: Observed | None, condition: Tensor | None
    ) -> Tensor:
        """Return the network's output; raise a ValueError if its shape is wrong."""
        out = self._call(network, x_t, t, observed, condition)
        if isinstance(out, Tensor) and self._numbers is None:
            return out
        if not isinstance(out, Tensor) or out.ndim != x_t.ndim + 1 or out.shape[:-1] != x_t.shape:
            given = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise ValueError(
                f"the network must return a tensor of shape (B, *shape, {self._numbers}) = "
                f"({', '.join(map(str, x_t.shape))}, {self._numbers}), got {given}"
            )
        return out

    def splits(self, network: nn.Module) -> bool:
        """Return whether the trunk and the head of a network can be evaluated one after the other.

        Args:
            network: The network, with its wrappers.
        """
        return self._arguments.splits and not is_sharded(network)

    def hidden_states(
        self, network: nn.Module, x_t: States, t: Time, observed: Observed | None, condition: Tensor | None
    ) -> HiddenStates:
        """Return the hidden states of a network that splits; raise a ValueError if their shape is wrong."""
        hidden = self._call(network, x_t, t, observed, condition, return_hidden=True)
        if not isinstance(hidden, Tensor) or hidden.ndim != x_t.ndim + 1 or hidden.shape[:-1] != x_t.shape:
            given = tuple(hidden.shape) if isinstance(hidden, Tensor) else type(hidden).__name__
            raise ValueError(
                "with return_hidden=True the network must return a tensor of shape (B, *shape, width) = "
                f"({', '.join(map(str, x_t.shape))}, width), got {given}"
            )
        head: Any = unwrapped(network).head
        precision = self.precision()

        def evaluate(hidden: Tensor, x: Tensor) -> Tensor:
            with precision():
                return head(hidden, x)

        return HiddenStates(hidden, x_t, evaluate)

    def _call(
        self,
        network: nn.Module,
        x_t: States,
        t: Time,
        observed: Observed | None,
        condition: Tensor | None,
        *,
        return_hidden: bool = False,
    ) -> object:
        mask, time = None if observed is None else observed.mask, _time_per_sample(t, x_t, network)

        def evaluate(rows: Tensor | None) -> object:
            x, t, observed, given = x_t, time, mask, condition
            if rows is not None:
                x, t = x[rows], t[rows]
                observed, given = (None if value is None else value[rows] for value in (observed, given))
            return self._arguments.call(network, x, t, observed, given, return_hidden=return_hidden)

        memory = current_memory()
        tensors = (x_t, *(() if mask is None else (mask,)), *(() if condition is None else (condition,)))
        on_host = all(_device.is_host(tensor.device) for tensor in tensors)
        if memory is None or self.uses_time or network.training or torch.is_grad_enabled() or not on_host:
            return evaluate(None)
        seen = mask if self._arguments.takes_observed else None
        return memory.outputs(keys_of(x_t, seen, condition, network, return_hidden), evaluate)


def _time_per_sample(t: Time, x_t: Tensor, network: nn.Module) -> Tensor:
    """Return t as (batch,) in the dtype of the network's parameters, at least float32: half precision blurs times."""
    dtype = next((p.dtype for p in network.parameters() if p.is_floating_point()), torch.get_default_dtype())
    dtype = torch.promote_types(dtype, torch.float32)
    if not isinstance(t, Tensor):
        return torch.full((), t, dtype=dtype, device=x_t.device).expand(x_t.shape[0])
    t = t.to(dtype) if t.device == x_t.device else _device.moved_to(t, x_t.device, dtype)
    return t.expand(x_t.shape[0])


class NetworkDenoiser(Denoiser):
    """Use the output of a network as logits: any module called as ``network(x_t, t)`` with t of shape (batch,).

    A network whose ``forward`` takes one argument is called without t. If ``forward`` has a parameter ``observed`` it
    gets the mask of the observed sites or None, and if it has a parameter ``condition`` it gets the condition.

    A network may have a trunk and a head, so that losses and samplers evaluate the head only at the sites that need it:
    with ``return_hidden=True``, ``forward`` returns hidden states (batch, *shape, width) instead of logits, and the
    method ``head(hidden, x)`` returns the logits (n, S) of n sites from their hidden states (n, width) and noisy states
    (n,).

    Args:
        network: The network, which returns one logit per site and state, (batch, *shape, S).

    Raises:
        TypeError: ``network`` is not a torch.nn.Module.

    >>> import torch
    >>> from tauleap.network import ResidualMLP
    >>> denoiser = NetworkDenoiser(ResidualMLP(8, (3,)))
    >>> denoiser(torch.zeros(2, 3, dtype=torch.int64), 0.5).probs.shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self._call_network = NetworkCall(network)
        self.network = network

    @property
    def uses_time(self) -> bool:
        return self._call_network.uses_time

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        if self._call_network.splits(self.network):
            return Posterior(self._call_network.hidden_states(self.network, x_t, t, observed, condition))
        return Posterior(self._call_network(self.network, x_t, t, observed, condition))

    def set_precision(self, context: Callable[[], AbstractContextManager[None]]) -> None:
        """Set the context in which the head of the network is evaluated, such as autocast in training.

        Args:
            context: Returns the context of one evaluation.
        """
        self._call_network.precision = lambda: context
