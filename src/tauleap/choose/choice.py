"""Choose the noise, network, objective and settings of training, and give the reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from tauleap import _check
from tauleap.choose.networks import automatic_network, choose_network
from tauleap.choose.objectives import choose_objective
from tauleap.choose.processes import choose_process
from tauleap.data import Dataset
from tauleap.denoise import Denoiser
from tauleap.noise import ForwardProcess
from tauleap.objective import Objective
from tauleap.training import RandomMasks, Settings

PRECISION = "32-true"
"""The default precision of the network."""


@dataclass(frozen=True)
class Choice:
    """Hold the process, denoiser, objective and settings that are trained.

    Args:
        process: The forward process.
        denoiser: Returns the denoiser with initial weights.
        objective: The loss.
        settings: The settings of training.
        masking: Draws the observed sites of training rows; None for a network that needs none.
        reasons: One line each about noise, network, objective and training, in this order.

    >>> import torch
    >>> choice = choose(Dataset(torch.zeros(8, 3, dtype=torch.int64), 2))
    >>> choice.process.mask, choice.settings.batch_size, len(choice.reasons)
    (2, 8, 4)
    """

    process: ForwardProcess
    denoiser: Callable[[], Denoiser]
    objective: Objective
    settings: Settings
    masking: RandomMasks | None
    reasons: tuple[str, ...]


def choose(
    data: Dataset,
    *,
    ordinal: bool = False,
    is_text: bool = False,
    minutes: float = 3.0,
    steps: int | None = None,
    process: ForwardProcess | str | None = None,
    network: nn.Module | Denoiser | str | None = None,
    width: int | None = None,
    depth: int | None = None,
    objective: Objective | str | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    precision: str = PRECISION,
    pieces: int = 1,
) -> Choice:
    """Choose the process, denoiser, objective and settings with which :func:`tauleap.fit` trains on the rows.

    The default noise is absorbing, with an own number of states per site. Tables and rows with few sites
    get a table network, images a U-Net, and other rows a transformer.

    >>> import torch
    >>> choice = choose(Dataset(torch.zeros(8, 3, dtype=torch.int64), 2))
    >>> print(choice.reasons[2])
    objective: any-order, because it estimates the bound that bits/dim reports with the least variance

    Args:
        data: The rows.
        ordinal: Whether the states are ordered quantities. Default: false.
        is_text: Whether the rows are parts of a text, which get a transformer whatever their length. Default: false.
        minutes: The time for training, > 0, which decides the size of the network. Default: 3.
        steps: The number of training steps, >= 1, which with the number of rows decides the dropout of a table
            network. Default: None, as many as the minutes allow.
        process: The forward process, or its name. Default: None, absorbing.
        network: The network, or its name. Default: None, chosen by the data.
        width: The width of a chosen or named network, >= 1. Default: None, chosen.
        depth: The depth of a chosen or named network, >= 1. Default: None, chosen.
        objective: The loss, or its name. Default: None, the bound with the least variance.
        batch_size: Rows per step over all devices, >= 1. Default: None, chosen.
        lr: The learning rate, > 0. Default: None, chosen.
        precision: The precision of the network, see :class:`tauleap.training.Settings`. Default: "32-true".
        pieces: The number of equal parts of a batch: devices times accumulation steps. Default: 1.

    Returns:
        The choice, with the reasons.

    Raises:
        ValueError: An argument does not fit the data or another argument.
        TypeError: An argument has the wrong type.
    """
    is_image = automatic_network(data, None, ordinal=ordinal, is_text=is_text) == "unet"
    noise, why_noise = choose_process(process, data, ordinal=ordinal, is_image=is_image)
    sizes = {"width": width, "depth": depth, "steps": steps}
    plan = choose_network(network, data, noise, ordinal=ordinal, is_text=is_text, minutes=minutes, **sizes)
    loss, why_loss = choose_objective(objective, noise, uses_time=plan.uses_time)
    unit = pieces * loss.samples_per_time
    if batch_size is None:
        size = min(plan.batch_size, len(data))
        size = max(unit, size // unit * unit)
    else:
        size = _check.integer("batch_size", batch_size, least=1)
        if size % unit:
            raise ValueError(
                f"batch_size must be a multiple of {unit} (devices x accumulate"
                f"{' x samples_per_time' if loss.samples_per_time > 1 else ''}), got {size}"
            )
    rate = plan.lr if lr is None else _check.positive("lr", lr)
    settings = Settings(
        batch_size=size,
        lr=rate,
        warmup=plan.warmup,
        decay="end" if plan.decay else None,
        weight_decay=plan.weight_decay,
        betas=plan.betas,
        ema=0.999,
        precision=precision,
    )
    # Under absorbing noise an observed site is one that is not masked, as in training without masks of its own.
    masking = RandomMasks() if plan.takes_observed or noise.mask is None else None
    shown = [
        f"batches of {size} rows{_given(batch_size)}",
        f"learning rate {rate:g}{_given(lr)}",
        f"precision {precision}{'' if precision == PRECISION else ' (as given)'}",
    ]
    reasons = (why_noise, plan.reason, why_loss, f"training: {', '.join(shown)}")
    return Choice(noise, plan.build, loss, settings, masking, reasons)


def _given(value: object) -> str:
    return "" if value is None else " (as given)"
