"""Full precision inside ``torch.autocast``, which would round products with transition kernels to 8 bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache, wraps
from typing import ParamSpec, TypeVar

import torch

from tauleap import _device

_P = ParamSpec("_P")
_R = TypeVar("_R")


@cache
def autocast_types() -> tuple[str, ...]:
    """Return the device types for which autocast can be enabled here: the CPU, and this machine's accelerator."""
    return tuple(dict.fromkeys((_device.CPU.type, _device.resolve().type)))


def same_autocast() -> Callable[[], AbstractContextManager[None]]:
    """Return a context that enables autocast as it is now, for parts of a network that are evaluated later.

    >>> with torch.autocast("cpu", torch.bfloat16):
    ...     context = same_autocast()
    >>> with context():
    ...     (torch.ones(1, 1) @ torch.ones(1, 1)).dtype
    torch.bfloat16
    """
    enabled = [(kind, torch.get_autocast_dtype(kind)) for kind in autocast_types() if torch.is_autocast_enabled(kind)]

    @contextmanager
    def context() -> Iterator[None]:
        with ExitStack() as stack:
            for kind, dtype in enabled:
                stack.enter_context(torch.autocast(kind, dtype))
            yield

    return context if enabled else nullcontext


def full_precision(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Disable autocast, for every device type, while ``function`` runs.

    It belongs on arithmetic with probabilities and rates that multiplies matrices, and never on a function that
    evaluates a network. Outside autocast it costs less than a microsecond per call.

    Args:
        function: the function or method to decorate.

    Returns:
        The function, which computes in the dtype of its arguments whether autocast is enabled or not.

    >>> ones = torch.ones(1, 512)
    >>> product = full_precision(lambda: ones @ (1 + 1e-3 * ones.mT))
    >>> with torch.autocast("cpu", torch.bfloat16):
    ...     product().dtype, (ones @ ones.mT).dtype
    (torch.float32, torch.bfloat16)
    """

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        for kind in autocast_types():
            if torch.is_autocast_enabled(kind):
                break
        else:
            return function(*args, **kwargs)
        with ExitStack() as stack:
            for kind in autocast_types():
                if torch.is_autocast_enabled(kind):
                    stack.enter_context(torch.autocast(kind, enabled=False))
            return function(*args, **kwargs)

    return call
