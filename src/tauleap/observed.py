"""Observed sites: prefixes, suffixes, holes and any other pattern."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tauleap import _check, _device
from tauleap._shapes import SiteMask, States


@dataclass(frozen=True)
class Observed:
    """Mark sites as observed, with their values: no noise, no loss and no jumps there.

    A prefix, a suffix, a hole and any other pattern are masks.

    Args:
        mask: True where the value is observed, bool of the shape of ``values``, or (*shape) for the whole batch.
        values: The values, int64 (batch, *shape); ignored where the mask is false.

    Raises:
        TypeError: ``mask`` is not bool, or ``values`` is not int64.
        ValueError: The shapes do not match.

    >>> prefix = Observed(torch.tensor([True, True, False]), torch.tensor([[4, 2, 0]]))
    >>> prefix.fill(torch.tensor([[1, 1, 1]]))
    tensor([[4, 2, 1]])
    """

    mask: SiteMask
    values: States

    def __init__(self, mask: Tensor, values: Tensor) -> None:
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
            given = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
            raise TypeError(f"mask must be a bool tensor, true where the value is known, got {given}")
        if not isinstance(values, Tensor) or values.dtype != torch.int64:
            given = values.dtype if isinstance(values, Tensor) else type(values).__name__
            raise TypeError(f"values must hold states as int64, got {given}")
        if mask.shape != values.shape and mask.shape != values.shape[1:]:
            raise ValueError(
                f"mask must have the shape of values, {tuple(values.shape)}, or of one sample, "
                f"{tuple(values.shape[1:])}, got {tuple(mask.shape)}"
            )
        # Contiguous, because samplers write into what is derived from these tensors by flatten.
        object.__setattr__(self, "mask", mask.expand(values.shape).contiguous())
        object.__setattr__(self, "values", values.contiguous())

    def fill(self, x: States) -> States:
        """Return ``x`` with the observed values filled in.

        Args:
            x: The states.

        Returns:
            States in the shape of ``x``.
        """
        return torch.where(self.mask, self.values, x)

    def of_rows(self, rows: slice | Tensor) -> Observed:
        """Return the pattern of some samples.

        Args:
            rows: The numbers of the samples, or a slice of them.
        """
        return Observed(self.mask[rows], self.values[rows])

    def to(self, device: torch.device) -> Observed:
        """Return the pattern on ``device``.

        Args:
            device: The device to copy to.

        Returns:
            The pattern on the device; itself if it is there.
        """
        return self if self.mask.device == device else Observed(self.mask.to(device), self.values.to(device))

    def check(self, x: States, num_states: int, data_states: Tensor | None = None, *, name: str = "x") -> None:
        """Raise a ValueError for a pattern that does not match the states ``x``.

        Args:
            x: The states.
            num_states: The number of states of a site.
            data_states: The states that data can have, bool (S,) or (*shape, S). Default: all.
            name: The name of ``x`` in messages. Default: "x".
        """
        if self.mask.shape != x.shape:
            raise ValueError(f"observed must have the shape of {name}, {tuple(x.shape)}, got {tuple(self.mask.shape)}")
        _check.states(self.values.masked_fill(~self.mask, 0), num_states, name="the observed values")
        if data_states is not None and _device.is_host(x.device):
            allowed = data_states.to(x.device).expand(*x.shape, -1)
            values = self.values.masked_fill(~self.mask, 0)[..., None]
            impossible = self.mask & ~allowed.gather(-1, values).squeeze(-1)
            if bool(impossible.any()):
                raise ValueError(
                    f"the observed values must be states that data can have, got {self.values[impossible][0].item()} "
                    "(the mask of an absorbing process, or a state of prior 0)"
                )


def select_rows(
    observed: Observed | None, condition: Tensor | None, rows: slice | Tensor
) -> tuple[Observed | None, Tensor | None]:
    """Return the observed sites and the condition of some samples.

    Args:
        observed: The observed sites, or None.
        condition: The input of the denoiser with one entry per sample, on any device, or None.
        rows: The numbers of the samples, or a slice of them.
    """
    if condition is not None:
        condition = condition[rows.to(condition.device) if isinstance(rows, Tensor) else rows]
    return None if observed is None else observed.of_rows(rows), condition


def check_observed(observed: object) -> Observed:
    """Return ``observed``; raise a TypeError for an object of another class."""
    if not isinstance(observed, Observed):
        raise TypeError(f"observed must be an Observed(mask, values), got {type(observed).__name__}")
    return observed
